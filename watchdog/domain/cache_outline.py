"""All that is known of a target's cache as plain data, for commands; times in Unix seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from watchdog.domain import cache_words as words
from watchdog.domain import coldness as c
from watchdog.domain.cache_facts import places_of
from watchdog.domain.cache_state import State
from watchdog.domain.ledger import UNKNOWN, Fill, Place, compared, inode_of, is_chosen
from watchdog.domain.profile import NOTHING_DECLARED, Profile
from watchdog.domain.sample import Facts
from watchdog.domain.starts import Start, floors

Row = dict[str, Any]

MOST_MADE: Final = 6
"""Key directories of one place, and parts of one, that are told."""

NEVER_UP: Final = "it does not answer, and no start of it is known"
"""Why nothing is known of a server that nobody saw running: no process of it is to be read."""


def outline(state: State, facts: Facts, profile: Profile = NOTHING_DECLARED) -> Row:
    """Return it: `now`, `places`, `starts`, `floors`, `asked`, `unknown`."""
    cache = facts.get("cache")
    told = cache if isinstance(cache, Mapping) else {}
    start = state.now
    digest = start.digest if start else ""
    known = floors(state.starts, profile, state.prints, digest)
    return {
        "now": _now(state, digest),
        "places": _places(state, told),
        "starts": [_start(state, i) for i in range(len(state.starts))],
        "floors": {"cold": known.cold, "warm": known.warm, "by": known.by},
        "asked": state.asked,
        "unknown": state.blind or str(told.get("unknown") or "") or _not_yet(state),
    }


def _not_yet(state: State) -> str:
    if state.judged:
        return ""
    if not state.starts:
        return "no start of it is known" if state.silent_at is None else NEVER_UP
    return "it was not looked at since the start of its process"


def _now(state: State, digest: str) -> Row | None:
    launch = state.prints.get(digest) if digest else None
    if launch is None:
        return None
    return {
        "digest": digest,
        "partial": launch.partial,
        "factors": [{"name": x.name, "shown": x.shown} for x in launch.factors],
        "unread": [{"part": part, "reason": reason} for part, reason in launch.unread],
    }


def _places(state: State, told: Mapping[str, Any]) -> list[Row]:
    """Return the places of the newest survey, else those that were judged last."""
    facts: list[Row] = places_of(told)
    if facts:
        return [{**_place(state, fact), **_seen(fact), "looked": True} for fact in facts]
    last = [
        {"path": one.path, "kind": one.kind, "id": one.identity, "here": one.here}
        for one in state.judged
    ]
    return [{**_place(state, fact), "looked": False} for fact in last]


def _seen(fact: Mapping[str, Any]) -> Row:
    """Return what only a look at the files tells: without one, none is not the same as no files."""
    return {
        "by": str(fact.get("by") or ""),
        "files": fact.get("files") or 0,
        "bytes": fact.get("bytes") or 0,
        "oldest": fact.get("oldest"),
        "newest": fact.get("newest"),
        "made": _made(fact),
        "aside": [dict(row) for row in fact.get("aside") or ()],
        "stamp": _stamp(fact),
    }


def _place(state: State, fact: Mapping[str, Any]) -> Row:
    path = str(fact.get("path"))
    answer = next((one for one in state.judged if one.path == path), None)
    place = _kept(state, path, inode_of(fact.get("id")))
    fills = place.fills if place else ()
    return {
        "path": path,
        "kind": str(fact.get("kind") or ""),
        "here": str(fact.get("here") or ""),
        "verdict": answer.says if answer else UNKNOWN,
        "words": words.said(state, answer) if answer else state.blind,
        "why": answer.why if answer else "",
        "chosen": is_chosen(fact) or bool(answer and answer.chosen),
        "fills": [_fill(state, fill, place) for fill in fills],
    }


def _made(fact: Mapping[str, Any]) -> list[Row]:
    """Return what vLLM's own traces tell of each key directory: when, and for which config."""
    rows = [e for e in fact.get("entries") or () if e.get("kind") in c.GRAPHS]
    return [
        {
            "path": str(entry.get("path")), "oldest": entry.get("oldest"),
            "newest": entry.get("newest"), "parts": _parts(entry), "config": entry["noted"],
        }
        for entry in rows[:MOST_MADE]
    ]  # fmt: skip


def _parts(entry: Mapping[str, Any]) -> list[str]:
    """Return the graphs of a directory once, of however many ranks."""
    names = [str(part).rpartition("/")[2] for part in entry.get("parts") or ()]
    return list(dict.fromkeys(names))[:MOST_MADE]


def _kept(state: State, path: str, inode: str) -> Place | None:
    of_path = [p for p in state.places if p.path == path and p.inode == inode]
    return of_path[-1] if of_path else None


def _fill(state: State, fill: Fill, place: Place | None) -> Row:
    now = state.now
    changed = ""
    if now and fill.digest and fill.digest != now.digest:
        difference = compared(state.prints, fill, now.digest, place.kind if place else "")
        changed = difference.words() if difference else "its factors are no longer kept"
        if difference and difference.same:
            changed = words.NOTHING_HERE
    return {
        "digest": fill.digest, "first": fill.first, "last": fill.last,
        "compiled": fill.compiled, "origin": fill.origin, "changed": changed,
    }  # fmt: skip


def _stamp(fact: Mapping[str, Any]) -> str:
    if fact.get("stamp_fault"):
        return str(fact["stamp_fault"])
    rows = fact.get("stamp")
    if rows is None:
        return "no stamp"
    return f"names {len(rows)} launch{'' if len(rows) == 1 else 'es'}"


def _start(state: State, which: int) -> Row:
    one = state.starts[which]
    return {
        "start": one.start,
        "up_seconds": one.up_seconds,
        "verdict": one.verdict,
        "signs": [sign._asdict() for sign in one.signs],
        "after_aside": one.after_aside or None,
        "digest": one.digest,
        "changed": _changed(state, state.starts[which - 1] if which else None, one),
    }


def _changed(state: State, before: Start | None, one: Start) -> str:
    """Say what changed against the start before, as far as both are known."""
    if before is None or not before.digest or not one.digest:
        return ""
    if before.digest == one.digest:
        return "nothing changed"
    as_fill = Fill(before.digest, before.start, before.start, before.seen_at)
    difference = compared(state.prints, as_fill, one.digest)
    if difference is None:
        return "the factors of the start before are no longer kept"
    return (replace(difference, unknown=()) if difference.changed else difference).words()
