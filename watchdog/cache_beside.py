"""
What was set aside of a cache directory, by the names beside it: that, and when, and no more.

`cache set-aside` writes UTC with a Z. A name without it was given by hand or by another script;
its time is taken for UTC, too, since nothing in it says otherwise.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final, NamedTuple

from watchdog.regular_files import shown, why

MOST_NAMES: Final = 65_536
"""Entries of the directory above that are looked at."""

MOST: Final = 16
"""Copies that are told, the newest first."""

BETWEEN: Final = 1024
"""Entries between two looks at the clock."""

_COPY: Final = re.compile(r"(?P<name>.+)\.stale-(?P<time>\d{8}T\d{6})Z?", re.DOTALL)


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
    names: list[str] = []
    cut = ""
    try:
        with os.scandir(directory.parent) as entries:
            for n, entry in enumerate(entries):
                if n >= MOST_NAMES:
                    cut = f"the directory above has more than {MOST_NAMES} entries"
                    break
                if n % BETWEEN == BETWEEN - 1 and time.monotonic() > deadline:
                    cut = "the time to look at the directory above was over"
                    break
                if ".stale-" in entry.name and entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
    except FileNotFoundError:
        pass  # then nothing is beside it
    except OSError as error:
        cut = f"the directory above {why(error)}"
    return newest(names, directory.name), cut


def newest(names: Iterable[str], of: str) -> list[Aside]:
    """Return those of these names that are copies of a directory of this name."""
    found = [one for name in names if (one := _aside(name, of)) is not None]
    return sorted(found, key=lambda one: (-one.at, one.name))[:MOST]


def _aside(name: str, of: str) -> Aside | None:
    match = _COPY.fullmatch(name)
    if match is None or match["name"] != of:
        return None
    with suppress(ValueError):  # the 99th of a month
        at = datetime.strptime(match["time"], "%Y%m%dT%H%M%S").replace(tzinfo=timezone.utc)
        return Aside(name, at.timestamp())
    return None
