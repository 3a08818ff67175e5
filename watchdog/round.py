"""One round: read all, assess, send all; `rounds()` repeats it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import structlog

from watchdog.clock import Clock
from watchdog.domain.assess import Assessor
from watchdog.domain.report import Delivery, Report
from watchdog.errors import SinkError
from watchdog.reader import Readers
from watchdog.sinks import Sink

log = structlog.get_logger("watchdog.round")

REMIND = 600.0
"""Seconds after which the same failure of the same place is logged again."""


@dataclass
class Watchdog:
    """
    Everything that one round needs. `interval` and deadlines in seconds.

    `read_timeout` and `send_timeout` are real seconds, whatever the clock's speed.
    """

    readers: Readers
    assessor: Assessor
    sinks: Sequence[Sink]
    interval: float
    clock: Clock = field(default_factory=Clock)
    read_timeout: float = 5.0
    send_timeout: float = 5.0
    keep: Callable[[Report], None] = lambda _: None
    delivered: Callable[[Delivery], None] = lambda _: None
    _failing: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)

    def round(self) -> Report:
        """
        Read, assess, keep and send once; never two at a time, which the caller sees to.

        It is kept before anybody hears of it: who was told once is not told anew after a crash.
        """
        readings = self.readers.read_all(self.read_timeout)
        report = self.assessor.assess(readings, self.clock.now(), self.clock.skew())
        self.keep(report)
        self.send(report)
        return report

    def send(self, report: Report) -> list[Delivery]:
        """Hand the report to every sink; one that fails or crashes costs only itself."""
        deliveries: list[Delivery] = []
        deadline = time.monotonic() + self.send_timeout
        for sink in self.sinks:
            deliveries += _sent(sink, report, deadline)
        for delivery in deliveries:
            self.delivered(delivery)
        failed = [delivery for delivery in deliveries if not delivery.ok]
        well = {(d.sink, d.instance) for d in deliveries} - {(d.sink, d.instance) for d in failed}
        self._failing = {k: v for k, v in self._failing.items() if k not in well}
        for delivery in failed:
            self._log(delivery)
        return deliveries

    def _log(self, delivery: Delivery) -> None:
        """Tell of a failure when it begins or changes, and then now and again."""
        place = (delivery.sink, delivery.instance)
        why, since = self._failing.get(place, ("", 0.0))
        now = time.monotonic()
        if delivery.detail != why or now - since >= REMIND:
            self._failing[place] = (delivery.detail, now)
            log.warning("not delivered", sink=delivery.sink, to=delivery.instance,
                        why=delivery.detail)  # fmt: skip

    def close(self) -> None:
        """End what still blocks."""
        self.clock.stop()
        self.retire()

    def retire(self) -> None:
        """Let go of sources and destinations: others take over."""
        self.readers.close()
        for sink in self.sinks:
            getattr(sink, "close", lambda: None)()


def _sent(sink: Sink, report: Report, deadline: float) -> list[Delivery]:
    try:
        return sink.send(report, deadline)
    except SinkError as error:
        detail = str(error)
    except Exception as bug:
        log.exception("a sink crashed", sink=sink.name)
        detail = f"our own fault, please report it: {type(bug).__name__}: {bug}"
    return [Delivery(sink.name, sink.name, ok=False, detail=detail, count=1)]


def rounds(watchdog: Watchdog) -> Iterator[Report]:
    """Repeat rounds at the interval, for as long as somebody asks and the clock runs."""
    due = watchdog.clock.now()
    while True:
        yield watchdog.round()
        due = max(due + watchdog.interval, watchdog.clock.now())
        if watchdog.clock.sleep(due - watchdog.clock.now()):
            return
