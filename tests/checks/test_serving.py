"""Down, starting, restarting: from both sides of each limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from watchdog.checks.serving import Serving
from watchdog.domain import series as s
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.profile import Profile
from watchdog.domain.sample import Reading, labels

TARGET = labels(target="t")


def page(*, answered: bool = True, error: str | None = None, reset: bool = False,
         grace: float = 900.0, **facts: object) -> Window:  # fmt: skip
    """One round of the target; `started_at` is when a process was seen to start."""
    silent = None if answered else "connection refused"
    reading = Reading("vllm_metrics", "t", error=error or silent, answered=answered)
    levels = {s.PROCESS_START: 1.0}
    return Window(
        TARGET, 0.0, 15.0, levels=levels, reset=reset, facts=facts, readings=(reading,),
        profile=Profile(cold_start=grace),
    )  # fmt: skip


def told(rounds: list[tuple[float, Window]], **limits: float) -> dict[str, Finding]:
    """Judge windows at their times; return the last findings by name."""
    check, state = Serving(**limits), None
    found: list[Finding] = []
    for at, window in rounds:
        state, found = check.step(state, window, at)
    return {f.alertname: f for f in found}


def silence(until: float, every: float = 15.0, **facts: object) -> list[tuple[float, Window]]:
    """One answer at 0, then none."""
    silent = [(at, page(answered=False, **facts)) for at in _times(every, until)]  # type: ignore[arg-type]
    return [(0.0, page()), *silent]


def _times(every: float, until: float) -> list[float]:
    return [every * i for i in range(1, int(until / every) + 1)]


@pytest.mark.parametrize(("until", "down"), [(60, False), (75, True)])
def test_down_is_sixty_seconds_after_the_first_silent_round(until: float, down: bool) -> None:
    """Silent since 15: at 60 it is 45 s, at 75 it is 60."""
    found = told(silence(until))["ServingDown"]
    assert found.verdict is (Verdict.CRITICAL if down else Verdict.UNKNOWN)
    assert found.conclusive is down


@pytest.mark.parametrize(("error", "down"), [("still reading after 2 s", False), (None, True)])
def test_a_process_that_was_not_looked_for_in_time_is_still_starting(
    error: str | None, down: bool
) -> None:
    """The cores are busy with its compilation; a look that finds no process is another thing."""
    last = page(answered=False)
    looked = Reading("launch", "t", error=error, answered=error is None)
    last = replace(last, readings=(*last.readings, looked))
    found = told([*silence(285, started_at=10.0), (300.0, last)])["ServingDown"]
    assert found.verdict is (Verdict.CRITICAL if down else Verdict.UNKNOWN)


@pytest.mark.parametrize(("rounds", "down"), [(2, False), (3, True)])
def test_down_takes_three_rounds_however_long_they_are(rounds: int, down: bool) -> None:
    found = told(silence(600 * rounds, every=600))["ServingDown"]
    assert found.verdict is (Verdict.CRITICAL if down else Verdict.UNKNOWN)


def test_an_answer_in_between_begins_the_count_anew() -> None:
    rounds = [*silence(60), (75.0, page()), *[(75.0 + at, w) for at, w in silence(60)[1:]]]
    assert told(rounds)["ServingDown"].verdict is Verdict.UNKNOWN


def test_a_page_that_answers_and_makes_no_sense_is_not_down_and_not_conclusive() -> None:
    rounds = [(at, page(error="no vllm: series")) for at in _times(15, 600)]
    found = told(rounds)["ServingDown"]
    assert (found.verdict, found.conclusive) == (Verdict.OK, False)
    assert "no vllm: series" in found.argument.summary


def test_a_young_process_is_starting_until_its_grace_is_over() -> None:
    for until, verdict in ((900, Verdict.UNKNOWN), (945, Verdict.CRITICAL)):
        found = told(silence(until, started_at=10.0))["ServingDown"]
        assert found.verdict is verdict
    assert "starting" in told(silence(600, started_at=10.0))["ServingDown"].argument.summary


def test_a_declared_cold_start_is_the_grace() -> None:
    def until(seconds: float) -> Verdict:
        rounds = silence(seconds, started_at=0.0, grace=100.0)
        return told(rounds)["ServingDown"].verdict

    assert until(100) is Verdict.UNKNOWN
    assert until(120) is Verdict.CRITICAL


def test_a_server_that_dies_and_starts_for_ever_is_down_in_the_end() -> None:
    """Always young, never up: the silence itself outlasts the grace."""
    check, state, verdict = Serving(), None, Verdict.OK
    for at in _times(15, 1200):
        seen = page(answered=False, started_at=at - at % 120)
        state, found = check.step(state, seen, at)
        verdict = found[0].verdict
    assert verdict is Verdict.CRITICAL


def anew(at: float) -> Window:
    """A page whose process started then."""
    seen = page(reset=True)
    seen.levels = {**seen.levels, s.PROCESS_START: at}
    return seen


def test_two_processes_that_answer_in_turn_do_not_start_again_and_again() -> None:
    rounds = [(15.0 * i, anew(100.0 + i % 2)) for i in range(20)]
    assert told(rounds)["ServingRestarting"].value == 2


def test_a_target_without_a_reading_is_unknown_and_not_up() -> None:
    silent = page()
    silent.readings = ()
    found = told([(15.0, silent)])["ServingDown"]
    assert (found.verdict, found.conclusive) == (Verdict.UNKNOWN, False)


@pytest.mark.parametrize(("starts", "often"), [(2, False), (3, True)])
def test_three_starts_in_an_hour_are_too_many(starts: int, often: bool) -> None:
    rounds = [(600.0 * i, anew(600.0 * i)) for i in range(1, starts + 1)]
    found = told(rounds)["ServingRestarting"]
    assert found.verdict is (Verdict.WARNING if often else Verdict.OK)
    assert found.value == starts


def test_starts_leave_the_count_after_an_hour() -> None:
    starts = [(at, anew(at)) for at in (0.0, 100.0, 200.0)]
    assert told([*starts, (3599.0, page())])["ServingRestarting"].value == 3
    assert told([*starts, (3600.0, page())])["ServingRestarting"].value == 2


def test_without_a_process_start_on_the_page_fallen_counters_are_a_start() -> None:
    engine = Window(labels(target="t", engine="0"), 0.0, reset=True)
    whole = page()
    whole.levels, whole.parts = {}, (engine,)
    assert told([(15.0, whole)])["ServingRestarting"].value == 1
    with_start = page()
    with_start.parts = (engine,)  # elastic scaling: counters anew, the same process
    assert told([(15.0, with_start)])["ServingRestarting"].value == 0
