"""The words for what changed near an onset, and for what is known not to have changed."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple

from watchdog.domain import wording as w
from watchdog.domain.causes import cause
from watchdog.domain.changes import DEPTH, GAP, LINK, RESTART, Changes, Event

WORDS: Final[Mapping[str, str]] = {
    RESTART: "restart",
    "launch": "other launch settings",
    "version": "other version",
    "model": "other model",
    DEPTH: "other drafter depth",
    LINK: "GPU link that began or ceased to be bad",
}
"""Each kind of change as it stands behind a "no"."""

NOUNS: Final[Mapping[str, str]] = {
    RESTART: "restarts",
    "launch": "launch settings in full",
    "version": "version",
    "model": "model",
    DEPTH: "drafter depth",
    LINK: "GPU links",
}
"""The same kinds as what is read."""

AT_A_RESTART: Final = frozenset({"launch"})
"""Kinds that change with a restart alone: without one it says nothing that they are not read."""

NEAR: Final = 300.0
"""Seconds around an onset that still count: what is read seldom, or judged after two rounds."""

MOST_TOLD: Final = 8
"""Changes that one finding names: the latest."""

SHARP: Final = 600.0
"""Seconds between the last old and the first new reading up to which one time is told."""

MOVED: Final = 0.2
"""Share of its former figure by which traffic must have moved before it is suspected."""

BEFORE_AND_NOW: Final = "traffic, last 24 h against the days before"

TRAFFIC: Final[Mapping[str, tuple[str, str, float]]] = {
    "prompt_tokens": ("prompts", " tokens", 10.0),
    "output_tokens": ("outputs", " tokens", 10.0),
    "running": ("running", " requests", 0.5),
    "prefix_hit_ratio": ("prefix-cache hits", "", 0.05),
}
"""Each figure of traffic: its word, its unit, and the smallest move that means anything."""


def traffic_line(traffic: Mapping[str, Sequence[float]], of: str = BEFORE_AND_NOW) -> str:
    """
    Compare traffic before and now in one line; "" where nothing is known of it.

    `of` says what the pairs are, where they are something else than before and now. `traffic`
    holds pairs of (before, now): `prompt_tokens` and `output_tokens` in tokens a request,
    `running` in requests, `prefix_hit_ratio` 0 to 1. Any may be absent.
    """
    told = [_figure(name, *pair) for name, pair in _pairs(traffic)]
    return f"{of}: {', '.join(told)}" if told else ""


def traffic_moved(traffic: Mapping[str, Sequence[float]]) -> bool:
    """Whether any figure moved by a fifth or more, and by enough to mean anything."""
    return any(
        abs(now - before) >= max(MOVED * abs(before), TRAFFIC[name][2])
        for name, (before, now) in _pairs(traffic)
    )


def _pairs(traffic: Mapping[str, Sequence[float]]) -> list[tuple[str, tuple[float, float]]]:
    """Return the figures that are known both before and now, in the order of their words."""
    known = [(name, tuple(traffic.get(name) or ())) for name in TRAFFIC]
    return [
        (name, (pair[0], pair[1]))
        for name, pair in known
        if len(pair) == 2 and all(map(math.isfinite, pair))
    ]


def _figure(name: str, before: float, now: float) -> str:
    word, unit, _ = TRAFFIC[name]
    if name == "prefix_hit_ratio":
        return f"{word} {w.percent(before)} -> {w.percent(now)}"
    if name == "running":
        return f"{word} {before:.1f} -> {now:.1f}{unit}"
    return f"{word} {w.count(before)} -> {w.count(now)}{unit}"


class Told(NamedTuple):
    """What is known of changes near one onset: lines for an argument, the likeliest first."""

    suspects: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    changed: tuple[Event, ...] = ()
    unseen: tuple[str, ...] = ()  # suspected last: a change before the watch began


def told(changes: Changes, onset: Sequence[float], engine: str, now: float) -> Told:
    """
    Say what changed near an onset of one engine, and what is known not to have changed.

    `onset` holds the earliest and the latest time of it, `now` is the same clock's.
    """
    earliest, latest = onset
    events = [event for event in changes.events if event.engine in ("", engine)]
    near = [event for event in events if _overlaps(event, earliest, latest)]
    changed = tuple(event for event in near if event.kind != GAP)[-MOST_TOLD:]
    when = _between(now - latest, now - earliest)
    watched = _watched(changes, earliest, latest)
    same = [kind for kind in WORDS if kind in watched and kind not in {e.kind for e in changed}]
    implied = AT_A_RESTART if RESTART in same else frozenset[str]()
    if not same and not changed:
        line = f"a change that was not seen: it began {when}, and this {_begun(changes, now)}"
        unseen = cause(
            "; ".join((line, *_gaps(near, now))),
            "a start, a deployment or an update of the host at that time",
            "the host's own logs of that time",
        )
        return Told(unseen=(unseen,))
    limits = [*_unread(changes, watched.keys() | implied, now), *_gaps(near, now)]
    suspects: tuple[str, ...] = ()
    if changed:
        named = "; ".join(f"{event.text} {_ago(event, now)}" for event in changed)
        suspects = (
            cause(
                f"changed near its onset ({when}): {named}",
                "that it is gone once that is undone",
                "undoing one of these, and nothing else",
            ),
        )
    else:
        limits += _before(events, earliest, now)
    if not same:
        return Told(suspects, (), changed)
    line = f"nothing {'else ' if changed else ''}known changed {when}: "
    line += ", ".join(f"no {WORDS[kind]}" for kind in same)
    line += f" (watched since {w.span(now - max(watched[kind] for kind in same))} ago)"
    return Told(suspects, ("; ".join((line, *limits)),), changed)


def _overlaps(event: Event, earliest: float, latest: float) -> bool:
    return event.at >= earliest - NEAR and event.after <= latest + NEAR


def _ago(event: Event, now: float) -> str:
    """Tell when it was: between two readings far apart, or about then."""
    at = w.span(max(0.0, now - event.at))
    if event.at - event.after <= SHARP:
        return f"{at} ago"
    return _between(now - event.at, now - event.after)


def _between(least: float, most: float) -> str:
    """Put two ages into words, in seconds; one where they read the same."""
    a, b = w.span(max(0.0, least)), w.span(max(0.0, most))
    return f"about {a} ago" if a == b else f"between {a} and {b} ago"


def _watched(changes: Changes, earliest: float, latest: float) -> dict[str, float]:
    """Return the kinds that were read over the whole of it, and since when."""
    lost = dict(changes.lost)
    return {
        kind: since
        for kind, since in changes.since
        if since < earliest and lost.get(kind, latest) >= latest
    }


def _unread(changes: Changes, known: Container[str], now: float) -> list[str]:
    """Say of which kinds nothing is known over the whole of it, and why."""
    since, lost = dict(changes.since), dict(changes.lost)
    why: dict[str, list[str]] = {}
    for kind in (kind for kind in WORDS if kind not in known):
        if kind not in since:
            reason = "never read"
        elif kind in lost:
            reason = f"not read since {w.span(now - lost[kind])} ago"
        else:
            reason = f"known only since {w.span(now - since[kind])} ago"
        why.setdefault(reason, []).append(NOUNS[kind])
    return [f"{reason}: {', '.join(kinds)}" for reason, kinds in why.items()]


def _begun(changes: Changes, now: float) -> str:
    """Say since when anything is watched."""
    since = [at for _, at in changes.since]
    return f"was watched only since {w.span(now - min(since))} ago" if since else "is not watched"


def _gaps(near: Sequence[Event], now: float) -> list[str]:
    gaps = (event for event in near if event.kind == GAP)
    return [f"nothing was read {_between(now - gap.at, now - gap.after)}" for gap in gaps]


def _before(events: Sequence[Event], earliest: float, now: float) -> list[str]:
    """Name the last change before the onset."""
    old = [e for e in events if e.kind != GAP and e.at < earliest]
    return [f"the last change before it: {old[-1].text} {_ago(old[-1], now)}"] if old else []
