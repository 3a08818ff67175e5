"""A change as a web hook is told it: once made, its key and its words stay."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, NamedTuple

from watchdog.domain.alert import TEST_ALERT, Alert, Change, State
from watchdog.domain.payload import MOST_LABEL, TEST_LASTS, annotations_of, labels_of
from watchdog.domain.report import PRODUCT, Report
from watchdog.domain.texts import cut

VERSION: Final = "1"
"""Of the body: another one where a key changes its meaning or goes; keys may be added."""

TOLD: Final = frozenset({State.FIRING, State.RESOLVED})


class Notice(NamedTuple):
    """One change to tell. `key` is the same however often it is told; `body` is plain data."""

    key: str
    body: dict[str, Any]


class Queued(NamedTuple):
    """A notice that waits for one destination; `body` is JSON, the times on the timeline."""

    id: int
    key: str
    body: str
    made_at: float
    tries: int
    next_at: float


def notices(report: Report) -> list[Notice]:
    """Make a notice of each change into firing or resolved."""
    return [_notice(change, report) for change in report.changes if change.alert.state in TOLD]


def is_test(report: Report) -> bool:
    """Whether this is the report of `watchdog alert test`."""
    return any(change.alert.finding.alertname == TEST_ALERT for change in report.changes)


def _notice(change: Change, report: Report) -> Notice:
    alert = change.alert
    *whom, fired = _incident(alert, report.host)
    key = _digest([*whom, alert.state.value, fired])
    starts = report.now if alert.fired_at is None else alert.fired_at
    ends = _ends(alert, starts)
    body = {
        "version": VERSION,
        "key": key,
        "incident": _digest([*whom, fired]),
        "product": PRODUCT,
        "host": cut(report.host, MOST_LABEL),
        "at": report.wall(report.now),
        "change": alert.state.value,
        "why": change.why.value,
        "alert": {
            "labels": labels_of(alert, report),
            "annotations": annotations_of(alert),
            "startsAt": report.wall(starts),
            "endsAt": None if ends is None else report.wall(ends),
        },
    }
    return Notice(key, body)


def _ends(alert: Alert, starts: float) -> float | None:
    """Return when it ended or, of a test, will end; None of what fires until further notice."""
    if alert.state is State.RESOLVED:
        return starts if alert.resolved_at is None else max(starts, alert.resolved_at)
    return starts + TEST_LASTS if alert.finding.alertname == TEST_ALERT else None


def _incident(alert: Alert, host: str) -> list[object]:
    """
    Name what begins and ends: what it is about, and which firing it is.

    Configured labels are not in it, nor words: a restart with another configuration tells the
    same change under the same key.
    """
    fired_ms = None if alert.fired_at is None else round(alert.fired_at * 1000)
    return [host, *alert.finding.identity, fired_ms]


def _digest(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
