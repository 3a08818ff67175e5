"""One engine of eight is slowly worse: through the real rounds, a restart of it, and a mend."""

from __future__ import annotations

import pytest

from tests.restarting import RestartingStory
from tests.telling_stories import Engine, Story, shares
from watchdog.domain.profile import Profile

HEALTHY = (0.8, 0.6, 0.45, 0.33, 0.25, 0.18, 0.12)  # acceptance length 3.73
WORSE = (0.62, 0.4, 0.27, 0.18, 0.12, 0.08, 0.05)  # 2.72, no collapse and no cliff
NAME = "SpecDecodeDegraded"


def hours(story: Story, count: float, worse: str = "") -> None:
    """All engines serve for so many hours, a page every fifteen minutes."""
    for _ in range(int(count * 4)):
        for engine in story.engines:
            kept = WORSE if engine.name == worse else HEALTHY
            engine.draft(4500, shares(4500, *kept), requests=60)
        story.round()


@pytest.mark.parametrize("kind", [Story, RestartingStory])
def test_one_engine_of_eight_is_told_apart_through_its_restart(kind: type[Story]) -> None:
    engines = [Engine(name=str(i)) for i in range(8)]
    story = kind(engines, Profile(method="mtp", depth=7), interval=900.0)
    hours(story, 4)
    assert story.fired() == set()
    hours(story, 4, worse="3")
    assert story.fired() == {NAME}
    [alert] = story.report.alerts
    assert dict(alert.finding.subject)["engine"] == "3"
    assert alert.finding.check == "siblings"
    said = alert.finding.argument
    assert "of what the other 7 engines of its model reached" in said.summary
    earliest, latest = said.evidence["onset"]  # type: ignore[misc]
    assert earliest <= story.now - 4 * 3600 <= latest <= story.now

    engines[3].restart()
    hours(story, 3, worse="3")
    assert story.fired() == {NAME}  # the restart did not heal it
    engines[3].restart()
    hours(story, 2)
    assert story.fired() == {NAME}  # well again, not yet proved
    hours(story, 4)
    assert story.fired() == set()


@pytest.mark.parametrize("kind", [Story, RestartingStory])
def test_one_dead_engine_of_eight_is_one_alert_from_its_death_to_after_its_mend(
    kind: type[Story],
) -> None:
    engines = [Engine(name=str(i)) for i in range(8)]
    story = kind(engines, Profile(method="mtp", depth=7), interval=900.0)
    fired: set[str] = set()
    hours(story, 4)
    for number in range(48):
        if number == 16:
            engines[3].restart()
        for engine in engines:
            kept = (0.01,) if engine.name == "3" and number < 16 else HEALTHY
            engine.draft(4500, shares(4500, *kept), requests=60)
        story.round()
        fired |= story.fired()
    assert fired == {"SpecDecodeCollapsed"}
    assert story.fired() == set()
