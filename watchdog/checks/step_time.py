"""
Has a decode step become slower than it usually is under the same load?

The step time is apart from tokens per step: when it grows while acceptance stays, the drafter is
not the cause, and GPU, link, clocks or host are. The usual time is a running median for each
kind of load: batch size, prompt tokens computed beside it, and how full the KV cache is for each
request, all by powers of two or four. It stands still while a step is slow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from watchdog.domain import series as s
from watchdog.domain import wording as w
from watchdog.domain.acceptance import Decode, Recent
from watchdog.domain.again import for_ever
from watchdog.domain.causes import cause
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import Window, engine_of

Load = tuple[int, int, int]
MOST_LOADS = 128
WARM_UP, STEP = 40, 0.02


class Usual(NamedTuple):
    """A running median of log seconds, and how many windows it has seen."""

    log_seconds: float
    windows: int


class State(NamedTuple):
    """The usual step time by load, and the stretch that is compared with it."""

    usual: tuple[tuple[Load, Usual], ...] = ()
    recent: Recent = Recent()
    expected: tuple[float, float] = (0.0, 0.0)  # seconds that both stretches usually take
    slow: bool = False


@dataclass(frozen=True)
class StepTime:
    """Fields are limits: a ratio of step times, windows, decode updates, seconds."""

    about: ClassVar[str] = "engine"

    slower: float = 1.5
    min_windows: float = 40.0
    min_updates: float = 20.0
    over: float = field(default=600.0, metadata={"unit": "seconds"})

    def step(self, state: State | None, window: Window, now: float) -> tuple[State, list[Finding]]:
        """Judge one window of one engine."""
        state = state or State()
        d = window.decode
        if window.seconds is None or window.gap:
            state = state._replace(recent=Recent(), expected=(0.0, 0.0))
        elif d.updates >= self.min_updates and d.update_seconds > 0:
            state = self._took(state, window, now)
        if not d.updates and not state.recent.newer.updates:
            return state, []
        return state, [self._judge(state, window)]

    alike_until = for_ever

    def _took(self, state: State, window: Window, now: float) -> State:
        d, load = window.decode, load_of(window)
        table = dict(state.usual)
        usual = table.get(load)
        seconds = d.update_seconds / d.updates
        known = usual is not None and usual.windows >= self.min_windows
        recent, (older, newer), slow = state.recent, state.expected, state.slow
        if usual is not None and known:
            full = recent.newer.seconds >= self.over
            recent = recent.then(d, now, full=full)
            older, newer = (newer, 0.0) if full else (older, newer)
            newer += math.exp(usual.log_seconds) * d.updates
            slow = self._is_slow(recent.whole, older + newer, was=slow)
        if not known or not self._looks_slow(seconds, usual):
            table.pop(load, None)
            table[load] = _learned(usual, math.log(seconds))  # newest last
            if len(table) > MOST_LOADS:
                del table[next(iter(table))]
        return State(tuple(table.items()), recent, (older, newer), slow)

    def _looks_slow(self, seconds: float, usual: Usual | None) -> bool:
        return usual is not None and seconds > self._half_way * math.exp(usual.log_seconds)

    @property
    def _half_way(self) -> float:
        return (1 + self.slower) / 2

    def _is_slow(self, stretch: Decode, expected: float, *, was: bool) -> bool:
        """Raised over the whole stretch, resolved half-way back."""
        if stretch.seconds < self.over:
            return was
        ratio = stretch.update_seconds / expected
        return ratio >= (self._half_way if was else self.slower)

    def _judge(self, state: State, window: Window) -> Finding:
        verdict = Verdict.WARNING if state.slow else OK
        recent = state.recent.whole
        enough = state.slow or recent.seconds >= self.over

        def argue() -> Argument:
            return self._argue(state, recent, window)

        value = recent.step_seconds
        return Finding("ServingStepsSlow", window.subject, verdict, argue, enough, value, "seconds")

    def _argue(self, state: State, d: Decode, window: Window) -> Argument:
        who = engine_of(window.subject)
        seen = (d.step_seconds or window.decode.step_seconds or 0.0) * 1000
        proof = w.evidence(d, d.seconds) | {"step_seconds": seen / 1000}
        if d.updates <= 0 or not any(state.expected):
            best = max((u.windows for _, u in state.usual), default=0)
            return Argument(
                f"{who}: a decode step takes {seen:.1f} ms; its usual time is still learned "
                f"({best} of {self.min_windows:.0f} windows at a like load)",
                evidence=proof,
            )
        usual = sum(state.expected) / d.updates * 1000
        proof |= {"usual_step_seconds": usual / 1000}
        expected = f"below {self.slower:g} x the usual {usual:.1f} ms at a like load"
        if not state.slow:
            return Argument(
                f"{who}: a decode step takes {seen:.1f} ms, usually {usual:.1f} ms", expected, proof
            )
        return Argument(
            f"{who}: decode steps take {seen:.1f} ms, {seen / usual:.1f} x their usual "
            f"{usual:.1f} ms at a like load, for {w.span(d.seconds)}; tokens per step are "
            f"{w.length(d.tokens_per_step)}",
            expected,
            proof,
            ruled_out=(
                w.queueing(window.levels),
                "batch size, prompts beside the decode and context length: compared at a like load",
            ),
            suspects=(
                cause(
                    "a GPU link that trained down, or clocks held back by heat or a power limit",
                    "slow steps at any load, with a link or a clock below its usual figure",
                    "`watchdog links`, and the clocks under load",
                ),
                cause(
                    "another process on the GPU or on the host's cores",
                    "that steps are fast again when it has ended",
                    "the processes on the GPUs (`rocm-smi` or `nvidia-smi`) and on the cores",
                ),
            ),
            next_step="look at the GPUs' links with `watchdog links`, then at their clocks: "
            "`rocm-smi` or `nvidia-smi -q -d CLOCK,PERFORMANCE`",
        )


def _learned(usual: Usual | None, log_seconds: float) -> Usual:
    """Move the running median: an average at first, then a small step to the newer side."""
    if usual is None:
        return Usual(log_seconds, 1)
    if usual.windows < WARM_UP:
        mean = usual.log_seconds + (log_seconds - usual.log_seconds) / (usual.windows + 1)
        return Usual(mean, usual.windows + 1)
    side = math.copysign(STEP, log_seconds - usual.log_seconds)
    return Usual(usual.log_seconds + side, usual.windows + 1)


def load_of(window: Window) -> Load:
    """
    Name the kind of load: steps of it compare with each other.

    Mean batch and prompt tokens computed per engine step (prefix-cache hits taken out) by powers
    of two and four, KV cache share per running request by powers of four. 0 where a page does
    not tell.
    """
    d, grown = window.decode, window.grown
    batch = round(math.log2(max(1.0, d.batch or 1.0)))
    prompt = max(0.0, grown.get(s.PROMPT_TOKENS, 0.0) - grown.get(s.PREFIX_HITS, 0.0))
    beside = round(math.log(1 + prompt / max(1.0, d.iterations), 4))
    share = window.levels.get(s.KV_USAGE, 0.0) / max(1.0, window.levels.get(s.RUNNING, 0.0))
    context = round(math.log(max(share, 1e-4), 4))
    return batch, beside, context
