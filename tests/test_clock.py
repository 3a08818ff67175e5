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
