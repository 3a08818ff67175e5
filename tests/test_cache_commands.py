"""`cache set-aside` and `cache prune` as they are called: what they print, ask, and exit with."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proc_tree import write
from tests.vllm_venv import vllm_on_path
from watchdog import cli

__all__ = ["vllm_on_path"]

Ran = tuple[int, str, str]


class Commands:
    """Calls `watchdog cache`; `config` has two targets with a cache directory and one without."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.cache, self.other = folder / "qwen", folder / "llama"
        self.config = folder / "config.yaml"
        targets = [f"{{url: 'http://127.0.0.1:{n}', name: {place.name}, "
                   f"cache: {{directory: '{place}'}}}}"
                   for n, place in enumerate((self.cache, self.other), 1)]  # fmt: skip
        targets.append("{url: 'http://127.0.0.1:3', name: bare}")
        self.config.write_text(f"targets: [{', '.join(targets)}]\n")
        self.fill()

    def fill(self) -> None:
        write(self.cache / "torch_compile_cache/ab/model", "graph")

    def __call__(self, *argv: str | Path) -> Ran:
        self._capsys.readouterr()
        code = cli.main(["cache", *map(str, argv)])
        return (code, *self._capsys.readouterr())

    def copy(self) -> Path:
        """Set the cache aside and return the copy."""
        assert self("set-aside", "--directory", self.cache)[0] == 0
        [copy] = self.cache.parent.glob("qwen.stale-*")
        return copy


@pytest.fixture
def cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    folder = tmp_path / "mnt"
    folder.mkdir()
    return Commands(folder, capsys)


def refused(ran: Ran) -> str:
    """One sentence on standard error, nothing on standard output, and a 3."""
    code, out, err = ran
    assert (code, out) == (3, "")
    assert err.startswith("serving-watchdog: ")
    assert err.count("\n") == 1
    return err


def test_set_aside_says_what_it_did_and_how_to_undo_it(cache: Commands) -> None:
    code, out, _ = cache("set-aside", "--directory", cache.cache)
    assert code == 0
    assert out.startswith(f"serving-watchdog: renamed {cache.cache} to {cache.cache}.stale-")
    assert not cache.cache.exists()
    [undo] = (line.split("undo: ")[1] for line in out.splitlines() if "undo: " in line)
    subprocess.run(shlex.split(undo), check=True)
    assert (cache.cache / "torch_compile_cache/ab/model").read_text() == "graph"


def test_set_aside_knows_the_directory_of_a_target(cache: Commands) -> None:
    code, out, _ = cache("set-aside", "qwen", "--config", cache.config)
    assert code == 0
    assert f"renamed {cache.cache} to " in out


def test_a_dry_run_changes_nothing(cache: Commands) -> None:
    code, out, _ = cache("set-aside", "--directory", cache.cache, "--dry-run")
    assert code == 0
    assert out.startswith(f"serving-watchdog: would rename {cache.cache} to ")
    assert cache.cache.exists()


def test_a_relative_directory_is_of_the_working_directory(
    cache: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cache.cache.parent)
    assert f"renamed {cache.cache} to " in cache("set-aside", "--directory", "qwen")[1]


def test_a_directory_that_a_real_process_uses_is_refused_until_it_ends(cache: Commands) -> None:
    file = (cache.cache / "torch_compile_cache/ab/model").open()
    with file, subprocess.Popen(["sleep", "60"], stdin=file) as process:
        said = refused(cache("set-aside", "--directory", cache.cache))
        assert f"process {process.pid} (sleep) has open {file.name}" in said
        dry, out, _ = cache("set-aside", "--directory", cache.cache, "--dry-run", "--force")
        assert dry == 0
        assert f"note: {cache.cache} is in use: process {process.pid}" in out
        process.kill()
    assert cache("set-aside", "--directory", cache.cache)[0] == 0


@pytest.mark.parametrize("what", [[], ["qwen", "--directory", "/x"]])
def test_a_target_or_a_directory_is_wanted(cache: Commands, what: list[str]) -> None:
    assert "one of both" in refused(cache("set-aside", *what, "--config", cache.config))


@pytest.mark.parametrize(
    "argv",
    [
        ("set-aside", "--directory", "", "--force"),
        ("prune", "--directory=", "--list"),
        ("stamp", "", "--", "vllm", "serve", "/m"),
        ("verify", "", "--", "vllm", "serve", "/m"),
        ("key", "--root", "", "--", "vllm", "serve", "/m"),
    ],
)
def test_an_empty_directory_is_not_the_working_directory(
    cache: Commands, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    """As of a variable that is not set."""
    monkeypatch.chdir(cache.cache)
    said = refused(cache(*argv))
    assert said == "serving-watchdog: DIR is empty; is the variable set?\n"
    assert [path.name for path in cache.cache.iterdir()] == ["torch_compile_cache"]


def test_a_target_that_is_not_known_or_has_no_directory_is_refused(cache: Commands) -> None:
    said = refused(cache("set-aside", "qwem", "--config", cache.config))
    assert "known: qwen, llama, bare" in said
    said = refused(cache("set-aside", "bare", "--config", cache.config))
    assert "no cache.directory of bare" in said
    assert "--directory DIR" in said


def test_the_list_shows_copies_with_size_files_and_age(cache: Commands) -> None:
    copy = cache.copy()
    code, out, _ = cache("prune", "--list", "qwen", "--config", cache.config)
    assert code == 0
    first, line = out.splitlines()
    assert first.startswith(f"serving-watchdog: 1 set-aside copy of {cache.cache}, ")
    assert line.split()[0] == str(copy)
    assert "1 file, 0.0 days" in line


def test_the_list_without_a_target_is_of_all_that_have_a_directory(cache: Commands) -> None:
    code, out, _ = cache("prune", "--list", "--config", cache.config)
    assert code == 0
    assert [line.split(" of ")[1] for line in out.splitlines()] == [
        str(cache.cache), str(cache.other),
    ]  # fmt: skip


def test_a_list_of_nothing_is_refused_with_what_to_give(cache: Commands) -> None:
    cache.config.write_text("targets: [{url: 'http://127.0.0.1:3'}]\n")
    assert "--directory DIR" in refused(cache("prune", "--list", "--config", cache.config))


def test_prune_deletes_only_what_is_named(cache: Commands) -> None:
    copy = cache.copy()
    cache.fill()
    kept = cache.cache.with_name("qwen.stale-20261129T031216Z")
    kept.mkdir()
    code, out, _ = cache("prune", copy, "--yes")
    assert (code, out) == (0, f"serving-watchdog: deleted {copy}\n")
    assert not copy.exists()
    assert kept.exists()
    assert cache.cache.exists()


def test_a_bare_name_is_that_of_a_copy_beside_a_cache(cache: Commands) -> None:
    copy = cache.copy()
    said = refused(cache("prune", "qwen.stale-20200101T000000Z", "--config", cache.config, "--yes"))
    assert "no copy has this name" in said
    assert cache("prune", copy.name, "--config", cache.config, "--yes")[0] == 0
    assert not copy.exists()


def test_prune_refuses_the_cache_itself(cache: Commands) -> None:
    assert "no set-aside copy" in refused(cache("prune", cache.cache, "--yes"))
    assert cache.cache.exists()


def test_prune_without_a_name_deletes_nothing(cache: Commands) -> None:
    assert "name what to delete" in refused(cache("prune", "--yes", "--directory", cache.cache))


def test_where_nobody_can_be_asked_prune_wants_yes(
    cache: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = cache.copy()
    with Path(os.devnull).open() as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        assert "give --yes" in refused(cache("prune", copy))
    assert copy.exists()


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 3), (b"\n", 3), (b"y\n", 0)])
def test_prune_asks_at_a_terminal(cache: Commands, answer: bytes, code: int) -> None:
    copy = cache.copy()
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    ran = subprocess.run(
        [sys.executable, "-m", "watchdog", "cache", "prune", str(copy)],
        stdin=theirs, capture_output=True, check=False, text=True,
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)
    assert ran.returncode == code
    assert str(copy) in ran.stderr
    assert copy.exists() == (code != 0)


# --- key, stamp and verify -----------------------------------------------------------------------


@pytest.fixture
def launch(tmp_path: Path, vllm_on_path: Path) -> list[str]:  # noqa: ARG001
    write(tmp_path / "qwen3/config.json", '{"architectures": ["Qwen3"]}')
    write(tmp_path / "qwen3/model.bin", "w")
    return ["--", "vllm", "serve", str(tmp_path / "qwen3"), "-tp", "2"]


def test_key_prints_one_path_and_nothing_else(
    cache: Commands, launch: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative one would be another directory wherever the launcher stands."""
    monkeypatch.setenv("HOME", "/home/a")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    code, out, err = cache("key", *launch)
    assert (code, err) == (0, "")
    found = re.fullmatch(r"/home/a/.cache/vllm-launches/(qwen3-[0-9a-f]{16}\n)", out)
    assert found is not None
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache("key", *launch)[1] == f"/caches/vllm-launches/{found[1]}"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    assert "say by --root" in refused(cache("key", *launch))
    monkeypatch.setenv("HOME", "/home/a")
    assert cache("key", *launch, "--port", "9") == (0, out, "")
    assert cache("key", *launch, "--max-model-len", "9")[1] != out
    assert cache("key", "--root", "/var/cache/vllm", *launch)[1] == f"/var/cache/vllm/{found[1]}"
    assert cache("key", "--image", "sha256:" + "a" * 64, *launch)[1] != out


def test_key_knows_the_environment_that_the_launch_will_inherit(
    cache: Commands, launch: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = cache("key", *launch)[1]
    monkeypatch.setenv("VLLM_CACHE_ROOT", "/x")
    assert cache("key", *launch)[1] == out
    monkeypatch.setenv("RADIANCE_DRAFT", "1")
    assert cache("key", *launch)[1] != out


def test_key_of_what_it_cannot_read_prints_a_name_and_says_what_is_missing(
    cache: Commands,
) -> None:
    code, out, err = cache("key", "--", "vllm", "serve", "org/none", "--api-key", "geheim")
    assert code == 0
    assert Path(out).name.startswith("none-")
    assert "model files: org/none: no local folder" in err
    assert "geheim" not in out + err


def test_a_launch_is_wanted(cache: Commands) -> None:
    assert "give the launch behind --" in refused(cache("key"))
    assert "wants a digest" in refused(cache("key", "--image", "vllm:latest", "--", "vllm"))


def test_the_way_of_a_stale_cache(cache: Commands, launch: list[str]) -> None:
    """Stamp, fill, change the launch: stale; set aside: safe, and the copy keeps its stamp."""
    place = cache.cache.with_name("new")
    assert cache("verify", place, *launch)[0] == 0
    code, out, err = cache("stamp", place, *launch)
    assert (code, err) == (0, "")
    assert out.startswith(f"serving-watchdog: {place} is stamped with ")
    write(place / "torch_compile_cache/ab/model", "graph")
    assert cache("verify", place, *launch)[:2] == (
        0, f"serving-watchdog: safe: {place} was filled by this launch alone, {out.split()[-1]}\n",
    )  # fmt: skip

    launch[-1] = "4"
    code, out, _ = cache("verify", place, *launch)
    assert code == 2
    assert out.startswith(f"serving-watchdog: stale: {place} was filled ")
    assert "tensor-parallel-size 2 -> 4\n" in out

    [line] = (line.split("next: ")[1] for line in out.splitlines() if "next: " in line)
    assert cli.main(shlex.split(line)[1:]) == 0
    assert cache("verify", place, *launch)[0] == 0
    [copy] = place.parent.glob("new.stale-*")
    assert (copy / ".serving-watchdog-stamp.json").exists()


def test_verify_of_files_without_a_stamp_is_unknown(cache: Commands, launch: list[str]) -> None:
    said = refused(cache("verify", cache.cache, *launch))
    assert "unknown: " in said
    assert f"next: watchdog cache set-aside --directory {cache.cache}" in said


def test_verify_without_what_it_must_know_is_unknown(cache: Commands) -> None:
    hub = ["--", "vllm", "serve", "org/none"]
    assert cache("stamp", cache.cache, *hub)[0] == 0
    code, out, err = cache("verify", cache.cache, *hub)
    assert (code, out) == (3, "")
    assert "not known: model files" in err


def test_a_stamp_says_what_is_taken_for_granted(cache: Commands, launch: list[str]) -> None:
    assert "  note: it had files before" in cache("stamp", cache.cache, *launch)[1]
