"""
A tree of small files with symbolic links: /sys, or a recording of a part of it.

Every path is relative to the root and every error an OSError. Where a file is absent and
`<file>.errno` lies beside it, the error named there (such as EBUSY) is raised: so a recording
holds reads that failed. The real /sys has no such files.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST_NAMES: Final = 4096
"""Entries of one directory; one with more is refused."""

ERRNO: Final = ".errno"


@dataclass(frozen=True)
class Tree:
    """Reads below `root`."""

    root: Path = Path("/sys")

    def data(self, path: str, most: int = 4096) -> bytes:
        """Return at most `most` bytes of a file."""
        try:
            return _read(self.root / path, most)
        except FileNotFoundError:
            self._told(path)
            raise

    def text(self, path: str, most: int = 4096) -> str:
        """Return a file as text; what is no UTF-8 is replaced."""
        return self.data(path, most).decode("utf-8", "replace")

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted. Raises OSError of more than MOST_NAMES too."""
        names = os.listdir(self.root / path)  # noqa: PTH208  (names only)
        if len(names) > MOST_NAMES:  # a list that was cut would say "no" of what is behind
            raise OSError(errno.EOVERFLOW, os.strerror(errno.EOVERFLOW), path)
        return sorted(names)

    def inode(self, path: str) -> int:
        """Return the number of an entry itself: one that was removed and made anew has another."""
        return os.lstat(self.root / path).st_ino

    def real(self, path: str) -> str:
        """Return where a path leads, links resolved, relative to the root."""
        found = os.path.realpath(self.root / path, strict=True)
        return os.path.relpath(found, os.path.realpath(self.root))

    def has(self, path: str) -> bool:
        """Whether a file or directory is there."""
        return (self.root / path).exists()

    def _told(self, path: str) -> None:
        """Raise the error that a recording holds for this file, if it holds one."""
        try:
            name = _read(self.root / f"{path}{ERRNO}", 64).decode("ascii").strip()
        except (OSError, ValueError):
            return
        number = next((n for n, known in errno.errorcode.items() if known == name), errno.EIO)
        raise OSError(number, os.strerror(number), path)


def _read(path: Path, most: int) -> bytes:
    """Read at most so many bytes; a pipe that somebody put in a recording does not hold us."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def errno_name(error: OSError) -> str:
    """Return the error's short name, such as `EBUSY`."""
    return errno.errorcode.get(error.errno or 0, "EIO")
