"""What a check concludes, and how it argues."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final

from watchdog.domain.sample import Labels


class Verdict(enum.IntEnum):
    """Nagios' four words; the number is the exit code of `watchdog check`."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


OK: Final = Verdict.OK
"""Asked for most: Python 3.11 finds a member of an enum by a function of its own."""

_ORDER = (Verdict.OK, Verdict.UNKNOWN, Verdict.WARNING, Verdict.CRITICAL)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst: OK < UNKNOWN < WARNING < CRITICAL; OK of none."""
    return max(verdicts, key=_ORDER.index, default=Verdict.OK)


NO_EVIDENCE: Mapping[str, object] = MappingProxyType({})


FOR_MACHINES: Final = frozenset({"onset", "changed", "compared_at", "ledger"})
"""Evidence in times of the timeline: people are told the same in ages, among the suspects."""


@dataclass(frozen=True)
class Argument:
    """
    Why a finding says what it says.

    `summary` is one sentence that a tired person understands; `expected` the limit in words;
    `evidence` the numbers; `ruled_out` what was looked at and is not the cause, and how;
    `suspects` ranked causes; `next_step` one command or one action.
    """

    summary: str
    expected: str = ""
    evidence: Mapping[str, object] = field(default_factory=lambda: NO_EVIDENCE)
    ruled_out: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    next_step: str = ""


@dataclass(eq=False)
class Finding:
    """
    One check's verdict on one subject in one round; not changed once a check has returned it.

    `conclusive` False: too little evidence; the verdict is then OK and the alert book takes
    the finding as blind. The text is made by `argue` when somebody reads it, not before:
    most findings of most rounds are never read. `argue` therefore closes over values that
    do not change. While nothing moves the same finding is said again, of the newest round.
    """

    alertname: str
    subject: Labels
    verdict: Verdict
    argue: Callable[[], Argument]
    conclusive: bool = True
    value: float | None = None
    unit: str = ""
    check: str = ""  # stamped by the assessor: a check does not know its own name

    @cached_property
    def argument(self) -> Argument:
        """The text and the numbers, made once."""
        return self.argue()

    def forget_words(self) -> None:
        """Have them made anew: they are about a later round."""
        self.__dict__.pop("argument", None)

    @property
    def identity(self) -> tuple[str, Labels]:
        """What makes it the same finding tomorrow: never its value or its words."""
        return (self.alertname, self.subject)
