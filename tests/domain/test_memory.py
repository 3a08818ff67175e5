"""A watch that ends and another that carries on: nothing is lost, nothing is told twice."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from tests.restarting import RestartingStory, fresh, kept, restarted
from tests.telling_stories import Engine, Story, shares
from watchdog.domain.alert import ABSENT, RETAIN
from watchdog.domain.memory import recall
from watchdog.domain.profile import Profile
from watchdog.domain.received import Received
from watchdog.domain.report import as_json

DEAD = (0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
HEALTHY = (0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
CLAIMS = Profile(speculation=True, method="eagle3", depth=7, acceptance_length=3.5)


def lived(story: Story, seed: int, rounds: int = 80) -> list[str]:
    """Live through good and bad phases by chance; return every report, whole."""
    chance = random.Random(seed)
    told, ratios = [], HEALTHY
    for _ in range(rounds):
        if chance.random() < 0.1:
            ratios = chance.choice((HEALTHY, DEAD))
        what = chance.random()
        if what < 0.08:
            told.append(story.fail(answered=chance.random() < 0.5))
            continue
        for engine in story.engines:
            if what > 0.97:
                engine.restart()
                story.start = story.now
            elif what < 0.8:
                drafts = chance.randrange(20, 600)
                engine.draft(drafts, shares(drafts, *ratios), requests=chance.randrange(1, 6))
            engine.waiting = float(chance.randrange(3))
        told.append(story.round())
    return [json.dumps(as_json(report), sort_keys=True) for report in told]


@pytest.mark.parametrize("seed", range(6))
def test_a_life_is_told_the_same_whether_or_not_the_process_ends_after_every_round(
    seed: int,
) -> None:
    stories = [kind([Engine(), Engine(name="1")], CLAIMS) for kind in (Story, RestartingStory)]
    through, cut = (lived(story, seed) for story in stories)
    assert cut == through
    assert any('"state": "firing"' in report for report in through)  # a life without is no test


def dead(story: Story, rounds: int = 4) -> Story:
    for _ in range(rounds):
        story.engines[0].draft(400, shares(400, *DEAD), requests=4)
        story.round()
    return story


def test_a_firing_alert_goes_on_with_its_time_and_its_argument_and_is_no_change() -> None:
    story = dead(Story([Engine()]))
    [before] = story.report.alerts
    story.assessor = restarted(story.assessor, story.now)
    dead(story, 1)
    [after] = story.report.alerts
    assert (after.fired_at, after.finding.identity) == (before.fired_at, before.finding.identity)
    assert story.report.changes == ()


def test_half_the_evidence_before_and_half_after_a_restart_raise_the_alert() -> None:
    story = Story([Engine()])
    needed = 0
    while "SpecDecodeCollapsed" not in story.fired():
        story.engines[0].draft(20, shares(20, *DEAD), requests=1)
        story.round()
        needed += 1
    again = Story([Engine()])
    for i in range(needed):
        if i == needed // 2:
            again.assessor = restarted(again.assessor, again.now)
        again.engines[0].draft(20, shares(20, *DEAD), requests=1)
        again.round()
    assert needed > 2
    assert again.fired() == {"SpecDecodeCollapsed"}


def carried_on(story: Story, away: float) -> list[str]:
    """Restart the story's watch `away` seconds later; return what the book then knows."""
    successor = fresh(story.assessor)
    assert recall(kept(story.assessor), successor, story.now + away, story.now) == []
    return [f"{alert.state.value} {alert.good_since}" for alert in successor.book.everything()]


def pending(story: Story) -> Story:
    story.fail("made no sense", answered=True)
    assert [a.finding.alertname for a in story.assessor.book.pending()] == ["WatchdogBlind"]
    return story


def test_an_alert_that_holds_still_holds_after_a_short_absence_and_not_after_a_long_one() -> None:
    story = pending(Story([Engine()]))
    assert carried_on(story, RETAIN) == ["pending None"]
    assert carried_on(story, RETAIN + 1) == []


def test_lingering_goes_on_over_a_quick_restart_and_begins_anew_after_missed_rounds() -> None:
    story = dead(Story([Engine()]))
    for _ in range(3):
        story.engines[0].draft(400, shares(400, *HEALTHY), requests=4)
        story.round()
    [alert] = story.assessor.book.everything()
    assert alert.good_since is not None
    assert carried_on(story, ABSENT) == [f"firing {alert.good_since}"]
    assert carried_on(story, ABSENT + 1) == ["firing None"]


def test_a_pause_goes_on() -> None:
    story = Story([Engine()])
    story.assessor.book.pause("qwen", story.now + 600)
    story.assessor = restarted(story.assessor, story.now)
    story.round()
    assert story.report.paused == {"qwen": story.now - story.interval + 600}


def test_alerts_of_a_target_that_is_no_longer_watched_end() -> None:
    story = dead(Story([Engine()]))
    rows = kept(story.assessor)
    successor = fresh(story.assessor)
    successor.watches = {}
    recall(rows, successor, story.now, story.now)
    [change] = successor.assess([], story.now + 15).changes
    assert (change.alert.state.value, change.why.value) == ("resolved", "gone")


def test_a_claim_that_was_withdrawn_while_we_were_away_ends_its_alert() -> None:
    story = Story([Engine(depth=0)], Profile(speculation=True, method="eagle3"))
    for _ in range(4):
        story.engines[0].decode(300, requests=4)
        story.round()
    assert story.fired() == {"SpecDecodeNotDrafting"}
    rows = kept(story.assessor)
    successor = fresh(story.assessor)
    history = successor.watches["qwen"].history
    history.profile = replace(history.profile, speculation=None, method=None)
    recall(rows, successor, story.now, story.now)
    story.assessor = successor
    assert {c.why.value for c in story.round().changes} == {"gone"}


def test_a_row_that_cannot_be_read_costs_itself_alone_and_is_named() -> None:
    story = dead(Story([Engine(), Engine(name="1")]))
    rows = kept(story.assessor)
    of_one = next(name for name in rows if '"subject"' in name and '["engine", "1"]' in name)
    rows[of_one] = {"past": {"at": "noon"}, "checks": {}}
    rows['["alert", "Odd", []]'] = {"alertname": "Odd"}
    successor = fresh(story.assessor)
    faults = recall(rows, successor, story.now, story.now)
    assert len(faults) == 2
    assert all(any(name in fault for fault in faults) for name in (of_one[:50], "Odd"))
    story.assessor = successor
    assert dead(story, 1).fired() == {"SpecDecodeCollapsed"}


def test_the_state_of_one_check_that_cannot_be_read_leaves_the_others() -> None:
    story = dead(Story([Engine()]))
    rows = kept(story.assessor)
    name = next(name for name in rows if '"subject"' in name and "engine" in name)
    rows[name]["checks"]["progress"] = ["noon"]  # type: ignore[index]
    rows[name]["checks"]["of_a_newer_version"] = {}  # type: ignore[index]
    successor = fresh(story.assessor)
    [fault] = recall(rows, successor, story.now, story.now)
    assert "progress" in fault
    [states] = [s for about, s in successor.watches["qwen"].states.items() if len(about) == 3]
    assert states["acceptance_length"].dead_since is not None
    assert "progress" not in states


def test_an_alert_that_nothing_here_judges_any_more_ends() -> None:
    """Such as after a way back to a version that does not know it."""
    for changed in ({"alertname": "SpecDecodeBrandNew"}, {"check": "of_a_newer_version"}):
        story = dead(Story([Engine()]))
        rows = kept(story.assessor)
        name = next(name for name in rows if name.startswith('["alert"'))
        rows[name].update(changed)  # type: ignore[union-attr]
        successor = fresh(story.assessor)
        recall(rows, successor, story.now, story.now)
        story.assessor = successor
        ended = [c for c in story.round().changes if c.why.value == "gone"]
        assert [c.alert.state.value for c in ended] == ["resolved"]


def test_another_server_under_the_same_name_begins_with_nothing() -> None:
    story = dead(Story([Engine()], start=None))
    story.assessor.watches["qwen"].source = "http://one:8000"
    successor = fresh(story.assessor)
    successor.watches["qwen"].source = "http://another:8000"
    recall(kept(story.assessor), successor, story.now, story.now)
    story.assessor = successor
    story.engines[0].draft(100_000, shares(100_000, *DEAD), requests=100)
    story.round()
    assert [c.why.value for c in story.report.changes] == ["gone"]
    assert story.fired() == set()


def test_what_was_kept_by_another_order_of_fields_is_read_by_its_names() -> None:
    story = dead(Story([Engine()]))
    rows = kept(story.assessor)
    shapes = json.loads(str(rows['["shapes"]']))
    [state] = [name for name in shapes if name.endswith("acceptance_length.State")]  # type: ignore[union-attr]
    shapes[state].reverse()  # type: ignore[index]
    for name, body in rows.items():
        if name.startswith('["subject"') and "engine" in name:
            body["checks"]["acceptance_length"].reverse()  # type: ignore[index]
    rows['["shapes"]'] = json.dumps(shapes)
    successor = fresh(story.assessor)
    assert recall(rows, successor, story.now, story.now) == []
    assert kept(successor) | {'["shapes"]': 0} == kept(story.assessor) | {'["shapes"]': 0}


def test_pauses_of_another_shape_are_left_out() -> None:
    story = dead(Story([Engine()]))
    rows = kept(story.assessor)
    rows['["paused"]'] = []
    successor = fresh(story.assessor)
    [fault] = recall(rows, successor, story.now, story.now)
    assert "paused" in fault
    assert [a.state.value for a in successor.book.everything()] == ["firing"]


def test_a_server_whose_address_is_not_known_any_more_is_not_another_one() -> None:
    story = dead(Story([Engine()]))
    rows = {name: body for name, body in kept(story.assessor).items() if '"watch"' not in name}
    successor = fresh(story.assessor)
    successor.watches["qwen"].source = "http://one:8000"
    recall(rows, successor, story.now, story.now)
    story.assessor = successor
    assert dead(story, 1).fired() == {"SpecDecodeCollapsed"}
    assert story.report.changes == ()


@pytest.mark.parametrize("at", [1e308, float("inf"), float("nan"), 4e12, -1.0])
def test_a_time_that_is_none_costs_its_row(at: float) -> None:
    story = dead(Story([Engine()]))
    story.assessor.received = (
        Received("f", "", "A", "qwen", (), "", at, story.now, diagnosed_at=story.now),
    )
    rows = kept(story.assessor)
    rows['["paused"]'] = {"qwen": at}
    name = next(name for name in rows if name.startswith('["alert"'))
    rows[name]["fired_at"] = at  # type: ignore[index]
    successor = fresh(story.assessor)
    assert len(recall(rows, successor, story.now, story.now)) == 3
    assert (successor.received, successor.book.pauses) == ((), {})
    story.assessor = successor
    as_json(story.round())


def test_alerts_of_a_target_or_a_source_that_nobody_reads_end() -> None:
    story = dead(Story([Engine()]))
    rows = kept(story.assessor)
    name = next(name for name in rows if name.startswith('["alert"'))
    body = {**rows[name], "seen_at": story.now}  # type: ignore[dict-item]
    rows['["alert", "x"]'] = {**body, "subject": [["target", "another"]]}
    blind = {"alertname": "WatchdogBlind", "check": "reading"}
    rows['["alert", "y"]'] = {
        **body, **blind, "subject": [["probe", "of_old"], ["target", "qwen"]],
    }  # fmt: skip
    successor = fresh(story.assessor)
    assert recall(rows, successor, story.now, story.now) == []
    story.assessor = successor
    dead(story, 1)
    assert story.fired() == {"SpecDecodeCollapsed"}
    assert {change.why.value for change in story.report.changes} == {"gone"}


def changed(story: Story) -> list[str]:
    return [event.text for event in story.assessor.watches["qwen"].changes.events]


def test_what_changed_is_kept_and_a_change_while_nobody_watched_lies_in_between() -> None:
    story = Story([Engine()])
    story.start = 2.0
    read = story.round().now
    assert changed(story) == ["restarted"]
    story.assessor = restarted(story.assessor, story.now)
    story.start = 3.0
    story.round(3000.0)
    assert changed(story) == ["restarted", "nothing was read", "restarted"]
    event = story.assessor.watches["qwen"].changes.events[-1]
    assert (event.after, event.at) == (read, story.now)


def test_what_changed_goes_on_over_a_reload_and_not_with_another_server() -> None:
    for source, kept_on in (("http://one:8000", True), ("http://another:8000", False)):
        story = Story([Engine()])
        story.assessor.watches["qwen"].source = "http://one:8000"
        story.start = 2.0
        story.round()
        successor = fresh(story.assessor)
        successor.watches["qwen"].source = source
        successor.take_over(story.assessor)
        story.assessor = successor
        assert changed(story) == (["restarted"] if kept_on else [])


@pytest.mark.parametrize("at", [float("inf"), -1.0, "noon", None])
def test_changes_that_cannot_be_read_cost_themselves_alone(at: object) -> None:
    story = dead(Story([Engine()]))
    story.start = 2.0
    story.round()
    rows = kept(story.assessor)
    rows['["changes", "qwen"]'][-1][0][0] = at  # type: ignore[index]
    successor = fresh(story.assessor)
    [fault] = recall(rows, successor, story.now, story.now)
    assert "changes" in fault
    story.assessor = successor
    story.round()
    assert changed(story) == []
    assert story.fired() == {"SpecDecodeCollapsed"}
