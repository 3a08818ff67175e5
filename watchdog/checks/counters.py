"""
Do the two witnesses tell one story?

Generated tokens = first tokens + decode updates + accepted tokens, up to what is known to bend
it: accepted tokens thrown away at the end of a request (at most the depth each), requests that
the client left, and the steps in flight when a page is read. The identity is exact on the
recorded pages of vLLM 0.32 to within 1.9 tokens a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from watchdog.domain import series as s
from watchdog.domain import wording as w
from watchdog.domain.acceptance import NOTHING, Decode
from watchdog.domain.again import for_ever
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import Window, engine_of

NAME = "SpecDecodeCountersInconsistent"


class State(NamedTuple):
    """The block that is being filled, and the last whole one with its verdict."""

    block: Decode = NOTHING
    ended: float = 0.0  # requests that finished or were aborted inside the block
    in_flight: float = 0.0  # most requests running at an end of the block
    judged: Decode = NOTHING
    gap: float = 0.0  # tokens
    allowed: float = 0.0  # tokens
    fault: str = ""


@dataclass(frozen=True)
class Counters:
    """Fields are limits: generated tokens, and a share of them."""

    about: ClassVar[str] = "engine"

    min_tokens: float = 1000.0
    slack: float = 0.02

    def step(self, state: State | None, window: Window, _now: float) -> tuple[State, list[Finding]]:
        """Judge one window of one engine."""
        state = state or State()
        if window.speculation_off and state.fault:
            return state, [Finding(NAME, window.subject, OK, partial(w.off, window))]
        if window.seconds is None:
            state = state._replace(block=NOTHING, ended=0.0, in_flight=0.0)
        elif window.moved and s.UPDATES in window.grown and window.speculates:
            state = self._counted(state, window)
        if not state.judged.seconds:
            return state, []
        return state, [self._judge(state, window)]

    alike_until = for_ever

    def _counted(self, state: State, window: Window) -> State:
        grown = window.grown
        ended = state.ended + grown.get(s.FINISHED, 0.0) + grown.get(s.ABORTED, 0.0)
        running = (window.before.get(s.RUNNING, 0.0), window.levels.get(s.RUNNING, 0.0))
        block = state.block.then(window.decode)
        in_flight = max(state.in_flight, *running, float(window.decode.first_tokens > 0))
        if block.generated + block.accepted < self.min_tokens:
            return state._replace(block=block, ended=ended, in_flight=in_flight)
        return self._weigh(block, ended, 2 * in_flight * (window.depth + 1), window.depth)

    def _weigh(self, d: Decode, ended: float, in_flight: float, depth: int) -> State:
        """Close the block: how far the identity is off, and how far it may be."""
        gap = d.generated - d.first_tokens - d.updates - d.accepted
        allowed = depth * ended + in_flight + self.slack * max(d.generated, d.accepted)
        fault = ""
        if abs(gap) > allowed:
            fault = "more tokens than the counters explain" if gap > 0 else "fewer tokens"
        elif d.accepted > d.draft_tokens + in_flight:
            fault = "more accepted than drafted tokens"
        elif d.accepted_at and abs(sum(d.accepted_at) - d.accepted) > in_flight:
            fault = "positions that do not add up to the accepted tokens"
        return State(judged=d, gap=gap, allowed=allowed, fault=fault)

    def _judge(self, state: State, window: Window) -> Finding:
        verdict = Verdict.WARNING if state.fault else OK

        def argue() -> Argument:
            return _argue(state, window)

        return Finding(
            NAME, window.subject, verdict, argue, value=state.gap, unit="tokens"
        )  # fmt: skip


def _argue(state: State, window: Window) -> Argument:
    who, d = engine_of(window.subject), state.judged
    told = d.first_tokens + d.updates + d.accepted
    sums = (
        f"{w.count(d.generated)} tokens generated, {w.count(told)} told by the counters "
        f"({w.count(d.first_tokens)} first, {w.count(d.updates)} updates, "
        f"{w.count(d.accepted)} accepted)"
    )
    expected = f"a difference of at most {w.count(state.allowed)} tokens"
    proof = w.evidence(d, d.seconds) | {"gap_tokens": state.gap, "allowed_tokens": state.allowed}
    if not state.fault:
        return Argument(f"{who}: both witnesses agree: {sums}", expected, proof)
    return Argument(
        f"{who}: vLLM's counters contradict each other: {state.fault}: {sums}",
        expected,
        proof,
        ruled_out=(
            f"tokens trimmed at the end of {w.count(state.ended)} requests: allowed for",
            "a restart inside the window: no counter fell",
        ),
        suspects=(
            "speculation counters that stand still (--disable-log-stats with the Rust frontend)",
            "a counting fault of this vLLM version",
        ),
        next_step="record it with `watchdog capture DIR` and report it with the vLLM version",
    )
