"""Two witnesses: what bends the identity is allowed for, what goes beyond is told."""

from __future__ import annotations

import pytest

from tests.checks.windows import window
from watchdog.checks.counters import Counters
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window


def judge(*windows: Window) -> list[Finding]:
    """Step through windows; return the last findings."""
    check = Counters()
    state, found = check.step(None, window(seconds=None), 0.0)
    for i, seen in enumerate(windows):
        state, found = check.step(state, seen, 15.0 * (i + 1))
    return found


def exact(gap: float) -> Window:
    """1,000 updates, 2,000 accepted, 10 requests: 3,010 tokens, and `gap` more or fewer."""
    return window(1000, [1000, 1000], requests=10, generated=3010 + gap, running=2)


@pytest.mark.parametrize(
    ("gap", "wrong"), [(0, False), (-158, False), (-161, True), (164, False), (167, True)]
)
def test_a_gap_beyond_the_known_errors_is_told(gap: float, wrong: bool) -> None:
    """Allowed: 7 x 10 ended, 2 x 2 x 8 in flight, 2 % of the tokens: 159 below, 166 above."""
    found = judge(exact(gap))[0]
    assert found.verdict is (Verdict.WARNING if wrong else Verdict.OK)
    assert found.value == gap


def test_a_block_of_fewer_than_a_thousand_tokens_is_not_judged() -> None:
    assert judge(window(300, [300, 300], requests=3, generated=5)) == []


def test_blocks_are_judged_one_by_one() -> None:
    assert judge(exact(900), exact(0))[0].verdict is Verdict.OK
    assert judge(exact(0), exact(900))[0].verdict is Verdict.WARNING


def test_more_accepted_than_drafted_tokens_are_told() -> None:
    found = judge(window(1000, [1000, 1000], requests=3, tokens=1500))[0]
    assert "more accepted than drafted" in found.argument.summary


def test_positions_that_do_not_add_up_are_told() -> None:
    seen = window(1000, [1000, 1000], requests=3)
    seen.grown = {**seen.grown, "accepted_tokens": 2000.0, "accepted_at_1": 500.0}
    assert "do not add up" in judge(seen)[0].argument.summary


def test_counters_that_stand_still_while_tokens_come_are_told() -> None:
    """--disable-log-stats with the Rust frontend: three tokens a step and no draft."""
    found = judge(window(0, [0], updates=1000, generated=3000, requests=5))[0]
    assert found.verdict is Verdict.WARNING
    assert any("--disable-log-stats" in line for line in found.argument.suspects)


def test_a_page_without_decode_updates_is_not_judged() -> None:
    seen = window(1000, [1000, 1000], generated=9)
    seen.grown = {k: v for k, v in seen.grown.items() if k != "updates"}
    assert judge(seen) == []
    assert judge(window(depth=0, updates=5000, requests=9, generated=1)) == []
