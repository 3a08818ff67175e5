"""
The stamp: a file in a cache directory that says which fingerprints filled it, and when.

The store says the same, but belongs to this host; the stamp goes where the directory goes. It
holds digests and short values, never a secret, so that all may read it.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from watchdog import __version__
from watchdog.errors import CommandError
from watchdog.regular_files import OddFileError, json_object, shown, why

NAME: Final = ".serving-watchdog-stamp.json"
PRODUCT: Final = "serving-watchdog"
SCHEMA: Final = 1
DAEMON: Final = "daemon"
MOST: Final = 32
"""Entries; the oldest ones go first."""

MOST_BYTES: Final = 4 << 20
MODE: Final = 0o644
PATIENCE: Final = 2.0
"""Seconds that somebody waits for the turn to write; a turn takes some milliseconds."""


class Unreadable(CommandError):
    """There is a stamp, and it cannot be used; the sentence says why."""


class Unwritable(CommandError):
    """The stamp could not be written; the sentence says why. The old one is as it was."""


class Filled(NamedTuple):
    """
    A launch that used the directory: `at` RFC 3339, `start` of its process in Unix seconds.

    `by`: DAEMON where the process was seen, empty where a launcher announced it.
    """

    fingerprint: dict[str, Any]
    at: str
    start: float
    by: str = ""


@dataclass(frozen=True)
class Stamp:
    """What a stamp says; the oldest entry is the first."""

    entries: tuple[Filled, ...] = ()
    written_by: str = __version__
    schema: int = SCHEMA

    def added(self, filled: Filled) -> Stamp:
        """
        Return a stamp that knows of one launch more.

        One that has the same fingerprint as the newest entry changes nothing: the entry says who
        filled the directory, and a warm start fills nothing.
        """
        if self.entries and self.entries[-1].fingerprint == filled.fingerprint:
            return self
        return replace(self, entries=(*self.entries, filled)[-MOST:], written_by=__version__)


def read(directory: Path) -> Stamp | None:
    """Return a directory's stamp; None where it has none. Raises Unreadable."""
    path = directory / NAME
    try:
        return _stamp(json_object(path, MOST_BYTES, follow=False))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{shown(path, 400)} {why(error)}") from error


def write(directory: Path, stamp: Stamp) -> None:
    """
    Write a directory's stamp: whole or not at all, and there after a power cut.

    Raises Unwritable. A stamp that is there is replaced, whatever it is: `read` it before.
    """
    path = directory / NAME
    draft = directory / f"{NAME}.{secrets.token_hex(4)}"
    try:
        _write_new(draft, _data(stamp))
        os.replace(draft, path)  # noqa: PTH105  (atomic; a link there is replaced, not followed)
        _sync(directory)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise Unwritable(f"{shown(path, 400)} {why(error)}") from error


@contextmanager
def turn(directory: Path) -> Iterator[None]:
    """
    Have a directory's stamp to oneself between `read` and `write`, so that no entry is lost.

    Who cannot have it within PATIENCE goes on without: a lock that hangs must hold up no launch.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # reading and writing will say why
        yield
        return
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    until = time.monotonic() + PATIENCE
    while not _is_locked(descriptor) and time.monotonic() < until:
        time.sleep(0.02)


def _is_locked(descriptor: int) -> bool:
    """Try to lock; a file system without locks counts as locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _write_new(path: Path, data: bytes) -> None:
    """Write a file that was not there before, down to the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, MODE)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, MODE)  # whatever the umask: another user's watchdog reads it
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync(directory: Path) -> None:
    """Bring the new name to the disk; some file systems do not sync directories, and need not."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- as JSON -------------------------------------------------------------------------------------


def _data(stamp: Stamp) -> bytes:
    """Return the file; old entries go until it is as small as `read` demands."""
    entries = [filled._asdict() for filled in stamp.entries[-MOST:]]
    while True:
        document = {
            "product": PRODUCT,
            "schema": SCHEMA,
            "written_by": stamp.written_by,
            "entries": entries,
        }
        data = json.dumps(document, indent=1, sort_keys=True, allow_nan=False).encode("ascii")
        if len(data) < MOST_BYTES:
            return data + b"\n"
        if len(entries) <= 1:
            raise Unwritable(f"a stamp of {len(data)} bytes is longer than {MOST_BYTES}")
        del entries[0]


def _stamp(found: dict[str, Any]) -> Stamp:
    """Make a stamp of what a file says; keys may be added to it. Raises OddFileError."""
    if found.get("product") != PRODUCT:
        raise OddFileError(f"is no stamp of {PRODUCT}")
    schema, by, entries = (found.get(key) for key in ("schema", "written_by", "entries"))
    if type(schema) is not int or schema < 1:
        raise OddFileError(f"has the schema {shown(schema)}, not a number from 1 on")
    if schema > SCHEMA:
        raise OddFileError(
            f"was written by a newer {PRODUCT} ({shown(by, 40)}, schema {schema});"
            f" this one knows schema {SCHEMA}"
        )
    if not isinstance(by, str):
        raise OddFileError("has a written_by that is no text")
    if not isinstance(entries, list) or len(entries) > MOST:
        raise OddFileError(f"has entries that are no list of at most {MOST}")
    return Stamp(tuple(_filled(i, entry) for i, entry in enumerate(entries)), shown(by), schema)


def _filled(i: int, entry: object) -> Filled:
    if not isinstance(entry, dict):
        raise OddFileError(f"has an entries[{i}] that is no object")
    fingerprint, at, start = (entry.get(key) for key in ("fingerprint", "at", "start"))
    if not isinstance(fingerprint, dict):
        raise OddFileError(f"has an entries[{i}].fingerprint that is no object")
    if not isinstance(at, str) or not _is_moment(at):
        raise OddFileError(f"has an entries[{i}].at that is no time in RFC 3339")
    if isinstance(start, bool) or not isinstance(start, int | float) or not _is_seconds(start):
        raise OddFileError(f"has an entries[{i}].start that is no time in seconds")
    return Filled(fingerprint, at, float(start), DAEMON if entry.get("by") == DAEMON else "")


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo is not None
    except ValueError:
        return False


def _is_seconds(number: float) -> bool:
    """Whether a number can be a time; JSON's may be infinite, or have a thousand digits."""
    try:
        return math.isfinite(number) and 0 <= number < 1e11
    except OverflowError:
        return False
