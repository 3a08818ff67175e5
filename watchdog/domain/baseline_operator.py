"""An operator's look at a learned baseline and word on it: what is known, and what is normal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from watchdog.domain.baseline import (
    BLOCK,
    BLOCKS_A_DAY,
    Baseline,
    Block,
    Day,
    sound,
    total,
)
from watchdog.domain.baseline_state import State
from watchdog.domain.baseline_words import Case


def accepted(state: State, now: float, *, days: int, enough: float, least: float) -> State:
    """
    Call the present length normal: what came since it fell, else the last 24 h.

    It stands for so many `days`. Raises ValueError where there are not `enough` requests, or a
    length that is not that of a working drafter, below `least` tokens.
    """
    blocks = (*state.blocks, state.open)
    since = int(now // BLOCK) - BLOCKS_A_DAY
    present = _present([b for b in blocks if b.number >= since], enough)
    if state.raised:
        fallen = _present([b for b in blocks if b.number * BLOCK >= state.onset[1]], enough)
        present = fallen if fallen.requests >= enough else present
    length = present.acceptance_length
    if length is None or present.requests < enough:
        raise ValueError(
            f"{present.requests:.0f} requests in the last 24 h; {enough:.0f} show what is normal"
        )
    if length < least:
        raise ValueError(
            f"acceptance length {length:.2f}: that is what a dead drafter gives, whatever the "
            f"traffic; it is not taken for normal (at least {least:g})"
        )
    normal = Baseline((Day.of(present, now),) * days, accepted_at=now)
    return state.cleared()._replace(baseline=normal, restarted_at=None, skipped="")


def _present(blocks: Sequence[Block], enough: float) -> Block:
    """Add up those that no other check doubts; all where these are too few."""
    known = total(sound(blocks, 0))
    return known if known.requests >= enough else total(blocks)


def outline(state: State, case: Case) -> dict[str, Any]:
    """Return what is known, as plain data; times in timeline seconds, lengths in tokens."""
    days = state.baseline.days
    return {
        "days": len(days),
        "days_needed": int(case.min_days),
        "length": state.baseline.length,
        "length_24h": state.recent.acceptance_length,
        "requests_24h": state.recent.requests,
        "length_72h": case.long.acceptance_length,
        "raised": state.raised,
        "raised_at": state.raised_at if state.raised else None,
        "accepted_at": state.baseline.accepted_at,
        "learning": len(days) < case.min_days,
        "why_not_learning": state.skipped,
        "daily": [[day.at, day.acceptance_length] for day in days],
    }
