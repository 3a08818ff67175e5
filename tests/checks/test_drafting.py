"""An engine that should draft and does not, and those that may rest."""

from __future__ import annotations

import pytest

from tests.checks.windows import window
from watchdog.checks.drafting import Drafting
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.profile import Profile

LEARNED = Profile(speculation=True, method="mtp", icc=0.0)
UNKNOWN_METHOD = Profile(speculation=True, icc=0.0)
NGRAM = Profile(speculation=True, method="ngram", icc=0.0)


def judge(*windows: Window, check: Drafting | None = None) -> Finding:
    """Step through windows; return the last finding."""
    check = check or Drafting()
    state, found = check.step(None, window(seconds=None, profile=windows[0].profile), 0.0)
    for i, seen in enumerate(windows):
        state, found = check.step(state, seen, 15.0 * (i + 1))
    return found[0]


def quiet(updates: float, drafts: float = 0.0, profile: Profile = LEARNED) -> Window:
    """A window that decodes with few drafts or none."""
    return window(drafts, [0], updates=updates, requests=1, profile=profile)


@pytest.mark.parametrize(("updates", "stopped"), [(199, False), (200, True)])
def test_two_hundred_updates_without_a_draft_decide(updates: float, stopped: bool) -> None:
    found = judge(quiet(updates))
    assert found.verdict is (Verdict.CRITICAL if stopped else Verdict.OK)
    assert found.conclusive is stopped


def test_the_updates_are_accumulated_over_windows() -> None:
    assert judge(quiet(100), quiet(99)).verdict is Verdict.OK
    assert judge(quiet(100), quiet(100)).verdict is Verdict.CRITICAL


@pytest.mark.parametrize(("drafts", "stopped"), [(4, True), (5, False)])
def test_drafts_on_two_percent_of_the_updates_are_none_for_a_learned_drafter(
    drafts: float,
    stopped: bool,
) -> None:
    verdict = judge(quiet(200, drafts)).verdict
    assert verdict is (Verdict.CRITICAL if stopped else Verdict.OK)


@pytest.mark.parametrize(("drafts", "stopped"), [(0, True), (1, False)])
def test_an_unknown_method_is_blamed_only_for_no_draft_at_all(drafts: float, stopped: bool) -> None:
    verdict = judge(quiet(2000, drafts, UNKNOWN_METHOD)).verdict
    assert verdict is (Verdict.CRITICAL if stopped else Verdict.OK)


def test_an_unknown_method_that_drafted_seldom_before_is_not_blamed() -> None:
    seldom = quiet(1000, 100, UNKNOWN_METHOD)
    assert judge(seldom, quiet(500, 0, UNKNOWN_METHOD)).verdict is Verdict.OK
    always = quiet(1000, 1000, UNKNOWN_METHOD)
    assert judge(always, quiet(500, 0, UNKNOWN_METHOD)).verdict is Verdict.CRITICAL


def test_n_gram_and_undeclared_speculation_are_never_asked() -> None:
    for profile in (NGRAM, Profile(speculation=False), Profile()):
        state, found = Drafting().step(None, quiet(5000, 0, profile), 15.0)
        assert found == []
        assert state is not None


def test_the_first_window_that_drafts_resolves() -> None:
    found = judge(quiet(500), quiet(100, 100))
    assert (found.verdict, found.conclusive) == (Verdict.OK, True)


def test_no_series_although_declared_is_critical() -> None:
    bare = window(depth=0, updates=10, profile=LEARNED)
    found = judge(bare)
    assert found.verdict is Verdict.CRITICAL
    assert "not configured" in found.argument.summary
    bare.facts = {"format": "openmetrics"}  # the Rust frontend makes them at the first draft
    assert judge(bare).verdict is Verdict.OK


def test_a_schedule_that_may_pause_is_not_blamed() -> None:
    check = Drafting(may_pause=True)
    assert judge(quiet(5000), check=check).verdict is Verdict.OK
    assert judge(quiet(5000)).verdict is Verdict.CRITICAL


@pytest.mark.parametrize(("generated", "gains"), [(1080, False), (1120, True)])
def test_steps_that_gain_tokens_mean_counters_that_stand_still(
    generated: float,
    gains: bool,
) -> None:
    """The Rust frontend with --disable-log-stats: 1.1 tokens per step are the limit."""
    still = window(0, [0], updates=1000, generated=generated, profile=LEARNED)
    found = judge(still)
    assert found.verdict is (Verdict.UNKNOWN if gains else Verdict.CRITICAL)


def test_a_restart_keeps_the_verdict_until_there_is_evidence() -> None:
    check = Drafting()
    reset = window(seconds=None, profile=LEARNED)
    assert judge(quiet(500), reset, check=check).verdict is Verdict.CRITICAL
    assert judge(quiet(500), reset, quiet(10, 10), check=check).verdict is Verdict.OK
