"""
Sets a cache directory aside by a rename within its parent.

That keeps every byte: it can be undone, and a stale cache can still be looked at. What would be
no such rename is refused: a link, a mount, another file system, a name that is taken; so is what
a process uses, and what is no cache for sure.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, NamedTuple

from watchdog.cache_layouts import ASIDE_TIME, set_aside_at
from watchdog.cache_users import Users, mounted_below, mounted_elsewhere, users
from watchdog.domain.texts import one_line
from watchdog.errors import CommandError

SEARCH: Final = 20.0
"""Seconds to look for who uses a directory; a host of a thousand processes takes about one."""

SYSTEM: Final = frozenset(
    {
        "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt",
        "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/usr", "/var", "/var/cache",
        "/var/lib", "/tmp", "/var/tmp",  # noqa: S108  (compared)
    }
)  # fmt: skip
"""What holds the things of others too, and never a cache alone."""

_WHY: Final = {
    errno.EXDEV: "it lies in a lower layer of an overlay (a container's image), where a directory "
    "cannot be renamed; set it aside on the host, or mount a directory there",
    errno.EBUSY: "something is mounted there",
    errno.EROFS: "its file system is read-only",
    errno.ENAMETOOLONG: "the new name would be too long",
}


class Moved(NamedTuple):
    """
    What was renamed to what, the shell line that undoes it, and what to know about it.

    `notes`: sentences, such as of processes that could not be looked at.
    """

    source: Path
    goal: Path
    undo: str
    notes: tuple[str, ...] = ()


def set_aside(
    directory: Path, now: datetime, proc: Path, *, dry_run: bool = False, force: bool = False
) -> Moved:
    """
    Rename to `<directory>.stale-<UTC time>`. Raises CommandError, and then nothing was changed.

    `force`: although a process uses it. `dry_run`: look at all that, and rename nothing.
    """
    source = own_directory(directory)
    _refuse_what_is_no_cache(source)
    below = mounted_below(source, proc)
    if below:
        what = "is a mount point" if below == str(source) else f"has {below} mounted in it"
        raise CommandError(
            f"{source} {what}, and a rename crosses no file system; "
            f"name the directories in it one by one"
        )
    notes = _looked_for_users(source, proc, force=force)
    stamp = now.astimezone(timezone.utc).strftime(ASIDE_TIME)
    goal = source.with_name(f"{source.name}.stale-{stamp}")
    # A rename would replace an empty directory. One that comes in between is lost: it was empty.
    if os.path.lexists(goal):
        raise CommandError(f"{goal} is there already and is left alone; try again in a second")
    again = _making_anew(source)
    if not dry_run:
        _rename(source, goal)
    words = ("mv", "-T", "--", str(goal), str(source))  # -T: never into one that was made since
    return Moved(source, goal, shlex.join(words), (*notes, *again))


# --- refusals ------------------------------------------------------------------------------------


def own_directory(directory: Path) -> Path:
    """Return its real path. Raises CommandError unless it is a directory itself, and no link."""
    try:
        mode = directory.lstat().st_mode
        if stat.S_ISLNK(mode):
            goal = directory.readlink()
            raise CommandError(
                f"{directory} is a symbolic link to {one_line(str(goal), 200)}; name that instead"
            )
        if not stat.S_ISDIR(mode):
            raise CommandError(f"{directory} is no directory; name the cache directory itself")
        real = directory.resolve(strict=True)
        if not real.samefile(directory):  # /proc/PID/root reads as a link to our own /
            raise CommandError(
                f"{directory} leads into what another process sees; name the path that the cache "
                f"has on this host"
            )
    except FileNotFoundError:
        raise CommandError(f"{directory} does not exist, so there is nothing to do") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before 3.13
        raise CommandError(f"{directory}: {reason(error)}") from None
    return real


def _refuse_what_is_no_cache(source: Path) -> None:
    if str(source) == "/":
        raise CommandError("/ is the whole system; name the cache directory itself")
    for home in _homes():
        if home.is_relative_to(source):
            raise CommandError(
                f"{source} holds the home directory; name the cache directory itself"
            )
    if str(source) in SYSTEM:
        raise CommandError(f"{source} belongs to the system; name the cache directory itself")
    if set_aside_at(source.name) is not None:
        raise CommandError(f"{source} is a set-aside copy already and is left as it is")


def _homes() -> list[Path]:
    """Return the home as the environment has it, and as the user's account has it."""
    homes = []
    for user in ("~", f"~{os.environ.get('SUDO_USER') or os.environ.get('USER') or ''}"):
        with suppress(RuntimeError, OSError):
            homes.append(Path(user).expanduser().resolve())
    return homes


def _looked_for_users(source: Path, proc: Path, *, force: bool) -> list[str]:
    """Return what to say of the search. Raises CommandError where it found one, unless forced."""
    found = users(source, proc, time.monotonic() + SEARCH)
    elsewhere = mounted_elsewhere(source, proc)
    notes = []
    if found.found:
        notes.append(used(source, found))
    if elsewhere:
        notes.append(f"{source} is also mounted at {elsewhere}, which keeps showing the old one")
    if found.stopped:
        notes.append(f"whether a process uses {source} is not known: {found.stopped}")
    if notes and not force:
        raise CommandError(f"{'; '.join(notes)}; stop what uses it first, or give --force")
    if found.unseen:
        notes.append(f"{found.unseen} process(es) could not be looked at (CAP_SYS_PTRACE)")
    if found.hidden:
        notes.append(f"not all processes could be looked at: {found.hidden}")
    return notes


def used(source: Path, found: Users) -> str:
    said = ", ".join(f"process {u.pid} ({u.command}) {one_line(u.has, 200)}" for u in found.found)
    return f"{source} is in use: {said}"


# --- the file system -----------------------------------------------------------------------------


def _rename(source: Path, goal: Path) -> None:
    try:
        source.rename(goal)
    except OSError as error:
        raise CommandError(f"{source} stays as it is: {reason(error)}") from None
    with suppress(OSError):  # it is done; this is that it outlives a power cut
        parent = os.open(source.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)


def _making_anew(source: Path) -> list[str]:
    """Say how to make the directory anew, where its owner may not do so in the parent."""
    try:
        own, parent = source.stat(), source.parent.stat()
    except OSError:
        return []
    if own.st_uid == 0 or (own.st_uid == parent.st_uid and parent.st_mode & stat.S_IWUSR):
        return []
    if parent.st_mode & stat.S_IWOTH or (own.st_gid, parent.st_mode & stat.S_IWGRP) == (
        parent.st_gid,
        stat.S_IWGRP,
    ):
        return []
    mode = stat.S_IMODE(own.st_mode)
    line = f"install -d -o {own.st_uid} -g {own.st_gid} -m {mode:04o} {shlex.quote(str(source))}"
    return [f"its owner may not make it anew in {source.parent}; before the next start: {line}"]


def reason(error: BaseException) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return _WHY.get(number or 0) or (os.strerror(number).lower() if number else str(error))
