"""
For ever: rounds on a schedule, signals, the port, and word to systemd.

APScheduler follows the wall clock, so its trigger is ours (the next time is always now plus the
interval; a clock set a year ahead costs nothing) and the main thread supervises it on the
monotonic clock: a clock step or an overdue round is rescheduled, and systemd is pinged only
while the last finished round is young.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import FrameType

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from watchdog import systemd
from watchdog.board import Board
from watchdog.build import alertmanager_of, watchdog_of
from watchdog.clock import Clock
from watchdog.domain.report import Report
from watchdog.errors import ConfigError
from watchdog.round import Watchdog
from watchdog.server import Server
from watchdog.settings import Settings
from watchdog.sinks.log import Log

log = structlog.get_logger("watchdog.daemon")

TICK = 1.0
DRAIN = 15.0
"""Seconds that a round may still take after SIGTERM."""


class Every(BaseTrigger):  # type: ignore[misc]
    """Fire now, and then each `seconds` after the last firing, wherever the clock stands."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """One time only, however far the clock went: no list of missed ones."""
        return now if previous is None else now + timedelta(seconds=self.seconds)


class Daemon:
    """`load` reads the configuration again at SIGHUP; `clock` may run faster (demo)."""

    def __init__(
        self, settings: Settings, load: Callable[[], Settings], clock: Clock | None = None
    ) -> None:
        self.settings = settings
        self.board = Board(
            healthy=self._is_young, known_targets=self._names, pause=self._pause,
            resume=self._resume,
        )  # fmt: skip
        self.board.reload_at = time.time()
        self._load, self._clock = load, clock or Clock()
        self._stop, self._reload = threading.Event(), threading.Event()
        self._turn = threading.Lock()  # a round, a reload, a pause: one at a time
        self._finished = time.monotonic()
        self._watchdog = self._built(settings)
        self._scheduler = BackgroundScheduler(
            timezone=timezone.utc,
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )
        self.server = Server(settings.server.listen, self.board)

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; 0 then."""
        self._listen()
        self.server.start()
        self._scheduler.add_job(self._round, Every(self._every), id="round")
        self._scheduler.start()
        log.info("watching", targets=[t.url for t in self.settings.targets],
                 interval_seconds=self.settings.interval, port=self.server.port)  # fmt: skip
        systemd.notify("READY=1")
        try:
            self._supervise()
        finally:
            self._end()
        return 0

    def stop(self) -> None:
        """Ask it to end, from any thread."""
        self._stop.set()

    @property
    def _every(self) -> float:
        return self.settings.interval / self._clock.speed

    def _built(self, settings: Settings) -> Watchdog:
        watchdog = watchdog_of(settings, [Log(), *alertmanager_of(settings)], self._clock)
        watchdog.delivered = self.board.count
        return watchdog

    def _listen(self) -> None:
        """Hear signals, where this is the main thread (the demo runs us in another)."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, self._signalled)

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        (self._reload if number == signal.SIGHUP else self._stop).set()

    def _names(self) -> list[str]:
        return [target.name for target in self.settings.targets]

    def _pause(self, target: str, seconds: float) -> None:
        with self._turn:
            self._watchdog.assessor.book.pause(target, self._clock.now() + seconds)

    def _resume(self, target: str) -> bool:
        with self._turn:
            return self._watchdog.assessor.book.resume(target)

    def _round(self) -> Report:
        with self._turn:
            report = self._watchdog.round()
        self.board.report = report
        self.board.rounds += 1
        self._finished = time.monotonic()
        return report

    def _is_young(self) -> bool:
        return time.monotonic() - self._finished < self._patience

    @property
    def _patience(self) -> float:
        timeouts = self._watchdog.read_timeout + self._watchdog.send_timeout
        return 2 * self._every + 2 * timeouts + 5

    def _supervise(self) -> None:
        """Turn once a second: signals, clock steps, overdue rounds, pings."""
        every = systemd.ping_every()
        skew, pinged = self._clock.skew(), 0.0
        while not self._stop.wait(TICK):
            if self._reload.is_set():
                self._reload.clear()
                self._reloaded()
            now_skew = self._clock.skew()
            if abs(now_skew - skew) >= TICK:
                log.warning("the wall clock was stepped", seconds=round(now_skew - skew, 1))
                skew = now_skew
                self._fire_now()
            elif time.monotonic() - self._finished > 2 * self._every + TICK:
                self._fire_now()
            if every and self._is_young() and time.monotonic() - pinged >= every:
                systemd.notify("WATCHDOG=1")
                pinged = time.monotonic()

    def _fire_now(self) -> None:
        job = self._scheduler.get_job("round")
        if job is not None:
            job.modify(next_run_time=datetime.now(timezone.utc))

    def _reloaded(self) -> None:
        """Take the new configuration, or keep the old one and say why."""
        systemd.reloading()
        try:
            settings = self._load()
        except ConfigError as error:
            self.board.reload_ok = False
            log.error("the new configuration is not used", faults=error.faults)  # noqa: TRY400
        else:
            self._take(settings)
        systemd.notify("READY=1")

    def _take(self, settings: Settings) -> None:
        old, listen = self._watchdog, self.settings.server.listen
        watchdog = self._built(settings)
        with self._turn:
            watchdog.assessor.take_over(old.assessor)
            self.settings, self._watchdog = settings, watchdog
            old.readers.close()
        self._scheduler.reschedule_job("round", trigger=Every(self._every))
        self.board.reload_ok, self.board.reload_at = True, time.time()
        log.info("configuration reloaded", targets=[t.url for t in settings.targets])
        if settings.server.listen != listen:
            log.warning("server.listen takes effect at the next start", listen=listen)

    def _end(self) -> None:
        systemd.notify("STOPPING=1")
        log.info("stopping")
        self._scheduler.shutdown(wait=False)
        self._clock.stop()
        drained = self._turn.acquire(timeout=DRAIN)
        self._watchdog.close()
        self.server.stop()
        log.info("stopped", drained=drained)
        if not drained:
            os._exit(0)  # a hung thread of the pool would keep the process for ever
