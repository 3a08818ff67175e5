"""vLLM's start-up lines: every wording is counted, once, and laid to the last start alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchdog.domain.start_lines import StartLines
from watchdog.domain.start_wordings import WORDS

LOGS = Path(__file__).parents[1] / "probes" / "fixtures" / "server_log"
SECRET = "sk-seeded-0123456789abcdef"
COUNTS = ("hits", "aot_hits", "compiled", "stored", "load_failures")

# Counted with grep: hits, AOT hits, compiled, stored, load failures, directories; seconds of
# `init engine` (the longest) and of its compilation; the drafter
REAL = {
    "api_server_count2": (0, 0, 0, 1, 1, 0, 18.20, None, "ngram"),
    "cold_start_spec_off": (0, 0, 0, 1, 0, 0, 58.70, None, None),
    "dp2": (0, 0, 0, 2, 0, 0, 60.92, None, "ngram"),
    "draft_near_cold_and_traffic": (0, 0, 0, 2, 0, 0, 49.71, None, "draft-near"),
    "draft_other_cold_and_traffic": (0, 0, 0, 2, 0, 0, 46.95, None, "draft-other"),
    "draft_same_cold_and_traffic": (0, 0, 0, 2, 0, 0, 40.40, None, "draft-same"),
    "failed_start_mode3_assert_after_warm_load": (1, 0, 0, 0, 0, 1, None, None, "ngram"),
    "failed_start_mode3_on_cpu": (0, 0, 0, 0, 0, 1, None, None, "ngram"),
    "fixed_draft_near": (0, 0, 0, 2, 2, 0, 22.94, None, "draft-near"),
    "fixed_draft_same": (0, 0, 0, 2, 2, 0, 24.16, None, "draft-same"),
    "fixed_ngram": (0, 0, 0, 1, 1, 0, 15.65, None, "ngram"),
    "mode3_aot_cold": (0, 0, 1, 1, 0, 1, 40.23, 38.06, "ngram"),
    "mode3_aot_warm": (0, 1, 0, 0, 0, 0, 26.94, 24.91, "ngram"),
    "mode3_noaot_cold": (0, 0, 1, 1, 0, 1, 52.48, 50.76, "ngram"),
    "mode3_noaot_warm": (1, 0, 0, 0, 0, 1, 7.76, 6.17, "ngram"),
    "ngram_chaotic_model_cold": (0, 0, 0, 1, 0, 0, 39.11, None, "ngram"),
    "ngram_with_traffic": (0, 0, 0, 1, 1, 0, 15.12, None, "ngram"),
    "noaot_cold": (0, 0, 0, 0, 0, 0, 42.88, None, None),
    "noaot_warm": (0, 0, 0, 0, 0, 0, 7.62, None, None),
    "warm_start_spec_off": (0, 0, 0, 1, 1, 0, 15.50, None, None),
}

LOADED = "Directly load the compiled graph(s) for"
START = "INFO 09-13 02:15:00 [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: x"


def of_lines(lines: Iterable[str]) -> StartLines:
    read = StartLines()
    for line in lines:
        read.feed(line)
    return read


def told(*lines: str) -> dict[str, Any]:
    return of_lines(lines).facts()


def info(text: str, at: str = "09-13 02:16:00", process: str = "") -> str:
    return f"{process}INFO {at} [backends.py:1] {text}"


def head(at: str = "09-13 02:14:50", process: str = "", version: str = "0.10.1") -> str:
    return info(f"vLLM API server version {version}", at, process)


def engine(process: str = "", speculative: str = "None", version: str = "0.10.1") -> str:
    text = f"Initializing a V1 LLM engine (v{version}) with config: model='m', "
    return info(f"{text}speculative_config={speculative}, seed=0", process=process)


def compiled(tag: str = "") -> str:
    return info(f"{tag}Compiling a graph for dynamic shape takes 40.25 s")


HIT = info("Directly load the compiled graph(s) for dynamic shape from the cache, took 2.810 s")


def read_real(name: str) -> dict[str, Any]:
    return told(*(LOGS / f"{name}.txt").read_text().splitlines(keepends=True))


@pytest.mark.parametrize("name", REAL)
def test_each_real_log_is_counted_as_grep_counts_it(name: str) -> None:
    facts = read_real(name)
    *counts, directories, init, compiling, drafter = REAL[name]
    assert facts["began"]
    assert facts["version"] == "0.32.0"
    assert [facts[key] for key in COUNTS] == counts
    assert len(facts["directories"]) == directories
    assert (facts["init_seconds"], facts["compile_seconds"]) == (init, compiling)
    asked = facts["speculative"] or {"method": None, "model": None, "num_spec_tokens": 4}
    of_model = asked["model"].rpartition("/")[2] if asked["model"] else None
    assert (of_model or asked["method"], asked["num_spec_tokens"]) == (drafter, 4)
    assert not facts["off"]
    assert json.loads(json.dumps(facts)) == facts


def test_all_real_logs_are_looked_at() -> None:
    assert {path.stem for path in LOGS.glob("*.txt")} == REAL.keys()


def test_a_real_example_is_shown_as_vllm_says_it() -> None:
    facts = read_real("mode3_noaot_warm")
    assert facts["example_hit"] == (
        "[backbone] Directly load the compiled graph(s) for compile range (1, 2048) from the cache,"
        " took 2.675 s"
    )
    assert facts["directories"] == [
        "/srv/lab/cache_mode3/torch_compile_cache/bf36639200/rank_0_0/backbone"
    ]
    assert "47.04 s" in read_real("mode3_noaot_cold")["example_compiled"]
    assert read_real("mode3_aot_warm")["example_hit"].startswith("[backbone] Directly load AOT")


# --- wordings of the releases --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"{LOADED} shape None from the cache, took 1.5 s", "hits"),
        (f"{LOADED} dynamic shape from the cache, took 1.500 s", "hits"),
        (f"{LOADED} compile range (1, 2048) from the cache, took 1.523 s", "hits"),
        ("Directly load AOT compilation from path /c/torch_aot_compile/3680/rank_0_0/model",
         "aot_hits"),
        ("Compiling a graph for general shape takes 33.10 s", "compiled"),
        ("Compiling a graph for shape 8 takes 3.10 s", "compiled"),
        ("Compiling a graph for dynamic shape takes 33.10 s", "compiled"),
        ("[eagle_head] Compiling a graph for compile range (1, 2048) takes 3.10 s", "compiled"),
        ("Cache the graph of shape None for later use", "stored"),
        ("Cache the graph for dynamic shape for later use", "stored"),
        ("Cache the graph of compile range (1, 2048) for later use", "stored"),
        ("[backbone] saved AOT compiled function to /c/rank_0_0/model", "stored"),
        ("[backbone] Compiling model again due to a load failure from /c/model, reason: no",
         "load_failures"),
    ],
)  # fmt: skip
def test_each_wording_is_counted_as_what_it_means(text: str, key: str) -> None:
    facts = told(START, info(text), info(text))
    assert {name: facts[name] for name in COUNTS if facts[name]} == {key: 2}


def test_a_cache_that_is_off_is_told() -> None:
    assert told(START, info("vLLM's torch.compile cache is disabled."))["off"]
    assert not told(START, HIT)["off"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("torch.compile takes 44.51 s in total", 44.51),
        ("torch.compile took 24.91 s in total", 24.91),
        ("torch.compile and initial profiling/warmup run together took 50.76 s in total", 50.76),
    ],
)
def test_the_time_of_a_compilation_is_told(text: str, seconds: float) -> None:
    assert told(START, info(text))["compile_seconds"] == seconds


def test_parts_are_added_up_and_of_several_ranks_the_slowest_counts() -> None:
    lines = [
        info(f"[{part}] torch.compile took {seconds} s in total")
        for part, seconds in (("backbone", 40), ("backbone", 42.5), ("eagle_head", 7))
    ]
    assert told(START, *lines)["compile_seconds"] == 49.5


@pytest.mark.parametrize("unit", ["seconds", "s"])
def test_the_slowest_engine_is_how_long_it_took(unit: str) -> None:
    lines = [
        info(f"init engine (profile, create kv cache, warmup model) took {took} {unit}")
        for took in ("60.24", "60.92", "59")
    ]
    assert told(START, *lines)["init_seconds"] == 60.92


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (info("vLLM API server version 0.8.5"), "0.8.5"),
        (info("vLLM API server version 0.11.0rc2.dev1+g1a2b3c.rocm640"),
         "0.11.0rc2.dev1+g1a2b3c.rocm640"),
        (info("Initializing a V0 LLM engine (v0.8.5.post1) with config: x"), "0.8.5.post1"),
        (info("Initializing an LLM engine (v0.6.3) with config: x"), "0.6.3"),
        (info(" \u2584\u2584 \u2584\u2588 \u2588     \u2588     \u2588 \u2580\u2584\u2580 \u2588"
              "  version 0.32.0"), "0.32.0"),
    ],
)  # fmt: skip
def test_each_line_that_begins_a_start_tells_the_version(line: str, version: str) -> None:
    facts = told(line)
    assert facts["began"]
    assert facts["version"] == version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("None", None),
        ("SpeculativeConfig(method='eagle3', model='/m/d', num_spec_tokens=7)",
         {"method": "eagle3", "model": "/m/d", "num_spec_tokens": 7}),
        ("SpeculativeConfig(method='ngram', model=None, num_spec_tokens=4)",
         {"method": "ngram", "model": None, "num_spec_tokens": 4}),
        ("SpeculativeConfig(draft_model='/m/d', num_spec_tokens=5)",
         {"method": None, "model": "/m/d", "num_spec_tokens": 5}),
    ],
)  # fmt: skip
def test_the_drafter_is_told(text: str, expected: Any) -> None:
    assert told(engine(speculative=text))["speculative"] == expected


# --- what stands in front ------------------------------------------------------------------------

WRAPPED = {
    "nothing": "{}",
    "a journal": "Feb 22 06:35:18 gpu-1 env[2827]: {}",
    "a journal in ISO": "2026-02-22T06:35:18+01:00 gpu-1 vllm[2827]: {}",
    "a container of Kubernetes": "2026-02-22T05:35:18.123456789Z stderr F {}",
    "docker compose": "vllm-1  | {}",
    "a process": "(EngineCore_DP0 pid=2827) {}",
    "a worker of 0.10": "(VllmWorker rank=1 pid=2728139) {}",
    "colours": "\x1b[1;36m(EngineCore_DP0 pid=3)\x1b[0;0m {}\x1b[0m",
    "colours of rsyslog": "Feb 22 06:35:18 gpu-1 vllm: #033[1;36m(EngineCore pid=3)#033[0;0m {}",
    "carriage return": "{}\r\n",
}


@pytest.mark.parametrize("form", WRAPPED.values(), ids=WRAPPED)
def test_what_stands_in_front_of_a_line_does_not_matter(form: str) -> None:
    lines = [head(), engine(), compiled(), info("Using cache directory: /c/a b for vLLM's "
             "torch.compile")]  # fmt: skip
    facts = told(*(form.format(line) for line in lines))
    assert facts == told(*lines)
    assert (facts["compiled"], facts["directories"]) == (1, ["/c/a b"])


@pytest.mark.parametrize("key", ["log", "message", "MESSAGE", "msg"])
def test_lines_in_json_are_read(key: str) -> None:
    lines = [json.dumps({key: f"{line}\n", "stream": "stderr"}) for line in (START, HIT)]
    assert told(*lines)["hits"] == 1


def test_json_that_is_none_or_of_something_else_is_no_trouble() -> None:
    assert (
        told(START, '{"log": torch.compile', '{"log": 7, "x": "torch.compile"}', HIT)["hits"] == 1
    )


# --- which start it is ---------------------------------------------------------------------------


def test_only_the_last_start_counts() -> None:
    first = [head(), engine(speculative="SpeculativeConfig(method='ngram', num_spec_tokens=1)"),
             HIT, info("init engine (profile) took 9 s")]  # fmt: skip
    facts = told(*first, head(version="0.11.0"), engine(version="0.11.0"), compiled())
    assert (facts["hits"], facts["compiled"]) == (0, 1)
    assert (facts["version"], facts["speculative"]) == ("0.11.0", None)
    assert facts["init_seconds"] is None
    assert facts["example_hit"] == ""


def test_a_start_without_the_servers_own_lines_begins_at_its_engine() -> None:
    facts = told(engine(), HIT, HIT, engine(), compiled())
    assert (facts["hits"], facts["compiled"]) == (0, 1)


def test_a_start_that_died_before_it_did_anything_leaves_nothing_to_the_next() -> None:
    died = [head(version="0.10.0"), engine(speculative="SpeculativeConfig(method='mtp')")]
    facts = told(*died, head(), engine(), HIT)
    assert (facts["version"], facts["speculative"], facts["hits"]) == ("0.10.1", None, 1)


def test_several_engines_and_servers_are_one_start() -> None:
    lines = [
        head(process="(MainProcess pid=1) "),
        *(engine(f"(EngineCore_DP{rank} pid=1{rank}) ") for rank in range(4)),
        compiled(),
        engine("(EngineCore_DP4 pid=15) "),  # late
        head(process="(ApiServer_1 pid=22) "),
        compiled(),
    ]
    assert told(*lines)["compiled"] == 2


def test_a_server_that_speaks_after_its_engine_began_takes_nothing_from_it() -> None:
    facts = told(engine(speculative="SpeculativeConfig(method='mtp')"), head(), compiled())
    assert facts["speculative"]["method"] == "mtp"


def test_ranks_without_a_head_are_one_start_until_one_of_them_comes_again() -> None:
    ranks = [engine(f"(EngineCore_DP{rank} pid=1{rank}) ") for rank in range(2)]
    assert told(ranks[0], compiled(), ranks[1], compiled())["compiled"] == 2
    again = engine("(EngineCore_DP0 pid=99) ")
    assert told(*ranks, compiled(), again, HIT)["compiled"] == 0


def test_an_engine_that_begins_after_the_servers_own_lines_begins_no_other_start() -> None:
    assert told(head(), engine(), compiled(), engine(), compiled())["compiled"] == 2


def test_without_a_beginning_nothing_is_counted() -> None:
    facts = told(compiled(), HIT, info("vLLM's torch.compile cache is disabled."))
    assert not facts["began"]
    assert [facts[key] for key in COUNTS] == [0, 0, 0, 0, 0]
    assert not facts["off"]


# --- what looks like it and is not ---------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        info("Received request cmpl-1: prompt: 'Compiling a graph for dynamic shape takes 1.0 s'"),
        info('Received request cmpl-1: prompt: "it\'s Compiling a graph for shape 8 takes 1.0 s"'),
        info("Generated response: Compiling a graph for shape 8 takes 1.0 s"),
        f"{'x' * 400} Compiling a graph for shape 8 takes 1.0 s",
        'ERROR 09-13 02:16:00 [core.py:1]     logger.info("Compiling a graph for %s takes %.2f s"',
        'ERROR 09-13 02:16:00 [core.py:1]   "Using cache directory: %s for vLLM\'s torch.compile"',
        "DEBUG 08-06 10:17:27 [backends.py:125] Directly load the 16-th graph for dynamic shape "
        "from inductor via handle ('f', '/c/x.py')",
        info("Starting torch.compile"),
        info("Warming up model for the compilation..."),
    ],
)
def test_a_line_that_only_speaks_of_it_is_not_counted(line: str) -> None:
    assert told(START, line) == told(START)


def test_a_request_that_speaks_of_a_start_begins_none() -> None:
    text = "Initializing a V1 LLM engine (v9.9.9) with config: x"
    facts = told(START, compiled(), info(f"Received request 1: prompt: 'say {text}'"))
    assert (facts["version"], facts["compiled"]) == ("0.8.5", 1)


def test_no_secret_of_a_line_is_kept() -> None:
    lines = [
        info(f"non-default args: {{'api_key': ['{SECRET}'], 'hf_token': '{SECRET}'}}"),
        engine(speculative=f"SpeculativeConfig(method='mtp', model='https://me:{SECRET}@hub/m')"),
        info(f"Using cache directory: /c/token={SECRET}/x for vLLM's torch.compile"),
        info(f"Directly load AOT compilation from path https://a:{SECRET}@host/model"),
        f"radiance 0.9.3 (api_key={SECRET})",
    ]
    facts = told(*lines)
    assert facts["aot_hits"] == 1
    assert facts["speculative"]["model"] == "https://...@hub/m"
    assert SECRET not in json.dumps(facts)


def test_what_is_kept_is_bounded() -> None:
    lines = [info(f"Using cache directory: /c/{'d' * 300}{i} for vLLM's torch.compile")
             for i in range(20)]  # fmt: skip
    lines += [info(f"Using cache directory: /c/{i} for vLLM's torch.compile") for i in range(20)]
    lines += [f"{name} 1.{i}" for i in range(9) for name in ("radiance", "aiter")]
    facts = told(START, *lines)
    assert len(facts["directories"]) == 8
    assert len(json.dumps(facts)) < 4000
    assert told(START, HIT + "x" * 10_000_000)["hits"] == 1


@settings(max_examples=40)
@given(st.lists(st.text() | st.sampled_from([START, HIT, compiled(), head(), '{"log": 1}', "{"])))
def test_no_text_is_any_trouble(lines: list[str]) -> None:
    facts = told(*lines, *(f"{line}{more}" for line in WORDS for more in lines))
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


@pytest.mark.parametrize("more", ["/", "(", "[a] ", " aiter 1.0", "' "])
def test_no_line_takes_long(more: str) -> None:
    words = [*WORDS, "Using cache directory: /", "[aiter", "torch.compile and "]
    began = time.process_time()
    for word in words:
        told(START, word + more * 30_000, (word + more) * 3000, "{" + word * 5_000)
    assert time.process_time() - began < 5.0


def test_a_number_that_is_none_is_not_kept() -> None:
    line = info(f"torch.compile took {'9' * 400} s in total")
    assert told(START, line)["compile_seconds"] is None


# --- components ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("radiance 0.9.3 / vllm 0.27.1 / torch 2.11.0+rocm7.14",
         {"radiance": "0.9.3", "vllm": "0.27.1", "torch": "2.11.0+rocm7.14"}),
        ("aiter 0.1.17", {"aiter": "0.1.17"}),
        ("[aiter] version 0.1.17", {"aiter": "0.1.17"}),
        ("=== Radiance v0.9.3 ===", {"radiance": "0.9.3"}),
        ("\x1b[1;32mradiance\x1b[0m 0.9.3", {"radiance": "0.9.3"}),
        (info("Using aiter 0.1.17", process="(Worker_TP0 pid=57) "), {"aiter": "0.1.17"}),
        ("component banner: radiance=0.9.3, aiter 1.0", {"radiance": "0.9.3", "aiter": "1.0"}),
        ("Feb 22 06:35:18 gpu-1 env[2827]: radiance 0.9.3 (gfx1201) loaded", {"radiance": "0.9.3"}),
        ("aiter 0.2.0 or newer is needed", {}),
        ("no radiance 0.9.3 here", {}),
        ("aiter 0.1.17 is older than 0.2.0", {}),
        ("[aiter] import [module_rmsnorm] under /opt/aiter/jit", {}),
        ('INFO:     127.0.0.1:4 - "GET /radiance 0.9.3"', {}),
    ],
)  # fmt: skip
def test_a_banner_tells_versions_and_a_sentence_does_not(
    line: str, expected: dict[str, str]
) -> None:
    assert told(START, line)["components"] == expected


def test_a_banner_before_the_first_line_of_a_start_is_of_this_start() -> None:
    old = ["radiance 0.6.2", "aiter 0.1.16", head(), engine(), HIT]
    facts = told(*old, "radiance 0.9.3", head(), "torch 2.11.0", engine(), compiled())
    assert facts["components"] == {"radiance": "0.9.3", "torch": "2.11.0"}


def test_a_banner_after_all_was_done_is_of_this_start_too() -> None:
    assert told(head(), engine(), HIT, "aiter 0.1.17")["components"] == {"aiter": "0.1.17"}


def test_each_line_that_matters_has_one_of_the_words_that_are_looked_for() -> None:
    for path in LOGS.glob("*.txt"):
        lines = path.read_text().splitlines()
        kept = [line for line in lines if any(word in line for word in WORDS)]
        assert len(kept) < 20
        assert told(*kept) == told(*lines)


def test_no_version_or_method_brings_control_characters_or_a_secret() -> None:
    """A log may hold anything, and a terminal obeys what it is shown."""
    token = "hf_" + "a1B2" * 6
    line = (
        "INFO 11-30 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0.32\x1b]0;x\x07) with "
        f"config: model='m', speculative_config=SpeculativeConfig(method='{token}\x1b[1m', "
        "model='d', num_spec_tokens=3), x"
    )
    facts = of_lines([line]).facts()
    assert facts["began"]
    assert facts["version"].isprintable()
    assert facts["speculative"]["method"].isprintable()
    assert token not in str(facts)
