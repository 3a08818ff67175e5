"""What a slot runs against what it is declared to run: degraded, by design, idle, or unseen."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks.gpu_windows import (
    BUSY,
    DOWN,
    GEN3_X16,
    GPU,
    NVIDIA_BUSY,
    NVIDIA_IDLE,
    PORT,
    UP,
    geforce,
    last,
    link,
    nvidia,
    polaris,
    r9700,
    steps,
    tells,
    unread,
    window,
)
from watchdog.checks.pcie_link import PcieLink, State
from watchdog.domain import series as s
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.link import Slot

OPEN = (Verdict.OK, False)
WELL = (Verdict.OK, True)
BAD = (Verdict.WARNING, True)


def said(found: Finding) -> tuple[Verdict, bool]:
    return found.verdict, found.conclusive


def judged(*windows: Window, rounds: int = 2) -> Finding:
    return last(PcieLink(rounds), windows, "GpuLinkDegraded")


def twice(
    levels: Mapping[str, float], facts: Mapping[str, Any] | None = None, slot: Slot = GEN3_X16
) -> Finding:
    return judged(*[window(levels, facts, [slot])] * 2)


# What counts as degraded.


@pytest.mark.parametrize(
    ("generation", "width", "words"),
    [
        (1, 16, "slower than declared"), (2, 16, "slower than declared"),
        (3, 8, "narrower than declared"), (3, 4, "narrower than declared"),
        (1, 4, "slower and narrower than declared"), (4, 8, "narrower than declared"),
        (1, 32, "slower than declared"),
    ],
)  # fmt: skip
def test_slower_or_narrower_than_declared_is_degraded(
    generation: int, width: int, words: str
) -> None:
    found = twice(link(generation, width))
    assert said(found) == BAD
    assert words in found.argument.summary
    assert f"Gen{generation} x{width}, declared is Gen3 x16" in found.argument.summary


@pytest.mark.parametrize(
    ("generation", "width", "words"),
    [
        (3, 16, "as declared"), (4, 16, "faster than declared"), (3, 32, "wider than declared"),
        (5, 32, "faster and wider than declared"),
    ],
)  # fmt: skip
def test_as_declared_or_better_is_well(generation: int, width: int, words: str) -> None:
    found = judged(window(link(generation, width)))
    assert said(found) == WELL
    assert words in found.argument.summary


def test_the_bench_as_declared_is_well_and_x8_by_design_says_so() -> None:
    """09:00.0 of the bench: Gen3 x8 of a bifurcated slot, and lspci says 32 GT/s x16."""
    slot = Slot(GPU, 3, 8, "bifurcated, other lanes carry the NIC")
    found = judged(window(link(3, 8), slots=[slot]))
    assert said(found) == WELL
    assert "bifurcated, other lanes carry the NIC" in found.argument.summary


def test_the_table_that_was_clipped_when_the_driver_loaded_is_no_expectation() -> None:
    """Every row of the table says Gen1 and is starred: active / top = 1.0, and still degraded."""
    rows = [f"{i}: 2.5GT/s, x16 {mhz}Mhz *" for i, mhz in enumerate((250, 616, 1143))]
    found = twice(link(1, 16), r9700(rows=rows, stars=3))
    assert said(found) == BAD
    assert found.value == pytest.approx(4.0)
    assert "25 % of the declared 15.8 GB/s" in found.argument.summary


@pytest.mark.parametrize(("rounds", "bad"), [(1, False), (2, True)])
def test_a_second_judged_round_decides(rounds: int, bad: bool) -> None:
    found = judged(*[window(link(1, 16))] * rounds)
    assert said(found) == (BAD if bad else OPEN)
    assert ("a second round decides" in found.argument.summary) is not bad


@pytest.mark.parametrize(("rounds", "bad"), [(2, False), (3, True)])
def test_the_number_of_rounds_is_a_limit(rounds: int, bad: bool) -> None:
    found = judged(*[window(link(1, 16))] * rounds, rounds=3)
    assert said(found) == (BAD if bad else OPEN)


def test_a_good_round_between_begins_the_count_anew() -> None:
    assert said(judged(*[window(link(g, 16)) for g in (1, 3, 1)])) == OPEN


def test_a_round_that_was_not_read_is_no_round_and_no_break() -> None:
    slow = window(link(1, 16))
    assert said(judged(slow, unread(link(1, 16)), slow)) == BAD


def test_a_round_that_does_not_tell_the_speed_is_no_round_and_no_break_for_it() -> None:
    slow, half = window(tells(1, 16)), window(tells(None, 16))
    assert said(judged(slow, half)) == OPEN
    assert said(judged(slow, half, slow)) == BAD


def test_any_address_of_the_chain_declares_the_slot() -> None:
    for key in (PORT, UP, DOWN, GPU):
        assert said(twice(link(1, 16), slot=Slot(key, 3, 16))) == BAD


# Whom it believes.


def test_what_lspci_shows_of_the_function_fools_nothing() -> None:
    """32.0 GT/s x16 inside the card, 16.0 GT/s x8 or 2.5GT/s x1 at the slot."""
    for slot, generation, width in ((Slot(PORT, 4, 16), 4, 8), (Slot(PORT, 3, 4), 1, 1)):
        found = twice(link(generation, width), slot=slot)
        assert said(found) == BAD
        assert found.argument.evidence["inside"] == "Gen5 x16"
        assert any("lspci" in line and "Gen5 x16" in line for line in found.argument.ruled_out)


def test_the_function_alone_leaves_the_link_unknown() -> None:
    found = judged(window(tells(5, 16, s.FUNCTION)))
    assert found.verdict is Verdict.UNKNOWN


def test_without_a_star_the_others_judge_and_the_star_is_named_unknown() -> None:
    """RX 7700S: three rows and no star."""
    facts = r9700(stars=0, unread={s.STARRED: "no starred row"})
    found = judged(window(tells(3, 16), facts))
    assert said(found) == WELL
    assert "pp_dpm_pcie is UNKNOWN (no starred row)" in found.argument.summary
    assert "after the driver loaded" not in found.argument.summary


def test_degraded_without_a_star_means_that_it_changed_after_the_driver_loaded() -> None:
    facts = r9700(stars=0, unread={s.STARRED: "no starred row"})
    found = twice(tells(1, 16), facts)
    assert said(found) == BAD
    assert "it changed after the driver loaded" in found.argument.summary


@pytest.mark.parametrize("reason", ["EBUSY", "EPERM", "EINVAL", "empty", "unavailable", "absent"])
def test_an_unread_star_is_named_with_its_reason_and_proves_nothing(reason: str) -> None:
    found = twice(tells(1, 16), r9700(stars=None, unread={s.STARRED: reason}))
    assert f"UNKNOWN ({reason})" in found.argument.summary
    assert "after the driver loaded" not in found.argument.summary


@pytest.mark.parametrize("witness", [s.STARRED, s.METRICS])
def test_one_witness_of_a_radeon_is_enough(witness: str) -> None:
    assert said(judged(window(tells(3, 16, witness)))) == WELL
    assert said(twice(tells(3, 8, witness))) == BAD


def test_gen1_by_gpu_metrics_alone_is_told_as_a_suspect() -> None:
    found = twice(tells(1, 16, s.METRICS))
    assert any("gpu_metrics alone says Gen1" in line for line in found.argument.suspects)


def test_the_star_of_polaris_has_no_width_and_the_ends_have() -> None:
    levels = tells(3, 8) | tells(3, None, s.STARRED)
    assert said(twice(levels, polaris())) == BAD
    assert said(judged(window(levels, polaris(), [Slot(PORT, 3, 8)]))) == WELL


def test_a_part_that_nobody_tells_is_no_evidence() -> None:
    """gfx12 before Nov 2024 printed Gen5 with an empty speed: `2:  x16 1143Mhz *`."""
    found = twice(tells(None, 16, s.STARRED))
    assert said(found) == OPEN
    assert "no witness tells its speed" in found.argument.summary
    assert said(twice(tells(None, 8, s.STARRED))) == BAD
    assert "no witness tells its width" in twice(tells(3, None, s.STARRED)).argument.summary


def test_a_board_switch_above_the_slot_is_named_as_the_narrow_link() -> None:
    found = twice(link(3, 16) | tells(3, 4, s.PATH))
    assert said(found) == BAD
    assert "Gen3 x4 (the narrow link is above the slot" in found.argument.summary
    assert "own link runs Gen3 x16" in found.argument.summary
    assert found.argument.evidence["narrow_above_the_slot"] is True


# Idle.


@pytest.mark.parametrize("used", [{}, BUSY, {s.UTILISATION: 0.0}])
def test_a_radeon_on_an_intel_host_is_judged_at_idle_too(used: dict[str, float]) -> None:
    found = twice(tells(1, 16) | used)
    assert said(found) == BAD
    assert "Intel host" in found.argument.ruled_out[0]


@pytest.mark.parametrize("host", ["amd", "other"])
@pytest.mark.parametrize(("generation", "width"), [(1, 16), (3, 1), (1, 1)])
def test_a_radeon_elsewhere_is_judged_by_speed_and_width_when_busy_only(
    host: str, generation: int, width: int
) -> None:
    """RDNA2 and 3 lower the width too: `2.5GT/s, x1` starred at idle."""
    found = twice(link(generation, width), r9700(host))
    assert said(found) == OPEN
    assert "slows down on purpose here; judged when busy" in found.argument.summary
    assert found.argument.evidence["state"] == "idle"
    assert said(twice(link(generation, width, **BUSY), r9700(host))) == BAD


def test_nvidia_is_judged_by_speed_when_busy_only_and_by_width_always() -> None:
    assert said(twice(nvidia(1, 16, **NVIDIA_IDLE), geforce())) == OPEN
    assert said(twice(nvidia(1, 16, **NVIDIA_BUSY), geforce())) == BAD
    narrow = twice(nvidia(1, 8, **NVIDIA_IDLE), geforce())
    assert said(narrow) == BAD
    assert "keeps its width" in narrow.argument.ruled_out[0]
    assert ": narrower than declared" in narrow.argument.summary
    assert "GB/s" not in narrow.argument.summary  # at the speed of idling that says nothing


def test_nvidia_shifts_on_an_intel_host_as_well() -> None:
    assert said(twice(nvidia(1, 16, **NVIDIA_IDLE), geforce("intel"))) == OPEN


@pytest.mark.parametrize(
    ("told", "busy"),
    [
        ({s.UTILISATION: 1.0}, True), ({s.UTILISATION: 0.0}, False), ({}, None),
        ({s.PSTATE: 0.0, s.EVENT_REASONS: 0.0}, None),
        ({s.UTILISATION: 50.0, s.EVENT_REASONS: 0x1}, False),
        ({s.UTILISATION: 50.0, s.EVENT_REASONS: 0x5}, False),
        ({s.UTILISATION: 50.0, s.EVENT_REASONS: 0x4}, True),
        ({s.UTILISATION: 50.0, s.PSTATE: 2.0}, True),
        ({s.UTILISATION: 50.0, s.PSTATE: 3.0}, False),
    ],
)  # fmt: skip
def test_what_counts_as_busy_for_nvidia(told: dict[str, float], busy: bool | None) -> None:
    found = twice(nvidia(1, 16, **told), geforce())
    assert found.argument.evidence["busy"] is busy
    assert said(found) == (BAD if busy else OPEN)


@pytest.mark.parametrize(("used", "bad"), [(0.0, False), (1.0, True)])
def test_any_use_of_a_radeon_is_busy(used: float, bad: bool) -> None:
    found = twice(link(1, 16, **{s.UTILISATION: used}), r9700("amd"))
    assert said(found) == (BAD if bad else OPEN)


def test_a_load_that_nobody_tells_is_not_known_to_be_busy() -> None:
    found = twice(tells(1, 16), r9700("amd", unread={s.UTILISATION: "EPERM"}))
    assert said(found) == OPEN
    assert "not known to be busy (utilisation: EPERM)" in found.argument.summary


def test_busy_rounds_must_follow_one_another() -> None:
    """A load that began just now may be seen before the link is up again."""
    busy, idle = (window(link(1, 16, **used), r9700("amd")) for used in (BUSY, {}))
    assert said(judged(busy, idle, busy)) == OPEN
    assert said(judged(busy, idle, busy, busy)) == BAD


def test_the_best_of_the_busy_rounds_counts() -> None:
    busy = [window(link(g, 16, **BUSY), r9700("amd")) for g in (1, 3, 1)]
    assert said(judged(*busy)) == OPEN


def test_idle_rounds_neither_raise_nor_resolve_and_say_what_stands() -> None:
    facts = r9700("amd")
    busy, idle = window(link(1, 16, **BUSY), facts), window(link(1, 1), facts)
    found = judged(busy, busy, idle)
    assert said(found) == OPEN
    assert "last busy it ran Gen1 x16, and that stands" in found.argument.summary


def test_a_link_as_declared_while_idle_is_well_and_ends_what_stood() -> None:
    facts = r9700("amd")
    busy, idle = window(link(1, 16, **BUSY), facts), window(link(1, 1), facts)
    well = window(link(3, 16), facts)
    assert said(judged(busy, busy, well)) == WELL
    assert "stands" not in judged(busy, busy, well, idle).argument.summary


def test_one_that_sleeps_is_not_woken_and_not_judged() -> None:
    asleep = window(tells(1, 1, s.PORT), r9700(runtime="suspended"))
    found = judged(*[asleep] * 3)
    assert said(found) == OPEN
    assert "asleep" in found.argument.summary
    assert found.argument.evidence["state"] == "asleep"


def test_sleep_ends_a_row_of_bad_rounds() -> None:
    slow, asleep = window(link(1, 16)), window({}, r9700(runtime="suspended"))
    assert said(judged(slow, asleep, slow)) == OPEN


# Unknown and undeclared.


def test_a_link_that_no_witness_tells_is_unknown_with_its_age() -> None:
    well = window(link(3, 16))
    mute = window({s.UTILISATION: 0.0}, r9700(unread={s.STARRED: "empty", s.PORT: "EINVAL"}))
    found = judged(well, *[mute] * 4)
    assert found.verdict is Verdict.UNKNOWN
    assert found.argument.evidence["silent_seconds"] == 60.0
    assert "last 60 s ago" in found.argument.summary
    assert "pp_dpm_pcie: empty" in found.argument.summary
    assert "never since the start" in judged(mute).argument.summary


def test_a_gpu_that_is_not_read_keeps_no_old_link() -> None:
    """The history hands out the levels of the last page: they are no news."""
    for old in (link(3, 16), link(1, 16)):
        found = judged(window(old), window(old), unread(old, error="still hangs in a read"))
        assert found.verdict is Verdict.UNKNOWN
        assert f"GPU {GPU} (AMD 1002:7551)" in found.argument.summary
        assert "still hangs in a read" in found.argument.summary
        assert found.argument.evidence["speed"] is None


def test_one_that_was_never_read_is_unknown_where_slots_are_declared() -> None:
    """Its chain is not known, so neither is whether it is one of those."""
    assert judged(unread({}, [Slot(GPU, 3, 16)])).verdict is Verdict.UNKNOWN
    assert said(judged(unread({}, []))) == OPEN


def test_nvml_alone_cannot_say_whose_declaration_it_is() -> None:
    only = window(tells(3, 16, s.NVML), {"name": "RTX 3090"}, [Slot(GPU, 3, 16)], error="EIO")
    found = judged(only)
    assert found.verdict is Verdict.UNKNOWN
    assert "its chain cannot be read" in found.argument.summary


def test_an_undeclared_gpu_is_no_evidence_and_proposes_its_line() -> None:
    found = judged(*[window(link(3, 8), slots=[Slot("0000:80:02.0", 3, 16)])] * 3)
    assert said(found) == OPEN
    assert f'"{PORT}": {{generation: 3, width: 8}}' in found.argument.next_step
    assert "watchdog links --propose" in found.argument.next_step
    assert found.argument.evidence["expected_generation"] is None


@pytest.mark.parametrize(
    ("levels", "facts"),
    [
        (link(3, 8, **{f"{s.CORRECTABLE}{PORT} BadTLP": 1.0}), r9700()),
        (link(1, 16), r9700("amd")),
        (nvidia(1, 16, **NVIDIA_IDLE), geforce()),
        (tells(3, None, s.STARRED), r9700()),
        ({}, r9700()),
    ],
    ids=["link errors since boot", "idle Radeon", "idle GeForce", "no width", "no witness"],
)
def test_nothing_is_proposed_of_what_may_be_degraded(
    levels: Mapping[str, float], facts: Mapping[str, Any]
) -> None:
    found = judged(window(levels, facts, []))
    assert said(found) == OPEN
    assert "generation:" not in found.argument.next_step
    assert "watchdog links --propose" in found.argument.next_step


def test_the_evidence_holds_all_that_a_table_shows() -> None:
    slot = Slot(GPU, 3, 8, "by design")
    evidence = judged(window(link(3, 8), slots=[slot])).argument.evidence
    assert evidence == {
        "gpu": GPU, "card": "AMD 1002:7551", "slot": PORT, "key": GPU, "numa": 0,
        "root": "pci0000:00",
        "expected_generation": 3, "expected_width": 8, "note": "by design", "generation": 3,
        "speed": 8.0, "width": 8.0, "gigabytes_per_second": 7.88, "narrow_above_the_slot": False,
        "witnesses": {
            "port": "Gen3 x8", "card": "Gen3 x8", "starred": "Gen3 x8",
            "metrics": "not asked: a row is starred",
        },
        "inside": "Gen5 x16", "busy": False, "state": "idle", "stars": 2,
    }  # fmt: skip


def test_link_errors_since_boot_are_the_first_suspect() -> None:
    errors = {f"{s.CORRECTABLE}{PORT} BadTLP": 6655.0, f"{s.CORRECTABLE}{PORT} NonFatalErr": 2.0}
    suspects = twice(link(1, 16, **errors)).argument.suspects
    assert f"6,655 BadTLP at {PORT} since boot" in suspects[0]
    assert "NonFatalErr" not in suspects[0]


def test_each_kind_of_degraded_link_has_one_next_step_of_its_own() -> None:
    slow, narrow = twice(link(1, 16)).argument, twice(link(3, 8)).argument
    assert "declare it" in narrow.next_step
    assert "bifurcated" in narrow.next_step
    assert "reseat" in slow.next_step
    assert "declare it" not in slow.next_step


# Real cases: what the files said, what it should have been.


@pytest.mark.parametrize(
    ("slot", "facts", "levels"),
    [
        (Slot(PORT, 3, 16), geforce(), nvidia(2, 1, **NVIDIA_BUSY)),
        (Slot(PORT, 3, 8), geforce(), nvidia(1, 4, **NVIDIA_BUSY)),
        (Slot(PORT, 5, 16), geforce(), nvidia(4, 4, **NVIDIA_BUSY)),
        (Slot(PORT, 3, 16), geforce("intel"), nvidia(2, 4, **NVIDIA_BUSY)),
        (Slot(PORT, 5, 16), geforce(), nvidia(1, 16, **NVIDIA_BUSY)),
        (Slot(PORT, 3, 16), polaris(), tells(1, 1)),
        (Slot(PORT, 4, 16), r9700("other"), link(1, 16, **BUSY)),
        (Slot(PORT, 3, 4), polaris(), tells(1, 4) | tells(1, None, s.STARRED)),
        (Slot(PORT, 4, 16), polaris(), tells(3, 16)),
    ],
    ids=[
        "1: 3090 in an X399 slot, Gen2 x1", "1: 3090 in an X399 slot, Gen1 x4",
        "4: Gen4 x4 by the choice of slot", "6: Gen2 x4 on a Z77", "9: Gen1 stays under load",
        "12: USB riser, Gen1 x1", "16: bridge claims Gen1", "18: Thunderbolt tunnel at Gen1",
        "20: Gen3 by the position of the slot",
    ],
)  # fmt: skip
def test_degraded_links_of_real_hosts_are_found(
    slot: Slot, facts: Mapping[str, Any], levels: Mapping[str, float]
) -> None:
    found = twice(levels, facts, slot)
    assert said(found) == BAD
    assert found.argument.next_step
    assert found.argument.suspects


@pytest.mark.parametrize(
    ("slot", "facts", "levels", "why"),
    [
        (Slot(PORT, 4, 16), geforce(), nvidia(1, 16, **NVIDIA_IDLE), "slows down on purpose"),
        (Slot(PORT, 4, 8), geforce("intel"), nvidia(4, 8, **NVIDIA_BUSY), "as declared"),
        (Slot(PORT, 3, 16), geforce(), nvidia(1, 16, **NVIDIA_IDLE), "slows down on purpose"),
        (Slot(PORT, 5, 16), geforce(), nvidia(1, 16, **NVIDIA_IDLE), "slows down on purpose"),
        (Slot(PORT, 4, 16), geforce(), nvidia(1, 16, **{**NVIDIA_IDLE, s.UTILISATION: 3.0}),
         "slows down on purpose"),
        (Slot(PORT, 3, 8), r9700("amd"), link(1, 8), "slows down on purpose"),
        (Slot(PORT, 4, 2), r9700("amd"), link(4, 2), "as declared"),
        (Slot(PORT, 4, 8), r9700(), link(4, 8), "as declared"),
        (Slot(PORT, 3, 16), polaris(), tells(1, 16, s.STARRED) | tells(3, 16), "as declared"),
    ],
    ids=[
        "4090 riser at 2.5GT/s that may be just idle", "Z690: x8 because M.2_1 is populated",
        "nvtop #6: 1080 Ti idle", "open-gpu #1010: 5090 idle", "idle by its own reason",
        "MangoHud #885: Gen1 x8 idle", "9070 XT at 16.0 x2 by design",
        "resources #512: x8 by design", "ROCm #1449: two stars at Gen1, Gen3 at both ends",
    ],
)  # fmt: skip
def test_links_that_are_idle_or_so_by_design_stay_quiet_and_say_why(
    slot: Slot, facts: Mapping[str, Any], levels: Mapping[str, float], why: str
) -> None:
    found = twice(levels, facts, slot)
    assert found.verdict is Verdict.OK
    assert why in found.argument.summary


def test_a_host_of_cards_that_shift_all_day_stays_quiet() -> None:
    """rtx6kpro PR 88: 1,415 changes of speed over 35 devices in two minutes, none busy long."""
    shifts = itertools.cycle([(1, NVIDIA_IDLE), (4, NVIDIA_BUSY), (1, NVIDIA_BUSY), (2, {})])
    windows = [
        window(nvidia(generation, 16, **used), geforce(), [Slot(PORT, 4, 16)])
        for generation, used in itertools.islice(shifts, 400)
    ]
    for found in steps(PcieLink(), windows):
        assert all(f.verdict is Verdict.OK for f in found)


# Witnesses against each other.


def compared(*windows: Window) -> Finding:
    return last(PcieLink(), windows, "GpuLinkWitnessesDisagree")


def apart(generation: int, width: int | None, witness: str = s.STARRED) -> dict[str, float]:
    """Both ends say Gen3 x16, a firmware witness says otherwise."""
    return tells(3, 16) | tells(generation, width, witness)


def test_witnesses_that_agree_say_so() -> None:
    found = compared(window(link(3, 16)))
    assert said(found) == WELL
    assert "agree" in found.argument.summary


@pytest.mark.parametrize(("rounds", "bad"), [(1, False), (2, True)])
@pytest.mark.parametrize(("generation", "width"), [(4, 16), (1, 16), (3, 8)])
def test_two_rounds_of_a_difference_are_a_disagreement(
    generation: int, width: int, rounds: int, bad: bool
) -> None:
    found = compared(*[window(apart(generation, width))] * rounds)
    assert said(found) == (BAD if bad else OPEN)
    assert ("a second round decides" in found.argument.summary) is not bad


def test_a_round_of_agreement_between_begins_the_count_anew() -> None:
    differ, agree = window(apart(4, 16)), window(link(3, 16))
    assert said(compared(differ, agree, differ)) == OPEN


@pytest.mark.parametrize("witness", [s.STARRED, s.METRICS, s.NVML])
def test_each_firmware_witness_is_compared(witness: str) -> None:
    found = compared(*[window(apart(2, 16, witness))] * 2)
    assert said(found) == BAD
    assert "says Gen2; the ends of the slot's link say Gen3" in found.argument.summary


def test_one_that_agrees_with_either_end_does_not_differ() -> None:
    ends = tells(3, 16, s.PORT) | tells(3, 8, s.CARD) | tells(3, 8, s.STARRED)
    assert said(compared(window(ends))) == WELL


@pytest.mark.parametrize(
    "levels",
    [tells(3, 16), tells(3, 16, s.STARRED), tells(3, 16, s.STARRED, s.METRICS), {},
     tells(3, 16) | tells(5, 16, s.FUNCTION), tells(None, 16) | tells(3, None, s.STARRED)],
)  # fmt: skip
def test_nothing_is_compared_without_two_independent_witnesses(levels: dict[str, float]) -> None:
    names = {f.alertname for f in steps(PcieLink(), [window(levels)])[0]}
    assert names == {"GpuLinkDegraded"}


def test_the_star_of_polaris_is_compared_by_speed_alone() -> None:
    assert said(compared(window(tells(3, 4) | tells(3, None, s.STARRED), polaris()))) == WELL


def test_gen1_by_firmware_against_two_ends_is_called_weak() -> None:
    found = compared(*[window(apart(1, 16))] * 2)
    assert said(found) == BAD
    assert "weak evidence" in found.argument.summary
    assert "firmware" in found.argument.suspects[0]
    assert said(judged(*[window(apart(1, 16))] * 2)) == WELL


@pytest.mark.parametrize(
    "levels",
    [apart(2, 16), tells(3, 16, s.PORT) | tells(1, 16, s.STARRED)],
    ids=["no Gen1", "one end alone"],
)
def test_other_differences_are_not_called_weak(levels: dict[str, float]) -> None:
    found = compared(*[window(levels)] * 2)
    assert said(found) == BAD
    assert "weak" not in found.argument.summary


@pytest.mark.parametrize(
    ("facts", "used", "verdict"),
    [
        (r9700("amd"), {s.UTILISATION: 0.0}, OPEN), (r9700("amd"), BUSY, BAD),
        (r9700("amd"), {}, OPEN), (geforce(), NVIDIA_IDLE, OPEN), (geforce(), NVIDIA_BUSY, BAD),
        (r9700(), {}, BAD), (r9700(runtime="suspended"), {}, OPEN),
    ],
)  # fmt: skip
def test_a_link_that_shifts_is_compared_when_busy_only(
    facts: Mapping[str, Any], used: Mapping[str, float], verdict: tuple[Verdict, bool]
) -> None:
    found = compared(*[window({**apart(1, 16), **used}, facts)] * 2)
    assert said(found) == verdict


def test_agreement_at_idle_resolves_nothing_where_links_shift() -> None:
    found = compared(window(link(1, 16), r9700("amd")))
    assert said(found) == OPEN
    assert "compared when busy" in found.argument.summary


def test_busy_rounds_of_a_difference_must_follow_one_another() -> None:
    busy, idle = (window({**apart(1, 16), **u}, r9700("amd")) for u in (BUSY, {}))
    assert said(compared(busy, idle, busy)) == OPEN


def test_an_idle_geforce_is_compared_by_width() -> None:
    levels = tells(1, 16) | tells(1, 8, s.NVML) | NVIDIA_IDLE
    assert said(compared(*[window(levels, geforce())] * 2)) == BAD


# Whatever comes.

LEVELS = st.dictionaries(
    st.sampled_from(
        [f"{kind}{who}" for kind in (s.LINK_SPEED, s.LINK_WIDTH) for who in s.WITNESSES]
        + [s.UTILISATION, s.PSTATE, s.EVENT_REASONS]
    ),
    st.sampled_from([0.0, 1.0, 2.5, 5.0, 8.0, 16.0, 32.0, 20.0]),
)
FACTS = st.sampled_from([{}, r9700(), r9700("amd"), geforce(), polaris(), {"vendor": 3}])


@given(st.lists(st.tuples(LEVELS, FACTS), min_size=1, max_size=5))
def test_whatever_is_read_each_round_has_its_one_verdict_in_words(
    rounds: list[tuple[dict[str, float], dict[str, Any]]],
) -> None:
    for found in steps(PcieLink(), [window(levels, facts) for levels, facts in rounds]):
        assert [f.alertname for f in found].count("GpuLinkDegraded") == 1
        assert all(f.argument.summary and f.argument.evidence for f in found)


def test_the_state_is_made_of_plain_values() -> None:
    state, _ = PcieLink().step(None, window(link(1, 16)), 0.0)

    def plain(value: object) -> bool:
        if isinstance(value, tuple):
            return all(plain(each) for each in value)
        return value is None or isinstance(value, (int, float, str))

    assert isinstance(state, State)
    assert plain(state)


# Cards that renumber while the watchdog runs.


def test_a_key_that_led_to_a_slot_stays_with_it_when_the_cards_renumber() -> None:
    """The card of another slot takes over the address 05:00.0; this one becomes 02:00.0."""
    slots = [Slot(GPU, 3, 8), Slot("0000:09:00.0", 3, 16)]
    moved = r9700(gpu="0000:09:00.0", chain=[PORT, "0000:07:00.0", "0000:08:00.0", "0000:09:00.0"])

    windows = [window(link(3, 8), r9700(), slots), *[window(link(3, 8), moved, slots)] * 3]

    assert said(last(PcieLink(), windows, "GpuLinkDegraded")) == WELL


def test_an_undeclared_slot_stays_so_when_its_card_takes_over_a_declared_address() -> None:
    slots = [Slot("0000:09:00.0", 3, 16)]
    moved = r9700(gpu="0000:09:00.0", chain=[PORT, "0000:07:00.0", "0000:08:00.0", "0000:09:00.0"])

    windows = [window(link(3, 8), r9700(), slots), *[window(link(3, 8), moved, slots)] * 3]

    assert said(last(PcieLink(), windows, "GpuLinkDegraded")) == OPEN


def test_another_declaration_is_looked_for_anew() -> None:
    windows = [window(link(3, 8), r9700(), []), window(link(3, 8), r9700(), [Slot(GPU, 3, 8)])]

    assert said(last(PcieLink(), windows, "GpuLinkDegraded")) == WELL


# What is contradictory or dead is not called well.


def test_a_slot_that_is_declared_twice_and_differently_is_unknown() -> None:
    slots = [Slot(PORT, 3, 16), Slot(GPU, 3, 8)]
    found = last(PcieLink(), [window(link(3, 8), r9700(), slots)] * 2, "GpuLinkDegraded")
    assert found.verdict is Verdict.UNKNOWN
    assert "declared twice and differently" in found.argument.summary
    same = [Slot(PORT, 3, 8), Slot(GPU, 3, 8)]
    again = last(PcieLink(), [window(link(3, 8), r9700(), same)] * 2, "GpuLinkDegraded")
    assert said(again) == WELL


def test_an_end_that_says_link_down_is_unknown_whatever_the_star_says() -> None:
    facts = r9700(unread={s.PORT: "link down (width 63)", s.CARD: "link down (width 63)"})
    found = last(PcieLink(), [window(tells(3, 16, s.STARRED), facts)] * 2, "GpuLinkDegraded")
    assert found.verdict is Verdict.UNKNOWN
    assert "link down (width 63)" in found.argument.summary


def test_rows_that_are_starred_and_differ_disagree_with_nobody() -> None:
    facts = r9700(ambiguous=True)
    levels = tells(3, 16) | tells(1, 16, s.STARRED)
    for found in steps(PcieLink(), [window(levels, facts)] * 2)[-1]:
        assert found.verdict is Verdict.OK
