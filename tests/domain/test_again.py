"""What is said again while nothing moves is what a check would say if it were asked."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.telling_stories import Engine, Story, shares
from watchdog.domain.profile import Profile
from watchdog.domain.report import as_json

HEALTHY, DEAD = (0.85, 0.70, 0.55, 0.45, 0.36, 0.30, 0.25), (0.05,)
DECLARED = Profile(speculation=True, method="dflash", depth=7, acceptance_length=3.0)
WEAK = Profile(speculation=True, acceptance_length=6.0)


class Asking(Story):
    """A story whose checks are asked of every window."""

    def round(self, seconds: float | None = None) -> Any:
        [watch] = self.assessor.watches.values()
        watch._told.clear()
        return super().round(seconds)


def happens(engine: Engine, story: Story, chance: random.Random) -> None:
    """Some windows in which it drafts, and more in which nothing moves, with or without work."""
    ratios = chance.choice([HEALTHY, HEALTHY, DEAD])
    for _ in range(chance.randrange(12)):
        engine.draft(100, shares(100, *ratios), step=chance.choice([0.02, 0.05]))
        story.round()
    if chance.random() < 0.1:
        engine.restart()
    if chance.random() < 0.1:
        story.fail()
    engine.running = float(chance.random() < 0.2)


@pytest.mark.parametrize("profile", [Profile(), DECLARED, WEAK], ids=["", "declared", "weak"])
@pytest.mark.parametrize("seed", range(4))
def test_a_report_says_the_same_as_if_every_check_had_been_asked(
    seed: int, profile: Profile
) -> None:
    limits = {"acceptance_length": {"max_age": 200.0}}
    stories = [kind([Engine(running=0)], profile, limits=limits) for kind in (Story, Asking)]
    chances = [random.Random(seed), random.Random(seed)]
    for _ in range(25):
        still = chances[0].choice([1, 3, 30])
        chances[1].choice([1, 3, 30])
        for story, chance in zip(stories, chances, strict=True):
            happens(story.engines[0], story, chance)
        for _ in range(still):
            told, asked = (as_json(story.round()) for story in stories)
            assert told == asked
    kept = [next(iter(story.assessor.watches.values())).states for story in stories]
    assert kept[0] == kept[1]


def test_a_check_is_asked_of_the_first_still_window_alone() -> None:
    asked = []
    story = Story([Engine(running=0)], DECLARED)
    [watch] = story.assessor.watches.values()
    check = watch.checks["draft_shape"]

    class Spy:
        about, alike_until = check.about, staticmethod(check.alike_until)  # type: ignore[attr-defined]

        def step(self, state: Any, window: Any, now: float) -> Any:
            asked.append(now)
            return check.step(state, window, now)

    watch.checks = {**watch.checks, "draft_shape": Spy()}
    for moves, is_asked in ((True, True), (False, True), (False, False), (True, True)):
        if moves:
            story.engines[0].draft(100, shares(100, *HEALTHY))
        asked.clear()
        story.round()
        assert bool(asked) == is_asked


def test_another_state_profile_or_fact_is_news_to_a_check() -> None:
    """A baseline that was reset, a config that was loaded anew."""
    story = Story([Engine(running=0)], DECLARED)
    [watch] = story.assessor.watches.values()
    story.engines[0].draft(100, shares(100, *HEALTHY))
    for _ in range(4):
        story.round()
    before = watch.states[story.engines[0].subject]["declared_length"]
    watch.states[story.engines[0].subject]["declared_length"] = before._replace(low="now")
    story.round()
    assert story.verdict("SpecDecodeDegraded") == "WARNING"
    watch.states[story.engines[0].subject]["declared_length"] = before
    for _ in range(2):
        story.round()
    assert story.verdict("SpecDecodeDegraded") == "thin"
    watch.history.profile = replace(DECLARED, acceptance_length=None)
    story.round()
    assert not [f for f in story.report.findings if f.check == "declared_length"]
