"""The round's own timeline, which no step of the wall clock bends."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

BOOT: Final = Path("/proc/sys/kernel/random/boot_id")

STEP: Final = 1.0
"""Seconds that wall clock and timeline must part before we call it a step."""


@dataclass
class Clock:
    """
    Unix seconds that follow the monotonic clock from the moment it was made.

    `speed` above 1 makes time run faster: the demo's minute holds five. `skew()` says how far
    the wall clock has been stepped since, so that what we tell others can be stamped rightly.
    """

    speed: float = 1.0
    _wall: float = field(default_factory=time.time)
    _mono: float = field(default_factory=time.monotonic)
    _stop: threading.Event = field(default_factory=threading.Event)

    def now(self) -> float:
        """Return this moment on the timeline, in Unix seconds."""
        return self._wall + (time.monotonic() - self._mono) * self.speed

    def skew(self) -> float:
        """Seconds to add to the timeline to have the wall clock; 0 unless it was stepped."""
        off = time.time() - (self._wall + time.monotonic() - self._mono)
        return off if abs(off) >= STEP else 0.0

    def sleep(self, seconds: float) -> bool:
        """Sleep that long on the timeline; True if `stop` ended it."""
        return self._stop.wait(max(0.0, seconds / self.speed))

    def stop(self) -> None:
        """End every sleep, now and later."""
        self._stop.set()

    def mark(self) -> dict[str, Any]:
        """Return where the timeline is, for a later process to go on from."""
        return {
            "now": self.now(),
            "monotonic": time.monotonic(),
            "boot": _boot(),
            "wall": time.time(),
        }

    def resume(self, mark: Mapping[str, Any]) -> float:
        """
        Go on with the timeline of a former process; return the seconds since its mark.

        Within one boot the monotonic clock says how long that was, whatever was done to the wall
        clock meanwhile. Over a boot only the wall clock can; it is not believed backwards.
        """
        mono = time.monotonic()
        then, now, wall = (float(mark[key]) for key in ("monotonic", "now", "wall"))
        same_boot = mark["boot"] == _boot() and then <= mono
        away = mono - then if same_boot else max(0.0, time.time() - wall)
        self._wall, self._mono = now + away * self.speed, mono
        return away


@lru_cache(maxsize=1)
def _boot() -> str:
    """Return what names this boot of the host; empty where it cannot be read."""
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""
