"""A probe that fails beside a page that was read: its own blindness, and no word on the server."""

from __future__ import annotations

import pytest

from tests.telling_stories import TARGET, Engine, Story, shares
from watchdog.domain.report import Report
from watchdog.domain.sample import Reading


def beside(story: Story, *, answered: bool) -> Report:
    """One round in which the page is read and the launch probe fails."""
    story.now += story.interval
    samples = tuple(x for engine in story.engines for x in engine.samples())
    readings = [
        Reading("vllm_metrics", TARGET, samples, {"format": "text"}),
        Reading("launch", TARGET, error="still reading after 30 s", answered=answered),
    ]
    story.report = story.assessor.assess(readings, story.now)
    return story.report


@pytest.mark.parametrize("answered", [True, False])
def test_a_probe_that_fails_for_ever_is_blind_and_the_server_is_not_down(*, answered: bool) -> None:
    engine = Engine()
    story = Story([engine])
    for _ in range(40):
        engine.draft(500, shares(500, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2), requests=2)
        beside(story, answered=answered)
    assert story.fired() == {"WatchdogBlind"}
    assert story.verdict("ServingDown") == "OK"
    assert story.verdict("SpecDecodeCollapsed") == "OK"


@pytest.mark.parametrize("answered", [True, False])
def test_a_stall_is_found_beside_a_probe_that_fails(*, answered: bool) -> None:
    engine = Engine()
    story = Story([engine])
    for i in range(40):
        if i < 20:
            engine.draft(500, shares(500, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2), requests=2)
        beside(story, answered=answered)
    assert "ServingStalled" in story.fired()


@pytest.mark.parametrize("answered", [True, False])
def test_an_engine_that_is_gone_is_forgotten_beside_a_probe_that_fails(*, answered: bool) -> None:
    first, second = Engine(), Engine(name="1")
    story = Story([first, second])
    for _ in range(10):
        first.draft(500, shares(500, 0.8), requests=2)
        second.draft(500, shares(500, 0.05), requests=2)
        beside(story, answered=answered)
    assert "SpecDecodeCollapsed" in story.fired()
    story.engines = [first]
    for _ in range(260):
        beside(story, answered=answered)
    assert "SpecDecodeCollapsed" not in story.fired()


def test_a_page_that_makes_no_sense_beside_a_hanging_probe_is_not_a_silent_server() -> None:
    story = Story([Engine()])
    for _ in range(20):
        story.now += 15
        readings = [
            Reading("vllm_metrics", TARGET, error="no vllm: series"),
            Reading("launch", TARGET, error="still reading", answered=False),
        ]
        story.report = story.assessor.assess(readings, story.now)
    assert "ServingDown" not in story.fired()
