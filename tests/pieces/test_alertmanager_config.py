"""config/alertmanager: amtool reads it, and a real Alertmanager routes and inhibits by it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
import yaml

from tests.binaries import find
from tests.pieces.lab import CONFIG, Alertmanager, alertmanager
from tests.pieces.promtool import alert_rules
from tests.sinks.lab import until
from watchdog.domain.alert import PATIENCE

FILE = CONFIG / "alertmanager/serving-watchdog.yml"
SHIPPED = yaml.safe_load(FILE.read_text())


def amtool(*arguments: str) -> str:
    run = subprocess.run(  # noqa: PLW1510  (its words are told first)
        [find("amtool"), *arguments], capture_output=True, text=True, timeout=20
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_amtool_accepts_it():
    assert "SUCCESS" in amtool("check-config", str(FILE))


def severity(name: str) -> str:
    """The one that an alert of this name has, wherever it comes from."""
    told = {name: patience.severity for name, patience in PATIENCE.items()}
    for file in ("rules-watchdog.yml", "rules-vllm.yml"):
        told |= {rule["alert"]: rule["labels"]["severity"] for rule in alert_rules(file)}
    return told.get(name, "none")


@pytest.mark.parametrize(
    ("name", "receivers"),
    [
        ("SpecDecodeCollapsed", "pager"),
        ("ServingDown", "pager"),
        ("SpecDecodeDegraded", "team"),
        ("ServingWatchdogMissing", "team"),
        ("ServingWatchdogTest", "team"),
        ("ServingWatchdogHeartbeat", "heartbeat"),
        ("VllmDrafterDead", "serving-watchdog,pager"),
        ("VllmQueueing", "serving-watchdog,team"),
        ("NodeDown", "team"),
    ],
)
def test_each_alert_goes_where_it_should(name, receivers):
    labels = [f"alertname={name}", f"severity={severity(name)}", "host=gpu-1"]
    assert amtool("config", "routes", "test", f"--config.file={FILE}", *labels).strip() == receivers


def test_no_alert_of_our_own_comes_back_to_us():
    for name in PATIENCE:
        labels = [f"alertname={name}", f"severity={severity(name)}"]
        told = amtool("config", "routes", "test", f"--config.file={FILE}", *labels)
        assert "serving-watchdog" not in told, name


def test_the_webhook_back_to_us_is_told_of_ends_and_shows_its_token():
    (receiver,) = [r for r in SHIPPED["receivers"] if r["name"] == "serving-watchdog"]
    (hook,) = receiver["webhook_configs"]
    assert hook["url"].endswith("/webhook/alertmanager")
    assert hook["send_resolved"] is True
    assert hook["max_alerts"] > 0
    assert hook["http_config"]["authorization"]["credentials_file"]


def test_every_name_that_it_speaks_of_exists():
    """An inhibition of a name that nothing has any more would never be noticed."""
    later = {"SpecDecodeNotPaying", "ServingOutputSuspect"}  # known, not yet raised
    rules = [r for f in ("rules-watchdog.yml", "rules-vllm.yml") for r in alert_rules(f)]
    known = set(PATIENCE) | {rule["alert"] for rule in rules} | later
    for rule in SHIPPED["inhibit_rules"]:
        for matcher in [*rule["source_matchers"], *rule["target_matchers"]]:
            name, _, value = matcher.replace("=~", "=").partition("=")
            if name == "alertname":
                for part in value.strip('"').split("|"):
                    assert part in known or any(k.startswith(part[:-2]) for k in known), part


# A real Alertmanager


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Iterator[Alertmanager]:
    with alertmanager(tmp_path_factory.mktemp("inhibition"), SHIPPED) as real:
        yield real


ENGINE = {"host": "gpu-1", "target": "qwen", "engine": "0", "model_name": "tiny"}
CARD = {"host": "gpu-1", "slot": "0000:05:00.0"}
PAGE = {"host": "gpu-1", "job": "vllm", "instance": "gpu-1:8000"}


def only(labels: dict[str, str], *names: str) -> dict[str, str]:
    return {name: labels[name] for name in names}


TARGET = only(ENGINE, "host", "target")
DOWN = {"alertname": "ServingDown", **TARGET}
STALLED = {"alertname": "ServingStalled", **ENGINE}
LOST = {"alertname": "GpuMissing", **CARD}
COLLAPSED = {"alertname": "SpecDecodeCollapsed", **ENGINE}

TWICE = (
    ("SpecDecodeCollapsed", "VllmDrafterDead"), ("SpecDecodeNotDrafting", "VllmNotDrafting"),
    ("ServingStalled", "VllmStalled"), ("ServingDown", "VllmDown"),
    ("ServingRestarting", "VllmRestarting"),
)  # fmt: skip
"""What the daemon and the rules on vLLM's metrics both say of one trouble."""
OF_SERVER = {"ServingDown", "ServingRestarting"}
DRAFTER_DEAD = {"alertname": "VllmDrafterDead", **PAGE, **ENGINE}

SILENCED = [
    (DOWN, COLLAPSED),
    (DOWN, {"alertname": "SpecDecodeNotDrafting", **ENGINE}),
    (DOWN, {"alertname": "SpecDecodeDegraded", **ENGINE}),
    (DOWN, {"alertname": "ServingStepsSlow", **ENGINE}),
    (DOWN, STALLED),
    (DOWN, {"alertname": "WatchdogBlind", **TARGET, "probe": "launch"}),
    (STALLED, {"alertname": "ServingStepsSlow", **ENGINE}),
    (LOST, {"alertname": "GpuLinkDegraded", **CARD}),
    (LOST, {"alertname": "GpuLinkErrors", **CARD}),
    (LOST, {"alertname": "GpuLinkWitnessesDisagree", **CARD}),
    (COLLAPSED, {"alertname": "SpecDecodeDegraded", **ENGINE}),
    (COLLAPSED, {"alertname": "SpecDecodeCliff", **ENGINE}),
    (COLLAPSED, {"alertname": "SpecDecodeShallowDrafts", **ENGINE}),
    ({"alertname": "VllmDown", **PAGE},
     {"alertname": "VllmDrafterDead", **PAGE, "engine": "0", "model_name": "tiny"}),
    *((COLLAPSED | {"alertname": ours}, {"alertname": theirs, **PAGE, **ENGINE})
      for ours, theirs in TWICE if ours not in OF_SERVER),
    *(({"alertname": ours, **TARGET}, {"alertname": theirs, **PAGE, **TARGET})
      for ours, theirs in TWICE if ours in OF_SERVER),
]  # fmt: skip
HEARD = [
    (DOWN, {"alertname": "ServingRestarting", **TARGET}),
    (DOWN, {"alertname": "SpecDecodeCollapsed", **ENGINE, "target": "other"}),
    (DOWN, {"alertname": "SpecDecodeCollapsed", **ENGINE, "host": "gpu-2"}),
    (DOWN, {"alertname": "GpuMissing", **CARD}),
    (COLLAPSED, {"alertname": "SpecDecodeDegraded", **ENGINE, "engine": "1"}),
    (COLLAPSED, {"alertname": "ServingStepsSlow", **ENGINE}),
    (LOST, {"alertname": "GpuLinkDegraded", **CARD, "slot": "0000:09:00.0"}),
    (LOST, {"alertname": "GpuLinkDegraded", **CARD, "host": "gpu-2"}),
    ({"alertname": "GpuMissing", "host": "gpu-1"},
     {"alertname": "GpuLinkDegraded", "host": "gpu-1"}),
    (COLLAPSED, DRAFTER_DEAD | {"target": "other"}),
    (COLLAPSED, DRAFTER_DEAD | {"engine": "1"}),
    (COLLAPSED, DRAFTER_DEAD | {"host": "gpu-2"}),
    (COLLAPSED, {k: v for k, v in DRAFTER_DEAD.items() if k != "target"}),
    (DOWN, {"alertname": "VllmDown", **PAGE}),  # of a server that the daemon may not watch
]  # fmt: skip


def pair(found) -> str:
    return found["alertname"] if isinstance(found, dict) else str(found)


@pytest.mark.parametrize(
    ("number", "source", "target", "silenced"),
    [
        (i, source, target, silenced)
        for i, (source, target, silenced) in enumerate(
            [*((s, t, True) for s, t in SILENCED), *((s, t, False) for s, t in HEARD)]
        )
    ],
    ids=pair,
)
def test_an_alert_is_silenced_by_its_cause_and_by_nothing_else(
    real, number, source, target, silenced
):
    """Hosts of its own for each pair: the pairs share one Alertmanager."""
    source, target = ({**alert, "host": f"{alert['host']}-{number}"} for alert in (source, target))
    if "instance" in source:
        source, target = ({**a, "instance": f"gpu-1-{number}:8000"} for a in (source, target))
    canary = [{**alert, "host": f"canary-{number}"} for alert in (DOWN, COLLAPSED)]
    real.post(source, target)
    real.post(*canary)  # inhibition takes alerts in their order: seen here, ours were seen before

    def by(alert: dict[str, str]) -> list[str]:
        (found,) = real.alerts(**alert)
        return found["status"]["inhibitedBy"]

    until(lambda: by(canary[1]))
    (cause,) = real.alerts(**source)
    assert by(source) == []
    assert by(target) == ([cause["fingerprint"]] if silenced else [])
