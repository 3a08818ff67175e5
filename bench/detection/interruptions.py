"""
What interrupts a life: restarts, and scrapes that fail.

Assumed: 26 restarts a year, each down for half a minute to two minutes in which pages cannot be
read; 0.2 % of the scrapes time out; 12 gaps a year of 3 minutes to 4 hours without any page.
Restarts are of the whole server, so of all its engines.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bench.detection.streams import Bools, Purpose, Streams

DAY: Final = 86_400
RESTARTS: Final = 26.0
"""A year."""
DOWN: Final = (30.0, 120.0)
MISSED: Final = 0.002
GAPS: Final = 12.0
"""A year."""
GAP: Final = (180.0, 14_400.0)


class Interruptions(NamedTuple):
    """
    Of one day: which windows end with a page, and the spans of windows (first, and the one in
    which counters begin at 0) in which the server is down. Whole windows, for simplicity.
    """

    read: Bools
    downs: tuple[tuple[int, int], ...]


def of_day(streams: Streams, day: int, interval: float) -> Interruptions:
    windows = round(DAY / interval)
    read: Bools = streams.of(Purpose.MISSED, day).random_sample(windows) >= MISSED
    stream = streams.of(Purpose.GAPS, day)
    for _ in range(stream.poisson(GAPS / 365)):
        begins, u = int(stream.random_sample() * windows), stream.random_sample()
        seconds = GAP[0] * (GAP[1] / GAP[0]) ** u
        read[begins : begins + round(seconds / interval)] = False
    downs = []
    stream = streams.of(Purpose.RESTARTS, day)
    for _ in range(stream.poisson(RESTARTS / 365)):
        first, seconds = int(stream.random_sample() * windows), stream.uniform(*DOWN)
        up = min(windows - 1, first + round(seconds / interval))
        read[first:up] = False
        downs.append((first, up))
    return Interruptions(read, tuple(sorted(downs)))
