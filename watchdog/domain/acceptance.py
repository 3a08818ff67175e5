"""
Speculative decoding in numbers: what was drafted, what was kept, and what it cost.

The arithmetic holds for vLLM 0.8 to 0.33 (V1 engine). `updates` is the count of vLLM's
inter-token latency histogram, which is observed once per request and engine step, not once
per token; so it counts decode steps and gives a second witness that needs no
speculation counter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from operator import add
from typing import Final, NamedTuple

from watchdog.domain import series as s


class Decode(NamedTuple):
    """
    How much an engine's counters grew over one window, or over several added up.

    Counts of drafts, tokens, requests and updates; `update_seconds` and `seconds` in seconds.
    `accepted_at[i]` is how many drafts had position i accepted. `padded` is how many of the
    drafts were padding (see `padded_drafts`). `requests` estimates how many requests took
    part: those that began, and those that ran before.
    """

    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted: float = 0.0
    accepted_at: tuple[float, ...] = ()
    generated: float = 0.0
    first_tokens: float = 0.0
    updates: float = 0.0
    update_seconds: float = 0.0
    iterations: float = 0.0
    padded: float = 0.0
    effective: float = 0.0
    requests: float = 0.0
    seconds: float = 0.0

    def then(self, other: Decode) -> Decode:
        """
        Add a later stretch of the same life.

        Requests that ran before the later stretch are in the earlier one already, so only
        those that began in it are added.
        """
        if not self.seconds:
            return other
        # Several times a window: by place and not by name, which takes half as long.
        d, t, a, at, g, first, u, us, i, p, e, requests, seconds = self
        d2, t2, a2, at2, g2, began, u2, us2, i2, p2, e2, _, more = other
        at = tuple(map(add, at, at2)) if len(at) == len(at2) else _add(at, at2)
        return _decode(
            (d + d2, t + t2, a + a2, at, g + g2, first + began, u + u2, us + us2, i + i2, p + p2,
             e + e2, requests + began, seconds + more)
        )  # fmt: skip

    def halved(self) -> Decode:
        """Forget half: how a running sum is kept recent without a queue."""
        return Decode._make(
            tuple(v / 2 for v in part) if isinstance(part, tuple) else part / 2 for part in self
        )

    @property
    def real_drafts(self) -> float:
        """Drafts less the padded first steps, which count for nothing."""
        return self.drafts - self.padded

    @property
    def acceptance_length(self) -> float | None:
        """Mean tokens gained per real draft: 1 + accepted / drafts; the bonus token counts."""
        return 1 + self.accepted / self.real_drafts if self.real_drafts > 0 else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted per drafted token, 0 to 1."""
        return self.accepted / self.draft_tokens if self.draft_tokens > 0 else None

    @property
    def tokens_per_draft(self) -> float | None:
        """Draft tokens per draft: the depth that was really drafted."""
        return self.draft_tokens / self.drafts if self.drafts > 0 else None

    @property
    def first_position(self) -> float:
        """Drafts whose first token was accepted."""
        return self.accepted_at[0] if self.accepted_at else self.accepted

    @property
    def positions(self) -> tuple[float, ...]:
        """Per-position acceptance: accepted at each position / real drafts."""
        n = self.real_drafts
        return tuple(a / n for a in self.accepted_at) if n > 0 else ()

    @property
    def tokens_per_step(self) -> float | None:
        """The second witness: (generated - first tokens) / decode updates. Immune to padding."""
        return (self.generated - self.first_tokens) / self.updates if self.updates > 0 else None

    @property
    def step_seconds(self) -> float | None:
        """Mean time of a decode step as a request sees it, in seconds."""
        return self.update_seconds / self.updates if self.updates > 0 else None

    @property
    def coverage(self) -> float | None:
        """Share of the decode updates that had a draft; about 1 for a learned drafter."""
        return min(1.0, self.real_drafts / self.updates) if self.updates > 0 else None

    @property
    def batch(self) -> float | None:
        """Mean requests in a decode step: decode updates / engine steps."""
        return self.updates / self.iterations if self.iterations > 0 else None

    def upper_length(self, z: float) -> float | None:
        """
        Upper bound of the acceptance length, z standard deviations up, by effective drafts.

        The variance of accepted tokens per draft follows exactly from the positions:
        with q_i the share of drafts accepted at i, E[N] = sum q_i, E[N^2] = sum (2i+1) q_i.
        """
        length = self.acceptance_length
        if length is None or self.effective <= 0:
            return None
        q = self.positions
        variance = max(0.0, sum((2 * i + 1) * p for i, p in enumerate(q)) - sum(q) ** 2)
        return length + z * math.sqrt(variance / self.effective)


_decode: Callable[[tuple[object, ...]], Decode] = partial(tuple.__new__, Decode)

NOTHING = Decode()


class Recent(NamedTuple):
    """
    The last one or two stretches of drafts: recent, bounded, and every count in it is whole.

    `at` is when the older stretch began (the newer one, where there is no older), `turned` when
    the newer one did; seconds of the timeline.
    """

    older: Decode = NOTHING
    newer: Decode = NOTHING
    at: float = 0.0
    turned: float = 0.0
    whole: Decode = NOTHING  # both stretches together

    def judging(self, d: Decode, now: float, min_effective: float) -> Recent:
        """Add a window; each stretch holds twice the effective drafts that a judgement needs."""
        return self.then(d, now, full=self.newer.effective >= 2 * min_effective)

    def then(self, d: Decode, now: float, *, full: bool) -> Recent:
        """Add a window; `full` says that the newer stretch was long enough before it."""
        began = now - d.seconds
        if full:
            return Recent(self.newer, d, self.turned, began, self.newer.then(d))
        if not self.newer.seconds:
            return Recent(NOTHING, d, began, began, d)
        newer = self.newer.then(d)
        return Recent(self.older, newer, self.at, self.turned, self.older.then(newer))


def _add(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    if len(a) < len(b):
        a, b = b, a
    return tuple(x + y for x, y in zip(a, b, strict=False)) + a[len(b) :]


def padded_drafts(drafts: float, first_tokens: float, updates: float | None) -> float:
    """
    Count the drafts that are padding, which vLLM (0.27 and later) counts as rejected drafts.

    The first step of a request whose prompt was ready elsewhere (P/D decode node, whole prefix
    hit) carries k dummy tokens; that step is the first token, not a decode update. So: drafts
    beyond the decode updates, at most one a first token. Where the page has no decode updates,
    the worst case, one for each first token.
    """
    beyond = drafts if updates is None else drafts - updates
    return max(0.0, min(beyond, first_tokens))


SCRAPE: Final = 15.0
"""Seconds of the scrapes that limits were chosen with: in less time a request is no new one."""


def effective_drafts(drafts: float, requests: float, seconds: float, icc: float) -> float:
    """
    Discount drafts for those of one request being alike: n / (1 + (m - 1) * icc).

    m is the drafts per request in this window, as if it were SCRAPE long where it is shorter, so
    that faster scrapes do not count the same request twice.
    """
    if drafts <= 0:
        return 0.0
    per_request = drafts / max(1.0, requests) * max(1.0, SCRAPE / seconds)
    return drafts / (1 + (max(1.0, per_request) - 1) * icc)


def decode_of(
    grown: Mapping[str, float], running_before: float, seconds: float, icc: float
) -> Decode:
    """Put the growth of an engine's series over one window (see `series`) into one value."""
    get = grown.get
    drafts, first_tokens, updates = get(s.DRAFTS, 0.0), get(s.FIRST_TOKENS, 0.0), get(s.UPDATES)
    padded = padded_drafts(drafts, first_tokens, updates) if drafts else 0.0
    requests = max(1.0, first_tokens + running_before)
    accepted_at: tuple[float, ...] = ()
    if drafts:
        positions = []
        for name in s.POSITIONS:
            if name not in grown:
                break
            positions.append(grown[name])
        accepted_at = tuple(positions)
    return Decode(
        drafts,
        get(s.DRAFT_TOKENS, 0.0),
        get(s.ACCEPTED_TOKENS, 0.0),
        accepted_at,
        get(s.GENERATED_TOKENS, 0.0),
        first_tokens,
        updates or 0.0,
        get(s.UPDATE_SECONDS, 0.0),
        get(s.ITERATIONS, 0.0),
        padded,
        effective_drafts(drafts - padded, requests, seconds, icc),
        requests if drafts or updates else 0.0,
        seconds,
    )
