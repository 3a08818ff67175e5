from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from watchdog.page.shown import MOST_NAME, MOST_TEXT, clock, figure, name, pairs, shown, visible

NOON = 1_796_040_000.0


def test_what_cannot_be_seen_is_written_out():
    assert visible("a\u202eb\x00c\u200bd\ud800") == "a\\u202eb\\x00c\\u200bd\\ud800"
    assert visible("two\nlines\tand\u2028more") == "two lines and more"
    assert visible("Grüße, 模型 🚀") == "Grüße, 模型 🚀"


def test_what_is_long_is_cut_and_says_how_long_it_was():
    assert name("x" * 10_000) == "x" * MOST_NAME + "… (10,000 characters)"
    assert len(str(shown("x" * 10_000))) < MOST_TEXT + 30


@given(st.text())
def test_everything_shown_can_be_seen_and_be_written_as_utf_8(text):
    assert str(shown(text)).isprintable()
    str(shown(text)).encode()


def test_only_our_own_markup_is_left_alone():
    ours = Markup("<b>\n</b>")
    assert shown(ours) is ours
    assert not isinstance(shown("<b>"), Markup)
    assert shown(None) == ""
    assert shown(3) == "3"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1700, "1,700"), (5032.0, "5,032"), (0.0667, "0.0667"), (3.7712, "3.771"), (True, "yes"),
        (222.72, "222.7"), (1529.81, "1,529.8"), (math.nan, "nan"), (math.inf, "inf"),
        (1e300, "1e+300"), (10**40, "1e+40"), ([0.8, 0.5], "0.8 0.5"), ({"a": [1]}, "a: 1"),
        ([[[[[1]]]]], "…"), ("text", "text"), ([], ""),
    ],
)  # fmt: skip
def test_evidence_is_written_as_people_read_it(value, text):
    assert figure(value) == text


def test_evidence_without_a_value_is_left_out():
    told = pairs({"draft_tokens": 5, "none": None, "empty": [], "blank": "", "zero": 0})
    assert told == [("draft tokens", "5"), ("zero", "0")]


def test_a_long_list_is_cut():
    assert figure(list(range(1000))).endswith(" 62 63 …")


def test_a_time_has_its_day_only_where_it_is_another_one():
    assert clock(NOON - 60, NOON) == "11:59:00 UTC"
    assert clock(NOON - 86400, NOON) == "29 Nov 12:00:00 UTC"
    assert clock(math.inf, NOON) == clock(1e30, NOON) == "an unknown time"
