"""What a kill -9 must not bend: holds, lingering, half a proof, pauses; and a long absence."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.bench_tree import r9700
from tests.endurance.forked import Nursery
from tests.endurance.house import House, until
from tests.endurance.places import DEAD, HEALTHY

SLACK = 60.0
"""Seconds of their time by which a busy machine may make things late."""


def changes(house: House) -> list[tuple[str, str]]:
    return [(taken.about, taken.change) for taken in house.takers["hook"].first()]


def finding(house: House, alertname: str, target: str) -> dict[str, Any]:
    for found in house.report().get("findings", ()):
        if found["alertname"] == alertname and found["subject"].get("target") == target:
            return dict(found)
    return {}


def test_a_hold_and_a_lingering_go_on_over_kills(tmp_path: Path, nursery: Nursery) -> None:
    with House(tmp_path, ["blind"], ["hook"], speed=30.0, nursery=nursery) as house:
        card = r9700(house.bench, "0000:00:02.0 8086:6f04", 0x03, numa=0)
        card.trained(1, 16)
        house.write()
        house.running()
        until(lambda: len(changes(house)) == 1)
        card.trained(3, 16)  # lingers for 300 s
        house.targets["blind"].garbled = True  # is held for 300 s
        began, lived = time.monotonic(), 100.0 / house.speed
        for _ in range(2):
            time.sleep(lived)
            house.kill()
            time.sleep(0.3)
            house.running()
            assert len(changes(house)) == 1
        until(lambda: len(changes(house)) == 3)
        took = (time.monotonic() - began) * house.speed
        assert 300 - SLACK / 2 < took < 300 + SLACK, "a kill made it early or late"
        assert sorted(changes(house)) == [
            (f"GpuLinkDegraded {card.slot}", "firing"),
            (f"GpuLinkDegraded {card.slot}", "resolved"),
            ("WatchdogBlind blind", "firing"),
        ]


def test_lingering_begins_anew_where_nobody_looked_for_long(
    tmp_path: Path, nursery: Nursery
) -> None:
    """Nobody knows what was in between; one that fires goes on, and is told once."""
    with House(tmp_path, ["dies"], ["hook"], speed=100.0, nursery=nursery) as house:
        card = r9700(house.bench, "0000:00:02.0 8086:6f04", 0x03, numa=0)
        card.trained(1, 16)
        house.write()
        house.running()
        until(lambda: len(changes(house)) == 1)
        card.trained(3, 16)
        time.sleep(200 / house.speed)
        house.kill()
        time.sleep(80 / house.speed)
        house.running()
        began = time.monotonic()
        assert house.fires() == {f"GpuLinkDegraded {card.slot}"}
        until(lambda: not house.fires())
        assert (time.monotonic() - began) * house.speed > 300 - SLACK / 2
        until(lambda: [change for _, change in changes(house)] == ["firing", "resolved"])


def test_half_a_proof_is_kept(tmp_path: Path, nursery: Nursery) -> None:
    """The dead drafter's score stands at a part of its alarm, and needs only the rest."""
    with House(tmp_path, ["dies"], ["hook"], speed=5.0, nursery=nursery) as house:
        target = house.targets["dies"]
        target.busy = 0.0
        house.running()
        target.drafter, target.busy = DEAD, 0.3
        found = until(lambda: _leaning(house, 2.0))
        target.busy = 0.0
        time.sleep(0.5)
        found = _leaning(house, 2.0)
        assert found, "the machine was too busy: all of the proof came at once"
        house.kill()
        house.running()
        again = finding(house, "SpecDecodeCollapsed", "dies")
        assert again["verdict"] == "UNKNOWN"
        assert again["evidence"] | _TIMES == found["evidence"] | _TIMES
        assert changes(house) == []
        target.busy = 0.3
        until(lambda: changes(house) == [("SpecDecodeCollapsed dies", "firing")])


_TIMES = {"window_seconds": 0, "evidence_age_seconds": 0}


def _leaning(house: House, score: float) -> dict[str, Any]:
    found = finding(house, "SpecDecodeCollapsed", "dies")
    leans = found and found["verdict"] == "UNKNOWN" and found["evidence"]["drafts"] > 20 * score
    return found if leans else {}


def test_a_pause_survives_and_ends_by_itself(tmp_path: Path, nursery: Nursery) -> None:
    with House(tmp_path, ["dies"], ["hook"], speed=30.0, nursery=nursery) as house:
        house.running()
        assert house.post("pause", target="dies", seconds=150.0)
        began = time.monotonic()
        house.kill()
        house.running()
        assert list(house.report()["paused"]) == ["dies"]
        house.targets["dies"].drafter = DEAD
        until(lambda: finding(house, "SpecDecodeCollapsed", "dies")["verdict"] == "CRITICAL")
        house.kill()
        house.running()
        assert changes(house) == []
        until(lambda: changes(house) == [("SpecDecodeCollapsed dies", "firing")])
        assert (time.monotonic() - began) * house.speed > 150 - 1
        assert house.report()["paused"] == {}


def test_after_a_long_absence_what_fired_fires_and_what_was_pending_is_forgotten(
    tmp_path: Path, nursery: Nursery
) -> None:
    with House(tmp_path, ["dies", "blind"], ["hook"], speed=200.0, nursery=nursery) as house:
        dies, blind = house.targets["dies"], house.targets["blind"]
        dies.drafter = DEAD
        house.running()
        until(lambda: len(changes(house)) == 1)
        blind.garbled = True
        time.sleep(100 / house.speed)
        house.kill()
        time.sleep(1000 / house.speed)
        house.running()
        began = time.monotonic()
        assert house.fires() == {"SpecDecodeCollapsed dies"}
        until(lambda: len(changes(house)) == 2)
        assert (time.monotonic() - began) * house.speed > 300 - SLACK, "an old hold counted"
        dies.drafter = HEALTHY
        until(lambda: len(changes(house)) == 3)
        assert changes(house) == [
            ("SpecDecodeCollapsed dies", "firing"),
            ("WatchdogBlind blind", "firing"),
            ("SpecDecodeCollapsed dies", "resolved"),
        ]
        assert house.takers["hook"].again() == 0
