"""The round's timeline: no clock step bends it."""

from __future__ import annotations

import time

import pytest

from watchdog.clock import Clock


def test_a_step_of_the_wall_clock_shows_as_skew_and_not_as_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, real = Clock(), time.time
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: real() + 3600)

    assert clock.now() - before < 60
    assert clock.skew() == pytest.approx(3600, abs=1)


def test_without_a_step_there_is_no_skew() -> None:
    assert Clock().skew() == 0.0


def test_a_fast_clock_runs_at_its_speed() -> None:
    clock = Clock(speed=1000)
    began = clock.now()

    assert not clock.sleep(20)

    assert clock.now() - began >= 20


def test_a_stopped_clock_sleeps_no_more() -> None:
    clock = Clock()
    clock.stop()

    assert clock.sleep(3600)


def marked(now: float = 5000.0, **changed: object) -> dict[str, object]:
    """Where a former process was, ten seconds ago, on this boot."""
    clock = Clock()
    clock.resume({**clock.mark(), "now": now})
    return {**clock.mark(), "monotonic": time.monotonic() - 10.0, **changed}


def test_the_next_process_goes_on_with_the_timeline() -> None:
    clock = Clock()
    assert clock.resume(marked()) == pytest.approx(10.0, abs=0.5)
    assert clock.now() == pytest.approx(5010.0, abs=0.5)
    assert clock.now() + clock.skew() == pytest.approx(time.time(), abs=0.5)


@pytest.mark.parametrize("step", [-3600.0, 86400.0, 31_536_000.0])
def test_a_clock_that_was_stepped_while_we_were_away_bends_nothing(step: float) -> None:
    clock = Clock()
    assert clock.resume(marked(wall=time.time() - 10.0 - step)) == pytest.approx(10.0, abs=0.5)
    assert clock.now() == pytest.approx(5010.0, abs=0.5)


def test_after_a_boot_the_wall_clock_says_how_long_we_were_away() -> None:
    clock = Clock()
    mark = marked(boot="another", monotonic=10.0, wall=time.time() - 300.0)
    assert clock.resume(mark) == pytest.approx(300.0, abs=0.5)
    assert clock.now() == pytest.approx(5300.0, abs=0.5)


def test_a_clock_that_went_back_over_a_boot_does_not_take_the_timeline_back() -> None:
    clock = Clock()
    mark = marked(boot="another", monotonic=10.0, wall=time.time() + 300.0)
    assert clock.resume(mark) == 0.0
    assert clock.now() == pytest.approx(5000.0, abs=0.5)


def test_a_fast_clock_was_away_as_many_times_as_long() -> None:
    clock = Clock(speed=100)
    assert clock.resume(marked()) == pytest.approx(10.0, abs=0.5)
    assert clock.now() == pytest.approx(6000.0, abs=50)
