"""The fingerprint of a command line that is still to run: what changes it, and what does not."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest

from tests.vllm_venv import vllm_on_path
from watchdog.cache_launch import directory_name, facts, fingerprint, with_config_file
from watchdog.domain.fingerprint import Fingerprint
from watchdog.errors import CommandError

__all__ = ["vllm_on_path"]

LATER = time.monotonic() + 1000.0
IMAGE = "sha256:" + "a1" * 32
SECRET = "geheim-4711"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def model(folder: Path, weights: str = "w") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text('{"architectures": ["Qwen3"]}')
    (folder / "model.bin").write_text(weights)
    return folder


@pytest.fixture
def served(tmp_path: Path) -> list[str]:
    """A launch with a drafter whose files are all there."""
    drafter = {"method": "eagle3", "model": str(model(tmp_path / "draft")),
               "num_speculative_tokens": 3}  # fmt: skip
    return [
        "vllm", "serve", str(model(tmp_path / "qwen")), "--tensor-parallel-size", "2",
        "--speculative-config", json.dumps(drafter),
    ]  # fmt: skip


pytestmark = pytest.mark.usefixtures("vllm_on_path")


def of(words: list[str], image: str | None = None, **environ: str) -> Fingerprint:
    return fingerprint(words, {**environ, "PATH": os.environ["PATH"]}, image, LATER)


def test_a_launch_whose_files_are_there_is_whole(served: list[str]) -> None:
    found = of(served)
    assert found.unread == ()
    names = {factor.name for factor in found.factors}
    assert {"model", "model files", "drafter", "drafter files", "tensor-parallel-size"} <= names


def test_what_changes_graphs_changes_it(served: list[str], tmp_path: Path) -> None:
    before = of(served).digest
    others = [
        of([*served, "--max-model-len", "100"]),
        of(["3" if word == "2" else word for word in served]),
        of([word.replace('tokens": 3', 'tokens": 7') for word in served]),
        of(served, VLLM_USE_X="1"),
        of(["env", "VLLM_USE_X=2", *served]),
        of(["AITER_Y=1", *served]),
        of(served, IMAGE),
    ]
    model(tmp_path / "draft", weights="others, under the same path")
    others.append(of(served))
    assert len({before, *(found.digest for found in others)}) == len(others) + 1


def test_what_changes_no_graphs_does_not(served: list[str]) -> None:
    whole = of(served)
    options = [["--port", "9"], ["--api-key", SECRET], ["--served-model-name", "a"],
               ["--tensor-parallel-size=2"]]  # fmt: skip
    random.Random(1).shuffle(options)
    words = [*served[:3], *(word for option in options for word in option), *served[5:]]
    assert of(words, VLLM_CACHE_ROOT="/x", PATH="/bin", VLLM_API_KEY=SECRET) == whole


def test_what_is_set_before_the_program_beats_what_it_inherits(served: list[str]) -> None:
    for words in (["env", "VLLM_USE_X=2", *served], ["VLLM_USE_X=2", *served]):
        assert of(words, VLLM_USE_X="1") == of(served, VLLM_USE_X="2")


def test_no_secret_is_in_the_facts(served: list[str]) -> None:
    words = [*served, "--api-key", SECRET, "--hf-token", SECRET]
    environ = {"VLLM_API_KEY": SECRET, "NCCL_TOKEN": SECRET, "HF_TOKEN": SECRET, "VLLM_X": "1",
               "PATH": "/bin"}  # fmt: skip
    told = facts(words, environ, None, LATER)
    assert SECRET not in json.dumps(told)
    assert told["environ"] == {"VLLM_X": "1"}


def test_an_environment_beyond_all_bounds_is_told_and_not_cut(served: list[str]) -> None:
    many = {f"VLLM_{n}": "1" for n in range(513)}
    assert [part for part, _ in of(served, **many).unread] == ["environ"]
    assert [part for part, _ in of(served, VLLM_X="1" * 4097).unread] == ["environ"]
    assert of(served, VLLM_X="1" * 4096).unread == ()


def test_a_model_that_is_not_here_is_told(served: list[str]) -> None:
    found = of(["vllm", "serve", "org/name", *served[3:]])
    assert found.unread == (("model files", "org/name: no local folder of it was found"),)


def test_a_model_of_the_hub_is_found_where_it_was_downloaded(tmp_path: Path) -> None:
    at = tmp_path / "hf" / "hub" / "models--org--name"
    model(at / "snapshots" / COMMIT)
    (at / "refs").mkdir()
    (at / "refs" / "main").write_text(COMMIT)
    words = ["vllm", "serve", "org/name"]
    assert of(words, HF_HOME=str(tmp_path / "hf")).unread == ()
    assert of(words, HF_HUB_CACHE=str(tmp_path / "hf" / "hub")).unread == ()
    assert of([*words, "--revision", COMMIT], HF_HOME=str(tmp_path / "hf")).unread == ()
    (tmp_path / "huggingface").symlink_to(tmp_path / "hf")
    assert of(words, XDG_CACHE_HOME=str(tmp_path)).unread == ()
    for other in (["--revision", "v2"], ["--revision", "../.."], ["--revision", "x/" * 3000]):
        assert of([*words, *other], HF_HOME=str(tmp_path / "hf")).partial, other


def test_a_relative_model_is_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(tmp_path / "qwen")
    monkeypatch.chdir(tmp_path)
    assert of(["vllm", "serve", "./qwen"]).unread == ()


def test_an_image_by_name_is_refused_since_it_may_be_another_tomorrow(served: list[str]) -> None:
    assert of(served, IMAGE) == of(served, f"registry/vllm@{IMAGE}") == of(served, IMAGE[7:])
    with pytest.raises(CommandError, match="wants a digest"):
        of(served, "vllm/vllm-openai:latest")


def test_options_of_a_file_count_and_the_command_line_wins(
    tmp_path: Path, served: list[str]
) -> None:
    file = tmp_path / "vllm.yaml"
    file.write_text("tensor-parallel-size: 4\nmax_num_seqs: 8\nenforce-eager: true\nport: 9\n")
    inline = of([*served, "--max-num-seqs", "8", "--enforce-eager"])
    assert of([*served, "--config", str(file)]) == inline
    assert of([*served, f"--config={file}"]) == inline
    assert inline.unread == ()
    file.write_text(file.read_text().replace("8", "16"))
    assert of([*served, "--config", str(file)]).digest != inline.digest


@pytest.mark.parametrize(
    "text",
    [
        "a: &x [1]\nb: *x\n",
        "- a list\n",
        "a: 1\na: 2\n",
        "a: " + "[" * 30_000,
        "a: [\n",
        "\xff",
        "a: " + "1" * 70_000,
        None,
    ],
)
def test_a_file_of_options_that_cannot_be_read_makes_it_partial(
    tmp_path: Path, served: list[str], text: str | None
) -> None:
    file = tmp_path / "vllm.yaml"
    if text is not None:
        file.write_bytes(text.encode("latin-1"))
    words = [*served, "--config", str(file)]
    assert with_config_file(words) == words
    assert of(words).partial


def test_a_command_line_without_a_model_is_partial() -> None:
    assert of(["vllm", "serve"]).partial


def test_words_without_a_model_have_no_directory_of_their_own() -> None:
    """Two scripts would get the same one, whatever each of them serves."""
    for words in (["vllm", "serve"], ["./serve.sh"], ["bash", "-c", "API_KEY=x vllm serve m"]):
        with pytest.raises(CommandError, match="these words name no model"):
            directory_name(words, of(words))


def test_a_directory_is_named_after_the_model_and_the_fingerprint(served: list[str]) -> None:
    found = of(served)
    assert directory_name(served, found) == f"qwen-{found.digest}"
    for odd, name in (("/m/Qwen 3/", "Qwen-3"), ("org/" + "x" * 99, "x" * 48), ("/", "vllm"),
                      ("/m/..", "vllm"), ("a/$(reboot)", "reboot")):  # fmt: skip
        words = ["vllm", "serve", odd]
        assert directory_name(words, found) == f"{name}-{found.digest}"
