"""The middle of a round: a check that crashes costs itself alone, and is told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from tests.restarting import fresh, restarted
from tests.telling_stories import TARGET, Engine, Story, shares
from watchdog.domain.assess import Assessor
from watchdog.domain.finding import Verdict
from watchdog.domain.history import Window
from watchdog.domain.profile import Profile


@dataclass
class Crashing:
    """A check of ours that has a bug: it cannot count to three."""

    about: ClassVar[str] = "engine"

    def step(
        self, state: int | None, window: object, now: float
    ) -> tuple[int, list[Any]]:  # a check's way, with nothing to find
        del window, now
        if state == 2:
            raise ZeroDivisionError("at three")
        return (state or 0) + 1, []


def told() -> Story:
    story = Story([Engine()])
    watch = story.assessor.watches[TARGET]
    watch.checks = {"crashing": Crashing(), **watch.checks}
    return story


def test_a_check_that_crashes_begins_anew_is_blindness_and_costs_the_others_nothing() -> None:
    story = told()
    verdicts = []
    for _ in range(4):
        story.round()
        blind = [f for f in story.report.findings if ("probe", "crashing") in f.subject]
        verdicts.append([f.verdict.name for f in blind])
        assert {"serving", "acceptance_length"} <= {f.check for f in story.report.findings}
    assert verdicts == [[], [], ["UNKNOWN"], ["OK"]]


def test_what_is_said_of_a_crash_names_the_check_and_that_the_fault_is_ours() -> None:
    story = told()
    for _ in range(3):
        story.round()
    [said] = [f for f in story.report.findings if ("probe", "crashing") in f.subject]
    assert "the check crashing: our own fault: ZeroDivisionError: at three" in said.argument.summary


def test_an_alert_about_a_crash_ends_with_the_process_that_crashed() -> None:
    story = told()
    watch = story.assessor.watches[TARGET]
    watch.checks["crashing"].step = lambda *_: 1 / 0  # type: ignore[index,method-assign,assignment,union-attr]
    for _ in range(25):
        story.engines[0].decode(10)
        story.round()
    assert story.fired() == {"WatchdogBlind"}
    del watch.checks["crashing"]  # type: ignore[attr-defined]
    story.assessor = restarted(story.assessor, story.now)
    story.round()
    assert story.fired() == set()


def test_a_round_of_a_recording_that_lacks_a_source_ends_no_blindness_about_it() -> None:
    story = Story([Engine()])
    for _ in range(25):
        story.fail("makes no sense", answered=True)
    assert "WatchdogBlind" in story.fired()
    story.report = story.assessor.assess([], story.now + 15)
    assert "WatchdogBlind" in story.fired()
    assert story.report.changes == ()


@dataclass
class Listening:
    """A check that hears what those before it doubt."""

    heard: list[dict[str, Verdict]]
    about: ClassVar[str] = "engine"

    def step(self, state: None, window: Window, now: float) -> tuple[None, list[Any]]:
        del now
        self.heard.append(dict(window.doubts))
        return state, []


def test_a_check_hears_what_those_before_it_found_not_ok_of_its_own_engine() -> None:
    story = Story([Engine(), Engine(name="1")])
    heard: list[dict[str, Verdict]] = []
    watch = story.assessor.watches[TARGET]
    watch.checks = {**watch.checks, "listening": Listening(heard)}
    for _ in range(2):
        for engine, share in zip(story.engines, (0.02, 0.7), strict=True):
            engine.draft(2000, shares(2000, *(share * 0.8**i for i in range(7))), requests=10)
        story.round()
    assert heard[-2:] == [{"SpecDecodeCollapsed": Verdict.CRITICAL}, {}]


def degraded(profile: Profile) -> Story:
    """Three days of healthy drafts and two of weak ones, looked at every three hours."""
    story = Story([Engine()], profile, limits={"baseline": {"min_days": 2}})
    for i in range(5 * 8):
        share = 0.6 if i < 3 * 8 else 0.3
        story.engines[0].draft(9000, shares(9000, *[share] * 7), requests=60)
        story.round(10_800)
    return story


def without_declaration(story: Story) -> Assessor:
    """A reload after which nothing is declared of the acceptance length."""
    successor = fresh(story.assessor)
    history = successor.watches[TARGET].history
    history.profile = replace(history.profile, acceptance_length=None)
    successor.take_over(story.assessor)
    return successor


def test_what_the_baseline_found_stands_over_a_restart_and_a_reload() -> None:
    story = degraded(Profile(method="eagle"))
    assert story.fired() == {"SpecDecodeDegraded"}
    for successor in (restarted(story.assessor, story.now), without_declaration(story)):
        story.assessor = successor
        story.round()
        assert story.fired() == {"SpecDecodeDegraded"}
        assert story.report.changes == ()


def test_what_stood_on_a_declared_length_ends_with_the_declaration() -> None:
    story = Story([Engine()], Profile(method="eagle", acceptance_length=6.0))
    for _ in range(2):
        story.engines[0].draft(9000, shares(9000, *[0.3] * 7), requests=60)
        story.round()
    assert story.fired() == {"SpecDecodeDegraded"}
    story.assessor = without_declaration(story)
    story.round()
    assert story.fired() == set()


def test_what_was_learned_of_a_model_is_known_when_it_comes_back() -> None:
    """Another model for two hours; the rest of what was known of the first is forgotten."""
    story = Story([Engine()], limits={"baseline": {"min_days": 2}})
    first = story.engines[0]
    for _ in range(3 * 8):
        first.draft(9000, shares(9000, *[0.6] * 7), requests=60)
        story.round(10_800)
    story.engines = [Engine(name="other")]
    for _ in range(3):
        story.round(3000)
    watch = story.assessor.watches[TARGET]
    assert first.subject not in watch.states
    assert list(watch.shelf[first.subject]) == ["baseline"]
    story.assessor = restarted(story.assessor, story.now)
    story.round()
    first.restart()
    story.engines = [first]
    story.round()
    watch = story.assessor.watches[TARGET]
    assert len(watch.states[first.subject]["baseline"].baseline.days) == 3
    assert watch.shelf.keys() == set()


@pytest.mark.parametrize("others", [12, 1])
def test_what_was_learned_of_many_engines_is_known_when_all_come_back(others: int) -> None:
    engines = [Engine(name=str(i)) for i in range(12)]
    story = Story(engines)
    for engine in engines:
        engine.draft(90, shares(90, *[0.6] * 7))
    story.round()
    story.engines = [Engine(name=f"other {i}") for i in range(others)]
    for _ in range(3):
        story.round(3000)
    story.assessor = restarted(story.assessor, story.now)
    story.round()
    shelf = story.assessor.watches[TARGET].shelf
    assert shelf.keys() == {engine.subject for engine in engines}


def test_a_page_with_many_names_does_not_fill_the_memory() -> None:
    story = Story([Engine()])
    for i in range(40):
        story.engines = [Engine(name=f"e{i}")]
        story.engines[0].draft(90, shares(90, *[0.6] * 7))
        story.round()
        story.engines[0].draft(90, shares(90, *[0.6] * 7))
        story.round(3700)
        story.round()  # nothing moved: what was said of it is kept to be said again
    [watch] = story.assessor.watches.values()
    assert len(watch.shelf) <= 8
    assert len(watch._told) <= 2
