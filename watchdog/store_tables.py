"""The store's tables, on one connection: rows, notices that wait, and stretches of curves."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from watchdog.domain.notice import Notice, Queued
from watchdog.domain.plain import restored
from watchdog.domain.sample import Labels
from watchdog.domain.trace import Point

KEEP: Final = 31 * 86400.0
"""Seconds that stretches are kept."""

MOST_STRETCHES: Final = 200_000
"""Stretches kept of all engines together, some 50 MB; beyond it the oldest go."""

MOST_WAITING: Final = 10_000
"""Notices kept for one destination; beyond it the oldest go."""

Row = Sequence[Any]
T = TypeVar("T")


@dataclass
class Tables:
    """
    All methods raise sqlite3.Error, and none locks: that is the store's part.

    `written` are the rows as the table has them, so that only what changed is written.
    """

    db: sqlite3.Connection
    written: dict[str, str] = field(default_factory=dict)

    def transaction(self, write: Callable[[], T]) -> T:
        """Write all of it, or nothing; return what `write` does."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            result = write()
            self.db.execute("COMMIT")
        except BaseException:
            self.written = {}  # what the table has is not known for sure: write all anew
            with suppress(sqlite3.Error):
                self.db.execute("ROLLBACK")
            raise
        return result

    # Rows

    def read_rows(self) -> dict[str, str]:
        """Return all rows: text by name. One with a byte that we did not write is left out."""
        rows = dict(self.db.execute("SELECT name, body FROM kept").fetchall())
        sound = {name: text for name, text in rows.items() if (name + text).isascii()}
        if len(sound) == len(rows):  # else nothing counts as written, and all is written anew
            self.written = sound
        return sound

    def write_rows(self, wanted: Mapping[str, str]) -> None:
        """Make these the rows, and no others."""
        written = self.written
        changed = [(name, text) for name, text in wanted.items() if written.get(name) != text]
        over = [(name,) for name in written if name not in wanted]
        if not written:
            self.db.execute("DELETE FROM kept")
        self.db.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?)", changed)
        self.db.executemany("DELETE FROM kept WHERE name = ?", over)
        self.written = dict(wanted)

    # Notices

    def put(self, notices: Sequence[Notice], destinations: Sequence[str], now: float) -> int:
        """Let these notices wait for each destination; return how many older ones had to go."""
        if not notices or not destinations:
            return 0
        self.db.executemany(
            "INSERT OR IGNORE INTO outbox (destination, key, body, made_at, next_at)"
            " VALUES (?, ?, ?, ?, ?)",
            [(to, n.key, json.dumps(n.body), now, now) for to in destinations for n in notices],
        )
        over = "DELETE FROM outbox WHERE destination = ? AND id NOT IN"
        newest = "(SELECT id FROM outbox WHERE destination = ? ORDER BY id DESC LIMIT ?)"
        return sum(
            self.db.execute(f"{over} {newest}", (to, to, MOST_WAITING)).rowcount
            for to in destinations
        )

    def first(self, destination: str) -> Queued | None:
        """Return the oldest that waits."""
        row = self.db.execute(
            "SELECT id, key, body, made_at, tries, next_at FROM outbox"
            " WHERE destination = ? ORDER BY id LIMIT 1",
            (destination,),
        ).fetchone()
        return None if row is None else Queued(*row)

    def waiting(self, destination: str) -> int:
        """Count those that wait."""
        count = "SELECT count(*) FROM outbox WHERE destination = ?"
        return int(self.db.execute(count, (destination,)).fetchone()[0])

    def done(self, number: int) -> None:
        """Forget one."""
        self.db.execute("DELETE FROM outbox WHERE id = ?", (number,))

    def later(self, number: int, next_at: float) -> None:
        """Note that one was tried, and when it is due again."""
        change = "UPDATE outbox SET tries = tries + 1, next_at = ? WHERE id = ?"
        self.db.execute(change, (next_at, number))

    def only(self, destinations: Sequence[str]) -> int:
        """Forget those of all other destinations; return how many."""
        marks = ", ".join("?" * len(destinations))
        change = f"DELETE FROM outbox WHERE destination NOT IN ({marks})"  # noqa: S608  (marks)
        return self.db.execute(change, tuple(destinations)).rowcount

    def notices(self) -> list[Row]:
        """Return all that wait, whole."""
        return self.db.execute("SELECT * FROM outbox").fetchall()

    def add_notices(self, rows: Sequence[Row]) -> None:
        """Take what `notices` of other tables returned; what is there already is left."""
        self.db.executemany("INSERT OR IGNORE INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def number_from(self, number: int) -> None:
        """Give the next notice a number above this: another table may have used those below."""
        self.db.execute("DELETE FROM sqlite_sequence WHERE name = 'outbox'")
        self.db.execute("INSERT INTO sqlite_sequence VALUES ('outbox', ?)", (number,))

    # Stretches

    def draw(self, stretches: Sequence[tuple[Labels, Point]], now: float) -> None:
        """Add stretches, and let go of those that are too old or too many."""
        if not stretches:
            return
        rows = [(text_of(engine), point.at, text_of(point[1:])) for engine, point in stretches]
        self.add_stretches(rows)
        self.db.execute("DELETE FROM stretches WHERE at < ?", (now - KEEP,))
        count = self.db.execute("SELECT count(*) FROM stretches").fetchone()[0]
        if count > MOST_STRETCHES:
            oldest = "SELECT at FROM stretches ORDER BY at LIMIT 1 OFFSET ?"
            delete = f"DELETE FROM stretches WHERE at < ({oldest})"  # noqa: S608  (our own text)
            self.db.execute(delete, (count - MOST_STRETCHES,))

    def engines(self, since: float, most: int) -> list[Labels]:
        """Return the engines that have stretches after `since`."""
        query = "SELECT DISTINCT engine FROM stretches WHERE at > ? ORDER BY engine LIMIT ?"
        found = self.db.execute(query, (since, most)).fetchall()
        return [restored(Labels, json.loads(text)) for (text,) in found]

    def stretches(self, engine: Labels, since: float) -> list[Point]:
        """Return an engine's stretches after `since`, oldest first."""
        query = "SELECT at, body FROM stretches WHERE engine = ? AND at > ? ORDER BY at"
        found = self.db.execute(query, (text_of(engine), since)).fetchall()
        return [_point(at, text) for at, text in found]

    def all_stretches(self) -> list[Row]:
        """Return all stretches as they are written."""
        return self.db.execute("SELECT * FROM stretches").fetchall()

    def add_stretches(self, rows: Sequence[Row]) -> None:
        """Take what `all_stretches` of other tables returned."""
        self.db.executemany("INSERT OR REPLACE INTO stretches VALUES (?, ?, ?)", rows)


def text_of(value: Any) -> str:
    """Write plain data as JSON."""
    return json.dumps(value, separators=(",", ":"))


def _point(at: float, text: str) -> Point:
    *figures, positions = json.loads(text)
    return Point._make((at, *figures, tuple(positions)))
