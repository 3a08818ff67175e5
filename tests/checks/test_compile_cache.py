"""Whose compiled code a launch runs on, told from its launch, its directory and its starts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checks.caches import (
    DAY,
    ROOT,
    STALE,
    T0,
    VAIN,
    Watch,
    entry,
    launch,
    place,
    print_of,
)
from watchdog.domain.plain import plain
from watchdog.domain.profile import Profile

OLD = T0 - 10 * DAY
A, B = launch(3), launch(7, image="sha256:b")
DEEPER = launch(7)


def aside(name: str, at: float) -> list[dict[str, Any]]:
    return [{"name": name, "at": at}]


def filled(watch: Watch, how: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Run a launch that compiles all in a new directory; return what then lies there."""
    start = watch.now + 45.0
    made = place(entry(oldest=start + 20), **more)
    watch.runs(how, made, start=start)
    return made


def collapsed() -> Watch:
    """Return the incident: another image, other depth, the same directory, nothing compiled."""
    watch = Watch()
    lies = filled(watch, A)
    return watch.runs(B, lies)


# --- stale ---------------------------------------------------------------------------------------


def test_a_changed_launch_that_compiles_nothing_in_an_old_directory_is_stale() -> None:
    watch = collapsed()
    assert watch.verdict() == "WARNING"
    assert "image sha256:a -> sha256:b" in watch.text
    assert "num_speculative_tokens 3 -> 7" in watch.text


def test_the_alert_names_one_next_step_and_what_was_ruled_out() -> None:
    said = collapsed().found[STALE].argument
    assert f"watchdog cache set-aside --directory {ROOT}" in said.next_step
    assert "watchdog cache confirm qwen" in said.next_step
    assert any("by its artifacts: nothing in" in row for row in said.ruled_out)
    assert any("nothing shows that this one did" in row for row in said.ruled_out)
    assert said.evidence["place"] == ROOT
    assert said.evidence["differs_in"] == ["image", "speculative-config num_speculative_tokens"]


def test_the_machine_reads_what_the_launch_did_in_each_place() -> None:
    watch = Watch()
    filled(watch, A)
    start = watch.state.now.start  # type: ignore[union-attr]
    assert watch.found[STALE].argument.evidence["ledger"] == [
        {"path": ROOT, "id": "8:77", "start": start, "compiled": True}
    ]


def test_a_watch_that_came_to_a_running_server_knows_it_when_the_launch_changes() -> None:
    watch = Watch().told(T0 - 5 * DAY, A, place(entry(oldest=OLD)))
    assert watch.verdict() == "thin"
    assert "nobody saw who filled it" in watch.text
    assert watch.runs(B, place(entry(oldest=OLD))).verdict() == "WARNING"


def test_it_outlives_restarts_of_the_daemon_and_of_the_server() -> None:
    watch = collapsed()
    [start] = [watch.state.now.start]  # type: ignore[union-attr]
    assert watch.again().round(start).verdict() == "WARNING"
    lies = watch.facts["cache"]["places"][0]
    assert watch.runs(B, lies).verdict() == "WARNING"
    assert watch.again().runs(B, lies).verdict() == "WARNING"


def test_a_third_launch_is_held_against_the_one_that_compiled_and_not_the_stale_one() -> None:
    watch = collapsed()
    watch.runs(launch(5), watch.facts["cache"]["places"][0])
    assert watch.verdict() == "WARNING"
    assert "3 -> 5" in watch.text


@pytest.mark.parametrize(
    ("how", "named"),
    [
        (launch(7), "num_speculative_tokens 3 -> 7"),
        (launch(3, image="sha256:b"), "image"),
        (launch(3, env={"AITER_ENABLE": "1"}), "AITER_ENABLE"),
        (launch(3, drafter="/m/other"), "drafter /m/draft -> /m/other"),
    ],
)
def test_what_vllms_key_misses_is_an_alarm(how: dict[str, Any], named: str) -> None:
    watch = Watch()
    lies = filled(watch, A)
    assert watch.runs(how, lies).verdict() == "WARNING"
    assert named in watch.text


def test_half_a_compilation_is_stale_too() -> None:
    watch = Watch()
    filled(watch, A)
    old = watch.facts["cache"]["places"][0]["entries"][0]
    start = watch.now + 45.0
    watch.runs(DEEPER, place({**old, "newest": start + 30}), start=start)
    assert watch.verdict() == "WARNING"
    assert "did not compile all anew" in watch.text


# --- safe ----------------------------------------------------------------------------------------


def test_a_launch_that_alone_filled_its_directory_is_safe_at_each_start() -> None:
    watch = Watch()
    lies = filled(watch, A)
    assert watch.verdict() == "OK"
    assert watch.runs(A, lies).verdict() == "OK"
    assert "compiled it for itself, at its start of" in watch.text


def test_what_vllms_own_key_sees_is_compiled_anew_and_is_no_alarm() -> None:
    watch = Watch()
    lies = filled(watch, A)
    start = watch.now + 45.0
    new = entry(oldest=start + 20, name="9999999999")
    assert watch.runs(B, place(*lies["entries"], new), start=start).verdict() == "OK"


def test_a_launch_that_goes_back_to_what_it_compiled_before_is_safe() -> None:
    watch = Watch()
    lies = filled(watch, A)
    start = watch.now + 45.0
    both = place(*lies["entries"], entry(oldest=start + 20, name="9999999999"))
    watch.runs(B, both, start=start)
    assert watch.runs(A, both).verdict() == "OK"
    assert watch.runs(B, both).verdict() == "OK"


def test_it_is_not_safe_where_its_own_files_were_taken_out_and_others_lie_there() -> None:
    watch = Watch()
    filled(watch, A)
    start = watch.now + 45.0
    others = place(entry(oldest=start + 20))  # emptied, and filled by the other: the same inode
    assert watch.runs(DEEPER, others, start=start).verdict() == "OK"
    assert watch.runs(A, others).verdict() == "WARNING"
    assert watch.runs(A, others).verdict() == "WARNING"


def test_beside_a_running_server_newer_files_show_that_it_compiled_for_itself() -> None:
    start = T0 - 5 * DAY
    watch = Watch().told(start, A, place(entry(oldest=start + 60)))
    assert watch.verdict() == "OK"


def test_files_that_came_days_after_an_unseen_start_are_not_its_own() -> None:
    start = T0 - 5 * DAY
    allowed = start + 900.0 + 180.0
    old = entry(oldest=OLD, name="0000000000")
    assert Watch().told(start, A, place(old, entry(oldest=allowed))).verdict() == "OK"
    assert Watch().told(start, A, place(old, entry(oldest=allowed + 1))).verdict() == "thin"


def test_it_ends_when_the_directory_was_set_aside_and_the_start_was_cold() -> None:
    watch = collapsed()
    start = watch.now + 45.0
    fresh = place(entry(oldest=start + 20), identity="8:99", aside=aside("q.stale", start - 20))
    assert watch.runs(B, fresh, start=start).verdict() == "OK"
    assert watch.verdict(VAIN) == "OK"


def test_a_device_of_another_number_after_a_boot_is_the_same_directory() -> None:
    watch = Watch()
    lies = filled(watch, A)
    assert watch.runs(DEEPER, {**lies, "id": "9:77"}).verdict() == "WARNING"
    assert watch.verdict(VAIN) == "OK"


# --- not known -----------------------------------------------------------------------------------


@pytest.mark.parametrize("blind", [{"cut": "late"}, {"unread": [["x", "EACCES"]]}])
def test_a_survey_that_did_not_see_all_is_neither_safe_nor_stale(blind: dict[str, Any]) -> None:
    watch = Watch()
    lies = filled(watch, A)
    assert watch.runs(A, {**lies, **blind}).verdict() == "thin"
    assert watch.runs(DEEPER, {**lies, **blind}).verdict() == "thin"
    warm = {"hits": 2}
    assert watch.runs(launch(6), {**lies, **blind}, log=warm).verdict() == "WARNING"


def test_a_partial_fingerprint_proves_no_sameness() -> None:
    watch = Watch()
    dark = launch(3, unread={"environ": "not permitted"})
    lies = filled(watch, launch(3, env={"VLLM_X": "1"}))
    assert watch.runs({**dark, "environ": None}, lies).verdict() == "thin"
    assert "environ" in watch.text


def test_a_partial_fingerprint_still_shows_a_change() -> None:
    watch = Watch()
    lies = filled(watch, A)
    dark = {**launch(7), "environ": None, "unread": {"environ": "not permitted"}}
    assert watch.runs(dark, lies).verdict() == "WARNING"


def test_a_launch_that_may_be_this_very_one_keeps_an_older_one_from_raising_an_alarm() -> None:
    watch = Watch()
    lies = filled(watch, A)
    start = watch.now + 45.0
    both = place(*lies["entries"], entry(oldest=start + 20, name="9999999999"))
    dark = {**B, "environ": None, "unread": {"environ": "not permitted"}}
    assert watch.runs(dark, both, start=start).verdict() == "OK"
    assert watch.runs({**B, "environ": {"VLLM_X": "1"}}, both).verdict() == "thin"


def test_what_becomes_readable_later_is_the_same_launch() -> None:
    watch = Watch()
    dark = {**A, "environ": None, "unread": {"environ": "not yet"}}
    start = watch.now + 45.0
    made = place(entry(oldest=start + 20))
    watch.runs(dark, made, start=start).told(start, A, made)
    assert watch.verdict() == "OK"
    assert len(watch.place["fills"]) == 1
    assert watch.outline["now"]["partial"] is False


def test_files_of_the_model_that_are_swapped_under_a_running_server_are_not_those_it_runs() -> None:
    watch = Watch()
    made = filled(watch, A)
    start = watch.state.now.start  # type: ignore[union-attr]
    swapped = json.loads(json.dumps(A))
    swapped["models"]["drafter"]["files"] = "new weights"
    assert watch.told(start, swapped, made).outline["now"]["digest"] == print_of(A).digest
    assert watch.runs(swapped, made).verdict() == "WARNING"


def test_what_an_unseen_launch_compiled_since_is_no_proof_against_this_one() -> None:
    watch = Watch()
    lies = filled(watch, A)
    since = lies["entries"][0]["oldest"] + 180.0
    watch.now += 900.0
    crashed = entry(oldest=since, name="9999999999")
    early = entry(oldest=since - 3.0, name="9999999999")
    assert watch.runs(DEEPER, place(*lies["entries"], early)).verdict() == "WARNING"
    watch = Watch()
    lies = filled(watch, A)
    watch.now += 900.0
    assert watch.runs(DEEPER, place(*lies["entries"], crashed)).verdict() == "thin"
    assert "a launch that nobody saw" in watch.text


def test_an_unseen_launch_may_have_compiled_before_the_last_start_of_the_other() -> None:
    watch = Watch()
    lies = filled(watch, A)
    watch.now += 900.0
    tried = place(*lies["entries"], entry(oldest=watch.now, name="9999999999"))
    watch.now += 900.0
    assert watch.runs(A, tried).verdict() == "OK"
    assert watch.runs(DEEPER, tried).verdict() == "thin"


def test_only_time_that_speaks_for_a_cold_start_makes_no_launch_safe() -> None:
    watch = Watch(profile=Profile(cold_start=90.0, warm_start=30.0))
    filled(watch, A)
    old = watch.facts["cache"]["places"][0]["entries"][0]
    start = watch.now + 45.0
    mixed = place({**old, "newest": start + 30})
    assert watch.runs(DEEPER, mixed, start=start).verdict() == "thin"
    assert "only the time" in watch.text


def test_where_nothing_is_as_old_as_the_start_nothing_can_be_stale() -> None:
    watch = Watch()
    filled(watch, A)
    start = watch.now + 45.0
    emptied = place(entry(oldest=start + 90.0 + 15.0 + 181.0))  # by whoever shares it, and later
    assert watch.runs(DEEPER, emptied, start=start).verdict() == "thin"
    assert "nothing here is as old" in watch.text


def test_what_was_left_out_of_a_long_list_makes_no_alarm() -> None:
    watch = Watch()
    lies = filled(watch, A)
    start = watch.now + 45.0
    both = place(*lies["entries"], entry(oldest=start + 20, name="9999999999"), more=40)
    assert watch.runs(DEEPER, both, start=start).verdict() == "thin"
    assert watch.runs(launch(9), both).verdict() == "WARNING"  # nothing newer, and it was seen


def test_a_shared_place_that_holds_nothing_is_no_doubt() -> None:
    watch = Watch()
    start = watch.now + 45.0
    nothing = place(path="/k", kind="triton", identity="8:5")
    assert watch.runs(A, place(entry(oldest=start + 9)), nothing, start=start).verdict() == "OK"


def test_an_empty_directory_tells_nothing_of_the_graphs_that_run() -> None:
    watch = Watch()
    filled(watch, A)
    assert watch.runs(B, place(identity="8:99")).verdict() == "thin"


def test_nothing_is_said_of_a_target_whose_cache_nobody_looks_at() -> None:
    watch = Watch().round(T0 - 100, {})
    assert watch.found == {}
    assert watch.outline["places"] == []
    assert watch.outline["unknown"]


def test_where_the_cache_lies_may_be_unknown_and_is_said() -> None:
    facts = {"cache": {"asked": T0, "start": T0, "unknown": "environ: EACCES", "places": []}}
    watch = Watch().round(T0 - 100, facts)
    assert watch.verdict() == "thin"
    assert "environ: EACCES" in watch.text
    assert watch.outline["unknown"]


def test_a_server_that_is_silent_is_not_judged_and_keeps_its_verdict() -> None:
    watch = collapsed()
    watch.round(None)
    assert watch.verdict() == "thin"
    assert watch.place["verdict"] == "stale"


def test_a_factor_that_is_configured_not_to_count_ends_the_alarm_that_it_raised() -> None:
    watch = Watch()
    lies = filled(watch, launch(3, env={"VLLM_X": "1"}))
    watch.runs(launch(3, env={"VLLM_X": "2"}), lies)
    assert watch.verdict() == "WARNING"
    start = watch.state.now.start  # type: ignore[union-attr]
    assert watch.told(start, launch(3), lies).verdict() == "OK"  # as it reads without VLLM_X


def test_a_factor_that_counts_only_now_is_no_change_against_launches_before() -> None:
    watch = Watch()
    lies = filled(watch, A)
    start = watch.state.now.start  # type: ignore[union-attr]
    more = launch(3, env={"VLLM_X": "1"})
    assert watch.told(start, more, lies).verdict() == "OK"
    assert watch.runs(more, lies).verdict() == "OK"
    assert watch.runs(launch(3, env={"VLLM_X": "2"}), lies).verdict() == "WARNING"


# --- facts of the former start -------------------------------------------------------------------


def test_facts_of_the_former_start_are_never_laid_to_the_new_one() -> None:
    watch = Watch()
    made = filled(watch, A)
    old = dict(watch.facts)
    watch.silent(60.0)
    start = watch.now - 30.0
    for _ in range(4):  # launch, fingerprint, survey and log of the former process are carried on
        watch.round(start, {**old, "log": {"began": True, "compiled": 3}})
        assert watch.verdict() == "thin"
    assert watch.outline["starts"][-1]["digest"] == ""
    half = {**old, "launch": {**B, "started_at": start},
            "launch_fingerprint": print_of(B).as_dict()}  # fmt: skip
    assert watch.round(start, half).verdict() == "thin"
    assert watch.told(start, B, made).verdict() == "WARNING"


def test_two_starts_within_seconds_are_two() -> None:
    watch = Watch()
    made = filled(watch, A)
    first = watch.state.now.start  # type: ignore[union-attr]
    watch.round(first + 2.0, {**watch.facts})
    assert watch.verdict() == "thin"
    assert watch.told(first + 2.0, A, made).verdict() == "OK"
    assert len(watch.outline["starts"]) == 2


@pytest.mark.parametrize(("off", "said"), [(5.0, "OK"), (-5.0, "OK"), (5.1, "thin")])
def test_proc_and_the_page_may_tell_a_start_seconds_apart(off: float, said: str) -> None:
    start = T0 - 100.0
    watch = Watch().told(start, A, place(entry(oldest=start + 9)))
    facts = {**watch.facts, "launch": {**A, "started_at": start + off}}
    assert Watch().round(start).round(start, facts).verdict() == said


def test_a_page_may_be_served_by_a_child_that_began_later() -> None:
    watch = Watch()
    start = T0 - 100.0
    watch.told(start, A, place(entry(oldest=start + 5)))
    late = {**watch.facts["launch"], "started_at": start - 30.0}
    young = {**watch.facts["launch"], "started_at": start + 30.0}
    of_it = {"gpus_start": start}

    def verdict(facts: dict[str, Any]) -> str:
        return Watch().round(start).round(start, {**watch.facts, **facts}).verdict()

    assert verdict({"launch": late}) == "thin"
    assert verdict({"launch": late, **of_it}) == "OK"
    assert verdict({"launch": young, **of_it}) == "thin"


def test_two_processes_that_answer_in_turn_are_not_starts_again_and_again() -> None:
    watch = collapsed()
    new, old = watch.outline["starts"][-1]["start"], watch.outline["starts"][-2]["start"]
    for start in (old, new, old, new):
        watch.round(start)
    assert watch.verdict() == "WARNING"
    assert len(watch.outline["starts"]) == 2


def test_a_log_of_the_first_round_may_be_of_the_former_start() -> None:
    watch = Watch()
    lies = filled(watch, A)
    watch.silent(60.0)
    start = watch.now - 30.0
    cold = {"log": {"began": True, "compiled": 3}}
    facts = {
        "launch": {**DEEPER, "started_at": start},
        "launch_fingerprint": print_of(DEEPER).as_dict(),
        "cache": {"asked": watch.now, "start": start, "unknown": "", "places": [lies]},
    }
    assert watch.round(start, {**facts, **cold}).verdict() == "WARNING"
    assert watch.round(start, {**facts, **cold}).verdict() == "OK"


def test_a_log_that_was_read_for_another_process_is_not_laid_to_this_one() -> None:
    watch = Watch()
    lies = filled(watch, A)
    watch.runs(DEEPER, lies)
    start = watch.state.now.start  # type: ignore[union-attr]
    cold = {"log": {"began": True, "compiled": 3}}
    assert watch.round(start, {**watch.facts, **cold, "log_start": start - 60.0}).verdict() == (
        "WARNING"
    )
    assert watch.round(start, {**watch.facts, **cold, "log_start": start}).verdict() == "OK"


def test_a_log_that_could_not_be_read_is_told_with_its_reason() -> None:
    watch = Watch()
    watch.runs(DEEPER, filled(watch, A))
    start = watch.state.now.start  # type: ignore[union-attr]
    watch.round(start, {**watch.facts, "log_unknown": "/log is not there"})
    signs = {one["name"]: one["text"] for one in watch.outline["starts"][-1]["signs"]}
    assert signs["log"] == "it was not read: /log is not there"


# --- other places --------------------------------------------------------------------------------


def test_an_explicit_cache_dir_is_named_as_bypassing_the_key() -> None:
    watch = Watch()
    lies = filled(watch, A, kind="chosen")
    watch.runs(DEEPER, lies)
    assert watch.verdict() == "WARNING"
    assert any("bypasses vLLM's key" in one for one in watch.found[STALE].argument.suspects)


def test_an_explicit_cache_dir_is_named_although_another_place_is_worse() -> None:
    watch = Watch()
    start = watch.now + 45.0
    graphs, shared = place(entry(oldest=start + 20), kind="chosen"), kernels("aiter", start + 5)
    watch.runs(A, graphs, shared, start=start)
    assert watch.found[STALE].argument.evidence["bypasses_key"] is True
    start = watch.now + 45.0
    new = entry(oldest=start + 20, name="9999999999")
    watch.runs(B, place(*graphs["entries"], new, kind="chosen"), shared, start=start)
    said = watch.found[STALE].argument
    assert said.evidence["place"] == "/k/aiter"
    assert said.evidence["bypasses_key"] is True
    assert any("bypasses vLLM's key" in one for one in said.suspects)
    assert [one["chosen"] for one in watch.outline["places"]] == [True, False]


def test_launches_that_differ_in_nothing_that_changes_kernels_are_told_so() -> None:
    watch = Watch()
    start = watch.now + 45.0
    lies = place(entry(oldest=start + 20)), kernels("aiter", start + 5)
    watch.runs(A, *lies, start=start).runs(launch(7), *lies)
    graphs, shared = (one["fills"][0]["changed"] for one in watch.outline["places"])
    assert "3 -> 7" in graphs
    assert shared == "nothing that counts here"


@pytest.mark.parametrize(
    ("rows", "words"),
    [(None, "no stamp"), ([{}], "names 1 launch"), ([{}, {}], "names 2 launches")],
)
def test_a_stamp_is_told_in_the_words_of_who_writes_it(rows: Any, words: str) -> None:
    watch = Watch().runs(A, place(entry(oldest=OLD)))
    watch.facts["cache"]["places"][0]["stamp"] = rows
    assert watch.place["stamp"] == words


def test_in_a_directory_without_a_key_the_way_back_is_not_safe() -> None:
    watch = Watch()
    a = entry(keyed=False, oldest=0)
    start = watch.now + 45.0
    watch.runs(A, place({**a, "oldest": start + 1, "newest": start + 9}), start=start)
    first = watch.facts["cache"]["places"][0]["entries"][0]
    start = watch.now + 45.0
    both = place(first, entry(oldest=start + 1, name="other", keyed=False))
    assert watch.runs(DEEPER, both, start=start).verdict() == "OK"
    assert watch.runs(A, both).verdict() == "WARNING"


def kernels(kind: str, oldest: float, newest: float | None = None) -> dict[str, Any]:
    return place(entry(kind, oldest, newest, name="k"), path=f"/k/{kind}", kind=kind,
                 identity="8:5")  # fmt: skip


def after(kind: str, how: dict[str, Any], newest: float | None = None, wait: float = 700.0) -> str:
    """Run another launch on kernels of the first; return what is said after a time of traffic."""
    watch = Watch()
    start = watch.now + 45.0
    graphs = place(entry(oldest=start + 20))
    watch.runs(A, graphs, kernels(kind, start + 5), start=start)
    again = watch.now + 45.0
    more = place(*graphs["entries"], entry(oldest=again + 20, name="9999999999"))
    last = start + 65 if newest is None else again + newest
    lies = kernels(kind, start + 5, last)
    watch.runs(how, more, lies, start=again)
    watch.now += wait
    return watch.told(again, how, more, lies).verdict()


@pytest.mark.parametrize(
    ("kind", "how", "said"),
    [
        ("aiter", launch(3, image="sha256:b"), "WARNING"),
        ("aiter", launch(3, env={"AITER_X": "1"}), "WARNING"),
        ("aiter", launch(7), "OK"),
        ("aiter", launch(3, env={"VLLM_X": "1"}), "OK"),
        ("triton", launch(3, version="0.28.0"), "WARNING"),
        ("triton", launch(3, env={"AITER_X": "1"}), "OK"),
        ("inductor", launch(3, env={"TORCHINDUCTOR_X": "1"}), "WARNING"),
    ],
)
def test_shared_kernels_are_held_against_what_changes_kernels_only(
    kind: str, how: dict[str, Any], said: str
) -> None:
    assert after(kind, how) == said


def test_kernels_that_were_added_leave_it_to_tritons_own_key_but_aiter_has_none() -> None:
    how = launch(3, image="sha256:b")
    assert after("triton", how, newest=30.0) == "thin"
    assert after("aiter", how, newest=30.0) == "WARNING"


def test_requests_may_have_kernels_compiled_yet_for_ten_minutes() -> None:
    how = launch(3, image="sha256:b")
    assert after("triton", how, wait=400.0) == "thin"


def test_the_worst_place_speaks_and_names_the_others() -> None:
    watch = Watch()
    start = watch.now + 45.0
    graphs, shared = place(entry(oldest=start + 20)), kernels("aiter", start + 5)
    watch.runs(A, graphs, shared, start=start)
    start = watch.now + 45.0
    new = entry(oldest=start + 20, name="9999999999")
    watch.runs(B, place(*graphs["entries"], new), shared, start=start)
    assert watch.verdict() == "WARNING"
    assert "/k/aiter" in watch.text
    assert f"(also: {ROOT} safe)" in watch.text
    ruled_out = watch.found[STALE].argument.ruled_out  # its graphs were compiled: it was shown
    assert not any("nothing shows that this one did" in row for row in ruled_out)


# --- a directory of two targets ------------------------------------------------------------------


def stamp(how: dict[str, Any], start: float, at: str) -> dict[str, Any]:
    return {"fingerprint": print_of(how).as_dict(), "at": at, "start": start}


def test_a_stamp_that_came_after_this_start_cannot_be_what_it_runs_on() -> None:
    lies = place(entry(oldest=OLD))
    start = T0 - 5 * DAY
    other = stamp(B, T0 - 4 * DAY, "2026-09-17T14:13:20Z")
    assert Watch().told(start, A, {**lies, "stamp": [other]}).verdict() == "thin"


def test_a_stamp_of_another_launch_before_this_one_is_stale() -> None:
    lies = place(entry(oldest=OLD))
    other = stamp(B, OLD - 60.0, "2026-09-11T14:12:20Z")
    watch = Watch().told(T0 - 5 * DAY, A, {**lies, "stamp": [other]})
    assert watch.verdict() == "WARNING"
    assert "noted in its stamp 2026-09-11T14:12:20Z" in watch.text


def test_a_stamp_is_not_said_to_note_a_start_that_was_only_seen() -> None:
    noted = stamp(A, OLD - 60.0, "2026-09-11T14:12:20Z")
    watch = Watch().told(OLD - 30.0, A, {**place(entry(oldest=OLD)), "stamp": [noted]})
    watch.runs(B, {**place(entry(oldest=OLD)), "stamp": [noted]})
    assert watch.verdict() == "WARNING"
    assert "(seen 2026-09-" in watch.text


def test_a_stamp_says_nothing_of_files_that_are_older_than_it() -> None:
    lies = place(entry(oldest=OLD))
    other = stamp(B, OLD + 60.0, "2026-09-11T14:14:20Z")
    assert Watch().told(T0 - 5 * DAY, A, {**lies, "stamp": [other]}).verdict() == "thin"


def test_a_stamp_of_a_command_line_knows_no_image_and_shows_no_change_by_it() -> None:
    lies = place(entry(oldest=OLD))
    bare = {key: value for key, value in A.items() if key != "image"}
    other = stamp(bare, OLD - 60.0, "2026-09-11T14:12:20Z")
    watch = Watch().told(T0 - 5 * DAY, A, {**lies, "stamp": [other]})
    assert watch.verdict() == "thin"
    assert "not known: image" in watch.text


def test_its_own_stamp_tells_a_watch_that_lost_its_store_that_it_compiled() -> None:
    lies = place(entry(oldest=OLD))
    own = stamp(A, OLD - 30.0, "2026-09-11T14:13:30Z")
    assert Watch().told(T0 - 5 * DAY, A, {**lies, "stamp": [own]}).verdict() == "OK"


def test_two_launches_that_start_at_once_into_one_directory_prove_nothing_by_times() -> None:
    watch = Watch()
    start = watch.now + 45.0
    other = stamp(B, start + 10.0, "2026-09-21T14:15:00Z")
    lies = place(entry(oldest=start + 20), stamp=[other])
    assert watch.runs(A, lies, start=start).verdict() == "thin"


def test_a_rival_that_is_noted_later_takes_the_proof_back() -> None:
    watch = Watch()
    start = watch.now + 45.0
    lies = place(entry(oldest=start + 20))
    assert watch.runs(A, lies, start=start).verdict() == "OK"
    other = stamp(B, start + 10.0, "2026-09-21T14:15:00Z")
    assert watch.told(start, A, {**lies, "stamp": [other]}).verdict() == "thin"


def test_with_a_rival_it_is_not_stale_by_the_files_either() -> None:
    watch = Watch()
    lies = filled(watch, A)
    start = watch.now + 45.0
    other = stamp(B, start + 10.0, "2026-09-21T14:17:00Z")
    both = place(*lies["entries"], entry(oldest=start + 20, name="9999999999"), stamp=[other])
    assert watch.runs(DEEPER, both, start=start).verdict() == "thin"
    assert "at the same time" in watch.text


def test_a_rival_in_one_place_is_none_in_another() -> None:
    watch = Watch()
    start = watch.now + 45.0
    other = stamp(B, start + 10.0, "2026-09-21T14:15:00Z")
    mine, shared = place(entry(oldest=start + 20)), kernels("aiter", start + 5)
    watch.runs(A, mine, {**shared, "stamp": [other]}, start=start)
    assert [one["verdict"] for one in watch.outline["places"]] == ["safe", "unknown"]


def test_a_stamp_that_is_not_ours_to_read_is_no_stamp() -> None:
    rows = [{"fingerprint": {"x": 1}, "at": "now"}, {"at": 5}, {}]
    lies = place(entry(oldest=OLD), stamp=rows, stamp_fault="of a newer version")
    watch = Watch().told(T0 - 5 * DAY, A, lies)
    assert watch.verdict() == "thin"
    assert watch.place["stamp"] == "of a newer version"


# --- set aside -----------------------------------------------------------------------------------


def pretended(**more: Any) -> Watch:
    """Return a set-aside after which the start compiled nothing."""
    watch = collapsed()
    lies = watch.facts["cache"]["places"][0]
    start = watch.now + 45.0
    copies = aside("qwen.stale-20260921T141530Z", start - 20.0)
    return watch.runs(B, {**lies, "aside": copies}, start=start, **more)


def test_a_set_aside_after_which_the_start_was_warm_was_in_vain() -> None:
    watch = pretended()
    assert watch.verdict(VAIN) == "WARNING"
    said = watch.found[VAIN].argument
    assert "qwen.stale-20260921T141530Z" in said.summary
    assert "was not a cold one" in said.summary
    assert said.next_step


def test_it_stays_until_a_start_is_cold() -> None:
    watch = pretended()
    lies = watch.facts["cache"]["places"][0]
    assert watch.again().runs(B, lies).verdict(VAIN) == "WARNING"
    start = watch.now + 45.0
    fresh = place(entry(oldest=start + 20), identity="8:99", aside=lies["aside"])
    assert watch.runs(B, fresh, start=start).verdict(VAIN) == "OK"


def test_it_ends_when_the_copy_is_gone() -> None:
    watch = pretended()
    lies = watch.facts["cache"]["places"][0]
    hidden = {**lies, "aside": [], "unread": [["..", "EACCES"]]}
    assert watch.runs(B, hidden).verdict(VAIN) == "WARNING"
    assert watch.runs(B, {**lies, "aside": []}).verdict(VAIN) == "OK"


def test_a_copy_that_was_set_aside_while_it_runs_is_about_the_next_start() -> None:
    watch = collapsed()
    lies = watch.facts["cache"]["places"][0]
    start = watch.state.now.start  # type: ignore[union-attr]
    later = {**lies, "aside": aside("q.stale", start + 5.0)}
    assert watch.told(start, B, later).verdict(VAIN) == "OK"
    assert watch.runs(B, later).verdict(VAIN) == "WARNING"


@pytest.mark.parametrize(("late", "whose"), [(2.0, "this"), (2.1, "the next")])
def test_a_copy_of_the_very_second_of_a_start_is_about_it_alone(late: float, whose: str) -> None:
    watch = collapsed()
    lies = watch.facts["cache"]["places"][0]
    start = watch.now + 45.0
    copied = {**lies, "aside": aside("q.stale", start + late)}
    watch.runs(B, copied, start=start)
    assert watch.verdict(VAIN) == ("WARNING" if whose == "this" else "OK")
    watch = collapsed()
    start = watch.now + 45.0
    fresh = place(entry(oldest=start + 20), identity="8:99", aside=aside("q.stale", start + late))
    assert watch.runs(B, fresh, start=start).verdict(VAIN) == "OK"
    assert watch.runs(B, fresh).verdict(VAIN) == ("OK" if whose == "this" else "WARNING")


def test_whether_it_was_cold_may_be_unknown_and_is_no_alarm() -> None:
    watch = pretended()
    lies = watch.facts["cache"]["places"][0]
    start = watch.now + 45.0
    blind = {**lies, "cut": "late", "aside": aside("q.stale-2", start - 10.0)}
    watch.runs(B, blind, start=start)
    assert watch.outline["starts"][-1]["after_aside"] == "q.stale-2"
    assert watch.verdict(VAIN) == "thin"
    assert "cache confirm qwen --log" in watch.found[VAIN].argument.next_step


def test_a_directory_that_was_replaced_by_an_empty_one_is_a_set_aside() -> None:
    watch = collapsed()
    watch.runs(B, place(identity="8:99"), log={"hits": 3})
    assert watch.verdict(VAIN) == "WARNING"
    assert "is another directory, without older files" in watch.found[VAIN].argument.summary


def test_a_directory_that_was_replaced_and_not_seen_whole_may_hold_older_files() -> None:
    watch = collapsed()
    watch.runs(B, place(identity="8:99", cut="late"), log={"hits": 3})
    assert watch.verdict(VAIN) == "OK"


def test_a_later_look_at_the_same_start_finds_the_same_set_aside() -> None:
    watch = collapsed()
    watch.runs(B, place(identity="8:99"), log={"hits": 3})
    start = watch.state.now.start  # type: ignore[union-attr]
    watch.told(start, B, place(identity="8:99"), log={"hits": 3})
    assert watch.verdict(VAIN) == "WARNING"
    watch.runs(B, place(identity="8:99"), log={"hits": 3})
    assert watch.verdict(VAIN) == "OK"


def test_a_start_that_nobody_could_judge_is_not_held_against_a_set_aside_for_ever() -> None:
    watch = collapsed()
    lies = watch.facts["cache"]["places"][0]
    start = watch.now + 45.0
    watch.runs(B, {**lies, "cut": "late", "aside": aside("q.stale", start - 10.0)}, start=start)
    assert watch.verdict(VAIN) == "thin"
    assert watch.runs(B, {**lies, "aside": aside("q.stale", start - 10.0)}).verdict(VAIN) == "OK"


def test_a_watch_that_came_later_lays_a_copy_to_a_start_only_where_older_files_show_it() -> None:
    start = T0 - 100.0
    copies = aside("q.stale", start - 50.0)
    older, newer = (
        entry(oldest=start - 60.0, newest=start - 55.0),
        entry(oldest=start - 40.0, newest=start - 30.0),
    )
    assert Watch().told(start, A, place(older, aside=copies)).verdict(VAIN) == "WARNING"
    assert Watch().told(start, A, place(newer, aside=copies)).verdict(VAIN) == "OK"


def test_kernels_that_requests_had_compiled_do_not_make_a_warm_start_doubtful() -> None:
    watch = pretended()
    start = watch.state.now.start  # type: ignore[union-attr]
    lies = watch.facts["cache"]["places"][0]
    lies["entries"][0]["newest"] = start + 4000.0
    watch.now += 4000.0
    assert watch.told(start, B, lies).verdict(VAIN) == "WARNING"


def test_a_directory_that_was_replaced_by_a_copy_with_older_files_is_none() -> None:
    watch = collapsed()
    lies = watch.facts["cache"]["places"][0]
    assert watch.runs(B, {**lies, "id": "8:99"}).verdict(VAIN) == "OK"
    assert watch.verdict() == "thin"


def test_a_start_as_long_as_the_cold_floor_confirms_a_set_aside_where_files_cannot() -> None:
    watch = Watch(profile=Profile(cold_start=594.0, warm_start=320.0))
    filled(watch, A)
    start = watch.now + 45.0
    watch.runs(A, place(identity="8:99", cut="late"), start=start, took=600.0)
    assert watch.outline["starts"][-1]["verdict"] == "cold"
    assert watch.verdict(VAIN) == "OK"
    assert watch.outline["floors"] == {"cold": 594.0, "warm": 320.0, "by": "declared"}


# --- what is kept --------------------------------------------------------------------------------


def test_a_round_in_which_nothing_changed_keeps_the_very_state() -> None:
    watch = collapsed()
    before = watch.state
    start = before.now.start  # type: ignore[union-attr]
    for _ in range(5):
        watch.round(start)
    assert watch.state is before


def test_how_long_a_start_took_is_known_where_the_watch_was_there() -> None:
    watch = Watch()
    filled(watch, A)
    [one] = watch.outline["starts"]
    assert one["up_seconds"] == pytest.approx(90.0, abs=15.0)


def test_a_watch_that_came_later_does_not_know_how_long_it_took() -> None:
    [one] = Watch().told(T0 - 100.0, A, place(entry(oldest=OLD))).outline["starts"]
    assert one["up_seconds"] is None


def test_a_watch_that_was_away_while_it_started_does_not_know_either() -> None:
    watch = Watch()
    filled(watch, A)
    watch.silent(40.0)
    start = watch.now + 5.0
    watch.now += 3600.0
    watch.told(start, A, place(entry(oldest=OLD)))
    assert watch.outline["starts"][-1]["up_seconds"] is None


def test_floors_are_learned_from_starts_that_files_or_log_tell_of() -> None:
    watch = Watch()
    lies = filled(watch, A)
    watch.runs(A, lies, took=30.0)
    floors = watch.outline["floors"]
    assert floors["by"] == "learned"
    assert floors["warm"] < floors["cold"]


def test_what_is_kept_stays_small_however_many_launches_there_are() -> None:
    watch = Watch()
    lies = filled(watch, A)
    for n in range(20):
        env = {f"VLLM_{n}_{i}": "x" * 100 for i in range(60)}
        watch.runs(launch(n + 4, env=env), {**lies, "id": f"8:{n}"})
    size = len(json.dumps(plain(watch.state)))
    assert size < 120_000
    assert watch.again().round(watch.state.now.start).found  # type: ignore[union-attr]


def test_a_directory_that_is_gone_has_no_launches_of_its_own() -> None:
    watch = Watch()
    filled(watch, A)
    watch.runs(A, place(identity="", id=None, missing=True))
    assert watch.place["fills"] == []
    assert watch.verdict() == "thin"


def test_files_of_an_impossible_time_are_told_all_the_same() -> None:
    watch = Watch().told(T0 - 100.0, A, place(entry(oldest=-1e14, newest=-1e13)))
    assert "a time that is none" in watch.text
    assert watch.again().round(T0 - 100.0).verdict() == "thin"


def test_the_outline_tells_all_that_a_command_shows() -> None:
    watch = collapsed()
    told = watch.outline
    assert told["now"]["digest"] == print_of(B).digest
    assert [fill["compiled"] for fill in watch.place["fills"]] == [True, False]
    assert "3 -> 7" in watch.place["fills"][0]["changed"]
    assert watch.place["verdict"] == "stale"
    assert told["starts"][-1]["verdict"] == "warm"
    assert "3 -> 7" in told["starts"][-1]["changed"]
    assert {sign["name"] for sign in told["starts"][-1]["signs"]} == {"log", "artifacts", "time"}
    json.dumps(told)


# --- any sequence of launches --------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]), st.sampled_from([3, 7]),
        st.sampled_from(["", "", "", "cut", "wipe", "aside", "late kernels", "daemon"]),
    ),
    min_size=1, max_size=9,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_no_launch_on_its_own_files_is_stale_and_none_on_those_of_another_is_safe(
    steps: list[tuple[str, int, str]],
) -> None:
    """vLLM's key sees the image and misses the depth; every start is watched."""
    watch, inode = Watch(), 77
    lies: dict[str, tuple[dict[str, Any], int]] = {}  # by image: the files, and who compiled them
    for image, depth, what in steps:
        if what in ("wipe", "aside"):
            lies, inode = {}, inode + (what == "aside")
        if what == "daemon":
            watch.again()
        watch.now += 600.0
        start = watch.now + 45.0
        own = image not in lies
        if own:
            lies[image] = (entry(oldest=start + 20, name=10 * image), depth)
        if what == "late kernels":
            lies[image][0]["newest"] = start + 50
        seen = place(*(one for one, _ in lies.values()), identity=f"8:{inode}",
                     cut="late" if what == "cut" else "")  # fmt: skip
        watch.runs(launch(depth, image=f"sha256:{image}"), seen, start=start)
        if lies[image][1] == depth:
            assert watch.verdict() != "WARNING", watch.text
        else:
            assert watch.verdict() != "OK", watch.text
        if own and what != "cut":
            assert watch.verdict() == "OK", watch.text


def test_the_outline_tells_what_vllm_noted_of_each_key_directory() -> None:
    """Its own digests of configuration and compiler, with versions; a start that died left one."""
    noted = {
        "config_hash": "0123456789abcdef", "compiler_hash": "fedcba9876543210", "env": "aa" * 8,
        "versions": {"cuda": "12.8"}, "mixed": True,
    }  # fmt: skip
    watch = Watch()
    ranks = ("rank_0_0/backbone", "rank_1_0/backbone", "rank_0_0/eagle_head")
    told = {**entry(oldest=T0 - 90 * DAY), "parts": list(ranks), "factors": noted}
    watch.runs(A, place(told, entry(oldest=T0 - 95 * DAY, name="0123456789")))
    [row] = watch.outline["places"]
    assert [one["config"] for one in row["made"]] == [
        "config 0123456789, compiler fedcba9876, variables aaaaaaaaaa, cuda 12.8, "
        "not all of one configuration",
        "",
    ]
    assert row["made"][0]["parts"] == ["backbone", "eagle_head"]
    assert row["made"][1]["oldest"] == T0 - 95 * DAY
