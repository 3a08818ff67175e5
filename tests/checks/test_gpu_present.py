"""A GPU in every declared slot: missing, lost, renumbered, or nothing to watch at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.checks.gpu_windows import host, link, r9700, steps, unread, window
from watchdog.checks.gpu_present import GpuPresent
from watchdog.domain import series as s
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.link import Slot
from watchdog.domain.sample import Reading, Sample, labels

OPEN = (Verdict.OK, False)
WELL = (Verdict.OK, True)
GONE = (Verdict.CRITICAL, True)
BLIND = (Verdict.UNKNOWN, True)

PORTS = ("0000:00:02.0", "0000:00:03.0", "0000:80:02.0", "0000:80:03.0")
SLOTS = tuple(Slot(f"0000:{3 * i + 5:02x}:00.0", 3, 16) for i in range(4))
"""What the bench's file says: each by the address that its function had when it was written."""


def card(slot: str, first: int) -> dict[str, Any]:
    """A Radeon with its own switch at three bus numbers from `first`, behind a port."""
    chain = [slot, *(f"0000:{first + i:02x}:00.0" for i in range(3))]
    return {"gpu": chain[-1], "slot": slot, "chain": chain, "vendor": "amd", "device": "1002:7551"}


CARDS = tuple(card(port, 3 * i + 3) for i, port in enumerate(PORTS))


def said(found: Finding) -> tuple[Verdict, bool]:
    return found.verdict, found.conclusive


def last(*windows: Window, rounds: int = 2) -> dict[str, Finding]:
    """The last round's findings by slot."""
    found = steps(GpuPresent(rounds), windows)[-1]
    assert all(f.alertname == "GpuMissing" for f in found)
    by_slot = {dict(f.subject).get("slot", ""): f for f in found}
    assert len(by_slot) == len(found)
    return by_slot


def part(slot: str, facts: Mapping[str, Any]) -> Window:
    """The window of one GPU with these facts."""
    seen = window(link(3, 16), facts)
    seen.subject = labels(slot=slot)
    return seen


# Nothing to watch.


def test_a_host_without_gpus_says_so_in_one_line_and_is_well() -> None:
    """And never UNKNOWN, unless slots are declared."""
    found = last(host([], []))
    assert said(found[""]) == WELL
    assert found[""].subject == ()
    assert found[""].argument.summary == (
        "no AMD or NVIDIA GPU on this host and none declared: no links to watch"
    )


def test_without_a_pci_bus_and_declarations_there_is_nothing_to_watch() -> None:
    found = last(host([], [], pci=False))
    assert said(found[""]) == WELL
    assert "no PCI bus" in found[""].argument.summary


def test_without_a_census_and_declarations_nothing_is_said() -> None:
    assert last(host(None, [])) == {}


@pytest.mark.parametrize("seen", [host(None, SLOTS), host([], SLOTS, pci=False)])
def test_without_a_census_declared_slots_are_unknown(seen: Window) -> None:
    found = last(seen)
    assert set(found) == {slot.key for slot in SLOTS}
    assert {said(f) for f in found.values()} == {BLIND}


def test_a_census_that_failed_says_why_and_keeps_the_slots_it_knows() -> None:
    found = last(host(CARDS, SLOTS), host(None, SLOTS))
    assert set(found) == set(PORTS)
    assert "hangs" in found[PORTS[0]].argument.summary


# Missing.


def test_all_declared_gpus_present_are_well() -> None:
    found = last(host(CARDS, SLOTS))
    assert set(found) == set(PORTS)
    assert {said(f) for f in found.values()} == {WELL}


@pytest.mark.parametrize(("rounds", "verdict"), [(1, OPEN), (2, GONE), (5, GONE)])
def test_one_that_leaves_is_missing_after_two_rounds(
    rounds: int, verdict: tuple[Verdict, bool]
) -> None:
    found = last(host(CARDS, SLOTS), *[host(CARDS[:3], SLOTS)] * rounds)
    assert said(found[PORTS[3]]) == verdict
    assert all(said(found[port]) == WELL for port in PORTS[:3])
    assert f"no GPU in slot {PORTS[3]}" in found[PORTS[3]].argument.summary
    assert f"seen {15 * rounds} s ago" in found[PORTS[3]].argument.summary


@pytest.mark.parametrize(("rounds", "verdict"), [(2, OPEN), (3, GONE)])
def test_the_number_of_rounds_is_a_limit(rounds: int, verdict: tuple[Verdict, bool]) -> None:
    assert said(last(*[host([], SLOTS[:1])] * rounds, rounds=3)[SLOTS[0].key]) == verdict


def test_rounds_must_follow_one_another() -> None:
    away, back = host(CARDS[:3], SLOTS), host(CARDS, SLOTS)
    assert said(last(back, away, back, away)[PORTS[3]]) == OPEN


def test_a_round_without_a_census_is_no_round_and_no_break() -> None:
    away = host(CARDS[:3], SLOTS)
    assert said(last(host(CARDS, SLOTS), away, host(None, SLOTS), away)[PORTS[3]]) == GONE


def test_one_that_comes_back_is_well() -> None:
    found = last(host(CARDS, SLOTS), *[host(CARDS[:3], SLOTS)] * 3, host(CARDS, SLOTS))
    assert said(found[PORTS[3]]) == WELL


def test_all_gone_is_no_host_without_gpus() -> None:
    found = last(host(CARDS, SLOTS), *[host([], SLOTS)] * 2)
    assert {said(f) for f in found.values()} == {GONE}
    assert len(found) == 4


def test_one_that_was_never_there_is_told_under_its_key() -> None:
    found = last(*[host(CARDS[:3], SLOTS)] * 2)[SLOTS[3].key]
    assert said(found) == GONE
    assert "never seen since the watchdog started" in found.argument.summary


def test_a_port_as_a_key_is_its_slot() -> None:
    slot = Slot(PORTS[3], 3, 16)
    assert said(last(host(CARDS, [slot]))[PORTS[3]]) == WELL
    assert said(last(*[host(CARDS[:3], [slot])] * 2)[PORTS[3]]) == GONE


def test_cards_that_renumber_when_one_vanishes_are_not_taken_for_it() -> None:
    """Card 1 leaves; 2 and 3 move down three bus numbers, so that 2 has the address of 1."""
    moved = [CARDS[0], card(PORTS[2], 6), card(PORTS[3], 9)]
    found = last(host(CARDS, SLOTS), *[host(moved, SLOTS)] * 2)
    assert said(found[PORTS[1]]) == GONE
    assert {said(found[port]) for port in (PORTS[0], PORTS[2], PORTS[3])} == {WELL}
    assert set(found) == set(PORTS)
    assert "its addresses changed" in found[PORTS[3]].argument.summary


def test_a_gpu_that_is_declared_nowhere_is_suspected_to_be_the_one_that_renumbered() -> None:
    """The watchdog started after the card moved: the key leads nowhere."""
    found = last(*[host([card(PORTS[0], 0x13)], SLOTS[:1])] * 2)
    missing = found[SLOTS[0].key]
    assert said(missing) == GONE
    assert f"the GPU in slot {PORTS[0]} is declared nowhere" in missing.argument.suspects[0]
    assert "would not be noticed" in found[PORTS[0]].argument.summary


def test_what_was_said_under_a_key_ends_when_the_key_leads_to_a_slot() -> None:
    key = SLOTS[3].key
    found = last(*[host(CARDS[:3], SLOTS)] * 2, *[host(CARDS, SLOTS)] * 3)
    assert said(found[key]) == WELL
    assert f"{key} leads to slot {PORTS[3]}" in found[key].argument.summary
    assert said(found[PORTS[3]]) == WELL


def test_two_keys_of_one_slot_are_one_slot() -> None:
    twice = [Slot(PORTS[0], 3, 16), Slot(SLOTS[0].key, 3, 8)]
    assert set(last(host(CARDS[:1], twice))) == {PORTS[0]}
    assert set(last(host(CARDS[:1], twice), *[host([], twice)] * 2)) == {PORTS[0]}


def test_an_undeclared_gpu_is_present_and_its_absence_is_not_noticed() -> None:
    assert said(last(host(CARDS[:1], []))[PORTS[0]]) == WELL
    assert set(last(host(CARDS[:2], []), host(CARDS[:1], []))) == {PORTS[0]}


def test_the_drivers_own_count_is_never_asked() -> None:
    """Three parts with windows, four cards on the bus: all four are there."""
    parts = [part(port, r9700()) for port in PORTS[:3]]
    assert {said(f) for f in last(host(CARDS, SLOTS, parts)).values()} == {WELL}


# Lost.


def losing(reason: str | None, **facts: str) -> Window:
    """Four cards on the bus; of the last, NVML says this."""
    told = {**facts, **({} if reason is None else {"lost": reason})}
    parts = [part(port, {"name": "RTX 3090"}) for port in PORTS[:3]]
    return host(CARDS, SLOTS, [*parts, part(PORTS[3], told)])


LOST = losing("NVML says GPU_IS_LOST")
FOUND = losing(None)
SAMPLE = Sample(labels(slot=PORTS[3]), s.UTILISATION, 1.0)
FOUND.parts[-1].readings += (Reading("nvml", "", (SAMPLE,), slot=PORTS[3]),)
SILENT = losing(None)


@pytest.mark.parametrize(("rounds", "verdict"), [(1, OPEN), (2, GONE)])
def test_one_that_nvml_calls_lost_is_missing_after_two_rounds(
    rounds: int, verdict: tuple[Verdict, bool]
) -> None:
    found = last(*[LOST] * rounds)
    assert said(found[PORTS[3]]) == verdict
    assert "GPU_IS_LOST" in found[PORTS[3]].argument.summary
    assert all(said(found[port]) == WELL for port in PORTS[:3])


def test_one_that_answers_again_is_no_longer_lost() -> None:
    assert said(last(LOST, LOST, FOUND)[PORTS[3]]) == WELL
    assert said(last(LOST, FOUND, LOST)[PORTS[3]]) == OPEN


def test_a_driver_that_does_not_answer_neither_finds_nor_loses_a_gpu() -> None:
    assert said(last(LOST, LOST, SILENT)[PORTS[3]]) == OPEN
    assert said(last(LOST, SILENT, LOST)[PORTS[3]]) == GONE
    assert said(last(SILENT, SILENT)[PORTS[3]]) == WELL


def test_a_lost_gpu_without_a_window_keeps_what_was_said() -> None:
    bare = host(CARDS, SLOTS, LOST.parts[:3])
    assert said(last(LOST, LOST, bare)[PORTS[3]]) == OPEN


def test_an_undeclared_gpu_can_be_lost_too() -> None:
    seen = replace(LOST, profile=replace(LOST.profile, slots=()))
    assert said(last(seen, seen)[PORTS[3]]) == GONE


def test_a_gpu_that_is_not_read_is_still_present() -> None:
    part = unread({})
    part.subject = labels(slot=PORTS[0])
    assert said(last(host(CARDS, SLOTS, [part]))[PORTS[0]]) == WELL


# Whatever comes.


@pytest.mark.parametrize(
    "odd", [{}, {"slot": None}, {"slot": "0000:00:09.0", "chain": None}, {"gpu": 3, "chain": 7}]
)
def test_an_odd_census_raises_nothing(odd: dict[str, Any]) -> None:
    found = last(host([odd, *CARDS], SLOTS))
    assert {said(found[port]) for port in PORTS} == {WELL}


def test_every_finding_has_its_words() -> None:
    rounds: Sequence[Window] = [host(CARDS, SLOTS), host([], SLOTS), LOST, LOST, host(None, SLOTS)]
    for found in steps(GpuPresent(), rounds):
        assert all(f.argument.summary for f in found)
        bad = [f.argument for f in found if f.verdict is Verdict.CRITICAL]
        assert all(a.next_step and a.suspects and a.evidence and a.expected for a in bad)


# What is not known is not missing, and a key above a board's switch leads to all below it.


def test_a_device_that_cannot_be_read_may_be_the_gpu_that_is_looked_for() -> None:
    dim = host(CARDS[:1], SLOTS[:2])
    dim.facts = {**dim.facts, "pci_unread": ["0000:08:00.0"]}

    found = last(host(CARDS[:2], SLOTS[:2]), dim, dim)

    assert said(found[PORTS[0]]) == WELL
    assert said(found[PORTS[1]]) == BLIND
    assert "0000:08:00.0" in found[PORTS[1]].argument.summary


def test_a_round_of_doubt_neither_counts_nor_forgets_what_was_missing() -> None:
    dim = host(CARDS[:1], SLOTS[:2])
    dim.facts = {**dim.facts, "pci_unread": ["0000:08:00.0"]}
    gone = host(CARDS[:1], SLOTS[:2])

    assert said(last(host(CARDS[:2], SLOTS[:2]), gone, dim, gone)[PORTS[1]]) == GONE


def behind_switch(first: int) -> dict[str, Any]:
    chain = ["0000:00:02.0", "0000:03:00.0", f"0000:04:{first:02x}.0", f"0000:{first:02x}:00.0"]
    return {"gpu": chain[3], "slot": chain[2], "chain": chain}


def test_a_port_above_a_switch_of_the_board_declares_every_slot_below_it() -> None:
    two = [behind_switch(8), behind_switch(16)]
    slots = [Slot("0000:00:02.0", 3, 16)]

    assert set(last(host(two, slots))) == {"0000:04:08.0", "0000:04:10.0"}
    found = last(host(two, slots), *[host(two[:1], slots)] * 2)
    assert said(found["0000:04:08.0"]) == WELL
    assert said(found["0000:04:10.0"]) == GONE
