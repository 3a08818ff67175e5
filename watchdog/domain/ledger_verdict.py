"""
May the running launch use what lies in a cache directory?

A launch is *safe* where it was seen to compile for itself: with this start, or with an earlier one
whose files still lie there. It is *stale* where another launch was there before, differs in what
changes graphs, and nothing shows that this one compiled anew: what differs in a factor that vLLM's
own key has is compiled anew, and is no alarm. Everything else is *unknown*, with the reason.

Only who was there before counts: a launch cannot run on what came into the directory after it,
such as the graphs of another server that shares it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from watchdog.domain import coldness as c
from watchdog.domain.ledger import (
    SAFE,
    STALE,
    STAMP,
    UNKNOWN,
    Fill,
    Place,
    compared,
    concerns,
    is_chosen,
)  # fmt: skip
from watchdog.domain.prints import Prints

TRAFFIC: Final = 600.0
"""Seconds after the first answer by which requests have had kernels compiled, if any need be."""


class Judged(NamedTuple):
    """
    What holds of the running launch in one place.

    `why` in a word (`cache_words` says it whole); `other`: the digest of whose files lie there;
    `chosen`: the directory has no key of vLLM's; `blind`: why it was not seen whole. `identity` is
    the directory's device and inode; `compiled`: whether this launch compiled there, None where
    not known. `here`: its path on this host, where that is another one.
    """

    path: str
    kind: str
    says: str
    why: str
    other: str = ""
    chosen: bool = False
    blind: str = ""
    identity: str = ""
    compiled: bool | None = None
    here: str = ""


class Run(NamedTuple):
    """
    The start that is judged: its process, when it answered first, and by when it had compiled.

    `log` and `time` are what these two witnesses say of it. `asked`: when the files were looked
    at. `rivals`: paths into which another launch started at the same time, so that the times of
    files do not tell whose they are. `unused`: why it uses no compile cache of vLLM's.
    `unread`: the parts of the launch that could not be read: two like it need not be the same.
    """

    start: float
    seen_at: float
    until: float
    digest: str
    drafter: bool
    log: c.Sign
    time: c.Sign
    asked: float = math.inf
    rivals: tuple[str, ...] = ()
    unused: str = ""
    unread: tuple[str, ...] = ()

    def is_dark(self, kind: str) -> bool:
        """Whether something of the launch that matters to a kind of place was not readable."""
        return any(concerns(part, kind) for part in self.unread)


def judged(fact: Mapping[str, Any], place: Place, run: Run, prints: Prints) -> tuple[Place, Judged]:
    """Judge the running launch in one place, and note what it did there."""
    if run.unused and fact.get("kind") in c.GRAPH_PLACES:  # it was not here, for those after it
        return place, _answer(fact, place, SAFE, "unused")
    files, found = witnesses(fact, run)
    own = place.fill(run.digest) or Fill(run.digest, run.start, run.start, run.seen_at)
    if run.start > own.last:
        own = own._replace(last=run.start, seen_at=run.seen_at)
    own = _made(fact, own, run, found, files)
    lost = "" if not own.compiled or own.made == run.start else _lost(fact, place, own, run)
    if lost in ("gone", "overwritten"):  # from now on all the others were here before it
        place, own, lost = place.without(own.digest), own.not_made(), ""
    place = place.put(own)
    if own.compiled:
        before = "unsure" if own.dark or run.is_dark(place.kind) else "own"
        why = lost or ("compiled" if own.made == run.start else before)
        says, other = SAFE if why in ("compiled", "own") else UNKNOWN, ""
    else:
        says, why, other = _Case(fact, place, own, run, found, prints).verdict()
    answer = _answer(fact, place, says, why, other, own.compiled)
    return place.put(own._replace(verdict=says)), answer


def _answer(
    fact: Mapping[str, Any], place: Place, says: str, why: str, other: str = "",
    compiled: bool | None = None,  # noqa: FBT001
) -> Judged:  # fmt: skip
    return Judged(
        place.path, place.kind, says, why, other, is_chosen(fact), c.blindness(fact),
        str(fact.get("id") or ""), compiled, str(fact.get("here") or ""),
    )  # fmt: skip


def witnesses(fact: Mapping[str, Any], run: Run) -> tuple[c.Sign, c.Coldness]:
    """Return what the files of a place say, and all witnesses of it; a log tells of graphs only."""
    files = c.of_place(fact, run.start, run.until, drafter=run.drafter, rivals=run.rivals)
    graphs = fact.get("kind") in c.GRAPH_PLACES
    return files, c.joint(run.log, files, run.time) if graphs else c.joint(files)


def _made(fact: Mapping[str, Any], own: Fill, run: Run, found: c.Coldness, files: c.Sign) -> Fill:
    """Note when a launch compiled for itself: not by its time alone, which proves no file."""
    strong = found.by in (c.LOG, c.ARTIFACTS)
    if found.verdict == c.COLD and strong:
        last, shown = c.last_made(fact, run.start, run.until), files.says == c.COLD
        own = own._replace(compiled=True, made=run.start, made_until=last, shown=shown)
        return own._replace(dark=run.is_dark(str(fact.get("kind") or "")))
    rival = str(fact.get("path")) in run.rivals
    if own.made == run.start and (found.verdict == c.WARM or rival):  # it looked cold
        own = own.not_made()
    if found.verdict == c.WARM and strong and own.compiled is None:
        return own._replace(compiled=False)
    return own


def _lost(fact: Mapping[str, Any], place: Place, own: Fill, run: Run) -> str:
    """Say why what it compiled at an earlier start may not lie there any more; "" if it does."""
    if c.blindness(fact):
        return "blind"
    if is_chosen(fact) and any(
        f.digest != own.digest and f.last > own.made and f.compiled is not False
        for f in place.fills
    ):
        return "overwritten"  # it has no key of vLLM's own
    if not own.shown:  # the log said so: which files these were is not known
        return "unshown"
    if c.made_within(fact, own.made, own.made_until, drafter=run.drafter):
        return ""
    return "unshown" if fact.get("more") else "gone"


class _Case(NamedTuple):
    """A launch in a place in which it did not compile, as far as is known."""

    fact: Mapping[str, Any]
    place: Place
    own: Fill
    run: Run
    found: c.Coldness
    prints: Prints

    def verdict(self) -> tuple[str, str, str]:
        """Return safe, stale or unknown, why in a word, and the other launch it is about."""
        graphs = self.fact.get("kind") in c.GRAPH_PLACES
        if c.is_empty(self.fact) and not c.blindness(self.fact):
            return (UNKNOWN if graphs else SAFE), "empty", ""
        changed, doubt = self._before()
        if not changed:
            return doubt
        why = next((why for why, so in self._doubts(changed) if so), "")
        nearest = min(reversed(changed), key=self._distance).digest
        if why:
            return UNKNOWN, why, nearest
        return STALE, "warm" if self.found.verdict == c.WARM else "mixed", nearest

    def _distance(self, other: Fill) -> int:
        """In how many factors this launch differs from another: the nearest one is named."""
        difference = compared(self.prints, other, self.own.digest, self.place.kind)
        return len(difference.changed) if difference else 0

    def _doubts(self, changed: list[Fill]) -> Iterator[tuple[str, bool]]:
        """Yield why it need not run on the files of those, though it differs from them."""
        cold, warm = self.found.verdict == c.COLD, self.found.verdict == c.WARM
        oldest = c.oldest(self.fact)
        yield "back", self.own.digest in self.place.gone
        yield "blind", bool(c.blindness(self.fact)) and not warm
        yield "layout", oldest is None and not warm
        yield "many", bool(self.fact.get("more")) and not warm
        yield "between", self._made_since(max(map(_done_at, changed)))
        yield "time", cold
        yield "rival", self.place.path in self.run.rivals and not warm
        yield "late", not warm and oldest is not None and oldest >= self.run.start - c.SLACK
        early = self.run.asked < self.run.seen_at + TRAFFIC
        yield "kernels", (early or not warm) and self.place.kind in ("triton", "inductor")

    def _made_since(self, since: float) -> bool:
        """Whether somebody compiled all of it after the other launch had, and before this one."""
        return c.made_within(
            self.fact, since + c.FILLING, self.run.start - c.SLACK, drafter=self.run.drafter
        )

    def _before(self) -> tuple[list[Fill], tuple[str, str, str]]:
        """Return the launches that were here before and differ; else what is to be said."""
        changed, doubt = list[Fill](), (UNKNOWN, "traces", "")
        for fill in self.place.fills:
            if fill.digest == self.own.digest:
                break
            if not fill.digest or fill.verdict == STALE or not self._counts(fill):
                continue
            difference = compared(self.prints, fill, self.own.digest, self.place.kind)
            if difference is None:
                doubt = (UNKNOWN, "forgotten", fill.digest)
            elif difference.changed:
                changed.append(fill)
            elif difference.unknown:  # it may be this very launch
                changed, doubt = [], (UNKNOWN, "partial", fill.digest)
            else:  # alike in all that matters to this kind of place: as it was, so it is
                changed, doubt = [], (fill.verdict, "alike", fill.digest)
        return changed, doubt

    def _counts(self, fill: Fill) -> bool:
        """Whether a launch that only a stamp tells of can have made what lies here."""
        if fill.origin != STAMP or fill.compiled:
            return True
        oldest = c.oldest(self.fact)
        return fill.first <= self.run.start and (oldest is None or oldest >= fill.first - c.SLACK)


def _done_at(fill: Fill) -> float:
    """By when a launch had begun all that it compiled, as far as is known."""
    return fill.made_until if fill.compiled and fill.shown else fill.seen_at
