"""Numbers to words: every sentence that a finding says about drafts is put together here."""

from __future__ import annotations

from collections.abc import Mapping

from watchdog.domain import series as s
from watchdog.domain.acceptance import Decode
from watchdog.domain.finding import Argument
from watchdog.domain.history import Window, engine_of

CLIFF_DROP, CLIFF_SHARE = 0.5, 0.35
"""A cliff: kept on from the position before at less than half its rate, and below 35 %."""
CLIFF_LEAST, CLIFF_Z = 100.0, 2.0
"""Drafts that must have reached the position before, and standard deviations of margin."""
FULL_DEPTH = 0.9
"""Below this share of the depth, positions are empty because nothing was drafted there."""
EVEN = 0.9
TOO_DEEP = 0.02
"""A position that gains less than this share of the acceptance length is not worth its draft."""


def percent(ratio: float | None) -> str:
    """`6.7 %`; two figures below ten."""
    if ratio is None:
        return "an unknown share"
    return f"{ratio * 100:.1f} %" if ratio < 0.1 else f"{ratio * 100:.0f} %"


def count(value: float) -> str:
    """`25,568`."""
    return f"{value:,.0f}"


def size(number: int) -> str:
    """`1.2 GiB`."""
    power = min(max(number.bit_length() - 1, 0) // 10, 4)
    unit = ("B", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{number / 1024**power:.{1 if power else 0}f} {unit}"


def span(seconds: float) -> str:
    """`75 s`, `12 min`, `3.5 h`, `4.0 days`."""
    for size, unit in ((86400.0, "days"), (3600.0, "h")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 600 else f"{seconds:.0f} s"


def length(value: float | None) -> str:
    """`3.77`, or a word where there is none."""
    return "unknown" if value is None else f"{value:.2f}"


def evidence(d: Decode, seconds: float) -> dict[str, object]:
    """Every number that a reader needs to judge for himself. Counts, ratios and seconds."""
    return {
        "window_seconds": round(seconds, 3),
        "drafts": d.drafts,
        "padded_drafts": d.padded,
        "draft_tokens": d.draft_tokens,
        "accepted_tokens": d.accepted,
        "generated_tokens": d.generated,
        "requests": round(d.requests, 1),
        "effective_drafts": round(d.effective, 1),
        "acceptance_length": d.acceptance_length,
        "draft_acceptance": d.acceptance_rate,
        "draft_tokens_per_draft": d.tokens_per_draft,
        "positions": [round(q, 4) for q in d.positions],
        "draft_coverage": d.coverage,
        "tokens_per_step": d.tokens_per_step,
        "step_seconds": d.step_seconds,
    }


def shape(d: Decode, dead_below: float = 0.10) -> str:
    """Put the acceptance by position into words: dead, cliff, too deep, or a healthy decay."""
    q = d.positions
    if not q:
        return "no drafts by position yet"
    if q[0] < dead_below:
        return f"a dead drafter: position 0 accepts {percent(q[0])}"
    if (d.tokens_per_draft or 0.0) < FULL_DEPTH * len(q):
        return f"drafts of {length(d.tokens_per_draft)} tokens on average, of {len(q)} positions"
    at = cliff(d, CLIFF_LEAST, CLIFF_Z)
    if at is not None:
        return f"a cliff: position {at} keeps {percent(kept(q, at))} of what reached it"
    return _decay(q)


def _decay(q: tuple[float, ...]) -> str:
    gain = TOO_DEEP * (1 + sum(q))
    deep = next((i for i in range(len(q)) if max(q[i:]) < gain), None)
    if deep is not None:
        return (
            f"drafts deeper than the drafter can see: positions {deep} to {len(q) - 1} of "
            f"{len(q)} gain almost nothing on this traffic"
        )
    if q[-1] > EVEN * q[0]:
        return f"{percent(q[0])} at position 0 and hardly less at the last of {len(q)}"
    return f"a healthy decay from {percent(q[0])} to {percent(q[-1])} over {len(q)} positions"


def cliff(d: Decode, least: float = 0.0, z: float = 0.0) -> int | None:
    """
    Find the first position at which acceptance falls off, or None.

    c_i is the share kept on from position i-1 to i. A cliff is c_i below half of c_(i-1) and
    below 35 %, also z standard deviations up (by effective drafts), where at least `least`
    drafts reached the position.
    """
    a, drafts = d.accepted_at, d.real_drafts
    if drafts <= 0 or d.effective <= 0:
        return None
    alike = drafts / d.effective  # drafts that count as one
    before = a[0] / drafts if a else 0.0
    for i in range(1, len(a)):
        if a[i - 1] <= 0 or a[i - 1] < least:
            return None
        share = a[i] / a[i - 1]
        bound = share + z * (share * max(0.0, 1 - share) * alike / a[i - 1]) ** 0.5
        if bound < CLIFF_DROP * before and bound < CLIFF_SHARE:
            return i
        before = share
    return None


def kept(q: tuple[float, ...], at: int) -> float:
    """Share of the drafts that were kept on from the position before to `at`."""
    return q[at] / q[at - 1] if q[at - 1] else 0.0


def off(window: Window) -> Argument:
    """Say that the page has no series of speculative decoding: whatever ailed it is over."""
    return Argument(
        f"{engine_of(window.subject)}: speculative decoding is off; its series are not on the page"
    )


def queueing(levels: Mapping[str, float]) -> str:
    """Say whether requests wait: a full server is not a slow one."""
    waiting, running = levels.get(s.WAITING), levels.get(s.RUNNING)
    if waiting is None or running is None:
        return "queueing: not told by this page"
    if waiting > 0:
        return (
            f"queueing: {count(waiting)} requests wait behind {count(running)} running; that is a "
            f"full server (admission ceiling) and adds to the first token's time only"
        )
    return f"queueing: 0 requests waiting, {count(running)} running"


def second_witness(d: Decode) -> str:
    """Compare with tokens per step, which needs no speculation counter."""
    steps = d.tokens_per_step
    if steps is None:
        return "second witness: none, this page has no inter-token latency"
    return f"a counting error: {steps:.2f} tokens per step over {count(d.updates)} decode updates"


def padding(d: Decode) -> str:
    """Say how many padded first steps were taken out."""
    return f"padded first steps: {count(d.padded)} of {count(d.drafts)} drafts, not counted"


def drafter(window: Window) -> str:
    """Name the drafter as far as it is known: `dflash drafter of depth 7`."""
    method = window.profile.method or "drafter of unknown method"
    depth = window.depth
    name = method if window.profile.method is None else f"{method} drafter"
    return f"{name}, depth {depth}" if depth else name
