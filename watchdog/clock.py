"""The round's own timeline, which no step of the wall clock bends."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final

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
