"""
For ever: rounds on a schedule, signals, the port, and word to systemd.

The main thread supervises the schedule on the monotonic clock: a clock step or an overdue round
is rescheduled, and systemd is pinged only while the last finished round is young.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import structlog

from watchdog import baselines, caches, systemd
from watchdog.board import Board
from watchdog.build import destinations_of, marks_of, places_of, sinks_of, watchdog_of
from watchdog.clock import Clock
from watchdog.domain.assess import Assessor
from watchdog.domain.named import Here
from watchdog.domain.report import Report, rfc3339
from watchdog.errors import CommandError, ConfigError, TryLater
from watchdog.keeping import Keeper
from watchdog.probes.inbox import Inbox, TakeResult, here_of
from watchdog.round import Watchdog
from watchdog.schedule import Schedule
from watchdog.server import Server
from watchdog.settings import Settings
from watchdog.settings_alerting import expanded
from watchdog.sinks.stamp import StampSink

log = structlog.get_logger("watchdog.daemon")

TICK = 1.0
ASKED_EVERY = 5.0
"""Seconds between two rounds that alerts of others ask for, however many arrive."""

PATIENCE = 2.0
"""Seconds that somebody at the port waits for a round to end."""

OLD_CONFIG = (
    "the configuration file has faults and is not used; the one before is in force: "
    "`watchdog config check` names them"
)

DRAIN = 15.0
"""Seconds that a round may still take after SIGTERM."""


class Daemon:
    """
    `load` reads the configuration again at SIGHUP; `clock` may run faster (demo).

    Making one takes the state directory. Raises CommandError and ConfigError.
    """

    def __init__(
        self, settings: Settings, load: Callable[[], Settings], clock: Clock | None = None
    ) -> None:
        self.settings = settings
        self._load, self._clock = load, clock or Clock()
        self._keeper = Keeper(settings.state_dir, self._clock)
        self._inbox = Inbox(self._here)
        self._stamps = StampSink()
        self.board = Board(
            healthy=self._is_young, known_targets=self._names, pause=self._pause,
            resume=self._resume, traces=self._keeper.curves, notes=self._notes,
            marks=lambda target: marks_of(self.settings, target), waiting=self._waiting,
            durable=lambda: self._keeper.store.durable, interval=self._every, age=self._age,
            take=self._take_alerts, webhook_token_file=self._token_file,
            baselines=self._baselines, change_baseline=self._change_baseline,
            caches=self._caches,
        )  # fmt: skip
        self.board.reload_at = time.time()
        self._stop, self._reload = threading.Event(), threading.Event()
        self._asked, self._wake = threading.Event(), threading.Event()
        self._turn = threading.Lock()  # a round, a reload, a pause: one at a time
        self._over = False  # no round begins any more
        self._finished = time.monotonic()
        self._watchdog = self._first(settings)
        self._schedule = Schedule(self._round, self._every)
        self.server = Server(settings.server.listen, self.board)

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; 0 then. CommandError if the port cannot be had."""
        self._listen()
        try:
            self.server.start()
        except CommandError:
            self._keeper.close()
            raise
        self._schedule.start()
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
        self._wake.set()

    @property
    def _every(self) -> float:
        return self.settings.interval / self._clock.speed

    def _first(self, settings: Settings) -> Watchdog:
        """Go on where the last process was, if there was one."""
        try:
            watchdog = self._built(settings)
            self.board.configured(places_of(settings))
        except ConfigError:
            self._keeper.close()
            raise
        self._keeper.recall(watchdog.assessor)
        self._forget_others(settings)
        return watchdog

    def _built(self, settings: Settings) -> Watchdog:
        sinks = sinks_of(settings, self._keeper.store, self.board, self._clock)
        watchdog = watchdog_of(settings, [self._stamps, *sinks], self._clock, [self._inbox])
        watchdog.delivered = self.board.count
        watchdog.keep = lambda report: self._keep(watchdog.assessor, report)
        return watchdog

    def _forget_others(self, settings: Settings) -> None:
        """Drop what waits for webhooks that are no longer configured."""
        forgotten = self._keeper.store.only(destinations_of(settings))
        if forgotten:
            log.warning("notices for webhooks that are no longer configured are dropped",
                        dropped=forgotten)  # fmt: skip

    def _keep(self, assessor: Assessor, report: Report | None = None) -> None:
        """Keep a round, or what changed between two; a fault of ours costs no round."""
        try:
            if report is None:
                self._keeper.keep_between(assessor)
            else:
                self._keeper.keep(assessor, report, destinations_of(self.settings))
        except Exception:
            log.exception("keeping crashed; please report it")

    def _here(self) -> Here:
        urls = {target.name: target.url for target in self.settings.targets}
        return here_of(self.settings.host, urls)

    def _token_file(self) -> Path | None:
        return expanded(self.settings.server.webhook_token_file)

    def _take_alerts(self, payload: Mapping[str, Any]) -> TakeResult:
        """Queue what Alertmanager says, and have a round look at it at once."""
        result = self._inbox.take(payload)
        if result.firing:
            self._ask_for_a_round()
        return result

    def _ask_for_a_round(self) -> None:
        self._asked.set()
        self._wake.set()

    def _notes(self) -> list[str]:
        """Troubles of our own, in sentences."""
        store = self._keeper.store
        notes = [store.trouble, store.lost, "" if self.board.reload_ok else OLD_CONFIG]
        return [*filter(None, notes), *self.board.unreached()]

    def _waiting(self) -> dict[str, int]:
        names = destinations_of(self.settings)
        return {name: self._keeper.store.waiting(name) for name in names}

    def _listen(self) -> None:
        """Hear signals, where this is the main thread (the demo runs us in another)."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, self._signalled)

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        (self._reload if number == signal.SIGHUP else self._stop).set()
        self._wake.set()

    def _names(self) -> list[str]:
        return [target.name for target in self.settings.targets]

    def _pause(self, target: str, seconds: float) -> None:
        with self._between_rounds():
            self._watchdog.assessor.book.pause(target, self._clock.now() + seconds)
            self._keep(self._watchdog.assessor)
        self._ask_for_a_round()  # which ends its alerts

    def _resume(self, target: str) -> bool:
        with self._between_rounds():
            was_paused = self._watchdog.assessor.book.resume(target)
            self._keep(self._watchdog.assessor)
            return was_paused

    def _baselines(self) -> dict[str, Any]:
        with self._between_rounds():
            now, skew = self._clock.now(), self._clock.skew()
            found = baselines.rows(self._watchdog.assessor, now, skew)
            return {"at": rfc3339(now + skew), "baselines": found}

    def _caches(self) -> dict[str, Any]:
        with self._between_rounds():
            at = rfc3339(self._clock.now() + self._clock.skew())
            found = caches.rows(self._watchdog.assessor, self._stamps.told)
            return {"host": self.settings.host, "at": at, "caches": found}

    def _change_baseline(self, how: str, target: str, engine: str | None) -> dict[str, Any]:
        with self._between_rounds():
            assessor = self._watchdog.assessor
            told = baselines.changed(assessor, how, target, engine, self._clock.now())
            self._keep(assessor)
        self._ask_for_a_round()  # which ends what was raised
        return told

    @contextmanager
    def _between_rounds(self) -> Iterator[None]:
        """Have the turn. TryLater where a round takes long: the port's threads are few."""
        if not self._turn.acquire(timeout=PATIENCE):
            raise TryLater("a round is under way and takes long; ask again in a moment")
        try:
            if self._over:
                raise TryLater("the daemon is ending; ask again once it runs")
            yield
        finally:
            self._turn.release()

    def _round(self) -> Report | None:
        with self._turn:
            if self._over:
                return None  # it was about to begin: a thread that waits keeps the process
            self._asked.clear()  # whoever asks from here on is not sure to be read by this one
            report = self._watchdog.round()
        self.board.show(report)
        self._finished = time.monotonic()
        return report

    def _age(self) -> float | None:
        return None if self.board.report is None else time.monotonic() - self._finished

    def _is_young(self) -> bool:
        return time.monotonic() - self._finished < self._patience

    @property
    def _patience(self) -> float:
        timeouts = self._watchdog.read_timeout + self._watchdog.send_timeout
        return 2 * self._every + 2 * timeouts + 5

    def _supervise(self) -> None:
        """Turn once a second, or when woken: signals, clock steps, overdue rounds, pings."""
        every = systemd.ping_every()
        skew, pinged, answered = self._clock.skew(), 0.0, 0.0
        while not self._ends_within(TICK):
            if self._reload.is_set():
                self._reload.clear()
                self._reloaded()
            now_skew = self._clock.skew()
            if abs(now_skew - skew) >= TICK:
                log.warning("the wall clock was stepped", seconds=round(now_skew - skew, 1))
                skew = now_skew
                self._schedule.at_once()
            elif time.monotonic() - self._finished > 2 * self._every + TICK:
                self._schedule.at_once()
            elif self._is_asked() and time.monotonic() - answered >= ASKED_EVERY:
                self._schedule.at_once()
                answered = time.monotonic()
            if every and self._is_young() and time.monotonic() - pinged >= every:
                systemd.notify("WATCHDOG=1")
                pinged = time.monotonic()

    def _ends_within(self, seconds: float) -> bool:
        self._wake.wait(seconds)
        self._wake.clear()
        return self._stop.is_set()

    def _is_asked(self) -> bool:
        """Whether alerts wait for a round, and none is under way."""
        return self._asked.is_set() and not self._turn.locked()

    def _reloaded(self) -> None:
        """Take the new configuration, or keep the old one and say why."""
        systemd.reloading()
        try:
            self._take(self._load())
        except ConfigError as error:
            self.board.reload_ok = False
            log.error("the new configuration is not used", faults=error.faults)  # noqa: TRY400
        systemd.notify("READY=1")

    def _take(self, settings: Settings) -> None:
        old, before = self._watchdog, self.settings
        watchdog, places = self._built(settings), places_of(settings)
        with self._turn:
            watchdog.assessor.take_over(old.assessor)
            self.settings, self._watchdog = settings, watchdog
            old.retire()
            self._forget_others(settings)
            self.board.configured(places)
            self.board.interval = self._every
        self._schedule.every(self._every)
        self.board.reload_ok, self.board.reload_at = True, time.time()
        log.info("configuration reloaded", targets=[t.url for t in settings.targets])
        for key, was, now in (
            ("server.listen", before.server.listen, settings.server.listen),
            ("state_dir", before.state_dir, settings.state_dir),
        ):
            if was != now:
                log.warning("takes effect at the next start", key=key, until_then=str(was))

    def _end(self) -> None:
        systemd.notify("STOPPING=1")
        log.info("stopping")
        self._inbox.stop()
        self._schedule.stop()
        self._clock.stop()
        drained = self._turn.acquire(timeout=DRAIN)
        self._over = True
        self._watchdog.close()
        self.server.stop()
        log.info("stopped", drained=drained)
        if not drained:
            os._exit(0)  # a hung thread would keep the process, and may hold the store, for ever
        self._keeper.close()
        self._turn.release()
