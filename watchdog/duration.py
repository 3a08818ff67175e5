"""Durations as people write them, `15s` or `1h30m`, to seconds and back."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_WHOLE = re.compile("".join(f"(?:([0-9]{{1,9}}){unit})?" for unit in _UNITS))

HINT: Final = "write a duration as 500ms, 15s, 5m, 6h, 2d or 1h30m"


def parse_duration(text: str) -> float:
    """Return the seconds of `1h30m`; units from large to small. Raises ValueError with the hint."""
    match = _WHOLE.fullmatch(text)
    if not text or match is None:
        raise ValueError(HINT)
    parts = zip(match.groups(), _UNITS.values(), strict=True)
    return sum(int(count) * unit for count, unit in parts if count is not None)


def format_duration(seconds: float) -> str:
    """Return seconds as `parse_duration` reads them, whole milliseconds."""
    left = round(seconds * 1000)
    parts = []
    for unit, size in _UNITS.items():
        count, left = divmod(left, round(size * 1000))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
