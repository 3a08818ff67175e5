"""
The clock of somebody who answers us, as far as the dates of the answers tell.

A `Date` has whole seconds, and was written somewhere between question and answer. So it bounds
the other clock from both sides, and a slow answer only makes the bounds wide.
"""

from __future__ import annotations

from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

TOLERATED: Final = 5.0
"""Seconds that our clock may be behind another before it matters, and before it is told."""

FRESH: Final = 120.0
"""Seconds for which what an answer told is good: two resends, so while alerts fire no one asks."""

MOST_YEARS: Final = 1000 * 365.25 * 86400.0
"""Seconds since 1970 beyond which a date is no clock's, and cannot be written with 240 s more."""


class Bounds(NamedTuple):
    """Seconds to add to our timeline to have the other clock: `low` at least, `high` at most."""

    low: float
    high: float

    def allows(self, offset: float) -> bool:
        """
        Whether what is stamped by this offset is read rightly.

        A little behind harms nothing; but what ends in the other's future has not ended.
        """
        return self.low - TOLERATED <= offset <= self.high


class OtherClock:
    """
    One other clock. `skew` is what to add to our timeline to have our own wall clock.

    It is kept as the distance from our timeline, so a step of our wall clock does not touch it.
    """

    def __init__(self) -> None:
        self.bounds: Bounds | None = None
        self._learnt: tuple[float, float] | None = None  # when, and our skew then

    def must_ask(self, now: float, skew: float) -> bool:
        """Whether an answer is needed first: none came lately, or our own clock was stepped."""
        if self._learnt is None:
            return True
        at, was = self._learnt
        return not 0 <= now - at <= FRESH or abs(skew - was) >= TOLERATED

    def learn(self, date: str, asked: float, answered: float, skew: float) -> None:
        """Take an answer's `Date`, "" for none; `asked` and `answered` on the timeline."""
        self._learnt = (answered, skew)
        shown = _unix(date)
        if shown is not None:
            self.bounds = Bounds(shown - answered, shown + 1.0 - asked)

    def offset(self, skew: float) -> float:
        """
        Seconds to add to the timeline in what is told: our wall clock where that is right.

        Else the lower bound: what has ended must not seem to end in the other's future.
        """
        if self.bounds is None or self.bounds.allows(skew):
            return skew
        return self.bounds.low

    def ahead(self, skew: float) -> float:
        """Return by how many seconds our wall clock is ahead of the other; negative: behind."""
        if self.bounds is None or self.bounds.low <= skew <= self.bounds.high:
            return 0.0
        return skew - (self.bounds.low + self.bounds.high) / 2


def _unix(date: str) -> float | None:
    """Unix seconds of an HTTP date; None where it is none."""
    try:
        moment = parsedate_to_datetime(date[:64])
        if moment.tzinfo is None:  # "-0000": a time in UTC that names no zone
            moment = moment.replace(tzinfo=timezone.utc)
        seconds = moment.timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return seconds if 0 <= seconds <= MOST_YEARS else None
