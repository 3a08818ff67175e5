"""
What another user may read or write, asked before we do: whoever runs a server says where we look.

A watchdog that may read every file must not tell one user of another's. So what a server names is
looked at only as far as its own user could: by owner, group and mode, by an access list where there
is one, and by the process's capabilities within its user namespace. That of a set-user-ID program
is the user who started it.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from watchdog.regular_files import OddFileError

READ: Final = 4
WRITE: Final = 2
SEARCH: Final = 1
"""Bits as in a mode; SEARCH is to get at what a directory holds, by its name."""

REFUSED: Final = "may not be read by the server's own user"

_OVERRIDE: Final = 0b010  # CAP_DAC_OVERRIDE
_BYPASS: Final = _OVERRIDE | 0b100  # CAP_DAC_READ_SEARCH
_ACCESS: Final = "system.posix_acl_access"
_OWNER, _USER, _GROUP, _NAMED_GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32
_MOST: Final = 65_536  # bytes of a file in /proc

Ranges = tuple[tuple[int, int], ...]
"""First numbers and counts."""


class Refused(OddFileError):
    """The server's own user may not read it: for the server it is not there."""


class Rights(NamedTuple):
    """
    User and groups of a process, as this host counts them.

    `users` and `groups_over`: numbers of the owners whose files it may read whatever their mode;
    `overrides`: it may write them as well.
    """

    user: int
    groups: frozenset[int]
    users: Ranges = ()
    groups_over: Ranges = ()
    overrides: bool = False

    def demand(self, place: Path | int, want: int) -> None:
        """Pass what the user may do so; `place` is a path, or a descriptor. Raises OSError."""
        known = os.stat(place)  # noqa: PTH116  (a descriptor, too)
        if want == READ and not stat.S_ISREG(known.st_mode) and not stat.S_ISDIR(known.st_mode):
            return  # it is not opened
        if not self._may(place, known, want):
            raise Refused(REFUSED)

    def _may(self, place: Path | int, known: os.stat_result, want: int) -> bool:
        mapped = _within(known.st_uid, self.users) and _within(known.st_gid, self.groups_over)
        if mapped and (self.overrides or not want & WRITE):
            return True
        entries = _access_list(place)
        if entries:
            return self._may_by(entries, known, want)
        mode = known.st_mode
        if known.st_uid == self.user:
            mode >>= 6
        elif known.st_gid in self.groups:
            mode >>= 3
        return mode & want == want

    def _may_by(
        self, entries: Sequence[tuple[int, int, int]], known: os.stat_result, want: int
    ) -> bool:
        """Judge as the kernel does: the owner, a user by name, groups, and then all others."""
        mask = next((allowed for tag, allowed, _ in entries if tag == _MASK), 7)
        for tag, allowed, who in entries:
            if tag == _OWNER and known.st_uid == self.user:
                return allowed & want == want
            if tag == _USER and who == self.user:
                return allowed & mask & want == want
        found = [
            allowed & mask & want == want
            for tag, allowed, who in entries
            if (tag == _GROUP and known.st_gid in self.groups)
            or (tag == _NAMED_GROUP and who in self.groups)
        ]
        if found:
            return any(found)
        return any(allowed & want == want for tag, allowed, _ in entries if tag == _OTHER)


def rights_of(proc: Path, pid: int) -> Rights | None:
    """Return what a process may read; None where that is not told, as of one that has ended."""
    place = proc / str(pid)
    try:
        status = _text(place / "status")
        user, acting = map(int, re.findall(r"(?m)^Uid:\s+(\d+)\s+(\d+)", status)[0])
        groups = [int(n) for n in re.findall(r"(?m)^Gid:\s+(\d+)", status)[:1]]
        groups += [int(n) for n in "".join(re.findall(r"(?m)^Groups:(.*)$", status)).split()]
        able = int(re.findall(r"(?m)^CapEff:\s+([0-9a-f]+)", status)[0], 16)
        if user != acting or not able & _BYPASS:
            return Rights(user, frozenset(groups))
        users, over = (tuple(_ranges(place / name)) for name in ("uid_map", "gid_map"))
    except (OSError, ValueError, IndexError):
        return None
    return Rights(user, frozenset(groups), users, over, bool(able & _OVERRIDE))


def _ranges(place: Path) -> Iterator[tuple[int, int]]:
    for line in _text(place).splitlines():
        _, outside, count = map(int, line.split())
        yield outside, count


def _within(number: int, ranges: Ranges) -> bool:
    return any(first <= number < first + count for first, count in ranges)


def _access_list(place: Path | int) -> list[tuple[int, int, int]]:
    """Return tag, bits and number of each entry; nothing where the mode tells all."""
    try:
        data = os.getxattr(place, _ACCESS)
    except OSError:
        return []
    if len(data) < 4 or (len(data) - 4) % 8:
        return []
    return list(struct.iter_unpack("<HHI", data[4:]))


def _text(place: Path) -> str:
    with place.open("rb") as file:
        return file.read(_MOST).decode("ascii", "replace")
