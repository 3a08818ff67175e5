"""
Which launch filled which cache directory, and when: what is kept, and how two are compared.

A directory is known by its path and its inode: one that was set aside takes its launches with it,
and the new one at the same path has none. The launch that came first is the first row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from watchdog.domain import coldness as c
from watchdog.domain.fingerprint import (
    NOT_OF_A_COMMAND,
    Comparison,
    Fingerprint,
    as_blind,
    compare,
)
from watchdog.domain.prints import Prints

SAFE: Final = "safe"
STALE: Final = "stale"
UNKNOWN: Final = "unknown"

SEEN: Final = "seen"
STAMP: Final = "stamp"
TRACES: Final = "traces"

MOST_FILLS: Final = 8
"""Launches of one place that are kept."""

KERNEL_FACTORS: Final[Mapping[str, tuple[str, ...]]] = {
    "triton": ("image", "version *", "gpu *", "env TRITON_*", "env TORCH*"),
    "inductor": ("image", "version *", "gpu *", "env TRITON_*", "env TORCH*"),
    "aiter": ("image", "version *", "gpu *", "env AITER_*", "env HSA_OVERRIDE_*"),
}
"""What changes kernels, by the kind of place. The model and its shapes are in a kernel's own key,
and so are a server's other switches: they choose kernels, and do not change them."""

MOST_GONE: Final = 64
"""Digests of launches that a place is known to have had, and whose rows were too many."""


class Fill(NamedTuple):
    """
    One launch in one place; times in Unix seconds.

    `first` and `last`: the starts of its first and its last process there. `seen_at`: when the
    last one answered. `compiled`: whether it compiled for itself, None where not known; then
    `made` and `made_until` say when its files were written, and `shown` whether they were seen.
    `verdict`: what was found of it last. `dark`: not all of it could be read when it compiled.
    Digest "" stands for whoever made the files before us.
    """

    digest: str
    first: float
    last: float
    seen_at: float
    compiled: bool | None = None
    origin: str = SEEN
    made: float = 0.0
    made_until: float = 0.0
    shown: bool = False
    verdict: str = UNKNOWN
    dark: bool = False

    def not_made(self) -> Fill:
        """Forget that it compiled for itself: it did not, or its files are gone."""
        return self._replace(compiled=None, made=0.0, made_until=0.0, shown=False)


class Place(NamedTuple):
    """
    One directory, by its path and its inode; the launch that came first is the first.

    `gone`: digests of launches that were here and have no row any more. One that comes back may
    run on what it compiled then.
    """

    path: str
    inode: str
    kind: str = ""
    fills: tuple[Fill, ...] = ()
    gone: tuple[str, ...] = ()

    def fill(self, digest: str) -> Fill | None:
        """Return what a launch did here."""
        return next((fill for fill in self.fills if fill.digest == digest), None)

    def without(self, digest: str) -> Place:
        """Forget a launch."""
        return self._replace(fills=tuple(f for f in self.fills if f.digest != digest))

    def renamed(self, was: str, now: str) -> Place:
        """Know a launch by another digest: more of it could be read."""
        old = self.fill(was)
        if old is None or was == now:
            return self
        if self.fill(now) is not None:
            return self.without(was)
        rows = [f._replace(digest=now) if f is old else f for f in self.fills]
        return self._replace(fills=tuple(rows))

    def put(self, fill: Fill) -> Place:
        """Note a launch: in its old row, else as the last one; of too many, one goes."""
        rows = [fill if old.digest == fill.digest else old for old in self.fills]
        if fill not in rows:
            rows.append(fill)
        gone = self.gone
        while len(rows) > MOST_FILLS:
            others = [row for row in rows if row.digest != fill.digest]
            lost = min(others, key=lambda row: (row.verdict != STALE, row.last))
            rows.remove(lost)
            if lost.digest and lost.verdict != STALE and lost.digest not in gone:
                gone = (*gone, lost.digest)[-MOST_GONE:]
        if tuple(rows) == self.fills:
            return self
        return self._replace(fills=tuple(rows), gone=gone)


def inode_of(identity: Any) -> str:
    """
    Return the inode of a directory's `dev:ino`; empty where it is missing.

    The device's number may be another one after a boot, and the directory is the same.
    """
    return str(identity or "").rpartition(":")[2]


def is_chosen(fact: Mapping[str, Any]) -> bool:
    """Whether the directory bypasses vLLM's key: named by `cache_dir`, or of a name of its own."""
    rows = [e for e in fact.get("entries") or () if e.get("kind") == "inductor"]
    return fact.get("kind") == "chosen" or any(not row.get("keyed", True) for row in rows)


# --- comparing -----------------------------------------------------------------------------------


def compared(prints: Prints, was: Fill, now: str, kind: str = "") -> Comparison | None:
    """Compare an earlier launch with one, in what matters to a kind of place; None: not kept."""
    old, new = prints.get(was.digest), prints.get(now)
    if old is None or new is None:
        return None
    if was.origin == STAMP:  # a command that stamps sees no image, card or version
        old = as_blind(new, old)
    return compare(_of_kind(old, kind), _of_kind(new, kind))


def _of_kind(launch: Fingerprint, kind: str) -> Fingerprint:
    """Leave out what does not change the kernels of a shared place."""
    names = KERNEL_FACTORS.get(kind)
    if names is None:
        return launch

    def matters(name: str) -> bool:
        return any(_fits(name, pattern) for pattern in names)

    kept = tuple(x for x in launch.factors if matters(x.name))
    unread = tuple(row for row in launch.unread if concerns(row[0], kind))
    more, less = (tuple(filter(matters, told)) for told in (launch.more, launch.less))
    return replace(launch, factors=kept, unread=unread, more=more, less=less)


def concerns(part: str, kind: str) -> bool:
    """Whether a part of a launch that was not readable matters to a kind of place."""
    wanted = {"factors", "others", "env", "environ", *NOT_OF_A_COMMAND, *NOT_OF_A_COMMAND.values()}
    return kind not in KERNEL_FACTORS or part.partition(" ")[0] in wanted


def _fits(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


# --- what was there before us --------------------------------------------------------------------


class Stamped(NamedTuple):
    """
    An entry of a stamp: when its launch began, and when it was noted; Unix seconds.

    `dark`: not all of the launch could be read.
    """

    digest: str
    began: float
    at: float
    dark: bool = False


def adopted(
    fact: Mapping[str, Any],
    place: Place,
    start: float,
    stamps: tuple[Stamped, ...],
    *,
    drafter: bool,
    grace: float = 900.0,
) -> Place:
    """
    Note what a directory tells of itself: its stamp, else only when it was filled.

    What a stamp's launch compiled is told by the files: those made within `grace` seconds of its
    start, else those made before the next one began.
    """
    oldest = c.oldest(fact)
    if not place.fills and not stamps and oldest is not None and oldest < start - c.SLACK:
        newest = c.newest(fact) or oldest
        return place.put(Fill("", oldest, newest, newest, None, TRACES))
    for stamp, then in _in_turn(stamps):
        if place.fill(stamp.digest) is not None:
            continue
        until = max(stamp.began, stamp.at) + c.FILLING
        if stamp.began < start:
            until = min(then, start) - c.SLACK
        seen_at = max(stamp.began, stamp.at)
        fill = Fill(stamp.digest, stamp.began, stamp.began, seen_at, None, STAMP, dark=stamp.dark)
        soon = min(until, stamp.began + grace + c.FILLING)
        for over in (soon, until):  # others may have filled it since, whom nobody noted
            if c.made_within(fact, stamp.began, over, drafter=drafter):
                last = c.last_made(fact, stamp.began, over)
                fill = fill._replace(compiled=True, made=stamp.began, made_until=last, shown=True)
                break
        place = place.put(fill)
    return place


def _in_turn(stamps: tuple[Stamped, ...]) -> Iterator[tuple[Stamped, float]]:
    """Yield each entry, the oldest first, and when the next one began."""
    ordered = sorted(stamps, key=lambda stamp: (stamp.began, stamp.at))
    for i, stamp in enumerate(ordered):
        yield stamp, ordered[i + 1].began if i + 1 < len(ordered) else math.inf
