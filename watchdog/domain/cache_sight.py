"""
What the facts tell about the places where a launch keeps its compiled graphs; and what to do there.

The facts may be a recording's, so whatever has another shape is not taken for anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from watchdog.domain import wording as w
from watchdog.domain.suspect import number
from watchdog.domain.texts import one_line

CACHE: Final = "cache"
"""The fact."""

MOST_PATH: Final = 4096
SHOWN: Final = 200

_SAFE: Final = re.compile(r"[\w./@%+=:,-]+", re.ASCII)
_FIRST: Final = ("chosen", "vllm")
"""Kinds of places, those that hold vLLM's own graphs."""


class Place(NamedTuple):
    """
    One directory, as the server sees its path, and `here`, the same on this host, where known.

    `by` says who chose it.
    `newest` is the Unix time of the newest compiled file, `start` that of the process; seconds.
    """

    kind: str
    path: str
    by: str
    files: int = 0
    newest: float | None = None
    start: float | None = None
    here: str = ""

    @property
    def age(self) -> float | None:
        """By how many seconds its newest compiled file is older than the start; None if newer."""
        if self.newest is None or self.start is None or self.newest >= self.start:
            return None
        return self.start - self.newest

    @property
    def words(self) -> str:
        """Say how old it is beside the start."""
        path = one_line(self.path, SHOWN)
        if self.age is None:
            return path
        files = "file" if self.files == 1 else "files"
        return (
            f"{path}, whose newest of {w.count(self.files)} {files} was compiled "
            f"{w.span(self.age)} before this start"
        )


def places_in(facts: Mapping[str, Any]) -> list[Place]:
    """Return the places that are there, vLLM's own first."""
    told = facts.get(CACHE)
    rows = told.get("places") if isinstance(told, Mapping) else None
    start = number(told.get("start")) if isinstance(told, Mapping) else None
    found = [_place(row, start) for row in rows] if isinstance(rows, list) else []
    known = [place for place in found if place is not None]
    return sorted(known, key=lambda place: place.kind not in _FIRST)


def set_aside(facts: Mapping[str, Any], target: str) -> str:
    """Name the commands that set the place aside and prove it; "" where none is known."""
    places = [place for place in places_in(facts) if place.kind in _FIRST]
    if not places:
        return ""
    place = places[0]
    if place.by == "configuration":
        what = f"run `watchdog cache set-aside {quoted(target)}`"
    else:
        what = f"run `watchdog cache set-aside --directory {quoted(place.here or place.path)}`"
        if _in_container(facts) and not place.here:
            what += " with the host's path of that folder (this one is the container's)"
    return (
        f"stop the server, {what}, start the same launch, then run "
        f"`watchdog cache confirm {quoted(target)}` and `watchdog check`"
    )


def quoted(text: str) -> str:
    """Make a word of a command for a shell."""
    line = "".join(c if c.isprintable() else "?" for c in text)
    return line if _SAFE.fullmatch(line) else "'" + line.replace("'", "'\\''") + "'"


def _in_container(facts: Mapping[str, Any]) -> bool:
    launch = facts.get("launch")
    return isinstance(launch, Mapping) and bool(launch.get("root"))


def _place(row: Any, start: float | None) -> Place | None:
    if not isinstance(row, Mapping) or row.get("missing"):
        return None
    kind, path, by = (row.get(key) for key in ("kind", "path", "by"))
    if not (isinstance(kind, str) and isinstance(path, str) and path.startswith("/")):
        return None
    if len(path) > MOST_PATH:
        return None
    files = number(row.get("files")) or 0.0
    here = row.get("here")
    known = here if isinstance(here, str) and here.startswith("/") else ""
    return Place(kind, path, str(by), int(files), number(row.get("newest")), start, known)
