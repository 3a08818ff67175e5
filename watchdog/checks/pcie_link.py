"""
Does a GPU's slot run the link that it is declared to run, and do the witnesses agree?

Nothing that can be read from the machine says what a slot should run: a bifurcated slot and a
failed one look alike. So the declaration alone is the expectation. An idle link that goes to a
lower speed where the platform does that on purpose is waited out, not judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from watchdog.domain import link_arguments as say
from watchdog.domain import link_witnesses as witnesses
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.gpu import Card, Sight, look
from watchdog.domain.history import Window
from watchdog.domain.link import Part, Slot, below

DEGRADED, DISAGREE = "GpuLinkDegraded", "GpuLinkWitnessesDisagree"


class State(NamedTuple):
    """Rounds in a row that were judged and bad, and when a witness last spoke."""

    card: Card = Card()
    slow: int = 0
    narrow: int = 0
    apart: int = 0
    spoke_at: float | None = None
    found: str = ""  # the link of the last WARNING, until one as declared is seen


@dataclass(frozen=True)
class PcieLink:
    """Fields are limits: judged rounds in a row."""

    about: ClassVar[str] = "gpu"

    rounds: int = 2

    def step(self, state: State | None, window: Window, now: float) -> tuple[State, list[Finding]]:
        """Judge one round of one GPU."""
        state = state or State()
        seen = look(window, state.card)
        state = state._replace(card=seen.card)
        if not seen.actual.link.silent:
            state = state._replace(spoke_at=now)
        state, degraded = self._judge(state, seen, window, now)
        state, disagree = self._compare(state, seen, window)
        return state, [degraded, *disagree]

    # Against the declaration.

    def _judge(
        self, state: State, seen: Sight, window: Window, now: float
    ) -> tuple[State, Finding]:
        slot = seen.declared
        unseen = not seen.card.chain and window.profile.slots  # whose slot this is, is not known
        if slot is None and not unseen:
            return _uncounted(state), _open(window, seen, partial(say.undeclared, seen))
        if seen.asleep:
            return _uncounted(state), _open(window, seen, partial(say.asleep, seen))
        if slot is not None and seen.rival is not None:
            twice = partial(say.declared_twice, seen, slot, seen.rival)
            return state, Finding(DEGRADED, window.subject, Verdict.UNKNOWN, twice)
        if slot is not None and seen.down and not seen.actual.link.silent:
            down = partial(say.down, seen, slot)
            return state, Finding(DEGRADED, window.subject, Verdict.UNKNOWN, down)
        if slot is None or seen.actual.link.silent:
            silent = partial(say.silent, seen, state.spoke_at, now)
            return state, Finding(DEGRADED, window.subject, Verdict.UNKNOWN, silent)
        return self._weigh(state, seen, slot, window)

    def _weigh(
        self, state: State, seen: Sight, slot: Slot, window: Window
    ) -> tuple[State, Finding]:
        link = seen.actual.link
        speed = _part(link.speed, slot.speed, waits=seen.waits_speed)
        width = _part(link.width, slot.width, waits=seen.waits_width)
        slow, narrow = _counted(state.slow, speed), _counted(state.narrow, width)
        lasting = max(slow if speed is Part.BAD else 0, narrow if width is Part.BAD else 0)
        bad = lasting > 0 and lasting >= self.rounds
        found = str(link) if bad else "" if speed is width is Part.GOOD else state.found
        state = state._replace(slow=slow, narrow=narrow, found=found)
        if bad:
            argue = partial(say.degraded, seen, slot, lasting)
            return state, _finding(window, seen, Verdict.WARNING, argue, conclusive=True)
        if lasting:
            return state, _open(window, seen, partial(say.first, seen, slot, self.rounds))
        if Part.IDLE in (speed, width):
            return state, _open(window, seen, partial(say.idle, seen, slot, found))
        if Part.UNTOLD in (speed, width):
            return state, _open(window, seen, partial(say.half_told, seen, slot))
        argue = partial(say.well, seen, slot)
        return state, _finding(window, seen, Verdict.OK, argue, conclusive=True)

    # Against each other.

    def _compare(self, state: State, seen: Sight, window: Window) -> tuple[State, list[Finding]]:
        parts, differences = witnesses.differences(seen)
        if not parts:
            return state, []
        apart = state.apart + 1 if differences else 0
        state = state._replace(apart=apart)
        bad = bool(differences) and apart >= self.rounds
        verdict = Verdict.WARNING if bad else Verdict.OK
        conclusive = bad or not (differences or Part.IDLE in parts)
        argue = partial(witnesses.argue, seen, differences, apart, self.rounds)
        return state, [Finding(DISAGREE, window.subject, verdict, argue, conclusive)]


def _uncounted(state: State) -> State:
    return state._replace(slow=0, narrow=0)


def _counted(rounds: int, part: Part) -> int:
    """Count judged rounds in a row: one that was not read is no round, an idle one ends the row."""
    if part is Part.UNTOLD:
        return rounds
    return rounds + 1 if part is Part.BAD else 0


def _part(value: float | None, expected: float, *, waits: bool) -> Part:
    if value is None:
        return Part.UNTOLD
    if not below(value, expected):
        return Part.GOOD
    return Part.IDLE if waits else Part.BAD


def _finding(
    window: Window, seen: Sight, verdict: Verdict, argue: partial[Argument], *, conclusive: bool
) -> Finding:
    value = seen.actual.link.bandwidth
    return Finding(DEGRADED, window.subject, verdict, argue, conclusive, value, "GB/s")


def _open(window: Window, seen: Sight, argue: partial[Argument]) -> Finding:
    """Too little evidence: nothing is raised and nothing resolved."""
    return _finding(window, seen, Verdict.OK, argue, conclusive=False)
