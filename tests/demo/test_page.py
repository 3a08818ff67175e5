from __future__ import annotations

import itertools
from importlib import resources

from prometheus_client.parser import text_string_to_metric_families

from watchdog.demo.page import TEMPLATE, render
from watchdog.demo.simulation import BROKEN, HEALTHY, Life
from watchdog.domain import series as s
from watchdog.probes.vllm_page import parse_page

STARTED, READY = 1_796_000_000.0, 1_796_000_015.0
HEALED, DEAD = Life(STARTED, READY, HEALTHY), Life(STARTED, READY, BROKEN)


def recorded():
    return resources.files("watchdog.demo").joinpath(TEMPLATE).read_text(encoding="utf-8")


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def series(text):
    """Every series of a page but the positions, with its value."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families(text).values()
        for sample in family.samples
        if "position" not in sample.labels
    }


def words(text, engine="0"):
    samples, _ = parse_page("demo", text)
    return {x.series: x.value for x in samples if dict(x.subject).get("engine") == engine}


def test_the_page_has_the_families_and_types_of_the_recorded_one():
    page = families(render([HEALED.counters(READY + 100)]))
    real = families(recorded())
    assert {name: (f.type, f.documentation) for name, f in page.items()} == {
        name: (f.type, f.documentation) for name, f in real.items()
    }


def test_the_page_has_the_series_of_the_recorded_one_but_for_its_depth():
    page = render([HEALED.counters(READY + 100)], model="tiny")
    assert set(series(page)) == set(series(recorded()))
    per_position = families(page)["vllm:spec_decode_num_accepted_tokens_per_pos"].samples
    assert [x.labels["position"] for x in per_position] == list("0123456")


def test_our_parser_reads_what_was_simulated():
    c = DEAD.counters(READY + 300)
    text = render([c])
    read = words(text)
    assert read[s.DRAFTS] == c.drafts
    assert read[s.DRAFT_TOKENS] == c.draft_tokens
    assert read[s.ACCEPTED_TOKENS] == c.accepted
    assert tuple(read[name] for name in s.POSITIONS[:7]) == c.accepted_at
    assert read[s.GENERATED_TOKENS] == c.generated
    assert read[s.PROMPT_TOKENS] == c.prompt_tokens
    assert read[s.FIRST_TOKENS] == c.first_tokens
    assert read[s.UPDATES] == c.updates
    assert read[s.ITERATIONS] == c.iterations
    assert read[s.FINISHED] == c.finished
    assert (read[s.RUNNING], read[s.WAITING], read[s.CREATED]) == (8, 3, READY)
    assert parse_page("demo", text)[1]["process_start"] == STARTED


def test_no_series_falls_inside_a_life_but_the_gauges():
    gauges = ("vllm:num_requests", "vllm:kv_cache")
    pages = [series(render([DEAD.counters(READY + at)])) for at in range(0, 120, 3)]
    for before, after in itertools.pairwise(pages):
        fell = [key for key, value in after.items() if value < before[key]]
        assert [key for key in fell if not key[0].startswith(gauges)] == []


def test_histograms_hold_together():
    for family in families(render([HEALED.counters(READY + 200)])).values():
        if family.type != "histogram":
            continue
        buckets = [x for x in family.samples if x.name.endswith("_bucket")]
        (count,) = (x.value for x in family.samples if x.name.endswith("_count"))
        assert [x.value for x in buckets] == sorted(x.value for x in buckets), family.name
        assert buckets[-1].labels["le"] == "+Inf"
        assert buckets[-1].value == count > 0, family.name


def test_two_runs_give_equal_pages():
    moments = [READY + 3.7 * turn for turn in range(20)]
    first = [render([DEAD.counters(at)]) for at in moments]
    again = [render([Life(STARTED, READY, BROKEN).counters(at)]) for at in moments]
    assert first == again
    assert len(set(first)) == len(first)


def test_a_page_of_many_engines_keeps_them_apart():
    lives = [DEAD if number == 5 else HEALED for number in range(8)]
    text = render([life.counters(READY + 200) for life in lives])
    firsts = []
    for number in range(8):
        read = words(text, str(number))
        firsts.append(round(read[f"{s.ACCEPTED_AT}0"] / read[s.DRAFTS], 2))
    assert firsts == [0.8] * 5 + [0.07] + [0.8] * 2
    families(text)  # the library's parser takes it too


def test_a_page_is_as_large_as_a_real_one():
    assert 50_000 < len(render([HEALED.counters(READY + 10_000)])) < 60_000
