"""Against a declared length: 0.6 of it now, 0.8 over a day, and half-way back."""

from __future__ import annotations

import pytest

from tests.checks.windows import window
from watchdog.checks.declared_length import DeclaredLength, State
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.profile import Profile

DECLARED = Profile(method="eagle", acceptance_length=3.0, icc=0.0)


def told(
    share: float, *, every: float, until: float, state: State | None = None, at: float = 0.0,
    drafts: float = 1000.0, requests: float = 3.0, profile: Profile = DECLARED,
) -> tuple[State, Finding]:  # fmt: skip
    """Accept this share of the drafts at each of seven positions, for so long."""
    check = DeclaredLength()
    if state is None:
        state, _ = check.step(None, window(seconds=None, profile=profile), at)
    while at < until:
        at += every
        seen = window(
            drafts, [drafts * share] * 7, requests=requests, seconds=every, profile=profile
        )
        state, found = check.step(state, seen, at)
    return state, found[0]


def test_nothing_declared_nothing_said() -> None:
    _, found = DeclaredLength().step(None, window(10, [1], profile=Profile()), 15.0)
    assert found == []


@pytest.mark.parametrize(("length", "low"), [(1.75, True), (1.85, False)])
def test_an_upper_bound_below_0_6_of_it_warns_at_once(length: float, low: bool) -> None:
    """1.8 is the limit; 100,000 drafts leave the bound little room."""
    _, found = told((length - 1) / 7, every=15, until=15, drafts=100_000)
    assert found.verdict is (Verdict.WARNING if low else Verdict.OK)
    assert found.conclusive


def test_few_drafts_leave_the_bound_too_much_room() -> None:
    """The same length of 1.75, over 40 drafts: the truth may be 2."""
    assert told(0.75 / 7, every=15, until=15, drafts=40)[1].verdict is Verdict.OK


@pytest.mark.parametrize(
    ("drafts", "requests"), [(29, 3), (100_000, 2)], ids=["too few drafts", "too few requests"]
)
def test_too_little_evidence_is_inconclusive(drafts: float, requests: float) -> None:
    _, found = told(0.0, every=15, until=15, drafts=drafts, requests=requests)
    assert (found.verdict, found.conclusive) == (Verdict.OK, False)


def test_a_low_now_resolves_more_than_half_way_back() -> None:
    """Half-way between 0.6 and 1 of 3.0 is 2.4."""
    low, _ = told(0.5 / 7, every=15, until=15, drafts=100_000)
    for length, warns in ((2.39, True), (2.45, False)):
        state, found = told((length - 1) / 7, every=15, until=4000, at=15.0, state=low)
        assert (found.verdict is Verdict.WARNING) == warns
        assert (state.low == "now") == warns


@pytest.mark.parametrize(("length", "low"), [(2.35, True), (2.45, False)])
def test_a_length_of_24_hours_below_0_8_of_it_warns_after_a_day(length: float, low: bool) -> None:
    """2.4 is the limit; before a whole day nothing is said."""
    share = (length - 1) / 7
    _, early = told(share, every=300, until=86_000)
    assert early.verdict is Verdict.OK
    _, found = told(share, every=300, until=92_000)
    assert found.verdict is (Verdict.WARNING if low else Verdict.OK)
    if low:
        assert "over the last 24 h" in found.argument.summary
        assert found.value == pytest.approx(length)


def test_a_low_day_resolves_half_way_back_over_a_day() -> None:
    """Half-way between 0.8 and 1 of 3.0 is 2.7."""
    low, _ = told(1.3 / 7, every=300, until=92_000)
    for length, warns in ((2.65, True), (2.75, False)):
        _, found = told((length - 1) / 7, every=300, at=92_000, until=185_000, state=low)
        assert (found.verdict is Verdict.WARNING) == warns


def test_a_new_life_forgets_the_recent_drafts_and_keeps_the_warning() -> None:
    low, _ = told(0.0, every=15, until=15, drafts=100_000)
    _, found = DeclaredLength().step(low, window(seconds=None, profile=DECLARED), 30.0)
    assert found[0].verdict is Verdict.WARNING


@pytest.mark.parametrize(
    ("drafts", "requests"), [(1, 1), (400, 0.1)], ids=["too few drafts", "too few requests"]
)
def test_a_day_of_too_little_evidence_decides_nothing(drafts: float, requests: float) -> None:
    """One short request of hard text in an idle day is no drafter."""
    _, found = told(0.17, every=86_400 / 20, until=92_000, drafts=drafts, requests=requests)
    assert found.verdict is Verdict.OK


def test_what_a_dead_drafter_did_is_told_once_and_not_by_this_again() -> None:
    """Nor is the day in which it was dead low when it is healed: that day begins anew."""
    check = DeclaredLength()
    state, _ = told(0.3, every=300, until=92_000)
    for share, until, doubts in ((0.01, 180_000, {"SpecDecodeCollapsed": Verdict.CRITICAL}),
                                 (0.3, 380_000, {})):  # fmt: skip
        for at in range(92_000 if doubts else 180_000, until, 300):
            seen = window(1000, [1000 * share] * 7, requests=3.0, seconds=300, profile=DECLARED)
            seen.doubts = doubts
            state, found = check.step(state, seen, float(at))
            assert found[0].verdict is Verdict.OK
