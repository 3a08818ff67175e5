"""
Is the acceptance length what was declared?

Two limits, since content alone moves a healthy drafter far within seconds: an upper bound of
the recent length below 0.6 of the declared one, or the length of 24 whole hours below 0.8.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from watchdog.domain import wording as w
from watchdog.domain.acceptance import NOTHING, Decode, Recent
from watchdog.domain.again import for_ever
from watchdog.domain.causes import CACHE, VERSION, other_traffic
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.history import Window, engine_of

NAME = "SpecDecodeDegraded"
DEAD = "SpecDecodeCollapsed"
HOUR = 3600.0
HOURS = 24


class State(NamedTuple):
    """Recent drafts, 24 hourly sums, and which limit is undercut."""

    recent: Recent = Recent()
    hours: tuple[tuple[int, Decode], ...] = ()
    day: Decode = NOTHING  # the last 24 whole hours, as of the last full hour
    low: str = ""  # "now", "day" or neither
    began: float | None = None  # when the watch of this engine began
    onset: tuple[float, float] | None = None  # of what is low: the span that showed it first
    life_at: float | None = None  # when the counters of this life were seen first


@dataclass(frozen=True)
class DeclaredLength:
    """Fields are limits: shares of the declared length, effective drafts, requests."""

    about: ClassVar[str] = "engine"

    low_now: float = 0.6
    low_day: float = 0.8
    bound_z: float = 3.0
    min_effective: float = 30.0
    min_requests: float = 3.0

    def step(self, state: State | None, window: Window, now: float) -> tuple[State, list[Finding]]:
        """Judge one window of one engine; silent where nothing is declared."""
        state = state or State()
        declared = window.profile.acceptance_length
        if declared is None or not window.speculates:
            over = bool(state.low) and window.speculation_off
            off = Finding(NAME, window.subject, OK, partial(w.off, window))
            return state, [off] if over else []
        if window.seconds is None:
            state = state._replace(recent=Recent(), life_at=now)
        elif window.decode.real_drafts > 0:
            if window.doubts.get(DEAD) is Verdict.CRITICAL:  # told by it; healed, it begins anew
                state = State(began=now, life_at=now)
            else:
                state = self._drafted(state, window.decode, declared, now)
        return state, [self._judge(state, window, declared, now)]

    alike_until = for_ever

    def _drafted(self, state: State, d: Decode, declared: float, now: float) -> State:
        recent = state.recent.judging(d, now, self.min_effective)
        began = now - d.seconds if state.began is None else state.began
        hours, day = _into_hours(state.hours, state.day, d, now, began)
        low = self._low(state.low, recent.whole, day, declared)
        onset = (state.onset or (_earliest(low, state, recent, now), now)) if low else None
        return State(recent, hours, day, low, began, onset, state.life_at)

    def _low(self, low: str, recent: Decode, day: Decode, declared: float) -> str:
        """Which limit is undercut; resolved only more than half-way back to the declared one."""
        bound, now_length = recent.upper_length(self.bound_z), recent.acceptance_length
        enough = self._enough(recent)
        daily = day.acceptance_length if self._enough(day) else None
        if enough and bound is not None and bound < self.low_now * declared:
            return "now"
        if not low and daily is not None and daily < self.low_day * declared:
            return "day"
        if low == "now" and enough and (now_length or 0) > (1 + self.low_now) / 2 * declared:
            return ""
        if low == "day" and daily is not None and daily > (1 + self.low_day) / 2 * declared:
            return ""
        return low

    def _enough(self, d: Decode) -> bool:
        return d.effective >= self.min_effective and d.requests >= self.min_requests

    def _judge(self, state: State, window: Window, declared: float, now: float) -> Finding:
        told = state.day if state.low == "day" else state.recent.whole
        seconds = told.seconds if state.low == "day" else now - state.recent.at
        enough = bool(state.low) or self._enough(told)

        def argue() -> Argument:
            return self._argue(state, told, seconds, window, declared)

        return Finding(
            NAME,
            window.subject,
            Verdict.WARNING if state.low else OK,
            argue,
            enough,
            told.acceptance_length,
            "tokens",
        )

    def _argue(
        self, state: State, told: Decode, seconds: float, window: Window, declared: float
    ) -> Argument:
        who, seen = engine_of(window.subject), w.length(told.acceptance_length)
        limit = f"declared {declared:g} tokens; at least {self.low_now:.0%} of it at any time, "
        limit += f"{self.low_day:.0%} over 24 h"
        proof, low = w.evidence(told, seconds), state.low
        if state.onset is not None:
            proof["onset"] = list(state.onset)
        if not low:
            return Argument(
                f"{who}: acceptance length {seen} of {declared:g} declared", limit, proof
            )
        over = "over the last 24 h" if low == "day" else f"over {w.count(told.real_drafts)} drafts"
        return Argument(
            f"{who}: acceptance length {seen} {over} is below the declared {declared:g} "
            f"({w.percent((told.acceptance_length or 0) / declared)} of it); a change of traffic "
            f"looks the same",
            limit,
            proof,
            ruled_out=(w.queueing(window.levels), w.padding(told), w.second_witness(told)),
            suspects=(
                other_traffic("other traffic than the declared figure was measured on"),
                VERSION,
                CACHE,
            ),
            next_step="send the traffic that the declared figure was measured on and run "
            "`watchdog check`; if it is low there too, compare this launch with the last good one",
        )


def _earliest(low: str, state: State, recent: Recent, now: float) -> float:
    """Since when what is low may have been so: an engine may idle long after it began anew."""
    if low == "day":
        return max(state.began or 0.0, now - (HOURS + 1) * HOUR)
    first = not recent.older.seconds and state.life_at is not None
    return min(recent.at, state.life_at or recent.at) if first else recent.at


def _into_hours(
    hours: tuple[tuple[int, Decode], ...], day: Decode, d: Decode, now: float, began: float
) -> tuple[tuple[tuple[int, Decode], ...], Decode]:
    """Keep 24 hourly sums; `day` is their sum, known once the watch is 24 whole hours old."""
    hour = int(now // HOUR)
    if hours and hours[-1][0] == hour:
        return (*hours[:-1], (hour, hours[-1][1].then(d))), day
    kept = tuple(pair for pair in hours if pair[0] >= hour - HOURS)
    if began // HOUR <= hour - HOURS:
        day = NOTHING
        for _, part in kept:
            day = day.then(part)
    return (*kept, (hour, d)), day
