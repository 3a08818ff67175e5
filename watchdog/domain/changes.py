"""
What changed around a target, and when: restarts, version, model, drafter depth, launch, links.

A stream beside the checks that judges nothing: it compares each round with what was seen last
and notes the differences as events. The watch may have been away in between, so an event has
two times: the last reading that showed the old, and the first that showed the new. Most rounds
are like the one before: these are told by a few comparisons and leave the state as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from watchdog.domain import series as s
from watchdog.domain.finding import OK, Finding, Verdict
from watchdog.domain.fingerprint import Fingerprint, compare
from watchdog.domain.history import Window
from watchdog.domain.sample import Labels

KEPT: Final = 35 * 86400.0
"""Seconds that an event is kept: longer than any baseline looks back."""

MOST: Final = 64
"""Events of one target; beyond them the oldest of the most frequent kind is forgotten."""

AWAY: Final = 600.0
"""Seconds without a reading that are noted as a gap; shorter ones hide nothing that matters."""

ASKED_EVERY: Final = 3600.0
"""Seconds for which a probe may hand on a version or a model list without asking anew."""

RESTART, DEPTH, LINK, GAP = "restart", "depth", "link", "gap"

LAUNCH: Final = "launch_fingerprint"
"""The fact that is compared factor by factor: one that could not be read is no change."""

FACTS: Final[Mapping[str, str]] = {
    LAUNCH: "launch",
    "version": "version",
    "models": "model",
}
"""Facts whose change is an event, and its kind. A new one needs no more than a line here, and
its word in `changes_words.py`."""

SERVED: Final = "served"
"""Stands beside the facts: the model names on the page, for servers that list no models."""

LINKS: Final = ("GpuLinkDegraded", "GpuLinkErrors", "GpuMissing")
"""Alerts about a GPU's way to the host."""

_NEXT: Final = (*s.POSITIONS, "")


class Event(NamedTuple):
    """One change. Timeline seconds: `after` showed the old, `at` the new; `engine` "" is all."""

    at: float
    after: float
    kind: str
    text: str
    engine: str = ""


class Changes(NamedTuple):
    """What was seen last of one target, since when each kind is read, and what changed."""

    facts: tuple[tuple[str, Any], ...] = ()  # by name, as probes gave them last
    start: float | None = None  # of the process, Unix seconds
    depths: tuple[tuple[str, int], ...] = ()  # of each engine, in the order of the page
    links: tuple[tuple[str, bool], ...] = ()  # by alert and slot: whether it was bad
    since: tuple[tuple[str, float], ...] = ()  # by kind: when it was read first
    lost: tuple[tuple[str, float], ...] = ()  # by kind: unread since, though read before
    told: tuple[tuple[str, Any], ...] = ()  # all facts by name, as of the last round; None: unread
    events: tuple[Event, ...] = ()  # oldest first


UNWATCHED: Final = Changes()
"""Nothing was seen yet."""


def noted(
    state: Changes,
    window: Window,
    links: Sequence[Finding],
    read_at: float | None,
    gap_after: float = AWAY,
) -> Changes:
    """
    Compare a target's window, and the link findings of its GPUs, with what was seen before.

    `read_at` is when its page was read last, None for never.
    """
    if not window.parts:  # unread: nothing is known to have changed
        return state
    away = read_at is not None and window.ended - read_at > max(AWAY, gap_after)
    if not away and _as_before(state, window) and _links_as_before(state, links):
        return state
    return _Round(state, window, window.ended if read_at is None else read_at).step(
        links, away=away
    )


def whole(state: Changes) -> Changes:
    """Return what was kept as it is. ValueError where it cannot have been ours."""
    if len(state.events) > MOST or any(not 0 <= d <= s.MOST_POSITIONS for _, d in state.depths):
        raise ValueError("more events, or deeper drafts, than there can be")
    return state


def key_of(subject: Labels) -> str:
    """Name an engine of a target, whatever model it serves by now."""
    named = dict(subject)
    replica = named.get("replica")
    engine = named.get("engine", "")
    return engine if replica is None else f"{engine} of replica {replica}"


def _as_before(state: Changes, window: Window) -> bool:
    """Whether nothing can have changed. In one life, series only ever come to a page."""
    parts, depths = window.parts, state.depths
    if window.reset or len(parts) != len(depths):
        return False
    for part, (_, depth) in zip(parts, depths):  # noqa: B905  (as long as each other)
        levels = part.levels
        if part.seconds is None or _NEXT[depth] in levels:
            return False
        if depth and _NEXT[depth - 1] not in levels:
            return False
    get = window.facts.get
    for name, told in state.told:  # a tuple of all would take twice as long to make
        if get(name) != told:
            return False
    return len(state.told) == len(FACTS)


def _links_as_before(state: Changes, findings: Sequence[Finding]) -> bool:
    """Whether links are as they were, and are read as they were: most of them always are."""
    if not findings and not state.links:
        return True
    links = [finding for finding in findings if finding.alertname in LINKS]
    judged, read, unread = dict(state.links), False, not links
    for finding in links:
        bad = finding.verdict is not OK
        if bad and finding.verdict is Verdict.UNKNOWN:
            unread = True
        elif bad or finding.conclusive:
            if judged.get(_link(finding)) is not bad:
                return False
            read = read or finding.alertname == LINKS[0]
    if not links and not judged:
        return True
    known = any(kind == LINK for kind, _ in state.since)
    lost = any(kind == LINK for kind, _ in state.lost)
    if unread:
        return lost or not known
    return (known and not lost) or not read


class _Round:
    """One round in which something may have changed."""

    def __init__(self, state: Changes, window: Window, read_at: float) -> None:
        self.state, self.window = state, window
        self.now, self.read_at = window.ended, read_at
        self.since, self.lost = dict(state.since), dict(state.lost)
        self.events: list[Event] = []

    def step(self, links: Sequence[Finding], *, away: bool) -> Changes:
        if away:
            self._note(GAP, "nothing was read")
        start, facts = self._restarts(), self._facts()
        depths, judged = self._depths(), self._links(links)
        events = self.state.events
        if self.events:
            events = self._bounded([*events, *self.events])
        told = tuple((name, self.window.facts.get(name)) for name in FACTS)
        new = Changes(facts, start, depths, judged, tuple(self.since.items()),
                      tuple(self.lost.items()), told, events)  # fmt: skip
        return self.state if new == self.state else new

    def _note(self, kind: str, text: str, engine: str = "", after: float | None = None) -> None:
        after = self.read_at if after is None else after
        self.events.append(Event(self.now, after, kind, text, engine))

    def _read(self, kind: str) -> float:
        """Note that a kind is read; return when it was read before."""
        self.since.setdefault(kind, self.now)
        return min(self.read_at, self.lost.pop(kind, self.read_at))

    def _unread(self, kind: str) -> None:
        if kind in self.since:
            self.lost.setdefault(kind, self.read_at)

    def _restarts(self) -> float | None:
        """Note a process that is another one, or counters that began anew."""
        start, old = self.window.levels.get(s.PROCESS_START), self.state.start
        parts = self.window.parts
        fell = [part for part in parts if part.reset]
        self._read(RESTART)
        if start is not None and old is not None and start != old:
            self._note(RESTART, "restarted")
        elif fell and len(fell) == len(parts):
            self._note(RESTART, "restarted (all counters began anew)")
        else:
            for part in fell:
                key = key_of(part.subject)
                self._note(RESTART, f"engine {key} restarted (its counters began anew)", key)
        return old if start is None else start

    def _facts(self) -> tuple[tuple[str, Any], ...]:
        """Note facts that differ. Those of a page are asked anew at once after a restart."""
        anew = any(event.kind == RESTART for event in self.events)
        known = dict(self.state.facts)
        for name, kind in FACTS.items():
            old, new = known.get(name), self.window.facts.get(name)
            if new is None or _partial(new):  # may show a change, and no sameness
                self._unread(kind)
            if new is not None:
                read_at = self.read_at if _partial(new) else self._read(kind)
                text, known[name] = _moved(name, old, new)
                if text:
                    first = max(self.since.get(kind, read_at), read_at - ASKED_EVERY)
                    after = read_at if anew else min(read_at, first)
                    self._note(kind, f"{kind} {text}", after=after)
        served = sorted({dict(part.subject).get("model_name", "") for part in self.window.parts})
        if "models" not in known:
            kind, old = FACTS["models"], known.get(SERVED, served)
            self._read(kind)
            if old != served:
                self._note(kind, f"{kind} {_shown(old)} -> {_shown(served)}")
        return tuple((known | {SERVED: served}).items())

    def _depths(self) -> tuple[tuple[str, int], ...]:
        """Note drafters of another depth. A page without the series may still get them: as old."""
        known = dict(self.state.depths)
        told, moved = [], list[tuple[str, str]]()
        for part in self.window.parts:
            key, depth, off = key_of(part.subject), part.depth, part.speculation_off
            old = known.get(key, 0)
            if depth or off:
                self._read(DEPTH)
            if not depth and not off:
                depth = old
            elif key in known and depth != old and (old or DEPTH in dict(self.state.since)):
                moved.append((key, f"drafter depth {old or 'none'} -> {depth or 'none'}"))
            told.append((key, depth))
        if len(moved) == len(told) and len({text for _, text in moved}) == 1:
            moved = [("", moved[0][1])]
        for key, text in moved:
            self._note(DEPTH, f"{text} of engine {key}" if key else text, key)
        return tuple(told)

    def _links(self, findings: Sequence[Finding]) -> tuple[tuple[str, bool], ...]:
        """Note links that became bad, or good again; what is not judged stays as it was."""
        judged = dict(self.state.links)
        links = [f for f in findings if f.alertname in LINKS]
        read_at = min(self.read_at, self.lost.get(LINK, self.read_at))
        if any(f.verdict is Verdict.UNKNOWN for f in links) or (judged and not links):
            self._unread(LINK)
        elif any(f.alertname == LINKS[0] and _is_judged(f) for f in links):
            self._read(LINK)
        for finding in links:
            if not _is_judged(finding):
                continue
            bad, name = _is_bad(finding), _link(finding)
            if judged.get(name, bad) is not bad:
                self._note(LINK, f"{name} {'began' if bad else 'ended'}", after=read_at)
            judged[name] = bad
        return tuple(judged.items())

    def _bounded(self, events: list[Event]) -> tuple[Event, ...]:
        """
        Forget what is too old, and of too many the oldest of the kind that there is most of.

        Of a kind nothing is known before what was forgotten of it.
        """
        kept = [event for event in events if self.now - event.at <= KEPT]
        while len(kept) > MOST:
            [(most, _)] = Counter(event.kind for event in kept).most_common(1)
            kept.remove(next(event for event in kept if event.kind == most))
        for event in events:
            if event not in kept and event.kind in self.since:
                self.since[event.kind] = max(self.since[event.kind], event.at)
        return tuple(kept)


def _is_judged(finding: Finding) -> bool:
    """Whether it says how a link is: bad, or good with a reason."""
    return _is_bad(finding) or (finding.verdict is OK and finding.conclusive)


def _is_bad(finding: Finding) -> bool:
    return finding.verdict is Verdict.WARNING or finding.verdict is Verdict.CRITICAL


def _link(finding: Finding) -> str:
    return _link_name(finding.alertname, finding.subject)


@lru_cache(maxsize=512)
def _link_name(alertname: str, subject: Labels) -> str:
    return f"{alertname} of slot {dict(subject).get('slot', '?')}"


def _partial(value: Any) -> bool:
    """Whether it is a fingerprint that lacks what could not be read."""
    return isinstance(value, Mapping) and bool(value.get("unread"))


def _moved(name: str, old: Any, new: Any) -> tuple[str, Any]:
    """Say what is different, "" for nothing that is known of both; and what is known by now."""
    if old is None or old == new:
        return "", new
    if name != LAUNCH:
        return f"{_shown(old)} -> {_shown(new)}", new
    try:
        now = Fingerprint.from_dict(new)
    except ValueError:  # of a recording that is not ours
        return "", old
    try:
        was = Fingerprint.from_dict(old)
    except ValueError:  # of one, or of another version of the program
        return "", new
    changed = compare(was, now)
    text = replace(changed, unknown=()).words() if changed.changed else ""
    return text, now.filled(was).as_dict()


def _shown(value: Any) -> str:
    """Put a fact into words: a text, or the models that are served and what was loaded."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value[:4]))
    if isinstance(value, Mapping):
        name, root = value.get("id", "?"), value.get("root")
        return str(name) if root in (None, name) else f"{name} ({root})"
    return str(value)
