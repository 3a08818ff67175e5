"""What the daemon shows on its port, and what the port may ask of the daemon."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from watchdog.domain.exposition import Totals
from watchdog.domain.report import Delivery, Report
from watchdog.domain.sample import Labels
from watchdog.domain.trace import Point
from watchdog.errors import PayloadError, TryLater
from watchdog.probes.inbox import TakeResult
from watchdog.sinks import untold

RESULTS: Final = ("ok", "failed")

RECENT: Final = 400.0
"""Seconds that a delivery counts: whatever is due is tried again within five minutes."""

ALONE: Final = frozenset({"ping", "textfile"})
"""Sinks that tell nobody of an alert: what fails there is counted and logged, and no more."""


def _ignore(_target: str, _seconds: float) -> None:
    """Nobody listens yet."""


def _no_engine(_how: str, target: str, _engine: str | None) -> dict[str, Any]:
    raise PayloadError(f"no engine of {target} was read yet")


def _not_yet(_payload: Mapping[str, Any]) -> TakeResult:
    raise TryLater("this daemon takes no alerts yet")


@dataclass
class Board:
    """
    What the daemon puts up and the port shows.

    The daemon's one round writes `report`, the newest, and `rounds`, how many there were;
    `reload_at`, Unix seconds, is when a configuration was last taken, and `reload_ok` False while
    a faulty one is refused. The functions are called from the port's threads: `healthy` says
    whether the last finished round is young, `pause(target, seconds)` and `resume(target)`, True
    if there was a pause, change the alert book. `traces` are the last 24 hours of each engine,
    `marks(target)` the lines that its acceptance length is held against, `notes` sentences about
    troubles of our own, `age` the seconds since the last round finished. `succeeded` says when
    (timeline) each probe of a target and slot last brought something home; `interval` is the real
    seconds between two rounds. `durable` says whether what is remembered is on disk, `waiting`
    how many notices each webhook has not taken yet.
    `take` queues a payload of Alertmanager and has a round begin (see probes/inbox.py); whoever
    posts one shows the token of `webhook_token_file`. `baselines` is what each engine is used to;
    `change_baseline(how, target, engine)` accepts or resets it (see baselines.py). `caches` is
    what is known of each target's compile cache (see caches.py).
    """

    report: Report | None = None
    rounds: int = 0
    reload_ok: bool = True
    reload_at: float = 0.0
    healthy: Callable[[], bool] = lambda: False
    known_targets: Callable[[], list[str]] = list
    pause: Callable[[str, float], None] = _ignore
    resume: Callable[[str], bool] = lambda _target: False
    traces: Callable[[], Mapping[Labels, Sequence[Point]]] = dict
    marks: Callable[[str], Sequence[tuple[str, float]]] = lambda _target: ()
    notes: Callable[[], list[str]] = list
    age: Callable[[], float | None] = lambda: None
    succeeded: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    interval: float = 15.0
    durable: Callable[[], bool] = lambda: True
    waiting: Callable[[], Mapping[str, int]] = dict
    take: Callable[[Mapping[str, Any]], TakeResult] = _not_yet
    webhook_token_file: Callable[[], Path | None] = lambda: None
    baselines: Callable[[], dict[str, Any]] = lambda: {"at": None, "baselines": []}
    change_baseline: Callable[[str, str, str | None], dict[str, Any]] = _no_engine
    caches: Callable[[], dict[str, Any]] = lambda: {"host": "", "at": None, "caches": []}
    notifications: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _last: dict[tuple[str, str], tuple[float, Delivery]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def show(self, report: Report) -> None:
        """Put up the report of a round that has finished."""
        present = {(r.probe, r.target, r.slot): r.error is None for r in report.readings}
        before = self.succeeded
        self.succeeded = {
            key: report.now if read else before[key]
            for key, read in present.items()
            if read or key in before
        }
        self.report = report
        self.rounds += 1

    def count(self, delivery: Delivery) -> None:
        """Count the alerts or changes of a delivery: none where a place was only looked for."""
        result = RESULTS[not delivery.ok]
        with self._lock:
            self._last[delivery.sink, delivery.instance] = (time.monotonic(), delivery)
            self.notifications[delivery.sink, delivery.instance, result] += delivery.count

    def unreached(self) -> list[str]:
        """Say who can be told nothing now: a cluster of which no instance takes it, a webhook."""
        return [
            f"nothing reaches {delivery.sink} {delivery.instance}: {delivery.detail}"
            for delivery in untold(self._recent())
            if delivery.sink not in ALONE
        ]

    def _recent(self) -> list[Delivery]:
        since = time.monotonic() - max(RECENT, 2 * self.interval + 60)
        with self._lock:
            return [delivery for at, delivery in self._last.values() if at > since]

    def configured(self, places: Iterable[tuple[str, str]]) -> None:
        """
        Take who is to be told from now on; forget of the others whether they could be reached.

        Every count begins at 0: one that is born at 1 has no increase that a rule could see.
        """
        told = set(places)
        kept = {(*place, result) for place in told for result in RESULTS}
        with self._lock:
            self._last = {place: last for place, last in self._last.items() if place in told}
            counted = self.notifications
            self.notifications = Counter({key: counted[key] for key in sorted(kept)})

    def totals(self) -> Totals:
        """Return the counters of this moment."""
        with self._lock:
            notified = dict(self.notifications)
        reached = {(d.sink, d.instance): d.ok for d in self._recent()}
        return Totals(
            self.rounds, notified, self.reload_ok, self.reload_at, self.durable(), self.waiting(),
            reached,
        )  # fmt: skip
