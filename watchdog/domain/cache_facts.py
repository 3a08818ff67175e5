"""
The fact `cache` in the shape that its judges rely on.

It may be a recording's, which anybody may have written. What has another shape is not taken for
anything, and a place of which a row was left out counts as not seen whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from watchdog.domain.sample import number
from watchdog.domain.texts import one_line

MOST_PLACES: Final = 8
MOST_ENTRIES: Final = 64
MOST_ROWS: Final = 16
"""Copies, stamps and what could not be read, of one place."""

MOST_TEXT: Final = 4096
MOST_VERSIONS: Final = 6
MOST_NOTED: Final = 300
ODD: Final = "what was told of it has an odd shape"

_HASHES: Final = (("config", "config_hash"), ("compiler", "compiler_hash"), ("variables", "env"))
"""vLLM's own digests in `cache_key_factors.json`; that of the variables is ours."""

Row = dict[str, Any]


def places_of(cache: Any) -> list[Row]:
    """Return the places of a survey; what is no place is left out."""
    rows = cache.get("places") if isinstance(cache, Mapping) else None
    listed = rows[:MOST_PLACES] if isinstance(rows, (list, tuple)) else ()
    return [_place(row) for row in listed if isinstance(row, Mapping) and _text(row.get("path"))]


def _place(told: Mapping[str, Any]) -> Row:
    entries, odd = _rows(told.get("entries"), MOST_ENTRIES)
    unread, odd_too = _unread(told.get("unread"))
    aside, _ = _rows(told.get("aside"), MOST_ROWS)
    stamp = told.get("stamp")
    newest = stamp[-MOST_ROWS:] if isinstance(stamp, (list, tuple)) else stamp
    rows, _ = _rows(newest, MOST_ROWS)
    known = told.get("cut")
    cut = _text(known) or (ODD if known or odd or odd_too else "")
    return {
        **{key: _text(told.get(key)) for key in ("kind", "path", "by", "here", "stamp_fault")},
        **{key: number(told.get(key)) for key in ("oldest", "newest")},
        **{key: _count(told.get(key)) for key in ("files", "bytes", "more")},
        "id": _text(told.get("id")) or None,
        "missing": bool(told.get("missing")),
        "entries": [_entry(row) for row in entries],
        "unread": unread,
        "stamp": None if stamp is None else rows,
        "aside": [one for row in aside if (one := _aside(row))] if "aside" in told else None,
        "cut": cut,
    }


def _entry(told: Mapping[str, Any]) -> Row:
    parts = told.get("parts")
    return {
        **{key: _text(told.get(key)) for key in ("kind", "path")},
        **{key: number(told.get(key)) for key in ("oldest", "newest")},
        "keyed": bool(told.get("keyed", True)),
        "parts": [_text(x) for x in parts] if isinstance(parts, (list, tuple)) else [],
        "files": _count(told.get("files", 1)),
        "noted": _noted(told.get("factors")),
    }


def _noted(told: Any) -> str:
    """Return what vLLM noted that it compiled for, in words: its own digests, and versions."""
    if not isinstance(told, Mapping):
        return ""
    hashes = [(word, _text(told.get(key))[:10]) for word, key in _HASHES]
    versions = told.get("versions")
    listed = versions.items() if isinstance(versions, Mapping) else ()
    of = sorted((_text(name)[:20], _text(value)[:40]) for name, value in listed)
    words = [f"{name} {value}" for name, value in (*hashes, *of[:MOST_VERSIONS]) if value]
    mixed = ["not all of one configuration"] if told.get("mixed") is True else []
    return one_line(", ".join([*words, *mixed]), MOST_NOTED)


def _unread(told: Any) -> tuple[list[list[str]], bool]:
    """Return pairs of a path and a reason, and whether anything else was there."""
    listed = told[:MOST_ROWS] if isinstance(told, (list, tuple)) else ()
    rows = [
        [_text(row[0]), _text(row[1])] for row in listed
        if isinstance(row, (list, tuple)) and len(row) > 1 and _text(row[0])
    ]  # fmt: skip
    return rows, len(rows) < len(listed) or bool(told and not listed)


def _aside(told: Mapping[str, Any]) -> Row | None:
    name, at = _text(told.get("name")), number(told.get("at"))
    return {"name": name, "at": at} if name and at is not None else None


def _rows(told: Any, most: int) -> tuple[list[Mapping[str, Any]], bool]:
    """Return the objects of a list, and whether anything else was there."""
    listed = told[:most] if isinstance(told, (list, tuple)) else ()
    rows = [row for row in listed if isinstance(row, Mapping)]
    whole = isinstance(told, (list, tuple)) and len(rows) == len(told)
    return rows, bool(told) and not whole


def _text(value: Any) -> str:
    return value[:MOST_TEXT] if isinstance(value, str) else ""


def _count(value: Any) -> int:
    known = number(value)
    return int(known) if known is not None and known > 0 else 0
