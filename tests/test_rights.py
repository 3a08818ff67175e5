"""What a server's user may read: asked as the kernel would, and of every place that it names."""

from __future__ import annotations

import errno
import json
import os
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cache_trees import file
from tests.proc_tree import Proc, link, write
from watchdog.cache_look import Seat, look
from watchdog.launches import launch_of
from watchdog.probes.compile_cache import CompileCache
from watchdog.regular_files import OddFileError
from watchdog.rights import READ, REFUSED, SEARCH, Rights, rights_of
from watchdog.rooted import inside
from watchdog.tree import Tree

STRANGER = 61_234
NOBODY = Rights(STRANGER, frozenset({STRANGER}))


def may(rights: Rights, place: Path, want: int = READ) -> bool:
    try:
        rights.demand(place, want)
    except OddFileError:
        return False
    return True


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Return a folder that all may enter; pytest's own ones are their owner's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path / "proc")
    write(made.root / "stat", "cpu 1 2 3\nbtime 1700000000\nprocesses 9\n")
    return made


@pytest.fixture
def hidden(tmp_path: Path) -> Path:
    """A model, a cache and packages in a folder that is its owner's alone."""
    home = tmp_path / "home"
    write(home / "m/config.json", '{"architectures": ["Secret"]}')
    file(home / "m/modelinfos/letter.json")
    (home / "m/torch-2.9.0.dist-info").mkdir()
    home.chmod(0o700)
    return home


def serving(proc: Proc, words: list[str], cwd: Path | None = None, **variables: str) -> None:
    place = proc.add(10, ["vllm", "serve", *words])
    told = {"HOME": "/nowhere", "USER": "svc", "TMPDIR": "/nowhere", **variables}
    write(place / "environ", "".join(f"{name}={value}\0" for name, value in told.items()))
    status(place, STRANGER)
    if cwd is not None:
        link(place / "cwd", str(cwd))


def status(place: Path, user: int, acting: int | None = None, able: int = 0) -> None:
    acting = user if acting is None else acting
    write(
        place / "status",
        f"Name:\tvllm\nUid:\t{user}\t{acting}\t{acting}\t{acting}\nGid:\t{user}\t1\t1\t1\n"
        f"Groups:\t7 8 \nCapEff:\t{able:016x}\n",
    )
    write(place / "uid_map", f"0 {user} 1\n1 100000 65536\n")
    write(place / "gid_map", f"0 {user} 1\n1 100000 65536\n")


def told(proc: Proc) -> Any:
    tree = Tree(proc.root / "no-sys")
    return launch_of([10], proc.root, tree, time.monotonic() + 5, "1")


# --- as the kernel would -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "want", "allowed"),
    [
        (0o755, READ, True), (0o755, SEARCH, True), (0o700, READ, False), (0o711, READ, False),
        (0o711, SEARCH, True), (0o750, READ, False),
    ],
)  # fmt: skip
def test_others_have_what_the_mode_gives_them(
    tmp_path: Path, mode: int, want: int, allowed: bool
) -> None:
    tmp_path.chmod(mode)
    assert may(NOBODY, tmp_path, want) is allowed
    tmp_path.chmod(0o755)


def test_the_owner_and_the_group_have_their_own_bits_and_no_others(tmp_path: Path) -> None:
    known = tmp_path.stat()
    owner, mate = Rights(known.st_uid, frozenset()), Rights(STRANGER, frozenset({known.st_gid}))
    tmp_path.chmod(0o740)
    assert may(owner, tmp_path, SEARCH)
    assert may(mate, tmp_path)
    assert not may(mate, tmp_path, SEARCH)
    tmp_path.chmod(0o707)  # the group is worse off than all others
    assert not may(mate, tmp_path)
    assert may(NOBODY, tmp_path)


def acl(place: Path, *entries: tuple[int, int, int]) -> None:
    data = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(place, "system.posix_acl_access", data)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOTSUP):
            pytest.skip("no access lists on this file system")
        raise


def test_an_access_list_gives_and_takes(tmp_path: Path) -> None:
    none = 0xFFFFFFFF
    acl(tmp_path, (1, 7, none), (2, 5, STRANGER), (4, 0, none), (8, 4, 77), (16, 5, none),
        (32, 0, none))  # fmt: skip
    assert may(NOBODY, tmp_path)
    assert may(NOBODY, tmp_path, SEARCH)
    assert not may(Rights(1, frozenset({1})), tmp_path)
    assert may(Rights(1, frozenset({77})), tmp_path)
    mate = Rights(1, frozenset({tmp_path.stat().st_gid}))
    assert not may(mate, tmp_path)  # though the mode shows the mask where the group's bits were


def test_a_process_with_capabilities_reads_what_its_namespace_owns(proc: Proc) -> None:
    place = proc.add(10)
    status(place, 1000, able=0b10)
    found = rights_of(proc.root, 10)
    assert found is not None
    assert found.user == 1000
    assert found.groups == {1000, 7, 8}
    assert found.users == ((1000, 1), (100000, 65536))
    here = Path(proc.root).stat()
    own = Rights(STRANGER, frozenset(), ((here.st_uid, 1),), ((here.st_gid, 1),))
    proc.root.chmod(0o700)
    assert may(own, proc.root)
    assert not may(found, proc.root)


def test_a_program_that_is_set_to_another_user_lends_no_rights(proc: Proc) -> None:
    status(proc.add(10), 1000, acting=0, able=0x1FFFFFFFFFF)
    assert rights_of(proc.root, 10) == Rights(1000, frozenset({1000, 7, 8}))


def test_of_a_process_that_has_ended_nothing_is_known(proc: Proc) -> None:
    assert rights_of(proc.root, 4711) is None


def test_this_process_may_read_its_own_files(tmp_path: Path) -> None:
    own = rights_of(Path("/proc"), os.getpid())
    assert own is not None
    assert may(own, tmp_path)
    assert may(own, tmp_path, SEARCH)


# --- whatever a server names ---------------------------------------------------------------------


def test_a_path_behind_what_its_user_may_not_search_is_not_told_to_be_there(hidden: Path) -> None:
    for name in ("m", "none"):
        with pytest.raises(OddFileError, match="own user"):
            inside(Path("/"), f"{hidden}/{name}", NOBODY)


def test_a_link_lends_no_rights(tmp_path: Path, hidden: Path) -> None:
    (tmp_path / "link").symlink_to(hidden / "m")
    with pytest.raises(OddFileError):
        inside(Path("/"), str(tmp_path / "link"), NOBODY)


@pytest.mark.parametrize("name", ["home/m", "link", "../{}/home/m"])
def test_a_model_that_the_servers_user_may_not_read_is_not_read(
    proc: Proc, tmp_path: Path, hidden: Path, name: str
) -> None:
    (tmp_path / "link").symlink_to(hidden / "m")
    relative = name.startswith("..")
    asked = name.format(tmp_path.name) if relative else str(tmp_path / name)
    serving(proc, [asked], tmp_path)
    found = told(proc)
    assert not found["models"]
    assert REFUSED in found["unread"]["model files"]
    assert "Secret" not in json.dumps(found)


def test_a_file_of_a_model_that_leads_to_what_its_user_may_not_read_is_not_read(
    proc: Proc, tmp_path: Path, hidden: Path
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/config.json").symlink_to(hidden / "m/config.json")
    serving(proc, [str(tmp_path / "own")])
    found = told(proc)["models"]["model"]
    assert REFUSED in found["unread"]["config"]
    assert "architecture" not in found


def test_packages_that_the_servers_user_may_not_list_are_not_told(proc: Proc, hidden: Path) -> None:
    serving(proc, ["/m"], PYTHONPATH=str(hidden / "m"))
    found = told(proc)
    assert "2.9.0" not in json.dumps(found)


def test_what_the_servers_user_may_not_read_is_passed_over_as_python_does(
    proc: Proc, tmp_path: Path, hidden: Path
) -> None:
    """As after `sudo -u`, which leaves the HOME and PATH of root."""
    venv = tmp_path / "venv"
    write(venv / "pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n")
    write(venv / "bin/python", "")
    write(venv / "bin/vllm", f"#!{venv}/bin/python\n")
    installed = venv / "lib/python3.11/site-packages/torch-2.8.0.dist-info"
    installed.mkdir(parents=True)
    os.utime(installed, (1.0, 1.0))
    serving(
        proc, ["/m"], PATH=f"{hidden}/bin:{venv}/bin", HOME=str(hidden), PYTHONPATH=f"{hidden}/m"
    )
    found = told(proc)
    assert "versions" not in found["unread"]
    assert found["versions"]["torch"] == "2.8.0"


def test_a_cache_that_the_servers_user_may_not_read_is_not_looked_at(
    proc: Proc, tmp_path: Path, hidden: Path
) -> None:
    own = tmp_path / "own"
    file(own / "a.bin")
    (own / "link").symlink_to(hidden / "m")
    (own / "shut").mkdir()
    file(own / "shut/modelinfos/letter.json")
    (own / "shut").chmod(0o700)
    serving(proc, ["/m"], VLLM_CACHE_ROOT=str(own), TRITON_CACHE_DIR=str(hidden / "m"))
    facts = {"answered": True, "launch": told(proc), "gpus_start": None}
    cache: Any = CompileCache("t", proc=proc.root).read(facts, time.monotonic() + 5).facts["cache"]
    vllm, triton = cache["places"][:2]
    assert vllm["files"] == 1
    assert sorted(vllm["unread"]) == [["link", REFUSED], ["shut", REFUSED]]
    assert triton["unread"] == [[".", REFUSED]]
    assert triton["id"] is None
    assert "letter" not in json.dumps(cache)


def test_what_was_set_aside_is_not_told_where_the_user_may_not_list(tmp_path: Path) -> None:
    own = tmp_path / "above/own"
    file(own / "a.bin")
    (tmp_path / "above/own.stale-20261101T000000Z").mkdir()
    (tmp_path / "above").chmod(0o711)
    where = {"kind": "vllm", "path": str(own), "by": "HOME"}
    found = look(where, Seat(rights=NOBODY), time.monotonic() + 5)
    assert found["files"] == 1
    assert not found["aside"]
    assert found["unread"][0][0] == ".."
    assert look(where, Seat(), time.monotonic() + 5)["aside"]
