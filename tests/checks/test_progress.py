"""Work and no token for 120 s, and everything that only looks like it."""

from __future__ import annotations

import pytest

from tests.checks.windows import window
from watchdog.checks.progress import Progress
from watchdog.domain import series as s
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window


def still(**levels: float) -> Window:
    """A window with one request running and nothing that moves."""
    return window(running=1, levels=levels)


def judge(*windows: Window) -> list[Finding]:
    """Step through windows of 15 s after a first reading."""
    check = Progress()
    state, found = check.step(None, window(seconds=None, running=1), 0.0)
    for i, seen in enumerate(windows):
        state, found = check.step(state, seen, 15.0 * (i + 1))
    return found


@pytest.mark.parametrize(("rounds", "stalled"), [(7, False), (8, True)])
def test_two_minutes_of_work_without_a_token_are_a_stall(rounds: int, stalled: bool) -> None:
    found = judge(*[still()] * rounds)[0]
    assert found.verdict is (Verdict.CRITICAL if stalled else Verdict.OK)
    assert found.conclusive is stalled


def test_waiting_requests_count_as_work() -> None:
    waiting = window(levels={s.WAITING: 3.0})
    waiting.before = {s.RUNNING: 0.0, s.WAITING: 3.0}
    assert judge(*[waiting] * 8)[0].verdict is Verdict.CRITICAL


@pytest.mark.parametrize("moves", [s.GENERATED_TOKENS, s.PROMPT_TOKENS, s.UPDATES, s.ITERATIONS])
def test_anything_that_moves_ends_it(moves: str) -> None:
    seen = still()
    seen.grown = {**seen.grown, moves: 1.0}
    found = judge(*[still()] * 7, seen, *[still()] * 7)[0]
    assert found.verdict is Verdict.OK


def test_an_idle_engine_does_not_stall() -> None:
    found = judge(*[window()] * 100)[0]
    assert (found.verdict, found.conclusive) == (Verdict.OK, True)


def test_gauges_left_behind_by_a_mass_abort_are_not_believed() -> None:
    """All running requests ended and no step followed that would refresh the gauge."""
    ended = still()
    ended.grown = {**ended.grown, s.FINISHED: 1.0}
    found = judge(ended, *[still()] * 20)[0]
    assert (found.verdict, found.conclusive) == (Verdict.OK, False)
    assert "stale" in found.argument.summary


def test_aborts_of_some_do_not_excuse_the_rest() -> None:
    busy = window(running=4)
    ended = window(running=4)
    ended.grown = {**ended.grown, s.FINISHED: 1.0}
    assert judge(ended, *[busy] * 20)[0].verdict is Verdict.CRITICAL


def test_a_sleeping_engine_does_not_stall() -> None:
    asleep = still(awake=0.0)
    assert judge(*[asleep] * 20)[0].verdict is Verdict.OK
    assert judge(*[still(awake=1.0)] * 20)[0].verdict is Verdict.CRITICAL


def test_a_missed_page_does_not_restart_the_count() -> None:
    """The counters of both its ends say that no token came in between."""
    gap = window(running=1, gap=True)
    assert judge(*[still()] * 4, gap, *[still()] * 4)[0].verdict is Verdict.CRITICAL


def filling(step: int) -> Window:
    """A prompt that fills the KV cache a little more in each window."""
    seen = still(kv_usage=0.001 * (step + 1))
    seen.before = {**seen.before, s.KV_USAGE: 0.001 * step}
    return seen


@pytest.mark.parametrize(("rounds", "stalled"), [(39, False), (60, True)])
def test_a_long_prompt_is_waited_for_ten_minutes(rounds: int, stalled: bool) -> None:
    found = judge(*[filling(i) for i in range(rounds)])[0]
    assert found.verdict is (Verdict.CRITICAL if stalled else Verdict.OK)


def test_a_page_without_gauges_is_not_judged() -> None:
    bare = window()
    bare.levels = {s.DRAFTS: 1.0}
    assert judge(bare) == []


def test_clients_that_give_up_one_by_one_do_not_make_the_gauges_look_stale() -> None:
    """Running 3 and waiting 5 for ever; each round one of their clients leaves."""
    leaves = still(**{s.RUNNING: 3.0, s.WAITING: 5.0})
    leaves.grown = {**leaves.grown, s.FINISHED: 1.0, s.ABORTED: 1.0}
    assert judge(*[leaves] * 20)[0].verdict is Verdict.CRITICAL


def test_one_page_with_work_on_it_is_no_proof_that_the_engine_moves() -> None:
    first = still()
    first.seconds = None
    assert not judge(first)[0].conclusive
