"""
What acceptance length is usual for requests whose prompts and answers are as long as these.

Kinds of text differ in how well they are drafted, and mostly in how long their prompts and answers
are too. So the learned days tell how the length moves with both, by a regression of its logarithm
on those of the tokens of a prompt and of an answer (docs/detection.md has what that is worth, and
on what it rests). Drafts change neither: every token is verified, so a worse drafter gives the
same answers. The prefix cache is left out, since a restart empties it.

A fault must not be explained away by traffic that changed with it. So a coefficient is drawn
towards 0; none counts where days that were not fitted are foretold no better; traffic that no
learned day was like is not judged by them; and the usual length moves by DOWN and UP at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import Final, NamedTuple

from watchdog.domain.baseline import Block, Day

LEAST_DAYS: Final = 14
"""Learned days of known traffic below which nothing is adjusted. Chosen on the generator."""

DOWN: Final = 0.10
"""Log units by which the usual length is lowered at most, 10 %: chosen for what may be hidden."""

UP: Final = 0.05
"""The same upwards, 5 %: longer prompts and answers without other text raise false warnings."""

BEYOND: Final = 0.15
"""Log units, 16 %, by which prompts or answers may be longer or shorter than on any learned day."""

DOUBT: Final = 0.1
"""
What draws a coefficient to 0 (ridge), in squared log units of prompts or answers.

Of 28 days whose prompts differ by 6 % it halves the coefficient, by 20 % it takes a tenth of it.
"""

HELPS: Final = 0.85
"""Share of the days' spread that may be left where each is foretold by the others."""


class Point(NamedTuple):
    """A stretch of traffic: logarithms of tokens of a prompt, of an answer, and of a draft."""

    prompt: float
    answer: float
    length: float


class Slopes(NamedTuple):
    """By how much the logarithm of the length moves with those of the prompt and the answer."""

    prompt: float
    answer: float

    def at(self, to: Point, of: Point) -> float:
        """Return the logarithm that the length `of` a day has with the traffic of `to`."""
        return of.length + sum(
            slope * (new - old) for slope, new, old in zip(self, to[:2], of[:2], strict=True)
        )


def usual_for(days: Sequence[Day], now: Block) -> float | None:
    """
    Return the length that is usual for the traffic of `now`, in tokens a draft.

    It is the median of what each day's would have been with it. None where that is not known: too
    few days, traffic unlike all of them, or days that prompts and answers tell nothing about.
    """
    here = _point(now)
    learned = {day.at: day for day in days}  # what an operator accepted is one day, many times
    known = [point for day in learned.values() if (point := _point(day)) is not None]
    if here is None or len(known) < LEAST_DAYS or not _is_like(here, known):
        return None
    slopes = _slopes(known)
    if slopes is None:
        return None
    plain = median(point.length for point in known)
    moved = median(slopes.at(here, point) for point in known) - plain
    return math.exp(plain + min(UP, max(-DOWN, moved)))


def _is_like(here: Point, known: Sequence[Point]) -> bool:
    """Whether prompts and answers are about as long as on some of the days, each by itself."""
    return all(
        min(seen) - BEYOND <= now <= max(seen) + BEYOND
        for now, *seen in list(zip(here, *known, strict=True))[:2]
    )


def _point(of: Day | Block) -> Point | None:
    if min(of.requests, of.prompt_tokens, of.generated, of.drafts) <= 0:
        return None
    return Point(
        math.log(of.prompt_tokens / of.requests),
        math.log(of.generated / of.requests),
        math.log(1 + of.accepted / of.drafts),
    )


def _slopes(points: Sequence[Point]) -> Slopes | None:
    """Fit; None where a day is foretold by the others hardly better than by their mean."""
    middle = Point(*map(fmean, zip(*points, strict=True)))
    rows = [Point(*(x - m for x, m in zip(p, middle, strict=True))) for p in points]
    a = DOUBT + math.fsum(r.prompt**2 for r in rows)
    b = DOUBT + math.fsum(r.answer**2 for r in rows)
    c = math.fsum(r.prompt * r.answer for r in rows)
    u = math.fsum(r.prompt * r.length for r in rows)
    v = math.fsum(r.answer * r.length for r in rows)
    whole = a * b - c * c
    slopes = Slopes((b * u - c * v) / whole, (a * v - c * u) / whole)
    # How far each is from what the others foretell follows from its own weight in the fit.
    alone = 1 / len(rows)
    missed, plain = [], []
    for r in rows:
        own = (b * r.prompt**2 - 2 * c * r.prompt * r.answer + a * r.answer**2) / whole
        left = r.length - slopes.prompt * r.prompt - slopes.answer * r.answer
        missed.append(left / (1 - alone - own))
        plain.append(r.length / (1 - alone))
    return slopes if _size(plain) > 0 and _size(missed) <= HELPS * _size(plain) else None


def _size(values: Iterable[float]) -> float:
    return math.sqrt(math.fsum(value**2 for value in values))
