"""
What a watch remembers, as rows of plain data, and a watch that carries on from them.

A row is small and named: one for each alert, for each target, for each of its engines or GPUs.
So a store writes only what changed, and a row that cannot be read costs itself alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, get_type_hints

from watchdog.domain.alert import PATIENCE, Alert, State
from watchdog.domain.assess import READING, Assessor, Watch
from watchdog.domain.changes import UNWATCHED, Changes, whole
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import History, Past
from watchdog.domain.plain import AS_NOW, Shapes, plain, restored, shapes_of
from watchdog.domain.profile import Profile
from watchdog.domain.proven import NOTHING_PROVEN, Proven, bounded
from watchdog.domain.received import Received
from watchdog.domain.sample import HOST, Labels

LATEST: Final = 1e11
"""Seconds since 1970 beyond which nothing can be written as a date."""

SHAPES: Final = '["shapes"]'
"""The row by which the others are read."""

Rows = Mapping[str, Any]
"""Plain data by name, which is JSON: the kind of row, and what it is about."""


def rows_of(assessor: Assessor) -> Iterator[tuple[str, Any]]:
    """Write all that the assessor carries from round to round."""
    for alert in assessor.book.everything():
        yield _name("alert", alert.finding.alertname, alert.finding.subject), _alert(alert)
    checks = [check for watch in assessor.watches.values() for check in watch.checks.values()]
    yield SHAPES, _shapes(*map(state_of, checks))
    yield _name("paused"), dict(assessor.book.pauses)
    yield _name("received"), assessor.received
    for target, watch in assessor.watches.items():
        profile = _profile(watch.history.profile)
        yield _name("watch", target), {"source": watch.source, "profile": profile}
        if watch.changes is not UNWATCHED:
            yield _name("changes", target), watch.changes
        if watch.proven is not NOTHING_PROVEN:
            yield _name("proven", target), watch.proven
        for about in watch.states.keys() | watch.history.past.keys() | watch.shelf.keys():
            yield _name("subject", target, about), _subject(watch, about)


def recall(rows: Rows, assessor: Assessor, now: float, saved_at: float) -> list[str]:
    """
    Make the assessor carry on from what a former process kept.

    `now` and `saved_at`, when it was kept, are on one timeline. Targets that are no longer
    watched, and what is no longer asked of others, end as at a reload. Returns a sentence for
    each row that is not as it should be; such a row is left out.
    """
    former = _Former(assessor)
    for name in sorted(rows, key=lambda name: name != SHAPES):
        try:
            former.take(name, rows[name])
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:  # noqa: PERF203
            former.faults.append(f"{name[:200]}: {error}")
    old = Assessor(assessor.host, assessor.version, former.watches, received=former.received)
    old.book.carry_on(former.alerts, former.paused, now - saved_at)
    for alert in former.alerts:
        _doubt(alert.finding, former.watches)
        if not _is_spoken_of(alert.finding, assessor):
            old.book.end(alert.finding.identity)
    assessor.take_over(old)
    assessor.resumed = True
    return former.faults


@dataclass
class _Former:
    """What is known of a former watch, row by row; `heir` is who carries on."""

    heir: Assessor
    shapes: Shapes = field(default_factory=lambda: AS_NOW)
    alerts: list[Alert] = field(default_factory=list)
    paused: dict[str, float] = field(default_factory=dict)
    received: tuple[Received, ...] = ()
    watches: dict[str, Watch] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def take(self, name: str, body: Any) -> None:
        """Take one row. Raises what a row of another shape makes it raise."""
        kind, *about = json.loads(name)
        match kind:
            case "shapes":
                self.shapes = restored(dict[str, tuple[str, ...]], json.loads(body))
            case "alert":
                self.alerts.append(_restored_alert(body))
            case "paused":
                paused = restored(dict[str, float], body)
                self.paused = {target: moment(until) for target, until in paused.items()}
            case "received":
                self.received = _received(restored(tuple[Received, ...], body, self.shapes))
            case "watch":
                watch = self._watch(about[0])
                watch.history.profile = restored(Profile, body["profile"], self.shapes)
                watch.source = restored(str, body["source"])
            case "changes":
                self._watch(about[0]).changes = _changes(restored(Changes, body, self.shapes))
            case "proven":
                self._watch(about[0]).proven = _proven(restored(Proven, body, self.shapes))
            case "subject" if about[0] in self.heir.watches:
                self._take_subject(about[0], restored(Labels, about[1]), body)

    def _watch(self, target: str) -> Watch:
        return self.watches.setdefault(target, Watch(History(target), {}))

    def _take_subject(self, target: str, about: Labels, body: Any) -> None:
        """Take one engine, GPU or target: its last reading, and each check's state by itself."""
        watch, checks = self._watch(target), self.heir.watches[target].checks
        if body["past"]:
            watch.history.past[about] = _past(body["past"])
        states = watch.states.setdefault(about, {})
        kept = body["checks"]
        for name in kept.keys() & checks.keys():  # a newer version may have more checks
            try:
                states[name] = restored(state_of(checks[name]), kept[name], self.shapes)
            except ValueError as error:  # noqa: PERF203
                self.faults.append(f"{name} of {dict(about)}: {error}")


def _doubt(finding: Finding, watches: Mapping[str, Watch]) -> None:
    """Let the watch know what was not OK of its engine in the last round: alerts tell."""
    watch = watches.get(dict(finding.subject).get("target", ""))
    if watch is not None and finding.verdict is not OK:
        before = watch.doubted.get(finding.subject, {})
        watch.doubted[finding.subject] = {**before, finding.alertname: finding.verdict}


def _is_spoken_of(finding: Finding, assessor: Assessor) -> bool:
    """Whether anything here judges this alert; else it would fire for ever."""
    checks = {name for watch in assessor.watches.values() for name in watch.checks}
    target = dict(finding.subject).get("target", HOST)
    known = finding.alertname in PATIENCE and finding.check in checks | {READING}
    return known and target in {HOST, *assessor.watches}


def _subject(watch: Watch, about: Labels) -> dict[str, Any]:
    past = watch.history.past.get(about)
    states = watch.states.get(about) or watch.shelf.get(about, {})
    return {
        "past": past and {"at": past.at, "levels": past.levels, "birth": past.birth,
                          "missed": past.missed},
        "checks": states,
    }  # fmt: skip


def _received(kept: tuple[Received, ...]) -> tuple[Received, ...]:
    for one in kept:
        for at in (one.received_at, one.heard_at, one.ended_at or 0.0, one.diagnosed_at):
            moment(at)
    return kept


def _changes(kept: Changes) -> Changes:
    for event in kept.events:
        for at in (event.at, event.after):
            moment(at)
    for _, at in (*kept.since, *kept.lost):
        moment(at)
    return whole(kept)


def _proven(kept: Proven) -> Proven:
    for healthy in kept.seen:
        moment(healthy.at)
    return bounded(kept)


def _past(kept: Any) -> Past:
    levels = restored(dict[str, float], kept["levels"])
    birth = restored(tuple[float | None, float | None], kept["birth"])
    at = moment(restored(float, kept["at"]))
    return Past(at, levels, levels, birth, bool(kept["missed"]))


def moment(at: float) -> float:
    """Return seconds since 1970 as they are. ValueError for what cannot be written as a date."""
    if not 0 <= at < LATEST:
        raise ValueError(f"{at} is no time")
    return at


def state_of(check: Any) -> Any:
    """Return the type of what a check carries from window to window."""
    kind: Any = type(check)
    return _state(kind)


@lru_cache(maxsize=256)
def _state(kind: Any) -> Any:
    return get_type_hints(kind.step)["state"]


@lru_cache(maxsize=8)
def _shapes(*states: Any) -> str:
    """The shapes as text, made once: they are in every round's rows."""
    return json.dumps(shapes_of(*states, Received, Profile, Changes, Proven))


@lru_cache(maxsize=512)
def _profile(profile: Profile) -> Any:
    return plain(profile)


@lru_cache(maxsize=4096)
def _name(kind: str, *about: object) -> str:
    return json.dumps([kind, *about])


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
        restored(str, body["alertname"]),
        restored(Labels, body["subject"]),
        Verdict[body["verdict"]],
        lambda: argument,
        bool(body["conclusive"]),
        restored(float | None, body["value"]),
        restored(str, body["unit"]),
        restored(str, body["check"]),
    )
    when = {
        name: restored(float | None, body.get(name))
        for name in ("bad_since", "good_since", "fired_at", "resolved_at")
    }
    seen_at = restored(float, body["seen_at"])
    for at in (seen_at, *when.values()):
        moment(at or 0.0)
    return Alert(finding, State(body["state"]), **when, seen_at=seen_at)
