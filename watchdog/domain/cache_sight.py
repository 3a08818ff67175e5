"""
What the facts tell about the places where a launch keeps its compiled graphs; and what to do there.

The facts may be a recording's, so whatever has another shape is not taken for anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from watchdog.domain import cache_commands as commands
from watchdog.domain import wording as w
from watchdog.domain.cache_facts import MOST_TEXT, places_of
from watchdog.domain.sample import number
from watchdog.domain.texts import one_line

CACHE: Final = "cache"
"""The fact."""

SHOWN: Final = 200

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
    start = number(told.get("start")) if isinstance(told, Mapping) else None
    known = [_place(row, start) for row in places_of(told) if _is_there(row)]
    return sorted(known, key=lambda place: place.kind not in _FIRST)


def set_aside(facts: Mapping[str, Any], target: str) -> str:
    """Name the commands that set the place aside and prove it; "" where none is known."""
    places = [place for place in places_in(facts) if place.kind in _FIRST]
    if not places:
        return ""
    place = places[0]
    if place.by == "configuration":
        what = f"run `{commands.set_aside_of(target)}`"
    else:
        what = f"run `{commands.set_aside(place.here or place.path)}`"
        if _in_container(facts) and not place.here:
            what += " with the host's path of that folder (this one is the container's)"
    return (
        f"stop the server, {what}, start the same launch, then run "
        f"`{commands.confirm(target)}` and `watchdog check`"
    )


def _in_container(facts: Mapping[str, Any]) -> bool:
    launch = facts.get("launch")
    return isinstance(launch, Mapping) and bool(launch.get("root"))


def _is_there(row: Mapping[str, Any]) -> bool:
    """Whether it is a directory that is there; a path that may be cut names none."""
    whole = row["path"].startswith("/") and len(row["path"]) < MOST_TEXT
    return bool(whole and row["kind"]) and not row["missing"]


def _place(row: Mapping[str, Any], start: float | None) -> Place:
    here = row["here"] if row["here"].startswith("/") else ""
    return Place(row["kind"], row["path"], row["by"], row["files"], row["newest"], start, here)
