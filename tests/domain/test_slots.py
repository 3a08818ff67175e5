"""Cards that left their slots, and probes that do not read what is in one now."""

from __future__ import annotations

from watchdog.domain.sample import HOST, Reading, labels
from watchdog.domain.slots import left

SLOT = "0000:00:02.0"
BLIND = labels(probe="nvml", slot=SLOT)
CENSUS = Reading("gpus", HOST, facts={"gpus": [{"slot": SLOT}]})


def of(probe: str) -> Reading:
    return Reading(probe, HOST, slot=SLOT, error="not answered")


def test_a_card_that_is_read_and_fails_has_not_left() -> None:
    assert left([CENSUS, of("nvml")], [BLIND]) == []


def test_a_card_that_is_listed_no_more_has_left() -> None:
    gone = Reading("gpus", HOST, facts={"gpus": []})
    assert left([gone], [BLIND]) == [BLIND]


def test_blindness_of_a_probe_ends_where_another_makers_card_is_in_the_slot() -> None:
    assert left([CENSUS, of("gpu_memory")], [BLIND]) == [BLIND]


def test_without_a_census_nothing_has_left() -> None:
    assert left([of("gpu_memory")], [BLIND]) == []
