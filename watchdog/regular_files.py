"""
Reading small files that somebody else wrote: bounded, and never held up by what is no file.

A pipe would block, a device may do something when it is opened (`/dev/watchdog` starts to count
down), and a link may lead to either. So only regular files are opened, after links, and only as
much is read as was asked for. A file on a network share that hangs still holds the caller: who
must not be held reads in a thread of its own.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

WORDS: Final = {
    errno.ENOENT: "is not there",
    errno.EACCES: "is not permitted to this user",
    errno.EPERM: "is not permitted",
    errno.ELOOP: "is a link that leads in a circle, or may not be followed",
    errno.EISDIR: "is a directory",
    errno.ENOTDIR: "is below something that is no directory",
    errno.ENAMETOOLONG: "has too long a path",
    errno.ESTALE: "vanished from its network share",
    errno.EROFS: "is on a file system that is mounted read-only",
    errno.ENOSPC: "found no space left on its file system",
    errno.EDQUOT: "found no space left in this user's quota",
}
"""What an error says of a path, to be read after its name."""

LONGEST: Final = 120
"""Characters of a foreign text that are shown."""


class OddFileError(OSError):
    """A file that cannot be used; the text is to be read after its name."""


@contextmanager
def opened(path: Path, *, follow: bool = True) -> Iterator[tuple[int, os.stat_result]]:
    """
    Open a regular file: its descriptor, and what it was when it was opened.

    `follow`: whether the path itself may be a link. Raises OSError.
    """
    _regular(path.stat(follow_symlinks=follow))  # before it is opened: see above
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, flags | (0 if follow else os.O_NOFOLLOW))
    try:
        yield descriptor, _regular(os.fstat(descriptor))  # it may have been another one before
    finally:
        os.close(descriptor)


def content(path: Path, most: int, *, follow: bool = True) -> bytes:
    """Return a whole regular file; one of more than `most` bytes is refused. Raises OSError."""
    with opened(path, follow=follow) as (descriptor, known):
        if known.st_size > most:
            raise OddFileError(f"has {known.st_size} bytes, more than {most}")
        data = up_to(descriptor, most + 1)
    if len(data) > most:  # it grew, or it is one of those in /proc, which have no size
        raise OddFileError(f"has more than {most} bytes")
    return data


def up_to(descriptor: int, most: int) -> bytes:
    """Return as many bytes as there are, and at most so many."""
    parts: list[bytes] = []
    left = most
    while left > 0 and (part := os.read(descriptor, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def json_object(path: Path, most: int, *, follow: bool = True) -> dict[str, Any]:
    """Return the JSON object that a file holds. Raises OSError, with words for `why`."""
    return parsed(content(path, most, follow=follow))


def parsed(data: bytes) -> dict[str, Any]:
    """Return the JSON object in these bytes. Raises OddFileError."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:  # also: too many digits, too deep
        raise OddFileError("holds no JSON that can be read") from error
    if not isinstance(found, dict):
        raise OddFileError("holds JSON that is no object")
    return found


def why(error: OSError) -> str:
    """Say what is wrong with a path, in words to be read after its name."""
    if isinstance(error, OddFileError):
        return str(error)
    number = error.errno or errno.EIO
    return WORDS.get(number, f"could not be read: {os.strerror(number)}")


def shown(text: object, most: int = LONGEST) -> str:
    """Make a foreign text fit to be shown: in one line, without control characters, bounded."""
    line = "".join(c if c.isprintable() else "?" for c in str(text)[: most + 1])
    return line if len(line) <= most else line[: most - 3] + "..."


def _regular(known: os.stat_result) -> os.stat_result:
    """Pass what is a regular file. Raises OSError of anything else."""
    if stat.S_ISLNK(known.st_mode):
        raise OddFileError("is a link")
    if stat.S_ISDIR(known.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(known.st_mode):
        raise OddFileError("is no regular file")
    return known
