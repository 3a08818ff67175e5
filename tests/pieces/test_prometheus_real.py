"""A real Prometheus scrapes the real daemon and raises the daemon's alert by the shipped rules."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.pieces.lab import CONFIG, alertmanager, daemon, prometheus, shipped_scrapes
from tests.serving import recorded, repeated, served
from tests.sinks.lab import until

BROKEN = ("g_draft_other_broken_0_start", "g_draft_other_broken_1_after_greedy")
HEALTHY = ("g_draft_same_healthy_0_start", "g_draft_same_healthy_1_after_greedy")
DEAD = {
    "alertname": "SpecDecodeCollapsed", "severity": "critical", "host": "gpu-1", "target": "qwen",
    "engine": "0", "model_name": "tiny",
}  # fmt: skip
RULES = CONFIG / "prometheus/rules-watchdog.yml"
QUIET = {"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """
    A dead drafter, the daemon, and two Alertmanagers.

    The daemon pushes to `pushed`; Prometheus, which scrapes the daemon, tells `ruled`.
    """
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        server = enter(served(*repeated(*BROKEN, 300)))
        pushed, ruled = (enter(alertmanager(tmp_path / name, QUIET)) for name in ("am-1", "am-2"))
        ours = enter(
            daemon(
                tmp_path / "daemon",
                targets=[{"url": server.url, "name": "qwen"}],
                alerting={"alertmanagers": [{"url": pushed.url}]},
            )
        )
        scrapes = shipped_scrapes({"serving-watchdog": ours.url})
        real = enter(prometheus(tmp_path / "prometheus", scrapes, [RULES], ruled.url))
        yield SimpleNamespace(
            server=server, pushed=pushed, ruled=ruled, daemon=ours, prometheus=real
        )


def test_the_rules_raise_the_alert_that_the_daemon_pushes_and_end_it_with_the_daemon(lab):
    (pushed,) = until(lambda: lab.pushed.alerts(alertname="SpecDecodeCollapsed"))
    (ruled,) = until(lambda: lab.ruled.alerts(alertname="SpecDecodeCollapsed"))
    assert pushed["labels"] == DEAD
    assert ruled["labels"] == DEAD
    assert ruled["fingerprint"] == pushed["fingerprint"], "one identity to an Alertmanager"
    assert ruled["annotations"]["runbook_url"] == pushed["annotations"]["runbook_url"]
    assert ruled["annotations"]["summary"] == (
        "gpu-1 qwen engine 0: the drafter is dead; answers are right and decode is slow"
    )

    # The daemon goes: nobody can say that it is over, so it is not.
    lab.daemon.process.send_signal(signal.SIGSTOP)
    until(lambda: lab.prometheus.value('up{job="serving-watchdog"}') == 0)
    until(lambda: lab.prometheus.value('max_over_time(up{job="serving-watchdog"}[3s])') == 0)
    until(lambda: lab.prometheus.query('ALERTS{alertname="ServingWatchdogMissing"}'))
    assert lab.prometheus.query('watchdog_alert_state{state="firing"}') == []
    assert len(lab.ruled.alerts(**DEAD)) == 1
    lab.daemon.process.send_signal(signal.SIGCONT)
    until(lambda: lab.prometheus.value('up{job="serving-watchdog"}') == 1)

    lab.daemon.pause("qwen")
    until(lambda: not lab.ruled.alerts(alertname="SpecDecodeCollapsed"))
    until(lambda: not lab.pushed.alerts(alertname="SpecDecodeCollapsed"))


def test_the_shipped_job_puts_names_and_hosts_right(tmp_path):
    """
    What prometheus_client 0.23 and later answer to this Prometheus, and what Ray makes of it:
    `vllm_` and `ray_vllm_`. Births are dropped. A target without a host is called by its address.
    """
    page = recorded(HEALTHY[1])
    with contextlib.ExitStack() as stack:
        told = [page, page.replace("vllm:", "vllm_"), page.replace("vllm:", "ray_vllm_")]
        ports = [stack.enter_context(served(text)).url.rpartition(":")[2] for text in told]
        (job,) = shipped_scrapes({"vllm": "127.0.0.1:0"})
        named = {
            "targets": [f"127.0.0.1:{port}" for port in ports[:2]],
            "labels": {"host": "gpu-1"},
        }
        job["static_configs"] = [named, {"targets": [f"localhost:{ports[2]}"]}]
        real = stack.enter_context(prometheus(tmp_path / "prometheus", [job]))
        query = 'count by (__name__) ({job="vllm", __name__=~".*spec_decode.*"})'
        until(lambda: real.value("count(vllm:spec_decode_num_drafts_total)") == 3)
        found = {series["metric"]["__name__"]: series["value"][1] for series in real.query(query)}
        hosts = {s["metric"]["host"]: s["value"][1] for s in real.query("count by (host) (up)")}
    assert hosts == {"gpu-1": "2", "localhost": "1"}
    assert found == {
        "vllm:spec_decode_num_drafts_total": "3",
        "vllm:spec_decode_num_draft_tokens_total": "3",
        "vllm:spec_decode_num_accepted_tokens_total": "3",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total": "12",
    }


def test_the_rules_read_no_metric_that_no_page_has():
    """Our exposition is held by the dashboard's test; this is vLLM's."""
    text = (CONFIG / "prometheus/rules-vllm.yml").read_text()
    rules = [r for g in yaml.safe_load(text)["groups"] for r in g["rules"]]
    names = {n for r in rules for n in re.findall(r"(?<!engine:)\bvllm:\w+", str(r["expr"]))}
    page = recorded(HEALTHY[1])
    older = {"vllm:time_per_output_token_seconds_count", "vllm:time_per_output_token_seconds_sum"}
    for name in names - older:
        assert re.search(rf"^{name}(_total)?\{{", page, re.MULTILINE), name
