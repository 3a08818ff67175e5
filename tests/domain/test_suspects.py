"""Each cause of a bad drafter: what speaks for it, what rules it out, and with which numbers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.domain.suspected import (
    DAY,
    ENGINE,
    HOUR,
    NOW,
    ONSET,
    RELAUNCHED,
    STARTED,
    WATCHED,
    argv,
    bad,
    case,
    healthy,
    launched,
    other,
    with_events,
)
from watchdog.checks import CHECKS
from watchdog.domain import series as s
from watchdog.domain.acceptance_words import SET_ASIDE, SUSPECTS
from watchdog.domain.alert import PATIENCE
from watchdog.domain.changes import GAP, RESTART, Event
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.proven import Proven
from watchdog.domain.suspect import Case, Judged, Ruled, Suspect
from watchdog.domain.suspects import MOST_RULED_OUT, MOST_SUSPECTS, RULES, ranked
from watchdog.domain.suspects_cache import cache
from watchdog.domain.suspects_drafter import (
    corrupted,
    counted_twice,
    mispaired,
    synthetic,
    too_deep,
)
from watchdog.domain.suspects_launch import another_launch, speculation_lost
from watchdog.domain.suspects_steps import fast_path, switches
from watchdog.domain.suspects_traffic import long_contexts, prefix_hits

LOW = ("SpecDecodeDegraded", "baseline", Verdict.WARNING)


def told(one: Judged) -> tuple[str, str]:
    """`suspect`, `ruled out` or `silent`, and the sentence."""
    if one is None:
        return "silent", ""
    return ("suspect" if isinstance(one, Suspect) else "ruled out"), one.line


def stale(summary: str = "image a -> b", alertname: str = "CompileCacheStale") -> Finding:
    return other(alertname, Verdict.WARNING, check="compile_cache", summary=summary)


# --- the compile cache ---------------------------------------------------------------------------


def test_an_alert_about_the_cache_that_stands_is_the_first_suspect_with_its_words() -> None:
    kind, line = told(cache(case(None, stale(), facts=CACHE)))
    assert kind == "suspect"
    assert "CompileCacheStale stands: image a -> b; predicts that a start which compiles" in line
    assert "decided by a cold start of the same launch (`watchdog cache confirm qwen`)" in line
    unseen = told(cache(case(None, stale())))[1]
    assert "decided by a start of the same launch with its cache moved aside, then the" in unseen


def test_an_ineffective_set_aside_is_told_before_a_stale_cache() -> None:
    vain = stale("the start was warm", "CompileCacheInvalidationIneffective")
    assert "Ineffective stands: the start was warm" in told(cache(case(None, stale(), vain)))[1]


def test_a_cache_that_the_ledger_calls_safe_is_ruled_out() -> None:
    safe = other("CompileCacheStale", summary="it compiled for itself")
    kind, line = told(cache(case(None, safe, changes=with_events(STARTED, RELAUNCHED))))
    assert (kind, line) == (
        "ruled out",
        "a compile cache of an older launch: it compiled for itself",
    )
    unknown = other("CompileCacheStale", conclusive=False)
    assert told(cache(case(None, unknown, changes=with_events(STARTED))))[0] == "suspect"


AGAIN = Event(ONSET[1] + 400, ONSET[1] + 360, RESTART, "restarted")


@pytest.mark.parametrize(
    ("first", "drafts", "kind"),
    [(0.0, 0.0, "suspect"), (60.0, 99.0, "suspect"), (60.0, 100.0, "suspect"),
     (6.0, 99.0, "suspect"), (6.0, 100.0, "ruled out")],
    ids=["no drafts", "few and well", "well", "few", "dead again"],
)  # fmt: skip
def test_a_cache_that_is_safe_since_a_later_start_is_cleared_only_by_drafts_that_are_dead_again(
    first: float, drafts: float, kind: str
) -> None:
    safe = other("CompileCacheStale", summary="this start compiled it for itself")
    levels = {s.DRAFTS: drafts, s.POSITIONS[0]: first}
    one = case(None, safe, changes=with_events(STARTED, AGAIN), levels=levels)
    assert told(cache(one))[0] == kind
    step = argued(one).next_step
    assert step.startswith("send the server" if kind == "suspect" else "start it with the model")


def test_while_nothing_is_known_since_a_later_start_its_drafts_decide() -> None:
    one = case(changes=with_events(STARTED, AGAIN), levels={s.DRAFTS: 10.0})
    assert argued(one).next_step.startswith("send the server some requests")
    stale = other("CompileCacheStale", Verdict.WARNING)
    one = case(None, stale, changes=with_events(STARTED, AGAIN), levels={s.DRAFTS: 10.0})
    assert "moved aside" in argued(one).next_step


def test_a_pair_that_is_dead_after_a_cold_start_is_decided_by_the_former_pair() -> None:
    safe = other("CompileCacheStale", summary="this start compiled it for itself")
    for first, decides in ((2.0, "a start with the former model"), (60.0, "the acceptance length")):
        levels = {s.DRAFTS: 100.0, s.POSITIONS[0]: first}
        kind, line = told(
            mispaired(case(None, safe, changes=with_events(STARTED, AGAIN), levels=levels))
        )
        assert (kind, f"decided by {decides}" in line) == ("suspect", True)


def test_where_drafts_come_from_a_store_of_its_own_a_restart_clears_nothing() -> None:
    levels = {s.DRAFTS: 100.0, s.POSITIONS[0]: 2.0}
    words = [*argv(), "--kv-transfer-config", '{"kv_connector": "LMCacheConnectorV1"}']
    for facts, kind in ((launched(), "ruled out"), (launched(words), "silent")):
        one = case(None, changes=with_events(STARTED, AGAIN), levels=levels, facts=facts)
        assert told(corrupted(one))[0] == kind


@pytest.mark.parametrize(("now", "kind"), [(960.0, "suspect"), (950.0, "ruled out")])
def test_without_a_start_a_cache_is_only_suspected_where_traffic_moved(
    now: float, kind: str
) -> None:
    """Kernels of other shapes are loaded when they are first used."""
    one = case(bad(traffic={"prompt_tokens": [800.0, now]}))
    assert told(cache(one))[0] == kind


def test_one_that_began_while_the_process_ran_on_has_loaded_no_cache() -> None:
    line = told(cache(case(start=ONSET[0] - 2 * DAY)))
    assert line == (
        "ruled out", "a compile cache of an older launch: its graphs are loaded at a start, and it "
        "began without one, 2.0 days after it",
    )  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        WATCHED._replace(since=((RESTART, ONSET[0] + 1),)),
        WATCHED._replace(since=()),
        WATCHED._replace(lost=((RESTART, ONSET[1] - 1),)),
        with_events(Event(ONSET[0] + 60, ONSET[0], GAP, "nothing was read")),
        with_events(STARTED),
        with_events(STARTED._replace(at=ONSET[0] - 300.0)),
    ],
    ids=["watched since", "never watched", "lost", "gap", "restart", "restart shortly before"],
)
def test_where_a_start_may_have_been_the_cache_is_not_ruled_out(changes: Any) -> None:
    assert told(cache(case(changes=changes)))[0] == "suspect"


def test_a_restart_long_before_is_none_near_the_onset() -> None:
    before = with_events(STARTED._replace(at=ONSET[0] - 301.0, after=ONSET[0] - 400.0))
    assert told(cache(case(changes=before)))[0] == "ruled out"


PLACE = {"kind": "vllm", "path": "/c/qwen", "by": "VLLM_CACHE_ROOT", "files": 540,
         "newest": NOW - 12 * DAY}  # fmt: skip
CACHE = {"cache": {"start": NOW - 5 * HOUR, "places": [PLACE]}}


def test_a_launch_that_changed_beside_a_cache_that_did_not_is_likelier_than_either() -> None:
    both = cache(case(changes=with_events(STARTED, RELAUNCHED), facts=CACHE))
    alone = cache(case(changes=with_events(STARTED, RELAUNCHED)))
    restarted = cache(case(changes=with_events(STARTED)))
    unknown = cache(case(changes=WATCHED._replace(since=())))
    ranks = [one.rank for one in (both, alone, restarted, unknown) if isinstance(one, Suspect)]
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == 4
    assert (
        "the launch changed near its onset (image, model, drafter, env) and its cache did not: "
        "/c/qwen, whose newest of 540 files was compiled 11.8 days before this start"
    ) in told(both)[1]


def test_a_cache_with_files_of_this_start_is_not_called_unchanged() -> None:
    new = {"cache": {"start": NOW - 5 * HOUR, "places": [{**PLACE, "newest": NOW - 4 * HOUR}]}}
    line = told(cache(case(changes=with_events(STARTED, RELAUNCHED), facts=new)))[1]
    assert "did not" not in line


@pytest.mark.parametrize(("drafted", "said"), [(5.24, True), (5.26, False)])
def test_drafts_of_another_depth_than_the_launch_asks_for_speak_for_it(
    drafted: float, said: bool
) -> None:
    found = bad(draft_tokens_per_draft=drafted)
    line = told(cache(case(found, changes=with_events(STARTED), facts=launched())))[1]
    assert (f"drafts are {drafted:.2f} tokens deep where this launch asks for 7" in line) is said


# --- the drafter ---------------------------------------------------------------------------------


def test_a_pair_that_drafted_well_before_is_no_mispaired_drafter() -> None:
    facts = launched()
    kind, line = told(mispaired(case(facts=facts, proven=healthy(facts))))
    assert kind == "ruled out"
    assert line.startswith(
        "mispaired drafter: the same pair gave acceptance length 3.77 6.0 days ago"
    )
    assert "model /m/27b, drafter /m/dflash" in line


def test_the_same_pair_under_another_image_and_depth_is_the_same_pair() -> None:
    before = launched(argv(num_speculative_tokens=3), image="sha256:old")
    now = launched(image="sha256:new", environ={"RADIANCE_X": "1"})
    assert told(mispaired(case(facts=now, proven=healthy(before))))[0] == "ruled out"


@pytest.mark.parametrize(
    ("now", "named"),
    [
        (launched(argv(drafter="/m/dflash2")), "drafter /m/dflash -> /m/dflash2"),
        (launched(argv(model="/m/28b")), "model /m/27b -> /m/28b"),
        (launched(files="2" * 8), "model files 11111111 -> 22222222"),
        (launched(argv(method="eagle3")), "speculative-config method dflash -> eagle3"),
    ],
    ids=["drafter", "model", "same paths, other files", "method"],
)
def test_a_pair_that_is_another_than_the_healthy_one_is_suspected_by_what_changed(
    now: Any, named: str
) -> None:
    kind, line = told(mispaired(case(facts=now, proven=healthy(launched()))))
    assert kind == "suspect"
    assert "not ruled out, since this pair was never seen healthy here" in line
    assert "length 3.77 6.0 days ago" in line
    assert named in line


def test_an_older_launch_of_the_same_pair_counts_more_than_a_later_one_of_another() -> None:
    old, late = healthy(launched()).seen, healthy(launched(argv(drafter="/z")), 3.5, days=1).seen
    line = told(mispaired(case(facts=launched(), proven=Proven((*old, *late)))))
    assert line[0] == "ruled out"
    assert "3.77 6.0 days ago" in line[1]


def test_paths_alike_with_files_unread_prove_no_sameness() -> None:
    unread = {"drafter files": "permission denied"}
    facts = launched(unread=unread, models={"model": launched()["launch"]["models"]["model"]})
    kind, line = told(mispaired(case(facts=facts, proven=healthy(launched()))))
    assert kind == "suspect"
    assert "against it: what is known of model and drafter gave length 3.77" in line
    assert "not known: drafter files" in line


def test_a_process_that_drafted_well_has_the_weights_it_had() -> None:
    """Nothing is known of its launch."""
    proven = healthy({}, start=77.0)
    kind, line = told(mispaired(case(proven=proven, start=77.0)))
    assert (kind, "this very process" in line, "3.77" in line) == ("ruled out", True, True)
    assert told(mispaired(case(proven=proven, start=78.0)))[0] == "suspect"
    assert told(mispaired(case(proven=healthy({}), start=None)))[0] == "suspect"


@pytest.mark.parametrize(
    ("generated", "kind"),
    [(200.0, "ruled out"), (262.0, "ruled out"), (263.0, "silent"), (158.0, "ruled out"),
     (157.0, "silent"), (115.0, "suspect"), (116.0, "silent"), (98.5, "silent")],
)  # fmt: skip
def test_two_drafters_would_count_twice_as_many_as_are_generated(
    generated: float, kind: str
) -> None:
    assert told(counted_twice(case(bad(generated_tokens=generated))))[0] == kind


def test_the_incidents_own_sum_is_one_drafter() -> None:
    assert told(counted_twice(case()))[1] == (
        "two drafters that count twice: 170 drafts + 27 accepted = 197 of 200 generated tokens: "
        "one drafter; two would give about twice as many"
    )


def test_padded_drafts_are_no_second_drafter() -> None:
    padded = bad(drafts=340.0, padded_drafts=170.0)
    assert told(counted_twice(case(padded)))[0] == "ruled out"


def test_what_began_while_the_process_ran_may_be_its_state_and_a_restart_decides() -> None:
    kind, line = told(corrupted(case(start=ONSET[0] - 3 * DAY)))
    assert kind == "suspect"
    assert "it began while the process ran, 3.0 days after the start" in line
    assert "predicts that a restart alone heals it" in line


@pytest.mark.parametrize(
    ("first", "drafts", "after", "kind"),
    [(67.0, 1000.0, 301.0, "ruled out"), (209.0, 1000.0, 301.0, "ruled out"),
     (210.0, 1000.0, 301.0, "suspect"), (6.0, 99.0, 301.0, "suspect"),
     (67.0, 1000.0, 299.0, "suspect")],
    ids=["dead", "nearly dead", "alive", "too few drafts", "the restart that began it"],
)  # fmt: skip
def test_one_that_stays_dead_over_a_restart_has_no_corrupted_state(
    first: float, drafts: float, after: float, kind: str
) -> None:
    again = Event(ONSET[1] + after + 60, ONSET[1] + after, RESTART, "restarted")
    levels = {s.DRAFTS: drafts, s.POSITIONS[0]: first}
    answer = told(corrupted(case(changes=with_events(again), levels=levels)))
    assert answer[0] == kind
    if kind == "ruled out" and first == 67.0:
        assert (
            "a restart did not heal it: position 0 accepts 6.7 % of 1,000 drafts since" in answer[1]
        )


def test_synthetic_acceptance_is_seen_in_the_command_line() -> None:
    made_up = argv(rejection_sample_method="synthetic", synthetic_acceptance_rate=0.7)
    kind, line = told(synthetic(case(facts=launched(made_up))))
    assert kind == "suspect"
    assert "rejection_sample_method synthetic, synthetic_acceptance_rate 0.7" in line
    strict = argv(rejection_sample_method="standard")
    assert told(synthetic(case(facts=launched(strict))))[0] == "ruled out"
    assert told(synthetic(case(facts=launched())))[0] == "ruled out"
    assert told(synthetic(case()))[0] == "silent"
    unread = launched(unread={"argv": "permission denied"})
    assert told(synthetic(case(facts=unread)))[0] == "silent"


def test_too_deep_drafts_are_told_by_the_positions_that_gain_nothing() -> None:
    deep = bad(*LOW, positions=[0.7, 0.4, 0.2, 0.01, 0.0])
    kind, line = told(too_deep(case(deep)))
    assert (kind, "a start with num_speculative_tokens 3" in line) == ("suspect", True)
    assert told(too_deep(case(bad(*LOW, positions=[0.7, 0.4, 0.2, 0.1, 0.08]))))[0] == "silent"
    assert told(too_deep(case()))[0] == "ruled out"  # a dead position 0 is not a matter of depth


# --- the kernels ---------------------------------------------------------------------------------

ENVIRON = {"RADIANCE_MXFP4": "1", "RADIANCE_USE_R4D": "1", "RADIANCE_OFF": "0",
           "RADIANCE_VERSION": "0.6.2", "RADIANCE_AUTH": "1",
           "HIP_VISIBLE_DEVICES": "0,1"}  # fmt: skip


def test_switches_are_those_of_the_process_and_a_list_cut_short_says_so() -> None:
    known = switches(launched(environ=ENVIRON))
    assert known.on == ("RADIANCE_MXFP4=1", "RADIANCE_USE_R4D=1")
    assert known.off == ("RADIANCE_OFF=0",)
    many = switches(launched(environ={f"RADIANCE_S{i:02}": "1" for i in range(11)}))
    assert many.words.startswith("11 set in the process: RADIANCE_S00=1")
    assert many.words.endswith("RADIANCE_S07=1 and 3 more")


@pytest.mark.parametrize(
    "name", ["HIP_VISIBLE_DEVICES", "HIP_LAUNCH_BLOCKING", "TRITON_INTERPRET", "HSA_ENABLE_DEBUG"]
)
def test_what_chooses_a_card_or_makes_steps_slower_is_no_fast_path(name: str) -> None:
    for value in ("0", "1"):
        known = switches(launched(environ={name: value}))
        assert (known.on, known.off) == ((), ())
        assert told(fast_path(case(facts=launched(environ={name: value}))))[0] == "silent"


def test_a_fast_path_is_ruled_out_of_a_dead_drafter_by_its_switches_and_the_step_time() -> None:
    facts = launched(environ=ENVIRON)
    steps = other("ServingStepsSlow", about=ENGINE, step_seconds=0.0392, usual_step_seconds=0.0391)
    kind, line = told(fast_path(case(None, steps, facts=facts)))
    assert kind == "ruled out"
    assert "2 set in the process: RADIANCE_MXFP4=1, RADIANCE_USE_R4D=1" in line
    assert "a decode step takes 39.2 ms, usually 39.1 ms" in line


@pytest.mark.parametrize(("before", "said"), [(0.0313, True), (0.0311, False)])
def test_steps_are_compared_with_the_healthy_days_where_none_are_learned(
    before: float, said: bool
) -> None:
    facts = launched(environ=ENVIRON)
    line = told(fast_path(case(facts=facts, proven=healthy(facts, step=before))))[1]
    assert ("ms when it was healthy" in line) is said


def test_an_environment_that_was_not_read_rules_nothing_out() -> None:
    dark = launched(unread={"environ": "permission denied"})
    dark["launch"]["environ"] = None
    assert told(fast_path(case(facts=dark)))[0] == "silent"
    assert told(fast_path(case()))[0] == "silent"
    assert "permission denied" in switches(dark).words
    steps = other("ServingStepsSlow", about=ENGINE, step_seconds=0.03, usual_step_seconds=0.03)
    kind, line = told(fast_path(case(None, steps, facts=dark)))
    assert kind == "ruled out"  # by the step time alone
    assert "the process's environment is not known (permission denied); a decode step takes" in line


def test_slow_steps_suspect_the_switches_and_a_drafter_beside_them_rules_nothing_out() -> None:
    facts = launched(environ=ENVIRON)
    slow = bad("ServingStepsSlow", "step_time", Verdict.WARNING)
    kind, line = told(fast_path(case(slow, facts=facts)))
    assert kind == "suspect"
    assert "off: RADIANCE_OFF=0" in line
    assert "predicts slower steps with drafts accepted as before" in line
    beside = other("ServingStepsSlow", Verdict.WARNING, about=ENGINE)
    assert told(fast_path(case(None, beside, facts=facts)))[0] == "silent"


# --- the traffic ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pair", "kind"),
    [([0.10, 0.26], "suspect"), ([0.10, 0.24], "ruled out"), ([0.72, 0.0], "ruled out")],
)
def test_prefix_cache_hits_are_suspected_where_they_rose(pair: list[float], kind: str) -> None:
    found = bad(*LOW, traffic={"prefix_hit_ratio": pair})
    assert told(prefix_hits(case(found)))[0] == kind


@pytest.mark.parametrize(("now", "kind"), [(0.049, "ruled out"), (0.05, "silent")])
def test_hits_as_before_rule_nothing_out_of_what_began_with_a_start(now: float, kind: str) -> None:
    """It may be another version, which restores them wrongly."""
    found = bad(*LOW, traffic={"prefix_hit_ratio": [now, now]})
    assert told(prefix_hits(case(found, changes=with_events(STARTED))))[0] == kind


def test_no_hit_says_nothing_of_a_process_that_is_gone_or_of_few_prompts() -> None:
    levels = {s.PREFIX_QUERIES: 1000.0, s.PREFIX_HITS: 0.0}
    assert told(prefix_hits(case(levels=levels)))[0] == "ruled out"
    again = with_events(STARTED, AGAIN)
    assert told(prefix_hits(case(levels=levels, changes=again)))[0] == "silent"
    levels[s.PREFIX_QUERIES] = 999.0
    assert told(prefix_hits(case(levels=levels)))[0] == "silent"


def test_a_cache_of_prefixes_without_a_hit_restored_nothing() -> None:
    levels = {s.PREFIX_QUERIES: 120_000.0, s.PREFIX_HITS: 0.0}
    assert told(prefix_hits(case(levels=levels))) == (
        "ruled out", "prefix-cache hits: 0 of 120,000 prompt tokens since the start",
    )  # fmt: skip
    assert told(prefix_hits(case()))[0] == "silent"


@pytest.mark.parametrize(
    ("pair", "kind"),
    [([2000.0, 4000.0], "suspect"), ([2000.0, 3999.0], "silent"), ([2700.0, 4000.0], "silent")],
)
def test_long_contexts_are_suspected_where_prompts_grew_long(pair: list[float], kind: str) -> None:
    assert told(long_contexts(case(bad(*LOW, traffic={"prompt_tokens": pair}))))[0] == kind


@pytest.mark.parametrize(
    ("requests", "tokens", "kind"),
    [(10.0, 20_000.0, "ruled out"), (10.0, 20_001.0, "silent"), (9.0, 900.0, "silent")],
)
def test_short_prompts_rule_long_contexts_out(requests: float, tokens: float, kind: str) -> None:
    levels = {s.FIRST_TOKENS: requests, s.PROMPT_TOKENS: tokens}
    since = with_events(STARTED)
    assert told(long_contexts(case(levels=levels, changes=since)))[0] == kind
    for other_time in (WATCHED, with_events(STARTED, AGAIN)):  # weeks before it, or after it
        assert told(long_contexts(case(levels=levels, changes=other_time)))[0] == "silent"


# --- the launch ----------------------------------------------------------------------------------


def test_a_process_whose_command_line_has_no_speculation_lost_it() -> None:
    quiet = bad("SpecDecodeNotDrafting", "drafting")
    assert (
        told(speculation_lost(case(quiet, facts=launched(["vllm", "serve", "/m"]))))[0] == "suspect"
    )
    kind, line = told(speculation_lost(case(quiet, facts=launched())))
    assert (kind, "method dflash, num_speculative_tokens 7" in line) == ("ruled out", True)
    unread = launched(unread={"argv": "permission denied"})
    assert told(speculation_lost(case(quiet, facts=unread)))[0] == "silent"


def test_without_a_restart_there_is_no_new_version() -> None:
    assert told(another_launch(case()))[0] == "ruled out"
    assert told(another_launch(case(changes=with_events(STARTED))))[0] == "silent"


# --- all together --------------------------------------------------------------------------------


def argued(one: Case, **own: Any) -> Argument:
    said = Argument("is bad", suspects=SUSPECTS, next_step=SET_ASIDE, evidence=one.said.evidence)
    return ranked(Argument(**{**vars(said), **own}), one)


def test_a_stale_cache_goes_before_what_changed_and_what_changed_before_the_rest() -> None:
    one = case(None, stale(), changes=with_events(STARTED, RELAUNCHED))
    said = ranked(Argument("is bad", suspects=("GpuLinkDegraded stands too: x1", *SUSPECTS)), one,
                  ("changed near its onset",), ("a change that was not seen",))  # fmt: skip
    starts = [line.split(":")[0] for line in said.suspects]
    assert starts == [
        "a compile cache of an older launch", "changed near its onset",
        "GpuLinkDegraded stands too", "mispaired drafter", "a change that was not seen",
    ]  # fmt: skip


def test_with_nothing_known_the_order_is_that_of_experience_and_each_line_decides() -> None:
    said = argued(case(changes=WATCHED._replace(since=())))
    assert [line.split(":")[0] for line in said.suspects] == [
        "a compile cache of an older launch", "mispaired drafter",
        "draft state corrupted at run time (prefix cache or KV transfer)", SUSPECTS[3],
    ]  # fmt: skip
    assert all("decided by" in line for line in said.suspects[:3])
    assert said.next_step == SET_ASIDE


def test_no_cause_is_told_twice() -> None:
    facts = launched()
    said = argued(case(facts=facts, proven=healthy(facts)))
    lines = " ".join(said.suspects)
    assert "drafter weights that do not fit" not in lines
    assert "compile cache" not in lines
    assert sum("mispaired" in line for line in said.ruled_out) == 1


def test_a_reader_at_night_gets_few_lines() -> None:
    facts = launched(argv(rejection_sample_method="synthetic"), environ=ENVIRON)
    levels = {s.PREFIX_QUERIES: 1e5, s.PREFIX_HITS: 0.0, s.FIRST_TOKENS: 50.0, s.PROMPT_TOKENS: 5e3}
    own = tuple(f"own {i}" for i in range(5))
    one = case(None, stale(), facts=facts, proven=healthy(facts), levels=levels)
    said = ranked(Argument("is bad", suspects=SUSPECTS, ruled_out=own), one, ("a", "b"), ("last",))
    assert len(said.suspects) == MOST_SUSPECTS
    assert said.suspects[-1] == "last"
    assert len(said.ruled_out) == MOST_RULED_OUT
    assert said.ruled_out[:5] == own
    assert [line.split(":")[0] for line in said.ruled_out[5:]] == [
        "mispaired drafter", "a fast path that is off", "two drafters that count twice",
    ]  # fmt: skip


def test_what_a_check_ruled_out_itself_is_never_cut() -> None:
    own = tuple(f"own {i}" for i in range(12))
    assert ranked(Argument("is bad", ruled_out=own), case()).ruled_out[:12] == own


@pytest.mark.parametrize("rule", sorted(RULES))
def test_no_rule_breaks_on_facts_and_evidence_of_another_shape(rule: tuple[str, str]) -> None:
    """A recording's facts and the evidence that a store kept may be anything."""
    odd: list[Any] = [None, "x", -1, float("nan"), True, [], {}, [None], {"places": 7}, {"a": [1]}]
    for value in odd:
        evidence = dict.fromkeys((*bad().argument.evidence, "traffic", "positions"), value)
        said = Argument("is bad", evidence=evidence, suspects=SUSPECTS)
        found = Finding(rule[0], ENGINE, Verdict.WARNING, lambda said=said: said, check=rule[1])  # type: ignore[misc]
        for facts in (
            {"launch": value, "launch_fingerprint": value, "cache": value},
            {"launch": {"environ": value, "unread": value, "root": value}},
            {"cache": {"places": [value, {"kind": "vllm", "path": value}], "start": value}},
        ):
            assert ranked(said, case(found, facts=facts)).summary == "is bad"


def test_a_ruled_out_cache_leads_to_a_plain_restart() -> None:
    assert argued(case()).next_step.startswith("restart the server as it is, its compile cache is")


def test_the_next_step_names_the_place() -> None:
    said = argued(case(changes=with_events(STARTED, RELAUNCHED), facts=CACHE))
    assert said.next_step == (
        "stop the server, run `watchdog cache set-aside --directory /c/qwen`, start the same "
        "launch, then run `watchdog cache confirm qwen` and `watchdog check`"
    )
    assert argued(case(), next_step="wait").next_step == "wait"


def test_rules_are_of_findings_that_exist() -> None:
    assert isinstance(cache(case()), (Suspect, Ruled))
    assert all(alert in PATIENCE and check in CHECKS for alert, check in RULES)
