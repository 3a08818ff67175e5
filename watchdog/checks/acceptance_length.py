"""
Does speculative decoding gain tokens, or is the drafter dead?

The score is Page's CUSUM on position 0: log-odds of "dead" (accepted at most at `dead`, on all
requests much alike) against "the worst healthy traffic" (at `floor`, and requests differ widely).
Its floor is configuration and is never learned: a drafter that was dead from the first day would
teach it. Silence never resolves; only healthy drafts do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from watchdog.domain.acceptance import NOTHING, SCRAPE, Decode, Recent
from watchdog.domain.acceptance_words import Case
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.likelihood import log_likelihood
from watchdog.domain.profile import Profile

DEADEST: Final = 1e-3
"""The lowest share that a drafter is taken for: at 0 no two requests could differ."""

Judged = tuple[Verdict, bool, Callable[[Case], Argument]]


class State(NamedTuple):
    """What is carried from window to window; plain numbers, so that a store can keep it."""

    score: float = 0.0  # log-odds, 0 to 3 x alarm
    dead_since: float | None = None
    since: Decode = NOTHING  # evidence since the score left zero
    since_at: float = 0.0
    clear: Decode = NOTHING  # healthy evidence while called dead
    recent: Recent = Recent()
    effective: float = 0.0  # effective drafts of this life
    newest: float | None = None  # when the newest draft was seen
    reset_at: float | None = None
    proof: Decode = NOTHING  # what proved it dead; kept over a reset
    proof_seconds: float = 0.0
    without: float = 0.0  # decode updates since the last draft, while called dead
    onset: float | None = None  # before it, nothing spoke for death; while dead: before it died


@dataclass(frozen=True)
class AcceptanceLength:
    """Fields are limits: ratios 0 to 1, log-odds, effective drafts, requests, seconds."""

    about: ClassVar[str] = "engine"

    icc: float = 0.10
    dead: float = 0.06
    dead_icc: float = 0.02
    floor: float = 0.21
    floor_icc: float = 0.15
    alarm: float = 6.75
    min_requests: float = 3.0
    clear_effective: float = 30.0
    clear_at: float = 0.30
    min_effective: float = 30.0
    max_age: float = field(default=86400.0, metadata={"unit": "seconds"})
    least_coverage: float = 0.5
    witness_margin: float = 0.5
    without_updates: float = 200.0

    def __post_init__(self) -> None:
        """Refuse limits that turn the score's sign or have no logarithm."""
        if not 0 < self.dead < self.floor < 1:
            raise ValueError("needs 0 < dead < floor < 1")
        if not self.floor <= self.clear_at < 1:
            raise ValueError("needs floor <= clear_at < 1")
        if not 0 < self.dead_icc < self.floor_icc < 1:
            raise ValueError("needs 0 < dead_icc < floor_icc < 1")

    def step(self, state: State | None, window: Window, now: float) -> tuple[State, list[Finding]]:
        """Judge one window of one engine."""
        state = state or State()
        if window.seconds is None:
            state = _new_life(state, now, reset=window.reset)
        elif window.decode.real_drafts > 0:
            state = self._drafted(state, window.decode, window.profile, now)
        if state.dead_since is not None:
            state = self._buried(state, window)
        return state, [self._judge(state, window, now)]

    def alike_until(self, state: State) -> float:
        """Until when a still window leaves state and verdict: until the evidence is too old."""
        return math.inf if state.newest is None else state.newest + self.max_age

    def _buried(self, state: State, window: Window) -> State:
        """
        Call nothing dead that is no more.

        Speculation is off where the page lacks its series, and where a new process decodes
        `without_updates` steps without a draft (the Rust frontend shows zeros then).
        """
        d = window.decode
        without = 0.0 if d.real_drafts > 0 else state.without + d.updates
        anew = (state.reset_at or 0.0) > (state.dead_since or 0.0)
        over = anew and without >= self.without_updates
        if over or window.speculation_off or window.profile.drafts_sometimes:
            return State(recent=state.recent, newest=state.newest, effective=state.effective)
        return state._replace(without=without)

    def _drafted(self, state: State, d: Decode, profile: Profile, now: float) -> State:
        """Move the score by one window's drafts, and the latch with it."""
        score = min(3 * self.alarm, max(0.0, state.score + self._log_odds(d)))
        since, since_at = NOTHING, now
        if score > 0:
            since = state.since.then(d)
            since_at = state.since_at if state.since.seconds else now - d.seconds
        dead, clear = state.dead_since, state.clear
        proof, proof_seconds = state.proof, state.proof_seconds
        if self._proves_dead(score, since, profile):
            dead, clear = now if dead is None else dead, NOTHING
            proof, proof_seconds = since, now - since_at
        recent = state.recent.judging(d, now, self.min_effective)
        onset = state.onset
        if onset is None or (score == 0 and state.dead_since is None):
            onset = now - d.seconds
        if dead is not None and not self._proves_dead(score, since, profile):
            clear = self._healing(clear.then(d))
            if clear.effective >= self.clear_effective and _first_share(clear) > self.clear_at:
                began = now - clear.seconds  # what it was before is no news
                recent = Recent(NOTHING, clear, began, began, clear)
                dead, clear, onset = None, NOTHING, now - d.seconds
        return State(
            score, dead, since, since_at, clear, recent,
            state.effective + d.effective, now, state.reset_at, proof, proof_seconds, onset=onset,
        )  # fmt: skip

    def _log_odds(self, d: Decode) -> float:
        """
        Weigh one window: a drafter that is as dead as it looks, or `dead`, against the floor.

        A request that decodes on is no new one: more scrapes in SCRAPE seconds weigh no more.
        """
        drafts = d.real_drafts
        accepted = min(d.first_position, drafts)
        of = accepted, drafts, d.requests
        as_dead = min(self.dead, max(accepted / drafts, DEADEST))
        dead = log_likelihood(*of, as_dead, self.dead_icc)
        healthy = log_likelihood(*of, self.floor, self.floor_icc)
        return min(1.0, d.seconds / SCRAPE) * (dead - healthy)

    def _proves_dead(self, score: float, since: Decode, profile: Profile) -> bool:
        return (
            score >= self.alarm
            and since.requests >= self.min_requests
            and not self._drafts_sometimes(since, profile)
            and not self._contradicted(since)
        )

    def _healing(self, clear: Decode) -> Decode:
        return clear if _first_share(clear) > self.floor else NOTHING

    def _drafts_sometimes(self, d: Decode, profile: Profile) -> bool:
        """n-gram and suffix drafters; an unknown method counts as one where it drafts seldom."""
        if profile.method is not None:
            return profile.drafts_sometimes
        return d.coverage is not None and d.coverage < self.least_coverage

    def _contradicted(self, d: Decode) -> bool:
        """Whether tokens per step show a gain that the speculation counters do not."""
        steps, gained = d.tokens_per_step, d.acceptance_length
        return steps is not None and gained is not None and steps > gained + self.witness_margin

    def _judge(self, state: State, window: Window, now: float) -> Finding:
        told, seconds = state.recent.whole, now - state.recent.at
        if state.dead_since is not None:
            told, seconds = state.proof, state.proof_seconds
        elif state.score > 0:
            told, seconds = state.since, now - state.since_at
        verdict, conclusive, words = self._verdict(state, window, told, now)

        def argue() -> Argument:
            return words(self._case(state, window, told, seconds, now))

        value = told.acceptance_length
        return Finding(
            "SpecDecodeCollapsed", window.subject, verdict, argue, conclusive, value, "tokens"
        )

    def _case(self, state: State, window: Window, told: Decode, seconds: float, now: float) -> Case:
        """Put together what an argument needs."""
        age = 0.0 if state.newest is None else now - state.newest
        dead_for = 0.0 if state.dead_since is None else now - state.dead_since
        reset_since = state.dead_since is not None and (state.reset_at or 0.0) > state.dead_since
        return Case(
            window, told, seconds, age, state.score, self.alarm, self.floor,
            state.effective, self.min_effective, self.min_requests, dead_for, reset_since,
            _onset(state),
        )  # fmt: skip

    def _verdict(self, state: State, window: Window, told: Decode, now: float) -> Judged:
        """Choose the verdict, whether it is conclusive, and the words."""
        enough = state.effective >= self.min_effective
        if state.dead_since is not None:
            judged: Judged = (Verdict.CRITICAL, True, Case.dead_drafter)
        elif not window.speculates:
            judged = (OK, True, Case.without_speculation)
        elif state.newest is None:
            judged = (OK, False, Case.too_little)
        elif now - state.newest > self.max_age:
            judged = (OK, False, Case.stale)
        elif self._drafts_sometimes(told, window.profile):
            judged = (OK, enough, Case.sometimes)
        elif state.score > 0:
            words = Case.contradicted if self._contradicted(told) else Case.leaning
            judged = (Verdict.UNKNOWN, False, words)
        else:
            judged = (OK, enough, Case.healthy if enough else Case.too_little)
        return judged


def _new_life(state: State, now: float, *, reset: bool) -> State:
    """Forget the evidence of the process that is gone; what was called dead stays so."""
    return State(
        dead_since=state.dead_since,  newest=state.newest if reset else None,
        reset_at=now if reset else state.reset_at, proof=state.proof,
        proof_seconds=state.proof_seconds,
        onset=now if state.onset is None else state.onset,
    )  # fmt: skip


def _onset(state: State) -> tuple[float, float] | None:
    """Between which times it died; None while it is not called dead."""
    if state.dead_since is None:
        return None
    if state.onset is None:  # kept by a version that noted none
        return state.dead_since - state.proof_seconds, state.dead_since
    return state.onset, state.dead_since


def _first_share(d: Decode) -> float:
    return d.first_position / d.real_drafts if d.real_drafts > 0 else 0.0
