"""The middle of a round: a check that crashes costs itself alone, and is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tests.restarting import restarted
from tests.telling_stories import TARGET, Engine, Story


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
