"""
An engine's trace to the geometry of its curve: numbers only, the template writes the drawing.

Across, positions are percent of the width, so that the drawing fits every screen; only the path
is in units of its own, which are stretched. Downwards everything is in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from itertools import pairwise
from typing import Final, NamedTuple

from watchdog.domain import wording as w
from watchdog.domain.series import MOST_POSITIONS
from watchdog.domain.trace import STRETCH, UNREAD, Point

TOP: Final = 10.0
BASE: Final = 154.0
"""Pixels down to the upper end of the scale, and to its lower one; below are the times."""

ACROSS: Final = 1440.0
"""Units of the path across."""

LEAST: Final = 1.0
"""The scale's lower end: a draft without an accepted token still brings one."""

MOST: Final = MOST_POSITIONS + 1.0
LABEL: Final = 13.0
"""Pixels that labels of marks are apart."""

SPANS: Final = (
    (900.0, 300.0), (1800.0, 600.0), (3600.0, 900.0), (3 * 3600.0, 1800.0), (6 * 3600.0, 3600.0),
    (12 * 3600.0, 3 * 3600.0), (86400.0, 6 * 3600.0),
)  # fmt: skip
"""Seconds that a curve may show, and between two of its ticks."""

STEPS: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


class Tick(NamedTuple):
    """A tick: percent from the left, or pixels from the top; and its words."""

    at: float
    text: str

    @property
    def anchor(self) -> str:
        """Return where the words hang, so that they are not cut at an edge."""
        return "start" if self.at < 4 else "end" if self.at > 96 else "middle"


class Mark(NamedTuple):
    """A line across: pixels from the top of it and of its words."""

    at: float
    words_at: float
    text: str


class Gap(NamedTuple):
    """A time without a reading: percent."""

    at: float
    width: float


class Curve(NamedTuple):
    """A drawing of one engine; `told` says in words what it shows."""

    path: tuple[str, ...]
    gaps: tuple[Gap, ...]
    across: tuple[Tick, ...]
    down: tuple[Tick, ...]
    marks: tuple[Mark, ...]
    span: str
    told: str


def span_of(traces: Iterable[Sequence[Point]], now: float) -> float:
    """Return the seconds that all curves of a page show: what there is, 24 hours at most."""
    oldest = min((points[0].at - points[0].seconds for points in traces if points), default=now)
    return next((span for span, _ in SPANS if now - oldest <= span), SPANS[-1][0])


def drawn(
    points: Sequence[Point],
    marks: Sequence[tuple[str, float]],
    now: float,
    span: float,
    skew: float = 0.0,
) -> Curve | None:
    """Return the drawing; None where no stretch of the span has a draft."""
    seen = [p for p in points if now - span < p.at <= now and p.seconds > 0]
    lengths = [length for p in seen if (length := length_of(p)) is not None]
    if not lengths:
        return None
    lines = [(text, value) for text, value in marks if math.isfinite(value)]
    highest = max(2.0, *lengths, *(value for _, value in lines))
    top = min(MOST, LEAST + (highest - LEAST) * 1.08)
    across = _Across(now, span)
    gaps = _gaps(seen, across)
    return Curve(
        _path(seen, across, top),
        gaps,
        _times(across, skew),
        _scale(top),
        _marks(lines, top),
        w.span(span) if span < 86400 else "24 h",
        _told(lengths, lines, span, gaps),
    )


def length_of(point: Point) -> float | None:
    """Return the acceptance length where it is a number that a drafter may have."""
    length = point.acceptance_length
    if length is None or not math.isfinite(length):
        return None
    return min(MOST, max(LEAST, length))


class _Across(NamedTuple):
    now: float
    span: float

    def percent(self, at: float) -> float:
        share = (at - (self.now - self.span)) / self.span
        return round(min(1.0, max(0.0, share)) * 100, 3)


def _down(value: float, top: float) -> float:
    share = (min(top, max(LEAST, value)) - LEAST) / (top - LEAST)
    return round(BASE - share * (BASE - TOP), 1)


def _path(points: list[Point], across: _Across, top: float) -> tuple[str, ...]:
    """Join the middles of neighbouring stretches; a gap, or one without drafts, lifts the pen."""
    written: list[str] = []
    run: list[tuple[float, float]] = []
    before: Point | None = None
    for point in points:
        length = length_of(point)
        if before is not None and (length is None or _apart(before, point)):
            written += _run(run, before, across)
            run = []
        if length is not None:
            if not run:
                run.append((point.at - point.seconds, _down(length, top)))
            run.append((point.at - point.seconds / 2, _down(length, top)))
        before = point
    if before is not None:
        written += _run(run, before, across)
    return tuple(written)


def _run(run: list[tuple[float, float]], last: Point, across: _Across) -> list[str]:
    if not run:
        return []
    places = [*run, (last.at, run[-1][1])]
    return [
        f"{'L' if i else 'M'}{across.percent(at) / 100 * ACROSS:.1f} {y:g}"
        for i, (at, y) in enumerate(places)
    ]


def _apart(before: Point, point: Point) -> bool:
    return point.at - point.seconds - before.at > STRETCH / 2


def _gaps(points: list[Point], across: _Across) -> tuple[Gap, ...]:
    """Find what lies between stretches, before the first and after the last."""
    began = points[0].at - points[0].seconds
    found = [(across.now - across.span, began)]
    found += [(a.at, b.at - b.seconds) for a, b in pairwise(points) if _apart(a, b)]
    if across.now - points[-1].at > UNREAD:
        found.append((points[-1].at, across.now))
    spans = ((across.percent(a), across.percent(b)) for a, b in found)
    return tuple(Gap(a, round(b - a, 3)) for a, b in spans if b - a > 0.05)


def _times(across: _Across, skew: float) -> tuple[Tick, ...]:
    """Put ticks at whole hours or minutes of the wall clock, in UTC; midnight has its day."""
    every = next(tick for span, tick in SPANS if span >= across.span)
    first = math.ceil((across.now - across.span + skew) / every) * every
    count = int((across.now + skew - first) // every) + 1
    ticks = []
    for i in range(count):
        at = first + i * every
        moment = datetime.fromtimestamp(at, timezone.utc)
        midnight = moment.hour == moment.minute == 0
        text = f"{moment.day} {moment:%b}" if midnight else f"{moment:%H:%M}"
        ticks.append(Tick(across.percent(at - skew), text))
    return tuple(ticks)


def _scale(top: float) -> tuple[Tick, ...]:
    step = next((step for step in STEPS if (top - LEAST) / step <= 5), STEPS[-1])
    values = [LEAST] + [
        i * step for i in range(int(top / step) + 1) if i * step >= LEAST + step / 2
    ]
    return tuple(Tick(_down(value, top), f"{value:g}") for value in values)


def _marks(lines: list[tuple[str, float]], top: float) -> tuple[Mark, ...]:
    """Write the words above each line, from the lowest up, and never one over another."""
    placed: list[Mark] = []
    free = BASE - 3.0
    for text, value in sorted(lines, key=lambda line: line[1]):
        at = _down(value, top)
        words_at = min(at - 4.0, free)
        free = words_at - LABEL
        placed.append(Mark(at, round(max(TOP, words_at), 1), f"{value:.4g} {text}"))
    return tuple(placed)


def _told(
    lengths: list[float], marks: list[tuple[str, float]], span: float, gaps: Sequence[Gap]
) -> str:
    over = "24 h" if span >= 86400 else w.span(span)
    said = f"Over {over} between {min(lengths):.2f} and {max(lengths):.2f}, last {lengths[-1]:.2f}"
    said += "".join(f"; {text} {value:.4g}" for text, value in marks)
    if gaps:
        said += f"; {len(gaps)} gap{'' if len(gaps) == 1 else 's'}, not read"
    return f"{said}."
