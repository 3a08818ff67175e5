"""
What each engine did, a minute at a time: the curves of the status page.

Windows are added up to stretches of about a minute. A new life begins a new stretch, so no
stretch holds two of them; windows in which nothing moved make stretches too, or a quiet night
would look like a gap. Time in which nothing was read is no stretch, although its growth counts
for the checks: nobody knows when in it that happened.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Final, NamedTuple

from watchdog.domain import series as s
from watchdog.domain.acceptance import NOTHING, Decode
from watchdog.domain.history import Window
from watchdog.domain.sample import Labels

STRETCH: Final = 60.0
"""Seconds that a stretch is long at least."""

UNREAD: Final = 2 * STRETCH
"""Seconds between two readings, with some missed, beyond which the time between is unread."""

LATE: Final = 0.5
"""Seconds by which a round may be early."""


class Point(NamedTuple):
    """
    One stretch of one engine. `at` is its end on the timeline, `seconds` its length.

    Counts of drafts, tokens and decode updates in it; `running` and `waiting` are the requests at
    its end. `positions[i]` is how many drafts had position i accepted.
    """

    at: float
    seconds: float = 0.0
    drafts: float = 0.0
    accepted: float = 0.0
    draft_tokens: float = 0.0
    generated: float = 0.0
    updates: float = 0.0
    update_seconds: float = 0.0
    prompt_tokens: float = 0.0
    running: float = 0.0
    waiting: float = 0.0
    positions: tuple[float, ...] = ()

    @property
    def acceptance_length(self) -> float | None:
        """Mean tokens of a draft, the bonus token included; None without drafts."""
        return 1 + self.accepted / self.drafts if self.drafts > 0 else None

    @property
    def step_seconds(self) -> float | None:
        """Mean seconds of a decode step as a request sees it; None without any."""
        return self.update_seconds / self.updates if self.updates > 0 else None


class _Open(NamedTuple):
    """A stretch that is not full yet: what grew in it, its end so far, and the levels then."""

    decode: Decode = NOTHING
    prompt_tokens: float = 0.0
    seconds: float = 0.0
    ended: float = 0.0
    levels: Mapping[str, float] = MappingProxyType({})


class Traces:
    """The open stretch of every engine; `add` hands out those that end."""

    def __init__(self) -> None:
        self._open: dict[Labels, _Open] = {}

    def add(self, engines: Iterable[Window]) -> list[tuple[Labels, Point]]:
        """Take one round's windows of a target's engines; return the stretches that end here."""
        ended: list[tuple[Labels, Point]] = []
        for window in engines:
            held = self._open.pop(window.subject, None)
            if window.gap and window.seconds is None:
                full = False  # not read: the stretch may go on
            elif window.seconds is None or (window.gap and window.seconds > UNREAD):
                full = True  # as far as it came: another life, or time that nobody saw
            else:
                held = _longer(held or _Open(), window, window.seconds)
                full = held.seconds >= STRETCH - LATE
            if held is not None and full:
                ended.append((window.subject, _point(held)))
            elif held is not None:
                self._open[window.subject] = held
        return ended

    def keep(self, subjects: Container[Labels]) -> None:
        """Forget the engines that are not among these."""
        self._open = {about: held for about, held in self._open.items() if about in subjects}


def _longer(held: _Open, window: Window, seconds: float) -> _Open:
    return _Open(
        held.decode.then(window.decode),
        held.prompt_tokens + window.grown.get(s.PROMPT_TOKENS, 0.0),
        held.seconds + seconds,
        window.ended,
        window.levels,
    )


def _point(held: _Open) -> Point:
    decode, levels = held.decode, held.levels
    return Point(
        held.ended,
        held.seconds,
        decode.real_drafts,
        decode.accepted,
        decode.draft_tokens,
        decode.generated,
        decode.updates,
        decode.update_seconds,
        held.prompt_tokens,
        levels.get(s.RUNNING, 0.0),
        levels.get(s.WAITING, 0.0),
        decode.accepted_at,
    )


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """
    Add neighbours up, two by two, until there are `most` at most.

    Only neighbours without a gap between them are added, so that a gap stays one; where gaps
    alone are too many, the oldest points go.
    """
    thin = list(points)
    while len(thin) > most:
        pairs = _in_pairs(thin)
        if len(pairs) == len(thin):
            return thin[-most:]
        thin = pairs
    return thin


def _in_pairs(points: list[Point]) -> list[Point]:
    merged: list[Point] = []
    waiting: Point | None = None
    for point in points:
        if waiting is None:
            waiting = point
        elif point.at - point.seconds - waiting.at < STRETCH / 2:
            merged.append(_sum(waiting, point))
            waiting = None
        else:
            merged.append(waiting)
            waiting = point
    return merged if waiting is None else [*merged, waiting]


def _sum(a: Point, b: Point) -> Point:
    return Point(
        b.at,
        a.seconds + b.seconds,
        a.drafts + b.drafts,
        a.accepted + b.accepted,
        a.draft_tokens + b.draft_tokens,
        a.generated + b.generated,
        a.updates + b.updates,
        a.update_seconds + b.update_seconds,
        a.prompt_tokens + b.prompt_tokens,
        b.running,
        b.waiting,
        tuple(x + y for x, y in zip_longest(a.positions, b.positions, fillvalue=0.0)),
    )
