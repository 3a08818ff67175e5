"""A report as Alertmanager reads it: labels, annotations and times, within its rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from watchdog.domain.alert import RETAIN, TEST_ALERT, Alert, State
from watchdog.domain.finding import Argument
from watchdog.domain.report import RUNBOOK, Report

RESEND: Final = 60.0
"""Seconds after which a firing alert is told again."""

FACTOR: Final = 4
"""Alertmanager ends a firing alert when it has heard nothing of it for so many resends."""

TEST_LASTS: Final = 300.0
"""Seconds after which a test alert ends by itself."""

MOST_LABEL: Final = 512
MOST_SUMMARY: Final = 1024
MOST_TEXT: Final = 8192
"""Characters of a label's value, of a short annotation, and of a long one."""

_ODD = re.compile(r"[^a-zA-Z0-9_]")


def lately(report: Report) -> list[Alert]:
    """Return the alerts to tell: those that fire, after those resolved in the last 15 minutes."""
    resolved = [alert for alert in report.alerts if _resolved_lately(alert, report.now)]
    return resolved + [alert for alert in report.alerts if alert.state is State.FIRING]


def payload(
    report: Report, interval: float = 15.0, runbook: str = RUNBOOK, generator: str = ""
) -> list[dict[str, Any]]:
    """
    Tell every alert of `lately`, in its order.

    `interval` between rounds in seconds; `runbook` a URL with `{alertname}` in it; `generator` the
    absolute URL of our own port, "" for none.
    """
    source = {"generatorURL": generator} if generator else {}
    return [_alert(alert, report, interval, runbook) | source for alert in lately(report)]


def _resolved_lately(alert: Alert, now: float) -> bool:
    return (
        alert.state is State.RESOLVED
        and alert.resolved_at is not None
        and now - alert.resolved_at <= RETAIN
    )


def _alert(alert: Alert, report: Report, interval: float, runbook: str) -> dict[str, Any]:
    starts = report.now if alert.fired_at is None else alert.fired_at
    return {
        "labels": _labels(alert, report),
        "annotations": _annotations(alert, runbook),
        "startsAt": report.wall(starts),
        # A resolved alert may seem to end before it began once a clock was stepped: a 400.
        "endsAt": report.wall(max(starts, _ends(alert, report.now, interval))),
    }


def _ends(alert: Alert, now: float, interval: float) -> float:
    if alert.state is State.RESOLVED and alert.resolved_at is not None:
        return alert.resolved_at
    if alert.finding.alertname == TEST_ALERT:
        return (now if alert.fired_at is None else alert.fired_at) + TEST_LASTS
    return now + FACTOR * max(interval, RESEND)


def _labels(alert: Alert, report: Report) -> dict[str, str]:
    """Identity: ours beat the subject's, and the subject's beat the configured ones."""
    pairs = {
        **dict(report.labels),
        **dict(alert.finding.subject),
        "host": report.host,
        "severity": alert.severity,
        "alertname": alert.finding.alertname,
    }
    return {_name(name): _cut(str(value), MOST_LABEL) for name, value in pairs.items() if value}


def _annotations(alert: Alert, runbook: str) -> dict[str, str]:
    argument = alert.finding.argument
    said = {
        "summary": _cut(argument.summary, MOST_SUMMARY),
        "description": _cut(_description(argument), MOST_TEXT),
        "next_step": _cut(argument.next_step, MOST_SUMMARY),
        "runbook_url": runbook.format(alertname=alert.finding.alertname),
    }
    return {name: text for name, text in said.items() if text}


def _description(argument: Argument) -> str:
    """Expected, evidence, ruled out and suspects: a heading each, a line for each item."""
    lines = [f"expected: {argument.expected}"] if argument.expected else []
    lines += _list("evidence", _evidence(argument.evidence))
    lines += _list("ruled out", argument.ruled_out)
    lines += _list("suspects, likeliest first", argument.suspects)
    return "\n".join(lines)


def _list(heading: str, items: tuple[str, ...]) -> list[str]:
    return [f"{heading}:", *(f"- {item}" for item in items)] if items else []


def _evidence(evidence: Mapping[str, object]) -> tuple[str, ...]:
    known = {name: value for name, value in evidence.items() if value not in (None, "", [], ())}
    return tuple(f"{name.replace('_', ' ')}: {_figure(value)}" for name, value in known.items())


def _figure(value: object) -> str:
    """A number as people write it; a list of numbers with commas."""
    if isinstance(value, (list, tuple)):
        return ", ".join(_figure(item) for item in value)
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() or abs(value) >= 1e4 else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _name(name: str) -> str:
    """A label's name as Alertmanager 0.25 takes it: one odd name there fails the whole batch."""
    name = _ODD.sub("_", name)
    return f"_{name}" if name[:1].isdecimal() else name


def _cut(text: str, most: int) -> str:
    """Bound a text; half a surrogate pair cannot be sent, so it is replaced."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= most else text[: most - 3] + "..."
