from __future__ import annotations

from email.utils import formatdate

import pytest

from watchdog.domain.other_clock import FRESH, OtherClock


def dated(at: float) -> str:
    return formatdate(at, usegmt=True)


def told(ahead: float, asked: float = 1000.4, took: float = 0.1, skew: float = 0.0) -> OtherClock:
    """A clock that is so far ahead of the timeline, and answered in the middle."""
    clock = OtherClock()
    clock.learn(dated(int(asked + took / 2 + ahead)), asked, asked + took, skew)
    return clock


def test_without_an_answer_ours_is_the_only_clock():
    clock = OtherClock()
    assert clock.offset(7.0) == 7.0
    assert clock.ahead(7.0) == 0.0
    assert clock.must_ask(1000.0, 7.0)


@pytest.mark.parametrize("ahead", [-3e8, -86400, -5.7, -0.9, 0, 0.3, 5.2, 3600, 3e8])
@pytest.mark.parametrize("took", [0.001, 0.9, 9.0])
def test_the_true_clock_is_within_the_bounds(ahead, took):
    clock = told(ahead, asked=5e8, took=took)
    assert clock.bounds is not None
    assert clock.bounds.low <= ahead <= clock.bounds.high
    assert clock.bounds.high - clock.bounds.low == pytest.approx(1 + took)


@pytest.mark.parametrize("skew", [-4.0, 0.0])
def test_a_clock_of_ours_that_is_a_little_behind_is_used_as_it_is(skew):
    assert told(0.0, skew=skew).offset(skew) == skew


@pytest.mark.parametrize("skew", [-3e8, -3600.0, -7.0, 2.0, 3600.0, 3e8])
def test_a_clock_of_ours_that_is_ahead_or_far_behind_is_not_used(skew):
    """And what is used instead is never ahead: what ended would not have ended there."""
    assert -1.1 <= told(0.0, skew=skew).offset(skew) <= 0.0


def test_a_slow_answer_says_less_and_blames_nobody():
    assert told(0.0, took=9.0, skew=4.0).offset(4.0) == 4.0
    assert told(0.0, took=9.0, skew=-8.0).offset(-8.0) == -8.0


@pytest.mark.parametrize(("skew", "ahead"), [(3600.0, 3600), (-86400.0, -86400), (0.0, 0)])
def test_it_says_how_far_our_clock_is_ahead(skew, ahead):
    assert told(0.0, skew=skew).ahead(skew) == pytest.approx(ahead, abs=1)


def test_a_step_of_our_clock_changes_nothing_that_is_told():
    clock = told(0.2)
    assert clock.offset(0.0) == 0.0
    assert -1 <= clock.offset(3600.0) <= 0.2
    assert -1 <= clock.offset(-3600.0) <= 0.2


@pytest.mark.parametrize(
    ("now", "skew", "asks"),
    [
        (1000.5, 0.0, False),
        (1000.5 + FRESH, 0.0, False),
        (1000.6 + FRESH, 0.0, True),
        (900.0, 0.0, True),  # the timeline went back: another one, then
        (1000.5, 4.0, False),
        (1000.5, 5.0, True),
        (1000.5, -3600.0, True),
    ],
)
def test_it_is_asked_after_a_silence_and_after_a_step_of_our_clock(now, skew, asks):
    assert told(0.0).must_ask(now, skew) == asks


@pytest.mark.parametrize(
    "date",
    [
        "", "now", "Sun, 06 Nov 19940 08:49:37 GMT", "Sun, 99 Nov 1994 08:49:37 GMT", "\x00",
        "Sun, 06 Nov 9999 23:59:59 GMT", "1" * 5000,
        "Sun, 06 Nov 1994 08:49:37 +99999999999", "Sun, 06 Nov 1901 08:49:37 GMT",
    ],
)  # fmt: skip
def test_what_is_no_date_leaves_what_was_known(date):
    clock = told(3600.0)
    before = clock.bounds
    clock.learn(date, 1060.0, 1060.1, 0.0)
    assert clock.bounds == before
    assert not clock.must_ask(1061.0, 0.0)


@pytest.mark.parametrize(
    "date", ["Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 -0000"]
)
def test_dates_are_read_as_utc(date):
    clock = OtherClock()
    clock.learn(date, 0.0, 0.0, 0.0)
    assert clock.bounds == (784111777.0, 784111778.0)
