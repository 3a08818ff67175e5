from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.domain.trace import Point
from watchdog.page.curve import ACROSS, BASE, LABEL, TOP, drawn, span_of

NOON = 1_796_040_000.0  # 2026-11-30T12:00:00Z
DAY = 86400.0
NUMBER = r"-?\d+(?:\.\d+)?"


def stretch(at: float, length: float | None, seconds: float = 60.0) -> Point:
    """A stretch with this acceptance length, or without a draft."""
    if length is None:
        return Point(at, seconds)
    return Point(at, seconds, drafts=100.0, accepted=100.0 * (length - 1))


def minutes(*lengths: float | None) -> list[Point]:
    """Stretches of a minute, the last of which ends at noon."""
    return [stretch(NOON - 60.0 * i, length) for i, length in enumerate(reversed(lengths))][::-1]


def places(curve) -> list[list[tuple[float, float]]]:
    """Each stroke of a path as its places."""
    strokes: list[list[tuple[float, float]]] = []
    for move in curve.path:
        kind, x, y = re.fullmatch(rf"([ML])({NUMBER}) ({NUMBER})", move).groups()
        if kind == "M":
            strokes.append([])
        strokes[-1].append((float(x), float(y)))
    return strokes


def test_a_fall_goes_down_and_ends_now():
    [stroke] = places(drawn(minutes(3.8, 3.8, 1.08, 1.08), (), NOON, 900))
    assert [y for _, y in stroke] == sorted(y for _, y in stroke)
    assert stroke[-1][0] == ACROSS
    assert stroke[0][1] == pytest.approx(TOP, abs=12)
    assert stroke[-1][1] == pytest.approx(BASE, abs=6)


def test_a_time_without_a_reading_is_a_gap_and_lifts_the_pen():
    points = minutes(3.0, 3.0, 3.0, 3.0, 3.0)
    curve = drawn([points[0], points[1], points[4]], (), NOON, 300)
    assert len(places(curve)) == 2
    assert [(gap.at, gap.width) for gap in curve.gaps] == [(40.0, 40.0)]
    assert "; 1 gap, not read." in curve.told


def test_a_minute_without_drafts_lifts_the_pen_and_is_no_gap():
    curve = drawn(minutes(3.0, 3.0, None, 3.0, 3.0), (), NOON, 300)
    assert len(places(curve)) == 2
    assert curve.gaps == ()


def test_what_came_before_the_first_and_after_the_last_stretch_was_not_read():
    curve = drawn([stretch(NOON - 450, 3.0)], (), NOON, 900)
    assert [(gap.at, round(gap.at + gap.width, 1)) for gap in curve.gaps] == [
        (0.0, 43.3),
        (50.0, 100.0),
    ]


def test_the_stretch_that_is_under_way_is_no_gap():
    assert drawn([stretch(NOON - 70, 3.0, 830)], (), NOON, 900).gaps == ()


def test_one_stretch_alone_is_a_dash_of_its_length():
    [[first, *_, last]] = places(drawn([stretch(NOON, 3.0, 90)], (), NOON, 900))
    assert last[0] - first[0] == pytest.approx(ACROSS / 10, abs=0.1)


@pytest.mark.parametrize("points", [[], minutes(None, None), [stretch(NOON - 2 * DAY, 3.0)]])
def test_no_draft_in_the_span_is_no_curve(points):
    assert drawn(points, (("declared", 3.0),), NOON, DAY) is None


def test_marks_are_within_the_scale_even_above_all_that_was_measured():
    curve = drawn(minutes(1.08, 1.08), (("declared", 5.0), ("dead drafter", 1.2)), NOON, 900)
    assert [mark.text for mark in curve.marks] == ["1.2 dead drafter", "5 declared"]
    assert BASE > curve.marks[0].at > curve.marks[1].at > TOP
    assert "; declared 5; dead drafter 1.2;" in curve.told


def test_words_of_marks_never_lie_over_one_another():
    marks = [("a", 1.2), ("b", 1.21), ("c", 1.22), ("d", 3.0)]
    placed = sorted(mark.words_at for mark in drawn(minutes(3.5), marks, NOON, 900).marks)
    assert all(b - a >= LABEL - 0.11 for a, b in pairwise(placed))


def test_a_page_shows_what_there_is_and_24_hours_at_most():
    def span(back: float) -> float:
        return span_of([minutes(3.0), [stretch(NOON - back, 3.0)]], NOON)

    assert span_of([], NOON) == 900
    assert [span(back) for back in (60, 1000, 3000, 9000, 20000, 40000, DAY - 60, 9 * DAY)] == [
        900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, DAY, DAY,
    ]  # fmt: skip


def test_ticks_are_at_whole_hours_of_the_wall_clock_and_midnight_has_its_day():
    curve = drawn(minutes(3.0), (), NOON, DAY, skew=1800.0)
    assert [tick.text for tick in curve.across] == ["18:00", "30 Nov", "06:00", "12:00"]
    assert curve.across[-1].at == pytest.approx(100 - 100 / 48, abs=0.01)
    assert [tick.anchor for tick in curve.across] == ["middle", "middle", "middle", "end"]


def test_the_scale_begins_at_1_and_has_few_ticks():
    def ticks(length: float) -> list[str]:
        return [tick.text for tick in drawn(minutes(length), (), NOON, 900).down]

    assert ticks(1.08) == ["1", "1.5", "2"]
    assert ticks(3.8) == ["1", "2", "3", "4"]
    assert ticks(8.0) == ["1", "2", "4", "6", "8"]


COUNTS = st.floats(allow_nan=True, allow_infinity=True)
POINTS = st.builds(
    Point,
    at=st.floats(NOON - 2 * DAY, NOON + 10),
    seconds=st.floats(-10, 4000),
    drafts=COUNTS,
    accepted=COUNTS,
)


@given(
    st.lists(POINTS, max_size=30),
    st.lists(st.tuples(st.just("mark"), COUNTS), max_size=5),
    st.sampled_from([900.0, 3600.0, DAY]),
)
def test_whatever_was_measured_the_drawing_stays_in_its_frame(points, marks, span):
    points.sort(key=lambda point: point.at)
    curve = drawn(points, marks, NOON, span)
    if curve is None:
        return
    for x, y in (place for stroke in places(curve) for place in stroke):
        assert 0 <= x <= ACROSS
        assert TOP - 0.1 <= y <= BASE + 0.1
    numbers = [n for gap in curve.gaps for n in gap] + [tick.at for tick in curve.across]
    assert all(math.isfinite(n) and 0 <= n <= 100 for n in numbers)
    assert all(TOP - 0.1 <= mark.at <= BASE + 0.1 for mark in curve.marks)


def test_a_length_that_no_drafter_can_have_does_not_bend_the_scale():
    curve = drawn(minutes(3.0, 1e9), (), NOON, 900)
    assert curve.told.startswith("Over 15 min between 3.00 and 65.00, last 65.00")
    assert curve.down[-1].text == "60"
