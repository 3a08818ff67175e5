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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from watchdog import store_file as files
from watchdog.domain.notice import Notice, Queued
from watchdog.domain.plain import restored
from watchdog.domain.sample import Labels
from watchdog.domain.trace import Point
from watchdog.errors import CommandError

log = structlog.get_logger("watchdog.store")

T = TypeVar("T")

RETRY: Final = 60.0
"""Seconds after which a file that could not be used is tried again."""

KEEP: Final = 31 * 86400.0
"""Seconds that stretches are kept."""

MOST_STRETCHES: Final = 200_000
"""Stretches kept of all engines together, some 50 MB; beyond it the oldest go."""

MOST_WAITING: Final = 10_000
"""Notices kept for one destination; beyond it the oldest go."""


@dataclass
class Store:
    """
    `path` is the file's; `trouble` is empty while it is used, else the sentence that says why not.

    Times are seconds on the round's timeline.
    """

    path: Path
    migrations: Sequence[str] = files.MIGRATIONS
    trouble: str = ""
    dropped: int = 0  # notices that were never delivered and left for the bound's sake
    _db: sqlite3.Connection = field(init=False)
    _durable: bool = field(default=False, init=False)
    _own: bool = field(default=False, init=False)  # the file's content is ours or was read by us
    _written: dict[str, str] = field(
        default_factory=dict, init=False
    )  # rows as the tables have them
    _wanted: dict[str, str] = field(
        default_factory=dict, init=False
    )  # rows as they were last saved
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
            self._db = files.open_file(self.path, self.migrations)
            self._file = files.which(self.path)
            rows = self._read()
        except files.NewerFileError:
            self.close()
            raise
        except (sqlite3.Error, OSError) as error:
            return self._opened_badly(error)
        self._durable = self._own = True
        return rows

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
        wanted = {name: _text(body) for name, body in rows}

        def write() -> None:
            self._write_rows(wanted)
            self._put(notices, destinations, now)
            self._draw(stretches, now)

        with self._lock:
            self._wanted = wanted
            self._look()
            self._again()
            self._do(lambda: self._transaction(write), None)

    def first(self, destination: str) -> Queued | None:
        """Return the oldest undelivered notice of a destination."""
        columns = "id, key, body, made_at, tries, next_at"
        query = f"SELECT {columns} FROM outbox WHERE destination = ? ORDER BY id LIMIT 1"  # noqa: S608
        row = self._do(lambda: self._db.execute(query, (destination,)).fetchone(), None)
        return None if row is None else Queued(*row)

    def waiting(self, destination: str) -> int:
        """Count the undelivered notices of a destination."""
        query = "SELECT count(*) FROM outbox WHERE destination = ?"
        return int(self._do(lambda: self._db.execute(query, (destination,)).fetchone()[0], 0))

    def done(self, id: int) -> None:  # noqa: A002  (the word of the outbox)
        """Forget a notice: it was delivered, or is given up."""
        self._do(lambda: self._db.execute("DELETE FROM outbox WHERE id = ?", (id,)), None)

    def later(self, id: int, next_at: float) -> None:  # noqa: A002
        """Note that a notice was tried, and when it is due again."""
        change = "UPDATE outbox SET tries = tries + 1, next_at = ? WHERE id = ?"
        self._do(lambda: self._db.execute(change, (next_at, id)), None)

    def only(self, destinations: Sequence[str]) -> int:
        """Forget the notices of destinations that are no longer configured; return how many."""
        marks = ", ".join("?" * len(destinations))
        change = f"DELETE FROM outbox WHERE destination NOT IN ({marks})"  # noqa: S608
        return int(self._do(lambda: self._db.execute(change, tuple(destinations)).rowcount, 0))

    def engines(self, since: float, most: int) -> list[Labels]:
        """Return the engines that have stretches after `since`."""
        query = "SELECT DISTINCT engine FROM stretches WHERE at > ? ORDER BY engine LIMIT ?"
        found = self._found(query, (since, most))
        return [restored(Labels, json.loads(text)) for (text,) in found]

    def stretches(self, engine: Labels, since: float) -> list[Point]:
        """Return an engine's stretches after `since`, oldest first."""
        query = "SELECT at, body FROM stretches WHERE engine = ? AND at > ? ORDER BY at"
        return [_point(at, text) for at, text in self._found(query, (_text(engine), since))]

    def _found(self, query: str, asked: Sequence[Any]) -> list[Any]:
        nothing: list[Any] = []
        return self._do(lambda: self._db.execute(query, asked).fetchall(), nothing)

    def close(self) -> None:
        """Let go of the file and of the directory; nothing happens if it is closed already."""
        with self._lock:
            self._closed = True
            if hasattr(self, "_db"):
                with suppress(sqlite3.Error):
                    self._db.close()
            if self._held is not None:
                os.close(self._held)
                self._held = None

    # How it copes

    def _do(self, action: Callable[[], T], otherwise: T) -> T:
        """Do it; where the file fails, do it once more with what takes its place."""
        with self._lock:
            try:
                return action()
            except (sqlite3.Error, OSError) as error:
                if self._closed:
                    return otherwise
                self._failed(error)
            try:
                return action()
            except sqlite3.Error as error:
                log.error("the store failed twice", why=str(error))  # noqa: TRY400
                return otherwise

    def _transaction(self, write: Callable[[], None]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            write()
            self._db.execute("COMMIT")
        except BaseException:
            self._written = {}  # what the tables have is not known for sure: write all anew
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def _opened_badly(self, error: Exception) -> dict[str, Any]:
        """Start without the file: read what can be read, set aside what cannot be used."""
        rows: dict[str, Any] = {}
        waiting: Sequence[Sequence[Any]] = ()
        with suppress(AttributeError, sqlite3.Error):
            self._db.close()
        reason = files.reason_of(error)
        if reason in ("read-only", "full", "unusable"):
            rows, waiting = self._read_only()
        if reason in ("corrupt", "locked") and self._fresh_file(reason, error):
            return rows
        self._use_memory(reason, error)
        self._fill(waiting)
        return rows

    def _read_only(self) -> tuple[dict[str, Any], Sequence[Sequence[Any]]]:
        """Read rows and notices of a file that takes no writes; none where that fails as well."""
        for way in ("mode=ro", "immutable=1"):  # the second reads no write-ahead log
            try:
                self._db = files.connect(f"file:{self.path}?{way}", uri=True)
                rows, waiting = self._read(), self._undelivered()
                self._db.close()
            except sqlite3.Error:
                continue
            self._own = True
            return rows, waiting
        return {}, ()

    def _fresh_file(self, reason: str, error: Exception) -> bool:
        """Set the file aside and begin a new one."""
        aside = files.set_aside(self.path, reason)
        if aside is None:
            return False
        try:
            self._db = files.open_file(self.path, self.migrations)
        except (sqlite3.Error, OSError):
            return False
        self._file = files.which(self.path)
        self._written, self._durable, self._own, self.trouble = {}, True, True, ""
        log.error("the store could not be used; it was set aside and a new one begun",
                  file=str(self.path), why=str(error), aside=str(aside))  # fmt: skip
        return True

    def _failed(self, error: Exception) -> None:
        """Take the file's place in the middle of the work."""
        waiting = self._undelivered()
        with suppress(sqlite3.Error):
            self._db.close()
        reason = files.reason_of(error)
        if reason != "corrupt" or not self._fresh_file(reason, error):
            self._use_memory(reason, error)
        self._fill(waiting)

    def _use_memory(self, reason: str, error: Exception) -> None:
        self._db = files.open_memory()
        self._written, self._durable, self._tried = {}, False, time.monotonic()
        self.trouble = (
            f"{self.path} is {reason} ({error}): alerts are kept in memory alone and a restart "
            f"would forget them; it is tried again each minute"
        )
        log.error("the store cannot be used; going on from memory",
                  file=str(self.path), why=str(error))  # fmt: skip

    def _again(self) -> None:
        """Try the file again, and move into it what memory holds."""
        if self._durable or self._closed or time.monotonic() - self._tried < RETRY:
            return
        self._tried = time.monotonic()
        try:
            self._hold()
            if not self._own:
                files.set_aside(self.path, "unread")
            db = files.open_file(self.path, self.migrations)
        except (sqlite3.Error, OSError, CommandError) as error:
            self.trouble = f"{self.trouble.partition('; still')[0]}; still: {error}"
            return
        self._file = files.which(self.path)
        memory, waiting = self._db, self._undelivered()
        drawn = memory.execute("SELECT engine, at, body FROM stretches").fetchall()
        self._db, self._written, self._durable, self._own = db, {}, True, True
        try:
            self._transaction(lambda: self._move(waiting, drawn))
        except sqlite3.Error as error:
            db.close()
            self._db, self._durable, self._written = memory, False, {}
            self.trouble = f"{self.trouble.partition('; still')[0]}; still: {error}"
            return
        memory.close()
        self.trouble = ""
        log.warning("the store can be used again", file=str(self.path))

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
            self._own = False

    def _move(self, waiting: Sequence[Sequence[Any]], drawn: Sequence[Sequence[Any]]) -> None:
        self._db.execute("DELETE FROM kept")
        self._db.execute("DELETE FROM outbox")
        self._insert(waiting)
        self._db.executemany("INSERT OR REPLACE INTO stretches VALUES (?, ?, ?)", drawn)

    def _undelivered(self) -> list[Sequence[Any]]:
        with suppress(sqlite3.Error):
            return self._db.execute("SELECT * FROM outbox").fetchall()
        return []

    def _fill(self, waiting: Sequence[Sequence[Any]]) -> None:
        """Give the new tables what the old ones held; the next save writes it where this fails."""
        with suppress(sqlite3.Error):
            self._transaction(lambda: self._insert(waiting))
            wanted = self._wanted
            self._transaction(lambda: self._write_rows(wanted))

    def _insert(self, waiting: Sequence[Sequence[Any]]) -> None:
        self._db.executemany("INSERT OR IGNORE INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?)", waiting)

    # What is written

    def _read(self) -> dict[str, Any]:
        self._written = dict(self._db.execute("SELECT name, body FROM kept").fetchall())
        rows: dict[str, Any] = {}
        for name, text in self._written.items():
            try:
                rows[name] = json.loads(text)
            except ValueError as error:  # noqa: PERF203
                log.error("a row of the store is no JSON", name=name, why=str(error))  # noqa: TRY400
        return rows

    def _write_rows(self, wanted: Mapping[str, str]) -> None:
        written = self._written
        changed = [(name, text) for name, text in wanted.items() if written.get(name) != text]
        over = [(name,) for name in written if name not in wanted]
        if not written:
            self._db.execute("DELETE FROM kept")
        self._db.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?)", changed)
        self._db.executemany("DELETE FROM kept WHERE name = ?", over)
        self._written = dict(wanted)

    def _put(self, notices: Sequence[Notice], destinations: Sequence[str], now: float) -> None:
        if not notices or not destinations:
            return
        self._db.executemany(
            "INSERT OR IGNORE INTO outbox (destination, key, body, made_at, next_at)"
            " VALUES (?, ?, ?, ?, ?)",
            [(to, n.key, json.dumps(n.body), now, now) for to in destinations for n in notices],
        )
        for to in destinations:
            over = self._db.execute(
                "DELETE FROM outbox WHERE destination = ? AND id NOT IN"
                " (SELECT id FROM outbox WHERE destination = ? ORDER BY id DESC LIMIT ?)",
                (to, to, MOST_WAITING),
            ).rowcount
            if over:
                self.dropped += over
                log.error("undelivered notices were dropped, the oldest first: too many wait",
                          destination=to, dropped=over, most=MOST_WAITING)  # fmt: skip

    def _draw(self, stretches: Sequence[tuple[Labels, Point]], now: float) -> None:
        if not stretches:
            return
        self._db.executemany(
            "INSERT OR REPLACE INTO stretches VALUES (?, ?, ?)",
            [(_text(engine), point.at, _text(point[1:])) for engine, point in stretches],
        )
        self._db.execute("DELETE FROM stretches WHERE at < ?", (now - KEEP,))
        count = self._db.execute("SELECT count(*) FROM stretches").fetchone()[0]
        if count > MOST_STRETCHES:
            self._db.execute(
                "DELETE FROM stretches WHERE at <= (SELECT at FROM stretches ORDER BY at"
                " LIMIT 1 OFFSET ?)",
                (count - MOST_STRETCHES,),
            )


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _point(at: float, text: str) -> Point:
    *figures, positions = json.loads(text)
    return Point._make((at, *figures, tuple(positions)))
