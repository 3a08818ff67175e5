"""Links in numbers and words, and which witness is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks.gpu_windows import tells
from watchdog.domain import series as s
from watchdog.domain.link import (
    FIRMWARE,
    SPEEDS,
    Link,
    Slot,
    above,
    actual_of,
    below,
    declared_of,
    generation_of,
    told,
)


@pytest.mark.parametrize(("generation", "speed"), SPEEDS.items())
def test_each_generation_has_its_speed_and_back(generation: int, speed: float) -> None:
    assert generation_of(speed) == generation
    assert Slot("0000:00:03.0", generation, 8).link == Link(speed, 8.0)


@pytest.mark.parametrize(
    ("speed", "generation"), [(None, None), (0.0, None), (8.04, 3), (8.06, None), (20.0, None)]
)
def test_a_speed_is_of_a_generation_within_half_a_tenth(
    speed: float | None, generation: int | None
) -> None:
    assert generation_of(speed) == generation


@pytest.mark.parametrize(
    ("speed", "width", "words"),
    [
        (8.0, 8.0, "Gen3 x8"), (2.5, 1.0, "Gen1 x1"), (64.0, 16.0, "Gen6 x16"),
        (20.0, 4.0, "20 GT/s x4"), (8.0, None, "Gen3 of unknown width"),
        (None, 16.0, "x16 at unknown speed"), (None, None, "unknown"),
    ],
)  # fmt: skip
def test_a_link_in_words(speed: float | None, width: float | None, words: str) -> None:
    assert told(speed, width) == words
    assert str(Link(speed, width)) == words


@pytest.mark.parametrize(
    ("link", "gigabytes"),
    [
        (Link(2.5, 16.0), 4.0), (Link(8.0, 16.0), 15.75), (Link(8.0, 8.0), 7.88),
        (Link(8.04, 8.0), 7.92), (Link(8.0), None), (Link(None, 8.0), None),
    ],
)  # fmt: skip
def test_bandwidth_counts_what_line_coding_leaves(link: Link, gigabytes: float | None) -> None:
    assert (link.bandwidth and round(link.bandwidth, 2)) == gigabytes


def test_both_ends_are_believed_before_the_star_and_that_before_firmware() -> None:
    everyone = tells(3, 8) | tells(4, 16, s.STARRED) | tells(5, 16, s.METRICS) | tells(1, 1, s.NVML)
    assert actual_of(everyone).link == Link(8.0, 8.0)
    assert actual_of(everyone).speed_by == "ends"
    for i, witness in enumerate(FIRMWARE):
        rest = {k: v for k, v in everyone.items() if k.endswith(FIRMWARE[i:])}
        assert actual_of(rest).speed_by == witness


def test_the_lower_of_both_ends_counts() -> None:
    assert actual_of(tells(3, 16, s.PORT) | tells(1, 8, s.CARD)).link == Link(2.5, 8.0)


def test_speed_and_width_may_have_different_witnesses() -> None:
    found = actual_of(tells(3, None, s.STARRED) | tells(None, 8, s.CARD))
    assert (found.link, found.speed_by, found.width_by) == (Link(8.0, 8.0), s.STARRED, "ends")


def test_the_link_inside_the_card_is_no_witness_of_the_slot() -> None:
    assert actual_of(tells(5, 16, s.FUNCTION)).link.silent
    assert actual_of(tells(5, 16, s.FUNCTION) | tells(3, 8)).link == Link(8.0, 8.0)


def test_a_link_above_the_slot_narrows_and_is_named() -> None:
    found = actual_of(tells(4, 16) | tells(3, 8, s.PATH))
    assert (found.link, found.slot, found.above) == (Link(8.0, 8.0), Link(16.0, 16.0), True)


def test_a_wider_link_above_the_slot_changes_nothing() -> None:
    assert not actual_of(tells(3, 8) | tells(4, 16, s.PATH)).above


def test_a_link_above_the_slot_alone_tells_nothing_of_the_slot() -> None:
    assert actual_of(tells(3, 8, s.PATH)).link.silent


def test_any_address_of_the_chain_finds_the_declaration() -> None:
    chain = ("0000:00:03.0", "0000:03:00.0", "0000:04:00.0", "0000:05:00.0")
    for key in chain:
        slot = Slot(key, 3, 16)
        assert declared_of([Slot("0000:80:02.0", 3, 8), slot], chain) == slot
    assert declared_of([Slot("0000:06:00.0", 3, 16)], chain) is None


def test_tenths_of_a_speed_are_no_difference() -> None:
    assert not below(7.96, 8.0)
    assert below(7.94, 8.0)
    assert not above(8.04, 8.0)
    assert above(8.06, 8.0)
    assert not below(None, 8.0)
    assert not above(None, 8.0)


SPEED = st.none() | st.sampled_from(sorted(SPEEDS.values()))
WIDTH = st.none() | st.sampled_from([1.0, 2.0, 4.0, 8.0, 12.0, 16.0])


@given(st.dictionaries(st.sampled_from(s.WITNESSES), st.tuples(SPEED, WIDTH)))
def test_no_link_is_claimed_that_no_witness_of_the_slot_told(
    links: dict[str, tuple[float | None, float | None]],
) -> None:
    levels = {}
    for witness, (speed, width) in links.items():
        levels |= {} if speed is None else {s.LINK_SPEED + witness: speed}
        levels |= {} if width is None else {s.LINK_WIDTH + witness: width}
    found = actual_of(levels).slot
    slot = [pair for who, pair in links.items() if who not in (s.PATH, s.FUNCTION)]
    assert found.speed is None or found.speed in {speed for speed, _ in slot}
    assert found.width is None or found.width in {width for _, width in slot}
    assert found.silent is all(pair == (None, None) for pair in slot)
