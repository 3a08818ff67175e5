"""
The link in amdgpu's binary `gpu_metrics` file: pure, and no input raises.

The file begins with its size (u16), format and content revision (u8 each), little endian. Only
layouts are read whose offsets are known for certain; v1.0 changed without a new number, and the
APUs' v2 and v3 have no link.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from watchdog.probes.pcie_text import WIDTHS, Link


class _Layout(NamedTuple):
    """Size of the whole structure, and where the width lies; the speed follows it. Bytes."""

    size: int
    width_at: int


_LAYOUTS: Final[Mapping[tuple[int, int], _Layout]] = MappingProxyType(
    {  # kgd_pp_interface.h of Linux: Navi, RDNA2 to 4 (1.1 to 1.3), MI300 (1.4, 1.5)
        (1, 1): _Layout(96, 74),
        (1, 2): _Layout(104, 74),
        (1, 3): _Layout(120, 74),
        (1, 4): _Layout(288, 48),
    }
)
_ABSENT: Final = 0xFFFF
_SPEEDS: Final[Mapping[int, float]] = MappingProxyType(
    {25: 2.5, 50: 5.0, 80: 8.0, 160: 16.0, 320: 32.0, 640: 64.0}  # in 0.1 GT/s
    | {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}  # some firmware gives the generation
)


def link(data: bytes) -> Link:
    """Return the link that the file states, or why it states none."""
    if len(data) < 4:
        return Link(reason="empty" if not data else "cut")
    size, form, content = struct.unpack_from("<HBB", data)
    layout = _LAYOUTS.get((form, content))
    if layout is None:
        return Link(reason=f"unknown layout v{form}.{content}")
    if size != layout.size:
        return Link(reason=f"v{form}.{content} has {size} bytes, not {layout.size}")
    if len(data) < layout.width_at + 4:
        return Link(reason="cut")
    lanes, tenths = struct.unpack_from("<HH", data, layout.width_at)
    return Link(
        _SPEEDS.get(tenths),
        lanes if lanes in WIDTHS else None,
        ", ".join(_missing(lanes, tenths)),
    )


def _missing(lanes: int, tenths: int) -> list[str]:
    told = (("speed", tenths, tenths in _SPEEDS), ("width", lanes, lanes in WIDTHS))
    return [
        f"no {name}" if value in (0, _ABSENT) else f"{name} {value}"
        for name, value, known in told
        if not known
    ]
