"""Telling models apart by their files: what is a change, what is none, what cannot be read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog import model_files, safetensors
from watchdog.model_files import PARTS, identity

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 5120,
    "dtype": "bfloat16",
    "quantization_config": {"quant_method": "mxfp4", "bits": 4, "group_size": 32},
}
TENSORS = {
    "lm_head.weight": {"dtype": "BF16", "shape": [32, 64], "data_offsets": [0, 4096]},
    "model.norm.weight": {"dtype": "BF16", "shape": [64], "data_offsets": [4096, 4224]},
}
FIRST, SECOND = (f"model-0000{i}-of-00002.safetensors" for i in (1, 2))


def soon(seconds=30.0):
    return time.monotonic() + seconds


def look(folder):
    return identity(folder, soon())


def model(folder: Path, config=CONFIG, tensors=TENSORS, name=FIRST) -> Path:
    """Make a folder as the hub has them, with sparse weights."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    weights(folder / name, tensors)
    (folder / "tokenizer.json").write_text("{}")
    return folder


def weights(path, header, claims=None, room=4224):
    """Write a safetensors file; `claims`: the length of its header that it tells."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    told = len(text) if claims is None else claims
    path.write_bytes(told.to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + room)
    os.utime(path, ns=(10**18, 10**18))


# --- what is told ---


def test_a_model_is_told_by_its_configuration_tensors_and_files(tmp_path):
    found = look(model(tmp_path))

    assert not found.unread
    assert found.facts["architecture"] == "Qwen3ForCausalLM"
    assert found.facts["quantization"].startswith("mxfp4, 4 bits, groups of 32 (")
    assert found.facts["count"] == 1
    assert found.facts["bytes"] == (tmp_path / FIRST).stat().st_size
    assert all(len(found.facts[part]) == 16 for part in ("config", "tensors", "files"))
    assert json.loads(json.dumps(found.as_dict())) == {**found.facts, "unread": {}}


def test_the_same_model_is_told_the_same(tmp_path):
    first = look(model(tmp_path / "a"))
    backwards = dict(reversed(CONFIG.items()))

    second = look(model(tmp_path / "b", backwards, dict(reversed(TENSORS.items()))))

    assert second == first


def test_no_weight_is_read(tmp_path):
    """Other numbers in the same place change nothing but the time, which is put back here."""
    before = look(model(tmp_path))
    with (tmp_path / FIRST).open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"x" * 100)
    os.utime(tmp_path / FIRST, ns=(10**18, 10**18))

    assert look(tmp_path) == before


def changed(before, after):
    return {part for part in after.facts if after.facts[part] != before.facts[part]}


def test_a_file_that_was_swapped_under_the_same_path_is_seen(tmp_path):
    before = look(model(tmp_path))
    os.utime(tmp_path / FIRST, ns=(10**18, 10**18 + 1))  # a nanosecond later

    assert changed(before, look(tmp_path)) == {"files"}


def test_one_byte_more_is_seen(tmp_path):
    before = look(model(tmp_path))
    weights(tmp_path / FIRST, TENSORS, room=4225)

    assert changed(before, look(tmp_path)) == {"files", "bytes"}


def test_another_name_of_a_file_is_seen(tmp_path):
    before = look(model(tmp_path))
    (tmp_path / FIRST).rename(tmp_path / SECOND)

    assert changed(before, look(tmp_path)) == {"files"}


@pytest.mark.parametrize(
    "tensors",
    [
        {**TENSORS, "lm_head.weight": {**TENSORS["lm_head.weight"], "dtype": "FP16"}},
        {**TENSORS, "lm_head.weight": {**TENSORS["lm_head.weight"], "shape": [64, 32]}},
        {**TENSORS, "lm_head.bias": TENSORS["lm_head.weight"]},
        {"lm_head.weight": TENSORS["lm_head.weight"]},
        {},
    ],
)
def test_other_tensors_are_seen(tmp_path, tensors):
    before = look(model(tmp_path))
    weights(tmp_path / FIRST, tensors)

    assert "tensors" in changed(before, look(tmp_path))


def test_where_the_bytes_of_a_tensor_lie_does_not_count(tmp_path):
    before = look(model(tmp_path / "one"))
    moved = {name: {**told, "data_offsets": [0, 1]} for name, told in (*TENSORS.items(),)}
    folder = model(tmp_path / "two", tensors={"__metadata__": {"format": "pt"}})
    for name, told in moved.items():
        weights(folder / f"{name}.safetensors", {name: told})

    assert look(folder).facts["tensors"] == before.facts["tensors"]


@pytest.mark.parametrize("key", ["hidden_size", "dtype", "architectures"])
def test_another_configuration_is_seen(tmp_path, key):
    before = look(model(tmp_path))
    model(tmp_path, {**CONFIG, key: "other"})

    assert "config" in changed(before, look(tmp_path))


def test_code_that_a_model_brings_counts(tmp_path):
    (model(tmp_path) / "modeling_mine.py").write_text("depth = 3")
    before = look(tmp_path)
    (tmp_path / "modeling_mine.py").write_text("depth = 77")

    assert changed(before, look(tmp_path)) == {"files", "bytes"}


def test_files_that_make_no_graphs_do_not_count(tmp_path):
    before = look(model(tmp_path))
    (tmp_path / "tokenizer.json").write_text('{"more": 1}')
    (tmp_path / "README.md").write_text("more")
    (tmp_path / ".cache").mkdir()

    assert look(tmp_path) == before


# --- quantization ---


def told(folder, config, **files):
    model(folder, config)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return look(folder).facts["quantization"]


def test_a_model_that_is_not_quantized_says_so(tmp_path):
    assert told(tmp_path, {"dtype": "bfloat16"}) == "none, bfloat16"
    assert told(tmp_path, {"torch_dtype": "float16"}) == "none, float16"
    assert told(tmp_path, {"text_config": {"dtype": "bfloat16"}}) == "none, bfloat16"
    assert told(tmp_path, {}) == "none"


def test_a_quantization_is_found_where_a_model_has_one_for_text(tmp_path):
    quantized = {"text_config": {"quantization_config": {"quant_method": "fp8"}}}

    assert told(tmp_path, quantized).startswith("fp8 (")


def test_a_quantization_is_found_in_a_file_of_its_own(tmp_path):
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}

    assert told(tmp_path, {}, hf_quant_config=beside).startswith("NVFP4 (")


def test_a_detail_of_a_quantization_is_seen_too(tmp_path):
    texts = set()
    for ignored in ("lm_head", "embed_tokens"):
        texts.add(
            told(tmp_path, {"quantization_config": {"quant_method": "fp8", "ignore": ignored}})
        )

    assert len(texts) == 2


def test_a_quantization_that_cannot_be_read_is_told(tmp_path):
    model(tmp_path, {})
    (tmp_path / "hf_quant_config.json").write_text("[")

    found = look(tmp_path)

    assert found.unread == {"quantization": "hf_quant_config.json holds no JSON that can be read"}


# --- other kinds of models ---


def test_a_snapshot_of_the_hub_is_links_into_its_blobs(tmp_path):
    plain = look(model(tmp_path / "plain"))
    snapshot = tmp_path / "models--a--b/snapshots/0123"
    blobs = tmp_path / "models--a--b/blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for i, path in enumerate(sorted((tmp_path / "plain").iterdir())):
        shutil.copy2(path, blobs / f"{i:040x}")
        (snapshot / path.name).symlink_to(f"../../blobs/{i:040x}")

    assert look(snapshot) == plain


def test_weights_without_safetensors_are_told_by_their_files(tmp_path):
    model(tmp_path)
    (tmp_path / FIRST).rename(tmp_path / "pytorch_model.bin")

    found = look(tmp_path)

    assert not found.unread
    assert found.facts["tensors"] == "none"


def test_a_model_may_be_one_file(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")

    found = look(tmp_path / "model.gguf")

    assert (found.facts["count"], found.facts["bytes"]) == (1, 4)
    assert set(found.unread) == {"config", "quantization"}


def test_mistrals_own_configuration_counts_where_there_is_no_other(tmp_path):
    model(tmp_path)
    (tmp_path / "config.json").rename(tmp_path / "params.json")

    assert not look(tmp_path).unread


# --- what cannot be read ---


def test_a_folder_that_is_not_there_is_told_in_every_part(tmp_path):
    found = look(tmp_path / "none")

    assert found.facts == {}
    assert found.unread == dict.fromkeys(PARTS, f"{tmp_path / 'none'} is not there")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to(path)])
def test_what_is_no_folder_is_told_and_does_not_block(tmp_path, make):
    make(tmp_path / "model")

    assert set(look(tmp_path / "model").unread) == set(PARTS)


def test_an_empty_folder_holds_no_model(tmp_path):
    found = look(tmp_path)

    assert found.facts == {}
    assert found.unread["config"] == "config.json is not there"
    assert found.unread["files"] == found.unread["tensors"] == f"{tmp_path} holds no weights"


def test_code_alone_is_no_model(tmp_path):
    (tmp_path / "modeling_mine.py").touch()

    assert look(tmp_path).unread["files"] == f"{tmp_path} holds no weights"


def test_time_that_is_over_is_told_in_every_part(tmp_path):
    found = identity(model(tmp_path), time.monotonic() - 1)

    assert found.unread == dict.fromkeys(PARTS, "there was no time left to read it")


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5])
def test_time_that_runs_out_leaves_each_part_in_one_of_both(tmp_path, monkeypatch, rounds):
    model(tmp_path)
    weights(tmp_path / SECOND, {})
    clock = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))

    found = identity(tmp_path, deadline=rounds - 1)

    assert (set(found.facts) & set(PARTS)) ^ set(found.unread) == set(PARTS)
    assert "there was no time left to read it" in found.unread.values() or rounds == 5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "config.json holds no JSON that can be read"),
        ("[" * 100_000, "config.json holds no JSON that can be read"),
        ('{"a":' * 900 + "1" + "}" * 900, ""),
        ("[]", "config.json holds JSON that is no object"),
        ("5", "config.json holds JSON that is no object"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_told(tmp_path, text, reason):
    (model(tmp_path) / "config.json").write_text(text)

    found = look(tmp_path)

    assert found.unread == (dict.fromkeys(PARTS[:2], reason) if reason else {})
    assert "tensors" in found.facts


def test_a_configuration_of_100_megabytes_is_not_read(tmp_path):
    os.truncate(model(tmp_path) / "config.json", 100_000_000)

    assert look(tmp_path).unread["config"] == ("config.json has 100000000 bytes, more than 2097152")


def test_an_architecture_that_is_odd_is_shown_in_one_line(tmp_path):
    found = look(model(tmp_path, {"architectures": ["a\n\x1b[31mb" * 50, {"c": "\ud800"}, 5]}))

    assert found.facts["architecture"].isprintable()
    assert len(found.facts["architecture"]) <= 120


@pytest.mark.parametrize("name", ["config.json", FIRST, "modeling_mine.py"])
@pytest.mark.parametrize("kind", ["pipe", "directory", "dangling", "circle", "memory"])
def test_a_file_that_is_none_is_told_by_name_and_does_not_block(tmp_path, name, kind):
    path = model(tmp_path) / name
    path.unlink(missing_ok=True)
    {
        "pipe": lambda: os.mkfifo(path),
        "directory": path.mkdir,
        "dangling": lambda: path.symlink_to("nowhere"),
        "circle": lambda: path.symlink_to(name),
        "memory": lambda: path.symlink_to("/proc/self/mem"),
    }[kind]()

    found = look(tmp_path)

    if (name, kind) == ("modeling_mine.py", "memory"):  # its size and time can be told
        assert not found.unread
    else:
        assert all(name in reason for reason in found.unread.values())
        assert found.unread


def test_a_device_is_not_opened(tmp_path, monkeypatch):
    """Some do something when they are: /dev/watchdog starts to count down."""
    path = model(tmp_path) / FIRST
    path.unlink()
    path.symlink_to("/dev/null")
    opened = []
    known = os.open
    monkeypatch.setattr(
        os, "open", lambda p, *a, **k: (opened.append(str(p)), known(p, *a, **k))[1]
    )

    found = look(tmp_path)

    assert found.unread == dict.fromkeys(("files", "tensors"), f"{FIRST} is no regular file")
    assert opened == [str(tmp_path / "config.json")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_files_of_another_user_are_told_by_name(open_folder):
    folder = model(open_folder)
    (folder / "config.json").chmod(0)
    (folder / FIRST).chmod(0)
    code = """
import json, os, sys, time
from pathlib import Path
from watchdog.model_files import identity
os.setgid(65534)
os.setuid(65534)
print(json.dumps(identity(Path(sys.argv[1]), time.monotonic() + 30).as_dict()))
"""
    run = subprocess.run(
        [sys.executable, "-c", code, folder], check=True, capture_output=True, text=True
    )

    found = json.loads(run.stdout)
    refused = "is not permitted to this user"
    assert found["unread"] == {
        **dict.fromkeys(PARTS[:2], f"config.json {refused}"),
        "tensors": f"{FIRST} {refused}",
    }
    assert found["count"] == 1  # size and time may be seen all the same


@pytest.fixture
def open_folder():
    """A folder that all may look into; those of pytest are its user's alone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_file_that_vanishes_between_two_looks_is_told(tmp_path, monkeypatch):
    model(tmp_path)
    known = model_files.tensors

    def tensors(path):
        path.unlink()
        return known(path)

    monkeypatch.setattr(model_files, "tensors", tensors)

    assert look(tmp_path).unread == {"tensors": f"{FIRST} is not there"}


def test_many_faults_are_counted(tmp_path):
    model(tmp_path)
    for i in range(9):
        (tmp_path / f"{i}.safetensors").symlink_to("nowhere")

    assert look(tmp_path).unread["files"] == (
        "0.safetensors is not there; 1.safetensors is not there; 2.safetensors is not there;"
        " and 6 more"
    )


# --- bounds ---


def test_a_folder_of_too_many_files_is_no_model(tmp_path, monkeypatch):
    monkeypatch.setattr(model_files, "MOST_FILES", 20)
    model(tmp_path)
    for i in range(17):
        (tmp_path / f"{i}").touch()

    assert not look(tmp_path).unread
    (tmp_path / "one more").touch()
    assert look(tmp_path).unread == dict.fromkeys(PARTS, f"{tmp_path} has more than 20 entries")


def test_more_tensors_than_are_kept_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(model_files, "MOST_TENSORS", 2)
    model(tmp_path)
    assert not look(tmp_path).unread
    weights(tmp_path / SECOND, {"one.more": TENSORS["lm_head.weight"]})

    assert look(tmp_path).unread == {"tensors": "there are more than 2 tensors"}


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        (2**60, "claims a header of 1152921504606846976 bytes, more than 100000000"),
        (2**64 - 1, "claims a header of 18446744073709551615 bytes, more than 100000000"),
        (100_000_001, "claims a header of 100000001 bytes, more than 100000000"),
        (99_000_000, "claims a header of 99000000 bytes and has 6"),
        (7, "claims a header of 7 bytes and has 6"),
        (0, "holds no JSON that can be read"),
    ],
)
def test_a_header_that_claims_too_much_is_refused(tmp_path, claims, reason):
    weights(model(tmp_path) / FIRST, b"{    }", claims=claims, room=0)

    assert look(tmp_path).unread == {"tensors": f"{FIRST} {reason}"}


def test_a_header_that_claims_too_much_is_refused_in_a_large_file_too(tmp_path):
    weights(model(tmp_path) / FIRST, b"{}", claims=2**40, room=2**41)  # sparse

    assert "claims a header" in look(tmp_path).unread["tensors"]


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_file_that_is_too_short_is_told(tmp_path, size):
    os.truncate(model(tmp_path) / FIRST, size)

    assert look(tmp_path).unread == {"tensors": f"{FIRST} is too short for a safetensors header"}


@pytest.mark.parametrize(
    "header",
    [
        {"a": 5},
        {"a": {}},
        {"a": {"dtype": "F32"}},
        {"a": {"dtype": 5, "shape": []}},
        {"a": {"dtype": "F32", "shape": 5}},
        {"a": {"dtype": "F32", "shape": [1.5]}},
        {"a": {"dtype": "F32", "shape": [True]}},
    ],
)
def test_a_header_that_is_none_is_told(tmp_path, header):
    weights(model(tmp_path) / FIRST, header)

    assert f"{FIRST} has a header" in look(tmp_path).unread["tensors"]


def test_a_header_of_megabytes_is_not_taken_apart(tmp_path, monkeypatch):
    """Empty lists need 27 times their length: a daemon that may use 512 MB would be ended."""
    body = b'{"a":[' + b"[]," * (1 << 20) + b"[]]}"
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "a.safetensors").write_bytes(len(body).to_bytes(8, "little") + body)
    monkeypatch.setattr(safetensors, "parsed", None)

    assert "tensors" in identity(tmp_path, soon()).facts


def test_a_long_header_counts_as_it_is(tmp_path, monkeypatch):
    """Taking it apart would need many times its length in memory."""
    monkeypatch.setattr(safetensors, "MOST_PARSED", 50)
    before = look(model(tmp_path))
    last = {**TENSORS["model.norm.weight"], "data_offsets": [4096, 4223]}
    weights(tmp_path / FIRST, {**TENSORS, "model.norm.weight": last})

    assert "tensors" in changed(before, look(tmp_path))
    assert not look(tmp_path).unread


@given(data=st.binary(max_size=200))
def test_no_header_whatsoever_raises(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    weights(path, data, room=0)

    found = look(path)

    assert ("tensors" in found.facts) != ("tensors" in found.unread)
