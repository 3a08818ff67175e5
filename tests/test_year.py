"""Judging is quick enough to replay a year, and what checks keep can be stored as plain numbers."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.telling_stories import Engine, Story, shares
from watchdog.domain.finding import Verdict
from watchdog.domain.profile import Profile

HEALTHY = (0.85, 0.70, 0.55, 0.45, 0.36, 0.30, 0.25)
DECLARED = Profile(speculation=True, method="dflash", depth=7, acceptance_length=3.0)


@pytest.mark.parametrize(
    ("busy_every", "at_most"), [(10**9, 500e-6), (1, 2000e-6)], ids=["idle", "busy"]
)
def test_windows_are_judged_within_a_loose_bound(busy_every: int, at_most: float) -> None:
    """Ten times what it takes on a slow machine; `bench/` has the figures."""
    engine = Engine(running=0)
    story = Story([engine], DECLARED)
    windows, ratios = 10_000, shares(100, *HEALTHY)
    began = time.process_time()
    for i in range(windows):
        if i % busy_every == 0:
            engine.draft(100, ratios)
        story.round()
    spent = (time.process_time() - began) / windows
    assert spent < at_most
    assert story.report.verdict is Verdict.OK


def test_nothing_grows_with_the_length_of_a_life() -> None:
    """What the checks keep after two months of mixed traffic is as large as after one."""
    engine = Engine(running=0)
    story = Story([engine], DECLARED, interval=300.0)

    def kept(rounds: int) -> int:
        for i in range(rounds):
            if i % 3 == 0:
                engine.draft(100 + i % 50, shares(100, *HEALTHY), step=0.02 + 0.001 * (i % 7))
            if i % 500 == 0:
                engine.restart()
            story.round()
        return len(json.dumps(list(_states(story).values())))

    after_a_month = kept(8640)
    assert kept(8640) < 1.05 * after_a_month


def _states(story: Story) -> dict[str, Any]:
    [watch] = story.assessor.watches.values()
    return {f"{n} {about}": s for about, by in watch.states.items() for n, s in by.items()}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def test_every_state_is_plain_numbers_that_survive_json() -> None:
    """Nested tuples of numbers, words and None; floats come back to the last bit."""
    engine = Engine(running=1)
    story = Story([engine], DECLARED, interval=60.0)
    for i in range(3000):
        dead = 1000 < i < 1500
        at = shares(100 / 3, *(0.05,) if dead else HEALTHY)
        if i not in range(2000, 2010):
            engine.draft(100 / 3, at, step=0.03 if i < 1800 else 0.09)
        if i in (700, 2500):
            engine.restart()
        if i % 900 == 0:
            story.fail()
        story.round()
    states = _states(story)
    assert len(states) == 13
    for name, state in states.items():
        again = _tuples(json.loads(json.dumps(state)))
        assert again == state, name
        assert json.dumps(again) == json.dumps(state)
