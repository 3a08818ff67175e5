"""A report as Prometheus text: what /metrics shows of the last round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.registry import Collector

from watchdog.domain.exposition_gpus import of_gpus
from watchdog.domain.families import Family, Key, counter, gauge, number, values
from watchdog.domain.finding import Finding
from watchdog.domain.report import Report
from watchdog.domain.sample import HOST

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

ENGINE: Final = ("target", "engine", "model_name", "replica")
SUBJECT: Final = (*ENGINE, "probe", "slot")
"""The labels of every family about a subject, "" where absent: a family's labels never change."""

MEASURED: Mapping[str, tuple[str, str]] = {
    "acceptance_length": (
        "watchdog_acceptance_length",
        "Mean tokens per draft, bonus token included.",
    ),
    "draft_acceptance": (
        "watchdog_draft_acceptance_ratio",
        "Accepted tokens over draft tokens, 0 to 1.",
    ),
    "draft_tokens_per_draft": (
        "watchdog_draft_tokens_per_draft",
        "Mean tokens that a draft proposes.",
    ),
    "tokens_per_step": (
        "watchdog_tokens_per_step",
        "Tokens per decode update of a request, a witness that needs no speculation counter.",
    ),
    "step_seconds": (
        "watchdog_step_seconds",
        "Seconds between two decode updates of a request.",
    ),
    "baseline": (
        "watchdog_baseline_acceptance_length",
        "The acceptance length that an engine is used to, in tokens; absent while it is learned.",
    ),
}
"""Key of a finding's evidence: name and help of the gauge that shows it."""

SOURCES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(MEASURED, ("acceptance_length",)),
    "step_seconds": ("step_time", "acceptance_length"),
    "baseline": ("baseline",),
}
"""Key of the evidence: the checks that know it, the one that is believed first."""


@dataclass(frozen=True)
class Totals:
    """
    What the daemon counts of itself since it started.

    `notifications` is by (sink, instance, result); `reload_at` the Unix seconds of the last
    configuration that was taken, 0 for never. `durable`: what is remembered is on disk.
    `waiting` are the notices that each webhook has not taken yet. `reached` says of each
    (sink, instance) that was tried lately whether it took what it was sent.
    """

    rounds: int = 0
    notifications: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    reload_ok: bool = True
    reload_at: float = 0.0
    durable: bool = True
    waiting: Mapping[str, int] = field(default_factory=dict)
    reached: Mapping[tuple[str, str], bool] = field(default_factory=dict)


def expose(report: Report | None, totals: Totals, version: str) -> bytes:
    """Render the last report, None before the first, as text of version 0.0.4 in UTF-8."""
    return generate_latest(_Families([*_own(totals, version), *_of_report(report)]))


class _Families(Collector):
    """What `generate_latest` wants to be handed."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def _of_report(report: Report | None) -> Iterator[Family]:
    if report is None:
        return
    yield from _measured(report)
    yield from of_gpus(report)
    yield from _findings(report)
    yield _alerts(report)
    yield from _probes(report)
    yield gauge(
        "watchdog_last_round_timestamp_seconds",
        "When the last round was, in Unix seconds.",
        (),
        {(): report.now + report.skew},
    )
    targets = {reading.target for reading in report.readings} | set(report.paused)
    targets -= {HOST}
    yield gauge(
        "watchdog_paused",
        "1 while an operator keeps the target from being alerted about.",
        ("target",),
        {(target,): float(target in report.paused) for target in targets},
    )


def _own(totals: Totals, version: str) -> Iterator[Family]:
    yield gauge(
        "watchdog_build_info", "The version that runs; always 1.", ("version",), {(version,): 1.0}
    )
    yield gauge(
        "watchdog_config_last_reload_successful",
        "0 while the configuration file has faults and the one before is kept.",
        (),
        {(): float(totals.reload_ok)},
    )
    yield gauge(
        "watchdog_config_last_reload_success_timestamp_seconds",
        "When a configuration was last taken, in Unix seconds.",
        (),
        {(): totals.reload_at},
    )
    yield counter("watchdog_rounds", "Rounds finished since the start.", (), {(): totals.rounds})
    yield gauge(
        "watchdog_store_durable",
        "1 while alerts and what was learned are kept on disk, 0 while in memory alone.",
        (),
        {(): float(totals.durable)},
    )
    yield gauge(
        "watchdog_notices_waiting",
        "Changes of alerts that a webhook has not taken yet.",
        ("destination",),
        {(name,): float(count) for name, count in totals.waiting.items()},
    )
    yield gauge(
        "watchdog_destination_reached",
        "1 if a sink's destination answered well when it was last told or asked, else 0.",
        ("sink", "destination"),
        {place: float(ok) for place, ok in totals.reached.items()},
    )
    # Not `instance`: that label is the scrape's own, and Prometheus would rename ours.
    yield counter(
        "watchdog_notifications",
        "Alerts and changes handed to a sink's destination, by result.",
        ("sink", "destination", "result"),
        totals.notifications,
    )


def _measured(report: Report) -> Iterator[Family]:
    """Show the engines' figures: the evidence of the checks in SOURCES, and of no other."""
    found: dict[str, dict[Key, float]] = {key: {} for key in MEASURED}
    positions: dict[Key, float] = {}
    by_check: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_check.setdefault(finding.check, []).append(finding)
    for key, checks in SOURCES.items():
        for finding in (f for check in checks for f in by_check.get(check, ())):
            value = number(finding.argument.evidence.get(key))
            if value is not None:
                found[key].setdefault(values(finding.subject, ENGINE), value)
    for finding in by_check.get("acceptance_length", ()):
        ratios = finding.argument.evidence.get("positions")
        for i, ratio in enumerate(ratios if isinstance(ratios, (list, tuple)) else ()):
            value = number(ratio)
            if value is not None:
                positions.setdefault((*values(finding.subject, ENGINE), str(i)), value)
    for key, (name, about) in MEASURED.items():
        yield gauge(name, about, ENGINE, found[key])
    yield gauge(
        "watchdog_position_acceptance_ratio",
        "Share of the drafts whose token at this position was accepted, 0 to 1.",
        (*ENGINE, "position"),
        positions,
    )


def _findings(report: Report) -> Iterator[Family]:
    verdicts: dict[Key, float] = {}
    conclusive: dict[Key, float] = {}
    for finding in report.findings:
        key = (finding.check, finding.alertname, *values(finding.subject, SUBJECT))
        verdicts[key] = max(float(finding.verdict), verdicts.get(key, 0.0))
        conclusive[key] = min(float(finding.conclusive), conclusive.get(key, 1.0))
    names = ("check", "alertname", *SUBJECT)
    yield gauge(
        "watchdog_finding_verdict",
        "Verdict of a check on a subject: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.",
        names,
        verdicts,
    )
    yield gauge(
        "watchdog_finding_conclusive",
        "0 while there is too little evidence for the verdict to mean anything.",
        names,
        conclusive,
    )


def _alerts(report: Report) -> Family:
    states = {
        (alert.finding.alertname, alert.state.value, *values(alert.finding.subject, SUBJECT)): 1.0
        for alert in report.alerts
    }
    return gauge(
        "watchdog_alert_state",
        "1 for each alert that fires or was resolved within 15 minutes.",
        ("alertname", "state", *SUBJECT),
        states,
    )


def _probes(report: Report) -> Iterator[Family]:
    names = ("probe", "target", "slot")
    success: dict[Key, float] = {}
    took: dict[Key, float] = {}
    for reading in report.readings:
        key = (reading.probe, reading.target, reading.slot)
        success[key] = float(reading.error is None)
        took[key] = reading.took
    yield gauge("watchdog_probe_success", "1 if the last reading had no error.", names, success)
    yield gauge("watchdog_probe_duration_seconds", "How long the last reading took.", names, took)
