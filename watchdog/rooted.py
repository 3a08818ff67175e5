"""
Paths as another root sees them, such as that of a container: /proc/PID/root.

The kernel follows an absolute link from our own root, wherever the link lies. So links are
followed here, and none leads out. Who changes the tree meanwhile may still mislead us: what is
read of such a file must be judged, and never shown as it is.

With the rights of a process, what its user may not read is not told either, nor whether it is
there.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

from watchdog.regular_files import OddFileError
from watchdog.rights import READ, SEARCH, Rights

MOST_LINKS: Final = 40
MOST_PARTS: Final = 256


def inside(root: Path, path: str, rights: Rights | None = None) -> Path:
    """
    Return where an absolute path leads below `root`, links followed; it need not be there.

    Raises OSError of a circle, of more than MOST_PARTS parts, of a path that none can be, and with
    `rights` of what these do not reach.
    """
    demand_path(path)
    left = _parts(path)
    found: list[str] = []
    links = 0
    while left:
        part = left.pop()
        if part == "..":
            del found[-1:]
            continue
        if rights is not None:
            _demand(root.joinpath(*found), SEARCH, rights)
        try:
            target = os.readlink(root.joinpath(*found, part))  # noqa: PTH115  (no Path is wanted)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                raise
            found.append(part)  # no link, or not there
            continue
        links += 1
        if target.startswith("/"):
            found = []
        left += _parts(target)
        if links > MOST_LINKS or len(left) > MOST_PARTS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    there = root.joinpath(*found)
    if rights is not None:
        _demand(there, READ, rights)
    return there


def demand_path(text: str) -> None:
    """Pass what may be a path; JSON may hold what the kernel cannot be told. Raises OSError."""
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError:
        raw = b"\0"
    if b"\0" in raw:
        raise OddFileError("is no path")


def again(root: Path, path: Path, rights: Rights | None = None) -> Path:
    """Return where a path below `root` leads: as `inside`, of a path of this host."""
    return inside(root, f"/{path.relative_to(root)}", rights)


def _demand(path: Path, want: int, rights: Rights) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        rights.demand(path, want)


def _parts(path: str) -> list[str]:
    """Return the parts of a path, the last first."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if len(parts) > MOST_PARTS:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path[:MOST_PARTS])
    return parts[::-1]
