"""A report as Alertmanager reads it: labels, annotations and times, within its rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from watchdog.domain.alert import RETAIN, TEST_ALERT, Alert, State
from watchdog.domain.finding import FOR_MACHINES, Argument
from watchdog.domain.received import explained
from watchdog.domain.report import RUNBOOK, Report, rfc3339
from watchdog.domain.texts import cut

RESEND: Final = 60.0
"""Seconds after which a firing alert is told again."""

FACTOR: Final = 4
"""Alertmanager ends a firing alert when it has heard nothing of it for so many resends."""

TEST_LASTS: Final = 300.0
"""Seconds after which a test alert ends by itself."""

MOST_EXPLAINED: Final = 3
"""How many alerts of others one of ours names."""

MOST_LABEL: Final = 512
MOST_SUMMARY: Final = 1024
MOST_TEXT: Final = 8192
"""Characters of a label's value, of a short annotation, and of a long one."""

_ODD = re.compile(r"[^a-zA-Z0-9_]")


class Told(NamedTuple):
    """
    One alert as Alertmanager reads it, but for its times, which are on the report's timeline.

    `state` changes with what must be told at once.
    """

    state: str
    body: dict[str, Any]
    starts: float
    ends: float

    def stamped(self, offset: float) -> dict[str, Any]:
        """Return it with times; `offset` seconds added to the timeline give the reader's clock."""
        return self.body | {
            "startsAt": rfc3339(self.starts + offset),
            "endsAt": rfc3339(self.ends + offset),
        }


def payload(report: Report, every: float = RESEND) -> list[Told]:
    """
    Tell the alerts resolved in the last 15 minutes, then those that fire.

    `every` so many seconds a firing one is told again.
    """
    resolved = [alert for alert in report.alerts if _resolved_lately(alert, report.now)]
    firing = [alert for alert in report.alerts if alert.state is State.FIRING]
    return [_told(alert, report, every) for alert in resolved + firing]


def _resolved_lately(alert: Alert, now: float) -> bool:
    return (
        alert.state is State.RESOLVED
        and alert.resolved_at is not None
        and now - alert.resolved_at <= RETAIN
    )


def _told(alert: Alert, report: Report, every: float) -> Told:
    starts = report.now if alert.fired_at is None else alert.fired_at
    labels, explains = labels_of(alert, report), _explains(alert, report)
    said = annotations_of(alert) | explains
    return Told(
        f"{alert.state.value} {alert.fired_at} {alert.resolved_at} {explains.get('explains', '')}",
        {"labels": labels, "annotations": said},
        starts,
        # A resolved alert may seem to end before it began once a clock was stepped: a 400.
        max(starts, _ends(alert, report.now, every)),
    )


def _ends(alert: Alert, now: float, every: float) -> float:
    if alert.state is State.RESOLVED and alert.resolved_at is not None:
        return alert.resolved_at
    if alert.finding.alertname == TEST_ALERT:
        return (now if alert.fired_at is None else alert.fired_at) + TEST_LASTS
    return now + FACTOR * every


def labels_of(alert: Alert, report: Report) -> dict[str, str]:
    """Identity: ours beat the subject's, and the subject's beat the configured ones."""
    pairs = {
        **dict(report.labels),
        **dict(alert.finding.subject),
        "host": report.host,
        "severity": alert.severity,
        "alertname": alert.finding.alertname,
    }
    return {_name(name): cut(str(value), MOST_LABEL) for name, value in pairs.items() if value}


def annotations_of(alert: Alert) -> dict[str, str]:
    """What the finding argues, each part bounded."""
    argument = alert.finding.argument
    said = {
        "summary": cut(argument.summary, MOST_SUMMARY),
        "description": cut(_description(argument), MOST_TEXT),
        "next_step": cut(argument.next_step, MOST_SUMMARY),
        "runbook_url": RUNBOOK.format(alertname=alert.finding.alertname),
    }
    return {name: text for name, text in said.items() if text}


def _explains(alert: Alert, report: Report) -> dict[str, str]:
    """Name the alerts of others that arrived and that this one may explain; none once it ended."""
    firing = alert.state is State.FIRING
    told = explained(report.received, alert.finding) if firing else []
    names = [
        f"{one.alertname} (received {report.wall(one.received_at)} from Alertmanager)"
        for one in told[:MOST_EXPLAINED]
    ]
    more = [f"{len(told) - len(names)} more"] if len(told) > len(names) else []
    return {"explains": cut(", ".join(names + more), MOST_SUMMARY)} if names else {}


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
    known = {
        name: value
        for name, value in evidence.items()
        if value not in (None, "", [], ()) and name not in FOR_MACHINES
    }
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
