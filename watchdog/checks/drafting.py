"""
Does an engine that should speculate draft at all?

Only where speculation is declared: series at zero are no proof, since the Rust frontend shows
them with speculation off. A drafter with weights drafts on every step; one of unknown method is
blamed only when it drafts on none; n-gram and suffix drafters are never blamed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from watchdog.domain import wording as w
from watchdog.domain.acceptance import NOTHING, Decode
from watchdog.domain.again import for_ever
from watchdog.domain.causes import LOST, NO_SERIES, START_LOG, cause
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import Window, engine_of


class State(NamedTuple):
    """Decode updates since the last draft; and what this life drafted before."""

    idle: Decode = NOTHING
    life: Decode = NOTHING
    stopped_at: float | None = None
    drafted_at: float | None = None  # when it last drafted, or when its watch began
    off_at: float | None = None  # when the page was first seen without the series, while it is


@dataclass(frozen=True)
class Drafting:
    """Fields are limits: decode updates, a share of them, tokens per step."""

    about: ClassVar[str] = "engine"

    min_updates: float = 200.0
    most_share: float = 0.02
    least_coverage: float = 0.5
    most_tokens_per_step: float = 1.1
    may_pause: bool = False  # a schedule of depths by batch size may reach 0

    def step(self, state: State | None, window: Window, now: float) -> tuple[State, list[Finding]]:
        """Judge one window of one engine."""
        state = state or State(drafted_at=now)
        off_at = (state.off_at or now) if window.speculation_off else None
        if window.seconds is None:
            state = State(stopped_at=state.stopped_at, drafted_at=state.drafted_at)
        elif window.decode.updates > 0:
            state = self._updated(state, window, now)
        if state.off_at != off_at:
            state = state._replace(off_at=off_at)
        if not window.profile.speculation or window.profile.drafts_sometimes:
            return state, []
        return state, [self._judge(state, window, now)]

    alike_until = for_ever

    def _updated(self, state: State, window: Window, now: float) -> State:
        d = window.decode
        enough = d.updates * (self.most_share if window.profile.learned else 0.0)
        life = state.life.then(d)
        if life.updates > 100 * self.min_updates:
            life = life.halved()
        if d.real_drafts > enough:
            return State(life=life, drafted_at=now)
        idle = state.idle.then(d)
        stopped_at = state.stopped_at
        if idle.updates >= self.min_updates and stopped_at is None:
            stopped_at = now
        return State(idle, life, stopped_at, state.drafted_at)

    def _judge(self, state: State, window: Window, now: float) -> Finding:
        idle = state.idle
        gains = (idle.tokens_per_step or 1.0) >= self.most_tokens_per_step
        seldom = not window.profile.learned and _seldom(state.life, self.least_coverage)
        if window.speculation_off:
            return _finding(
                window,
                Verdict.CRITICAL,
                partial(_no_series, window, _onset(state, now, state.off_at)),
            )
        proved = state.stopped_at is not None and idle.updates >= self.min_updates
        if state.stopped_at is not None and not idle.seconds:
            return _finding(
                window, Verdict.CRITICAL, partial(_since_reset, window, _onset(state, now))
            )
        if proved and not gains and not seldom and not self.may_pause:
            told = partial(_stopped, window, idle, _onset(state, now))
            return _finding(window, Verdict.CRITICAL, told)
        if proved and gains:
            return _finding(
                window, Verdict.UNKNOWN, partial(_blind, window, idle), conclusive=False
            )
        if state.life.real_drafts > 0 and not proved:
            return _finding(window, OK, partial(_drafts, window, state.life))
        return _finding(window, OK, partial(_waiting, window, idle, self), conclusive=False)


def _onset(state: State, now: float, off_at: float | None = None) -> tuple[float, float]:
    """Between which times it ceased to draft."""
    seen = [at for at in (state.stopped_at, off_at) if at is not None]
    latest = min(seen, default=now)
    return latest if state.drafted_at is None else min(state.drafted_at, latest), latest


def _seldom(life: Decode, least: float) -> bool:
    """Whether a drafter of unknown method has drafted in this life as n-gram drafters do."""
    return life.real_drafts > 0 and life.coverage is not None and life.coverage < least


def _finding(
    window: Window, verdict: Verdict, argue: Callable[[], Argument], *, conclusive: bool = True
) -> Finding:
    return Finding("SpecDecodeNotDrafting", window.subject, verdict, argue, conclusive=conclusive)


EXPECTED = "speculation is declared (expect), so drafts on the decode updates"
NEXT = "look at the server's start-up log for `speculative_config`; compare with its launch command"


def _no_series(window: Window, onset: tuple[float, float]) -> Argument:
    return Argument(
        f"{engine_of(window.subject)}: speculative decoding is declared and not configured: the "
        f"page has no vllm:spec_decode series",
        EXPECTED,
        {"onset": list(onset)},
        ruled_out=("statistics switched off: other vllm: series are on the page",),
        suspects=(
            cause(LOST, NO_SERIES, START_LOG),
            cause(
                "the wrong server on this port",
                "another model, or other flags, than this target's",
                "`model_name` on the page, and the process that listens",
            ),
        ),
        next_step=NEXT,
    )


def _since_reset(window: Window, onset: tuple[float, float]) -> Argument:
    age = w.span(window.ended - onset[1])
    return Argument(
        f"{engine_of(window.subject)}: did not draft {age} ago; the counters began "
        f"anew since, and no decode update was seen yet",
        EXPECTED,
        {"onset": list(onset)},
        next_step="send the server a request and look again",
    )


def _stopped(window: Window, idle: Decode, onset: tuple[float, float]) -> Argument:
    return Argument(
        f"{engine_of(window.subject)}: the drafter does not draft: {w.count(idle.real_drafts)} "
        f"drafts on the last {w.count(idle.updates)} decode updates",
        EXPECTED,
        {**w.evidence(idle, idle.seconds), "onset": list(onset)},
        ruled_out=(
            f"drafts that are merely not counted: {w.length(idle.tokens_per_step)} tokens per step",
            w.queueing(window.levels),
            "an idle engine: it decodes",
        ),
        suspects=(
            cause(
                "speculation switched off, or a depth schedule that reaches 0 at this batch size "
                "(then set checks.drafting.may_pause)",
                "drafts as soon as one request is alone",
                "one greedy request with no other beside it",
            ),
            cause(
                "requests with sampling parameters that speculation does not support",
                "drafts for a greedy request, with others beside it too",
                "one greedy request beside them",
            ),
            cause(
                "an n-gram or suffix drafter without a match (then declare expect.method)",
                "drafts for a text that repeats itself",
                "one request that asks for a long text of its prompt word by word",
            ),
        ),
        next_step=NEXT,
    )


def _blind(window: Window, idle: Decode) -> Argument:
    return Argument(
        f"{engine_of(window.subject)}: the speculation counters stand still while each step gives "
        f"{w.length(idle.tokens_per_step)} tokens: drafts are accepted and not counted",
        EXPECTED,
        w.evidence(idle, idle.seconds),
        next_step="start vLLM without --disable-log-stats",
    )


def _drafts(window: Window, life: Decode) -> Argument:
    return Argument(
        f"{engine_of(window.subject)}: drafts on {w.percent(life.coverage)} of the decode updates",
        EXPECTED,
    )


def _waiting(window: Window, idle: Decode, check: Drafting) -> Argument:
    return Argument(
        f"{engine_of(window.subject)}: no draft seen yet, on {w.count(idle.updates)} of the "
        f"{w.count(check.min_updates)} decode updates that decide",
        EXPECTED,
    )
