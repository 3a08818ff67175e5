"""The wall clock is stepped under a running daemon, and Alertmanager's is right all the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endurance.forked import Nursery
from tests.endurance.house import House, until
from tests.endurance.places import DEAD, HEALTHY, about
from tests.sinks.alertmanagers import SUITES, RealAlertmanager, program
from tests.sinks.lab import Hook

LIBRARY = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
HOUR, DAY = 3600, 86400
STEPS = (-HOUR, DAY, 365 * DAY, -HOUR, 0, 365 * DAY, 0)
"""Where the wall clock is set to, one after the other, in seconds from the right time."""

RESTART = 3
"""After so many steps the daemon is killed, with its clock another one than before."""

DIES, HOLDS = "SpecDecodeCollapsed dies", "WatchdogBlind holds"

pytestmark = pytest.mark.skipif(not LIBRARY, reason="needs Debian's package faketime")


class Stepped:
    """The wall clock of the daemons; everybody else's is right."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.to(0)
        self.env = {
            "LD_PRELOAD": str(LIBRARY[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def to(self, seconds: float) -> None:
        part = self._file.with_suffix(".part")
        part.write_text(f"{seconds:+d}\n")
        part.replace(self._file)


class Active:
    """Looks all the time at what Alertmanager shows: `gaps` are looks at which one was missing."""

    def __init__(self, alertmanager: RealAlertmanager) -> None:
        self._alertmanager = alertmanager
        self.wanted: set[str] = set()
        self.gaps: list[set[str]] = []
        self.looks = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def now(self) -> set[str]:
        return {about(alert["labels"]) for alert in self._alertmanager.alerts()}

    def _look(self) -> None:
        while not self._over.wait(0.1):
            wanted, active = set(self.wanted), self.now()
            self.looks += 1
            if not wanted <= active:
                self.gaps.append(wanted - active)

    def __enter__(self) -> Active:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def clock(tmp_path: Path) -> Stepped:
    return Stepped(tmp_path)


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[RealAlertmanager]:
    hook = Hook()
    (tmp_path / "am").mkdir()
    with RealAlertmanager(program(SUITES[0]), tmp_path / "am", hook) as alertmanager:
        yield alertmanager
    hook.close()


def test_steps_raise_and_end_nothing_and_every_change_arrives(
    tmp_path: Path, clock: Stepped, alertmanager: RealAlertmanager
) -> None:
    """A drafter is dead, a page blind for part of its hold; the clock goes to and fro meanwhile."""
    names = ("well", "dies", "holds")
    alerting = {"alertmanagers": [{"url": alertmanager.url}]}
    with (
        Nursery(**clock.env) as nursery,
        Active(alertmanager) as active,
        House(tmp_path, names, ["hook"], alerting=alerting, nursery=nursery, speed=30.0) as house,
    ):
        taker, well = house.takers["hook"], house.targets["well"]
        house.running()
        house.targets["dies"].drafter = DEAD
        until(lambda: DIES in active.now() and taker.first())
        house.targets["holds"].garbled = True
        began = time.monotonic()
        active.wanted = {DIES}
        for number, step in enumerate(STEPS):
            clock.to(step)
            if number == RESTART:
                house.kill()
                house.running()
                restarted = time.monotonic()
            asked = well.asked + 1  # one may be under way
            until(lambda: well.asked >= asked + 3, 5)  # noqa: B023  called at once
            assert house.metric("watchdog_store_durable") == 1
        until(lambda: len(taker.first()) == 2, 30)
        held = (taker.first()[1].at - began) * house.speed
        assert held >= 300 - 30, "a step made the hold of five minutes shorter"
        anew = (restarted - began) * house.speed + 300
        assert held < anew - 30, "a restart, or a step, began the hold anew"
        until(lambda: HOLDS in active.now())

        house.targets["dies"].drafter = HEALTHY
        active.wanted = {HOLDS}
        until(lambda: active.now() == {HOLDS})
        until(lambda: len(taker.first()) == 3)
        changes = [(taken.about, taken.change) for taken in taker.first()]
        assert changes == [(DIES, "firing"), (HOLDS, "firing"), (DIES, "resolved")]
        assert active.gaps == []
        assert active.looks > 30
        assert house.says("the wall clock was stepped")
    told = [
        (about(a["labels"]), a["status"]) for b in alertmanager.hook.bodies for a in b["alerts"]
    ]
    assert told == [(DIES, "firing"), (HOLDS, "firing"), (DIES, "resolved")]
