"""
Are the drafts as deep as configured, and does acceptance fall off a cliff at some depth?

Only for drafters that draft on nearly every step: n-gram drafts are short by nature, and depths
that vary by batch or request make the same shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from watchdog.domain import wording as w
from watchdog.domain.acceptance import NOTHING, Decode, Recent
from watchdog.domain.again import for_ever
from watchdog.domain.causes import COLD_HEALS, COLD_START, cause
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import Window, engine_of

SHALLOW, CLIFF = "SpecDecodeShallowDrafts", "SpecDecodeCliff"


class State(NamedTuple):
    """Two stretches of drafts: a short one for the depth, a long one for the cliff."""

    recent: Recent = Recent()
    block: Decode = NOTHING
    judged: Decode = NOTHING  # the last whole block
    cliff: int | None = None  # position, of the last block that decided
    block_at: float | None = None  # when the block began
    sound_at: float | None = None  # when the last block without a cliff began
    cliff_onset: tuple[float, float] | None = None
    shallow_onset: tuple[float, float] | None = None
    life_at: float | None = None  # when the counters of this life were seen first


@dataclass(frozen=True)
class DraftShape:
    """Fields are limits: shares, effective drafts, requests, drafts."""

    about: ClassVar[str] = "engine"

    shallow: float = 0.75
    min_effective: float = 30.0
    min_requests: float = 3.0
    least_coverage: float = 0.9
    cliff_least: float = w.CLIFF_LEAST  # drafts that reached the position before the cliff
    cliff_z: float = w.CLIFF_Z
    full_depth: float = w.FULL_DEPTH
    block_drafts: float = 2000.0

    def step(self, state: State | None, window: Window, now: float) -> tuple[State, list[Finding]]:
        """Judge one window of one engine."""
        state = state or State()
        if window.speculation_off:
            names = (SHALLOW, CLIFF) if state.recent.whole.drafts else ()
            off = partial(w.off, window)
            return state, [Finding(name, window.subject, OK, off) for name in names]
        if window.seconds is None:
            state = State(block_at=now, life_at=now)
        elif window.decode.real_drafts > 0:
            state = self._drafted(state, window, now)
        recent = state.recent.whole
        if not recent.drafts or not self._fixed_depth(recent, window):
            return state, []
        findings = [self._judge_cliff(state, window)]
        if window.profile.learned or window.profile.depth:
            # Undeclared, depths that vary by batch or request would look like a fault.
            state = self._noted(state, window, now)
            findings.insert(0, self._judge_depth(state, window))
        return state, findings

    alike_until = for_ever

    def _drafted(self, state: State, window: Window, now: float) -> State:
        d = window.decode
        recent = state.recent.judging(d, now, self.min_effective)
        block, judged, cliff = state.block.then(d), state.judged, state.cliff
        began = now - d.seconds if state.block_at is None else state.block_at
        sound_at, onset = state.sound_at, state.cliff_onset
        if block.effective >= self.min_effective and block.requests >= self.min_requests:
            depth = self._depth(window)
            full = (block.tokens_per_draft or 0.0) >= self.full_depth * depth
            found = w.cliff(block, self.cliff_least, self.cliff_z) if full else None
            if found is not None or block.drafts >= self.block_drafts:
                judged, cliff, block = block, found, NOTHING
                if found is None:
                    sound_at, onset = began, None
                else:
                    onset = onset or (began if sound_at is None else sound_at, now)
                began = now
        shallow = state.shallow_onset
        return State(
            recent, block, judged, cliff, began, sound_at, onset, shallow, state.life_at
        )  # fmt: skip

    def _depth(self, window: Window) -> int:
        return window.profile.depth or window.depth

    def _fixed_depth(self, d: Decode, window: Window) -> bool:
        if window.profile.method is not None:
            return window.profile.learned
        return d.coverage is None or d.coverage >= self.least_coverage

    def _enough(self, recent: Decode) -> bool:
        return recent.effective >= self.min_effective and recent.requests >= self.min_requests

    def _noted(self, state: State, window: Window, now: float) -> State:
        """Note between which times the drafts became shallow, if they are."""
        drafted = state.recent.whole.tokens_per_draft
        limit = self.shallow * self._depth(window)
        low = self._enough(state.recent.whole) and drafted is not None and drafted < limit
        if low == (state.shallow_onset is not None):
            return state
        first = not state.recent.older.seconds and state.life_at is not None
        earliest = state.life_at if first else state.recent.at
        return state._replace(shallow_onset=(earliest or 0.0, now) if low else None)

    def _judge_depth(self, state: State, window: Window) -> Finding:
        depth, recent, onset = self._depth(window), state.recent.whole, state.shallow_onset
        drafted, enough = recent.tokens_per_draft, self._enough(recent)
        verdict = OK if onset is None else Verdict.WARNING

        def argue() -> Argument:
            return _shallow(window, recent, depth, self.shallow, onset)

        return Finding(SHALLOW, window.subject, verdict, argue, enough, drafted, "tokens")

    def _judge_cliff(self, state: State, window: Window) -> Finding:
        verdict = OK if state.cliff is None else Verdict.WARNING
        value = None if state.cliff is None else float(state.cliff)

        def argue() -> Argument:
            return _cliff(window, state)

        return Finding(
            CLIFF, window.subject, verdict, argue, state.judged.drafts > 0, value, "position"
        )


def _shallow(
    window: Window, d: Decode, depth: int, limit: float, onset: tuple[float, float] | None
) -> Argument:
    who = engine_of(window.subject)
    seen = f"{w.length(d.tokens_per_draft)} tokens per draft of {depth}"
    expected = f"at least {limit * depth:.2f} of {depth} draft tokens per draft"
    proof = w.evidence(d, d.seconds)
    if onset is None:
        return Argument(f"{who}: drafts {seen}", expected, proof)
    proof["onset"] = list(onset)
    on_page = f"; the page has {window.depth} positions" if window.depth != depth else ""
    return Argument(
        f"{who}: drafts are shallow: {seen}{on_page}",
        expected,
        proof,
        ruled_out=(w.padding(d), w.queueing(window.levels)),
        suspects=(
            cause(
                "a drafter that runs with other settings than the launch says (stale compile "
                "cache)",
                COLD_HEALS,
                COLD_START,
            ),
            cause(
                "depths that vary by batch or request (dynamic or adaptive speculation)",
                "drafts of full depth for one request alone",
                "the tokens per draft of one request without others beside it",
            ),
            cause(
                "grammar-constrained output, whose invalid draft tokens are taken out",
                "drafts of full depth for requests without a grammar",
                "the tokens per draft of one plain request",
            ),
        ),
        next_step="compare `num_speculative_tokens` in the start-up log with the launch command",
    )


def _cliff(window: Window, state: State) -> Argument:
    who, d = engine_of(window.subject), state.judged
    expected = "acceptance decays from position to position without a sudden fall"
    proof = w.evidence(d, d.seconds)
    if state.cliff is None:
        return Argument(f"{who}: {w.shape(d)}", expected, proof)
    if state.cliff_onset is not None:
        proof["onset"] = list(state.cliff_onset)
    return Argument(
        f"{who}: acceptance falls off a cliff: position {state.cliff} keeps "
        f"{w.percent(w.kept(d.positions, state.cliff))} of what reached it; it and those behind "
        f"are drafted for nothing",
        expected,
        proof,
        ruled_out=(
            f"drafts of varying depth: {w.length(d.tokens_per_draft)} of "
            f"{window.profile.depth or window.depth} tokens per draft",
            w.padding(d),
        ),
        suspects=(
            cause(
                "deeper draft heads or layers that are broken or wired wrongly (for instance "
                "sliding-window layers run as full attention)",
                "the same cliff on any prompt, and none in another version",
                "the positions of a fixed set of prompts, in another version",
            ),
            cause(
                "a drafter trained for fewer positions",
                "the same cliff in every version and on any prompt",
                "the positions that the drafter's own documentation names",
            ),
        ),
        next_step=f"restart with num_speculative_tokens {state.cliff}, compare tokens per second",
    )
