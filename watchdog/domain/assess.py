"""Readings in, report out: the pure middle of every round."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, Protocol

from watchdog.domain.again import Told, told
from watchdog.domain.alert import Alert, AlertBook
from watchdog.domain.changes import UNWATCHED, Changes, noted
from watchdog.domain.diagnosis import UNSEEN, Seen, diagnose
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import History, Window
from watchdog.domain.holding import held_by_driver, of_target
from watchdog.domain.profile import Profile
from watchdog.domain.proven import NOTHING_PROVEN, Proven, proved
from watchdog.domain.received import Received, arrived, is_inbox, step
from watchdog.domain.report import Report
from watchdog.domain.sample import HOST, Labels, Reading, labels
from watchdog.domain.slots import DECLARED, blind_links, left

READING: Final = "reading"
"""The check of findings about a reading itself."""

CRASHED: Final = "crashed"
"""The check of findings about a check of ours that crashed."""

DECLARED_LENGTH: Final = "declared_length"
"""The check of findings that stand on a declared acceptance length."""

WHOLE: Final = frozenset({"target", "host"})
"""What a check may be about that is one window a round; engines and GPUs are its parts."""


MOST_SHELVED: Final = 8
"""
Subjects of one target that are gone and whose learning is kept; the oldest is forgotten.

As many as went at once, or as there are now, are kept in any case: another model in their place
for some hours, and back.
"""


class Check(Protocol):
    """
    What `checks/` holds, seen from here.

    One with a true `remembers` learns for weeks: what it keeps of a subject outlives the subject.
    """

    about: str

    def step(self, state: Any, window: Window, now: float) -> tuple[Any, list[Finding]]:
        """Judge one window."""
        ...


@dataclass
class Watch:
    """
    One target, or this host and its GPUs: history, checks by name, what they keep of subjects.

    `here`: the target runs on this host, so the host's GPUs may be its own. `source` is the
    address that it is read from: another one is another server, whatever its name. `shelf` keeps
    what was learned of subjects that are gone, for the day they come back. `doubted` is what was
    not OK of its engines when their page was read last.
    """

    history: History
    checks: Mapping[str, Check]
    states: dict[Labels, dict[str, Any]] = field(default_factory=dict)
    here: bool = False
    source: str = ""
    newest: Window | None = None  # of the last round
    changes: Changes = UNWATCHED
    proven: Proven = NOTHING_PROVEN  # under which launches its drafter was seen healthy
    shelf: dict[Labels, dict[str, Any]] = field(default_factory=dict)
    doubted: dict[Labels, Mapping[str, Verdict]] = field(default_factory=dict)
    _crashed: set[tuple[str, Labels]] = field(default_factory=set)  # checks, and of whom
    _told: dict[Labels, Told] = field(default_factory=dict)  # while nothing moves
    _read_before: float | None = None  # when the page was read before the last round

    def step(self, readings: Sequence[Reading], now: float) -> tuple[list[Finding], list[Labels]]:
        """Judge one round; also return the subjects that are gone for good."""
        self._read_before = self.history.read_at
        last, whole = self.newest, self.history.add(readings, now)
        self.newest = whole
        if last is None or last.facts != whole.facts or last.profile is not whole.profile:
            self._told.clear()
        if self.doubted:
            for part in whole.parts:
                part.doubted = self.doubted.get(part.subject, part.doubted)
        findings = self._of(whole, whole, self._about(whole=True), now)
        about_parts = self._about(whole=False)
        for part in whole.parts:
            findings += self._of(part, whole, about_parts, now)
        if whole.parts:
            self.doubted = {part.subject: part.doubts for part in whole.parts if part.doubts}
        gone = self.history.gone(now)
        if gone or len(self.states) > len(self.history) + 1:
            self._forget(part.subject for part in whole.parts)
        return findings, gone

    def diagnosed(
        self, findings: Sequence[Finding], links: Sequence[Finding], now: float
    ) -> list[Finding]:
        """Note what changed in this round, and let the findings of it speak of one another."""
        if self.newest is not None:
            self.changes = noted(
                self.changes, self.newest, links, self._read_before, self.history.gap_after
            )
            self.proven = proved(self.proven, self.newest, findings)
        seen = UNSEEN if self.newest is None else Seen(self.newest, self.proven)
        return diagnose(findings, links, self.changes, now, self.history.profile.routing, seen)

    def _of(
        self, window: Window, whole: Window, checks: Mapping[str, Check], now: float
    ) -> list[Finding]:
        """Let the checks judge one subject; where nothing moved, what they said may stand."""
        states = self.states.get(window.subject)
        if states is None:
            states = self.states[window.subject] = self.shelf.pop(window.subject, {})
        before = self._told.get(window.subject)
        if before is not None and window.still and before.holds(states, now):
            again = before.again(window, now)
            _doubt(whole, again)
            return list(again)
        found: list[Finding] = []
        for name, check in checks.items():
            judged = self._judged(name, check, window, states, now)
            _doubt(whole, judged)
            found += judged
        if window is not whole and window.still and not self._crashed:
            self._told[window.subject] = told(checks, states, found, window, now)
        elif before is not None:
            del self._told[window.subject]
        return found

    def alike_until(self) -> float:
        """
        Until when rounds in which nothing moves need no judging: no verdict on the engine changes.

        Minus infinity where one is needed, as for several engines, which are compared.
        """
        parts = self.newest.parts if self.newest is not None else ()
        kept = self._told.get(parts[0].subject) if len(parts) == 1 else None
        return -math.inf if kept is None else kept.until

    def _about(self, *, whole: bool) -> dict[str, Check]:
        return {name: c for name, c in self.checks.items() if (c.about in WHOLE) is whole}

    def _judged(
        self, name: str, check: Check, window: Window, states: dict[str, Any], now: float
    ) -> list[Finding]:
        """
        Let one check judge one window. One that crashes begins anew, and is a finding.

        What it carried may be what it crashes of, and is kept over restarts: it would never end.
        """
        bug: Exception | None = None
        try:
            states[name], found = check.step(states.get(name), window, now)
        except Exception as error:  # noqa: BLE001  (whatever it is, the other checks go on)
            states.pop(name, None)
            bug, found = error, []
        for finding in found:
            finding.check = name
        if bug is not None:
            self._crashed.add((name, window.subject))
        if self._crashed and (name, window.subject) in self._crashed:
            found = [*found, _crash(name, window.subject, bug)]
        return found

    def _forget(self, seen: Iterable[Labels]) -> None:
        """Keep states only of subjects that the history still knows, or that were just judged."""
        known = {*self.history.subjects(), *seen}
        for about in self._told.keys() - known:
            del self._told[about]
        learning = [name for name, check in self.checks.items() if getattr(check, "remembers", 0)]
        went = 0
        for about in self.states.keys() - known:
            kept = self.states.pop(about)
            learned = {name: kept[name] for name in learning if name in kept}
            if learned:
                self.shelf[about] = learned
                went += 1
        while len(self.shelf) > max(MOST_SHELVED, went, len(self.history)):
            del self.shelf[next(iter(self.shelf))]


@dataclass
class Assessor:
    """All targets, and the one alert book."""

    host: str
    version: str
    watches: Mapping[str, Watch]
    book: AlertBook = field(default_factory=AlertBook)
    labels: Labels = ()
    received: tuple[Received, ...] = ()
    resumed: bool = False  # goes on from what a former process kept, and made no round yet

    def assess(self, readings: Sequence[Reading], now: float, skew: float = 0.0) -> Report:
        """Judge one round's readings."""
        by_target: dict[str, list[Reading]] = {target: [] for target in self.watches}
        for reading in readings:
            if not is_inbox(reading):
                by_target.setdefault(reading.target, []).append(reading)
        findings: list[Finding] = []
        gone: list[Labels] = []
        links: list[Finding] = []
        by_driver: list[dict[str, object]] = []
        near: dict[str, list[Finding]] = {HOST: findings}  # what alerts of others are held against
        # A recording without GPUs says nothing of any; a host that is watched has its census.
        if HOST in self.watches and by_target[HOST]:
            host = [*by_target[HOST], self._down(by_target)]
            links, gone = self.watches[HOST].step(host, now)
            by_driver = held_by_driver(by_target[HOST])
            findings += [blind(reading) for reading in by_target[HOST]]
            findings += [*links, *blind_links(links)]
            gone += left(by_target[HOST], [alert.finding.subject for alert in self._standing()])
        for target, watch in self.watches.items():
            if target == HOST:
                continue
            own = by_target[target]
            told = [Reading("targets", target, facts={"held": by_driver})] if by_driver else []
            judged, vanished = watch.step([*own, *told] if watch.here else own, now)
            up = any(reading.samples for reading in own)  # then silence is a probe's own
            its_links = of_target(links, [*own, *told]) if links and watch.here else []
            its = [blind(reading) for reading in own if reading.answered or up]
            its += watch.diagnosed(judged, its_links, now)
            findings += its
            near[target] = its + its_links
            gone += vanished
        if self.resumed:  # later on a source is missing only where a recording lacks it
            gone += self._unread(readings)
            self.resumed = False
        changes = self.book.step(findings, now, gone)
        arrivals = arrived(readings)
        if arrivals or self.received:
            self.received = step(self.received, arrivals, near, now)
        return Report(
            self.host,
            self.version,
            now,
            tuple(readings),
            tuple(findings),
            self.book.alerts(),
            tuple(changes),
            self.book.paused(now),
            self.labels,
            skew,
            self.received,
        )

    def _standing(self) -> tuple[Alert, ...]:
        return (*self.book.alerts(), *self.book.pending())

    def _unread(self, readings: Sequence[Reading]) -> list[Labels]:
        """Return of whom alerts say that a source is blind which nobody reads any more."""
        read = {_source(r.probe, r.target, r.slot) for r in readings}
        blind_ones = (a.finding for a in self._standing() if a.finding.check == READING)
        return [finding.subject for finding in blind_ones if finding.subject not in read]

    def _down(self, by_target: Mapping[str, Sequence[Reading]]) -> Reading:
        """Tell the host's checks which targets on it give no answer: their GPUs should be free."""
        down = [
            target
            for target, readings in by_target.items()
            if target in self.watches and self.watches[target].here
            and any(not r.answered for r in readings) and not any(r.samples for r in readings)
        ]  # fmt: skip
        return Reading("targets", HOST, facts={"down": down})

    def _end_undeclared(self, target: str, was: Profile, now: Profile) -> None:
        """End alerts that stand on a declaration that is gone or another by now."""
        for alert in self._standing() if now.acceptance_length is None else ():
            if alert.finding.check == DECLARED_LENGTH and _is_of(alert.finding, target):
                self.book.end(alert.finding.identity, DECLARED_LENGTH)
        links = {slot.key: slot.link for slot in now.slots}
        over = {slot.key for slot in was.slots if links.get(slot.key) != slot.link}
        for alert in self._standing():
            finding = alert.finding
            if finding.alertname in DECLARED and finding.argument.evidence.get("key") in over:
                self.book.end(finding.identity)

    def take_over(self, old: Assessor) -> None:
        """Carry on after a reload: histories, states, alerts and pauses of targets that remain."""
        self.book, self.received = old.book, old.received
        for target, watch in self.watches.items():
            before = old.watches.get(target)
            if before is not None and before.source not in ("", watch.source):
                self.book.close(target)  # it is another server; "" is not known, and no other
            elif before is not None:
                profile, gap_after = watch.history.profile, watch.history.gap_after
                was = before.history.profile
                watch.history, watch.states = before.history, before.states
                watch.shelf = before.shelf
                watch.changes, watch.doubted = before.changes, before.doubted
                watch.proven = before.proven
                watch.history.profile, watch.history.gap_after = profile, gap_after
                for alertname in unasked(profile):
                    self.book.close(target, alertname)
                self._end_undeclared(target, was, profile)
        for target in old.watches.keys() - self.watches.keys():
            self.book.close(target)


def unasked(profile: Profile) -> list[str]:
    """Alerts that no check speaks of with this profile: they would fire for ever."""
    if not profile.speculation or profile.drafts_sometimes:
        return ["SpecDecodeNotDrafting"]
    return []


def _is_of(finding: Finding, target: str) -> bool:
    return dict(finding.subject).get("target", HOST) == target


def _doubt(whole: Window, found: Iterable[Finding]) -> None:
    """Let later checks know of what is not OK in this round."""
    for finding in found:
        if finding.verdict is OK:
            continue
        for window in (whole, *whole.parts):
            if window.subject == finding.subject:
                window.doubts = {**window.doubts, finding.alertname: finding.verdict}


def _crash(check: str, subject: Labels, bug: Exception | None) -> Finding:
    """Tell of a check that crashed, and later that it works again: no verdict is not health."""
    pairs = dict(subject)
    about = labels(**{k: pairs[k] for k in ("target", "engine", "slot") if k in pairs}, probe=check)
    if bug is None:
        said = Argument(f"the check {check} works again")
        return Finding("WatchdogBlind", about, Verdict.OK, lambda: said, check=CRASHED)
    said = Argument(
        f"{pairs.get('target', 'this host')}: not judged by the check {check}: our own fault: "
        f"{type(bug).__name__}: {bug}",
        next_step="report it, please: `watchdog capture DIR` records what it was about",
    )
    return Finding("WatchdogBlind", about, Verdict.UNKNOWN, lambda: said, check=CRASHED)


def blind(reading: Reading) -> Finding:
    """Make the finding about a reading itself: blindness alerts like everything else."""
    subject = _source(reading.probe, reading.target, reading.slot)
    if reading.error is None:
        return Finding("WatchdogBlind", subject, OK, partial(_read, reading), check=READING)
    whom = _whom(reading)
    page = reading.target != HOST
    said = Argument(
        f"{whom}: cannot be judged: {reading.error}",
        f"{'a page' if page else 'a device'} that can be read and makes sense",
        ruled_out=("a server that is down: something answered",) if page else (),
        next_step="run `watchdog doctor`; it says what this source answers and why that is odd",
    )
    return Finding("WatchdogBlind", subject, Verdict.UNKNOWN, lambda: said, check=READING)


@lru_cache(maxsize=4096)
def _source(probe: str, target: str, slot: str) -> Labels:
    pairs = {"probe": probe, "target": target, "slot": slot}
    return labels(**{name: value for name, value in pairs.items() if value})


def _whom(reading: Reading) -> str:
    return f"the GPU in slot {reading.slot}" if reading.slot else reading.target or "this host"


def _read(reading: Reading) -> Argument:
    return Argument(f"{_whom(reading)}: {reading.probe} was read")
