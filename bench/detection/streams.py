"""Random numbers by seed, day, purpose and engine alone: any day can be made by itself."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Purpose(IntEnum):
    """What random numbers are for. Numbers are never used again for something else."""

    ARRIVALS = 1
    REQUESTS = 2
    STEPS = 3
    DRIFT = 4
    DRIFT_START = 5
    JITTER = 6
    JITTER_START = 7
    CAMPAIGNS = 8
    ODD = 9
    RESTARTS = 10
    GAPS = 11
    MISSED = 12
    ACCEPTED = 100  # and the positions after it


class Streams:
    """
    The streams of one life. RandomState because its numbers are frozen for ever.

    One generator, seeded anew: making one takes ten times as long as seeding one. So a stream
    is over when the next one is asked for.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._state = np.random.RandomState(0)

    def of(
        self, purpose: int, day: int = 0, engine: int = 0, part: int = 0
    ) -> np.random.RandomState:
        """Return the stream; `part` where one purpose has several in a day."""
        self._state.seed([self.seed, day, purpose, engine, part])
        return self._state
