"""
What a watch remembers, as rows of plain data, and a watch that carries on from them.

A row is small and named: one for each alert, for each target, for each of its engines or GPUs.
So a store writes only what changed, and a row that cannot be read costs itself alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, get_type_hints

from watchdog.domain.alert import Alert, State
from watchdog.domain.assess import Assessor, Watch
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.history import History, Past
from watchdog.domain.plain import AS_NOW, Shapes, plain, restored, shapes_of
from watchdog.domain.profile import Profile
from watchdog.domain.received import Received
from watchdog.domain.sample import Labels

ALERT: Final = "alert"
PAUSED: Final = "paused"
RECEIVED: Final = "received"
SHAPES: Final = "shapes"
SUBJECT: Final = "subject"
WATCH: Final = "watch"

Rows = Mapping[str, Any]
"""Plain data by name: a word of the above, and what it is about as JSON."""


def rows_of(assessor: Assessor) -> Iterator[tuple[str, Any]]:
    """Write all that the assessor carries from round to round."""
    for alert in assessor.book.everything():
        yield _name(ALERT, alert.finding.alertname, alert.finding.subject), _alert(alert)
    yield (
        SHAPES,
        _shapes(*(state_of(c) for w in assessor.watches.values() for c in w.checks.values())),
    )
    yield PAUSED, dict(assessor.book.pauses)
    yield RECEIVED, assessor.received
    for target, watch in assessor.watches.items():
        yield _name(WATCH, target), plain(watch.history.profile)
        for about in watch.states.keys() | watch.history.past.keys():
            yield _name(SUBJECT, target, about), _subject(watch, about)


def recall(rows: Rows, assessor: Assessor, now: float, saved_at: float) -> list[str]:
    """
    Make the assessor carry on from what a former process kept.

    `now` and `saved_at`, when it was kept, are on one timeline. Targets that are no longer
    watched, and what is no longer asked of others, end as at a reload. Returns a sentence for
    each row that is not as it should be; such a row is left out.
    """
    old = Assessor(assessor.host, assessor.version, {})
    faults: list[str] = []
    alerts: list[Alert] = []
    watches: dict[str, Watch] = {}
    shapes = rows.get(SHAPES, AS_NOW)

    def take(name: str, body: Any) -> None:
        kind, *about = json.loads(name) if name.startswith("[") else [name]
        if kind == ALERT:
            alerts.append(_restored_alert(body))
        elif kind == RECEIVED:
            old.received = restored(tuple[Received, ...], body, shapes)
        elif kind == WATCH:
            watch = _watch(watches, about[0])
            watch.history.profile = restored(Profile, body, shapes)
        elif kind == SUBJECT and about[0] in assessor.watches:
            known = assessor.watches[about[0]].checks
            watch = _watch(watches, about[0])
            _take_past(watch, _labels(about[1]), body["past"])
            states = watch.states.setdefault(_labels(about[1]), {})
            faults.extend(_take_states(states, body["checks"], known, shapes))

    for name, body in rows.items():
        try:
            take(name, body)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:  # noqa: PERF203
            faults.append(f"{name[:200]}: {error}")
    paused = rows.get(PAUSED, {})
    until = {target: at for target, at in paused.items() if type(at) is float}
    old.watches = watches
    old.book.carry_on(alerts, until, now - saved_at)
    assessor.take_over(old)
    return faults


def _name(kind: str, *about: object) -> str:
    return json.dumps([kind, *about])


def _labels(pairs: Any) -> Labels:
    return restored(Labels, pairs)  # type: ignore[no-any-return]


def _subject(watch: Watch, about: Labels) -> dict[str, Any]:
    past = watch.history.past.get(about)
    states = watch.states.get(about, {})
    return {
        "past": past and {"at": past.at, "levels": past.levels, "birth": past.birth,
                          "missed": past.missed},
        "checks": states,
    }  # fmt: skip


def _watch(watches: dict[str, Watch], target: str) -> Watch:
    return watches.setdefault(target, Watch(History(target), {}))


def _take_past(watch: Watch, about: Labels, past: Any) -> None:
    if not past:
        return
    levels = restored(dict[str, float], past["levels"])
    birth = restored(tuple[float | None, float | None], past["birth"])
    at, missed = restored(float, past["at"]), bool(past["missed"])
    watch.history.past[about] = Past(at, levels, levels, birth, missed)


def _take_states(
    states: dict[str, Any], kept: Mapping[str, Any], checks: Mapping[str, Any], shapes: Shapes
) -> Iterator[str]:
    """Take each check's state by itself; tell of those that cannot be read."""
    for name in kept.keys() & checks.keys():  # a newer version may have more checks
        try:
            states[name] = restored(state_of(checks[name]), kept[name], shapes)
        except ValueError as error:  # noqa: PERF203
            yield f"{name}: {error}"


def state_of(check: Any) -> Any:
    """Return the type of what a check carries from window to window."""
    kind: Any = type(check)
    return _state(kind)


@lru_cache(maxsize=256)
def _state(kind: Any) -> Any:
    return get_type_hints(kind.step)["state"]


@lru_cache(maxsize=8)
def _shapes(*states: Any) -> dict[str, list[str]]:
    return shapes_of(*states, Received, Profile)


def _alert(alert: Alert) -> dict[str, Any]:
    finding = alert.finding
    times = ("bad_since", "good_since", "fired_at", "resolved_at", "seen_at")
    return {
        "alertname": finding.alertname,
        "subject": finding.subject,
        "verdict": finding.verdict.name,
        "conclusive": finding.conclusive,
        "value": finding.value,
        "unit": finding.unit,
        "check": finding.check,
        "argument": plain(finding.argument),
        "state": alert.state.value,
        **{name: getattr(alert, name) for name in times},
    }


def _restored_alert(body: Any) -> Alert:
    argument = restored(Argument, body["argument"])
    finding = Finding(
        body["alertname"],
        _labels(body["subject"]),
        Verdict[body["verdict"]],
        lambda: argument,
        bool(body["conclusive"]),
        body["value"],
        body["unit"],
        body["check"],
    )
    when = {
        name: restored(float | None, body.get(name))
        for name in ("bad_since", "good_since", "fired_at", "resolved_at")
    }
    seen_at = restored(float, body["seen_at"])
    return Alert(finding, State(body["state"]), **when, seen_at=seen_at)
