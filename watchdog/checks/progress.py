"""Is there work, and no token? /health still says 200 then."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from watchdog.domain import series as s
from watchdog.domain import wording as w
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import Window, engine_of


class State(NamedTuple):
    """Since when there is work and no token, and how many requests left meanwhile."""

    since: float | None = None
    prefill_since: float | None = None
    left: float = 0.0  # requests aborted or finished since then
    burst: float = 0.0  # most of them within two windows
    before: float = 0.0  # of them, in the last window
    work: float = 0.0  # most requests running and waiting since then


@dataclass(frozen=True)
class Progress:
    """Fields are limits, in seconds."""

    about: ClassVar[str] = "engine"

    after: float = field(default=120.0, metadata={"unit": "seconds"})
    longest_prefill: float = field(default=600.0, metadata={"unit": "seconds"})

    def step(self, state: State | None, window: Window, now: float) -> tuple[State, list[Finding]]:
        """Judge one window of one engine."""
        state = self._stepped(state or State(), window, now)
        if s.RUNNING not in window.levels and s.WAITING not in window.levels:
            return state, []
        stalled = state.since is not None and now - state.since >= self.after
        # A mass abort takes all at once and no one comes after; clients that give up one by one,
        # or more of them than there was work, wait for an engine that hangs.
        stale = stalled and state.burst >= state.work >= state.left
        verdict = Verdict.CRITICAL if stalled and not stale else OK

        def argue() -> Argument:
            if stale:
                return _stale_gauges(window, state)
            return _stalled(window, state, now) if stalled else _moves(window, state, now)

        # One page with work on it says nothing yet; one without work is idle for certain.
        idle = state.since is None and (window.seconds is not None or not _work(window.levels))
        conclusive = verdict is Verdict.CRITICAL or idle
        return state, [
            Finding("ServingStalled", window.subject, verdict, argue, conclusive=conclusive)
        ]

    def alike_until(self, state: State) -> float:
        """Until when a still window leaves state and verdict as they are: for ever without work."""
        return math.inf if state.since is None else -math.inf

    def _stepped(self, state: State, window: Window, now: float) -> State:
        if window.seconds is None:
            return State()
        work = _work(window.levels)
        asleep = window.levels.get(s.AWAKE, 1.0) == 0.0
        if not work or asleep or _moved(window):
            return State()
        started = now - window.seconds if _work(window.before) else now
        since = state.since if state.since is not None else started
        grown = window.grown
        gone = grown.get(s.FINISHED, 0.0)
        state = State(
            state.since, state.prefill_since, state.left + gone,
            max(state.burst, state.before + gone), gone, max(state.work, work),
        )  # fmt: skip
        if window.levels.get(s.KV_USAGE, 0.0) > window.before.get(s.KV_USAGE, 0.0):
            began = state.prefill_since if state.prefill_since is not None else started
            if now - began < self.longest_prefill:  # a long prompt fills the KV cache
                return state._replace(since=now, prefill_since=began)
        return state._replace(since=since)


def _work(levels: object) -> float:
    get = levels.get  # type: ignore[attr-defined]
    return float(get(s.RUNNING, 0.0) + get(s.WAITING, 0.0))


def _moved(window: Window) -> bool:
    get = window.grown.get
    return (
        get(s.GENERATED_TOKENS, 0.0) > 0
        or get(s.PROMPT_TOKENS, 0.0) > 0
        or get(s.UPDATES, 0.0) > 0
        or get(s.ITERATIONS, 0.0) > 0
    )


def _requests(window: Window) -> str:
    levels = window.levels
    return (
        f"{w.count(levels.get(s.RUNNING, 0.0))} requests running and "
        f"{w.count(levels.get(s.WAITING, 0.0))} waiting"
    )


def _stalled(window: Window, state: State, now: float) -> Argument:
    since = now - (state.since or now)
    return Argument(
        f"{engine_of(window.subject)}: stalled: {_requests(window)}, and no token for "
        f"{w.span(since)}; /health may still say 200",
        "a token while there is work",
        {"stalled_seconds": since, "requests_left": state.left, "work": state.work},
        ruled_out=(
            "an idle engine: it has work",
            f"stale gauges after a mass abort: only {w.count(state.left)} of "
            f"{w.count(state.work)} requests ended meanwhile",
            "a long prompt: the KV cache does not fill",
            "an engine put to sleep: it is awake, as far as the page tells",
        ),
        suspects=(
            "the engine process died or hangs while the API server still answers",
            "a collective that waits for a GPU that fell off the bus",
            "no KV cache left to admit any request",
        ),
        next_step="look at the engine's log and `nvidia-smi` or `rocm-smi`, then restart it",
    )


def _stale_gauges(window: Window, state: State) -> Argument:
    return Argument(
        f"{engine_of(window.subject)}: {_requests(window)} by gauges that look stale: "
        f"{w.count(state.left)} requests ended and no step followed; nothing to judge till then"
    )


def _moves(window: Window, state: State, now: float) -> Argument:
    if state.since is not None:
        return Argument(
            f"{engine_of(window.subject)}: {_requests(window)}, no token for "
            f"{w.span(now - state.since)} so far"
        )
    said = "tokens come" if _moved(window) else "no work" if not _work(window.levels) else ""
    said = said or "to be compared with the next page"
    return Argument(f"{engine_of(window.subject)}: {_requests(window)}; {said}")
