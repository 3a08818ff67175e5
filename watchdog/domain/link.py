"""PCIe links: what is declared of a slot, what its witnesses tell, and both in words."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from watchdog.domain import series as s

SPEEDS: Final[Mapping[int, float]] = MappingProxyType(
    {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
)
"""PCIe generation to GT/s per lane."""

NEAR: Final = 0.05
"""GT/s by which a speed may be off: gpu_metrics tells tenths."""

ENDS: Final = (s.PORT, s.CARD)
"""Both ends of the slot's link, read from their own registers."""

FIRMWARE: Final = (s.STARRED, s.METRICS, s.NVML)
"""Who else tells of the slot's link, most trusted first: the driver and the card's firmware."""

_CODING: Final = {1: 0.8, 2: 0.8, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130}
"""Generation to the share of bits that are data; what is not listed codes at no cost."""


class Slot(NamedTuple):
    """
    What an operator declares of a slot: a PCIe generation (1 to 6) and a width in lanes.

    `key` is any address between the root port and the GPU's function.
    """

    key: str
    generation: int
    width: int
    note: str = ""

    @property
    def speed(self) -> float:
        """GT/s per lane; a generation that is not known yet counts as the last one that is."""
        return SPEEDS.get(self.generation, SPEEDS[max(SPEEDS)])

    @property
    def link(self) -> Link:
        """The declared link."""
        return Link(self.speed, float(self.width))


class Link(NamedTuple):
    """Speed in GT/s per lane and width in lanes; None for what nobody tells."""

    speed: float | None = None
    width: float | None = None

    @property
    def silent(self) -> bool:
        """Whether nothing is told at all."""
        return self.speed is None and self.width is None

    @property
    def whole(self) -> bool:
        """Whether both are told."""
        return self.speed is not None and self.width is not None

    @property
    def bandwidth(self) -> float | None:
        """GB/s in each direction after line coding; None where speed or width is not told."""
        if self.speed is None or self.width is None:
            return None
        return self.speed * self.width * _CODING.get(generation_of(self.speed) or 0, 1.0) / 8

    def __str__(self) -> str:
        """Write it as `Gen3 x8`."""
        return told(self.speed, self.width)


def generation_of(speed: float | None) -> int | None:
    """Return the PCIe generation of a speed in GT/s; None where it is none of them."""
    if speed is None:
        return None
    return next((g for g, known in SPEEDS.items() if abs(known - speed) <= NEAR), None)


def told(speed: float | None, width: float | None) -> str:
    """Write a link as `Gen3 x8`; what is not told is said so."""
    if speed is None:
        return "unknown" if width is None else f"x{width:.0f} at unknown speed"
    generation = generation_of(speed)
    name = f"{speed:g} GT/s" if generation is None else f"Gen{generation}"
    return f"{name} of unknown width" if width is None else f"{name} x{width:.0f}"


def link_of(levels: Mapping[str, float], witness: str) -> Link:
    """Return what one witness tells in this round."""
    return Link(levels.get(s.LINK_SPEED + witness), levels.get(s.LINK_WIDTH + witness))


def lowest(links: Iterable[Link]) -> Link:
    """Return the lowest speed and the lowest width of those that are told."""
    links = tuple(links)
    speeds = [link.speed for link in links if link.speed is not None]
    widths = [link.width for link in links if link.width is not None]
    return Link(min(speeds, default=None), min(widths, default=None))


class Actual(NamedTuple):
    """
    What a GPU's link to its root port runs.

    `slot` is the slot's own link; `link` is narrowed by the links above the slot, and `above`
    says that one of those is the narrow one. `speed_by` and `width_by` name the witness.
    """

    link: Link = Link()
    slot: Link = Link()
    above: bool = False
    speed_by: str = ""
    width_by: str = ""


def actual_of(levels: Mapping[str, float]) -> Actual:
    """
    Weigh the witnesses: both ends of the slot's link, else the driver's row, else firmware.

    The function of a card with a switch tells of the inside of the card and is never asked. The
    links above the slot only narrow what a witness of the slot has told.
    """
    order = [lowest(link_of(levels, end) for end in ENDS)]
    order += [link_of(levels, witness) for witness in FIRMWARE]
    names = ("ends", *FIRMWARE)
    speeds = [(x.speed, n) for x, n in zip(order, names, strict=True) if x.speed is not None]
    widths = [(x.width, n) for x, n in zip(order, names, strict=True) if x.width is not None]
    speed, speed_by = speeds[0] if speeds else (None, "")
    width, width_by = widths[0] if widths else (None, "")
    slot, path = Link(speed, width), link_of(levels, s.PATH)
    if slot.silent:
        return Actual()
    link = Link(
        speed if path.speed is None or speed is None else min(speed, path.speed),
        width if path.width is None or width is None else min(width, path.width),
    )
    return Actual(link, slot, link != slot, speed_by, width_by)


def declared_of(slots: Iterable[Slot], chain: Iterable[str]) -> Slot | None:
    """Return what is declared of the slot on this chain: the key may be any address of it."""
    addresses = set(chain)
    return next((slot for slot in slots if slot.key in addresses), None)


def below(value: float | None, expected: float) -> bool:
    """Whether a speed or a width that is told is lower than declared."""
    return value is not None and value < expected - NEAR


def above(value: float | None, expected: float) -> bool:
    """Whether a speed or a width that is told is higher than declared."""
    return value is not None and value > expected + NEAR


class Part(enum.Enum):
    """What this round says of a link's speed, or of its width."""

    GOOD = "good"
    BAD = "bad"
    IDLE = "idle"  # bad, or only comparable when busy, and the GPU is not known to be busy
    UNTOLD = "untold"
