"""
Has the acceptance length fallen below what it usually is?

Three rules against a baseline of days (see `domain/baseline.py`, and docs/detection.md for their
error rates). `silent`: the length of 72 h, or far lower that of 24 h, and of half of the time in
them. `restart`: the length of the first 24 h after a restart, judged once, since a known moment
allows a closer limit; still closer where the days tell what is usual for such prompts and answers
(`domain/adjusted.py`). `shape`: deeper positions are worse than position 0 explains, which no
healthy mix of requests does.

Draft for draft a drafter that is a third weaker everywhere is the same as other traffic; all that
`silent` and `restart` use is that mixes rarely stay as odd for as long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, ClassVar

from watchdog.domain import baseline_operator as operator
from watchdog.domain import baseline_words as words
from watchdog.domain import wording as w
from watchdog.domain.adjusted import usual_for
from watchdog.domain.baseline import (
    BLOCK,
    BLOCKS_A_DAY,
    DAY,
    MOST_BLOCKS,
    MOST_DAYS,
    NO_BLOCK,
    WARNED,
    Baseline,
    Block,
    Day,
    Deeper,
    deeper,
    onset,
    sound,
    total,
)
from watchdog.domain.baseline_state import State
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window

NAME = "SpecDecodeDegraded"
DEAD = "SpecDecodeCollapsed"
EVEN = Deeper(0.0, 0.0)
BAD = (Verdict.WARNING, Verdict.CRITICAL)
WAIT = 3 * DAY
"""Seconds after a restart beyond which it is no longer what explains a low length."""


@dataclass(frozen=True)
class BaselineCheck:
    """Fields are limits: shares of the usual length, log units for `shape`, days, requests."""

    about: ClassVar[str] = "engine"
    remembers: ClassVar[bool] = True

    silent_72h: float = 0.76
    silent_24h: float = 0.66
    restart: float = 0.86
    restart_adjusted: float = 0.88
    shape: float = 0.12
    spreads: float = 5.0
    most_restarts: float = 8.0
    min_days: float = 7.0
    min_requests: float = 60.0
    least_learned: float = 1.15
    least_coverage: float = 0.5

    def step(self, state: State | None, window: Window, now: float) -> tuple[State, list[Finding]]:
        """Judge one window of one engine; silent until it has drafted."""
        state = state or State()
        if window.profile.drafts_sometimes or window.speculation_off:
            return self._without(state, window)
        if window.seconds is None:
            if window.reset or state.open.drafts:  # one that was away comes back in a new life
                state = self._restarted(state, now)
        elif window.decode.real_drafts > 0:
            state = self._drafted(state, window, now)
        elif state.restarted_at is not None and now - state.restarted_at >= DAY:
            state = self._after_restart(state, state.restarted_at, now)  # at night none may come
        return state, [self._judge(state, window, now)] if state.open.drafts else []

    def alike_until(self, state: State) -> float:
        """
        Until when a still window leaves state and verdict.

        Until the evidence is too old, or a restart is judged, or given up for want of requests.
        """
        old = state.recent_until + DAY if state.recent.drafts else math.inf
        if state.restarted_at is None:
            return old
        enough = state.since.requests >= self.min_requests
        return min(old, state.restarted_at + (DAY if enough else WAIT))

    def _restarted(self, state: State, now: float) -> State:
        """
        Begin to gather what is judged once, or go on where another restart is not judged yet.

        Else a fault that makes the server restart within 24 h would never be judged. Some more
        restarts than may be are remembered.
        """
        lately = [at for at in (*state.restarts, now) if now - at <= MOST_DAYS * DAY]
        kept = tuple(lately[-int(self.most_restarts) - 1 :])
        state = state._replace(restarts=kept, life=NO_BLOCK)
        pending = state.restarted_at is not None
        return state if pending else state._replace(restarted_at=now, since=NO_BLOCK)

    def _without(self, state: State, window: Window) -> tuple[State, list[Finding]]:
        """Take a warning back, and say so for as long: an alert ends only on what is said."""
        if not (state.raised or state.over):
            return state, []
        said = words.sometimes if window.profile.drafts_sometimes else w.off
        over = Finding(NAME, window.subject, Verdict.OK, partial(said, window))
        return state.cleared()._replace(over=True), [over]

    def _drafted(self, state: State, window: Window, now: float) -> State:
        d = window.decode
        index = int((now - d.seconds / 2) // BLOCK)  # a long window counts where most of it is
        if state.open.number != index:
            if state.open.drafts:
                state = self._turned(state, index, window, now)
            state = state._replace(open=Block(index))
        doubtful = bool(window.doubts) and _in_doubt(window)
        opened = state.open.then(d, window.grown, doubtful=doubtful)
        if state.restarted_at is None:
            return state._replace(open=opened, over=False)
        # As of blocks: what another check tells is told once, and may be mended meanwhile.
        judged = state._replace(open=opened, over=False)
        if window.doubts.get(DEAD) is Verdict.CRITICAL:
            # Its first requests were gathered before it was called dead: begin again after it.
            judged = judged._replace(since=NO_BLOCK, life=NO_BLOCK)
        elif not doubtful:
            judged = judged._replace(
                since=state.since.then(d, window.grown, doubtful=False),
                life=state.life.then(d, window.grown, doubtful=False),
            )
        due = now - state.restarted_at >= DAY
        return self._after_restart(judged, state.restarted_at, now) if due else judged

    def _turned(self, state: State, index: int, window: Window, now: float) -> State:
        """Close the open block: judge the blocks, and learn the day where one is over."""
        ended = state.open.number
        blocks = (*state.blocks, state.open)
        blocks = tuple(b for b in blocks if b.number >= index - MOST_BLOCKS)
        recent = total(sound(blocks, index - BLOCKS_A_DAY))
        if not recent.drafts:
            recent = NO_BLOCK._replace(number=index - 1)
        state = self._weighed(state._replace(blocks=blocks, recent=recent), index, now)
        day = ended // BLOCKS_A_DAY
        if index // BLOCKS_A_DAY > day:
            of_day = total(b for b in blocks if b.number // BLOCKS_A_DAY == day)
            return self._learned(state, of_day, (day + 1) * DAY, window)
        return state

    def usual(self, state: State) -> float | None:
        """Return the length to judge against; None while there are too few days."""
        known = len(state.baseline.days) >= self.min_days
        return state.baseline.length if known else None

    def _weighed(self, state: State, index: int, now: float) -> State:
        """Raise or resolve, by the 24 and 72 h before the open block."""
        usual, recent = self.usual(state), state.recent
        length = recent.acceptance_length
        if usual is None or length is None or recent.requests < self.min_requests:
            return state
        shape = deeper(state.baseline.days, recent)
        if state.raised:
            held = usual_for(state.baseline.days, recent) if state.raised == "restart" else None
            back = _back(state, shape, length / (held or usual))
            return state.cleared()._replace(well_from=index - BLOCKS_A_DAY) if back else state
        shape = shape or EVEN
        fell = onset(state.blocks, usual)
        if shape.loss > max(self.shape, self.spreads * shape.spread):
            return self._raise(state, "shape", self.shape, recent, fell, now)
        low = self._low(state, index - BLOCKS_A_DAY, self.silent_24h * usual)
        if low is not None:
            return self._raise(state, "silent", self.silent_24h, low, fell, now)
        since = index - 3 * BLOCKS_A_DAY
        low = self._low(state, since, self.silent_72h * usual)
        came_back = length > (1 + self.silent_72h) / 2 * usual or since < state.well_from
        if low is not None and not came_back:
            raised = self._raise(state, "silent", self.silent_72h, low, fell, now)
            return raised._replace(hours=72)
        return state

    def _low(self, state: State, since: int, limit: float) -> Block | None:
        """
        Return the sum of the blocks from `since` on, where it is below the limit; tokens.

        So must be half of them: some hours of odd text weigh much in a sum, and are no drafter.
        """
        blocks = sound(state.blocks, since)
        lengths = [length for b in blocks if (length := b.acceptance_length) is not None]
        whole = total(blocks)
        low = (whole.acceptance_length or limit) < limit and median(lengths) < limit
        return whole if low else None

    def _after_restart(self, state: State, restarted_at: float, now: float) -> State:
        """
        Judge the first 24 h after a restart, once, against the days before it.

        It is not low where the newest life is not: then another restart has mended it. One that
        came meanwhile is judged next, since it may be the one that broke it.
        """
        enough = state.since.requests >= self.min_requests
        if not enough and now - restarted_at < WAIT:
            return state
        before = self._before(state, restarted_at)
        later = [at for at in state.restarts if at > restarted_at]
        judged = state._replace(restarted_at=None)
        if later:
            judged = state._replace(restarted_at=later[0], since=state.life)
        if not enough or len(before.days) < self.min_days or state.raised:
            return judged
        if len(state.restarts) > self.most_restarts:  # then it is no moment of its own
            return judged
        low, limit = self.after_restart(before, state.since)
        mended = (
            state.life.requests >= self.min_requests
            and not (self.after_restart(before, state.life)[0])
        )
        if mended or not low:
            return judged
        fell = (restarted_at, max((restarted_at, *later)))
        return self._raise(judged, "restart", limit, state.since, fell, now)

    def after_restart(self, baseline: Baseline, told: Block) -> tuple[bool, float]:
        """
        Tell whether the length after a restart is low, and the limit that it was held against.

        The limit is a share: of what is usual for such prompts and answers, where that is known.
        """
        usual = usual_for(baseline.days, told)
        limit = self.restart if usual is None else self.restart_adjusted
        length, usual = told.acceptance_length, usual or baseline.length
        return length is not None and usual is not None and length < limit * usual, limit

    def _before(self, state: State, at: float) -> Baseline:
        """Return what was usual before a time; all that is known where that is too little."""
        before = state.baseline.before(at)
        return before if len(before.days) >= self.min_days else state.baseline

    def _raise(
        self, state: State, rule: str, limit: float, told: Block, fell: tuple[float, float],
        now: float,
    ) -> State:  # fmt: skip
        """Find it low. What was learned since it fell is no part of what is usual."""
        return state._replace(
            baseline=self._before(state, fell[0]),
            raised=rule,
            raised_at=now,
            limit=limit,
            told=told,
            hours=24,
            onset=fell,
        )

    def _learned(self, state: State, day: Block, at: float, window: Window) -> State:
        """Add a day to the baseline, unless it may be a broken one."""
        length = day.acceptance_length or 1.0
        why = ""
        if state.raised:
            why = WARNED
        elif day.doubtful or DEAD in window.doubts:
            why = "the drafter or its counters were in doubt on the last day"
        elif day.requests < self.min_requests:
            why = f"{day.requests:.0f} requests on the last day; {self.min_requests:.0f} make one"
        elif length < self.least_learned:
            why = f"acceptance length {length:.2f} on the last day, which no drafter is for"
        elif day.drafts < self.least_coverage * day.updates:
            why = "drafts on few of the decode updates, as n-gram drafters do"
        if why:
            return state._replace(skipped=why)
        return state._replace(baseline=state.baseline.then(Day.of(day, at)), skipped="")

    def _judge(self, state: State, window: Window, now: float) -> Finding:
        known = len(state.baseline.days) >= self.min_days
        fresh = now - state.recent_until <= DAY and state.recent.requests >= self.min_requests
        verdict = Verdict.WARNING if state.raised else Verdict.OK
        told = state.told if state.raised else state.recent
        return Finding(
            NAME,
            window.subject,
            verdict,
            lambda: words.argue(self._case(state, window, now)),
            bool(state.raised) or (known and fresh),
            told.acceptance_length,
            "tokens",
        )

    def _case(self, state: State, window: Window, now: float) -> words.Case:
        return words.Case(
            window, now, state.baseline, self.usual(state), state.blocks, state.recent, state.told,
            state.raised, state.raised_at, state.onset, state.limit,
            state.hours, self._expected(), self.min_days,
            self.min_requests, state.skipped,
        )  # fmt: skip

    def _expected(self) -> str:
        return (
            f"at least {self.silent_72h:.0%} of the usual acceptance length over 72 h, "
            f"{self.silent_24h:.0%} over 24 h, {self.restart:.0%} in the first 24 h after a "
            f"restart ({self.restart_adjusted:.0%} where it is known for such prompts and "
            f"answers); deeper positions at most {1 - math.exp(-self.shape):.0%} worse than "
            f"position 0 explains"
        )

    def accept(self, state: State, now: float) -> State:
        """Call the present length normal; raises ValueError with a sentence where it cannot be."""
        return operator.accepted(
            state, now, days=int(self.min_days), enough=self.min_requests, least=self.least_learned
        )

    def reset(self, state: State, now: float) -> State:
        """Forget all, and learn anew from the next drafts on."""
        del state, now
        return State()

    def outline(self, state: State, now: float) -> dict[str, Any]:
        """Return what is known, as plain data; times in timeline seconds, lengths in tokens."""
        return operator.outline(state, self._case(state, Window((), now), now))


def _in_doubt(window: Window) -> bool:
    """Whether another check found the drafter, or its counters, wrong in this window."""
    return any(v in BAD and name.startswith("SpecDecode") for name, v in window.doubts.items())


def _back(state: State, shape: Deeper | None, share: float) -> bool:
    """Whether what is raised is more than half-way back; `share` is that of the usual length."""
    if state.raised != "shape":
        return share > (1 + state.limit) / 2
    if shape is None:  # dead, or of several depths: no evidence. But there may be none deeper.
        return state.recent.depth in (0, 1)
    return shape.loss < state.limit / 2
