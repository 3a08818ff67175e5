"""Ties the store to the rounds: a successor goes on, curves are drawn, odd files cost nothing."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.restarting import fresh
from tests.telling_stories import TARGET, Engine, Story, shares
from watchdog.clock import Clock
from watchdog.keeping import Keeper

DEAD = (0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def dead(story: Story, keeper: Keeper, rounds: int = 4) -> Story:
    """Rounds with a dead drafter, each kept."""
    for _ in range(rounds):
        story.engines[0].draft(400, shares(400, *DEAD), requests=4)
        report = story.round()
        keeper.keep(story.assessor, report, ["hook"])
    return story


@pytest.fixture
def story() -> Story:
    return Story([Engine()], now=Clock().now())


def test_a_successor_goes_on_with_the_alert_the_time_and_the_notice(
    story: Story, tmp_path: Path
) -> None:
    first = Keeper(tmp_path, Clock())
    dead(story, first)
    [alert] = story.report.alerts
    first.close()
    clock = Clock()
    second = Keeper(tmp_path, clock)
    successor = fresh(story.assessor)
    second.recall(successor)
    assert [a.fired_at for a in successor.book.alerts()] == [alert.fired_at]
    assert second.store.waiting("hook") == 1
    notice = json.loads(second.store.first("hook").body)  # type: ignore[union-attr]
    assert notice["alert"]["labels"]["alertname"] == "SpecDecodeCollapsed"
    second.close()


def test_the_curves_of_the_last_day_come_back(story: Story, tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, Clock())
    dead(story, keeper, rounds=9)
    keeper.close()
    again = Keeper(tmp_path, Clock())
    [(engine, points)] = again.curves().items()
    assert dict(engine)["target"] == TARGET
    assert [(p.seconds, p.drafts) for p in points] == [(60.0, 1600.0), (60.0, 1600.0)]
    again.close()


def test_curves_are_made_anew_only_when_a_stretch_has_ended(story: Story, tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, Clock())
    dead(story, keeper, rounds=4)
    first = keeper.curves()
    dead(story, keeper, rounds=1)
    assert keeper.curves() is first
    dead(story, keeper, rounds=3)
    assert keeper.curves() is not first
    keeper.close()


def test_a_pause_between_two_rounds_is_kept_and_counts_no_window_twice(
    story: Story, tmp_path: Path
) -> None:
    keeper = Keeper(tmp_path, Clock())
    dead(story, keeper, rounds=3)
    story.assessor.book.pause(TARGET, story.now + 900)
    keeper.keep_between(story.assessor)
    dead(story, keeper, rounds=1)
    [[point]] = keeper.curves().values()
    assert point.drafts == 1600.0
    keeper.close()
    successor = fresh(story.assessor)
    again = Keeper(tmp_path, Clock())
    again.recall(successor)
    assert successor.book.pauses == {TARGET: pytest.approx(story.now - story.interval + 900)}
    again.close()


@pytest.mark.parametrize("mark", ['{"now": "noon"}', "[]", "null", "{}"])
def test_rows_whose_time_makes_no_sense_are_not_used_and_the_daemon_starts(
    story: Story, tmp_path: Path, mark: str
) -> None:
    first = Keeper(tmp_path, Clock())
    dead(story, first)
    first.close()
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        db.execute("UPDATE kept SET body = ? WHERE name = 'clock'", (mark,))
        db.commit()
    again = Keeper(tmp_path, Clock())
    successor = fresh(story.assessor)
    again.recall(successor)
    assert successor.book.everything() == ()
    again.close()


def test_an_hour_in_which_the_page_could_not_be_read_is_a_gap_in_the_curve(
    story: Story, tmp_path: Path
) -> None:
    keeper = Keeper(tmp_path, Clock())
    dead(story, keeper, rounds=6)
    unread_from = story.now
    for _ in range(240):
        keeper.keep(story.assessor, story.fail(), [])
    read_again = story.now + story.interval
    dead(story, keeper, rounds=6)
    [points] = keeper.curves().values()
    keeper.close()
    spans = [(point.at - point.seconds, point.at) for point in points]
    assert all(end <= unread_from or begin >= read_again for begin, end in spans)
    assert any(end == unread_from for _, end in spans)  # as far as was read


def test_rows_that_crash_us_are_not_used_and_the_daemon_starts(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Keeper(tmp_path, Clock())
    dead(story, first)
    first.close()
    again = Keeper(tmp_path, Clock())
    successor = fresh(story.assessor)
    monkeypatch.setattr(successor, "take_over", lambda _: 1 / 0)
    again.recall(successor)
    assert successor.book.everything() == ()
    again.close()
