"""What the daemon shows on its port, and what the port may ask of the daemon."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from watchdog.domain.exposition import Totals
from watchdog.domain.report import Delivery, Report


def _ignore(_target: str, _seconds: float) -> None:
    """Nobody listens yet."""


@dataclass
class Board:
    """
    What the daemon puts up and the port shows.

    The daemon's one round writes `report`, the newest, and `rounds`, how many there were;
    `reload_at`, Unix seconds, is when a configuration was last taken, and `reload_ok` False while
    a faulty one is refused. The functions are called from the port's threads: `healthy` says
    whether the last finished round is young, `pause(target, seconds)` and `resume(target)`, True
    if there was a pause, change the alert book.
    """

    report: Report | None = None
    rounds: int = 0
    reload_ok: bool = True
    reload_at: float = 0.0
    healthy: Callable[[], bool] = lambda: False
    known_targets: Callable[[], list[str]] = list
    pause: Callable[[str, float], None] = _ignore
    resume: Callable[[str], bool] = lambda _target: False
    notifications: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, delivery: Delivery) -> None:
        """Count the alerts or changes of a delivery; one that failed counts once at least."""
        result = "ok" if delivery.ok else "failed"
        with self._lock:
            self.notifications[delivery.sink, delivery.instance, result] += max(1, delivery.count)

    def totals(self) -> Totals:
        """Return the counters of this moment."""
        with self._lock:
            return Totals(self.rounds, dict(self.notifications), self.reload_ok, self.reload_at)
