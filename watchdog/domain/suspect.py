"""What one suspect is, and what it is judged by: the finding, its neighbours, and the facts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from watchdog.domain import series as s
from watchdog.domain import wording as w
from watchdog.domain.causes import cause
from watchdog.domain.changes import GAP, RESTART, UNWATCHED, Changes, Event, key_of
from watchdog.domain.changes_words import NEAR
from watchdog.domain.finding import OK, Argument, Finding, Verdict
from watchdog.domain.fingerprint import Fingerprint
from watchdog.domain.proven import NOTHING_PROVEN, Match, Proven, fingerprint_in, matched
from watchdog.domain.sample import NO_FACTS, Facts, number

NO_LEVELS: Final[Mapping[str, float]] = MappingProxyType({})

COLLAPSED: Final = "SpecDecodeCollapsed"
SLOW: Final = "ServingStepsSlow"

DEAD: Final = 0.21
"""Share of position 0 up to which a drafter may be dead (`acceptance_length.floor`)."""

FEWEST: Final = 100.0
"""Drafts, and tokens, below which a sum says nothing."""

PROVED, LIKELY, POSSIBLE, NAMED = 90, 60, 40, 10
"""Ranks: it stands as an alert; much speaks for it; something does; nothing but experience does."""

SPOKEN_FOR: Final = 20
"""Rank from which something speaks for it; below, it is told only where the check names it."""


class Suspect(NamedTuple):
    """
    One cause that may be behind a finding.

    `about` is its key, `name` its words; `rank` sorts, the likeliest first. `proof` is what speaks
    for it and against it, with numbers; `predicts` what would be seen if it is the cause, `decides`
    the single observation that tells.
    """

    about: str
    rank: int
    name: str
    proof: str
    predicts: str
    decides: str

    @property
    def line(self) -> str:
        """The whole of it, in one sentence."""
        said = f"{self.name}: {self.proof}" if self.proof else self.name
        return cause(said, self.predicts, self.decides)


class Ruled(NamedTuple):
    """A cause that the numbers rule out; `spare`: told only where there is room for it."""

    about: str
    line: str
    spare: bool = False


Judged = Suspect | Ruled | None
"""What a rule makes of a case: None where it has nothing to say."""


class Around(NamedTuple):
    """What is known of a target beside its findings; `now` on the timeline, as in `Changes`."""

    changes: Changes = UNWATCHED
    now: float = 0.0
    facts: Facts = NO_FACTS
    levels: Mapping[str, float] = NO_LEVELS
    proven: Proven = NOTHING_PROVEN
    start: float | None = None


@dataclass(frozen=True)
class Case:
    """
    One bad finding, what it said itself, the others of its target, and what is around.

    `around.levels` are those of the finding's engine, `around.start` the process's, Unix seconds.
    """

    finding: Finding
    said: Argument
    near: Sequence[Finding] = ()
    around: Around = field(default_factory=Around)

    @property
    def target(self) -> str:
        """The target's name."""
        return dict(self.finding.subject).get("target", "TARGET")

    def number(self, name: str) -> float | None:
        """Return a number of the finding's evidence."""
        return number(self.said.evidence.get(name))

    def alert(self, alertname: str) -> Finding | None:
        """Return a finding of the same target, or of the same engine, that is bad."""
        bad = (Verdict.WARNING, Verdict.CRITICAL)
        return next((f for f in self._of(alertname) if f.verdict in bad), None)

    def sound(self, alertname: str) -> Finding | None:
        """Return a finding that says with evidence that this is not so."""
        return next((f for f in self._of(alertname) if f.verdict is OK and f.conclusive), None)

    def _of(self, alertname: str) -> list[Finding]:
        own = dict(self.finding.subject)
        return [
            f for f in self.near if f.alertname == alertname
            and ("engine" not in dict(f.subject) or dict(f.subject) == own)
        ]  # fmt: skip

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """That of the launch, an empty one where it is not known."""
        return fingerprint_in(self.around.facts)

    @cached_property
    def factors(self) -> dict[str, str]:
        """The factors of the launch by name, as they are shown."""
        return {factor.name: factor.shown for factor in self.fingerprint.factors}

    @cached_property
    def match(self) -> Match | None:
        """The launch of the same pair that was seen healthy, or the most like one."""
        return matched(self.around.proven, self.around.facts, self.around.start)

    @cached_property
    def onset(self) -> tuple[float, float] | None:
        """Between which times it began, on the timeline."""
        told = self.said.evidence.get("onset")
        pair = [number(x) for x in told] if isinstance(told, (list, tuple)) else []
        return (pair[0], pair[1]) if len(pair) == 2 and None not in pair else None  # type: ignore[return-value]

    def changed(self, *kinds: str) -> list[Event]:
        """Return what changed near its onset, of these kinds."""
        if self.onset is None:
            return []
        first, last = self.onset
        engine = key_of(self.finding.subject)
        return [
            e for e in self.around.changes.events if e.kind in kinds and e.engine in ("", engine)
            and e.at >= first - NEAR and e.after <= last + NEAR
        ]  # fmt: skip

    @property
    def began_with_a_start(self) -> bool:
        """Whether a restart near its onset may have begun it."""
        return bool(self.changed(RESTART))

    @property
    def began_without_a_start(self) -> bool:
        """Whether restarts were watched over all of its onset, and there was none."""
        if self.onset is None or self.changed(RESTART, GAP):
            return False
        since, lost = dict(self.around.changes.since), dict(self.around.changes.lost)
        first, last = self.onset
        return since.get(RESTART, math.inf) < first and lost.get(RESTART, last) >= last

    @cached_property
    def restarts_since(self) -> list[Event]:
        """Return the restarts after its onset: it was found in a process that is gone."""
        engine = key_of(self.finding.subject)
        return [
            e for e in self.around.changes.events if e.kind == RESTART
            and e.engine in ("", engine) and self.onset is not None
            and e.after > self.onset[1] + NEAR
        ]  # fmt: skip

    @property
    def dead_again(self) -> float | None:
        """What position 0 accepts since such a restart, a share, where that is dead too."""
        drafts = self.level(s.DRAFTS)
        if not self.restarts_since or drafts < FEWEST or self.finding.alertname != COLLAPSED:
            return None
        share = self.level(s.POSITIONS[0]) / drafts
        return share if share < DEAD else None

    def ago(self, at: float) -> str:
        """Say how long ago a time of the timeline is."""
        return f"{w.span(max(0.0, self.around.now - at))} ago"

    def level(self, name: str) -> float:
        """Return what a counter of the engine shows: since its process started."""
        return self.around.levels.get(name, 0.0)

    @property
    def ran_for(self) -> float | None:
        """Seconds from the process's start to the earliest onset, where both are known."""
        if self.onset is None or self.around.start is None:
            return None
        return max(0.0, self.onset[0] - self.around.start)

    @property
    def first_tokens(self) -> float:
        """Requests that began since the process started."""
        return self.level(s.FIRST_TOKENS)
