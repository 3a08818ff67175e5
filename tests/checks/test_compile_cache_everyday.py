"""Ordinary lives of a server that are no fault of its cache, and shapes that nobody expects."""

from __future__ import annotations

import copy
from datetime import datetime, timezone
from typing import Any

import pytest

from tests.checks.caches import DAY, STALE, T0, VAIN, Watch, entry, launch, place, print_of
from watchdog.domain.profile import Profile

A, DEEPER = launch(3), launch(7)


def filled(watch: Watch, how: dict[str, Any]) -> dict[str, Any]:
    start = watch.now + 45.0
    made = place(entry(oldest=start + 20))
    watch.runs(how, made, start=start)
    return made


def noted(how: dict[str, Any], start: float, at: float) -> dict[str, Any]:
    when = datetime.fromtimestamp(at, timezone.utc).isoformat()
    return {"fingerprint": print_of(how).as_dict(), "at": when, "start": start}


def worded(how: dict[str, Any], *words: str, **env: str) -> dict[str, Any]:
    return {**how, "argv": [*how["argv"], *words], "environ": env}


# --- a launch that uses no cache -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (worded(DEEPER, "--enforce-eager"), "enforce-eager"),
        (worded(DEEPER, "-O0"), "optimization-level 0"),
        (worded(DEEPER, "--compilation-config", '{"mode": 0}'), "compilation-config mode 0"),
        (worded(DEEPER, VLLM_DISABLE_COMPILE_CACHE="1"), "VLLM_DISABLE_COMPILE_CACHE"),
    ],
)
def test_a_launch_that_uses_no_cache_runs_on_nothing_that_lies_there(
    how: dict[str, Any], why: str
) -> None:
    watch = Watch()
    lies = filled(watch, A)
    assert watch.runs(how, lies).verdict() == "OK"
    assert why in watch.text
    assert watch.outline["starts"][-1]["verdict"] == "unknown"
    assert watch.runs(DEEPER, lies).verdict() == "WARNING"  # with the cache it does


@pytest.mark.parametrize(
    "how",
    [
        worded(DEEPER, "--no-enforce-eager"),
        worded(DEEPER, "-O0", "--compilation-config", '{"mode": 3}'),
        worded(DEEPER, VLLM_DISABLE_COMPILE_CACHE="0"),
    ],
)
def test_a_switch_that_is_not_on_excuses_nothing(how: dict[str, Any]) -> None:
    watch = Watch()
    lies = filled(watch, A)
    assert watch.runs(how, lies).verdict() == "WARNING"


def test_a_log_that_says_the_cache_is_off_is_taken_at_its_word() -> None:
    watch = Watch()
    lies = filled(watch, A)
    assert watch.runs(DEEPER, lies, log={"off": True}).verdict() == "OK"
    assert watch.runs(launch(9), lies, log={"off": True, "began": False}).verdict() == "WARNING"


def test_a_launch_that_used_no_cache_is_nobody_that_was_there_before() -> None:
    watch = Watch().told(T0 - 5 * DAY, worded(A, "--enforce-eager"), place(entry(oldest=T0 - 9e5)))
    assert watch.runs(A, place(entry(oldest=T0 - 9e5))).verdict() == "thin"


def test_a_container_that_compiles_nothing_and_is_made_anew_is_no_vain_set_aside() -> None:
    watch = Watch(profile=Profile(cold_start=600.0, warm_start=120.0))
    eager = worded(A, "--enforce-eager")
    watch.runs(eager, place(identity="8:1"), took=60.0)
    assert watch.runs(eager, place(identity="8:2"), took=60.0).verdict(VAIN) != "WARNING"


# --- many launches, and those of others ----------------------------------------------------------


def test_the_first_of_many_launches_may_come_back_to_its_own_files() -> None:
    watch, rows = Watch(), []
    for i in range(9):
        watch.now += 3600.0
        start = watch.now + 45.0
        rows.append(entry(oldest=start + 20, name=f"key{i}"))
        assert watch.runs(launch(3, version=f"0.2{i}"), place(*rows), start=start).verdict() == "OK"
    watch.again()
    assert watch.runs(launch(3, version="0.20"), place(*rows)).verdict() == "thin"
    assert "was here before" in watch.text
    assert watch.runs(launch(5, version="0.20"), place(*rows)).verdict() == "WARNING"


def test_who_is_noted_in_a_stamp_only_after_this_start_was_not_seen_before_it() -> None:
    other, own = launch(3, drafter="/m/l"), launch(5, drafter="/m/q")
    first, mine = T0 - 20 * DAY, T0 - 15 * DAY
    rows = [entry(oldest=first + 20, name="l"), entry(oldest=mine + 20, name="q")]
    start = T0 - 10 * DAY
    lies = place(*rows, stamp=[noted(other, first, T0 - 60.0)])
    watch = Watch().told(start, own, lies)
    assert watch.verdict() == "thin"
    watch.now += DAY
    assert watch.again().runs(own, lies).verdict() == "thin"


def test_what_others_compiled_long_after_a_stamped_start_is_not_laid_to_it() -> None:
    other, own = launch(3, drafter="/m/l"), launch(5, drafter="/m/q")
    first, mine = T0 - 20 * DAY, T0 - 15 * DAY
    rows = [entry(oldest=first + 20, name="l"), entry(oldest=mine + 20, name="q")]
    lies = place(*rows, stamp=[noted(other, first, T0 - DAY)])
    assert Watch().runs(own, lies).verdict() == "thin"


def test_of_several_launches_the_nearest_one_is_named() -> None:
    watch = Watch()
    lies = filled(watch, A)
    start = watch.now + 45.0
    other = launch(9, version="1.0", image="sha256:z", drafter="/m/z")
    both = place(*lies["entries"], entry(oldest=start + 20, name="zz"))
    watch.runs(other, both, start=start)
    assert watch.runs(DEEPER, both).verdict() == "WARNING"
    assert watch.found[STALE].argument.evidence["differs_in"] == [
        "speculative-config num_speculative_tokens"
    ]


def test_where_the_log_tells_of_both_it_is_not_said_that_nothing_was_compiled() -> None:
    watch = Watch()
    lies = filled(watch, A)
    assert watch.runs(DEEPER, lies, log={"compiled": 1, "hits": 3}).verdict() == "WARNING"
    assert "compiled nothing" not in watch.text


# --- a launch that cannot be read whole ----------------------------------------------------------


def test_two_launches_that_are_alike_as_far_as_they_could_be_read_need_not_be_the_same() -> None:
    dark = {**A, "environ": None, "unread": {"environ": "EACCES"}}
    for before, now in ((dark, dark), (A, dark), (dark, A)):
        watch = Watch()
        lies = filled(watch, before)
        assert watch.verdict() == "OK"  # it compiled for itself, whatever it is
        assert watch.runs(now, lies).verdict() == "thin"
        assert "proves nothing" in watch.text
    watch = Watch()
    lies = filled(watch, A)
    assert watch.runs(A, lies).verdict() == "OK"


def test_what_a_later_look_at_the_same_process_could_read_is_read() -> None:
    dark = {**A, "environ": None, "unread": {"environ": "EACCES"}}
    watch = Watch()
    lies = filled(watch, A)
    watch.runs(dark, lies)
    start = watch.state.now.start  # type: ignore[union-attr]
    assert watch.told(start, A, lies).verdict() == "OK"
    assert watch.told(start, dark, lies).verdict() == "OK"


# --- hostile facts -------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (None, "x", 5, 1e308, float("nan"), [], {}, [None], [[]], ["a"], [{}], True,
                        -(10**400))  # fmt: skip


def ways(data: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    return [here, *(way for key in keys for way in ways(data[key], (*here, key)))]


def test_a_survey_of_any_shape_is_judged_without_a_fault() -> None:
    base = Watch()
    lies = filled(base, A)
    start, state = base.now + 45.0, base.state
    odd = {**lies, "unread": [["x", "EACCES"]], "aside": [{"name": "q.stale", "at": start - 20}],
           "stamp": [noted(DEEPER, start - 60, start - 60)]}  # fmt: skip
    told = {"asked": base.now, "start": start, "unknown": "", "places": [odd]}
    for way in ways(told)[1:]:
        if len(way) > 4 and way[2] == "stamp" and way[4] == "fingerprint" and len(way) > 5:
            continue  # `Fingerprint.from_dict` has tests of its own
        for value in ODD:
            cache = copy.deepcopy(told)
            holder: Any = cache
            for key in way[:-1]:
                holder = holder[key]
            holder[way[-1]] = value
            facts = {"launch": {**DEEPER, "started_at": start}, "cache": cache,
                     "launch_fingerprint": print_of(DEEPER).as_dict()}  # fmt: skip
            watch = Watch(now=base.now, state=state)
            watch.round(start, facts)
            assert watch.found[STALE].argument.summary
            assert watch.outline["starts"]


def test_a_row_that_is_none_makes_a_place_one_that_was_not_seen_whole() -> None:
    watch = Watch()
    lies = filled(watch, A)
    assert watch.runs(A, {**lies, "entries": [*lies["entries"], 5]}).verdict() == "thin"
    assert "odd shape" in watch.text
