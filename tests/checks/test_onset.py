"""Between which times it began: what every bad finding about a drafter knows."""

from __future__ import annotations

import pytest

from tests.restarting import RestartingStory
from tests.telling_stories import Engine, Story, shares
from watchdog.domain.profile import Profile

HEALTHY = (0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
DEAD = (0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
CLAIMS = Profile(speculation=True, method="eagle3", depth=7, acceptance_length=4.0)
LOW = (0.3, 0.1, 0.05, 0.03, 0.02, 0.01, 0.01)
STEEP = (0.8, 0.6, 0.5, 0.02, 0.01, 0.0, 0.0)

COLLAPSED, DEGRADED = "SpecDecodeCollapsed", "SpecDecodeDegraded"


def live(story: Story, rounds: int, ratios: tuple[float, ...], tokens: float | None = None) -> None:
    for _ in range(rounds):
        for engine in story.engines:
            engine.draft(400, shares(400, *ratios), requests=4, tokens=tokens)
        story.round()


def restart(story: Story, idle: int = 0) -> None:
    for engine in story.engines:
        engine.restart()
    story.start = story.now
    for _ in range(1 + idle):
        story.round()


def onset(story: Story, alertname: str) -> list[float]:
    """Seconds before now; fails where the finding is not bad."""
    found = story.finding(alertname)
    assert found is not None
    assert found.verdict.name in ("WARNING", "CRITICAL")
    told: list[float] = found.argument.evidence["onset"]  # type: ignore[assignment]
    return [story.now - at for at in told]


def first_suspect(story: Story, alertname: str) -> str:
    found = story.finding(alertname)
    assert found is not None
    return found.argument.suspects[0]


def test_a_drafter_died_between_its_last_healthy_window_and_the_alarm() -> None:
    story = Story([Engine()])
    live(story, 100, HEALTHY)
    live(story, 10, DEAD)
    began, raised = onset(story, COLLAPSED)
    assert began == 11 * 15  # the last healthy window may hold some of it already
    assert 0 < raised < began
    live(story, 100, DEAD)
    assert onset(story, COLLAPSED) == [began + 1500, raised + 1500]


def test_it_may_have_died_at_a_restart_after_which_it_was_idle_for_long() -> None:
    story = Story([Engine()])
    live(story, 100, HEALTHY)
    restart(story, idle=400)
    live(story, 5, DEAD)
    assert onset(story, COLLAPSED)[0] > 6000
    assert ": restarted 101 min ago" in first_suspect(story, COLLAPSED)


def test_a_restart_while_it_is_dead_is_not_when_it_died() -> None:
    story = Story([Engine()])
    live(story, 1000, HEALTHY)
    live(story, 40, DEAD)
    began = onset(story, COLLAPSED)
    restart(story)
    live(story, 40, DEAD)
    assert onset(story, COLLAPSED) == [at + 41 * 15 for at in began]
    assert "changed near its onset" not in first_suspect(story, COLLAPSED)


def test_a_drafter_that_was_dead_when_first_seen_is_known_only_since_then() -> None:
    story = Story([Engine()])
    for _ in range(10):
        story.round()
    live(story, 5, DEAD)
    assert onset(story, COLLAPSED)[0] == 15 * 15
    found = story.finding(COLLAPSED)
    assert found is not None
    assert found.argument.suspects[-1].startswith("a change that was not seen: it began")
    assert "known changed" not in str(found.argument.ruled_out)


def test_one_that_died_again_died_after_it_had_healed() -> None:
    story = Story([Engine()])
    live(story, 50, DEAD)
    live(story, 50, HEALTHY)
    live(story, 5, DEAD)
    assert onset(story, COLLAPSED)[0] == 6 * 15


def test_half_a_healing_does_not_move_it() -> None:
    story = Story([Engine()])
    live(story, 100, HEALTHY)
    live(story, 50, DEAD)
    began = onset(story, COLLAPSED)
    for _ in range(2):
        story.engines[0].draft(50, shares(50, *HEALTHY))
        story.round()
    assert onset(story, COLLAPSED) == [at + 2 * 15 for at in began]


def test_a_whole_healing_moves_it_even_by_drafts_that_are_hardly_healthy() -> None:
    story = Story([Engine()])
    live(story, 50, DEAD)
    live(story, 1, (0.35, *DEAD[1:]))  # healed, while the score still leans towards death
    assert story.verdict(COLLAPSED) in ("OK", "UNKNOWN", "thin")
    live(story, 5, DEAD)
    assert onset(story, COLLAPSED)[0] <= 6 * 15


def test_a_length_below_the_declared_one_fell_in_the_drafts_that_showed_it() -> None:
    story = Story([Engine()], CLAIMS)
    live(story, 100, HEALTHY)
    restart(story, idle=60)
    live(story, 20, LOW)
    began, raised = onset(story, DEGRADED)
    assert began == (20 + 60) * 15  # the restart, not the first drafts after it
    assert 0 < raised < 20 * 15
    assert "restarted 20 min ago" in first_suspect(story, DEGRADED)


def test_a_cliff_opened_since_the_last_block_without_one_began() -> None:
    story = Story([Engine()], CLAIMS)
    live(story, 100, HEALTHY)
    live(story, 20, STEEP)
    began, raised = onset(story, "SpecDecodeCliff")
    assert began == 25 * 15  # a block is 5 windows
    assert raised < 20 * 15


def test_drafts_became_shallow_in_the_stretch_that_showed_it() -> None:
    story = Story([Engine()], CLAIMS)
    live(story, 100, HEALTHY)
    live(story, 20, HEALTHY, tokens=800)
    began, raised = onset(story, "SpecDecodeShallowDrafts")
    assert began >= 20 * 15
    assert raised <= 20 * 15
    live(story, 100, HEALTHY, tokens=800)
    assert onset(story, "SpecDecodeShallowDrafts") == [began + 1500, raised + 1500]


def test_an_engine_ceased_to_draft_after_its_last_draft() -> None:
    story = Story([Engine()], CLAIMS)
    live(story, 100, HEALTHY)
    restart(story)
    for _ in range(10):
        story.engines[0].decode(300, requests=4)
        story.round()
    assert onset(story, "SpecDecodeNotDrafting")[0] == 11 * 15
    assert "restarted 150 s ago" in first_suspect(story, "SpecDecodeNotDrafting")


def test_an_engine_without_the_series_ceased_to_draft_before_it_was_first_seen_so() -> None:
    """However long that lasts: what changes later is not near it."""
    story = Story([Engine()], CLAIMS)
    live(story, 50, HEALTHY)
    story.engines[0].depth = 0
    restart(story)
    for _ in range(100):
        story.engines[0].decode(1, requests=1)
        story.round()
    restart(story)
    for _ in range(50):
        story.round()
    assert onset(story, "SpecDecodeNotDrafting") == [152 * 15, 151 * 15]
    assert "restarted 38 min ago" in first_suspect(story, "SpecDecodeNotDrafting")


@pytest.mark.parametrize("alertname", [COLLAPSED, DEGRADED])
def test_what_changed_is_known_after_every_round_even_if_the_process_ends(alertname: str) -> None:
    told = []
    for kind in (Story, RestartingStory):
        story = kind([Engine()], CLAIMS)
        live(story, 50, HEALTHY)
        restart(story)
        live(story, 10, DEAD if alertname == COLLAPSED else LOW)
        told.append(first_suspect(story, alertname))
    assert "changed near its onset" in told[0]
    assert told[0] == told[1]
