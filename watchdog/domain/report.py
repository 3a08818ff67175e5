"""The one thing a round hands on: to sinks, to the port, to the shell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple

from watchdog.domain.alert import Alert, Change
from watchdog.domain.finding import Finding, Verdict, worst
from watchdog.domain.received import Received
from watchdog.domain.sample import Labels, Reading

PRODUCT = "serving-watchdog"

RUNBOOK = (
    "https://github.com/serving-watchdog/serving-watchdog/blob/main/docs/alerts/{alertname}.md"
)


class Delivery(NamedTuple):
    """What one instance of a sink answered to `count` alerts or changes; `detail` in words."""

    sink: str
    instance: str
    ok: bool
    detail: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls


@dataclass
class Report:
    """
    All of one round; not changed once it is made.

    Times inside are on the round's own timeline, which no clock step bends; `skew` seconds
    added give the wall clock's time. `alerts` are the firing ones and the lately resolved;
    `paused` says until when (timeline) each paused target is not alerted. `received` are alerts
    of other programs that name us, with what was seen here, newest first.
    """

    host: str
    version: str
    now: float
    readings: tuple[Reading, ...] = ()
    findings: tuple[Finding, ...] = ()
    alerts: tuple[Alert, ...] = ()
    changes: tuple[Change, ...] = ()
    paused: Mapping[str, float] = field(default_factory=dict)
    labels: Labels = ()
    skew: float = 0.0
    received: tuple[Received, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all findings."""
        return worst(f.verdict for f in self.findings)

    def wall(self, at: float) -> str:
        """RFC 3339, UTC, of a time of this report's timeline."""
        return rfc3339(at + self.skew)

    def of_target(self, target: str) -> list[Finding]:
        """Return the findings whose subject names this target."""
        return [f for f in self.findings if ("target", target) in f.subject]


def rfc3339(at: float) -> str:
    """Unix seconds as `2026-11-30T03:12:16Z`, with milliseconds where there are some."""
    moment = datetime.fromtimestamp(round(at, 3), timezone.utc)
    text = moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def seconds_of(text: str) -> float:
    """Read what `rfc3339` writes; a time without a zone is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def as_json(report: Report, runbook: str = RUNBOOK) -> dict[str, Any]:
    """The report as plain data (DESIGN 4.2). `runbook` is a URL with `{alertname}` in it."""
    return {
        "product": PRODUCT,
        "version": report.version,
        "host": report.host,
        "at": report.wall(report.now),
        "verdict": report.verdict.name,
        "readings": [_reading(r) for r in report.readings],
        "findings": [finding_as_json(f, runbook) for f in report.findings],
        "alerts": [_alert(a, report) for a in report.alerts],
        "paused": {target: report.wall(until) for target, until in report.paused.items()},
        "received": [_received(one, report) for one in report.received],
    }


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "probe": reading.probe,
        "target": reading.target,
        "slot": reading.slot,
        "ok": reading.error is None,
        "took_seconds": round(reading.took, 6),
        "error": reading.error,
        "facts": dict(reading.facts),
    }


def finding_as_json(finding: Finding, runbook: str = RUNBOOK) -> dict[str, Any]:
    """One finding as plain data."""
    argument = finding.argument
    return {
        "check": finding.check,
        "alertname": finding.alertname,
        "verdict": finding.verdict.name,
        "conclusive": finding.conclusive,
        "subject": dict(finding.subject),
        "value": finding.value,
        "unit": finding.unit,
        "expected": argument.expected,
        "summary": argument.summary,
        "evidence": dict(argument.evidence),
        "ruled_out": list(argument.ruled_out),
        "suspects": list(argument.suspects),
        "next_step": argument.next_step,
        "runbook_url": runbook.format(alertname=finding.alertname),
    }


def _alert(alert: Alert, report: Report) -> dict[str, Any]:
    return {
        "alertname": alert.finding.alertname,
        "subject": dict(alert.finding.subject),
        "state": alert.state.value,
        "severity": alert.severity,
        "fired_at": None if alert.fired_at is None else report.wall(alert.fired_at),
        "resolved_at": None if alert.resolved_at is None else report.wall(alert.resolved_at),
        "summary": alert.finding.argument.summary,
        "seen_at": report.wall(alert.seen_at),
    }


def _received(one: Received, report: Report) -> dict[str, Any]:
    return {
        "alertname": one.alertname,
        "status": one.status,
        "target": one.target,
        "labels": dict(one.labels),
        "summary": one.summary,
        "fingerprint": one.fingerprint,
        "starts_at": one.starts_at,
        "received_at": report.wall(one.received_at),
        "ended_at": None if one.ended_at is None else report.wall(one.ended_at),
        "diagnosed_at": report.wall(one.diagnosed_at),
        "diagnosis": list(one.diagnosis),
    }
