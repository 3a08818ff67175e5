"""Where a server's compile caches are: by its command line, its environment, and its account."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.proc_tree import Proc, link, write
from watchdog.cache_places import Account, Server, account_of, caches_of, places_of

ROOT = {"HOME": "/root", "USER": "root"}
DEFAULTS = {
    "vllm": "/root/.cache/vllm",
    "triton": "/root/.triton/cache",
    "aiter": "/root/.aiter/jit",
    "inductor": "/tmp/torchinductor_root",
}


def nobody() -> Account | None:
    return None


def seen(
    environ: Mapping[str, str], given: Mapping[str, str] | None = None, **how: Any
) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Path and what names it, by kind; and why others are not known."""
    server = Server(environ, how.get("cwd", "/served"), how.get("account", nobody))
    found, faults = places_of(given or {}, server)
    return {one["kind"]: (one["path"], one["by"]) for one in found}, faults


def paths(environ: Mapping[str, str], **how: Any) -> dict[str, str]:
    return {kind: path for kind, (path, _) in seen(environ, **how)[0].items()}


def test_without_a_word_all_lie_in_the_home_and_in_tmp() -> None:
    found, faults = seen(ROOT)
    assert {kind: path for kind, (path, _) in found.items()} == DEFAULTS
    assert found["vllm"][1] == "HOME"
    assert {found[kind][1] for kind in ("triton", "aiter", "inductor")} == {"default"}
    assert faults == []


def test_vllms_root_is_the_first_place() -> None:
    given = {"compilation-config": '{"cache_dir":"/chosen"}'}
    server = Server(ROOT, "/served", nobody)
    assert [one["kind"] for one in places_of(given, server)[0]][:2] == ["vllm", "chosen"]


@pytest.mark.parametrize(
    ("more", "path", "by"),
    [
        ({"VLLM_CACHE_ROOT": "/a", "XDG_CACHE_HOME": "/b"}, "/a", "VLLM_CACHE_ROOT"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/vllm", "XDG_CACHE_HOME"),
        ({"VLLM_CACHE_ROOT": "~/v"}, "/root/v", "VLLM_CACHE_ROOT"),
        ({"XDG_CACHE_HOME": "~/x"}, "/root/x/vllm", "XDG_CACHE_HOME"),
        ({"VLLM_CACHE_ROOT": "here"}, "/served/here", "VLLM_CACHE_ROOT"),
        ({"XDG_CACHE_HOME": ""}, "/served/vllm", "XDG_CACHE_HOME"),  # as Python's getenv has it
        ({"VLLM_CACHE_ROOT": "/a//b/./c/"}, "/a/b/c", "VLLM_CACHE_ROOT"),
        ({"VLLM_CACHE_ROOT": "/a/link/../c"}, "/a/link/../c", "VLLM_CACHE_ROOT"),
    ],
)
def test_vllms_root_is_where_vllm_looks_for_it(more: dict[str, str], path: str, by: str) -> None:
    assert seen({**ROOT, **more})[0]["vllm"] == (path, by)


@pytest.mark.parametrize(
    ("more", "kind", "path", "by"),
    [
        ({"TRITON_CACHE_DIR": "/t", "TRITON_HOME": "/h"}, "triton", "/t", "TRITON_CACHE_DIR"),
        ({"TRITON_HOME": "/h"}, "triton", "/h/.triton/cache", "TRITON_HOME"),
        ({"AITER_JIT_DIR": "/j", "JIT_WORKSPACE_DIR": "/o"}, "aiter", "/j", "AITER_JIT_DIR"),
        ({"JIT_WORKSPACE_DIR": "/o"}, "aiter", "/o", "JIT_WORKSPACE_DIR"),
        ({"TORCHINDUCTOR_CACHE_DIR": "/i"}, "inductor", "/i", "TORCHINDUCTOR_CACHE_DIR"),
        ({"TMPDIR": "/scratch"}, "inductor", "/scratch/torchinductor_root", "default"),
        ({"LOGNAME": "a/b"}, "inductor", "/tmp/torchinductor_a_b", "default"),
    ],
)
def test_the_other_libraries_have_their_own(
    more: dict[str, str], kind: str, path: str, by: str
) -> None:
    assert seen({**ROOT, **more})[0][kind] == (path, by)


def test_a_chosen_cache_dir_is_told_beside_vllms_root() -> None:
    found, _ = seen(ROOT, {"compilation-config": '{"cache_dir":"/chosen","level":3}'})
    assert found["chosen"] == ("/chosen", "cache_dir")
    assert found["vllm"][0] == DEFAULTS["vllm"]


@pytest.mark.parametrize("text", ["3", "{", '{"cache_dir":""}', '{"cache_dir":7}', "[" * 9999])
def test_a_configuration_that_chooses_none_is_no_place(text: str) -> None:
    assert "chosen" not in seen(ROOT, {"compilation-config": text})[0]


def test_a_place_inside_another_is_not_told_apart() -> None:
    inside = {"VLLM_CACHE_ROOT": "/c", "TRITON_CACHE_DIR": "/c/triton", "AITER_JIT_DIR": "/c"}
    beside = {"VLLM_CACHE_ROOT": "/c", "TRITON_CACHE_DIR": "/cc", "AITER_JIT_DIR": "/c/../t"}
    assert set(paths({**ROOT, **inside})) == {"vllm", "inductor"}
    assert set(paths({**ROOT, **beside})) == {"vllm", "triton", "aiter", "inductor"}


def test_vllms_root_counts_even_inside_the_place_of_another() -> None:
    found = paths({**ROOT, "VLLM_CACHE_ROOT": "/c/vllm", "TRITON_CACHE_DIR": "/c"})
    assert (found["vllm"], found["triton"]) == ("/c/vllm", "/c")


def test_without_home_the_password_file_tells_it() -> None:
    found, faults = seen({}, account=lambda: Account("svc", "/var/lib/svc/"))
    assert found["vllm"] == ("/var/lib/svc/.cache/vllm", "default")
    assert found["inductor"][0] == "/tmp/torchinductor_svc"
    assert faults == []


def test_where_nobody_knows_the_home_it_is_said_and_the_rest_is_told() -> None:
    found, faults = seen({"TRITON_CACHE_DIR": "/t"})
    assert found == {"triton": ("/t", "TRITON_CACHE_DIR")}
    assert [fault.split(":")[0] for fault in faults] == ["vllm", "aiter"]


@pytest.mark.parametrize(
    ("path", "cwd", "why"),
    [
        ("here", None, "relative"),
        ("/" + "x" * 4096, "/", "4096"),
        ("/a\ufffdb", "/", "UTF-8"),
        ("/a\nb", "/", "printable"),
        ("/a/hf_0123456789abcdefgh", "/", "secret"),
        ("~other/x", "/", "home"),
    ],
)
def test_a_path_that_cannot_be_looked_at_is_named_by_its_variable_alone(
    path: str, cwd: str | None, why: str
) -> None:
    found, faults = seen({**ROOT, "VLLM_CACHE_ROOT": path}, cwd=cwd)
    assert "vllm" not in found
    assert why in faults[0]
    assert path not in faults[0]


# --- of a process --------------------------------------------------------------------------------


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path / "proc")
    made.add(10, "vllm serve m")
    write(made.root / "10/status", "Name:\tvllm\nUid:\t1001\t1001\t1001\t1001\n")
    return made


def passwd(root: Path, *lines: str) -> Path:
    write(root / "etc/passwd", "".join(f"{line}\n" for line in lines))
    return root


LINES = ("root:x:0:0::/root:/bin/sh", "odd", "svc:x:1001:1001::/srv/svc:/bin/false")


def test_the_account_is_that_of_the_password_file_which_the_process_sees(
    proc: Proc, tmp_path: Path
) -> None:
    root = passwd(tmp_path / "inside", *LINES)
    assert account_of(proc.root, 10, root) == Account("svc", "/srv/svc")
    write(proc.root / "10/uid_map", "         0       1001          1\n")  # it is root, inside
    assert account_of(proc.root, 10, root) == Account("root", "/root")


def test_a_password_file_behind_an_absolute_link_is_that_of_the_container(
    proc: Proc, tmp_path: Path
) -> None:
    passwd(tmp_path / "inside/real", *LINES)
    link(tmp_path / "inside/etc", "/real/etc")
    assert account_of(proc.root, 10, tmp_path / "inside") == Account("svc", "/srv/svc")


def test_a_user_that_has_no_account_is_none(proc: Proc, tmp_path: Path) -> None:
    assert account_of(proc.root, 10, passwd(tmp_path, LINES[0])) is None
    assert account_of(proc.root, 10, tmp_path / "empty") is None
    (proc.root / "10/status").unlink()
    assert account_of(proc.root, 10, tmp_path) is None


def test_without_an_environment_only_the_command_line_tells_and_it_is_said(proc: Proc) -> None:
    unread: dict[str, str] = {}
    given = {"compilation-config": '{"cache_dir":"/chosen"}'}
    found = caches_of(given, None, (proc.root, 10, ""), unread)
    assert found == [{"kind": "chosen", "path": "/chosen", "by": "cache_dir"}]
    assert "environment" in unread["caches"]


def test_options_in_a_file_of_their_own_may_choose_another_place(proc: Proc) -> None:
    unread: dict[str, str] = {}
    found = caches_of({"config": "/x.yaml"}, ROOT, (proc.root, 10, ""), unread)
    assert found[0]["path"] == DEFAULTS["vllm"]
    assert "--config" in unread["caches"]


def test_a_relative_place_is_below_the_working_directory(proc: Proc) -> None:
    environ = {**ROOT, "VLLM_CACHE_ROOT": "mine"}
    unread: dict[str, str] = {}
    caches_of({}, environ, (proc.root, 10, ""), unread)
    assert "relative" in unread["caches"]
    link(proc.root / "10/cwd", "/srv/app")
    assert caches_of({}, environ, (proc.root, 10, ""), {})[0]["path"] == "/srv/app/mine"
