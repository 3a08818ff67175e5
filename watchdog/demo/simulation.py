"""
A simulated engine: its counters as a pure function of time.

No randomness and no memory: the same moment of the same life always gives the same counters,
they begin at 0 with the life, and inside it none ever falls. The figures are those of a real
incident, of the run that was broken and of the same launch with its compile cache moved aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Final, NamedTuple


@dataclass(frozen=True)
class Drafter:
    """
    How good the drafts are.

    `positions[i]` is the share of drafts that have position i accepted, `tokens_per_draft` how
    many tokens are drafted in the mean.
    """

    positions: tuple[float, ...]
    tokens_per_draft: float

    @property
    def acceptance_length(self) -> float:
        """Mean tokens gained per draft, the bonus token included."""
        return 1 + sum(self.positions)


HEALTHY: Final = Drafter((0.800, 0.546, 0.369, 0.250, 0.168, 0.110, 0.072), 7.0)
BROKEN: Final = Drafter((0.067, 0.009, 0.0028, 0.0011, 0.0, 0.0, 0.0), 2.96)


@dataclass(frozen=True)
class Traffic:
    """
    A server that always has more to do than slots.

    After a launch only `early` slots are in use for `ramp` seconds, until its clients are back.
    `steps_per_second` is that of one slot; every answer has `answer_tokens`.
    """

    slots: int = 8
    early: int = 2
    ramp: float = 30.0
    waiting: int = 3
    steps_per_second: float = 10.5
    prompt_tokens: int = 512
    answer_tokens: int = 400
    first_token_seconds: float = 0.3


class Counters(NamedTuple):
    """What an engine's page tells at one moment; counts since `ready`, times in Unix seconds."""

    started: float
    ready: float
    drafts: int
    draft_tokens: int
    accepted_at: tuple[int, ...]
    first_tokens: int
    finished: int
    iterations: int
    running: int
    waiting: int
    drafter: Drafter
    traffic: Traffic

    @property
    def step_seconds(self) -> float:
        """One decode step, as a request sees it."""
        return 1 / self.traffic.steps_per_second

    @property
    def answer_seconds(self) -> float:
        """Decode time of one answer."""
        return self.step_seconds * self.traffic.answer_tokens / self.drafter.acceptance_length

    @property
    def updates(self) -> int:
        """Decode updates: this drafter drafts on every one."""
        return self.drafts

    @property
    def accepted(self) -> int:
        """Accepted tokens of all positions."""
        return sum(self.accepted_at)

    @property
    def generated(self) -> int:
        """Generated tokens: first ones, one an update, and the accepted."""
        return self.first_tokens + self.updates + self.accepted

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts so far."""
        return self.first_tokens * self.traffic.prompt_tokens


@dataclass(frozen=True)
class Life:
    """One engine from its launch: its process `started`, and answers since `ready` (Unix s)."""

    started: float
    ready: float
    drafter: Drafter = HEALTHY
    traffic: Traffic = Traffic()

    def slots(self, now: float) -> int:
        """Slots in use."""
        if now < self.ready:
            return 0
        return self.traffic.early if now - self.ready < self.traffic.ramp else self.traffic.slots

    def tokens_per_second(self, now: float) -> float:
        """What all users together get."""
        return self.slots(now) * self.traffic.steps_per_second * self.drafter.acceptance_length

    def counters(self, now: float) -> Counters:
        """Everything that the page tells at this moment."""
        way, served = self.traffic, max(0.0, now - self.ready)
        slot_seconds = way.early * min(served, way.ramp) + way.slots * max(0.0, served - way.ramp)
        drafts = floor(slot_seconds * way.steps_per_second)
        accepted_at = tuple(floor(drafts * share) for share in self.drafter.positions)
        finished = (drafts + sum(accepted_at)) // (way.answer_tokens - 1)
        return Counters(
            started=self.started,
            ready=self.ready,
            drafts=drafts,
            draft_tokens=floor(drafts * self.drafter.tokens_per_draft),
            accepted_at=accepted_at,
            first_tokens=self.slots(now) + finished,
            finished=finished,
            iterations=floor(served * way.steps_per_second),
            running=self.slots(now),
            waiting=way.waiting if self.slots(now) == way.slots else 0,
            drafter=self.drafter,
            traffic=way,
        )
