"""
What is said again while nothing moves: most windows of most engines are like the last one.

A check says until when a window in which nothing moves leaves its state and its verdicts as they
are (`alike_until`). While that holds of all checks of an engine none is asked: their findings stay,
and the words, whose ages grow, are worked out when somebody reads them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from watchdog.domain.finding import Argument, Finding
from watchdog.domain.history import Window


class Stepping(Protocol):
    """A check, as far as it matters here."""

    def step(self, state: Any, window: Window, now: float) -> tuple[Any, list[Finding]]:
        """Judge one window."""
        ...


@dataclass
class Told:
    """
    What the checks of one engine said of a window in which nothing moved, and until when it holds.

    `states` are what they left; `found` is one list, whose findings speak of `window` at `now`.
    """

    checks: Mapping[str, Stepping]
    states: list[Any]
    found: list[Finding]
    window: Window
    now: float
    until: float

    def holds(self, states: Mapping[str, Any], now: float) -> bool:
        """Whether nothing but the time is another; an operator's word changes a state, say."""
        return now < self.until and self.states == list(states.values())

    def again(self, window: Window, now: float) -> list[Finding]:
        """Say the same of the next window."""
        self.window, self.now = window, now
        for finding in self.found:
            finding.forget_words()
        return self.found

    def argued(self, name: str, state: Any, which: int) -> Argument:
        """Work out the words of a check's finding, by its number, for the newest window."""
        return self.checks[name].step(state, self.window, self.now)[1][which].argument


def told(
    checks: Mapping[str, Stepping], states: Mapping[str, Any], found: list[Finding],
    window: Window, now: float,
) -> Told:  # fmt: skip
    """Keep what checks said of a window in which nothing moved."""
    until = min((_alike_until(c, states.get(name)) for name, c in checks.items()), default=math.inf)
    kept = Told(checks, list(states.values()), found, window, now, until)
    if now < until:
        which: dict[str, int] = {}
        for finding in found:
            name = finding.check
            which[name] = which.get(name, -1) + 1
            finding.argue = partial(kept.argued, name, states.get(name), which[name])
    return kept


def for_ever(check: object, state: object) -> float:
    """Say that a still window leaves state and verdicts as they are: a check's `alike_until`."""
    del check, state
    return math.inf


def _alike_until(check: Stepping, state: Any) -> float:
    """A check that has no word on it counts silence, and is asked each time."""
    alike_until = getattr(check, "alike_until", None)
    return -math.inf if alike_until is None else float(alike_until(state))
