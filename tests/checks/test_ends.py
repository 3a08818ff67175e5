"""What ends an alert besides healthy evidence, and what must not."""

from __future__ import annotations

from dataclasses import replace

from tests.telling_stories import TARGET, Engine, Story, shares
from watchdog.domain.assess import Assessor, Watch
from watchdog.domain.history import History
from watchdog.domain.profile import Profile

DEAD = "SpecDecodeCollapsed"


def dead(engine: Engine, story: Story, rounds: int = 10) -> None:
    for _ in range(rounds):
        engine.draft(470, shares(470, 0.05, 0.01), requests=2)
        story.round()
    assert DEAD in story.fired()


def restarted(engine: Engine, story: Story) -> None:
    engine.restart()
    assert story.start is not None
    story.start += 100
    story.round()


def test_a_restart_alone_ends_nothing() -> None:
    engine = Engine()
    story = Story([engine])
    dead(engine, story)
    restarted(engine, story)
    for _ in range(20):
        story.round()

    assert story.verdict(DEAD) == "CRITICAL"
    assert DEAD in story.fired()


def test_a_restart_without_speculation_ends_it() -> None:
    engine = Engine()
    story = Story([engine])
    dead(engine, story)
    engine.depth = 0
    restarted(engine, story)
    for _ in range(8):
        engine.decode(100)
        story.round()

    assert story.verdict(DEAD) == "OK"
    assert story.fired() == set()


def test_a_restart_that_decodes_without_a_draft_ends_it_though_the_page_shows_zeros() -> None:
    engine = Engine()
    story = Story([engine], format="openmetrics")
    dead(engine, story)
    restarted(engine, story)
    engine.decode(199)
    story.round()
    short = story.verdict(DEAD)
    engine.decode(1)
    story.round()

    assert short == "CRITICAL"
    assert story.verdict(DEAD) == "thin"


def reloaded(story: Story, profile: Profile) -> None:
    """As the daemon does at SIGHUP."""
    old = story.assessor
    watch = Watch(History(TARGET, profile), old.watches[TARGET].checks)
    story.assessor = Assessor("host", "0", {TARGET: watch})
    story.assessor.take_over(old)


def test_a_reload_ends_what_is_no_longer_declared_and_nothing_else() -> None:
    engine = Engine()
    story = Story([engine], Profile(True, "dflash", 7))
    dead(engine, story)
    for _ in range(20):
        engine.decode(100)
        story.round()
    assert story.fired() == {DEAD, "SpecDecodeNotDrafting"}

    reloaded(story, replace(story.profile, speculation=None, depth=None))
    story.round()

    assert story.fired() == {DEAD}


def test_a_reload_that_declares_ngram_calls_nothing_dead() -> None:
    engine = Engine()
    story = Story([engine])
    dead(engine, story)

    reloaded(story, Profile(True, "ngram"))
    engine.draft(470, shares(470, 0.05, 0.01), requests=2)
    story.round()

    assert story.verdict(DEAD) == "OK"


def stalled(cut_every: int) -> list[set[str]]:
    """Requests run, no token comes, and each nth page is cut."""
    engine = Engine()
    engine.running, engine.waiting = 3, 5
    story = Story([engine])
    seen = []
    for i in range(1, 60):
        if i % cut_every:
            story.round()
        else:
            story.fail("was cut", answered=True)
        seen.append(story.fired())
    return seen


def test_cut_pages_neither_hide_a_stall_nor_resolve_it() -> None:
    seen = stalled(cut_every=5)

    first = next(i for i, names in enumerate(seen) if "ServingStalled" in names)
    assert first <= 10
    assert all("ServingStalled" in names for names in seen[first:])


def test_a_day_of_death_is_not_told_again_by_the_declared_length_when_it_is_healed() -> None:
    engine = Engine()
    story = Story([engine], Profile(method="eagle3", acceptance_length=3.4), interval=900.0)
    fired: set[str] = set()
    for round_ in range(400):
        if round_ == 200:
            restarted(engine, story)
        share = 0.01 if 100 <= round_ < 200 else 0.8
        engine.draft(4500, shares(4500, *(share**i for i in range(1, 8))), requests=60)
        story.round()
        fired |= story.fired()
    assert fired == {DEAD}
    assert story.verdict("SpecDecodeDegraded") == "OK"
