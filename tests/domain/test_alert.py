"""The alert book as stories of (seconds, verdict): time is an argument, blind never resolves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.domain import alert as alerts
from watchdog.domain.alert import PATIENCE, RETAIN, TRANSITIONS, AlertBook, Signal, State
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.sample import Labels, labels

SUBJECT = labels(target="qwen", engine="0")
HELD = "SpecDecodeShallowDrafts"  # hold 600 s, linger 3600 s
QUICK = "SpecDecodeCollapsed"  # hold 0, linger 60 s
OK, BAD, UNKNOWN, THIN = "ok", "bad", "unknown", "thin"


def finding(word: str, name: str, subject: Labels = SUBJECT) -> Finding:
    verdict = {OK: Verdict.OK, THIN: Verdict.OK, BAD: Verdict.WARNING, UNKNOWN: Verdict.UNKNOWN}
    said = Argument(word)
    return Finding(name, subject, verdict[word], lambda: said, conclusive=word != THIN)


def states(name: str, *story: tuple[float, str], book: AlertBook | None = None) -> list[str]:
    """Tell a story; the states that it passes through."""
    book = book or AlertBook()
    return [
        c.alert.state.value for now, word in story for c in book.step([finding(word, name)], now)
    ]


@pytest.mark.parametrize(
    ("name", "story", "expected"),
    [
        (HELD, [(0, BAD)], ["pending"]),
        (HELD, [(0, BAD), (599, BAD)], ["pending"]),
        (HELD, [(0, BAD), (600, BAD)], ["pending", "firing"]),
        (HELD, [(0, BAD), (300, OK), (600, BAD)], ["pending", "inactive", "pending"]),
        (QUICK, [(0, BAD)], ["firing"]),
        (QUICK, [(0, BAD), (1, OK), (60, OK)], ["firing"]),
        (QUICK, [(0, BAD), (1, OK), (61, OK)], ["firing", "resolved"]),
        (QUICK, [(0, BAD), (1, OK), (30, BAD), (61, OK)], ["firing"]),
        (QUICK, [(0, BAD), (1, UNKNOWN), (9999, UNKNOWN)], ["firing"]),
        (QUICK, [(0, BAD), (1, THIN), (9999, THIN)], ["firing"]),
        (QUICK, [(0, UNKNOWN), (9999, UNKNOWN), (99999, THIN)], []),
        (QUICK, [(0, BAD), (1, OK), (61, OK), (70, BAD)], ["firing", "resolved", "firing"]),
        (HELD, [(0, BAD), (300, UNKNOWN), (600, BAD)], ["pending", "firing"]),
        ("WatchdogBlind", [(0, UNKNOWN), (299, UNKNOWN)], ["pending"]),
        ("WatchdogBlind", [(0, UNKNOWN), (300, UNKNOWN)], ["pending", "firing"]),
    ],
    ids=[
        "new", "held-short", "held", "flaps-before-firing", "no-hold", "lingers", "resolves",
        "flaps-while-firing", "unknown-never-resolves", "thin-never-resolves",
        "blind-never-raises", "fires-again", "blind-keeps-the-hold",
        "unknown-is-bad-for-blindness", "blindness-that-lasts",
    ],
)  # fmt: skip
def test_a_story_passes_through_its_states(
    name: str, story: list[tuple[float, str]], expected: list[str]
) -> None:
    assert states(name, *story) == expected


def test_a_round_that_is_a_little_early_still_counts() -> None:
    assert states(QUICK, (0, BAD), (15, OK), (74.6, OK)) == ["firing", "resolved"]
    assert states(QUICK, (0, BAD), (15, OK), (74.4, OK)) == ["firing"]


def test_every_state_has_a_row_and_blind_moves_none() -> None:
    assert set(TRANSITIONS) == set(State)
    assert not any(Signal.BLIND in row for row in TRANSITIONS.values())


def test_a_pause_withdraws_what_fires_and_raises_nothing_until_it_ends() -> None:
    book = AlertBook()
    assert states(QUICK, (0, BAD), book=book) == ["firing"]
    book.pause("qwen", 100)

    assert states(QUICK, (10, BAD), (90, BAD), book=book) == ["resolved"]
    assert book.paused(90) == {"qwen": 100}
    assert states(QUICK, (101, BAD), book=book) == ["firing"]
    assert book.paused(101) == {}


def test_resume_ends_a_pause_early() -> None:
    book = AlertBook()
    book.pause("qwen", 1000)

    assert book.resume("qwen")
    assert not book.resume("qwen")
    assert states(QUICK, (1, BAD), book=book) == ["firing"]


def test_a_pause_of_another_target_changes_nothing() -> None:
    book = AlertBook()
    book.pause("other", 1000)

    assert states(QUICK, (1, BAD), book=book) == ["firing"]


def test_what_is_gone_for_good_is_resolved_and_the_change_says_so() -> None:
    book = AlertBook()
    book.step([finding(BAD, QUICK)], 0)

    [change] = book.step([], 10, gone=[SUBJECT])

    assert (change.alert.state, change.why) == (State.RESOLVED, Signal.GONE)


def test_alerts_of_a_target_that_is_watched_no_more_are_resolved() -> None:
    book = AlertBook()
    book.step([finding(BAD, QUICK)], 0)
    book.close("qwen")

    assert [c.alert.state.value for c in book.step([], 10)] == ["resolved"]
    assert book.step([], 20) == []


def test_a_resolved_alert_is_told_for_a_while_and_then_forgotten() -> None:
    book = AlertBook()
    states(QUICK, (0, BAD), (1, OK), (61, OK), book=book)

    book.step([], 61 + RETAIN)
    assert [a.state.value for a in book.alerts()] == ["resolved"]
    book.step([], 62 + RETAIN)
    assert book.alerts() == ()


def test_the_words_of_a_firing_alert_are_those_of_its_newest_bad_finding() -> None:
    book = AlertBook()
    states(QUICK, (0, BAD), (10, UNKNOWN), book=book)

    assert book.alerts()[0].finding.argument.summary == BAD


def test_the_book_is_bounded_and_the_newest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "MOST_ALERTS", 3)
    book = AlertBook()
    for i in range(5):
        book.step([finding(BAD, QUICK, labels(target="t", engine=str(i)))], i)

    kept = [dict(a.finding.subject)["engine"] for a in book.alerts()]
    assert kept == ["2", "3", "4"]


def test_every_alert_has_one_severity_for_ever() -> None:
    assert {p.severity for p in PATIENCE.values()} == {"warning", "critical", "info", "none"}
    alert = alerts.Alert(finding(BAD, QUICK))
    assert alert.severity == "critical"  # whatever the finding's own verdict


@given(st.lists(st.tuples(st.floats(0.1, 400), st.sampled_from([OK, BAD, UNKNOWN, THIN]))))
def test_in_any_story_resolved_implies_fired_and_blind_rounds_change_nothing(
    story: list[tuple[float, str]],
) -> None:
    book, now, fired = AlertBook(), 0.0, False
    for wait, word in story:
        now += wait
        before = [(a.state, a.fired_at) for a in book.alerts()]
        changes = book.step([finding(word, QUICK)], now)
        if word in (UNKNOWN, THIN):
            assert changes == []
            after = [(a.state, a.fired_at) for a in book.alerts()]
            assert after in (before, [])  # a resolved one may be forgotten by age
        for change in changes:
            if change.alert.state is State.RESOLVED:
                assert fired
                assert change.alert.fired_at is not None
                assert change.alert.fired_at <= now
            fired = change.alert.state is State.FIRING
        assert len(book.alerts()) <= 1


def test_a_pause_ends_alerts_of_which_the_round_says_nothing() -> None:
    """Upkeep stops the server first: then no engine is seen."""
    book = AlertBook()
    book.step([finding(BAD, QUICK)], 0)
    book.pause("qwen", 1000)
    [change] = book.step([], 15)
    assert (change.alert.state, change.why) == (State.RESOLVED, Signal.PAUSED)


def test_an_alert_of_which_nothing_is_seen_says_since_when() -> None:
    book = AlertBook()
    book.step([finding(BAD, QUICK)], 0)
    book.step([], 15)
    [alert] = book.alerts()
    assert (alert.is_seen(0), alert.is_seen(15), alert.seen_at) == (True, False, 0)


def said_by(check: str, word: str) -> Finding:
    found = finding(word, QUICK)
    found.check = check
    return found


def test_an_alert_of_several_checks_is_bad_while_any_of_them_says_so() -> None:
    book = AlertBook()
    for now, first, second in ((0, OK, BAD), (15, BAD, OK), (500, OK, BAD), (1000, BAD, THIN)):
        book.step([said_by("one", first), said_by("two", second)], now)
        [alert] = book.alerts()
        assert alert.state is State.FIRING
        assert alert.finding.check == ("one" if first == BAD else "two")


def test_an_alert_of_several_checks_keeps_the_words_of_the_one_that_raised_it() -> None:
    book = AlertBook()
    book.step([said_by("one", OK), said_by("two", BAD)], 0)
    book.step([said_by("one", BAD), said_by("two", BAD)], 15)
    assert book.alerts()[0].finding.check == "two"


@pytest.mark.parametrize(
    ("raiser", "other", "state"),
    [(THIN, OK, "firing"), (OK, THIN, "resolved"), (OK, OK, "resolved"), (UNKNOWN, OK, "firing")],
)
def test_the_check_that_raised_an_alert_ends_it(raiser: str, other: str, state: str) -> None:
    """The health that another check sees is no answer to what this one saw."""
    book = AlertBook()
    for order in (1, -1):
        book = AlertBook()
        book.step([said_by("two", BAD)], 0)
        for now in (15, 80):
            book.step([said_by("one", other), said_by("two", raiser)][::order], now)
        assert book.alerts()[0].state.value == state


@pytest.mark.parametrize(
    ("void", "other", "goes_on"),
    [("two", BAD, True), ("two", OK, False), ("two", THIN, False), ("", BAD, False)],
)
def test_an_alert_whose_ground_is_gone_ends_unless_another_check_finds_it_bad(
    void: str, other: str, goes_on: bool
) -> None:
    """Ended and raised anew in the next round: a resolve that is not true, and another page."""
    book = AlertBook()
    book.step([said_by("one", BAD), said_by("two", BAD)][::-1], 0)
    book.end(book.alerts()[0].finding.identity, void)
    changes = book.step([said_by("one", other), said_by("two", THIN)], 15)
    assert [c.alert.state for c in changes] == ([] if goes_on else [State.RESOLVED])
    assert book.step([said_by("one", OK), said_by("two", THIN)], 30) == []  # it is asked once
