"""
What the daemon keeps over restarts: rows of memory, undelivered notices, weeks of curves.

One transaction a round, before anybody is told of it: a kill at any instant loses nothing and
repeats nothing. Where the file cannot be used the daemon goes on with the same tables in memory,
says so (`trouble`), and tries the file again each minute; a file whose content makes no sense is
set aside. All methods are for any thread, and none raises an error of SQLite.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from watchdog import store_file as files
from watchdog.domain.notice import Notice, Queued
from watchdog.domain.sample import Labels
from watchdog.domain.trace import Point
from watchdog.errors import CommandError
from watchdog.store_tables import MOST_WAITING, Row, Tables, text_of

log = structlog.get_logger("watchdog.store")

T = TypeVar("T")

RETRY: Final = 60.0
"""Seconds after which a file that could not be used is tried again."""


@dataclass
class Store:
    """
    `path` is the file's; `trouble` is empty while it is used, else the sentence that says why not.

    Times are seconds on the round's timeline.
    """

    path: Path
    migrations: Sequence[str] = files.MIGRATIONS
    trouble: str = ""
    lost: str = ""  # a sentence about what had to be set aside, for as long as the process lives
    lost_notices: bool = False  # what waited could not be read: tell what fires anew
    dropped: int = 0  # notices that were never delivered and left for the bound's sake
    _tables: Tables = field(init=False)
    _durable: bool = field(default=False, init=False)
    _known: bool = field(default=False, init=False)  # all that the file holds was read by us
    _wanted: dict[str, str] = field(default_factory=dict, init=False)  # as saved last
    _file: tuple[int, int] | None = field(default=None, init=False)  # which one is open
    _tried: float = field(default=0.0, init=False)
    _held: int | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)

    def open(self) -> dict[str, Any]:
        """
        Take the directory, and return the rows that were kept.

        Raises CommandError where another process has the directory, or the file is a newer
        program's.
        """
        self._held = files.lock(self.path.parent)
        self._tried = time.monotonic()
        try:
            self._use_file(files.BUSY_AT_START)
            rows = self._tables.read_rows()
        except files.NewerFileError:
            self.close()
            raise
        except (sqlite3.Error, OSError) as error:
            rows = self._opened_badly(error)
        return _parsed(rows)

    @property
    def durable(self) -> bool:
        """Whether what is saved is on disk."""
        return self._durable

    def save(
        self,
        rows: Iterable[tuple[str, Any]],
        notices: Sequence[Notice] = (),
        destinations: Sequence[str] = (),
        stretches: Sequence[tuple[Labels, Point]] = (),
        now: float = 0.0,
    ) -> None:
        """Keep one round: all rows, new notices for each destination, stretches that ended."""
        wanted = {name: text_of(body) for name, body in rows}

        def write(tables: Tables) -> int:
            tables.write_rows(wanted)
            tables.draw(stretches, now)
            return tables.put(notices, destinations, now)

        with self._lock:
            self._wanted = wanted
            self._look()
            self._again()
            over = self._do(lambda tables: tables.transaction(lambda: write(tables)), 0)
        if over:
            self.dropped += over
            log.error("undelivered notices were dropped, the oldest first: too many wait",
                      dropped=over, most=MOST_WAITING)  # fmt: skip

    def first(self, destination: str) -> Queued | None:
        """Return the oldest undelivered notice of a destination."""
        return self._do(lambda tables: tables.first(destination), None)

    def waiting(self, destination: str) -> int:
        """Count the undelivered notices of a destination."""
        return self._do(lambda tables: tables.waiting(destination), 0)

    def done(self, id: int) -> None:  # noqa: A002  (the word of the outbox)
        """Forget a notice: it was delivered, or is given up."""
        self._do(lambda tables: tables.done(id), None)

    def later(self, id: int, next_at: float) -> None:  # noqa: A002
        """Note that a notice was tried, and when it is due again."""
        self._do(lambda tables: tables.later(id, next_at), None)

    def only(self, destinations: Sequence[str]) -> int:
        """Forget the notices of destinations that are no longer configured; return how many."""
        return self._do(lambda tables: tables.only(destinations), 0)

    def engines(self, since: float, most: int) -> list[Labels]:
        """Return the engines that have stretches after `since`."""
        return self._do(lambda tables: tables.engines(since, most), list[Labels]())

    def stretches(self, engine: Labels, since: float) -> list[Point]:
        """Return an engine's stretches after `since`, oldest first."""
        return self._do(lambda tables: tables.stretches(engine, since), list[Point]())

    def close(self) -> None:
        """Let go of the file and of the directory; nothing happens if it is closed already."""
        with self._lock:
            self._closed = True
            self._hang_up()
            if self._held is not None:
                os.close(self._held)
                self._held = None

    # How it copes

    def _do(self, action: Callable[[Tables], T], otherwise: T) -> T:
        """Do it; where the file fails, do it once more with what takes its place."""
        with self._lock:
            try:
                return action(self._tables)
            except (sqlite3.Error, OSError) as error:
                if self._closed:
                    return otherwise
                self._failed(error)
            try:
                return action(self._tables)
            except sqlite3.Error as error:
                log.error("the store failed twice", why=str(error))  # noqa: TRY400
                return otherwise

    def _use_file(self, patience: float | None = None) -> None:
        self._use(self._opened(patience))

    def _opened(self, patience: float | None = None) -> Tables:
        return Tables(files.open_file(self.path, self.migrations, patience))

    def _use(self, file: Tables) -> None:
        """Keep things in the file from here on: what was kept elsewhere is in it already."""
        self._tables, self._file = file, files.which(self.path)
        self._durable = self._known = True
        self.trouble = ""

    def _use_memory(self, reason: str, error: Exception) -> None:
        self._tables = Tables(files.open_memory())
        self._durable, self._tried = False, time.monotonic()
        self.trouble = (
            f"{self.path} is {reason} ({error}): alerts are kept in memory alone and a restart "
            f"would forget them; it is tried again each minute"
        )
        log.error("the store cannot be used; going on from memory",
                  file=str(self.path), why=str(error))  # fmt: skip

    def _hang_up(self) -> None:
        with suppress(AttributeError, sqlite3.Error):  # it may never have been opened
            self._tables.db.close()

    def _opened_badly(self, error: Exception) -> dict[str, str]:
        """Start without the file: read what can be read, set aside what cannot be used."""
        self._hang_up()
        self._durable = self._known = False
        reason = files.reason_of(error)
        if reason in ("corrupt", "locked") and self._begin_anew(reason, error):
            return {}
        rows, waiting = self._read_only()
        self._use_memory(reason, error)
        self._fill(waiting)
        return rows

    def _read_only(self) -> tuple[dict[str, str], list[Row] | None]:
        """Read rows and notices of a file that takes no writes; nothing where that fails too."""
        for way in ("mode=ro", "immutable=1"):  # the second reads no write-ahead log
            with (
                suppress(sqlite3.Error),
                closing(files.connect(f"file:{self.path}?{way}", uri=True)) as db,
            ):
                tables = Tables(db)
                rows, waiting = tables.read_rows(), tables.notices()
                self._known = True
                return rows, waiting
        return {}, None

    def _begin_anew(self, reason: str, error: Exception) -> bool:
        """Set the file aside and begin a new one; False where that cannot be."""
        aside = files.set_aside(self.path, reason)
        if aside is None:
            return False
        try:
            self._use_file()
        except (sqlite3.Error, OSError):
            return False
        self.lost = (
            f"the file of what is remembered was {reason} and was set aside as {aside}: alerts "
            f"that fired before may be told again, and curves begin anew"
        )
        log.error("the store could not be used; it was set aside and a new one begun",
                  file=str(self.path), why=str(error), aside=str(aside))  # fmt: skip
        return True

    def _failed(self, error: Exception) -> None:
        """Take the file's place in the middle of the work."""
        waiting = self._undelivered()
        self._hang_up()
        reason = files.reason_of(error)
        if reason != "corrupt" or not self._begin_anew(reason, error):
            self._use_memory(reason, error)
        self._fill(waiting)

    def _undelivered(self) -> list[Row] | None:
        """Return the notices that wait; None where they cannot be read any more."""
        with suppress(sqlite3.Error):
            return self._tables.notices()
        return None

    def _fill(self, waiting: list[Row] | None) -> None:
        """Give new tables what the old ones held; the next save writes what cannot be now."""
        tables, wanted = self._tables, self._wanted
        if waiting is None:
            self._known = self._durable  # they stay in the file until it can be read again
            self.lost_notices = True
            log.error("notices that wait cannot be read", file=str(self.path))
        with suppress(sqlite3.Error):
            tables.number_from(time.time_ns() // 1000)
            tables.transaction(lambda: tables.add_notices(waiting or []))
            tables.transaction(lambda: tables.write_rows(wanted))

    def _again(self) -> None:
        """Try the file again, and move into it what memory holds."""
        if self._durable or self._closed or time.monotonic() - self._tried < RETRY:
            return
        self._tried = time.monotonic()
        memory, known = self._tables, self._known
        try:
            self._hold()
            file = self._opened()
        except (sqlite3.Error, OSError, CommandError) as error:
            if files.reason_of(error) != "corrupt" or not self._begin_anew("corrupt", error):
                self._not_yet(memory, error, known=known)
                return
            file = self._tables
        try:
            file.transaction(lambda: self._move(memory, file, known=known))
        except sqlite3.Error as error:
            file.db.close()
            self._not_yet(memory, error, known=known)
            return
        memory.db.close()
        self._use(file)
        log.warning("the store can be used again", file=str(self.path))

    def _not_yet(self, memory: Tables, error: Exception, *, known: bool) -> None:
        """Go on from memory: the file still cannot be used."""
        self._tables, self._durable, self._known = memory, False, known
        self.trouble = (
            f"{self.path} still cannot be used ({error}): alerts are kept in memory alone"
        )

    def _move(self, memory: Tables, file: Tables, *, known: bool) -> None:
        """Make the file hold what memory holds; notices that nobody has read yet stay in it."""
        if known:
            file.db.execute("DELETE FROM outbox")
        file.add_notices(memory.notices())
        file.add_stretches(memory.all_stretches())
        file.write_rows(self._wanted)

    def _hold(self) -> None:
        """Take the directory again where it was deleted, or could not be had before."""
        if self._held is not None and not files.is_held(self.path.parent, self._held):
            os.close(self._held)
            self._held = None
        if self._held is None:
            self._held = files.lock(self.path.parent)

    def _look(self) -> None:
        """Notice that the file or the lock was deleted or replaced: SQLite would write on."""
        lost = self._held is not None and not files.is_held(self.path.parent, self._held)
        if self._durable and (lost or files.which(self.path) != self._file):
            self._failed(sqlite3.OperationalError("it was deleted or replaced"))


def _parsed(texts: dict[str, str]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            rows[name] = json.loads(text)
        except (ValueError, RecursionError) as error:  # noqa: PERF203  (it costs itself alone)
            log.error("a row of the store is no JSON", name=name, why=str(error))  # noqa: TRY400
    return rows
