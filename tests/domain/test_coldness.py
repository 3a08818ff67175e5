"""Cold, warm or unclear: each witness alone, both sides of each limit, and who wins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.caches import entry, place
from watchdog.domain import coldness as c

START = 1000.0
INCIDENT = c.Floors(594.0, 320.0, "declared")


def files(*entries: dict[str, Any], drafter: bool = False, until: float = 5000.0,
          **more: Any) -> str:  # fmt: skip
    return c.of_place(place(*entries, **more), START, until, drafter=drafter).says


# --- files ---------------------------------------------------------------------------------------


def test_a_key_directory_that_is_newer_than_the_start_is_cold() -> None:
    assert files(entry(oldest=START + 1)) == "cold"


def test_clocks_that_differ_by_two_seconds_change_nothing() -> None:
    assert files(entry(oldest=START - 2.0)) == "cold"
    assert files(entry(oldest=START - 2.1, newest=START - 2.1)) == "warm"


def test_kernels_that_were_added_to_an_old_directory_are_unclear() -> None:
    assert files(entry(oldest=10, newest=START + 50)) == "unclear"


def test_an_old_directory_beside_a_new_one_does_not_matter() -> None:
    old = entry(oldest=10, name="0000000000")
    assert files(entry(oldest=START + 1), old, drafter=True) == "cold"


def test_what_came_after_the_start_was_over_is_of_somebody_else() -> None:
    old = entry(oldest=10, name="0000000000")
    assert files(entry(oldest=5000.0), old) == "cold"
    assert files(entry(oldest=5000.1), old) == "unclear"


def test_the_drafter_must_have_been_compiled_too() -> None:
    half, old = entry(oldest=START + 1, parts=("backbone",)), entry(oldest=10, name="0000000000")
    assert files(half, old, drafter=True) == "unclear"
    assert files(half, old, drafter=False) == "cold"


def test_a_drafter_that_no_directory_has_is_not_compiled_here() -> None:
    new = entry(oldest=START + 1, parts=("backbone",))
    old = entry(oldest=10, parts=("backbone",), name="0000000000")
    assert files(new, old, drafter=True) == "cold"


def test_aot_directories_have_no_parts_so_a_drafter_needs_two_new_ones() -> None:
    new = [entry("aot", START + 1, name=n * 64) for n in "ab"]
    old = entry("aot", 10, name="c" * 64)
    assert files(new[0], old, drafter=True) == "unclear"
    assert files(*new, old, drafter=True) == "cold"
    assert files(new[0], old, drafter=False) == "cold"


def test_where_nothing_is_old_one_new_aot_directory_is_enough() -> None:
    assert files(entry("aot", START + 1), drafter=True) == "cold"


def test_each_layout_must_be_new() -> None:
    new, old = entry(oldest=START + 1), entry("aot", 10, name="c" * 64)
    assert files(new, old) == "unclear"
    assert files(new, old, entry("aot", START + 2, name="d" * 64)) == "cold"


def test_modelinfos_are_no_compiled_code() -> None:
    infos = entry("modelinfos", START + 5)
    assert files(infos) == "unclear"
    assert files(infos, entry(oldest=10)) == "warm"


def test_nothing_at_all_is_unclear_and_says_so() -> None:
    sign = c.of_place(place(), START)
    assert sign.says == "unclear"
    assert "compiled nothing, or elsewhere" in sign.text


@pytest.mark.parametrize("blind", [{"cut": "the time for it was over"},
                                   {"unread": [["torch_compile_cache/x", "EACCES"]]}])  # fmt: skip
def test_a_survey_that_did_not_see_all_tells_nothing(blind: dict[str, Any]) -> None:
    assert files(entry(oldest=START + 1), **blind) == "unclear"
    assert files(entry(oldest=10), **blind) == "unclear"


def test_copies_beside_it_that_could_not_be_listed_are_no_files_of_it() -> None:
    assert files(entry(oldest=10), unread=[["..", "EACCES"]]) == "warm"


def test_layouts_that_were_left_out_may_be_those_in_use() -> None:
    assert files(entry(oldest=START + 1), more=3) == "unclear"
    assert files(entry(oldest=START + 1), entry("aot", START + 1, name="a" * 64), more=3) == "cold"


def test_kernels_are_cold_only_where_none_is_older() -> None:
    new, old = entry("triton", START + 1, name="n"), entry("triton", 10, name="o")
    assert files(new, kind="triton") == "cold"
    assert files(new, old, kind="triton") == "unclear"
    assert files(old, kind="triton") == "warm"


def test_two_places_that_contradict_each_other_are_unclear() -> None:
    cold, warm = place(entry(oldest=START + 1)), place(entry(oldest=10), path="/b")
    assert c.of_places([cold], START).says == "cold"
    assert c.of_places([cold, warm], START).says == "unclear"
    assert c.of_places([cold, place(path="/b")], START).says == "cold"


def test_where_it_compiled_else_is_named() -> None:
    other = place(entry("triton", START + 1), path="/root/.triton", kind="triton")
    assert "/root/.triton" in c.of_places([place(), other], START).text


def test_another_launch_that_started_at_the_same_time_takes_the_proof_away() -> None:
    one = place(entry(oldest=START + 1))
    assert c.of_place(one, START, rivals=[one["path"]]).says == "unclear"


# --- the log -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ({"compiled": 4, "hits": 0}, "cold"),
        ({"compiled": 0, "hits": 2}, "warm"),
        ({"compiled": 0, "aot_hits": 1}, "warm"),
        ({"compiled": 0, "stored": 2}, "cold"),  # as vLLM 0.32 on a CPU says it
        ({"stored": 1, "aot_hits": 1}, "unclear"),
        ({"stored": 2, "load_failures": 2}, "unclear"),
        ({"compiled": 1, "hits": 1}, "unclear"),
        ({"compiled": 0, "hits": 0}, "unclear"),
        ({"compiled": 2, "off": True}, "unclear"),
        ({"compiled": 2, "load_failures": 1}, "unclear"),
        ({"compiled": 2, "cut": "too long"}, "unclear"),
        ({"compiled": 2, "began": False}, "unclear"),
    ],
)
def test_the_log(log: dict[str, Any], says: str) -> None:
    assert c.of_log({"began": True, **log}).says == says


def test_what_a_log_counted_is_said_even_where_it_proves_nothing() -> None:
    text = c.of_log({"began": True, "compiled": 2, "load_failures": 1}).text
    assert text == "1 graph(s) failed to load: 2 graph(s) compiled, 0 loaded from the cache"


# --- the time ------------------------------------------------------------------------------------


def test_the_incident_came_up_at_600_s_between_floors_of_320_and_594() -> None:
    assert c.of_time(600.0, 585.0, INCIDENT).says == "cold"
    assert c.of_time(325.0, 310.0, INCIDENT).says == "warm"


def test_the_geometric_middle_parts_cold_from_warm() -> None:
    floors = c.Floors(400.0, 100.0, "learned")
    assert c.of_time(200.0, 200.0, floors).says == "cold"
    assert c.of_time(199.9, 199.9, floors).says == "warm"


def test_a_start_whose_bounds_lie_on_both_sides_is_unclear() -> None:
    assert c.of_time(3600.0, 100.0, INCIDENT).says == "unclear"
    assert c.of_time(3600.0, 500.0, INCIDENT).says == "cold"


def test_floors_that_are_too_near_tell_nothing() -> None:
    assert c.of_time(200.0, 190.0, c.Floors(125.0, 100.0, "learned")).says == "cold"
    assert c.of_time(200.0, 190.0, c.Floors(124.9, 100.0, "learned")).says == "unclear"


@pytest.mark.parametrize("floors", [c.Floors(), c.Floors(594.0), c.Floors(None, 320.0)])
def test_without_both_floors_time_tells_nothing(floors: c.Floors) -> None:
    assert c.of_time(600.0, 590.0, floors).says == "unclear"


# --- together ------------------------------------------------------------------------------------


def judge(log: dict[str, Any] | None, oldest: float, up: float | None) -> c.Coldness:
    told = {"began": True, **log} if log else None
    return c.coldness(START, up, [place(entry(oldest=oldest))], told, INCIDENT, False)


def test_the_log_beats_files_and_files_beat_the_time() -> None:
    assert judge({"hits": 1}, START + 1, 600.0).verdict == "warm"
    assert judge(None, START + 1, 320.0).verdict == "cold"
    assert judge(None, 10.0, 600.0).verdict == "warm"


def test_a_witness_that_was_overruled_is_still_shown() -> None:
    found = judge({"hits": 1}, START + 1, 600.0)
    assert [sign.says for sign in found.signs] == ["warm", "cold", "cold"]
    assert "declared floors" in found.words()
    assert found.by == "log"


def test_nobody_who_can_tell_is_unknown() -> None:
    found = c.coldness(START, None, [], None, c.Floors(), True)
    assert found.verdict == "unknown"
    assert found.by == ""
    assert found.words().startswith("whether the start was cold is not known")


def test_a_start_that_nobody_saw_is_over_within_what_is_allowed_for_one() -> None:
    late = [place(entry(oldest=START + 2000), entry(oldest=10, name="0000000000"))]
    said = c.coldness(START, None, late, None, c.Floors(), False, within=900.0)
    assert said.verdict == "unknown"
    said = c.coldness(START, None, late, None, c.Floors(), False, within=1900.0)
    assert said.verdict == "cold"


def test_a_place_whose_known_directories_hold_no_files_is_empty() -> None:
    entry = {"kind": "inductor shared", "files": 0}
    assert c.is_empty({"entries": [entry]})
    assert not c.is_empty({"entries": [entry, {**entry, "files": 1}]})


def test_a_log_that_could_not_be_read_says_why() -> None:
    assert c.of_log({"unread": "/var/log/vllm is not there"}) == c.Sign(
        c.LOG, c.UNCLEAR, "it was not read: /var/log/vllm is not there"
    )
