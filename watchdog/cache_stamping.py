"""
Notes in a cache directory that a launch was seen to fill it, beside what launchers noted.

What launchers wrote stays, and where one of them names this launch, nothing is added: a launcher's
guard compares like with like, and must not be held up by how we see the same launch.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from watchdog import cache_stamp
from watchdog.cache_moves import SYSTEM
from watchdog.cache_stamp import DAEMON, Filled, Stamp, Unreadable, Unwritable
from watchdog.domain.fingerprint import (
    NOT_OF_A_COMMAND,
    Difference,
    Fingerprint,
    compare,
)
from watchdog.regular_files import why
from watchdog.rights import SEARCH, WRITE, rights_of

KEYED: Final = ("vllm", "chosen")
"""Places with graphs of vLLM, whose own key has the versions; other kernels need not have one."""

BEFORE, AFTER = 900.0, 60.0
"""Seconds around the start of a process in which a launcher's stamp is about it."""

CONTAINER: Final = "left out: the launch of a container looks different from outside it"
NOWHERE: Final = "left out: its path on this host is not known"


class Fill(NamedTuple):
    """A launch that was seen to compile: `at` RFC 3339, `start` of its process in Unix seconds."""

    fingerprint: Fingerprint
    at: str
    start: float


class Fills(NamedTuple):
    """
    Who was seen to fill a place, the oldest first; empty for nobody.

    `path` as the server sees it, `here` on this host; `identity`: device and number of the
    directory; `contained`: the server runs in a container; `pid`: its process.
    """

    target: str
    path: str
    kind: str
    here: str
    identity: str
    contained: bool
    pid: int
    seen: tuple[Fill, ...] = ()


def stamped(fills: Fills) -> tuple[str, bool]:
    """Write a stamp where one is due; say in words what it says now, and whether it was written."""
    try:
        descriptor = _opened(fills)
        try:
            return _stamped_in(descriptor, fills)
        finally:
            os.close(descriptor)
    except _Left as reason:
        return str(reason), False


class _Left(Exception):
    """The stamp stays as it is, in words why."""


def _opened(fills: Fills) -> int:
    """Open the very directory that was looked at. Raises _Left."""
    if fills.contained or not fills.here or fills.here.startswith("/proc/"):
        raise _Left(CONTAINER if fills.contained else NOWHERE)
    if fills.here in SYSTEM or not Path(fills.here).is_absolute():
        raise _Left(f"left out: {fills.here} belongs to the system")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # never through a link
    try:
        descriptor = os.open(fills.here, flags)
    except OSError as error:
        raise _Left(f"not written: {fills.here} {why(error)}") from None
    known = os.fstat(descriptor)
    if f"{known.st_dev}:{known.st_ino}" != fills.identity:
        reason = "not written: another directory has this path by now"
    elif known.st_mode & stat.S_ISVTX:
        reason = "left out: it is a directory of many users"
    elif not _is_the_servers(descriptor, fills.pid):
        reason = "left out: the server's own user may not write there, as far as is known"
    else:
        return descriptor
    os.close(descriptor)
    raise _Left(reason)


def _is_the_servers(descriptor: int, pid: int) -> bool:
    """Whether its user may write there: a daemon of root's must not do it in that user's name."""
    rights = rights_of(Path("/proc"), pid)
    try:
        if rights is not None:
            rights.demand(descriptor, WRITE | SEARCH)
    except OSError:
        return False
    return rights is not None


def _stamped_in(descriptor: int, fills: Fills) -> tuple[str, bool]:
    held = Path(f"/proc/self/fd/{descriptor}")  # this directory, whatever has its name by now
    try:
        with cache_stamp.turn(held):
            old = cache_stamp.read(held)
            new = merged(old, fills)
            if new is None:
                return _words(old), False
            cache_stamp.write(held, new)
            return _words(new), True
    except Unreadable as error:
        raise _Left(f"left as it is: {_named(error, held, fills)}") from None
    except Unwritable as error:
        raise _Left(f"the daemon may not write there: {_named(error, held, fills)}") from None
    except ValueError as error:
        raise _Left(f"left as it is: a fingerprint in it cannot be read: {error}") from None


def merged(stamp: Stamp | None, fills: Fills) -> Stamp | None:
    """Return the stamp that says of these launches too; None where there is nothing to write."""
    new = stamp or Stamp()
    for fill in fills.seen:
        new = Stamp(_added(new.entries, fill, fills.kind))
    return None if new.entries == (stamp or Stamp()).entries else new


def _added(entries: tuple[Filled, ...], fill: Fill, kind: str) -> tuple[Filled, ...]:
    """Return the entries with a launch; of one process there is one, which knows most of it."""
    own = Filled(fill.fingerprint.as_dict(), fill.at, fill.start, DAEMON)
    for i, entry in enumerate(entries):
        was = Fingerprint.from_dict(entry.fingerprint)
        if entry.start == fill.start and entry.by == DAEMON:
            more = len(was.unread) > len(fill.fingerprint.unread)
            return (*entries[:i], own, *entries[i + 1 :]) if more else entries
        if _covers(was, fill.fingerprint, kind, seen=entry.by == DAEMON):
            return entries
        if entry.by != DAEMON and fill.start - BEFORE <= entry.start <= fill.start + AFTER:
            return entries  # whatever it is called: somebody stamped as this process was started
    return (*entries, own)[-cache_stamp.MOST :]


def _covers(was: Fingerprint, found: Fingerprint, kind: str, *, seen: bool) -> bool:
    """
    Whether an entry stands for this launch: nothing differs, and it lacks nothing that this has.

    `seen`: the entry is of a process. A launcher need not tell versions, GPUs and the image where
    vLLM's own key has them, and sees nothing that a script sets between it and the server.
    """
    keyed = kind in KEYED
    changed = compare(was, found).changed
    gaps = {part for part, _ in was.unread} - {part for part, _ in found.unread}
    if not seen:
        changed = tuple(one for one in changed if not _untold(one, keyed=keyed))
        gaps -= set(NOT_OF_A_COMMAND.values()) if keyed else set()
    return not changed and not gaps


def _untold(one: Difference, *, keyed: bool) -> bool:
    """Whether a launcher just could not, or need not, tell what differs."""
    word = one.name.partition(" ")[0]
    if word == "env":
        return not one.was
    return keyed and word in NOT_OF_A_COMMAND and not (one.was and one.now)


def _words(stamp: Stamp | None) -> str:
    entries = stamp.entries if stamp is not None else ()
    count = len(entries)
    last = f", the last one of {entries[-1].at}" if entries else ""
    return f"names {count} launch{'' if count == 1 else 'es'}{last}"


def _named(error: Exception, held: Path, fills: Fills) -> str:
    return str(error).replace(str(held), fills.here)
