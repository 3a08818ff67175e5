"""
Which categories the requests are of, hour by hour: drift, campaigns, out-of-domain episodes.

All assumed: the logits of the shares drift by two Ornstein-Uhlenbeck processes of 6 hours and
5 days; 20 campaigns a year of one category at 85 % for a day on average; some episodes a year
of out-of-domain text at 92 % for 3 hours on average. Engines share the mix up to a jitter of
their own, which wanders within 5 days.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from bench.detection.acceptance import CATEGORIES, ODD, SHARES
from bench.detection.streams import Floats, Purpose, Streams

HOURS: Final = 24
RELAXATION: Final = (6.0, 120.0)
"""Hours of the two processes."""
SPREAD: Final = (0.7, 0.5)
"""Their standard deviations, logits."""
CAMPAIGNS: Final = 20.0
"""A year."""
CAMPAIGN: Final = (0.85, 24.0)
"""Share of the requests, and mean length in hours."""
ODD_TEXT: Final = (0.92, 3.0)


class Mix:
    """Shares of the requests of `days` days. A shorter life is the beginning of a longer one."""

    def __init__(
        self, streams: Streams, days: int, odd_per_year: float, engines: int, jitter: float
    ) -> None:
        drift = sum(
            _wander(streams, days, (Purpose.DRIFT_START, Purpose.DRIFT), i, 1)
            * np.float64(SPREAD[i])
            for i in (0, 1)
        )
        own = np.zeros((1, 1, 1))
        if jitter:
            own = jitter * _wander(
                streams, days, (Purpose.JITTER_START, Purpose.JITTER), 1, engines
            )
        weights = SHARES[:ODD] * np.exp(drift + own)
        weights /= weights.sum(axis=2, keepdims=True)
        shape = (days * HOURS, engines, len(CATEGORIES))
        self.shares: Floats = np.zeros(shape)
        self.shares[:, :, :ODD] = weights
        campaigns = _episodes(streams, days, Purpose.CAMPAIGNS, CAMPAIGNS, CAMPAIGN[1])
        for begins, ends, which in campaigns:
            self._take(CAMPAIGN[0], begins, ends, int(which * ODD))
        for begins, ends, _ in _episodes(streams, days, Purpose.ODD, odd_per_year, ODD_TEXT[1]):
            self._take(ODD_TEXT[0], begins, ends, ODD)

    def of_day(self, day: int, engine: int) -> Floats:
        """Shares by hour and category."""
        shares: Floats = self.shares[day * HOURS : (day + 1) * HOURS, engine]
        return shares

    def _take(self, share: float, begins: float, ends: float, category: int) -> None:
        """Give a category this share of the requests between two hours of the life."""
        for hour in range(int(begins), min(len(self.shares), int(ends) + 1)):
            part = share * max(0.0, min(ends, hour + 1) - max(begins, hour))
            self.shares[hour] *= 1 - part
            self.shares[hour, :, category] += part


def _wander(
    streams: Streams, days: int, purposes: tuple[int, int], process: int, engines: int
) -> Floats:
    """Ornstein-Uhlenbeck paths of variance 1: hour, engine, category."""
    keep = float(np.exp(-1 / RELAXATION[process]))
    ages = np.arange(HOURS)[:, None] - np.arange(HOURS)[None, :]
    old = np.where(ages >= 0, keep ** np.maximum(ages, 0), 0.0) * np.sqrt(1 - keep**2)
    fade = keep ** np.arange(1, HOURS + 1)[:, None]
    start, daily = purposes
    width = engines * ODD
    paths = np.empty((days, HOURS, width))
    last = streams.of(start, part=process).standard_normal(width)
    for day in range(days):
        noise = streams.of(daily, day, part=process).standard_normal((HOURS, width))
        paths[day] = fade * last + old @ noise
        last = paths[day, -1]
    return paths.reshape(days * HOURS, engines, ODD)


def _episodes(
    streams: Streams, days: int, purpose: int, per_year: float, hours: float
) -> Iterator[tuple[float, float, float]]:
    """Begin and end of episodes, in hours of the life, and a number that picks something."""
    for day in range(days):
        stream = streams.of(purpose, day)
        for _ in range(stream.poisson(per_year / 365)):
            begins = HOURS * (day + stream.random_sample())
            yield begins, begins + stream.exponential(hours), stream.random_sample()
