"""The shipped checks over a slice of the trial: what alerts, and in which round, on fixed seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bench.detection.cases import Case, _is_of, alarms, befall, live
from bench.detection.faults import Fault
from bench.detection.life import Life, Setting
from bench.detection.trial import DAY, RESTART, Episode, Trial, made, watcher

NOON = 3.5 * DAY
WATCHED = 3600.0
COLLAPSED, NOT_DRAFTING = "SpecDecodeCollapsed", "SpecDecodeNotDrafting"


def befallen(setting: Setting, case: Case, begins: float, watched: float) -> dict[str, Any]:
    """Let a fault befall life 7 after a while of watching it."""
    trial = Trial(Life(setting, 7, 60))
    trial.to_end(begins - watched, begins)
    return befall(trial, case, begins)


@pytest.mark.parametrize(
    ("profile", "kind", "detector", "rounds", "requests", "resolved"),
    [
        ("busy", "incident", COLLAPSED, 1, 7, 75),
        ("busy", "incident_greedy", COLLAPSED, 1, 7, 75),
        ("busy", "zero", COLLAPSED, 1, 7, 75),
        ("busy", "mild", COLLAPSED, 2, 12, 75),
        ("busy", "stop", NOT_DRAFTING, 1, 7, 75),
        ("medium", "incident", COLLAPSED, 3, 7, 75),
        ("medium", "incident_greedy", COLLAPSED, 4, 12, 75),
        ("medium", "zero", COLLAPSED, 1, 4, 75),
        ("medium", "mild", COLLAPSED, 6, 20, 75),
        ("medium", "stop", NOT_DRAFTING, 1, 4, 75),
        ("idle", "incident", COLLAPSED, 27, 4, 315),
        ("idle", "incident_greedy", COLLAPSED, 28, 4, 390),
        ("idle", "zero", COLLAPSED, 19, 3, 240),
        ("idle", "mild", COLLAPSED, 31, 5, 435),
        ("idle", "stop", NOT_DRAFTING, 8, 1, 75),
    ],
)
def test_a_dead_drafter_is_found_in_this_round_and_resolves_once_mended(
    profile, kind, detector, rounds, requests, resolved
):
    told = befallen(Setting(profile), Case(kind, limit=DAY), NOON, WATCHED)
    assert told["raised"] == [detector]
    assert told["delay_s"] == 15 * rounds
    assert told["delay_requests"] == requests
    assert told["resolve_s"] == resolved


def test_each_rule_of_the_baseline_finds_its_degradation_in_this_round():
    """A page every 5 minutes: the rules judge sums of hours, and a fortnight is soon watched."""
    setting, begins = Setting("idle", interval=300.0), 20.5 * DAY
    trial = Trial(Life(setting, 7, 60))
    trial.to_end(begins - 15 * DAY, begins)
    assert {episode.detector for episode in trial.episodes} <= {"ServingDown"}

    def found(case: Case) -> tuple[list[str], float]:
        told = befall(trial.branch(), case._replace(limit=8 * DAY), begins)
        return told["raised"], told.get("delay_s", 0) / 300

    assert found(Case("degrade", 0.45)) == (["SpecDecodeDegraded/silent"], 152)
    assert found(Case("degrade", 0.30)) == (["SpecDecodeDegraded/silent"], 289)
    assert found(Case("degrade", 0.20, restarts=True)) == (["SpecDecodeDegraded/restart"], 289)
    assert found(Case("deep", 0.30)) == (["SpecDecodeDegraded/shape"], 37)
    assert found(Case("degrade", 0.10)) == ([], 0)


@pytest.mark.parametrize(
    ("case", "detector", "rounds"),
    [
        (Case("incident", engine=3), COLLAPSED, 7),
        (Case("degrade", 0.30, 4 * DAY, engine=3), "SpecDecodeDegraded/siblings", 288),
    ],
    ids=["incident", "degraded"],
)
def test_one_engine_of_eight_is_found_by_itself_or_among_its_siblings(case, detector, rounds):
    pool = Setting("idle", engines=8, jitter=0.15, interval=300.0)
    told = befallen(pool, case, 20.5 * DAY, DAY)
    assert told["raised"] == [detector]
    assert told["delay_s"] == 300 * rounds


@pytest.mark.parametrize(
    ("setting", "days"),
    [(Setting("idle"), 3), (Setting("medium", interval=60.0), 3)],
    ids=["idle", "medium"],
)
def test_healthy_days_raise_no_alarm_about_the_drafter(setting, days):
    told = live(setting, 7, days)
    assert not [name for name in told["alarms"] if name != "ServingDown"]
    assert told["years"] == days / 365


def test_years_are_those_of_each_engine():
    told = live(Setting("idle", engines=2, interval=300.0), 7, 1)
    assert told["years"] == 2 / 365


@pytest.mark.parametrize(
    ("detector", "engine", "of_three", "of_all"),
    [
        (COLLAPSED, "3", True, True),
        (COLLAPSED, "2", False, True),
        ("ServingDown", "3", False, False),
    ],
)
def test_a_fault_is_found_by_an_alert_about_drafts_of_its_own_engine(
    detector, engine, of_three, of_all
):
    episode = Episode(detector, engine, 0.0)
    assert _is_of(episode, Case("incident", engine=3)) is of_three
    assert _is_of(episode, Case("incident")) is of_all


def test_a_fault_that_is_left_alone_is_one_alert_for_as_long_as_it_lasts():
    told = befallen(Setting("idle"), Case("incident", limit=DAY / 2, left=True), NOON, WATCHED)
    assert told["raised"] == [COLLAPSED]
    assert told["delay_s"] == 15 * 27


def test_a_branch_judges_as_the_one_that_it_was_taken_from():
    trial = Trial(Life(Setting("medium"), 7, 60))
    trial.to_end(NOON - WATCHED, NOON)
    branch = trial.branch()
    told = [befall(one, Case("incident"), NOON) for one in (branch, trial)]
    assert told[0] == told[1]
    assert branch.episodes == trial.episodes


def test_a_while_that_is_left_goes_on_at_that_round():
    life = Life(Setting("medium"), 7, 60)
    whole, parted = Trial(life), Trial(life)
    fault = Fault("incident", NOON, NOON + 3600.0)
    whole.to_end(NOON - 600, NOON + 7200, [fault])
    for at in parted.play(NOON - 600, NOON + 7200, [fault._replace(ends=float("inf"))]):
        if at == NOON + 3600:
            break
    parted.to_end(NOON + 3600, NOON + 7200, [fault])
    assert whole.episodes == parted.episodes != []
    levels = [next(iter(t.assessor.watches["sim"].newest.parts)).levels for t in (whole, parted)]
    assert levels[0] == levels[1]
    assert whole.at == parted.at == NOON + 7200


def test_a_restart_that_comes_with_a_fault_has_a_minute_without_pages_and_begins_at_0():
    life = Life(Setting("busy"), 7, 60)
    calm, day = (made(life, 3, faults) for faults in ((), (Fault(RESTART, NOON, NOON),)))
    at = round(0.5 * DAY / 15)
    assert day.restarted[0].nonzero()[0].tolist() == [at + 4]
    assert not day.read[at : at + 4].any()
    assert day.down[at : at + 4].all()
    assert day.updates[0, at : at + 4].sum() == 0 != calm.updates[0, at : at + 4].sum()
    assert (day.updates[0, at + 4 :] == calm.updates[0, at + 4 :]).all()
    assert calm.restarted.sum() == 0


def test_a_restart_over_midnight_ends_on_the_next_day():
    life, midnight = Life(Setting("busy"), 7, 60), 4 * DAY
    for begins in (midnight - 30, midnight - 60):
        fault = Fault(RESTART, begins, begins)
        before, after = made(life, 3, [fault]), made(life, 4, [fault])
        up = round((begins + 60 - midnight) / 15)
        assert before.restarted.sum() == 0
        assert before.down.sum() == 4 - up
        assert after.restarted[0].nonzero()[0].tolist() == [up]
        assert after.down.sum() == up


@pytest.mark.parametrize("interval", [15.0, 60.0])
def test_readings_lie_so_far_apart_as_the_daemon_takes_for_a_gap(interval):
    assessor = watcher(Setting("idle", interval=interval))
    gaps = {watch.history.gap_after for watch in assessor.watches.values()}
    assert gaps == {2.5 * interval}


def test_alarms_are_counted_by_who_raised_them_and_last_to_the_end():
    episodes = [
        Episode("A/silent", "0", 10, 25),
        Episode("A/shape", "0", 30, 40),
        Episode("A/silent", "1", 50),
    ]
    counted: Mapping[str, Any] = alarms(episodes, 90)
    assert counted == {
        "A/silent": {"episodes": 2, "seconds": 55},
        "A/shape": {"episodes": 1, "seconds": 10},
    }


@pytest.mark.parametrize("kind", ["incident", "stop"])
def test_rounds_that_can_say_nothing_new_may_be_left_out(kind):
    """The same alerts at the same rounds, and the checks know the same at the end."""
    told, asked = (Trial(Life(Setting("idle"), 950, 60), every=every) for every in (False, True))
    judged = [0, 0]
    for i, trial in enumerate((told, asked)):
        assess = trial.assessor.assess

        def counted(readings, now, i=i, assess=assess):
            judged[i] += 1
            return assess(readings, now)

        trial.assessor.assess = counted
        trial.to_end(20 * DAY, 23 * DAY, Case(kind).faults(21.4 * DAY, 21.9 * DAY))
    assert told.episodes == asked.episodes
    assert len(told.episodes) > 0
    assert judged[0] < 0.6 * judged[1]
    kept = [trial.assessor.watches["sim"].states for trial in (told, asked)]
    for states in kept:
        for of_subject in states.values():
            of_subject.pop("serving", None)  # when it answered last: each round that was judged
    assert kept[0] == kept[1]
