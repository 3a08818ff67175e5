"""rules-watchdog.yml under promtool: each alert on both of its sides, and how long a word lasts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pieces.promtool import Lines, alert_rules, check, firing, silent
from watchdog.domain.alert import PATIENCE

FILE = "rules-watchdog.yml"
MINE = {"job": "serving-watchdog", "instance": "gpu-1:19590", "host": "gpu-1"}
NEVER_HERE = {"ServingWatchdogTest", "ServingWatchdogHeartbeat"}
"""Sent by the daemon alone: rules would send them without being asked."""


def named(name: str, **labels: str) -> str:
    pairs = {**labels, **MINE}
    return name + "{" + ", ".join(f'{k}="{v}"' for k, v in pairs.items()) + "}"


UP, ROUND = named("up"), named("watchdog_last_round_timestamp_seconds")
ENGINE = {"target": "qwen", "engine": "0", "model_name": "tiny"}
CARD = {"slot": "0000:05:00.0"}
SOURCE = {"probe": "vllm_metrics", "target": "qwen"}


def state(alertname: str, is_now: str, **subject: str) -> str:
    """Name an alert's series as our exposition writes it: absent labels are empty."""
    every = dict.fromkeys(("target", "engine", "model_name", "replica", "probe", "slot"), "")
    return named("watchdog_alert_state", alertname=alertname, state=is_now, **{**every, **subject})


class Daemon:
    """The daemon's page, minute by minute."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._at = 0

    def rounds(self, count: int, **values: float) -> Daemon:
        """Append minutes with a round each."""
        for _ in range(count):
            self._lines.minutes(1, **{UP: 1, ROUND: 60.0 * self._at, **values})
            self._at += 1
        return self

    def says(self, count: int, page: dict[str, float]) -> Daemon:
        """Append minutes with this page."""
        self._lines.minutes(count, **page)
        self._at += count
        return self

    @property
    def series(self):
        return self._lines.series()


def subject_of(alertname: str) -> tuple[dict[str, str], str]:
    """The labels that an alert of this name has, and how its summary begins."""
    if alertname.startswith(("Gpu", "TensorParallel")):
        return CARD, "gpu-1 slot 0000:05:00.0: "
    if alertname == "WatchdogBlind":
        return SOURCE, "gpu-1 qwen: "
    if alertname in {"ServingDown", "ServingRestarting"}:
        return {"target": "qwen"}, "gpu-1 qwen: "
    return ENGINE, "gpu-1 qwen engine 0: "


# What the daemon judges


def test_every_alert_of_the_daemon_has_its_rule_with_its_severity():
    told = {r["alert"]: r["labels"] for r in alert_rules(FILE)}
    ours = {name: {"severity": p.severity} for name, p in PATIENCE.items()}
    for name in NEVER_HERE:
        ours.pop(name, None)
    assert {name: labels for name, labels in told.items() if name in PATIENCE} == ours
    assert set(told) - set(PATIENCE) == {
        "ServingWatchdogMissing", "ServingWatchdogConfigReloadFailed",
        "ServingWatchdogNotDelivering", "ServingWatchdogForgetful",
    }  # fmt: skip


def test_each_alert_fires_and_resolves_with_the_daemon_as_the_same_alert(tmp_path):
    """No job and no instance: these labels are what the daemon itself would push."""
    names = sorted(set(PATIENCE) - NEVER_HERE)
    on = {state(n, "firing", **subject_of(n)[0]): 1.0 for n in names}
    off = {state(n, "resolved", **subject_of(n)[0]): 1.0 for n in names}
    daemon = Daemon().rounds(5).rounds(5, **on).rounds(5, **off)
    tests: list[dict[str, Any]] = []
    for name in names:
        (rule,) = [r for r in alert_rules(FILE) if r["alert"] == name]
        subject, begins = subject_of(name)
        says = rule["annotations"]["summary"].rpartition("}}: ")[2]
        tests += silent(name, 4, 10, 12)
        tests += [firing(FILE, name, at, begins + says, host="gpu-1", **subject) for at in (5, 9)]
    check(tmp_path, FILE, daemon.series, tests)


FIRES = state("SpecDecodeCollapsed", "firing", **ENGINE)
DEAD = "gpu-1 qwen engine 0: the drafter is dead; answers are right and decode is slow"


def collapsed(at: int) -> dict[str, Any]:
    return firing(FILE, "SpecDecodeCollapsed", at, DEAD, host="gpu-1", **ENGINE)


def test_a_daemon_that_is_away_resolves_nothing(tmp_path):
    """Down for a night, then up and before its first round; its first word of it ends it."""
    daemon = Daemon().rounds(5, **{FIRES: 1}).says(300, {UP: 0}).says(3, {UP: 1}).rounds(5)
    tests = [*[collapsed(at) for at in (4, 6, 60, 304, 307)], *silent("SpecDecodeCollapsed", 308)]
    check(tmp_path, FILE, daemon.series, tests)


def test_a_resolved_alert_does_not_come_back_while_the_daemon_is_away(tmp_path):
    daemon = Daemon().rounds(5, **{FIRES: 1}).rounds(5).says(30, {UP: 0})
    check(tmp_path, FILE, daemon.series, silent("SpecDecodeCollapsed", 6, 11, 20, 39))


GONE = state("SpecDecodeCollapsed", "resolved", **ENGINE)
OTHER = state("SpecDecodeCollapsed", "firing", **{**ENGINE, "engine": "1"})


@pytest.mark.parametrize("says", [{}, {GONE: 1}, {OTHER: 1}], ids=["nothing", "over", "of another"])
def test_what_the_daemon_ended_itself_ends_here(tmp_path, says):
    """
    A target that left its configuration, an engine that is gone: as soon as it says so, also
    where it was restarted in between.
    """
    daemon = Daemon().rounds(5, **{FIRES: 1}).says(10, {UP: 0}).rounds(10, **says)
    other = firing(FILE, "SpecDecodeCollapsed", 17, DEAD.replace("engine 0", "engine 1"),
                   host="gpu-1", **{**ENGINE, "engine": "1"})  # fmt: skip
    after = [other] if OTHER in says else silent("SpecDecodeCollapsed", 15, 24)
    check(tmp_path, FILE, daemon.series, [*[collapsed(at) for at in (4, 14)], *after])


def test_the_alerts_of_a_host_that_left_the_configuration_end(tmp_path):
    daemon = Daemon().rounds(5, **{FIRES: 1}).says(5, {})
    check(tmp_path, FILE, daemon.series, [collapsed(4), *silent("SpecDecodeCollapsed", 6)])


def test_an_alert_of_another_host_is_another_alert(tmp_path):
    daemon = Daemon().rounds(8, **{FIRES: 1})
    other = {k.replace("gpu-1", "gpu-2"): v for k, v in daemon.series.items()}
    ours = collapsed(6)
    theirs = firing(FILE, "SpecDecodeCollapsed", 6, DEAD.replace("gpu-1", "gpu-2"),
                    host="gpu-2", **ENGINE)  # fmt: skip
    ours["exp_alerts"] += theirs["exp_alerts"]
    check(tmp_path, FILE, {**daemon.series, **other}, [ours])


# The daemon itself

MISSING = "nobody watches: serving-watchdog does not answer, or makes no rounds"


def missing(at: int, who: str = "gpu-1", labels: dict[str, str] = MINE) -> dict[str, Any]:
    return firing(FILE, "ServingWatchdogMissing", at, f"{who}: {MISSING}", **labels)


@pytest.mark.parametrize(
    "page", [{UP: 0}, {UP: 1}], ids=["does not answer", "has not had one round"]
)
def test_a_daemon_that_is_gone_is_told_after_5_minutes(tmp_path, page):
    daemon = Daemon().rounds(5).says(10, page).rounds(5)
    tests = [*silent("ServingWatchdogMissing", 4, 9, 15), missing(10), missing(14)]
    check(tmp_path, FILE, daemon.series, tests)


def test_a_daemon_that_makes_no_rounds_is_told(tmp_path):
    daemon = Daemon().rounds(5).says(15, {UP: 1, ROUND: 240.0}).rounds(5)
    tests = [*silent("ServingWatchdogMissing", 9, 14, 20), missing(15), missing(19)]
    check(tmp_path, FILE, daemon.series, tests)


def test_a_round_every_5_minutes_is_no_absence(tmp_path):
    daemon = Daemon()
    for i in range(10):
        daemon.says(5, {UP: 1, ROUND: 300.0 * i})
    check(tmp_path, FILE, daemon.series, silent("ServingWatchdogMissing", 20, 34, 49))


def test_no_job_of_that_name_at_all_is_told(tmp_path):
    tests = [*silent("ServingWatchdogMissing", 3),
             missing(6, "every host", {"job": "serving-watchdog"})]  # fmt: skip
    check(tmp_path, FILE, {"up{job='other'}": "1x20"}, tests)


@pytest.mark.parametrize(
    ("alert", "metric", "says"),
    [
        (
            "ServingWatchdogConfigReloadFailed",
            "watchdog_config_last_reload_successful",
            "gpu-1: the configuration of serving-watchdog has faults, the one before is in force",
        ),
        (
            "ServingWatchdogForgetful",
            "watchdog_store_durable",
            "gpu-1: serving-watchdog keeps its state in memory only; "
            "a restart would forget open alerts",
        ),
    ],
)
def test_a_gauge_of_ours_that_is_0_for_5_minutes_is_told(tmp_path, alert, metric, says):
    daemon = Daemon()
    for value, count in ((1, 5), (0, 4), (1, 5), (0, 10), (1, 5)):
        daemon.rounds(count, **{named(metric): value})
    tests = [*silent(alert, 4, 8, 13, 18, 24), firing(FILE, alert, 19, says, **MINE)]
    check(tmp_path, FILE, daemon.series, tests)


def sent(sink: str, destination: str, result: str) -> str:
    return named("watchdog_notifications_total", sink=sink, destination=destination, result=result)


AM_1, AM_2 = (("alertmanager", f"http://am-{i}:9093") for i in (1, 2))
HOOK_1, HOOK_2 = ("webhook", "chat"), ("webhook", "tickets")


@pytest.mark.parametrize(
    ("works", "fails", "told"),
    [
        ([], [AM_1, AM_2], {"sink": "alertmanager"}),
        ([AM_1], [AM_2], None),
        ([HOOK_1], [HOOK_2], {"sink": "webhook", "destination": "tickets"}),
        ([AM_1], [HOOK_1], {"sink": "webhook", "destination": "chat"}),
        ([AM_1, HOOK_1], [], None),
    ],
    ids=["whole cluster", "one instance", "one webhook of two", "webhook only", "none"],
)
def test_what_no_instance_of_a_cluster_took_is_told(tmp_path, works, fails, told):
    series = {sent(*to, "ok"): "0+2x40" for to in works}
    series |= {sent(*to, "ok"): "7x40" for to in fails}
    series |= {sent(*to, "failed"): "0x10 1+1x29" for to in fails}
    alert = "ServingWatchdogNotDelivering"
    tests = silent(alert, 10, 40) if told is None else silent(alert, 10)
    if told:
        who = " ".join([told["sink"], told.get("destination", "")])
        says = f"gpu-1: serving-watchdog cannot deliver: {who}"
        tests.append(firing(FILE, alert, 30, says, **MINE, **told))
    check(tmp_path, FILE, series, tests)


@pytest.mark.parametrize("before", ["_x10", "0x10"], ids=["seen first at 1", "born at 0"])
def test_one_thing_that_was_dropped_is_told_while_nothing_arrives(tmp_path, before):
    """A webhook drops what is too old and may try nothing else for days."""
    alert, series = "ServingWatchdogNotDelivering", f"{before} 1x30"
    fails = {sent(*to, "failed"): series for to in (AM_1, HOOK_1, HOOK_2)}
    cluster, hook = {"sink": "alertmanager"}, {"sink": "webhook", "destination": "tickets"}
    says = "gpu-1: serving-watchdog cannot deliver: "
    told = firing(FILE, alert, 18, says + "alertmanager ", **MINE, **cluster)
    told["exp_alerts"] += firing(FILE, alert, 18, says + "webhook tickets", **MINE, **hook)[
        "exp_alerts"
    ]
    tests = [*silent(alert, 10, 14, 25, 39), told]
    check(tmp_path, FILE, {**fails, sent(*HOOK_1, "ok"): series}, tests)


def test_an_old_failure_is_not_new_because_a_scrape_failed(tmp_path):
    series = {sent(*HOOK_1, "failed"): "5x20 stale _x4 5x30"}
    check(tmp_path, FILE, series, silent("ServingWatchdogNotDelivering", 25, 30, 36, 42, 50))


def test_a_destination_that_was_removed_is_told_no_longer_than_the_window(tmp_path):
    series = {sent(*HOOK_2, "failed"): "0x10 1+1x20 stale _x20"}
    told = {"sink": "webhook", "destination": "tickets"}
    says = "gpu-1: serving-watchdog cannot deliver: webhook tickets"
    alert = "ServingWatchdogNotDelivering"
    tests = [firing(FILE, alert, 30, says, **MINE, **told), *silent(alert, 43, 50)]
    check(tmp_path, FILE, series, tests)


def test_a_failure_that_is_over_is_not_told(tmp_path):
    series = {sent(*AM_1, "failed"): "0x10 1 2 3 3x30", sent(*AM_1, "ok"): "0x12 1+1x30"}
    check(tmp_path, FILE, series, silent("ServingWatchdogNotDelivering", 12, 20, 25, 35))
