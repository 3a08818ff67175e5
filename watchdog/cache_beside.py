"""
What was set aside of a cache directory, by the names beside it: that, and when, and no more.

`cache set-aside` writes UTC with a Z. A name without it was given by hand or by another script;
its time is taken for UTC, too, since nothing in it says otherwise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from watchdog.cache_layouts import set_aside_at
from watchdog.regular_files import shown, why

MOST_NAMES: Final = 65_536
"""Entries of the directory above that are looked at."""

MOST: Final = 16
"""Copies that are told, the newest first."""

BETWEEN: Final = 1024
"""Entries between two looks at the clock."""


class Aside(NamedTuple):
    """A copy: its name, and when it was set aside, in Unix seconds."""

    name: str
    at: float

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"name": shown(self.name, 255), "at": self.at}


def beside(directory: Path, deadline: float) -> tuple[list[Aside], str]:
    """
    Return what was set aside of a directory, and why some may be missing, empty where none is.

    The directory itself may be gone. `deadline`: of `time.monotonic()`. Raises nothing.
    """
    try:
        names, cut = named_beside(directory, deadline, MOST_NAMES)
    except FileNotFoundError:
        return [], ""  # then nothing is beside it
    except OSError as error:
        names, cut = [], why(error)
    return newest(names, directory.name), f"the directory above {cut}" if cut else ""


def named_beside(directory: Path, deadline: float, most: int) -> tuple[list[str], str]:
    """
    Return names of directories beside one that may be its copies, and why some may be missing.

    `most`: entries that are looked at. Raises OSError.
    """
    names: list[str] = []
    with os.scandir(directory.parent) as entries:
        for n, entry in enumerate(entries):
            if n >= most:
                return names, f"has more than {most} entries"
            if n % BETWEEN == BETWEEN - 1 and time.monotonic() > deadline:
                return names, "was not looked through in time"
            if ".stale-" in entry.name and entry.is_dir(follow_symlinks=False):
                names.append(entry.name)
    return names, ""


def newest(names: Iterable[str], of: str) -> list[Aside]:
    """Return those of these names that are copies of a directory of this name."""
    found = [one for name in names if (one := _aside(name, of)) is not None]
    return sorted(found, key=lambda one: (-one.at, one.name))[:MOST]


def _aside(name: str, of: str) -> Aside | None:
    at = set_aside_at(name if name.endswith("Z") else f"{name}Z", of)
    return None if at is None else Aside(name, at.timestamp())
