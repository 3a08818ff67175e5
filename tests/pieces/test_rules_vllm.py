"""rules-vllm.yml under promtool: traffic of recorded pages, and each alert on both of its sides."""

from __future__ import annotations

import re

import pytest

from tests.pieces.promtool import WIRE, Vllm, check, firing, silent
from tests.serving import recorded

FILE = "rules-vllm.yml"
DEAD_SAYS = "gpu-1 tiny engine {}: the drafter is dead: {} of its first tokens accepted"


def increase(start: str, end: str) -> dict[str, float]:
    """What the counters of a real vLLM 0.32.0 grew by between two recorded pages."""
    return {key: _sample(end, name) - _sample(start, name) for key, name in WIRE.items()}


def _sample(page: str, name: str) -> float:
    position = r"[^}]*position=\"0\"" if name == WIRE["first"] else r"[^}]*"
    found = re.search(rf"^{name}\{{{position}\}} (\S+)$", recorded(page), re.MULTILINE)
    return float(found[1]) if found else 0.0


DEAD = increase("g_draft_other_broken_0_start", "g_draft_other_broken_1_after_greedy")
HEALTHY = increase("g_draft_same_healthy_0_start", "g_draft_same_healthy_1_after_greedy")
NGRAM = increase("b_ngram_fresh", "c_ngram_after_repetitive")
NGRAM_ON_RANDOM_TEXT = increase("c_ngram_after_repetitive", "d_ngram_after_random")
OFF = increase("g_spec_off_baseline_0_start", "g_spec_off_baseline_1_after_greedy")
IDLE: dict[str, float] = {}


def part(traffic, share):
    return {key: value * share for key, value in traffic.items()}


def dead(page: Vllm, at: int, percent: str = "0%"):
    said = DEAD_SAYS.format(page.labels["engine"], percent)
    return firing(FILE, "VllmDrafterDead", at, said, **page.labels)


# The dead drafter


def test_a_dead_drafter_is_told_and_healthy_drafts_end_it(tmp_path):
    page = Vllm().minutes(30, DEAD).minutes(20, HEALTHY)
    tests = [*silent("VllmDrafterDead", 4), dead(page, 12), dead(page, 31, "4.768%"),
             *silent("VllmDrafterDead", 42, 49)]  # fmt: skip
    check(tmp_path, FILE, page.series(), tests)


@pytest.mark.parametrize(
    "traffic",
    [HEALTHY, NGRAM, NGRAM_ON_RANDOM_TEXT, OFF, IDLE],
    ids=["healthy", "ngram", "ngram on random text", "off", "idle"],
)
def test_what_is_well_raises_nothing_at_all(tmp_path, traffic):
    page = Vllm(speculation=traffic is not OFF).minutes(30, traffic)
    names = ["DrafterDead", "NotDrafting", "Stalled", "Queueing", "Restarting", "Down", "Blind"]
    tests = [test for name in names for test in silent(f"Vllm{name}", 5, 15, 29)]
    check(tmp_path, FILE, page.series(), tests)


def test_a_healthy_past_does_not_hide_it_longer_than_the_window(tmp_path):
    page = Vllm().minutes(40, HEALTHY).minutes(20, DEAD)
    check(tmp_path, FILE, page.series(), [*silent("VllmDrafterDead", 40), dead(page, 57)])


def test_silence_ends_it_as_little_as_a_restart_does(tmp_path):
    page = Vllm().minutes(15, DEAD).minutes(40, IDLE).down(9).restart().minutes(16, IDLE)
    page.minutes(5, DEAD).minutes(15, HEALTHY)
    tests = [dead(page, at) for at in (15, 40, 54, 62, 79, 84)]
    check(tmp_path, FILE, page.series(), [*tests, *silent("VllmDrafterDead", 98)])


def test_a_handful_of_healthy_drafts_does_not_end_it(tmp_path):
    few = part(HEALTHY, 5 / HEALTHY["drafts"])
    page = Vllm().minutes(15, DEAD).minutes(12, IDLE).minutes(15, few)
    check(tmp_path, FILE, page.series(), [dead(page, at) for at in (15, 30, 41)])


def test_it_ends_where_speculation_is_switched_off(tmp_path):
    page = Vllm().minutes(20, DEAD).down(3).restart(speculation=False).minutes(15, OFF)
    tests = [dead(page, 22), *silent("VllmDrafterDead", 31, 37)]
    check(tmp_path, FILE, page.series(), tests)


def test_it_ends_where_nobody_scrapes_the_server_any_more(tmp_path):
    page = Vllm().minutes(20, DEAD).gone(20)
    check(tmp_path, FILE, page.series(), [dead(page, 20), *silent("VllmDrafterDead", 30)])


def test_a_model_that_another_replaced_ends_once_that_one_answered_for_an_hour(tmp_path):
    """The same server, under the same address: nothing of the dead drafter comes ever again."""
    old = Vllm().minutes(20, DEAD).down(70).unnamed(80)
    new = Vllm(model="other").gone(90).minutes(80, HEALTHY)
    tests = [*[dead(old, at) for at in (20, 92, 140)], *silent("VllmDrafterDead", 155, 169)]
    check(tmp_path, FILE, {**new.series(), **old.series()}, tests)


def test_an_engine_of_which_there_are_fewer_now_ends_after_an_hour(tmp_path):
    """Scaled from two to one; a scrape that fails now and then does not put it off."""
    one, gone = Vllm(), Vllm(engine="1").minutes(20, DEAD).gone(120)
    one.minutes(20, HEALTHY).down(3)
    for _ in range(4):
        one.minutes(25, HEALTHY).down(1)
    tests = [*[dead(gone, at) for at in (20, 50, 75)], *silent("VllmDrafterDead", 90, 120)]
    check(tmp_path, FILE, {**gone.series(), **one.series()}, tests)


def test_who_comes_back_was_not_gone(tmp_path):
    """Scrapes that fail, a restart, more than an hour down, and as long without vLLM's series."""
    page = Vllm().minutes(20, DEAD).down(10).minutes(55, IDLE)
    page.down(65).restart().minutes(3, IDLE).unnamed(65).minutes(3, IDLE)
    tests = [dead(page, at) for at in (20, *range(28, page.length, 8), page.length - 1)]
    check(tmp_path, FILE, page.series(), tests)


def test_one_dead_engine_of_two_is_told_by_its_number(tmp_path):
    one, two = Vllm().minutes(30, part(HEALTHY, 10)), Vllm(engine="1").minutes(30, DEAD)
    check(tmp_path, FILE, {**one.series(), **two.series()}, [dead(two, 25)])


def test_a_counter_without_total_is_read_as_well(tmp_path):
    old = {key: name.removesuffix("_total") for key, name in WIRE.items()}
    page = Vllm(wire=old).minutes(30, DEAD)
    check(tmp_path, FILE, page.series(), [dead(page, 25), *silent("VllmBlind", 25)])


def test_the_name_that_decode_updates_had_before_is_read_as_well(tmp_path):
    old = {
        key: name.replace("inter_token_latency", "time_per_output_token")
        for key, name in WIRE.items()
    }
    page = Vllm(wire=old).minutes(30, DEAD)
    check(tmp_path, FILE, page.series(), [dead(page, 25)])


@pytest.mark.parametrize(("drafts", "told"), [(45, False), (60, True)])
def test_fewer_than_500_drafts_in_10_minutes_say_nothing(tmp_path, drafts, told):
    few = {**part(DEAD, drafts / DEAD["drafts"]), "requests": 8}
    page = Vllm().minutes(30, few)
    tests = [dead(page, 28)] if told else silent("VllmDrafterDead", 15, 28)
    check(tmp_path, FILE, page.series(), tests)


@pytest.mark.parametrize(("requests", "told"), [(0.2, False), (0.4, True)])
def test_fewer_than_3_requests_in_10_minutes_say_nothing(tmp_path, requests, told):
    page = Vllm().minutes(30, {**DEAD, "requests": requests})
    tests = [dead(page, 28)] if told else silent("VllmDrafterDead", 15, 28)
    check(tmp_path, FILE, page.series(), tests)


@pytest.mark.parametrize(("percent", "told"), [(9, False), (7, True)])
def test_the_limit_is_8_percent_of_the_first_tokens(tmp_path, percent, told):
    accepted = DEAD["drafts"] * percent / 100
    traffic = {**DEAD, "first": accepted, "accepted": accepted}
    traffic["generated"] += accepted
    page = Vllm().minutes(30, traffic)
    tests = [dead(page, 25, "7%")] if told else silent("VllmDrafterDead", 15, 25)
    check(tmp_path, FILE, page.series(), tests)


@pytest.mark.parametrize(("coverage", "told"), [(0.4, False), (0.6, True)])
def test_whoever_drafts_only_sometimes_is_not_called_dead(tmp_path, coverage, told):
    """An n-gram drafter on text in which nothing repeats."""
    page = Vllm().minutes(30, {**DEAD, "drafts": DEAD["updates"] * coverage})
    tests = [dead(page, 25)] if told else silent("VllmDrafterDead", 15, 25)
    check(tmp_path, FILE, page.series(), tests)


@pytest.mark.parametrize(
    "differs",
    [
        # vllm-ascend #13665: 99 requests on a decode node, each with one padded draft of 5 tokens
        {"drafts": 99, "draft_tokens": 495, "requests": 99, "updates": 3, "generated": 102},
        # a grammar threw all draft tokens away
        {"draft_tokens": 0},
        # more tokens came than the counters of speculation know of
        {"generated": DEAD["updates"] * 3},
    ],
    ids=["padded first steps", "grammar", "witness"],
)
def test_what_only_looks_like_a_dead_drafter_raises_nothing(tmp_path, differs):
    page = Vllm().minutes(30, {**DEAD, **differs})
    check(tmp_path, FILE, page.series(), silent("VllmDrafterDead", 15, 20, 25))


def test_padded_first_steps_do_not_make_a_healthy_drafter_dead(tmp_path):
    padded = {**part(HEALTHY, 0.1), "requests": 2000, "generated": 640 + 2000}
    padded |= {"drafts": padded["drafts"] + 2000, "draft_tokens": padded["draft_tokens"] + 8000}
    page = Vllm().minutes(30, padded)
    check(tmp_path, FILE, page.series(), silent("VllmDrafterDead", 15, 20, 25))


def test_a_restart_in_the_window_is_counted_as_one(tmp_path):
    page = Vllm().minutes(15, HEALTHY).restart().minutes(15, HEALTHY)
    check(tmp_path, FILE, page.series(), silent("VllmDrafterDead", 15, 16, 18, 22, 29))


# The others


def test_drafts_that_stand_still_while_tokens_come_are_told(tmp_path):
    page = Vllm().minutes(15, HEALTHY).minutes(30, OFF)
    said = "gpu-1 tiny engine 0: speculation is configured, and nothing is drafted"
    tests = [*silent("VllmNotDrafting", 20, 30),
             firing(FILE, "VllmNotDrafting", 40, said, **page.labels)]  # fmt: skip
    check(tmp_path, FILE, page.series(), tests)


@pytest.mark.parametrize(
    "page",
    [Vllm(speculation=False).minutes(60, OFF), Vllm().minutes(60, part(OFF, 0.01)),
     Vllm().minutes(60, {**OFF, "drafts": 1})],
    ids=["no speculation", "few updates", "seldom"],
)  # fmt: skip
def test_nothing_is_missed_where_no_draft_is_due(tmp_path, page):
    check(tmp_path, FILE, page.series(), silent("VllmNotDrafting", 20, 40, 59))


def test_series_of_speculation_at_0_are_no_sign_of_it(tmp_path):
    """The Rust front end has them all but those of positions, with speculation off as well."""
    wire = {key: name for key, name in WIRE.items() if key != "first"}
    page = Vllm(wire=wire).minutes(60, OFF)
    check(tmp_path, FILE, page.series(), silent("VllmNotDrafting", 20, 40, 59))


STUCK = {"running": 1, "waiting": 3}


def test_work_without_a_token_is_a_stall(tmp_path):
    page = Vllm().minutes(10, {**HEALTHY, "running": 1}).minutes(10, STUCK)
    page.minutes(5, {**HEALTHY, "running": 1})
    said = "gpu-1 tiny engine 0: 4 requests run or wait and no token comes"
    tests = [*silent("VllmStalled", 10, 12),
             firing(FILE, "VllmStalled", 15, said, **page.labels),
             *silent("VllmStalled", 21)]  # fmt: skip
    check(tmp_path, FILE, page.series(), tests)


@pytest.mark.parametrize(
    "traffic",
    [IDLE, {**STUCK, "generated": 1}, {**STUCK, "prompt": 1}],
    ids=["no work", "a token", "a prompt"],
)
def test_no_stall_without_work_or_with_a_token_a_minute(tmp_path, traffic):
    page = Vllm().minutes(10, HEALTHY).minutes(20, traffic)
    check(tmp_path, FILE, page.series(), silent("VllmStalled", 15, 20, 25, 29))


@pytest.mark.parametrize(
    ("seconds", "requests", "told"), [(12, 2, True), (8, 2, False), (12, 0.8, False)]
)
def test_a_full_server_is_told_by_the_time_that_requests_wait(tmp_path, seconds, requests, told):
    queued = {"queued": requests, "queue_seconds": seconds * requests}
    page = Vllm().minutes(40, {**HEALTHY, **queued})
    said = "gpu-1 tiny engine 0: requests wait 12s before they begin"
    tests = silent("VllmQueueing", 10, 35)
    if told:
        tests = [*silent("VllmQueueing", 10), firing(FILE, "VllmQueueing", 35, said, **page.labels)]
    check(tmp_path, FILE, page.series(), tests)


def of_server(page: Vllm) -> dict[str, str]:
    return {key: page.labels[key] for key in ("job", "instance", "host")}


@pytest.mark.parametrize("clock", [True, False], ids=["by its start time", "by its counters"])
def test_three_starts_within_an_hour_are_told(tmp_path, clock):
    page = Vllm().minutes(10, HEALTHY)
    for _ in range(3):
        page.down(2).restart().minutes(10, HEALTHY)
    page.minutes(45, HEALTHY)
    without = "vllm:prompt_tokens" if clock else "process_start_time"
    series = {k: v for k, v in page.series().items() if without not in k}
    said = "gpu-1: vLLM started 3 times within an hour"
    tests = [*silent("VllmRestarting", 33),
             firing(FILE, "VllmRestarting", 36, said, **of_server(page)),
             *silent("VllmRestarting", 85)]  # fmt: skip
    check(tmp_path, FILE, series, tests)


def test_no_answer_is_down_once_a_start_would_be_over(tmp_path):
    page = Vllm().minutes(5, HEALTHY).down(20).minutes(5, IDLE)
    tests = [*silent("VllmDown", 19),
             firing(FILE, "VllmDown", 21, "gpu-1: vLLM does not answer", **of_server(page)),
             *silent("VllmDown", 26)]  # fmt: skip
    check(tmp_path, FILE, page.series(), tests)


def test_a_page_without_series_of_vllm_is_told(tmp_path):
    page = Vllm().unnamed(20).minutes(5, IDLE)
    said = "gpu-1: the page has no series of vLLM that these rules know"
    tests = [*silent("VllmBlind", 10),
             firing(FILE, "VllmBlind", 16, said, **of_server(page)),
             *silent("VllmBlind", 21)]  # fmt: skip
    check(tmp_path, FILE, page.series(), tests)


def test_down_is_not_blind(tmp_path):
    page = Vllm().down(40)
    check(tmp_path, FILE, page.series(), silent("VllmBlind", 30, 39))
