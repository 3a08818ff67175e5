"""
Which processes use a directory: in it, with an open file of it, a mapped one, or it mounted.

A container sees the same directory under another name. So names are not compared as they are:
each is led back, by the mounts of the process that has it, to its place inside its file system.
Mounts of any process are readable by all; the rest of one's own processes, or with
CAP_SYS_PTRACE. Who could not be looked at is counted, and is no "no".
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from watchdog import processes as p
from watchdog.domain.texts import one_line

MOST_MAPS: Final = 32 << 20  # bytes; a server with many libraries has some hundred KiB
MOST_MOUNTS: Final = 4 << 20  # bytes; a host of containers has some hundred KiB
MOST_USERS: Final = 8  # named; further ones would not be read

_LINKS: Final = ("cwd", "root", "exe")
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_GONE_FILE: Final = " (deleted)"


class Mount(NamedTuple):
    """One mount: device (major:minor), what of its file system is mounted, and where."""

    device: str
    root: str
    point: str


class User(NamedTuple):
    """A process, its command (program and first word) and what it has: `maps /cache/a.so`."""

    pid: int
    command: str
    has: str


class Users(NamedTuple):
    """
    Who was found (at most MOST_USERS), and what was not seen.

    `unseen`: processes that may not be looked at. `hidden`: why others may be missing from the
    list. `stopped`: why the search ended early, empty where it did not.
    """

    found: tuple[User, ...]
    unseen: int
    hidden: str
    stopped: str


def users(directory: Path, proc: Path, deadline: float) -> Users:
    """
    Search all processes but this one; `directory` is absolute and without links.

    `deadline` in monotonic seconds. Raises nothing.
    """
    own = mounts(proc, "self")
    wanted = place(str(directory), own)
    found: list[User] = []
    unseen = 0
    stopped = ""
    for pid, one in sorted(p.processes(proc).items()):
        if time.monotonic() >= deadline:
            stopped = "there was no time to look at all processes"
            break
        if len(found) >= MOST_USERS:
            break
        if one.kernel or one.ended or pid == os.getpid():
            continue
        theirs = mounts(proc, pid) or own
        has = _mounted(wanted, theirs, own)
        try:
            has = has or next(_within(wanted, theirs, _names(proc, pid)), "")
        except OSError:
            unseen += 1
        if has:
            found.append(User(pid, command(proc, pid), has))
    return Users(tuple(found), unseen, p.hidden(proc), stopped)


def command(proc: Path, pid: int) -> str:
    """Return a program, and the script that a Python runs; other words may hold secrets."""
    words = p.argv(proc, pid)
    name = PurePosixPath(words[0]).name if words else "?"
    if name.startswith("python"):
        after = words[2:3] if words[1:2] == ["-m"] else words[1:2]
        script = PurePosixPath(after[0]).name if after else ""
        if script and not script.startswith("-"):
            name = f"{name} {script}"
    return one_line(name, 60)


# --- mounts --------------------------------------------------------------------------------------


def mounts(proc: Path, pid: int | str) -> list[Mount]:
    """Return what a process has mounted, oldest first; nothing where that cannot be read."""
    try:
        with (proc / str(pid) / "mountinfo").open("rb") as file:
            text = file.read(MOST_MOUNTS).decode("utf-8", "surrogateescape")
    except OSError:
        return []
    lines = (line.split(" ") for line in text.splitlines())
    return [Mount(f[2], _plain(f[3]), _plain(f[4])) for f in lines if len(f) > 5]


def place(name: str, known: Sequence[Mount]) -> tuple[str, str]:
    """Return device and path inside its file system; of two mounts at one point, the later."""
    best = Mount("", "/", "/")
    for mount in known:
        if len(mount.point) >= len(best.point) and _below(name, mount.point):
            best = mount
    rest = name if best.point == "/" else name[len(best.point) :]
    return best.device, (best.root.rstrip("/") + rest).rstrip("/") or "/"


def mounted_below(directory: Path, proc: Path) -> str:
    """Return a mount at a directory or in it, the directory itself first; empty without."""
    points = sorted(mount.point for mount in mounts(proc, "self"))
    return next((point for point in points if _below(point, str(directory))), "")


def mounted_elsewhere(directory: Path, proc: Path) -> str:
    """Return where else a directory, or a part of it, is mounted for us; empty without."""
    own = mounts(proc, "self")
    device, path = place(str(directory), own)
    points = (m.point for m in own if m.device == device and _below(m.root, path))
    return next(points, "")


def _mounted(wanted: tuple[str, str], theirs: Iterable[Mount], own: Iterable[Mount]) -> str:
    """Say where a process has the directory, or a part of it, mounted and we have not."""
    known = set(own)
    for mount in theirs:
        if mount.device == wanted[0] and mount not in known and _below(mount.root, wanted[1]):
            return f"has it mounted at {mount.point}"
    return ""


def _plain(text: str) -> str:
    r"""Undo how the kernel writes blanks: `\040`."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


# --- what a process has --------------------------------------------------------------------------


def _within(
    wanted: tuple[str, str], theirs: Sequence[Mount], names: Iterable[tuple[str, str]]
) -> Iterator[str]:
    """Yield what lies in the directory, as `maps /cache/a.so`."""
    tail = PurePosixPath(wanted[1]).name
    near = {m.point for m in theirs if m.device == wanted[0] and _below(m.root, wanted[1])}
    for how, name in names:
        # most names are elsewhere, and under another one only where a part of it is mounted
        if tail not in name and not any(_below(name, point) for point in near):
            continue
        bare = name.removesuffix(_GONE_FILE)
        device, path = place(bare, theirs)
        if device == wanted[0] and _below(path, wanted[1]):
            yield f"{how} {bare}"


def _names(proc: Path, pid: int) -> Iterator[tuple[str, str]]:
    """Yield how and what a process has of files. Raises OSError where that may not be read."""
    folder = proc / str(pid)
    for link in _LINKS:
        with contextlib.suppress(*p.GONE):
            yield "runs in" if link == "cwd" else "runs", str((folder / link).readlink())
    with contextlib.suppress(*p.GONE):
        for _, name in p.files(proc, pid):
            if name.startswith("/"):
                yield "has open", name
    with contextlib.suppress(*p.GONE):
        for name in _mapped(folder / "maps"):
            yield "maps", name


def _mapped(place_of_maps: Path) -> set[str]:
    """Return the files that are mapped. Raises OSError, also of more than MOST_MAPS."""
    with place_of_maps.open("rb") as file:
        text = file.read(MOST_MAPS + 1)
    if len(text) > MOST_MAPS:  # what is behind would be a "no"
        raise OSError(f"{place_of_maps} is too long")
    lines = (line.split(maxsplit=5) for line in text.splitlines())
    names = {fields[5] for fields in lines if len(fields) > 5 and fields[5].startswith(b"/")}
    return {os.fsdecode(name).replace("\\012", "\n") for name in names}


def _below(path: str, directory: str) -> bool:
    """Whether a path is a directory or lies in it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")
