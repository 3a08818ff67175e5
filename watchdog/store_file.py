"""
The store's file: its tables, its version, and what becomes of one that cannot be used.

The version is SQLite's `user_version`: how many of MIGRATIONS the file has been through. An older
file is copied beside itself and migrated; one of a newer program is refused, and left alone.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from watchdog.errors import CommandError

NAME: Final = "state.db"
LOCK: Final = "lock"
APPLICATION: Final = 0x73776467  # "swdg": tells our file from any other SQLite file
BUSY: Final = 3.0
"""Seconds to wait for somebody else's lock, such as a backup's."""

MOST_PAGES: Final = 65_536
"""Pages of 4 KiB: 256 MiB, whatever goes wrong with the other bounds."""

BESIDE: Final = ("", "-wal", "-shm")
"""A file of SQLite is these three."""

MIGRATIONS: Final[Sequence[str]] = (
    """
    CREATE TABLE kept (name TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        destination TEXT NOT NULL,
        key TEXT NOT NULL,
        body TEXT NOT NULL,
        made_at REAL NOT NULL,
        tries INTEGER NOT NULL DEFAULT 0,
        next_at REAL NOT NULL,
        UNIQUE (destination, key)
    );
    CREATE TABLE stretches (
        engine TEXT NOT NULL, at REAL NOT NULL, body TEXT NOT NULL, PRIMARY KEY (engine, at)
    ) WITHOUT ROWID;
    CREATE INDEX stretches_by_time ON stretches (at);
    """,
)


class NewerFileError(CommandError):
    """The file was written by a newer program."""


def open_file(path: Path, migrations: Sequence[str] = MIGRATIONS) -> sqlite3.Connection:
    """
    Open the file, make it where there is none, and bring an older one up to date.

    Raises NewerFileError, and sqlite3.Error where it cannot be used.
    """
    path.touch(mode=0o600) if not path.exists() else None
    db = connect(str(path))
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")  # a power cut loses no alert either
        db.execute("PRAGMA journal_size_limit = 8388608")
        migrate(db, path, migrations)
    except BaseException:
        db.close()
        raise
    return db


def open_memory() -> sqlite3.Connection:
    """Make a store that ends with the process."""
    db = connect(":memory:")
    migrate(db, None, MIGRATIONS)
    return db


def connect(where: str, *, uri: bool = False) -> sqlite3.Connection:
    """Connect; transactions are begun by hand, and threads are kept apart by the store's lock."""
    db = sqlite3.connect(
        where, timeout=BUSY, isolation_level=None, check_same_thread=False, uri=uri
    )
    db.execute(f"PRAGMA max_page_count = {MOST_PAGES}")
    return db


def migrate(db: sqlite3.Connection, path: Path | None, migrations: Sequence[str]) -> None:
    """Run what the file has not been through yet, each step in a transaction of its own."""
    version, application = (
        db.execute(f"PRAGMA {pragma}").fetchone()[0]
        for pragma in ("user_version", "application_id")
    )
    empty = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if not empty and application != APPLICATION:
        raise sqlite3.DatabaseError("file is not a database of serving-watchdog")
    if version > len(migrations):
        raise NewerFileError(_refusal(path, version, len(migrations)))
    if path is not None and not empty and version < len(migrations):
        _copy(db, before(path, version))
    for i, script in enumerate(migrations[version:], version + 1):
        db.executescript(
            f"BEGIN IMMEDIATE; {script}; PRAGMA application_id = {APPLICATION};"
            f"PRAGMA user_version = {i}; COMMIT;"
        )


def before(path: Path, version: int) -> Path:
    """Where the copy is kept that is made before a file of this version is migrated."""
    return path.with_name(f"{path.name}.schema-{version}")


def _refusal(path: Path | None, version: int, known: int) -> str:
    text = (
        f"{path} was written by a newer serving-watchdog (schema {version}; this one knows "
        f"{known}) and is left as it is. Install the newer version again, or go back to"
    )
    copies = (
        [before(path, i) for i in range(known, 0, -1) if before(path, i).exists()] if path else []
    )
    if copies:
        return (
            f"{text} what was kept before the upgrade: mv {path} {path}.schema-{version} && "
            f"rm -f {path}-wal {path}-shm && cp -p {copies[0]} {path}"
        )
    return f"{text} an empty memory: mv {path} {path}.schema-{version}"


def _copy(db: sqlite3.Connection, to: Path) -> None:
    """Copy the whole file, its write-ahead log included; a copy of the same version is replaced."""
    part = to.with_name(f"{to.name}.part")
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    with closing(sqlite3.connect(part)) as copy:
        db.backup(copy)
    part.replace(to)


def set_aside(path: Path, reason: str) -> Path | None:
    """Rename a file that cannot be used, so that it can be looked at; None where that fails too."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")
    aside = path.with_name(f"{path.name}.{reason}-{stamp}")
    try:
        path.rename(aside)
    except OSError:
        return None
    for ending in BESIDE[1:]:
        with suppress(OSError):
            path.with_name(path.name + ending).rename(aside.with_name(aside.name + ending))
    return aside


def reason_of(error: Exception) -> str:
    """One word for what is wrong: corrupt, locked, read-only, full, or unusable."""
    text = str(error).lower()
    for words, reason in (
        ("malformed", "corrupt"), ("not a database", "corrupt"), ("no such table", "corrupt"),
        ("locked", "locked"), ("readonly", "read-only"), ("read-only", "read-only"),
        ("disk is full", "full"), ("no space", "full"),
    ):  # fmt: skip
        if words in text:
            return reason
    return "unusable"


def which(path: Path) -> tuple[int, int] | None:
    """Tell a file from another one of the same name; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def is_held(directory: Path, held: int) -> bool:
    """Whether the lock that we hold is still the directory's."""
    stat = os.fstat(held)
    return which(directory / LOCK) == (stat.st_dev, stat.st_ino)


def lock(directory: Path) -> int | None:
    """
    Make the directory and take it for this process; the lock ends with the process.

    Returns the descriptor that holds it; None where the directory cannot be had at all. Raises
    CommandError where another process has it.
    """
    place = directory / LOCK
    try:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        try:
            held = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            held = os.open(place, os.O_RDONLY | os.O_CLOEXEC)  # a lock needs no writing
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with closing(os.fdopen(held)) as file:
            owner = file.read(20).strip()
        who = f"process {owner}" if owner.isdigit() else "another process"
        raise CommandError(
            f"{directory} is in use by {who}, another serving-watchdog: stop that one, or give "
            f"this one a state_dir of its own"
        ) from None
    except OSError:
        return held  # a file system that knows no locks
    with suppress(OSError):
        os.ftruncate(held, 0)
        os.pwrite(held, f"{os.getpid()}\n".encode(), 0)
    return held
