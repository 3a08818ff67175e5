"""vLLM's command line as options, and what of it may be kept."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.domain.command_line import REST, is_secret, masked, options

NGRAM = '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":2}'
DRAFT = '{"method":"draft_model","model":"/srv/lab/models/draft-near","num_speculative_tokens":4}'
REAL = "vllm serve /srv/lab/models/target --served-model-name tiny --host 127.0.0.1 --port 8107 "
REAL += "--max-model-len 1024 --max-num-seqs 8"
"""Of a vLLM 0.32.0 that ran."""

SECRET = "Zq7-verysecret_Words"


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [  # what vLLM itself logged as `non-default args` beside the six that all have
        ([], {}),
        (["--speculative-config", NGRAM], {"speculative_config": json.loads(NGRAM)}),
        (["--speculative-config", DRAFT], {"speculative_config": json.loads(DRAFT)}),
        (["--api-server-count", "2"], {"api_server_count": 2}),
        (["--data-parallel-size", "2"], {"data_parallel_size": 2}),
        (
            ["--compilation-config", '{"compile_sizes":[]}'],
            {"compilation_config": {"compile_sizes": []}},
        ),
    ],
)
def test_real_command_lines_read_as_vllm_read_them(
    more: list[str], said: dict[str, object]
) -> None:
    logged: dict[str, object] = {
        "host": "127.0.0.1", "port": 8107, "model": "/srv/lab/models/target",
        "max_model_len": 1024, "served_model_name": "tiny", "max_num_seqs": 8, **said,
    }  # fmt: skip

    found = options([*REAL.split(), *more])

    assert found == {
        name.replace("_", "-"): json.dumps(value, sort_keys=True, separators=(",", ":"))
        if isinstance(value, dict)
        else str(value)
        for name, value in logged.items()
    }


@pytest.mark.parametrize(
    "words",
    [
        ["--tensor-parallel-size", "2"],
        ["--tensor-parallel-size=2"],
        ["--tensor_parallel_size", "2"],
        ["-tp", "2"],
        ["-tp=2"],
    ],
)
def test_an_option_is_one_however_it_is_written(words: list[str]) -> None:
    assert options(["vllm", "serve", "m", *words]) == {"model": "m", "tensor-parallel-size": "2"}


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("-q awq", "--quantization awq"),
        ("-qawq", "--quantization=awq"),
        ("-pp 2", "--pipeline-parallel-size 2"),
        ("-dp 2 -dpl 1 -dpa 10.0.0.1", "--data-parallel-size 2 --data-parallel-size-local 1 "
         "--data-parallel-address 10.0.0.1"),
        ("-ep", "--enable-expert-parallel"),
        ("-O3", "--optimization-level 3"),
        ("-O=3", "--optimization-level 3"),
        ("-O 3", "--optimization-level 3"),
        ('-O {"mode":3}', "--compilation-config.mode 3"),
        ('-O{"mode":3}', "-cc.mode=3"),
        ("-O.mode=3", "--compilation-config.mode=3"),
        ("--spec-method mtp --spec-tokens 2",
         '--speculative-config {"num_speculative_tokens":2,"method":"mtp"}'),
        ("--speculative-model d --num-speculative-tokens 5",
         '-sc {"model":"d","num_speculative_tokens":5}'),
        ("--device-memory-utilization 0.9", "--gpu_memory_utilization=0.9"),
    ],
)  # fmt: skip
def test_other_names_are_the_same_option(short: str, long: str) -> None:
    assert options(["vllm", "serve", "m", *short.split()]) == options(
        ["vllm", "serve", "m", *long.split()]
    )


@pytest.mark.parametrize(
    "argv",
    [
        "vllm serve m --port 1",
        "/venv/bin/python3 /venv/bin/vllm serve m --port 1",
        "vllm serve --port 1 m",
        "vllm serve --port 1 --model m",
        "python -m vllm.entrypoints.openai.api_server --model m --port 1",
        "python3 -u -m vllm.entrypoints.cli.main serve m --port 1",
        "python /x/vllm/entrypoints/openai/api_server.py --model=m --port 1",
        "env A=b vllm serve m --port 1",
        "/opt/serve.sh --model m --port 1",
        "python /opt/serve.py --model m --port 1",
        "--model m --port 1",
    ],
)
def test_the_model_is_found_whatever_starts_the_server(argv: str) -> None:
    assert options(argv.split()) == {"model": "m", "port": "1"}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("--enable-prefix-caching", "true"),
        ("--no-enable-prefix-caching", "false"),
        ("--enable-prefix-caching False", "false"),
        ("--enable-prefix-caching=TRUE", "true"),
    ],
)
def test_flags_are_true_or_false(words: str, value: str) -> None:
    assert options(f"vllm serve {words} m".split()) == {
        "model": "m",
        "enable-prefix-caching": value,
    }


def test_a_flag_does_not_swallow_the_model() -> None:
    assert options(["vllm", "serve", "--enforce-eager", "m"])["model"] == "m"


def test_several_values_are_one_list() -> None:
    found = options(
        ["vllm", "serve", "m", "--cudagraph-capture-sizes", "1", "2", "4", "--port", "1"]
    )

    assert found["cudagraph-capture-sizes"] == '["1","2","4"]'


def test_a_negative_number_is_a_value() -> None:
    assert options(["vllm", "serve", "m", "--max-model-len", "-1"])["max-model-len"] == "-1"


def test_json_has_one_form() -> None:
    ways = ('{"b": 1, "a": {"d": [1, 2], "c": null}}', '{"a":{"c":null,"d":[1,2]},"b":1}')

    found = {options(["vllm", "serve", "m", "--hf-overrides", way])["hf-overrides"] for way in ways}

    assert found == {'{"a":{"c":null,"d":[1,2]},"b":1}'}


def test_keys_behind_dots_go_into_the_object() -> None:
    argv = [
        *("vllm", "serve", "m", "--speculative-config.method", "eagle"),
        *("--speculative-config", '{"method":"mtp","a":{"b":1}}', "--speculative_config.a.c=x"),
        *("--speculative-config.list+", "1,2", "--speculative-config.list+=3"),
    ]

    assert json.loads(options(argv)["speculative-config"]) == {
        "method": "eagle",
        "a": {"b": 1, "c": "x"},
        "list": ["1", "2", "3"],
    }


def test_of_an_option_that_is_given_twice_the_last_one_counts() -> None:
    assert options(["vllm", "serve", "m", "--port", "1", "--port", "2"])["port"] == "2"


def test_words_that_belong_nowhere_are_kept() -> None:
    assert options(["vllm", "serve", "m", "--", "y", "x"]) == {"model": "m", REST: '["x","y"]'}


@pytest.mark.parametrize(
    "argv",
    [
        [], [""], ["vllm"], ["vllm", "serve"], ["vllm", "serve", "--"], ["-"], ["--="], ["--.="],
        ["vllm", "serve", "-O"], ["--a."], ["--a.b"], ["--a..b", "c"],
        ["--a.b", "1", "--a.b.c", "2"],
        ["--a", "{"], ["--a", "[" * 100_000], ["--a", "9" * 10_000], ["--a.b", "[" * 100_000],
        ["--a", "\udcff"], ["--a", '{"a":"\\ud800"}'],
        ["--compilation-config", "3", "-cc.mode", "2"],
    ],
)  # fmt: skip
def test_odd_command_lines_are_read_too(argv: list[str]) -> None:
    found = options(argv)

    assert all(isinstance(text, str) for pair in found.items() for text in pair)
    assert len(masked(argv)) == len(argv)


WORDS = st.lists(st.text("-=.{}\":'ab1 \udcff@/", max_size=8), max_size=8)


@given(WORDS)
def test_any_words_are_read_and_masked_once_for_all(words: list[str]) -> None:
    once = masked(words)

    assert masked(once) == once
    assert options(once) is not None


GROUPS = (
    ["--port", "8000"], ["-tp", "2"], ["--enforce-eager"], ["--no-enable-chunked-prefill"],
    ["--served-model-name", "a", "b"], ["--speculative-config", DRAFT], ["-O3"], ["-q=fp8"],
    ["--speculative-config.num_speculative_tokens", "7"], ["--api-key", SECRET, "other"],
    ["--max-model-len", "-1"], ["--new-option", "x"], ["--new-flag"], ["--model", "/m"],
)  # fmt: skip


@given(st.permutations(GROUPS))
def test_the_order_of_options_never_matters(groups: list[list[str]]) -> None:
    argv = ["vllm", "serve", *(word for group in groups for word in group)]

    assert options(argv) == options(["vllm", "serve", *(w for group in GROUPS for w in group)])


# --- secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "api-key", "--api_key", "--api-k", "--hf-token", "--hf-tok", "HF_TOKEN", "VLLM_API_KEY",
        "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACETOKEN", "AWS_REGION", "AWS_SECRET_ACCESS_KEY",
        "S3_ACCESS_KEY_ID", "OPENAI_APIKEY", "apiKey", "accessToken", "DB_PASSWORD", "pgpassword",
        "GOOGLE_APPLICATION_CREDENTIALS", "WANDB_API_KEY", "client_secret", "Authorization",
        "x-auth", "VLLM_TOKENS", "kv-transfer-config.api_key",
    ],
)  # fmt: skip
def test_these_are_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "num_speculative_tokens", "max-num-batched-tokens", "long-prefill-token-threshold",
        "VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE", "VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD",
        "return-tokens-as-token-ids", "tokenizer", "tokenizer-mode", "spec-tokens", "mask_token_id",
        "VLLM_KV_CACHE_LAYOUT", "ssl-keyfile", "hf-overrides", "api-server-count", "model", "",
        "VLLM_PATTERN_MATCH_DEBUG", "HSA_XNACK", "TORCHINDUCTOR_MAX_AUTOTUNE", "monkey-patch",
    ],
)  # fmt: skip
def test_these_are_not(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    "words",
    [
        ["--api-key", SECRET],
        ["--api_key", SECRET],
        [f"--api-key={SECRET}"],
        ["--api-key", "one", SECRET, "three", "--port", "1"],
        ["--api-key", f"-{SECRET}"],
        ["--api-key", f"--{SECRET}"],
        ["--api-k", SECRET],
        ["--hf-token", SECRET],
        ["--my-tokens", "one", SECRET],
        ["--kv-transfer-config.api_key", SECRET],
        [f"--kv-transfer-config.api_key={SECRET}"],
        ["--kv-transfer-config", json.dumps({"x": [{"api_key": SECRET}]})],
        [f"--additional-config={json.dumps({'password': {'deep': SECRET}})}"],
        ["--x", json.dumps({"env": f"HF_TOKEN={SECRET}"})],
        ["--x", f"{{'api_key': '{SECRET}', 'broken'"],
        ["--x", f'{{"api\\u005fkey": "{SECRET}"}}'],
        ["--otlp-traces-endpoint", f"http://user:{SECRET}@host:4317/v1"],
        ["--otlp-traces-endpoint", f"http://{SECRET}@host"],
        ["--x", f"http://user:a@b{SECRET}@host"],
        ["--x", f"https://host/path?a=b&token={SECRET}&c=d"],
        ["-H", f"Authorization: Bearer {SECRET}"],
        ["-e", f"HF_TOKEN={SECRET}"],
        [f"HF_TOKEN={SECRET},more", "vllm"],
        ["-c", f"export A=1; export HF_TOKEN='{SECRET}' ; vllm serve m"],
        ["-c", f"vllm serve m --api-key {SECRET} --port 1"],
        ["-c", f'x="export HF_TOKEN={SECRET}"'],
        ["--x", "hf_verysecretWordsAndMore0123456789"],
        ["--x", "run with sk-proj-verysecret-0123456789"],
        ["--x", f"Basic {SECRET}"],
    ],
)
def test_no_secret_is_left_in_a_masked_command_line(words: list[str]) -> None:
    shown = masked(["vllm", "serve", "m", *words])

    assert "verysecret" not in " ".join(shown)
    assert "verysecret" not in json.dumps(options(shown))
    assert len(shown) == len(words) + 3
    assert shown == masked(shown)


def test_what_is_no_secret_stays_as_it_is() -> None:
    argv = [
        *REAL.split(),
        *("--speculative-config", '{ "method": "mtp", "num_speculative_tokens": 3 }'),
        *("--otlp-traces-endpoint", "http://host:4317", "--max-num-batched-tokens=8192"),
        *("--allow-credentials", "--enforce-eager", "--model", "s3://bucket/key"),
    ]

    assert masked(argv) == argv


@pytest.mark.parametrize(
    "name", ["hf-overrides", "hf_overrides", "hf_config_path", "hf-config-path"]
)
def test_names_that_begin_as_tokens_do_stay(name: str) -> None:
    assert masked([f"--{name}", "x", f"--{name}=y"]) == [f"--{name}", "x", f"--{name}=y"]


def test_a_model_that_is_named_as_tokens_are_stays() -> None:
    assert masked(["/models/sk-large-model-instruct"]) == ["/models/sk-large-model-instruct"]


def test_a_flag_that_is_called_as_secrets_are_hides_nothing() -> None:
    argv = ["vllm", "serve", "--allow-credentials", "m"]

    assert masked(argv) == argv


def test_what_follows_a_secret_is_still_shown() -> None:
    argv = ["vllm", "serve", "--hf-token", SECRET, "m", "--api-key", SECRET, "--enforce-eager"]

    assert masked(argv) == [
        *("vllm", "serve", "--hf-token", "...", "m", "--api-key", "...", "--enforce-eager")
    ]


def test_a_long_command_line_is_masked_in_no_time() -> None:
    hostile = ["a" * 100_000, "--" + "a." * 50_000, " " * 100_000, '"' * 100_000, "://" * 50_000]
    hostile += ["eyJ-" * 25_000, "sk-" * 33_000, "gho_" * 25_000, "bearer " * 14_000]
    hostile += ["://@" * 30_000, "a=" * 50_000, "-a " * 50_000, "'\\" * 50_000, "token='" * 20_000]
    random.Random(6).shuffle(hostile)

    assert len(masked(hostile)) == len(hostile)


@pytest.mark.parametrize("name", ["--a", "-O", "--compilation-config"])
def test_an_option_with_thousands_of_dots_is_no_object_without_end(name: str) -> None:
    found = options(["vllm", "serve", name + ".b" * 2000, "v", f"{name}.c", "1"])
    assert any(value == "v" for value in found.values())
    assert any('"c":1' in value for value in found.values())
