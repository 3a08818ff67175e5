"""A restart without speculation is a remedy: what ailed the drafter is over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.telling_stories import Engine, Story, shares
from watchdog.domain.profile import Profile

HEALTHY = (0.8, 0.6, 0.45, 0.35, 0.28, 0.22, 0.17)
WEAK = (0.4, 0.3, 0.22, 0.17, 0.14, 0.11, 0.08)
DEAD = (0.05, 0.008, 0.0, 0.0, 0.0, 0.0, 0.0)

ILLS: dict[str, tuple[Sequence[float], float, float]] = {
    # positions, draft tokens per draft, tokens generated beyond what the counters explain
    "SpecDecodeCollapsed": ((0.05,), 7, 0),
    "SpecDecodeDegraded": ((0.5, 0.1), 7, 0),
    "SpecDecodeCliff": ((0.8, 0.7, 0.6, 0.5, 0.0, 0.0, 0.0), 7, 0),
    "SpecDecodeShallowDrafts": ((0.8, 0.7, 0.6), 3, 0),
    "SpecDecodeCountersInconsistent": ((0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2), 7, 900),
}


def ill(name: str) -> Story:
    """Tell the ill for 75 minutes."""
    positions, tokens, more = ILLS[name]
    engine = Engine()
    story = Story([engine], Profile(depth=7, acceptance_length=3.5))
    for _ in range(300):
        engine.draft(500, shares(500, *positions), tokens=500 * tokens, requests=2)
        engine.add(generated_tokens=more)
        story.round()
    assert name in story.fired()
    return story


@pytest.mark.parametrize("name", ILLS)
def test_switching_speculation_off_ends_its_alerts(name: str) -> None:
    story = ill(name)
    [engine] = story.engines
    engine.depth = 0
    engine.restart()
    for _ in range(260):
        engine.decode(450, requests=2)
        story.round()
    assert not story.fired()


@pytest.mark.parametrize("name", ILLS)
def test_a_restart_that_keeps_it_on_is_no_evidence_by_itself(name: str) -> None:
    story = ill(name)
    [engine] = story.engines
    engine.restart()
    engine.running = 0
    for _ in range(260):
        story.round()
    assert name in story.fired()


def test_the_rust_frontend_makes_its_series_late_and_that_resolves_nothing() -> None:
    story = ill("SpecDecodeCollapsed")
    [engine] = story.engines
    story.format = "openmetrics"
    engine.depth = 0
    engine.restart()
    for _ in range(260):
        story.round()
    assert "SpecDecodeCollapsed" in story.fired()


def test_switching_speculation_off_ends_what_stands_on_a_baseline() -> None:
    """Nobody declared a length: no other check has a word on it."""
    engine = Engine()
    story = Story([engine], Profile(method="eagle"), interval=900.0)
    for positions, days in ((HEALTHY, 9), (WEAK, 2)):
        for _ in range(96 * days):
            engine.draft(400, shares(400, *positions), requests=4)
            story.round()
    assert story.fired() == {"SpecDecodeDegraded"}
    engine.depth = 0
    engine.restart()
    for _ in range(6):
        engine.decode(450, requests=2)
        story.round()
    assert not story.fired()


def test_a_dead_drafter_of_a_restart_that_was_mended_is_not_told_once_more() -> None:
    """Thirty hours dead, then well: those hours weigh nothing in the first 24 of that restart."""
    engine = Engine()
    story = Story([engine], Profile(method="eagle"), interval=900.0)
    fired: set[str] = set()
    for positions, hours in ((HEALTHY, 240), (DEAD, 30), (HEALTHY, 48)):
        fired.clear()
        for _ in range(4 * hours):
            engine.draft(400, shares(400, *positions), requests=4)
            story.round()
            fired |= story.fired()
        engine.restart()
        story.round()
        assert "SpecDecodeDegraded" not in fired
