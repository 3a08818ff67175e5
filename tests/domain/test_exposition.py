from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.binaries import find
from watchdog.domain.alert import Alert, State
from watchdog.domain.exposition import Totals, expose
from watchdog.domain.families import LONGEST
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.report import Report
from watchdog.domain.sample import Reading, labels

ENGINE = {"target": "qwen", "engine": "0", "model_name": "qwen3"}
SEEN = {
    "acceptance_length": 1.079,
    "draft_acceptance": 0.027,
    "draft_tokens_per_draft": 2.96,
    "positions": [0.067, 0.0099],
    "tokens_per_step": 1.08,
    "step_seconds": 0.031,
}


def finding(evidence=None, check="acceptance_length", verdict=Verdict.CRITICAL, **subject):
    said = Argument("said", evidence=SEEN if evidence is None else evidence)
    name = "ServingStepsSlow" if check == "step_time" else "SpecDecodeCollapsed"
    return Finding(name, labels(**(subject or ENGINE)), verdict, lambda: said, check=check)


def report(*findings: Finding, **more) -> Report:
    return Report("gpu-1", "1.0", 1000.0, findings=findings, **more)


def samples(report: Report | None, totals: Totals | None = None) -> dict[tuple, float]:
    """All series of the text, each by its name and its labels that are not empty."""
    text = expose(report, totals or Totals(), "1.0").decode()
    found: dict[tuple, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            kept = {name: value for name, value in sample.labels.items() if value}
            key = (sample.name, *sorted(kept.items()))
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found


def key(name: str, **pairs: str) -> tuple:
    return (name, *sorted(pairs.items()))


def promtool(text: bytes) -> None:
    command = [find("promtool"), "check", "metrics"]
    ran = subprocess.run(command, input=text, capture_output=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr.decode(), ran.stdout.decode()) == (0, "", "")


def test_before_the_first_round_only_our_own_state_is_shown():
    assert samples(None, Totals(reload_at=5.0)) == {
        key("watchdog_store_durable"): 1.0,
        key("watchdog_build_info", version="1.0"): 1.0,
        key("watchdog_config_last_reload_successful"): 1.0,
        key("watchdog_config_last_reload_success_timestamp_seconds"): 5.0,
        key("watchdog_rounds_total"): 0.0,
    }


def test_an_engines_figures_are_shown_as_its_check_saw_them():
    found = samples(report(finding()))
    expected = {
        "watchdog_acceptance_length": 1.079,
        "watchdog_draft_acceptance_ratio": 0.027,
        "watchdog_draft_tokens_per_draft": 2.96,
        "watchdog_tokens_per_step": 1.08,
        "watchdog_step_seconds": 0.031,
    }
    assert {name: found[key(name, **ENGINE)] for name in expected} == expected
    name = "watchdog_position_acceptance_ratio"
    assert found[key(name, position="0", **ENGINE)] == 0.067
    assert found[key(name, position="1", **ENGINE)] == 0.0099


def test_the_step_time_is_taken_from_the_check_that_is_about_it():
    both = report(finding(), finding({"step_seconds": 0.05}, "step_time"))
    assert samples(both)[key("watchdog_step_seconds", **ENGINE)] == 0.05


def test_what_an_engine_is_used_to_is_taken_from_the_check_that_learns_it():
    name = key("watchdog_baseline_acceptance_length", **ENGINE)
    learned = finding({"baseline": 3.77, "acceptance_length": 2.5}, "baseline")
    found = samples(report(finding({**SEEN, "baseline": 9.0}), learned))
    assert (found[name], found[key("watchdog_acceptance_length", **ENGINE)]) == (3.77, 1.079)
    assert name not in samples(report(finding(), finding({"baseline_days": 3}, "baseline")))


def test_a_figure_that_is_not_known_has_no_series():
    unknown = {
        **SEEN,
        "acceptance_length": None,
        "tokens_per_step": float("nan"),
        "positions": None,
    }
    names = {name for name, *_ in samples(report(finding(unknown), finding({}, engine="1")))}
    assert not names & {
        "watchdog_acceptance_length",
        "watchdog_tokens_per_step",
        "watchdog_position_acceptance_ratio",
    }
    assert "watchdog_draft_acceptance_ratio" in names


def test_an_argument_nobody_needs_is_not_made():
    def never() -> Argument:
        raise AssertionError("made")

    quiet = Finding("ServingDown", labels(target="qwen"), Verdict.OK, never, check="serving")
    name = key("watchdog_finding_verdict", check="serving", alertname="ServingDown", target="qwen")
    assert samples(report(quiet))[name] == 0.0


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_is_its_number(verdict):
    found = samples(report(replace(finding(verdict=verdict), conclusive=verdict is Verdict.OK)))
    subject = {"check": "acceptance_length", "alertname": "SpecDecodeCollapsed", **ENGINE}
    assert found[key("watchdog_finding_verdict", **subject)] == verdict.value
    assert found[key("watchdog_finding_conclusive", **subject)] == (verdict is Verdict.OK)


def test_two_sources_of_one_target_stay_apart():
    blind = [
        Finding(
            "WatchdogBlind", labels(target="qwen", probe=probe), verdict, Argument, check="reading"
        )  # type: ignore[arg-type]
        for probe, verdict in (("vllm_metrics", Verdict.UNKNOWN), ("nvml", Verdict.OK))
    ]
    found = samples(report(*blind))
    subject = {"check": "reading", "alertname": "WatchdogBlind", "target": "qwen"}
    assert found[key("watchdog_finding_verdict", probe="vllm_metrics", **subject)] == 3
    assert found[key("watchdog_finding_verdict", probe="nvml", **subject)] == 0


def test_of_two_findings_that_look_alike_the_worse_is_shown():
    one = finding(verdict=Verdict.CRITICAL, gpu="0", target="a")
    two = finding(verdict=Verdict.OK, gpu="1", target="a")
    subject = {"check": "acceptance_length", "alertname": "SpecDecodeCollapsed", "target": "a"}
    for order in ((one, two), (two, one)):
        assert samples(report(*order))[key("watchdog_finding_verdict", **subject)] == 2


def test_alerts_readings_pauses_and_deliveries_are_shown():
    alerts = (Alert(finding(), State.FIRING), Alert(finding(target="b"), State.RESOLVED))
    readings = (
        Reading("vllm_metrics", "qwen", took=0.02),
        Reading("vllm_metrics", "b", error="refused", took=5.0),
    )
    shown = report(alerts=alerts, readings=readings, paused={"b": 2000.0}, skew=60.0)
    found = samples(
        shown, Totals(7, {("alertmanager", "http://am-1:9093", "ok"): 3}, reload_ok=False)
    )
    name = "SpecDecodeCollapsed"
    assert found[key("watchdog_alert_state", alertname=name, state="firing", **ENGINE)] == 1
    assert found[key("watchdog_alert_state", alertname=name, state="resolved", target="b")] == 1
    assert found[key("watchdog_probe_success", probe="vllm_metrics", target="qwen")] == 1
    assert found[key("watchdog_probe_success", probe="vllm_metrics", target="b")] == 0
    assert found[key("watchdog_probe_duration_seconds", probe="vllm_metrics", target="b")] == 5
    assert found[key("watchdog_last_round_timestamp_seconds")] == 1060
    assert found[key("watchdog_paused", target="qwen")] == 0
    assert found[key("watchdog_paused", target="b")] == 1
    assert found[key("watchdog_rounds_total")] == 7
    assert found[key("watchdog_config_last_reload_successful")] == 0
    told = {"sink": "alertmanager", "destination": "http://am-1:9093", "result": "ok"}
    assert found[key("watchdog_notifications_total", **told)] == 3


HOSTILE = (
    'a"b\\c\nd\r\te{}=,# HELP x\x00\x7f\u2028é\ud800',
    "\\",
    '"',
    "x" * 10_000,
    "watchdog_up 1\nforged 2",
)


def everything(*texts: str) -> Report:
    findings = tuple(
        finding(target=text, engine=text, model_name=text, replica=text, probe=text)
        for text in texts
    )
    return Report(
        "gpu-1",
        "1.0",
        1000.0,
        tuple(Reading(text, text, took=1e308, error=text) for text in texts),
        findings,
        tuple(Alert(told, State.FIRING) for told in findings),
        paused=dict.fromkeys(texts, 1.0),
    )


def test_promtool_finds_no_fault_whatever_labels_hold():
    totals = Totals(1, {(text, text, text): 2 for text in HOSTILE})
    promtool(expose(everything("qwen", *HOSTILE), totals, HOSTILE[0]))


def test_promtool_finds_no_fault_before_the_first_round():
    promtool(expose(None, Totals(), "1.0"))


def test_labels_come_back_as_they_were():
    text = 'a"b\\c\nd\té'
    found = samples(everything(text))
    assert found[key("watchdog_probe_success", probe=text, target=text)] == 0


def test_long_labels_that_are_cut_to_the_same_text_are_one_series():
    found = samples(everything("x" * LONGEST + "a", "x" * LONGEST + "b"))
    assert found[key("watchdog_paused", target="x" * LONGEST)] == 1


@given(st.lists(st.text(), max_size=4, unique=True))
def test_any_text_is_a_label_of_one_line(texts):
    body = expose(everything(*texts), Totals(), "1.0").decode()
    lines = body.split("\n")
    assert all(line.startswith(("# ", "watchdog_")) for line in lines[:-1])
    samples(everything(*texts))  # no series twice, and the library reads all of it


def test_memory_alone_and_notices_that_wait_are_shown() -> None:
    shown = samples(None, Totals(durable=False, waiting={"hook": 3, "other": 0}))
    assert shown[key("watchdog_store_durable")] == 0.0
    assert shown[key("watchdog_notices_waiting", destination="hook")] == 3.0
    assert shown[key("watchdog_notices_waiting", destination="other")] == 0.0
