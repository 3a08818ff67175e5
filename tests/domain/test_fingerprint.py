"""A launch as factors: what changes a fingerprint, what never does, and what is said of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.domain.command_line import is_secret, masked
from watchdog.domain.command_line_words import is_flag
from watchdog.domain.factors import FAMILIES, GRAPHS, QUIET, counts, known, named, watched
from watchdog.domain.fingerprint import (
    MOST_FACTORS,
    MOST_NAME,
    MOST_SHOWN,
    MOST_UNREAD,
    Comparison,
    Difference,
    Fingerprint,
    compare,
    fingerprint_of,
)
from watchdog.domain.launch_factors import MOST_WORDS

SECRET = "Zq7verysecretWords"


def identity(seed: str = "a") -> dict[str, Any]:
    return {
        "config": f"{seed}0" * 8, "architecture": "Qwen3ForCausalLM", "quantization": "fp8",
        "tensors": f"{seed}1" * 8, "files": f"{seed}2" * 8, "bytes": 19_400_000_000, "count": 4,
    }  # fmt: skip


OPTIONS: dict[str, str | None] = {
    "--tensor-parallel-size": "2",
    "--max-model-len": "262144",
    "--max-num-seqs": "8",
    "--gpu-memory-utilization": "0.97",
    "--quantization": "mxfp4",
    "--speculative-config": (
        '{"method":"dflash","model":"/models/DFlash2","num_speculative_tokens":7}'
    ),
    "--compilation-config": '{"cudagraph_mode":"FULL","cache_dir":"/cache/a"}',
    "--enforce-eager": None,
    "--port": "8218",
    "--api-key": SECRET,
    "--served-model-name": "qwen",
}  # fmt: skip

ENVIRON = {
    "RADIANCE_MXFP4": "1", "RADIANCE_USE_R4D": "1", "VLLM_ROCM_USE_AITER": "1",
    "VLLM_CACHE_ROOT": "/cache", "NCCL_DEBUG": "INFO", "VLLM_API_KEY": SECRET,
    "TRITON_CACHE_DIR": "/cache/triton", "HSA_XNACK": "0", "PATH": "/bin", "HF_TOKEN": SECRET,
}  # fmt: skip


def line(options: Mapping[str, str | None]) -> list[str]:
    words = (word for name, value in options.items() for word in (name, value) if word is not None)
    return ["vllm", "serve", "/models/Qwen", *words]


def launch(**changed: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "argv": line(OPTIONS),
        "environ": ENVIRON,
        "image": "sha256:bebc00145d7d",
        "versions": {"vllm": "0.32.0", "torch": "2.10.0"},
        "gpu": {"arch": "gfx1201", "count": 2},
        "models": {"model": identity("a"), "drafter": identity("b")},
        "unread": {},
    }
    return copy.deepcopy({**whole, **changed})


BASE = fingerprint_of(launch())


def but(name: str, value: str | None) -> dict[str, Any]:
    """The launch with one option changed or added."""
    return launch(argv=line({**OPTIONS, name: value}))


def env(name: str, value: str) -> dict[str, Any]:
    return launch(environ={**ENVIRON, name: value})


# --- what never changes it -----------------------------------------------------------------------


def test_a_launch_is_the_same_as_itself_and_nothing_of_it_is_unknown() -> None:
    again = fingerprint_of(launch())

    assert again == BASE
    assert not again.partial
    assert compare(BASE, again).same
    assert compare(BASE, again).words() == "nothing changed"


@given(
    st.permutations(list(OPTIONS.items())),
    st.permutations(list(ENVIRON.items())),
    st.integers(1024, 65535),
    st.text("abcXYZ019_-", min_size=1).filter(lambda key: not key.startswith("-")),
)
def test_order_port_and_api_key_never_change_it(
    options: list[tuple[str, str | None]], environ: list[tuple[str, str]], port: int, key: str
) -> None:
    given_options = {**dict(options), "--port": str(port), "--api-key": key}
    other = launch(
        argv=line(given_options), environ={**dict(environ), "VLLM_API_KEY": key, "HF_TOKEN": key}
    )

    assert fingerprint_of(other) == BASE


@pytest.mark.parametrize(
    "name", sorted({n for row in QUIET for n in row.names if not n.startswith(("env ", "gpu "))})
)
def test_a_quiet_option_never_changes_it(name: str) -> None:
    option, _, key = name.replace("*", "x").partition(" ")
    argv = [*line(OPTIONS), f"--{option}.{key}=x" if key else f"--{option}=x"]

    assert fingerprint_of(launch(argv=argv)) == BASE


@pytest.mark.parametrize(
    "name", sorted({n[4:] for row in QUIET for n in row.names if n.startswith("env ")})
)
def test_a_quiet_variable_never_changes_it(name: str) -> None:
    assert fingerprint_of(env(name.replace("*", "X"), "other")) == BASE


def test_variables_of_other_families_never_change_it() -> None:
    assert fingerprint_of(env("PATH", "/elsewhere")) == BASE
    assert fingerprint_of(env("PYTHONHASHSEED", "1")) == BASE


def test_when_it_started_and_in_which_container_is_no_factor() -> None:
    other = launch(started_at=5.0, container="abc", unread={"started_at": "not readable"})

    assert fingerprint_of(other) == BASE


# --- what always changes it ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    sorted({n for row in GRAPHS for n in row.names if not n.startswith("env ")} - {"model"}),
)
def test_each_listed_factor_changes_it_and_is_named(name: str) -> None:
    """One way for each kind of row; a row of a new kind fails here."""
    first, _, rest = name.partition(" ")
    if first in ("model", "drafter") and rest:
        other = launch()
        other["models"][first][rest] = "ffff"
    elif name in ("drafter", "speculative-config *"):
        key = "model" if name == "drafter" else "rerank"
        other = but(f"--speculative-config.{key}", "80")
    elif name == "image":
        other = launch(image="sha256:other")
    elif first == "version":
        other = launch(versions={"vllm": "0.32.0", "torch": "2.10.1"})
    elif first == "gpu":
        other = launch(gpu={"arch": "gfx1200", "count": 2})
    else:
        value = "false" if is_flag(first) else "other"  # one of them is on in the launch
        other = but(f"--{first}.key" if rest else f"--{first}", value)

    changed = compare(BASE, fingerprint_of(other)).changed

    assert len(changed) == 1
    assert changed[0].name.startswith(name.rstrip("*"))
    assert fingerprint_of(other).digest != BASE.digest


def test_another_model_changes_it() -> None:
    other = launch(argv=[*line(OPTIONS)[:2], "/models/Other", *line(OPTIONS)[3:]])

    assert compare(BASE, fingerprint_of(other)).changed == (
        Difference("model", "/models/Qwen", "/models/Other"),
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value", ["", "0", "1"])
def test_a_variable_of_each_family_changes_it(family: str, value: str) -> None:
    other = fingerprint_of(env(f"{family}_SWITCH", value))

    assert [one.name for one in compare(BASE, other).changed] == [f"env {family}_SWITCH"]


@given(
    st.text("abcdefghijklmnopqrstuvwxyz-", min_size=3, max_size=20),
    st.text("abc019./_", min_size=1, max_size=9),
)
def test_an_option_that_nobody_knows_changes_it(name: str, value: str) -> None:
    name = f"x{name.strip('-')}x"
    if is_secret(name):
        return

    assert not known(name)
    assert fingerprint_of(but(f"--{name}", value)).digest != BASE.digest


@pytest.mark.parametrize(
    ("argv", "kept"),
    [
        ({"--image": "x"}, "option image"),
        ({"--drafter": "x"}, "option drafter"),
        ({"--gpu.arch": "x"}, "option gpu arch"),
        ({"--env VLLM_ROCM_USE_AITER": "x"}, "option env VLLM-ROCM-USE-AITER"),
    ],
)
def test_an_option_cannot_pass_for_another_fact(argv: dict[str, str], kept: str) -> None:
    changed = compare(BASE, fingerprint_of(launch(argv=line({**OPTIONS, **argv})))).changed

    assert changed == (Difference(kept, "", "x"),)


def test_no_key_of_the_model_passes_for_its_files() -> None:
    other = fingerprint_of(launch(argv=[*line(OPTIONS), "--model", '{"files":"x"}']))

    assert [one.name for one in compare(BASE, other).changed] == ["model", "arguments"]


def test_two_long_names_are_two_factors() -> None:
    names = [f"VLLM_{'X' * 300}{end}" for end in "AB"]
    found = fingerprint_of(launch(environ=dict.fromkeys(names, "1")))

    long = [factor.name for factor in found.factors if "XXX" in factor.name]
    assert len(long) == 2
    assert all(len(name) <= MOST_NAME for name in long)


# --- the incident --------------------------------------------------------------------------------

RADIANCE = "/mnt/models/radiance/Qwen3.8-27B"


def pinned(image: str, model: str, drafter: str, depth: int, seed: str) -> dict[str, Any]:
    """The seed incident's launcher, with what was pinned in it."""
    drafts = {"method": "dflash", "model": drafter, "num_speculative_tokens": depth}
    words = [
        "-tp",
        "2",
        "--max-model-len",
        "262144",
        "--max-num-seqs",
        "8",
        "--gpu-memory-utilization",
        "0.97",
    ]
    return launch(
        argv=["vllm", "serve", model, *words, "--speculative-config", json.dumps(drafts)],
        image=image,
        models={"model": identity(seed), "drafter": identity(f"{seed}d")},
    )


BEFORE = pinned("sha256:0a1b2c3d4e5f", f"{RADIANCE}-MXFP4", f"{RADIANCE}-DFlash", 3, "a")
AFTER = pinned("sha256:bebc00145d7d", f"{RADIANCE}-MXFP4-mtpfp8", f"{RADIANCE}-DFlash2-FP8", 7, "b")


def test_the_re_pin_of_the_incident_is_told_in_words() -> None:
    told = compare(fingerprint_of(BEFORE), fingerprint_of(AFTER))

    assert not told.same
    assert told.words().startswith(
        "image sha256:0a1b2c3d4e5f -> sha256:bebc00145d7d; "
        "model /mnt/models/radiance/Qwen3.8-27B-MXFP4 -> "
        "/mnt/models/radiance/Qwen3.8-27B-MXFP4-mtpfp8; "
    )
    assert (
        "drafter /mnt/models/radiance/Qwen3.8-27B-DFlash -> "
        "/mnt/models/radiance/Qwen3.8-27B-DFlash2-FP8; " in told.words()
    )
    assert "speculative-config num_speculative_tokens 3 -> 7" in told.words()


def test_the_same_launch_a_week_later_is_the_same() -> None:
    assert compare(fingerprint_of(AFTER), fingerprint_of(copy.deepcopy(AFTER))).same


def test_only_a_swapped_drafter_under_the_same_path_is_seen() -> None:
    other = launch(models={"model": identity("a"), "drafter": {**identity("b"), "files": "new"}})

    told = compare(BASE, fingerprint_of(other))

    assert [one.name for one in told.changed] == ["drafter files"]
    assert told.words() == (
        "drafter files 4 files, 19,400,000,000 bytes (b2b2b2b2) -> "
        "4 files, 19,400,000,000 bytes (new)"
    )


# --- what could not be read ----------------------------------------------------------------------


def test_an_environment_that_was_not_read_proves_nothing() -> None:
    partial = fingerprint_of(launch(environ=None, unread={"environ": "of another user"}))

    told = compare(BASE, partial)

    assert partial.partial
    assert partial.unread == (("environ", "of another user"),)
    assert told.changed == ()
    assert told.unknown == ("environ",)
    assert not told.same
    assert told.words() == "no change was seen; not known: environ"
    assert compare(partial, BASE) == told


def test_two_that_read_the_same_half_prove_nothing_either() -> None:
    partial = fingerprint_of(launch(environ=None, unread={"environ": "of another user"}))

    assert partial.digest == fingerprint_of(launch(environ=None)).digest
    assert not compare(partial, partial).same


def test_a_partial_one_can_show_a_change() -> None:
    partial = fingerprint_of({**but("--tensor-parallel-size", "4"), "environ": None})

    assert compare(BASE, partial).words() == "tensor-parallel-size 2 -> 4; not known: environ"


@pytest.mark.parametrize("part", ["argv", "environ", "versions"])
def test_what_is_missing_without_a_word_was_not_read(part: str) -> None:
    assert fingerprint_of(launch(**{part: None})).unread[0][0] == part


@pytest.mark.parametrize(("part", "empty"), [("argv", []), ("versions", {})])
def test_a_server_has_a_command_line_and_a_version(part: str, empty: Any) -> None:
    assert fingerprint_of(launch(**{part: empty})).unread[0][0] == part


def test_an_environment_may_be_empty() -> None:
    assert not fingerprint_of(launch(environ={})).partial


def test_a_host_may_have_no_image_and_no_gpu() -> None:
    assert not fingerprint_of(launch(image=None, gpu=None)).partial


def test_an_image_that_was_not_asked_for_is_no_change() -> None:
    told = compare(BASE, fingerprint_of(launch(image=None, unread={"image": "not asked for"})))

    assert (told.changed, told.unknown) == ((), ("image",))


def test_an_image_that_is_gone_is_a_change() -> None:
    told = compare(BASE, fingerprint_of(launch(image=None)))

    assert told.words() == "image sha256:bebc00145d7d -> (absent)"


@pytest.mark.parametrize(
    "models",
    [
        {"model": identity("a"), "drafter": {**identity("b"), "unread": {"tensors": "cut"}}},
        {
            "model": {"facts": identity("a"), "unread": {}},
            "drafter": {"facts": identity("b"), "unread": {"tensors": "cut"}},
        },
    ],
)
def test_a_part_of_a_model_that_was_read_by_half_is_not_compared(models: dict[str, Any]) -> None:
    models = copy.deepcopy(models)
    models["drafter"].get("facts", models["drafter"])["tensors"] = "half"

    told = compare(BASE, fingerprint_of(launch(models=models)))

    assert (told.changed, told.unknown) == ((), ("drafter tensors",))


def test_the_readers_words_for_a_part_of_a_model_are_known() -> None:
    models = {"model": identity("a"), "drafter": identity("b")}
    del models["model"]["tensors"]

    found = fingerprint_of(launch(models=models, unread={"model files: tensors": "too long"}))

    assert found.unread == (("model tensors", "too long"),)
    assert compare(BASE, found).changed == ()


def test_a_drafter_that_nobody_looked_at_is_not_known() -> None:
    told = compare(BASE, fingerprint_of(launch(models={"model": identity("a")})))

    assert (told.changed, told.unknown) == ((), ("drafter files",))


def test_ngram_has_no_drafter_to_look_at() -> None:
    options = {**OPTIONS, "--speculative-config": '{"method":"ngram","num_speculative_tokens":4}'}

    assert not fingerprint_of(launch(argv=line(options), models={"model": identity()})).partial


def test_options_in_a_file_make_it_partial() -> None:
    found = fingerprint_of(launch(argv=[*line(OPTIONS), "--config", "/etc/vllm.yaml"]))

    assert [part for part, _ in found.unread] == ["argv"]
    assert not compare(found, found).same


# --- configured names ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["VLLM_ROCM_USE_AITER", "env VLLM_ROCM_USE_AITER", "VLLM_ROCM_*"])
def test_a_configured_name_no_longer_counts(name: str) -> None:
    other = fingerprint_of(env("VLLM_ROCM_USE_AITER", "0"), less=[name])

    assert other == fingerprint_of(launch(), less=[name])
    assert compare(BASE.counted(less=[name]), other).same  # what was kept before it was configured


@pytest.mark.parametrize("name", ["seed", "--seed", "s*"])
def test_a_configured_name_counts(name: str) -> None:
    one, other = (fingerprint_of(but("--seed", seed), more=[name]) for seed in "12")

    assert compare(one, other).words() == "seed 1 -> 2"


def test_a_variable_of_no_family_can_be_configured() -> None:
    base = fingerprint_of(launch(), more=["PYTORCH_*"])
    other = fingerprint_of(env("PYTORCH_TUNABLEOP_ENABLED", "1"), more=["PYTORCH_*"])

    assert [one.name for one in compare(base, other).changed] == ["env PYTORCH_TUNABLEOP_ENABLED"]
    assert watched("PYTORCH_X", ["PYTORCH_*"])
    assert not watched("PYTORCH_X")


@pytest.mark.parametrize(("name", "part"), [("PYTORCH_*", "env PYTORCH_*"), ("--seed", "seed")])
def test_a_name_that_counts_only_since_the_configuration_changed_is_unknown_and_no_change(
    name: str, part: str
) -> None:
    facts = {**but("--seed", "1"), "environ": {**launch()["environ"], "PYTORCH_X": "1"}}
    was, now = fingerprint_of(facts), fingerprint_of(facts, more=[name])

    assert now.digest != was.digest
    assert compare(was, now) == Comparison((), (part,))
    assert compare(now, was).same  # and once it counts no longer, nothing is missing
    assert compare(was, fingerprint_of(but("--tensor-parallel-size", "4"), more=[name])).changed


def test_a_name_that_was_counted_anyhow_is_known_though_it_was_configured_later() -> None:
    more = ["VLLM_ROCM_USE_AITER", "tensor-parallel-size"]
    assert compare(BASE, fingerprint_of(launch(), more=more)).same
    other = fingerprint_of(env("VLLM_ROCM_USE_AITER", "0"), more=more)
    assert [one.name for one in compare(BASE, other).changed] == ["env VLLM_ROCM_USE_AITER"]


def test_a_name_that_counts_again_is_unknown_of_what_was_kept_without_it() -> None:
    was = fingerprint_of(launch(), less=["VLLM_ROCM_USE_AITER"])
    assert compare(was, BASE) == Comparison((), ("env VLLM_ROCM_USE_AITER",))
    assert compare(BASE, was).same


def test_the_configuration_goes_with_a_fingerprint_and_is_not_in_its_digest() -> None:
    found = fingerprint_of(launch(), more=["Z_*", "--a_b", "Z_*"], less=["VLLM_NOT_THERE"])
    data = json.loads(json.dumps(found.as_dict()))

    assert (data["more"], data["less"]) == (["a-b", "env Z_*"], ["env VLLM_NOT_THERE"])
    assert Fingerprint.from_dict(data) == found
    assert found.digest == BASE.digest
    assert "more" not in BASE.as_dict()
    with pytest.raises(ValueError, match="more: not a list of at most 128"):
        Fingerprint.from_dict({**data, "more": ["x"] * 129})


def test_what_is_filled_up_from_an_older_one_counts_by_the_newer_ones_configuration() -> None:
    dark = launch(environ=None, unread={"environ": "no"})
    now = fingerprint_of(dark, less=["VLLM_ROCM_*"]).filled(BASE)

    assert "env VLLM_ROCM_USE_AITER" not in {x.name for x in now.factors}
    assert now.less == ("env VLLM_ROCM_*",)


def test_one_process_by_another_configuration_is_what_it_was_in_all_that_counted() -> None:
    facts = {**but("--seed", "1"), "environ": {**launch()["environ"], "PYTORCH_X": "1"}}
    later = fingerprint_of(facts, more=["PYTORCH_*", "seed"], less=["VLLM_ROCM_*"])
    swapped = {**facts, "models": {**facts["models"], "model": identity("z")}}
    again = fingerprint_of(swapped, more=["PYTORCH_*", "seed"], less=["VLLM_ROCM_*"])

    assert fingerprint_of(facts).recounted(again) == later
    assert fingerprint_of(facts).recounted(fingerprint_of(swapped)) == fingerprint_of(facts)


def test_a_secret_cannot_be_configured_to_count() -> None:
    found = fingerprint_of(launch(), more=["HF_TOKEN", "VLLM_API_KEY", "--api-key"])

    assert SECRET not in json.dumps(found.as_dict())
    assert not [factor for factor in found.factors if factor.name.startswith("env HF_")]


def test_of_both_the_name_that_counts_wins() -> None:
    assert counts("env VLLM_X", more=["VLLM_X"], less=["VLLM_*"])
    assert not counts("env VLLM_X", less=["VLLM_*"])


def test_a_lone_star_does_not_silence_everything() -> None:
    assert counts("model", less=["*"])


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("VLLM_X", "env VLLM_X"),
        ("env VLLM_X", "env VLLM_X"),
        ("RADIANCE_*", "env RADIANCE_*"),
        ("--max_model_len", "max-model-len"),
        (" seed ", "seed"),
        ("speculative-config.rerank_k", "speculative-config rerank_k"),
        ("gpu arch", "gpu arch"),
        ("drafter files", "drafter files"),
    ],
)
def test_a_name_may_be_written_as_people_do(written: str, name: str) -> None:
    assert named(written) == name


@pytest.mark.parametrize(
    "name",
    [
        *("model", "model files", "quantization", "drafter", "drafter files", "image"),
        *("speculative-config num_speculative_tokens", "version aiter", "gpu arch"),
        *("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"),
        *("env VLLM_X", "env RADIANCE_X", "env AITER_X", "env TRITON_X", "env TORCHDYNAMO_X"),
        *("env HIP_X", "env HSA_X", "env NCCL_X", "env CUDA_X"),
    ],
)
def test_what_is_known_to_change_graphs_is_in_the_table(name: str) -> None:
    assert known(name)
    assert counts(name)


def test_no_name_is_in_both_tables_and_each_row_has_a_reason() -> None:
    loud, quiet = ([name for row in table for name in row.names] for table in (GRAPHS, QUIET))

    assert len({*loud, *quiet}) == len(loud) + len(quiet)
    assert all(name == named(name) for name in (*loud, *quiet))
    assert all(row.reason for row in (*GRAPHS, *QUIET))
    assert all(counts(name) for name in loud)
    assert not any(counts(name) for name in quiet)


# --- secrets, bounds, and the way back -----------------------------------------------------------

PLACES = st.sampled_from(["option", "equals", "json", "dotted", "variable", "url", "value", "list"])


NAMES = st.sampled_from(["api_key", "HF_TOKEN", "client_secret", "DB_PASSWORD", "authToken"])


@given(PLACES, NAMES)
def test_no_secret_is_in_any_output_or_in_any_digest(place: str, name: str) -> None:
    def seeded(secret: str) -> dict[str, Any]:
        words = {
            "option": [f"--{name}", secret],
            "list": [f"--{name}", "first", secret],
            "equals": [f"--{name}={secret}"],
            "json": ["--extra-config", json.dumps({"deep": [{name: secret}]})],
            "dotted": [f"--extra-config.{name}", secret],
            "url": ["--extra", f"http://u:{secret}@host/?{name}={secret}"],
        }
        environ = {
            "variable": {f"VLLM_{name.upper()}": secret},
            "value": {"VLLM_EXTRA": f"{name}={secret} http://u:{secret}@h"},
        }
        return launch(
            argv=[*line(OPTIONS), *words.get(place, [])],
            environ={**ENVIRON, **environ.get(place, {})},
            image=f"https://u:{secret}@registry/image",
            unread={"extra": f"http://u:{secret}@host said no"},
        )

    one, other = (fingerprint_of(seeded(f"{seed}{SECRET}")) for seed in "AB")
    outputs = (one.as_dict(), compare(BASE, one).words(), repr(one), masked(seeded(SECRET)["argv"]))

    assert SECRET not in "".join(map(str, outputs))
    assert one == other


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "argv": st.none() | st.lists(st.text(max_size=9), max_size=9),
            "environ": st.dictionaries(st.text(max_size=9).map("VLLM_".__add__), st.text()),
            "image": st.none() | st.text(),
            "versions": st.none() | st.dictionaries(st.text(), st.none() | st.text()),
            "gpu": st.none() | st.dictionaries(st.text(), st.integers() | st.text()),
            "unread": st.dictionaries(st.text(), st.text()),
        },
    )
)  # fmt: skip
def test_any_launch_has_a_fingerprint_that_is_bounded_and_comes_back(told: dict[str, Any]) -> None:
    found = fingerprint_of(told)

    data = json.loads(json.dumps(found.as_dict()))
    assert Fingerprint.from_dict(data) == found
    assert all(len(f.name) <= MOST_NAME and len(f.shown) <= MOST_SHOWN for f in found.factors)
    assert all(text.isprintable() for f in found.factors for text in f)


def test_half_a_character_counts_and_can_be_printed() -> None:
    one, other = (fingerprint_of(env("VLLM_X", text)) for text in ("\udc80", "\udc81"))

    assert one.digest != other.digest
    assert compare(one, other).words() == "env VLLM_X changed"
    json.dumps(one.as_dict(), ensure_ascii=False).encode()


def test_more_factors_than_are_kept_make_it_partial() -> None:
    many = fingerprint_of(launch(environ={f"VLLM_{i:04}": "1" for i in range(2 * MOST_FACTORS)}))

    assert len(many.factors) == MOST_FACTORS
    assert "factors" in dict(many.unread)
    assert not compare(many, many).same


def test_a_command_line_that_is_too_long_is_not_read_by_half() -> None:
    found = fingerprint_of(launch(argv=["vllm", "serve", "m", *["x"] * MOST_WORDS]))

    assert dict(found.unread)["argv"] == f"more than {MOST_WORDS} words"
    assert compare(BASE, found).changed == ()


def test_many_parts_that_could_not_be_read_are_counted() -> None:
    found = fingerprint_of(launch(unread={f"part {i:03}": "no" for i in range(100)}))

    assert len(found.unread) == MOST_UNREAD
    assert ("others", "69 more parts") in found.unread


def test_many_changes_are_counted() -> None:
    other = fingerprint_of(launch(environ={f"RADIANCE_{i}": "1" for i in range(40)}))

    assert compare(BASE, other).words().endswith("; 32 more")


@pytest.mark.parametrize(
    ("spoil", "named_key"),
    [
        (lambda d: d.pop("factors"), "factors"),
        (lambda d: d.update(factors={}), "factors"),
        (lambda d: d.update(factors=[3]), r"factors\[0\].name"),
        (lambda d: d.update(factors=d["factors"] * 99), "factors"),
        (lambda d: d["factors"][1].pop("name"), r"factors\[1\].name"),
        (lambda d: d["factors"][1].update(digest="Z" * 16), r"factors\[1\].digest"),
        (lambda d: d["factors"][1].update(shown="x" * 999), r"factors\[1\].shown"),
        (lambda d: d["factors"].reverse(), "factors"),
        (lambda d: d["factors"].pop(), "digest"),
        (lambda d: d.pop("digest"), "digest"),
        (lambda d: d.update(unread=None), "unread"),
        (lambda d: d.update(unread=[{"part": 1}]), r"unread\[0\].part"),
    ],
)
def test_a_fingerprint_that_was_spoilt_is_refused_by_the_key(spoil: Any, named_key: str) -> None:
    data = BASE.as_dict()
    spoil(data)

    with pytest.raises(ValueError, match=f"^{named_key}: "):
        Fingerprint.from_dict(data)


@pytest.mark.parametrize("data", [None, [], "x", 3])
def test_what_is_no_fingerprint_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="not an object"):
        Fingerprint.from_dict(data)


def test_the_page_for_operators_names_every_factor_of_the_tables():
    page = Path(__file__).parents[2].joinpath("docs", "compile-cache.md").read_text()
    for row in (*GRAPHS, *QUIET):
        for name in row.names:
            assert f"`{name.removeprefix('env ')}`" in page, name


def test_what_is_no_factor_makes_nothing_partial_where_it_cannot_be_read() -> None:
    dark = launch(unread={"gpu driver": "nvidia: EACCES"})
    assert not fingerprint_of(dark).partial
    assert fingerprint_of(dark, more=("gpu driver",)).unread == (("gpu driver", "nvidia: EACCES"),)


def test_another_driver_is_no_other_launch() -> None:
    old, new = (launch(gpu={"arch": "gfx1201", "driver": d}) for d in ("6.12", "6.13"))
    assert compare(fingerprint_of(old), fingerprint_of(new)).same
    more = ("gpu driver",)
    changed = compare(fingerprint_of(old, more), fingerprint_of(new, more)).changed
    assert [one.name for one in changed] == ["gpu driver"]
