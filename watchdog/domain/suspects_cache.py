"""The suspect that this project is about: graphs that an older launch left in a compile cache."""

from __future__ import annotations

from typing import Final

from watchdog.domain import wording as w
from watchdog.domain.cache_commands import confirm
from watchdog.domain.cache_sight import places_in
from watchdog.domain.causes import COLD_HEALS, COLD_START, OLD_CACHE
from watchdog.domain.changes import RESTART, Event
from watchdog.domain.changes_words import traffic_moved
from watchdog.domain.finding import Finding
from watchdog.domain.suspect import (
    LIKELY,
    NAMED,
    POSSIBLE,
    PROVED,
    SLOW,
    Case,
    Judged,
    Ruled,
    Suspect,
)
from watchdog.domain.suspects_traffic import traffic_of

ABOUT: Final = "cache"
NAME: Final = OLD_CACHE
STALE, INEFFECTIVE = "CompileCacheStale", "CompileCacheInvalidationIneffective"

MOST_NAMED: Final = 8
"""Factors that are named."""

_FILES: Final = frozenset({"model", "drafter"})
"""First words of factors that are parts of one thing."""

SHALLOW: Final = 0.75
"""Share of the configured depth below which drafts are those of another launch."""


def cache(case: Case) -> Judged:
    """Judge it by the ledger where that stands, else by what changed at the onset."""
    stale, vain = case.alert(STALE), case.alert(INEFFECTIVE)
    if vain is not None:
        return _suspect(PROVED + 1, f"{INEFFECTIVE} stands: {vain.argument.summary}", case)
    if stale is not None:
        return _suspect(PROVED, f"{STALE} stands: {_ledger(stale, case)}", case)
    safe = case.sound(STALE)
    if safe is not None and undecided(case):
        proof = f"the server was started anew since, and for this start {safe.argument.summary}"
        return _suspect(POSSIBLE, proof, case)
    if safe is not None:
        return Ruled(ABOUT, f"{NAME}: {safe.argument.summary}")
    return _without_a_start(case) if case.began_without_a_start else _by_changes(case)


def _without_a_start(case: Case) -> Judged:
    """Rule it out, unless other traffic may have loaded kernels of shapes that are new."""
    ran = "" if case.ran_for is None else f", {w.span(case.ran_for)} after it"
    why = f"its graphs are loaded at a start, and it began without one{ran}"
    if traffic_moved(traffic_of(case)):
        return _suspect(NAMED, f"against it: {why}", case)
    return Ruled(ABOUT, f"{NAME}: {why}")


def undecided(case: Case) -> bool:
    """Whether a process runs of whose drafts nothing bad is known: the finding is of another's."""
    return bool(case.restarts_since) and case.dead_again is None


def _ledger(stale: Finding, case: Case) -> str:
    """Say in short what the ledger found: who filled it, what differs, and that it was no miss."""
    evidence, summary = stale.argument.evidence, stale.argument.summary
    path, names = evidence.get("place"), evidence.get("differs_in")
    if not isinstance(path, str) or not isinstance(names, list) or not names:
        return summary
    words = {place.path: place.words for place in places_in(case.around.facts)}
    said = f"another launch filled {words.get(path, path)}; it differs in {_few(names)}"
    start = {"warm": "; this start was warm: it compiled nothing"}
    return said + start.get(str(evidence.get("coldness")), "; this start was not shown cold")


def _few(names: list[object]) -> str:
    """Name factors, those of a model's or drafter's files by one word."""
    parts = [str(name) for name in names]
    short = list(dict.fromkeys(p.split(" ")[0] if p.split(" ")[0] in _FILES else p for p in parts))
    more = f" and {len(short) - MOST_NAMED} more" if len(short) > MOST_NAMED else ""
    return ", ".join(short[:MOST_NAMED]) + more


def _by_changes(case: Case) -> Suspect | None:
    launch = case.changed("launch", "version")
    old = next((place for place in places_in(case.around.facts) if place.age is not None), None)
    changed = f"the launch changed near its onset ({_kinds(launch)})"
    if launch and old is not None:
        proof = f"{changed} and its cache did not: {old.words}"
        return _suspect(LIKELY + 20, proof, case)
    if launch:
        return _suspect(LIKELY + 5, changed, case)
    if old is not None and case.began_with_a_start:
        return _suspect(POSSIBLE + 10, f"a restart began it, and it loaded {old.words}", case)
    if case.changed(RESTART):
        return _suspect(POSSIBLE, "a restart began it, and graphs are loaded at a start", case)
    return _suspect(POSSIBLE if _other_depth(case) else NAMED + 8, "", case)


def _kinds(events: list[Event]) -> str:
    """Name in few words what changed: the whole of it is told with the onset."""
    parts = [part for e in events for part in e.text.removeprefix("launch ").split("; ")]
    words = [part.split(" ")[0] for part in parts if " -> " in part or part.endswith(" changed")]
    return ", ".join(dict.fromkeys(words))


def _suspect(rank: int, proof: str, case: Case) -> Suspect:
    proof = "; ".join(part for part in (proof, _other_depth(case)) if part)
    known = places_in(case.around.facts)
    proves = f"a cold start of the same launch (`{confirm(case.target)}`)"
    start = proves if known else COLD_START
    figure = "step time" if case.finding.alertname == SLOW else "acceptance length"
    return Suspect(
        ABOUT, rank, NAME, proof or "nothing is known for or against it",
        COLD_HEALS,
        f"{start}, then the {figure}",
    )  # fmt: skip


def _other_depth(case: Case) -> str:
    """Say that the drafts are those of another depth than the launch asks for."""
    told = case.factors.get("speculative-config num_speculative_tokens", "")
    drafted = case.number("draft_tokens_per_draft")
    if not told.isdecimal() or drafted is None or drafted >= SHALLOW * int(told):
        return ""
    return f"drafts are {drafted:.2f} tokens deep where this launch asks for {told}"
