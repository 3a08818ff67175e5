"""The log sink: one line for each step that an alert takes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from watchdog.domain.alert import CRITICAL, WARNING, Change, State
from watchdog.domain.report import Delivery, Report

log = structlog.get_logger("watchdog.alerts")

LEVELS: Mapping[str, int] = {CRITICAL: logging.CRITICAL, WARNING: logging.WARNING}
"""The level of an alert that starts to fire, by severity; every other step is INFO."""

TAKEN: Final = frozenset({"event", "level", "logger", "timestamp"})
"""Keys of every line, which a subject may not use."""


@dataclass(frozen=True)
class Log:
    """Writes to wherever the program's log goes."""

    name: str = "log"

    def send(self, report: Report, deadline: float) -> list[Delivery]:  # noqa: ARG002
        """Write one line for each change; a log has no deadline."""
        for change in report.changes:
            event = f"alert {change.alert.state.value}"
            log.log(level(change), event, **line(change))
        if not report.changes:
            return []
        return [Delivery(self.name, "stderr", ok=True, detail="written", count=len(report.changes))]


def level(change: Change) -> int:
    """Return the level of `logging` at which this change is told."""
    alert = change.alert
    return LEVELS.get(alert.severity, logging.INFO) if alert.state is State.FIRING else logging.INFO


def line(change: Change) -> dict[str, str]:
    """All that the line says beside its event; the subject's labels are keys of their own."""
    finding = change.alert.finding
    argument = finding.argument
    said = {
        "alertname": finding.alertname,
        "severity": change.alert.severity,
        "was": change.was.value,
        "state": change.alert.state.value,
        "why": change.why.value,
        "summary": argument.summary,
        "next_step": argument.next_step if change.alert.state is State.FIRING else "",
    }
    subject = {name: value for name, value in finding.subject if name not in TAKEN}
    return {**subject, **{key: value for key, value in said.items() if value}}
