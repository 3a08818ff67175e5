"""Pages as vLLM, its frontends and its neighbours serve them, into samples or a sentence."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from watchdog.domain import series as s
from watchdog.domain.sample import labels
from watchdog.errors import NotUnderstood
from watchdog.probes import vllm_page
from watchdog.probes.vllm_page import parse_page

FIXTURES = Path(__file__).parent / "fixtures" / "vllm_metrics"
TINY = labels(target="t", engine="0", model_name="tiny")
PAGES = sorted(FIXTURES.glob("*.prom"))


def text_of(situation: str) -> str:
    return (FIXTURES / f"{situation}.prom").read_text()


def values(body: str, subject=TINY) -> dict[str, float]:
    samples, _ = parse_page("t", body)
    return {sample.series: sample.value for sample in samples if sample.subject == subject}


# --- the real captures -------------------------------------------------------------------------


def deltas():
    """Before, after, [drafts, draft tokens, accepted, generated], acceptance by position."""
    line = re.compile(
        r"(\w+) -> (\w+): .*drafts (-?\d+), draft tokens (-?\d+), accepted (-?\d+), "
        r"generated (-?\d+);.*per position \[(.*)\]"
    )
    for text in (FIXTURES / "DELTAS.txt").read_text().splitlines():
        before, after, *numbers, positions = line.fullmatch(text).groups()
        shares = [float(part) for part in positions.split(", ") if part]
        yield pytest.param(before, after, [int(n) for n in numbers], shares, id=after)


@pytest.mark.parametrize(("before", "after", "numbers", "shares"), list(deltas()))
def test_the_increases_of_the_real_captures_are_exact(before, after, numbers, shares):
    old, new = values(text_of(before)), values(text_of(after))
    grown = {name: new[name] - old.get(name, 0.0) for name in new}
    words = (s.DRAFTS, s.DRAFT_TOKENS, s.ACCEPTED_TOKENS, s.GENERATED_TOKENS)
    assert [grown.get(word, 0.0) for word in words] == numbers
    drafts = grown.get(s.DRAFTS, 0.0)
    depth = [name for name in new if name.startswith(s.ACCEPTED_AT)]
    assert len(depth) == len(shares)
    for i, share in enumerate(shares):
        assert grown[s.POSITIONS[i]] / drafts == pytest.approx(share, abs=0.0005)


def test_everything_that_is_judged_is_read_from_a_real_page():
    body = text_of("g_draft_other_broken_1_after_greedy")
    assert values(body) == {
        s.DRAFTS: 6430, s.DRAFT_TOKENS: 25720, s.ACCEPTED_TOKENS: 0,
        "accepted_at_0": 0, "accepted_at_1": 0, "accepted_at_2": 0, "accepted_at_3": 0,
        s.GENERATED_TOKENS: 6440, s.PROMPT_TOKENS: 363, s.FIRST_TOKENS: 10,
        s.UPDATES: 6430, s.UPDATE_SECONDS: 72.35918711800014, s.ITERATIONS: 6440,
        s.FINISHED: 10, s.ABORTED: 0, s.PREEMPTIONS: 0, s.PREFIX_QUERIES: 363, s.PREFIX_HITS: 0,
        s.RUNNING: 0, s.WAITING: 0, s.KV_USAGE: 0, s.AWAKE: 1, s.CREATED: 1796008103.3281112,
    }  # fmt: skip
    _, facts = parse_page("t", body)
    assert facts == {"format": "text", "process_start": 1796008018.77}
    assert values(body, labels(target="t")) == {s.PROCESS_START: 1796008018.77}


def test_a_page_of_several_api_servers_has_neither_start_nor_created():
    body = text_of("h_api2_ngram_1")
    assert s.CREATED not in values(body)
    assert values(body)[s.ITERATIONS] == 1050
    assert "process_start" not in parse_page("t", body)[1]


def test_a_page_without_speculation_has_no_draft_series():
    assert not {s.DRAFTS, s.DRAFT_TOKENS, s.POSITIONS[0]} & set(values(text_of("a0_spec_off_idle")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_real_page_gives_what_the_whole_library_parse_gives(page):
    body = page.read_text()
    assert_as_the_library(body)
    assert all(type(value) is float for value in values(body).values())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_real_page_cut_anywhere_in_a_line_is_refused(page):
    body = page.read_text()
    for end in range(len(body) - 2, 100, -997):
        if body[end - 1] != "\n":
            with pytest.raises(NotUnderstood, match="was cut"):
                parse_page("t", body[:end])


# --- the same page in other clothes --------------------------------------------------------------


def rewritten(change) -> str:
    lines = text_of("g_draft_other_broken_1_after_greedy").splitlines(keepends=True)
    return "".join(change(line) for line in lines)


def with_labels_reversed(line):
    found = re.fullmatch(r"([\w:]+)\{(.*)\} (.*)\n", line)
    if not found:
        return line
    pairs = re.findall(r'\w+="[^"]*"', found[2])
    return f"{found[1]}{{{','.join(reversed(pairs))}}} {found[3]}\n"


CLOTHES = {
    "labels in another order": with_labels_reversed,
    "a comma at the end of the labels": lambda x: x.replace('"} ', '",} '),
    "spaces in the labels": lambda x: x.replace('",', '" , ').replace("{e", "{ e"),
    "no space after the labels": lambda x: x.replace("} ", "}"),
    "two spaces before the value": lambda x: x if x[0] == "#" else x.replace("} ", "}  "),
    "a tab before the value": lambda x: x if x[0] == "#" else x.replace("} ", "}\t"),
    "integers": lambda x: re.sub(r"\.0\n", "\n", x),
    "exponents": lambda x: x.replace(" 6430.0\n", " 6.43e+03\n"),
    "timestamps": lambda x: x if x[0] == "#" else x.replace("\n", " 1796008103000\n"),
    "exemplars": lambda x: (
        x if x[0] == "#" else x.replace("\n", ' # {trace_id="} 7"} 0.67 1.7e9\n')
    ),
    "carriage returns": lambda x: x.replace("\n", "\r\n"),
    "no help and no type": lambda x: "" if x[0] == "#" else x,
    "leading spaces": lambda x: "  " + x,
    "vllm_ for vllm:": lambda x: x.replace("vllm:", "vllm_"),
    "a byte order mark": lambda x: x.replace(
        "# HELP python_gc_objects_c", "\ufeff# HELP python_gc_o"
    ),
}


@pytest.mark.parametrize("clothes", CLOTHES)
def test_the_same_page_is_read_the_same(clothes):
    body = rewritten(CLOTHES[clothes])
    assert body != text_of("g_draft_other_broken_1_after_greedy")
    assert values(body) == values(text_of("g_draft_other_broken_1_after_greedy"))


RUST = """\
# HELP vllm:spec_decode_num_drafts Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{model_name="m",engine="0"} 5
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{model_name="m",engine="0"} 12
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_sum{model_name="m",engine="0"} 99
vllm:iteration_tokens_total_count{model_name="m",engine="0"} 9
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m",engine="0"} 1
# EOF
"""


@pytest.mark.parametrize("body", [RUST, RUST[:-1]], ids=["newline at the end", "none"])
def test_the_page_of_the_rust_frontend_is_read(body):
    rust = {s.DRAFTS: 5, s.GENERATED_TOKENS: 12, s.ITERATIONS: 9, s.RUNNING: 1}
    assert values(body, labels(target="t", engine="0", model_name="m")) == rust
    kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert parse_page("t", body, kind)[1] == {"format": "openmetrics"}


def test_open_metrics_without_its_end_was_cut():
    kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    with pytest.raises(NotUnderstood, match="was cut.*# EOF"):
        parse_page("t", RUST.replace("# EOF\n", ""), kind)


def test_open_metrics_that_goes_on_after_its_end_is_refused():
    with pytest.raises(NotUnderstood, match="after its end"):
        parse_page("t", RUST + 'vllm:prompt_tokens_total{engine="0"} 1\n')


RAY = """\
# TYPE ray_vllm_generation_tokens gauge
ray_vllm_generation_tokens{{engine="0",model_name="m",ReplicaId="a#1",WorkerId="w"}} {bare}
# TYPE ray_vllm_generation_tokens_total counter
ray_vllm_generation_tokens_total{{engine="0",model_name="m",ReplicaId="a#1",WorkerId="w"}} 12.0
ray_vllm_generation_tokens_total{{engine="0",model_name="m",ReplicaId="b#2",WorkerId="x"}} 30.0
ray_vllm_spec_decode_num_drafts{{engine="0",model_name="m",ReplicaId="a#1",WorkerId="w"}} 4.0
ray_vllm_spec_decode_num_accepted_tokens_per_pos{{ReplicaId="a#1",model_name="m",position="0"}} 3.0
"""


@pytest.mark.parametrize("bare", [12.0, 11.0, 13.0])
def test_a_counter_that_ray_exports_twice_is_counted_once(bare):
    body = RAY.format(bare=bare)
    first = labels(target="t", engine="0", model_name="m", replica="a#1")
    assert values(body, first) == {s.GENERATED_TOKENS: 12, s.DRAFTS: 4, s.POSITIONS[0]: 3}
    other = labels(target="t", engine="0", model_name="m", replica="b#2")
    assert values(body, other) == {s.GENERATED_TOKENS: 30}


def test_the_order_of_a_bare_and_a_total_counter_does_not_matter():
    lines = RAY.format(bare=5.0).splitlines(keepends=True)
    first = labels(target="t", engine="0", model_name="m", replica="a#1")
    assert values("".join(reversed(lines)), first) == values("".join(lines), first)


def test_several_engines_and_models_are_kept_apart():
    body = "".join(
        f'vllm:spec_decode_num_drafts_total{{engine="{e}",model_name="{m}"}} {e}{i}\n'
        for e in range(8)
        for i, m in enumerate(("a", "b"))
    )
    samples, _ = parse_page("t", body)
    assert len(samples) == 16
    subject = labels(target="t", engine="7", model_name="b")
    assert [x.value for x in samples if x.subject == subject] == [71]


def test_an_engines_samples_lie_side_by_side():
    body = "".join(
        f'vllm:{name}{{engine="{e}"}} 1\n'
        for name in ("prompt_tokens_total", "generation_tokens_total", "num_requests_running")
        for e in range(3)
    )
    subjects = [sample.subject for sample in parse_page("t", body)[0]]
    assert subjects == sorted(subjects)


def test_a_page_without_engine_and_model_is_engine_0_of_no_name():
    alone = labels(target="t", engine="0", model_name="")
    assert values("vllm:generation_tokens_total 5\n", alone) == {s.GENERATED_TOKENS: 5}


def test_escapes_and_odd_characters_in_labels_are_read():
    body = 'vllm:prompt_tokens_total{model_name="a\\"b\\\\c\\nd} e{,=\u2028\x0b",engine="1"} 2\n'
    subject = labels(target="t", engine="1", model_name='a"b\\c\nd} e{,=\u2028\x0b')
    assert values(body, subject) == {s.PROMPT_TOKENS: 2}


def test_the_target_is_not_remembered_with_the_line():
    body = 'vllm:prompt_tokens_total{engine="0"} 1\n'
    for target in ("first", "second"):
        (sample,) = parse_page(target, body)[0]
        assert dict(sample.subject)["target"] == target


def test_the_old_names_are_read_where_the_new_ones_are_absent():
    body = """\
vllm:time_per_output_token_seconds_count{engine="0"} 7
vllm:time_per_output_token_seconds_sum{engine="0"} 0.5
vllm:gpu_cache_usage_perc{engine="0"} 0.25
vllm:gpu_prefix_cache_queries_total{engine="0"} 4
vllm:gpu_prefix_cache_hits_total{engine="0"} 3
"""
    alone = labels(target="t", engine="0", model_name="")
    old = {s.UPDATES: 7, s.UPDATE_SECONDS: 0.5, s.KV_USAGE: 0.25,
           s.PREFIX_QUERIES: 4, s.PREFIX_HITS: 3}  # fmt: skip
    assert values(body, alone) == old
    new = """\
vllm:inter_token_latency_seconds_count{engine="0"} 8
vllm:inter_token_latency_seconds_sum{engine="0"} 0.75
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:prefix_cache_queries_total{engine="0"} 6
vllm:prefix_cache_hits_total{engine="0"} 5
"""
    both = {s.UPDATES: 8, s.UPDATE_SECONDS: 0.75, s.KV_USAGE: 0.5,
            s.PREFIX_QUERIES: 6, s.PREFIX_HITS: 5}  # fmt: skip
    assert values(body + new, alone) == values(new + body, alone) == both


def test_finished_requests_are_added_up_and_aborted_ones_told():
    body = """\
vllm:request_success_total{engine="0",finished_reason="stop"} 3
vllm:request_success_total{engine="0",finished_reason="length"} 4
vllm:request_success_total{engine="0",finished_reason="abort"} 5
"""
    alone = labels(target="t", engine="0", model_name="")
    assert values(body, alone) == {s.FINISHED: 12, s.ABORTED: 5}


def test_a_sleeping_engine_is_told_by_its_awake_state_alone():
    body = """\
vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0
vllm:engine_sleep_state{engine="0",sleep_state="discard_all"} 1
"""
    assert values(body, labels(target="t", engine="0", model_name="")) == {s.AWAKE: 0}


def test_levels_with_more_labels_are_not_added_up():
    body = """\
vllm:kv_cache_usage_perc{engine="0",group="a"} 0.5
vllm:kv_cache_usage_perc{engine="0",group="b"} 0.7
vllm:num_requests_running{engine="0",lora="a"} 2
vllm:num_requests_running{engine="0",lora="b"} 3
"""
    alone = labels(target="t", engine="0", model_name="")
    assert values(body, alone) == {s.KV_USAGE: 0.7, s.RUNNING: 5}


# --- what is refused ----------------------------------------------------------------------------

GOOD = 'vllm:prompt_tokens_total{engine="0",model_name="m"} 1\n'


@pytest.mark.parametrize(
    "again",
    [GOOD, GOOD.replace("} 1", "} 2"), 'vllm:prompt_tokens_total{model_name="m",engine="0"} 1\n'],
)
def test_the_same_series_twice_is_refused(again):
    with pytest.raises(NotUnderstood, match="twice"):
        parse_page("t", GOOD + again)


@pytest.mark.parametrize(
    "line",
    [
        "vllm:prompt_tokens_total",
        "vllm:prompt_tokens_total{",
        'vllm:prompt_tokens_total{engine="1"}',
        'vllm:prompt_tokens_total{engine="1} 5',
        'vllm:prompt_tokens_total{engine="1" 5',
        "vllm:prompt_tokens_total{engine=1} 5",
        'vllm:prompt_tokens_total{engine="1",engine="2"} 5',
        'vllm:prompt_tokens_total{engine="1"}} 5',
        'vllm:prompt_tokens_total{engine="1"} 5 now',
        'vllm:prompt_tokens_total{engine="1"} 5 {}',
    ],
)
def test_a_wanted_line_that_is_malformed_is_refused(line):
    with pytest.raises(NotUnderstood, match="no sample|no count") as caught:
        parse_page("t", f"{GOOD}{line}\n")
    assert "vllm:prompt_tokens_total" in str(caught.value)


def test_an_unwanted_line_may_be_malformed():
    assert values(
        GOOD + "vllm:unheard_of{ nonsense\n", labels(target="t", engine="0", model_name="m")
    )


def test_nan_in_a_series_that_nobody_judges_does_no_harm():
    body = GOOD + 'vllm:cpu_cache_usage_perc{engine="0"} NaN\nvllm:other{engine="0"} NaN\n'
    assert parse_page("t", body)[0]


@pytest.mark.parametrize("position", ["64", "-1", "01", "", "x", "1.0"])
def test_a_draft_position_that_is_none_is_refused(position):
    body = "".join(position_line(i) for i in ("0", position))
    with pytest.raises(NotUnderstood, match="position"):
        parse_page("t", body)


@pytest.mark.parametrize("positions", ["1", "02", "023", "0124"])
def test_a_hole_in_the_draft_positions_is_refused(positions):
    with pytest.raises(NotUnderstood, match="lacks a draft position"):
        parse_page("t", "".join(map(position_line, positions)))


def test_all_64_draft_positions_are_read():
    body = "".join(position_line(i) for i in reversed(range(64)))
    assert len(parse_page("t", body)[0]) == 64


def position_line(position) -> str:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    return f'{name}{{engine="0",position="{position}"}} 1\n'


def test_sums_that_are_no_count_any_more_are_refused():
    body = "".join(
        f'vllm:request_success_total{{engine="0",finished_reason="{i}"}} 9007199254740992\n'
        for i in range(2)
    )
    with pytest.raises(NotUnderstood, match="add up"):
        parse_page("t", body)


@pytest.mark.parametrize(("engines", "accepted"), [(512, True), (513, False)])
def test_512_engines_are_read_and_not_one_more(engines, accepted):
    body = "process_start_time_seconds 1\n" + "".join(
        f'vllm:prompt_tokens_total{{engine="{e}"}} 1\n' for e in range(engines)
    )
    if accepted:
        assert len(parse_page("t", body)[0]) == 513
    else:
        with pytest.raises(NotUnderstood, match="more than 512 engines"):
            parse_page("t", body)


V0 = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 1.0
vllm:num_requests_swapped{model_name="m"} 0.0
vllm:spec_decode_draft_acceptance_rate{model_name="m"} nan
vllm:spec_decode_efficiency{model_name="m"} nan
vllm:spec_decode_num_draft_tokens_total{model_name="m"} 5.0
"""
PYTHON = 'python_info{version="3.12"} 1.0\nprocess_start_time_seconds 1.7e+09\n'

NO_PAGES = {
    "HTML": ("<!DOCTYPE html>\n<html><body>vllm:x 1</body></html>\n", "HTML page"),
    "HTML with metrics in it": (f"<html><pre>\n{GOOD}</pre></html>\n", "HTML page"),
    "HTML after white space": ("\n\n  <html>", "HTML page"),
    "JSON": ('{"detail": "Not Found"}', "JSON"),
    "a JSON list": ("[1, 2]", "JSON"),
    "nothing": ("", "an empty page"),
    "white space": ("\n\n", "an empty page"),
    "only an end": ("# EOF\n", "an empty page"),
    "a cut line": (GOOD + 'vllm:num_requests_running{engine="0"} 1', "middle of a line"),
    "SGLang": ('sglang:spec_accept_length{engine="0"} 2.5\n', "SGLang, not of vLLM"),
    "llama.cpp": ("# HELP x\nllamacpp:tokens_predicted_total 5\n", "llama.cpp, not of vLLM"),
    "TGI": ('tgi_request_count{method="x"} 5\n', "text-generation-inference, not of vLLM"),
    "TensorRT-LLM": ("trtllm_request_success_total 5\n", "TensorRT-LLM, not of vLLM"),
    "LMDeploy": ('lmdeploy:prompt_tokens_total{e="0"} 5\n', "LMDeploy, not of vLLM"),
    "statistics switched off": (PYTHON, "--disable-log-stats, or this is another Python server"),
    "only http series": ('http_requests_total{h="/"} 1.0\n', "--disable-log-stats"),
    "V0 gauges": (V0, "V0 engine .*cannot be judged by windows"),
    "unknown vllm series": (
        PYTHON + "vllm:brand_new{} 1\n",
        "none that .* first is vllm:brand_new",
    ),
    "another exporter": ('node_load1 0.5\nnode_x{a="b"} 1\n', "is this a vLLM server"),
    "plain text": ("hello, world\n", "is text, but no page of metrics"),
    "only comments": ("# HELP vllm:x y\n# TYPE vllm:x counter\n", "is text, but no page"),
}


@pytest.mark.parametrize("what", NO_PAGES)
def test_what_is_no_vllm_page_is_called_by_its_name(what):
    body, sentence = NO_PAGES[what]
    with pytest.raises(NotUnderstood, match=sentence):
        parse_page("t", body)


def test_a_stranger_cannot_put_control_characters_into_a_sentence():
    with pytest.raises(NotUnderstood) as caught:
        parse_page("t", 'vllm:prompt_tokens_total{engine="\x1b[31m\u202e"} x\n')
    assert str(caught.value).isprintable()


# --- any page -----------------------------------------------------------------------------------

NAMES = ["spec_decode_num_drafts_total", "generation_tokens_total", "num_requests_running",
         "inter_token_latency_seconds_sum", "unknown_total", "generation_tokens"]  # fmt: skip
WORDS = {"spec_decode_num_drafts_total": s.DRAFTS, "generation_tokens_total": s.GENERATED_TOKENS,
         "num_requests_running": s.RUNNING,
         "inter_token_latency_seconds_sum": s.UPDATE_SECONDS}  # fmt: skip


def assert_as_the_library(body: str) -> None:
    """Compare with the full parse by prometheus_client, for names that feed one word alone."""
    expected: dict[tuple[str, str, str], float] = {}
    for family in text_string_to_metric_families(body):
        for sample in family.samples:
            word = WORDS.get(sample.name.removeprefix("vllm:"))
            if word:
                named = sample.labels
                key = named.get("engine", "0"), named.get("model_name", ""), word
                expected[key] = expected.get(key, 0.0) + sample.value
    found = {}
    for subject, word, value in parse_page("t", body)[0]:
        named = dict(subject)
        if word in WORDS.values() and (word != s.GENERATED_TOKENS or "_total" in body):
            found[named["engine"], named["model_name"], word] = value
    assert found == pytest.approx(expected)


label_value = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=8)
number = st.one_of(
    st.integers(0, 2**40).map(str),
    st.floats(0, 2**40, allow_subnormal=False).map(repr),
    st.floats(0, 2**40, allow_subnormal=False).map(lambda x: f"{x:.6e}"),
)


@st.composite
def pages(draw):
    lines = {}
    for _ in range(draw(st.integers(1, 12))):
        name = draw(st.sampled_from(NAMES[:5]))
        pairs = draw(
            st.dictionaries(
                st.sampled_from(["engine", "model_name", "extra"]), label_value, max_size=3
            )
        )
        escaped = {
            k: v.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
            for k, v in pairs.items()
        }
        shuffled = draw(st.permutations(list(escaped.items())))
        inside = ",".join(f'{k}="{v}"' for k, v in shuffled)
        stamp = draw(st.sampled_from(["", "", " 1796008103000"]))
        head = f"vllm:{name}{{{inside}}}" if inside else f"vllm:{name}"
        key = name, frozenset(pairs.items())
        lines[key] = f"{head} {draw(number)}{stamp}"
    always = "vllm:num_requests_waiting 0"
    return "\n".join([*draw(st.permutations(list(lines.values()))), always]) + "\n"


@given(pages())
@example('vllm:num_requests_running{engine="\\\\"} 1\nvllm:num_requests_waiting 0\n')
def test_any_page_gives_what_the_whole_library_parse_gives(body):
    assert_as_the_library(body)


soup = st.lists(
    st.one_of(
        st.sampled_from([*'{}",=\\ \t\n#0159.eE+-_x', "vllm:prompt_tokens_total", "\n# EOF"]),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
).map("".join)


@given(soup, soup)
@example("{", "")
@example('"', '"} 1')
@example("{,,} 1", "")
@example('{a="\\', '"} 1')
def test_whatever_is_sent_only_not_understood_is_raised(before, after):
    for body in (
        before + after,
        f"vllm:prompt_tokens_total{before}\n{after}\n",
        f"vllm:prompt_tokens_total{{{before}}} {after}\n",
        f'vllm:prompt_tokens_total{{engine="{before}"}} {after}\n',
    ):
        try:
            samples, _ = parse_page("t", body)
        except NotUnderstood as error:
            assert len(str(error)) < 800
        else:
            assert all(math.isfinite(x.value) and x.value >= 0 for x in samples)


@given(st.text(st.sampled_from(list('abc{}",=\\ 1')), max_size=40))
def test_what_is_accepted_the_library_accepts(inside):
    body = f"vllm:num_requests_running{{{inside}}} 1\n"
    try:
        samples, _ = parse_page("t", body)
    except NotUnderstood:
        return
    if samples:
        assert list(text_string_to_metric_families(body))


def test_a_page_read_again_is_not_parsed_again():
    """The cost of a repeated scrape: every line is known by then."""
    body = text_of("g_draft_other_broken_1_after_greedy")
    parse_page("t", body)
    before = vllm_page._head.cache_info().misses
    parse_page("u", body.replace(" 6430.0", " 6431.0"))
    assert vllm_page._head.cache_info().misses == before
