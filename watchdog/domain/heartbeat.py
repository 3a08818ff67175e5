"""The alert that always fires, for a dead-man's switch: when it ends, nobody watches."""

from __future__ import annotations

from watchdog.domain.alert import HEARTBEAT, Alert, State
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.report import Report


def heartbeat(report: Report, since: float) -> Alert:
    """
    Make the alert; `since` on the report's timeline.

    It is in no book: it says that rounds are made and reach Alertmanager, and nothing else.
    """
    said = Argument(
        f"serving-watchdog on {report.host} is watching; this alert always fires",
        "this alert fires for as long as the daemon makes rounds and reaches this Alertmanager",
        {"targets": len({r.target for r in report.readings if r.target})},
        next_step=(
            f'route alertname="{HEARTBEAT}" to a receiver that calls somebody when it stops coming'
            " (a dead-man's switch), and to no person"
        ),
    )
    finding = Finding(HEARTBEAT, (), Verdict.OK, lambda: said, check="heartbeat")
    return Alert(finding, State.FIRING, fired_at=since, seen_at=report.now)
