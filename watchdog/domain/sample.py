"""What a probe brings home."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

Labels = tuple[tuple[str, str], ...]
"""Name and value pairs, sorted by name: the identity of a subject or an alert."""

HOST: Final = ""
"""The target of a reading about this host itself."""

Facts = Mapping[str, object]
"""What a probe learned that is no number: a version, the kind of page. Bounded by the probe."""

NO_FACTS: Facts = MappingProxyType({})


def number(value: Any) -> float | None:
    """Return a fact or a figure that is a finite number, None for anything else."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


def labels(**pairs: str) -> Labels:
    """Make labels of keyword arguments."""
    return tuple(sorted(pairs.items()))


class Sample(NamedTuple):
    """
    One value of one series at the time of its reading.

    `series` is a word of ours (see `domain/series.py`), never the name on the wire; `subject`
    says whom it is about: {target}, {engine, model_name, target}, or {slot} of a GPU.
    """

    subject: Labels
    series: str
    value: float


@dataclass(frozen=True, slots=True)
class Reading:
    """
    What one probe brought home of one target in one round: samples and facts, or the error.

    A reading of this host has the target HOST, and `slot` where it is about one GPU: the address
    of the port that the card is plugged into.
    `answered` is False only where nothing answered at all (see `NoAnswer`); a page that
    answered and made no sense has an error and `answered` True. `took` is in seconds.
    """

    probe: str
    target: str
    samples: tuple[Sample, ...] = ()
    facts: Facts = field(default_factory=lambda: NO_FACTS)
    error: str | None = None
    answered: bool = True
    took: float = 0.0
    slot: str = ""
