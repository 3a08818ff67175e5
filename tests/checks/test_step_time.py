"""Steps slower than usual at a like load, and not at another."""

from __future__ import annotations

import pytest

from tests.checks.windows import ALONE, window
from watchdog.checks.step_time import State, StepTime, load_of
from watchdog.domain import series as s
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window

USUAL = 0.1


def at(step: float, *, batch: float = 1.0, gap: bool = False, kv: float = 0.01) -> Window:
    """150 decode updates of `step` seconds each."""
    seen = window(
        150, [100], requests=1, running=1, step=step, gap=gap, profile=ALONE,
        levels={s.KV_USAGE: kv},
    )  # fmt: skip
    seen.grown = {**seen.grown, s.ITERATIONS: 150 / batch}
    return seen


def go(windows: list[Window], state: State | None = None) -> tuple[State, list[Finding]]:
    """Step through windows of 15 s."""
    check, found = StepTime(), list[Finding]()
    if state is None:
        state, _ = check.step(None, window(seconds=None), 0.0)
    for seen in windows:
        state, found = check.step(state, seen, 0.0)
    return state, found


FORGET = at(USUAL, gap=True)
"""Readings were missed: the stretch begins anew, what is usual stays."""


def usual(rounds: int = 100) -> State:
    """A watch that has learned the usual time."""
    return go([at(USUAL)] * rounds)[0]


@pytest.mark.parametrize(("factor", "slow"), [(1.45, False), (1.55, True), (3.0, True)])
def test_steps_1_5_times_as_long_over_ten_minutes_are_slow(factor: float, slow: bool) -> None:
    _, found = go([FORGET, *[at(USUAL * factor)] * 40], usual())
    assert found[0].verdict is (Verdict.WARNING if slow else Verdict.OK)
    assert found[0].conclusive


@pytest.mark.parametrize(("rounds", "slow"), [(39, False), (40, True)])
def test_nothing_is_said_before_ten_minutes(rounds: int, slow: bool) -> None:
    _, found = go([FORGET, *[at(USUAL * 2)] * rounds], usual())
    assert found[0].verdict is (Verdict.WARNING if slow else Verdict.OK)


def test_it_is_inconclusive_until_forty_windows_are_learned() -> None:
    for rounds, conclusive in ((40, False), (81, True)):
        _, found = go([at(USUAL)] * rounds)
        assert found[0].conclusive is conclusive
    assert "still learned" in go([at(USUAL)] * 40)[1][0].argument.summary


def test_a_larger_batch_is_another_load() -> None:
    """Four requests a step take twice as long, and always did."""
    _, found = go([at(USUAL * 2, batch=4)] * 200, usual())
    assert found[0].verdict is Verdict.OK


def test_longer_contexts_and_prompts_are_another_load() -> None:
    assert load_of(at(USUAL)) != load_of(at(USUAL, kv=0.5))
    busy = at(USUAL)
    busy.grown = {**busy.grown, s.PROMPT_TOKENS: 150 * 100.0}
    assert load_of(at(USUAL)) != load_of(busy)
    cached = at(USUAL)
    cached.grown = {**busy.grown, s.PREFIX_HITS: 150 * 100.0 - 100}
    assert load_of(at(USUAL)) == load_of(cached)


def test_a_slow_time_is_never_learned_as_usual() -> None:
    """A whole day of it stays a warning."""
    _, found = go([at(USUAL * 2)] * 5760, usual())
    assert found[0].verdict is Verdict.WARNING
    assert found[0].value == pytest.approx(USUAL * 2, rel=0.01)


def test_it_resolves_half_way_back() -> None:
    """Half-way between 1 and 1.5: at 1.3 it stays, at 1.2 it ends."""
    slow, _ = go([at(USUAL * 2)] * 100, usual())
    assert go([at(USUAL * 1.3)] * 400, slow)[1][0].verdict is Verdict.WARNING
    assert go([at(USUAL * 1.2)] * 400, slow)[1][0].verdict is Verdict.OK


def test_a_gap_starts_the_stretch_anew() -> None:
    slow = [at(USUAL * 2)] * 39
    _, found = go([FORGET, *slow, FORGET, *slow], usual())
    assert found[0].verdict is Verdict.OK
    assert go([FORGET, *slow, *slow], usual())[1][0].verdict is Verdict.WARNING


def test_a_few_updates_are_no_measurement() -> None:
    state = usual()
    after, _ = go([window(19, [10], step=9.0, requests=1)] * 100, state)
    assert after == state
