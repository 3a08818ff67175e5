"""
One engine against the others of its target, in figures: same model, same launch, same hours.

Of the others, those that are themselves low against the middle of them are left out: a dead
drafter makes nearly four drafts where a healthy one makes one, so a plain sum is mostly its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import Final, NamedTuple

from watchdog.domain import series as s
from watchdog.domain.acceptance import effective_drafts
from watchdog.domain.history import Window
from watchdog.domain.traffic import Traffic

MOST_Z: Final = 99.0
"""What z is told to be where neither side varies at all."""

ABOUT_HALF: Final = 0.45
"""Share of the tokens that makes no minority: one of two others, and not three of seven."""

ODD: Final = tuple(float(i) for i in range(1, 2 * s.MOST_POSITIONS, 2))


class Tally(NamedTuple):
    """
    What an engine did in some hours. Counts of drafts, tokens, requests, decode updates, steps.

    `drafts` are real ones, without padding. `squares` is the sum over drafts of the square of
    their accepted tokens, which follows from the positions: sum of (2i+1) x accepted at i.
    """

    drafts: float = 0.0
    accepted: float = 0.0
    squares: float = 0.0
    effective: float = 0.0
    requests: float = 0.0
    prompt: float = 0.0
    generated: float = 0.0
    updates: float = 0.0
    iterations: float = 0.0
    queries: float = 0.0
    hits: float = 0.0

    @property
    def traffic(self) -> Traffic:
        """What its requests were like."""
        return Traffic(
            self.requests, self.prompt, self.generated, self.updates, self.iterations,
            self.queries, self.hits,
        )  # fmt: skip

    def grown(self, window: Window, icc: float) -> Tally:
        """
        Add an engine's window; `icc` is how alike the drafts of one request are.

        Written out flat: it is done for every busy engine in every round.
        """
        d, get = window.decode, window.grown.get
        drafts, tokens, accepted, at, made, first, updates, _, steps, padded, counted, _, _ = d
        real = drafts - padded
        # Without positions the most that the squares can be: all tokens of a draft, or none.
        squares = sum(map(mul, ODD, at)) if at else accepted * tokens / (drafts or 1.0)
        known = window.profile.icc
        if known > 0 and counted > 0:  # what was discounted by one correlation, by another
            effective = real / (1 + (real / counted - 1) * icc / known)
        else:
            effective = effective_drafts(real, d.requests, d.seconds, icc)
        return tuple.__new__(  # a third faster than Tally(...)
            Tally,
            (
                self.drafts + real,
                self.accepted + accepted,
                self.squares + squares,
                self.effective + effective,
                self.requests + first,
                self.prompt + get(s.PROMPT_TOKENS, 0.0),
                self.generated + made,
                self.updates + updates,
                self.iterations + steps,
                self.queries + get(s.PREFIX_QUERIES, 0.0),
                self.hits + get(s.PREFIX_HITS, 0.0),
            ),
        )

    def less(self, other: Tally) -> Tally:
        """Take one out that is in it."""
        return Tally._make(max(0.0, a - b) for a, b in zip(self, other, strict=True))

    @property
    def length(self) -> float | None:
        """Acceptance length: 1 + accepted / drafts."""
        return 1 + self.accepted / self.drafts if self.drafts > 0 else None

    @property
    def error(self) -> float:
        """Variance of the length: that of accepted tokens per draft, over effective drafts."""
        if self.effective <= 0:
            return math.inf
        mean = self.accepted / self.drafts
        return max(0.0, self.squares / self.drafts - mean**2) / self.effective

    @property
    def coverage(self) -> float | None:
        """Drafts per decode update."""
        return self.drafts / self.updates if self.updates > 0 else None


NONE: Final = Tally()


class Bar(NamedTuple):
    """What an engine must be below: a share of the others' length, standard deviations."""

    low: float
    z: float

    @property
    def half_way(self) -> float:
        """The ratio above which a warning resolves."""
        return (1 + self.low) / 2


class Look(NamedTuple):
    """
    One comparison: an engine and the rest over the last `hours` whole hours before `at`.

    `at` and `began` in seconds of the timeline. `others` is how many engines the rest are,
    `left_out` how many more drafted and are low against the middle themselves. `enough`: there
    was evidence on both sides.
    """

    at: float
    began: float
    hours: int
    own: Tally
    rest: Tally
    others: int
    left_out: int = 0
    enough: bool = False

    @property
    def ratio(self) -> float | None:
        """The engine's acceptance length as a share of the others'."""
        own, rest = self.own.length, self.rest.length
        return own / rest if own is not None and rest is not None else None

    @property
    def z(self) -> float:
        """Standard deviations by which the engine is above the others; below 0 it is worse."""
        own, rest = self.own.length, self.rest.length
        if own is None or rest is None:
            return 0.0
        error = math.sqrt(self.own.error + self.rest.error)
        if error == 0:
            return math.copysign(MOST_Z, own - rest) if own != rest else 0.0
        return max(-MOST_Z, min(MOST_Z, (own - rest) / error))


class Pool:
    """Engines of one model over the same hours: whom each of them is compared with."""

    def __init__(self, tallies: Sequence[Tally]) -> None:
        self.tallies = tallies

    @cached_property
    def _total(self) -> Tally:
        """All that drafted: one that does not is none to compare with."""
        drafted = [tally for tally in self.tallies if tally.drafts > 0]
        return Tally._make(map(sum, zip(NONE, *drafted, strict=True)))

    @cached_property
    def _ranked(self) -> list[tuple[float, float, int]]:
        """Length, generated tokens and place of each engine that drafted, lowest length first."""
        told = ((t.length, t.generated, i) for i, t in enumerate(self.tallies))
        return sorted((length, weight, i) for length, weight, i in told if length is not None)

    def effective_rest(self, of: int) -> float:
        """Return the most effective drafts that the others of one engine can have."""
        return self._total.effective - self.tallies[of].effective

    def rest(self, of: int, share: float) -> tuple[Tally, int, int]:
        """
        Sum the others of one engine, without those below `share` of the middle of them.

        The middle is by generated tokens: a broken engine makes more drafts of the same traffic.
        Also return how many are in the sum, and how many were left out.
        """
        others = [entry for entry in self._ranked if entry[2] != of]
        if not others:
            return NONE, 0, 0
        cut = share * _middle(others)
        low = [i for length, _, i in others if length < cut]
        rest = self._total.less(self.tallies[of])
        for i in low:
            rest = rest.less(self.tallies[i])
        return rest, len(others) - len(low), len(low)


def _middle(ranked: Sequence[tuple[float, float, int]]) -> float:
    """Return the length in the middle, by weight; the lower one where two hold about half each."""
    sums = list(accumulate(weight for _, weight, _ in ranked))
    half = ABOUT_HALF * sums[-1]
    return next(length for (length, _, _), until in zip(ranked, sums, strict=True) if until >= half)
