"""What was set aside of a cache directory: listed, measured, and deleted where it is named."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from watchdog.cache_beside import named_beside
from watchdog.cache_layouts import set_aside_at
from watchdog.cache_moves import SEARCH, own_directory, reason, used
from watchdog.cache_users import mounted_below, users
from watchdog.domain.texts import one_line
from watchdog.errors import CommandError

MOST_NAMES: Final = 65_536  # of the parent's entries
MOST_COPIES: Final = 256
MOST_FILES: Final = 200_000  # of one copy
MEASURE: Final = 20.0  # seconds to measure all copies


class Copy(NamedTuple):
    """
    A directory that was set aside: when, and what it holds; `size` in bytes on the disk.

    `cut`: why files and size are too small, empty where all was counted.
    """

    path: Path
    at: datetime
    files: int
    size: int
    cut: str


class Copies(NamedTuple):
    """Copies, oldest first; `cut` says why some may lack, empty where all were seen."""

    found: tuple[Copy, ...]
    cut: str


def copies(directory: Path, deadline: float | None = None) -> Copies:
    """
    Find and measure what was set aside of a directory, which itself may be gone.

    `deadline` in monotonic seconds. Raises CommandError where its parent cannot be read.
    """
    until = time.monotonic() + MEASURE if deadline is None else deadline
    try:
        names, why = named_beside(directory, until, MOST_NAMES)
    except OSError as error:
        raise CommandError(f"{directory.parent}: {reason(error)}") from None
    cut = f"{directory.parent} {why}" if why else ""
    dated = ((directory.parent / name, set_aside_at(name, directory.name)) for name in names)
    found = sorted(((path, at) for path, at in dated if at), key=lambda one: (one[1], one[0]))
    if len(found) > MOST_COPIES:
        cut = f"there are {len(found)} copies; the oldest {MOST_COPIES} are shown"
    measured = (Copy(path, at, *_measured(path, until)) for path, at in found[:MOST_COPIES])
    return Copies(tuple(measured), cut)


def copy_at(path: Path) -> Copy:
    """Measure one copy. Raises CommandError where the name is not that of one."""
    return Copy(path, _time_of(path), *_measured(path, time.monotonic() + MEASURE))


def check_copies(paths: Sequence[Path], proc: Path) -> None:
    """Raise CommandError unless all of these are copies that may be deleted."""
    for path in paths:
        _time_of(path)
        real = own_directory(path)
        below = mounted_below(real, proc)
        if below:
            raise CommandError(f"{path}: {below} is mounted there; unmount it first")
        found = users(real, proc, time.monotonic() + SEARCH)
        if found.found:
            raise CommandError(f"{used(real, found)}; stop it first")
        if found.stopped:
            raise CommandError(f"{path} stays: whether it is in use is not known: {found.stopped}")


def delete(paths: Sequence[Path], proc: Path) -> None:
    """Delete these copies; all are looked at before the first goes. Raises CommandError."""
    check_copies(paths, proc)
    for path in paths:
        _delete(path)


def _time_of(path: Path) -> datetime:
    at = set_aside_at(path.name)
    if at is None:
        raise CommandError(
            f"{path} is no set-aside copy (<directory>.stale-<time>) and is left alone; "
            f"`watchdog cache prune --list` prints those there are"
        )
    return at


def _delete(path: Path) -> None:
    partly = f"{path} is deleted in part only"
    try:
        shutil.rmtree(path)
    except OSError as error:
        where = one_line(str(error.filename), 200)
        raise CommandError(f"{partly}: {where}: {reason(error)}; try again as its owner") from None
    except RecursionError:
        line = f"rm -r -- {shlex.quote(str(path))}"
        raise CommandError(f"{partly}: it is too deep for this; {line}") from None


def _measured(path: Path, deadline: float) -> tuple[int, int, str]:
    """Return number of files, bytes on the disk, and why these are too small."""
    files = size = seen = 0
    unread = ""
    waiting = [str(path)]
    while waiting:
        entries, why = _entries(waiting.pop(), MOST_FILES - seen + 1)
        seen += len(entries)
        unread = why or unread
        waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        for entry in entries[: len(entries) - max(0, seen - MOST_FILES)]:
            with suppress(OSError):  # it went meanwhile
                if not entry.is_dir(follow_symlinks=False):
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    files += 1
        if seen > MOST_FILES:
            return files, size, f"more than {MOST_FILES} entries"
        if time.monotonic() >= deadline:
            return files, size, "no time to count all"
    return files, size, unread


def _entries(folder: str, most: int) -> tuple[list[os.DirEntry[str]], str]:
    """Return what is in a folder, and why that could not be read."""
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, most)), ""
    except FileNotFoundError:  # it went meanwhile
        return [], ""
    except OSError as error:
        return [], f"not all may be read ({reason(error)})"
