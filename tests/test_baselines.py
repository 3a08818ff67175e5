"""An operator's word on what was learned: what it changes, what it refuses, what it ends."""

from __future__ import annotations

import pytest

from tests.learned import HOUR, NOW, Known, assessor, engine
from watchdog.baselines import ACCEPT, CHECK, RESET, changed, refusals, rows
from watchdog.domain import series as s
from watchdog.domain.alert import State
from watchdog.domain.assess import Assessor
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.history import Past
from watchdog.domain.profile import Profile
from watchdog.domain.sample import Labels
from watchdog.errors import PayloadError

ALERT = "SpecDecodeDegraded"


def state(watched: Assessor, subject: Labels) -> Known:
    known = watched.watches[dict(subject)["target"]].states[subject][CHECK]
    assert isinstance(known, Known)
    return known


def below(subject: Labels, check: str = CHECK, verdict: Verdict = Verdict.WARNING) -> Finding:
    return Finding(ALERT, subject, verdict, lambda: Argument("said"), check=check)


def test_every_engine_has_a_row_and_what_is_no_engine_has_none() -> None:
    known = {engine(n): Known(length=float(n)) for n in ("10", "9")}
    found = rows(assessor({**known, engine("0", "llama"): Known()}), NOW)
    assert [row["subject"] for row in found] == [
        {"target": "qwen", "engine": "9", "model_name": "qwen3"},
        {"target": "qwen", "engine": "10", "model_name": "qwen3"},
        {"target": "llama", "engine": "0", "model_name": "qwen3"},
    ]
    assert [row["length"] for row in found] == [9.0, 10.0, 3.77]


def test_an_engine_that_the_check_has_not_seen_yet_has_no_row() -> None:
    watched = assessor({engine(): Known(), engine("1"): Known()})
    watched.watches["qwen"].states[engine("1")][CHECK] = None
    assert [row["subject"]["engine"] for row in rows(watched, NOW)] == ["0"]


@pytest.mark.parametrize(
    ("method", "levels", "why"),
    [
        ("eagle3", {s.DRAFTS: 5.0}, "its own reason"),
        ("ngram", {s.DRAFTS: 5.0}, "its method drafts only where the text repeats itself"),
        ("eagle3", {s.GENERATED_TOKENS: 5.0}, "its page has no speculative decoding"),
    ],
)
def test_where_there_is_nothing_to_learn_it_says_so(
    method: str, levels: dict[str, float], why: str
) -> None:
    watched = assessor({engine(): Known(why="its own reason")})
    history = watched.watches["qwen"].history
    history.profile = Profile(method=method)
    history.past[engine()] = Past(NOW, levels, levels, (None, None))
    [row] = rows(watched, NOW)
    assert row["why_not_learning"].startswith(why)


def test_what_is_raised_is_not_learned_from_the_moment_on_that_it_is() -> None:
    known = {engine("0"): Known(raised="silent"), engine("1"): Known()}
    whys = [row["why_not_learning"] for row in rows(assessor(known), NOW)]
    assert whys == ["a warning stands, and what it is about is not learned", ""]


def test_times_of_a_row_are_those_of_the_wall_clock() -> None:
    watched = assessor({engine(): Known(raised="silent", accepted_at=NOW - 24 * HOUR)})
    [row] = rows(watched, NOW, skew=60.0)
    assert row["raised_at"] == "2026-11-30T10:01:00Z"
    assert row["accepted_at"] == "2026-11-29T12:01:00Z"
    assert row["daily"] == [["2026-11-30T11:01:00Z", 3.7]]


def test_accepting_makes_the_present_length_the_usual_one_and_tells_both() -> None:
    watched = assessor({engine(): Known(), engine("1"): Known(lately=3.1)})
    told = changed(watched, ACCEPT, "qwen", None, NOW)
    lengths = [(one["days"], one["before"], one["after"]) for one in told["changed"]]
    assert lengths == [(28, 3.77, 2.9), (28, 3.77, 3.1)]
    assert told["changed"][0]["subject"] == dict(engine())
    assert (state(watched, engine()).length, state(watched, engine("1")).length) == (2.9, 3.1)


def test_forgetting_leaves_nothing() -> None:
    watched = assessor({engine(): Known()})
    told = changed(watched, RESET, "qwen", None, NOW)
    assert [(one["before"], one["after"]) for one in told["changed"]] == [(3.77, None)]
    assert state(watched, engine()).days == 0


@pytest.mark.parametrize("how", [ACCEPT, RESET])
def test_of_the_named_engine_alone_where_one_is_named(how: str) -> None:
    others = {engine("1"): Known(), engine("0", "llama"): Known()}
    watched = assessor({engine(): Known(), **others})
    told = changed(watched, how, "qwen", "0", NOW)
    assert [one["subject"] for one in told["changed"]] == [dict(engine())]
    assert {subject: state(watched, subject) for subject in others} == others


def test_an_engine_with_too_little_evidence_is_left_as_it_is_and_the_others_are_not() -> None:
    watched = assessor({engine(): Known(lately=None), engine("1"): Known()})
    told = changed(watched, ACCEPT, "qwen", None, NOW)
    assert refusals(told) == ["qwen engine 0: 0 requests in 72 h are too few"]
    assert state(watched, engine()) == Known(lately=None)
    assert [one["subject"]["engine"] for one in told["changed"]] == ["1"]


def test_an_engine_that_there_is_not_is_answered_with_those_there_are() -> None:
    watched = assessor({engine("9"): Known(), engine("10"): Known()})
    with pytest.raises(PayloadError, match="^qwen has no engine 7; known: 9, 10$"):
        changed(watched, ACCEPT, "qwen", "7", NOW)


@pytest.mark.parametrize("target", ["qwen", "gone", ""])
def test_a_target_of_which_nothing_was_read_has_nothing_to_change(target: str) -> None:
    with pytest.raises(PayloadError, match="no engine of .* was read yet"):
        changed(assessor({}), RESET, target, None, NOW)


@pytest.mark.parametrize("how", [ACCEPT, RESET])
def test_the_alert_that_stood_on_it_ends_with_the_next_round(how: str) -> None:
    watched = assessor({engine(): Known(raised="silent"), engine("1"): Known(raised="silent")})
    watched.book.step([below(engine()), below(engine("1"))], NOW)
    changed(watched, how, "qwen", "0", NOW)
    learning = Finding(ALERT, engine(), Verdict.OK, lambda: Argument("learning"),
                       conclusive=False, check=CHECK)  # fmt: skip
    watched.book.step([learning, below(engine("1"))], NOW + 15)
    ended = {alert.finding.subject: alert.state for alert in watched.book.alerts()}
    assert ended == {engine(): State.RESOLVED, engine("1"): State.FIRING}


def test_an_alert_of_another_check_about_the_same_engine_goes_on() -> None:
    watched = assessor({engine(): Known()})
    declared = below(engine(), check="declared_length")
    watched.book.step([declared], NOW)
    changed(watched, RESET, "qwen", None, NOW)
    watched.book.step([declared], NOW + 15)
    assert [alert.state for alert in watched.book.alerts()] == [State.FIRING]


@pytest.mark.parametrize("how", [ACCEPT, RESET])
def test_an_alert_that_stands_on_more_than_it_goes_on_without_a_change(how: str) -> None:
    watched = assessor({engine(): Known(raised="silent")})
    others = below(engine(), check="siblings")
    watched.book.step([below(engine()), others], NOW)
    changed(watched, how, "qwen", None, NOW)
    assert watched.book.step([others], NOW + 15) == []
    assert [alert.finding.check for alert in watched.book.alerts()] == ["siblings"]


def test_what_was_refused_ends_no_alert() -> None:
    watched = assessor({engine(): Known(lately=None, raised="silent")})
    watched.book.step([below(engine())], NOW)
    changed(watched, ACCEPT, "qwen", None, NOW)
    watched.book.step([], NOW + 15)
    assert [alert.state for alert in watched.book.alerts()] == [State.FIRING]
