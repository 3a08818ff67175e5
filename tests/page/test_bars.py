from __future__ import annotations

import math
from itertools import pairwise

import pytest

from watchdog.page.bars import FEW, barred
from watchdog.page.curve import BASE


def test_each_position_has_a_bar_as_high_as_its_share():
    bars = barred([0.8, 0.4, 0.0]).bars
    assert [bar.figure for bar in bars] == ["80", "40", "0"]
    assert bars[0].height == pytest.approx(2 * bars[1].height, abs=0.1)
    assert bars[2].height == 0
    assert all(bar.top + bar.height == pytest.approx(BASE, abs=0.1) for bar in bars)


def test_bars_lie_side_by_side_over_the_whole_width():
    bars = barred([0.5] * 7).bars
    assert all(a.left + a.width < b.left for a, b in pairwise(bars))
    assert bars[0].left > 0
    assert bars[-1].left + bars[-1].width < 100


def test_of_many_positions_only_some_have_figures():
    bars = barred([0.5] * 64).bars
    assert len(bars) == 64
    assert 1 < sum(bool(bar.position) for bar in bars) <= FEW


def test_the_words_have_every_position():
    assert barred([0.067, 0.009]).told.endswith("0: 6.7 %, 1: 0.9 %.")


@pytest.mark.parametrize("evidence", [None, [], "0.8", 0.8, {}])
def test_no_positions_no_bars(evidence):
    assert barred(evidence) is None


def test_what_is_no_share_has_no_height():
    bars = barred([math.nan, math.inf, -1, 7, "<b>"]).bars
    assert [bar.figure for bar in bars] == ["0", "0", "0", "100", "0"]


def test_more_positions_than_any_drafter_has_are_cut():
    assert len(barred([0.5] * 10_000).bars) == 64
