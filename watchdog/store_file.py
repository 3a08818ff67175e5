"""
The store's file: its tables, its version, and what becomes of one that cannot be used.

The version is SQLite's `user_version`: how many of MIGRATIONS the file has been through. An older
file is copied beside itself and migrated; one of a newer program is refused, and left alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Final

from watchdog.errors import CommandError

NAME: Final = "state.db"
LOCK: Final = "lock"
APPLICATION: Final = 0x73776467  # "swdg": tells our file from any other SQLite file
BUSY: Final = 3.0
"""Seconds to wait for somebody else's lock, such as a backup's."""

BUSY_AT_START: Final = 30.0
"""The same at the start: who sets the file aside then has forgotten what fires."""

MOST_PAGES: Final = 65_536
"""Pages of 4 KiB: 256 MiB, whatever goes wrong with the other bounds."""

BESIDE: Final = ("", "-wal", "-shm")
"""A file of SQLite is these three."""

MOST_ASIDE: Final = 10
"""Files that were set aside and are kept."""

SAYINGS: Final = {
    "malformed": "corrupt", "not a database": "corrupt", "no such table": "corrupt",
    "is locked": "locked", "readonly database": "read-only", "disk is full": "full",
}  # fmt: skip
"""How SQLite says what is wrong."""

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


def open_file(
    path: Path, migrations: Sequence[str] = MIGRATIONS, patience: float | None = None
) -> sqlite3.Connection:
    """
    Open the file, make it where there is none, and bring an older one up to date.

    `patience`: seconds that another program may keep it locked meanwhile.

    Raises NewerFileError, and sqlite3.Error where it cannot be used.
    """
    path.touch(mode=0o600) if not path.exists() else None
    db = connect(str(path))
    try:
        db.execute(f"PRAGMA busy_timeout = {(BUSY if patience is None else patience) * 1000:.0f}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")  # a power cut loses no alert either
        db.execute("PRAGMA journal_size_limit = 8388608")
        migrate(db, path, migrations)
        db.execute("SELECT count(*) FROM kept").fetchone()  # a killed process's log is replayed
        db.execute(f"PRAGMA busy_timeout = {BUSY * 1000:.0f}")
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
    db.text_factory = partial(str, encoding="utf-8", errors="replace")  # one bad byte costs its row
    try:
        db.execute(f"PRAGMA max_page_count = {MOST_PAGES}")
    except sqlite3.Error:  # the file is read here for the first time
        db.close()
        raise
    return db


def migrate(db: sqlite3.Connection, path: Path | None, migrations: Sequence[str]) -> None:
    """Run what the file has not been through yet, each step in a transaction of its own."""
    version = known_version(db)
    empty = version == 0
    if version > len(migrations):
        raise NewerFileError(_refusal(path, version, len(migrations)))
    if path is not None and not empty and version < len(migrations):
        _copy(db, before(path, version))
    for i, script in enumerate(migrations[version:], version + 1):
        db.executescript(
            f"BEGIN IMMEDIATE; {script}; PRAGMA application_id = {APPLICATION};"
            f"PRAGMA user_version = {i}; COMMIT;"
        )


def known_version(db: sqlite3.Connection) -> int:
    """Return how many migrations the file has been through; sqlite3.Error if it is not ours."""
    version, application = (
        int(db.execute(f"PRAGMA {pragma}").fetchone()[0])
        for pragma in ("user_version", "application_id")
    )
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and application != APPLICATION:
        raise sqlite3.DatabaseError("file is not a database of serving-watchdog")
    return version if tables else 0


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
    _bound(path)
    return aside


def asides(path: Path) -> list[Path]:
    """Return the files that were set aside, oldest first."""
    found = path.parent.glob(f"{path.name}.*-*Z")
    return sorted(found, key=lambda file: file.name.rpartition("-")[2])


def _bound(path: Path) -> None:
    """Let go of the oldest that were set aside: a disk that fails each hour must not fill."""
    for file in asides(path)[:-MOST_ASIDE]:
        for ending in BESIDE:
            file.with_name(file.name + ending).unlink(missing_ok=True)


def reason_of(error: Exception) -> str:
    """One word for what is wrong: corrupt, locked, read-only, full, or unusable."""
    if isinstance(error, OSError):
        return {errno.EROFS: "read-only", errno.ENOSPC: "full"}.get(error.errno or 0, "unusable")
    text = str(error).lower()  # Python 3.10 has no codes of SQLite
    reasons = (reason for words, reason in SAYINGS.items() if words in text)
    return next(reasons, "unusable")


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


def _opened(place: Path) -> int:
    try:
        return os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return os.open(place, os.O_RDONLY | os.O_CLOEXEC)  # a lock needs no writing


def _is_somebody_elses(directory: Path) -> bool:
    """Whether there is a directory, or may be one, in which another user's daemon may be."""
    try:
        exists, locked = directory.exists(), (directory / LOCK).exists()
    except PermissionError:
        return True
    return locked or (exists and not os.access(directory, os.W_OK | os.X_OK))


def lock(directory: Path) -> int | None:
    """
    Make the directory and take it for this process; the lock ends with the process.

    Returns the descriptor that holds it; None where the directory cannot be had at all. Raises
    CommandError where another process has it.
    """
    try:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        held = _opened(directory / LOCK)
    except PermissionError:
        if _is_somebody_elses(directory):
            raise CommandError(
                f"{directory} belongs to another user, and may be in use: run this one as that "
                f"user, or give it a state_dir of its own"
            ) from None
        return None
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
