"""What can be wrong with a drafter, as a change of its acceptance and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

import numpy as np

from bench.detection.acceptance import (
    DEEPER,
    logits,
    overall_length,
    pooled_first,
    pooled_length,
    solved,
)
from bench.detection.streams import Bools, Floats, Ints

BROKEN: Final = {
    "incident": (1.058, 0.051),
    "incident_greedy": (1.078, 0.067),
    "mild": (1.113, 0.09),
    "twilight": (1.20, 0.149),
}
"""Broken on all text alike: acceptance length, and acceptance at position 0."""

KINDS: Final = (*BROKEN, "zero", "degrade", "deep", "stop")


class Fault(NamedTuple):
    """
    Something wrong from `begins` until before `ends`, in seconds of the life.

    `engine` None: all of them. Kinds: those of BROKEN; "zero", nothing is accepted; "degrade",
    all positions, and "deep", all but position 0, lower the acceptance length of the usual mix
    by the share `size`; "stop", nothing is drafted and each update gives one token.
    """

    kind: str
    begins: float = 0.0
    ends: float = float("inf")
    engine: int | None = None
    size: float = 0.0


class Drafter(NamedTuple):
    """One engine's drafter on one day; `began` is the day's begin in seconds of the life."""

    sd: float
    faults: tuple[Fault, ...]
    began: float

    def logits(self, at: Floats, category: Ints, shift: Floats) -> tuple[Floats, Floats, Bools]:
        """
        What is accepted at seconds of the day, by category and the request's shift.

        Logits of position 0 and of each deeper one, and whether nothing is drafted at all.
        """
        first = logits(self.sd)[category] + shift
        deep = first + DEEPER
        stopped = np.zeros(len(at), bool)
        for fault in self.faults:
            now = at + self.began
            hit = (now >= fault.begins) & (now < fault.ends)
            if fault.kind == "stop":
                stopped |= hit
            elif fault.kind in ("degrade", "deep"):
                by = size_shift(fault.kind, fault.size, self.sd)
                deep[hit] += by
                first[hit] += by if fault.kind == "degrade" else 0.0
            else:
                low = broken(fault.kind, self.sd)
                first[hit], deep[hit] = low[0] + shift[hit], low[1] + shift[hit]
        return first, deep, stopped


def of_engine(faults: Sequence[Fault], engine: int) -> tuple[Fault, ...]:
    """Return the faults that this engine has. An unknown kind is a mistake."""
    for fault in faults:
        if fault.kind not in KINDS:
            raise ValueError(f'no fault "{fault.kind}": one of {", ".join(KINDS)}')
    return tuple(fault for fault in faults if fault.engine in (None, engine))


def edges(faults: Sequence[Fault], began: float, seconds: float) -> list[float]:
    """Seconds of the day at which a fault begins or ends inside it."""
    times = {t - began for fault in faults for t in (fault.begins, fault.ends)}
    return sorted(t for t in times if 0 < t < seconds)


@lru_cache(maxsize=64)
def broken(kind: str, sd: float) -> tuple[float, float]:
    """Logits of position 0 and of the deeper ones of a drafter that is broken on all text."""
    if kind == "zero":
        return -np.inf, -np.inf
    length, at_first = BROKEN[kind]
    first = deep = -2.0
    for _ in range(5):  # each depends a little on the other
        first = solved(partial(pooled_first, deep=deep, sd=sd), at_first)
        deep = solved(partial(_length_by_deep, first, sd), length)
    return first, deep


def _length_by_deep(first: float, sd: float, deep: float) -> float:
    return pooled_length(first, deep, sd)


@lru_cache(maxsize=64)
def size_shift(kind: str, size: float, sd: float) -> float:
    """Return the logit shift that lowers the usual mix's acceptance length by a share."""
    wanted = (1 - size) * overall_length(sd)
    first = 1.0 if kind == "degrade" else 0.0
    return solved(lambda x: overall_length(sd, first * x, x), wanted)
