"""Acceptance by draft position, as bars: percent across, pixels down, as the curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from watchdog.domain.series import MOST_POSITIONS
from watchdog.domain.wording import percent
from watchdog.page.curve import BASE, TOP

ROOM: Final = 12.0
"""Pixels above the highest bar, for its figure."""

FEW: Final = 9
"""Positions whose figures fit above their bars; of more, only some are written."""


class Bar(NamedTuple):
    """One position: left edge, width and middle in percent; upper end and height in pixels."""

    left: float
    width: float
    middle: float
    top: float
    height: float
    position: str
    figure: str


class Bars(NamedTuple):
    """All positions of a drafter; `told` says them in words. A bar of all drafts is from `top`."""

    bars: tuple[Bar, ...]
    top: float
    height: float
    told: str


def barred(evidence: object) -> Bars | None:
    """Return the bars of a finding's `positions`; None where it has none."""
    if not isinstance(evidence, Sequence) or isinstance(evidence, str):
        return None
    shares = [_share(value) for value in evidence[:MOST_POSITIONS]]
    if not shares:
        return None
    each = 100 / len(shares)
    every = math.ceil(len(shares) / FEW)
    bars = tuple(_bar(i, share, each, every) for i, share in enumerate(shares))
    said = ", ".join(f"{i}: {percent(share)}" for i, share in enumerate(shares))
    return Bars(
        bars,
        TOP + ROOM,
        BASE - TOP - ROOM,
        f"Share of the drafts with this position accepted. {said}.",
    )


def _share(value: object) -> float:
    usable = isinstance(value, (int, float)) and math.isfinite(value)
    return min(1.0, max(0.0, float(value))) if usable else 0.0  # type: ignore[arg-type]


def _bar(i: int, share: float, each: float, every: int) -> Bar:
    height = round(share * (BASE - TOP - ROOM), 1)
    written = i % every == 0
    left, width = i * each + each * 0.14, each * 0.72
    return Bar(
        round(left, 3),
        round(width, 3),
        round((i + 0.5) * each, 3),
        round(BASE - height, 1),
        height,
        str(i) if written else "",
        f"{share * 100:.0f}" if written else "",
    )
