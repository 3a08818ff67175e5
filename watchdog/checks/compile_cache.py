"""
Does the server run on what another launch compiled, and did a set-aside make it compile?

A launch whose graph-changing inputs differ from those that filled its directory is stale, whatever
the directory is called; an invalidation counts only when the start after it was measurably cold.
One finding each for a target: the worst place speaks, and names the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from watchdog.domain import cache_words as words
from watchdog.domain import coldness as c
from watchdog.domain.cache_outline import outline
from watchdog.domain.cache_round import judged_now
from watchdog.domain.cache_state import State, followed, is_read, start_of
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import Window, target_of
from watchdog.domain.ledger import SAFE, STALE, UNKNOWN
from watchdog.domain.profile import NOTHING_DECLARED, Profile
from watchdog.domain.sample import Facts
from watchdog.domain.starts import Owed, near

_ORDER = (SAFE, UNKNOWN, STALE)


@dataclass(frozen=True)
class CompileCache:
    """Fields are limits: a ratio. `cache.cold_start` and `cache.warm_start` are the target's."""

    about: ClassVar[str] = "target"

    apart: float = c.APART

    def step(self, state: State | None, window: Window, now: float) -> tuple[State, list[Finding]]:
        """Judge one round; silent about a target whose cache nobody on this host looks at."""
        state = followed(state or State(), window, now)
        if not state.here:  # when it fell silent matters, though, as soon as somebody looks
            if "cache" not in window.facts:
                return state, []
            state = state._replace(here=True)
        blind = _blind(state, window)
        if not blind:
            state = judged_now(state, window.facts, window.profile, now, self.apart)
        return state, [_stale(state, window, blind), _ineffective(state, window, blind)]

    def outline(
        self, state: State, facts: Facts, profile: Profile = NOTHING_DECLARED
    ) -> dict[str, Any]:
        """Return all that is known, for commands; times in Unix seconds."""
        return outline(state, facts, profile)


def _blind(state: State, window: Window) -> str:
    """Say why nothing can be said of this round's process; empty where it can."""
    if not is_read(window):
        return "the server does not answer"
    start = start_of(window)
    if start is None:
        return "neither its page nor its launch tells when its process started"
    if state.now is None or not near(start, state.now.start):
        return "another process answered than the newest one"
    return ""


def _stale(state: State, window: Window, blind: str) -> Finding:
    worst = max(state.judged, key=lambda one: _ORDER.index(one.says), default=None)
    says = worst.says if worst else UNKNOWN
    target = target_of(window)

    def argue() -> Argument:
        said = words.stale(target, state, worst)
        return said if not blind else _not_now(target, blind, said)

    verdict = Verdict.WARNING if says == STALE and not blind else OK
    sure = not blind and says != UNKNOWN
    return Finding("CompileCacheStale", window.subject, verdict, argue, sure)


def _ineffective(state: State, window: Window, blind: str) -> Finding:
    owed = max(state.owed, key=_telling, default=None)
    warm = owed is not None and owed.verdict == c.WARM
    target, now = target_of(window), state.now
    # Nobody owes anything, and that is known once the present start was looked at.
    sure = not blind and (warm or (owed is None and now is not None and bool(now.signs)))

    def argue() -> Argument:
        said = words.ineffective(target, state, owed)
        return said if not blind else _not_now(target, blind, said)

    verdict = Verdict.WARNING if warm and not blind else OK
    return Finding("CompileCacheInvalidationIneffective", window.subject, verdict, argue, sure)


def _telling(owed: Owed) -> tuple[bool, float]:
    return owed.verdict == c.WARM, owed.at


def _not_now(target: str, blind: str, said: Argument) -> Argument:
    """Say that this round tells nothing, and what was known before."""
    return Argument(
        f"{target}: nothing is known of its compile cache in this round: {blind}",
        evidence=said.evidence,
    )
