"""Shallow drafts and cliffs, from both sides of their limits."""

from __future__ import annotations

import pytest

from tests.checks.windows import ALONE, window
from watchdog.checks.draft_shape import CLIFF, SHALLOW, DraftShape
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.profile import Profile

DECAY = [850, 700, 550, 450, 360, 300, 250]


def judge(*windows: Window) -> dict[str, Finding]:
    """Step through windows; return the last findings by name."""
    check = DraftShape()
    state, found = check.step(None, window(seconds=None, profile=windows[0].profile), 0.0)
    for i, seen in enumerate(windows):
        state, found = check.step(state, seen, 15.0 * (i + 1))
    return {f.alertname: f for f in found}


@pytest.mark.parametrize(("tokens", "low"), [(5240, True), (5260, False), (2960, True)])
def test_drafts_below_three_quarters_of_the_depth_are_shallow(tokens: float, low: bool) -> None:
    """5.25 of 7 is the limit; the incident drafted 2.96."""
    found = judge(window(1000, DECAY, requests=3, tokens=tokens))[SHALLOW]
    assert found.verdict is (Verdict.WARNING if low else Verdict.OK)


def test_the_declared_depth_counts_more_than_the_page() -> None:
    profile = Profile(method="dflash", depth=12, icc=0.0)
    assert judge(window(1000, DECAY, requests=3, profile=profile))[SHALLOW].verdict is (
        Verdict.WARNING
    )


@pytest.mark.parametrize(("drafts", "requests"), [(29, 3), (1000, 2)])
def test_few_drafts_or_requests_are_not_judged(drafts: float, requests: float) -> None:
    found = judge(window(drafts, [drafts] * 7, requests=requests, tokens=drafts))[SHALLOW]
    assert (found.verdict, found.conclusive) == (Verdict.OK, False)


def test_an_n_gram_drafter_has_no_depth_to_keep() -> None:
    for profile, updates in ((Profile(method="ngram"), 1000), (Profile(), 1200)):
        seen = window(1000, DECAY, requests=3, tokens=1000, updates=updates, profile=profile)
        assert judge(seen) == {}
    always = window(1000, DECAY, requests=3, tokens=1000, profile=Profile(icc=0.0))
    assert set(judge(always)) == {CLIFF}  # undeclared, the depth may vary by design
    depth = window(1000, DECAY, requests=3, tokens=1000, profile=Profile(depth=7, icc=0.0))
    assert judge(depth)[SHALLOW].verdict is Verdict.WARNING


def test_a_cliff_of_a_hundred_drafts_is_named_by_its_position() -> None:
    found = judge(window(1000, [850, 700, 550, 450, 2, 0, 0], requests=3))[CLIFF]
    assert (found.verdict, found.value) == (Verdict.WARNING, 4.0)
    assert "position 4" in found.argument.summary


@pytest.mark.parametrize(("reached", "found"), [(99, False), (100, True)])
def test_fewer_than_a_hundred_drafts_before_the_cliff_do_not_decide(
    reached: float,
    found: bool,
) -> None:
    verdict = judge(window(200, [150, reached, 0], depth=3, requests=3))[CLIFF].verdict
    assert (verdict is Verdict.WARNING) == found


@pytest.mark.parametrize(("kept", "found"), [(0.30, True), (0.36, False), (0.45, False)])
def test_a_fall_is_a_cliff_below_half_the_rate_before_and_below_35_percent(
    kept: float,
    found: bool,
) -> None:
    """From 80 % kept to `kept`, over a hundred thousand drafts."""
    at = [100_000, 80_000, 80_000 * kept]
    verdict = judge(window(120_000, at, depth=3, requests=300))[CLIFF].verdict
    assert (verdict is Verdict.WARNING) == found


def test_drafts_of_varying_depth_make_no_cliff() -> None:
    seen = window(1000, [850, 700, 550, 450, 2, 0, 0], requests=3, tokens=6000)
    assert judge(seen)[CLIFF].verdict is Verdict.OK


def test_a_whole_block_without_a_cliff_resolves_it() -> None:
    bad = window(1000, [850, 700, 550, 450, 2, 0, 0], requests=3)
    good = window(1000, DECAY, requests=3)
    assert judge(bad, good)[CLIFF].verdict is Verdict.WARNING
    healed = judge(bad, good, good)[CLIFF]
    assert (healed.verdict, healed.conclusive) == (Verdict.OK, True)


def test_a_new_life_is_judged_anew() -> None:
    assert judge(window(1000, DECAY, requests=3, tokens=1000), window(seconds=None)) == {}
    assert ALONE.learned
