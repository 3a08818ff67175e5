"""
What an engine's acceptance length usually is: sums of three hours for a week, of days for four.

Nothing here judges. A day says how long drafts were accepted on that day's mix of requests, and
28 of them how far that mix moves; a limit below their median is what a degraded drafter is held
against (the detector study's figures: docs/detection.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from watchdog.domain import series as s
from watchdog.domain.acceptance import Decode
from watchdog.domain.traffic import Traffic

BLOCK: Final = 10800.0
"""Seconds of a block."""
BLOCKS_A_DAY: Final = 8
DAY: Final = BLOCK * BLOCKS_A_DAY
MOST_BLOCKS: Final = 7 * BLOCKS_A_DAY
MOST_DAYS: Final = 28

MIXED: Final = -1
"""The depth of a sum over drafts of several depths: what position 0 explains is not known of it."""

WARNED: Final = "a warning stands, and what it is about is not learned"
"""Why an engine's days are not learned while it is found low."""

NORMAL: Final = 1.4826
"""Standard deviations of a normal distribution to its median absolute deviation."""


class Block(NamedTuple):
    """
    What an engine's counters grew by in one block, which `number` (timeline / BLOCK) names.

    `first` is how many drafts had position 0 accepted. `requests` are those that began. `queries`
    and `hits` are prompt tokens looked up and found in the prefix cache. `depth` is in draft
    positions, or MIXED. `doubtful`: another check found something wrong in it.
    """

    number: int = 0
    depth: int = 0
    doubtful: bool = False
    drafts: float = 0.0
    accepted: float = 0.0
    first: float = 0.0
    requests: float = 0.0
    generated: float = 0.0
    prompt_tokens: float = 0.0
    updates: float = 0.0
    iterations: float = 0.0
    queries: float = 0.0
    hits: float = 0.0

    def then(self, d: Decode, grown: Mapping[str, float], *, doubtful: bool) -> Block:
        """Add a window."""
        get, depth = grown.get, len(d.accepted_at)
        return Block(
            self.number,
            _one_depth({self.depth, depth}) if self.drafts else depth,
            self.doubtful or doubtful,
            self.drafts + d.real_drafts,
            self.accepted + d.accepted,
            self.first + d.first_position,
            self.requests + d.first_tokens,
            self.generated + d.generated,
            self.prompt_tokens + get(s.PROMPT_TOKENS, 0.0),
            self.updates + d.updates,
            self.iterations + d.iterations,
            self.queries + get(s.PREFIX_QUERIES, 0.0),
            self.hits + get(s.PREFIX_HITS, 0.0),
        )

    @property
    def acceptance_length(self) -> float | None:
        """Mean tokens of a draft, the bonus token included; None without drafts."""
        return 1 + self.accepted / self.drafts if self.drafts > 0 else None

    @property
    def traffic(self) -> Traffic:
        """What its requests were like."""
        return Traffic(
            self.requests, self.prompt_tokens, self.generated, self.updates, self.iterations,
            self.queries, self.hits,
        )  # fmt: skip


NO_BLOCK: Final = Block()


def total(blocks: Iterable[Block]) -> Block:
    """Add blocks up: the last one's number, their one depth, doubtful where one of them is."""
    several = list(blocks)
    if not several:
        return NO_BLOCK
    numbers, depths, doubts, *counts = zip(*several, strict=True)
    return Block._make((numbers[-1], _one_depth(set(depths)), any(doubts), *map(sum, counts)))


def sound(blocks: Iterable[Block], since: int) -> list[Block]:
    """Return the blocks from `since` on that no other check doubts: one fault is told once."""
    return [b for b in blocks if b.number >= since and not b.doubtful]


def _one_depth(depths: set[int]) -> int:
    return depths.pop() if len(depths) == 1 else MIXED


class Day(NamedTuple):
    """
    A whole day that was learned: `at` is its end on the timeline; counts as in a Block.

    Those of an older version have no tokens of prompts and answers.
    """

    at: float
    drafts: float
    accepted: float
    first: float
    requests: float
    depth: int
    prompt_tokens: float = 0.0
    generated: float = 0.0

    @classmethod
    def of(cls, block: Block, at: float) -> Day:
        """Make a day of the sum of its blocks."""
        return cls(
            at, block.drafts, block.accepted, block.first, block.requests, block.depth,
            block.prompt_tokens, block.generated,
        )  # fmt: skip

    @property
    def acceptance_length(self) -> float:
        """Mean tokens of a draft, the bonus token included."""
        return 1 + self.accepted / self.drafts


class Baseline(NamedTuple):
    """Days of one engine, oldest first; `accepted_at`: an operator called that normal."""

    days: tuple[Day, ...] = ()
    accepted_at: float | None = None

    @property
    def length(self) -> float | None:
        """The usual acceptance length: the median of the days; None where none is known."""
        return median(day.acceptance_length for day in self.days) if self.days else None

    def then(self, day: Day) -> Baseline:
        """Add a day, and forget the oldest where there are more than MOST_DAYS."""
        return self._replace(days=(*self.days, day)[-MOST_DAYS:])

    def before(self, at: float) -> Baseline:
        """Leave out the days that ended after `at`."""
        return self._replace(days=tuple(day for day in self.days if day.at <= at))


class Deeper(NamedTuple):
    """
    How deeper positions do beside position 0, in log units; 0.12 is 11 %.

    `loss` is by how much a draft whose first token was accepted gains less than is usual at such
    a position 0; `spread` one standard deviation of that over the days.
    """

    loss: float
    spread: float


def deeper(days: Sequence[Day], now: Block) -> Deeper | None:
    """
    Tell how much worse deeper positions are than position 0 explains.

    Where traffic changes or the whole drafter weakens, deeper positions move with position 0. They
    are taken for equally likely each, given the one before: c from accepted / first =
    1 + c + c^2 + ... up to the depth. Healthy days have much the same difference of the logits of
    c and of position 0, whatever their mix (and whatever their depth); the median of it says what
    position 0 explains now. None where nothing can be said: one position only, none accepted, or
    drafts of several depths.
    """
    offsets = [(_offset(day), day) for day in days]
    known = [(offset, day) for offset, day in offsets if offset is not None]
    if not known or _offset(now) is None:
        return None
    usual = median(offset for offset, _ in known)
    spread = median(abs(_missing(day, usual)) for _, day in known)
    return Deeper(_missing(now, usual), NORMAL * spread)


def _offset(d: Block | Day) -> float | None:
    """Logit of c less that of position 0."""
    if d.depth <= 1 or not 0 < d.first < d.drafts or not d.first < d.accepted < d.depth * d.first:
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _gain(middle, d.depth) < per_hit(d) else (low, middle)
    return _logit(low) - _logit(d.first / d.drafts)


def _missing(d: Block | Day, offset: float) -> float:
    """How much less a draft gains than `offset` lets expect, in log units."""
    kept = 1 / (1 + math.exp(-_logit(d.first / d.drafts) - offset))
    return math.log(_gain(kept, d.depth) / per_hit(d))


def _gain(kept: float, depth: int) -> float:
    """Tokens of a draft whose first was accepted, where each next one is with the share `kept`."""
    return sum(kept**i for i in range(depth))


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


def per_hit(block: Block | Day) -> float:
    """Mean tokens accepted of a draft whose first token was accepted; 0 where there is none."""
    return block.accepted / block.first if block.first > 0 else 0.0


def onset(blocks: Sequence[Block], usual: float) -> tuple[float, float]:
    """
    Return between which times the acceptance length most likely fell, in timeline seconds.

    Page's estimate: each block counts how far its length is below the middle between the usual
    one and that of the last 24 h, times its requests; the fall begins after the last block at
    which the running sum was least. Needs one block with drafts at least.
    """
    middle = (usual + (total(blocks[-BLOCKS_A_DAY:]).acceptance_length or usual)) / 2
    score = least = 0.0
    before = first = last = blocks[0].number
    for block in blocks:
        if score <= least:
            least, first, last = score, before, block.number
        score += (middle - (block.acceptance_length or middle)) * block.requests
        before = block.number
    return first * BLOCK, (last + 1) * BLOCK
