"""
What is known of each target's compile cache, as rows of plain data: ledger, starts, verdicts.

Pure: what the daemon does between two rounds. The check that judges keeps it all (`outline`); here
times become RFC 3339, and what the newest look at the files says of itself is laid beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

from watchdog.domain import series as s
from watchdog.domain.assess import Assessor, Watch
from watchdog.domain.profile import Profile
from watchdog.domain.report import rfc3339
from watchdog.domain.sample import HOST, NO_FACTS, Facts, labels

CHECK: Final = "compile_cache"
"""The name of the check that judges, by which a watch keeps what it learned."""

NOT_YET: Final = "no round has looked at its compile cache yet"
ELSEWHERE: Final = "it runs on another host: the watchdog of that host sees its files"
UNWATCHED: Final = "no check looks at its compile cache"

MOST_PLACES: Final = 8
MOST_FACTORS: Final = 512
MOST_ROWS: Final = 64
"""Bounds of one target's lists: the check's own are no longer, and this is what holds them."""

Row = dict[str, Any]
Stamps = Mapping[tuple[str, str], str]
"""What became of the stamp in a place, in words, by target and path."""


class Judge(Protocol):
    """The check, as far as its outline goes."""

    def outline(self, state: Any, facts: Facts, profile: Profile) -> dict[str, Any]:
        """Return what is known of one target, as plain data; times in Unix seconds."""


def rows(assessor: Assessor, stamps: Stamps | None = None) -> list[Row]:
    """Return what is known of every target, unknown ones with the reason."""
    watches = assessor.watches.items()
    return [_row(target, watch, stamps or {}) for target, watch in watches if target != HOST]


def _row(target: str, watch: Watch, stamps: Stamps) -> Row:
    facts = watch.newest.facts if watch.newest is not None else NO_FACTS
    state = watch.states.get(labels(target=target), {}).get(CHECK)
    if not watch.here:
        return {**_nothing(target, ELSEWHERE), "here": False}
    if CHECK not in watch.checks:
        return _nothing(target, UNWATCHED)
    if state is None:
        return _nothing(target, NOT_YET)
    judge = cast(Judge, watch.checks[CHECK])
    found = _told(judge.outline(state, facts, watch.history.profile))
    places = _by_path(facts)
    for place in found["places"]:
        seen = places.get(place["path"], {})
        place.setdefault("here", str(seen.get("here") or ""))
        place.setdefault("missing", seen.get("missing") is True)
        place.setdefault("cut", str(seen.get("cut") or ""))
        place.setdefault("unread", [list(row) for row in _bounded(seen.get("unread"))])
        told = "" if place["missing"] else stamps.get((target, place["path"]))
        place["stamp"] = told or place.get("stamp") or ""
    about = {
        "target": target,
        "here": True,
        "container": _in_container(facts),
        "note": _note(facts),
    }
    return {**about, **_page(watch), **found}


def _page(watch: Watch) -> Row:
    """Say whether the server answers now, and since when its process runs, by its own word."""
    window = watch.newest
    if window is None or not any(reading.samples for reading in window.readings):
        return {"answers": False, "running_since": None}
    return {"answers": True, "running_since": wall(window.levels.get(s.PROCESS_START))}


def _nothing(target: str, why: str) -> Row:
    return {
        "target": target, "here": True, "container": False, "note": "", "answers": False,
        "running_since": None, "now": None, "places": [], "starts": [],
        "floors": {"cold": None, "warm": None, "by": ""}, "asked": None, "unknown": why,
    }  # fmt: skip


def _told(outline: Mapping[str, Any]) -> Row:
    """Bound an outline, and write its times; they are the wall clock's already."""
    now = outline.get("now")
    if now is not None:
        now = {
            **now,
            "factors": _bounded(now.get("factors"), MOST_FACTORS),
            "unread": _bounded(now.get("unread")),
        }
    return {
        **outline,
        "now": now,
        "places": [_place(one) for one in _bounded(outline.get("places"), MOST_PLACES)],
        "starts": [_timed(one, "start") for one in _bounded(outline.get("starts"))],
        "asked": wall(outline.get("asked")),
        "unknown": outline.get("unknown") or "",
    }


def _place(place: Mapping[str, Any]) -> Row:
    return {
        **_timed(place, "oldest", "newest"),
        "fills": [_timed(one, "first", "last") for one in _bounded(place.get("fills"))],
        "made": [_timed(one, "oldest", "newest") for one in _bounded(place.get("made"))],
        "aside": [_timed(one, "at") for one in _bounded(place.get("aside"))],
    }


def _timed(one: Mapping[str, Any], *keys: str) -> Row:
    return {**one, **{key: wall(one.get(key)) for key in keys}}


def wall(at: Any) -> str | None:
    """Return a time as RFC 3339; None where it is none, as the time of a file may be."""
    if isinstance(at, bool) or not isinstance(at, (int, float)):
        return None
    try:
        return rfc3339(at)
    except (OverflowError, ValueError, OSError):
        return None


def _bounded(items: Any, most: int = MOST_ROWS) -> list[Any]:
    return list(items)[:most] if isinstance(items, (list, tuple)) else []


def _by_path(facts: Facts) -> dict[str, Mapping[str, Any]]:
    """Return the places of the newest look at the files."""
    cache = facts.get("cache")
    places = cache.get("places") if isinstance(cache, Mapping) else None
    return {str(one.get("path")): one for one in _bounded(places) if isinstance(one, Mapping)}


def _note(facts: Facts) -> str:
    """Return what speaks against the configuration."""
    cache = facts.get("cache")
    return str(cache.get("note") or "") if isinstance(cache, Mapping) else ""


def _in_container(facts: Facts) -> bool:
    """Whether the server sees its paths in a container, where they are not those of the host."""
    launch = facts.get("launch")
    return bool(launch.get("container")) if isinstance(launch, Mapping) else False
