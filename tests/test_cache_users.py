"""Who uses a directory is found under whatever name it has there, and "nobody" is never made up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.proc_tree import Proc, link, write
from watchdog.cache_users import (
    MOST_USERS,
    Mount,
    User,
    Users,
    command,
    mounted_below,
    mounted_elsewhere,
    place,
    users,
)

LATER = time.monotonic() + 1000.0
CACHE = Path("/srv/cache/qwen")
HOST = "21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n22 21 8:2 / /srv rw - xfs /dev/sdb1 rw\n"
CONTAINER = (
    "400 300 0:55 / / rw - overlay overlay rw\n"
    "401 400 8:2 /cache/qwen /root/.cache/vllm rw - xfs /dev/sdb1 rw\n"
)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path / "proc")
    write(made.root / "self/mountinfo", HOST)
    return made


def found(proc: Proc, directory: Path = CACHE) -> Users:
    return users(directory, proc.root, LATER)


def has(proc: Proc, directory: Path = CACHE) -> list[str]:
    return [user.has for user in found(proc, directory).found]


def test_a_directory_that_nobody_uses_has_no_users(proc: Proc) -> None:
    proc.add(500, opens=[("/srv/cache/other/a", ""), ("/srv/cache/qwen-2/a", "")])
    assert found(proc) == Users((), 0, "", "")


def test_an_open_file_is_a_use(proc: Proc) -> None:
    proc.add(500, "/usr/bin/python3 /opt/bin/vllm serve m --api-key geheim", opens=[
        ("/dev/null", ""), ("socket:[4]", ""), ("/srv/cache/qwen/rank_0/model", ""),
    ])  # fmt: skip
    user = User(500, "python3 vllm", "has open /srv/cache/qwen/rank_0/model")
    assert found(proc).found == (user,)


def test_the_directory_itself_may_be_what_is_open(proc: Proc) -> None:
    proc.add(500, opens=[("/srv/cache/qwen", "")])
    assert has(proc) == ["has open /srv/cache/qwen"]


def test_a_working_directory_is_a_use(proc: Proc) -> None:
    link(proc.add(500) / "cwd", "/srv/cache/qwen/sub")
    assert has(proc) == ["runs in /srv/cache/qwen/sub"]


def test_a_mapped_library_is_a_use(proc: Proc) -> None:
    write(
        proc.add(500) / "maps",
        "7f00-7f01 r-xp 00000000 08:02 77     /usr/lib/libc.so.6\n"
        "7f02-7f03 rw-p 00000000 00:00 0 \n"
        "7f04-7f05 r-xp 00000000 08:02 78     /srv/cache/qwen/triton/a b/launch.so\n",
    )
    assert has(proc) == ["maps /srv/cache/qwen/triton/a b/launch.so"]


def test_a_file_that_was_deleted_under_a_process_is_a_use(proc: Proc) -> None:
    proc.add(500, opens=[("/srv/cache/qwen/a.so (deleted)", "")])
    assert has(proc) == ["has open /srv/cache/qwen/a.so"]


def test_a_container_that_has_it_mounted_uses_it_under_another_name(proc: Proc) -> None:
    write(proc.add(500) / "mountinfo", CONTAINER)
    assert has(proc) == ["has it mounted at /root/.cache/vllm"]


def test_a_container_that_has_a_part_of_it_mounted_uses_it(proc: Proc) -> None:
    write(proc.add(500) / "mountinfo", CONTAINER.replace("/cache/qwen", "/cache/qwen/triton"))
    assert has(proc) == ["has it mounted at /root/.cache/vllm"]


def test_a_container_that_has_more_mounted_uses_it_by_its_open_files(proc: Proc) -> None:
    place_of = proc.add(500, opens=[("/root/.cache/vllm/qwen/model", "")])
    write(place_of / "mountinfo", CONTAINER.replace("/cache/qwen", "/cache"))
    assert has(proc) == ["has open /root/.cache/vllm/qwen/model"]
    assert has(proc, CACHE.with_name("other")) == []


def test_a_name_in_a_container_that_only_looks_alike_is_no_use(proc: Proc) -> None:
    names = ("/srv/cache/qwen/model", "/cache/qwen/model")  # ours, and ours on its device
    place_of = proc.add(500, opens=[(name, "") for name in names])
    write(place_of / "mountinfo", "400 300 0:55 / / rw - overlay overlay rw\n")
    assert found(proc) == Users((), 0, "", "")


def test_what_is_mounted_for_a_reader_of_mounts_alone_is_seen_without_rights(proc: Proc) -> None:
    write(proc.add(500) / "mountinfo", CONTAINER)
    proc.blind(500)
    assert has(proc) == ["has it mounted at /root/.cache/vllm"]


def test_processes_that_may_not_be_looked_at_are_counted(proc: Proc) -> None:
    for pid in (500, 501):
        proc.add(pid)
        proc.blind(pid)
    assert found(proc).unseen == 2


def test_threads_of_the_kernel_and_zombies_are_not_asked(proc: Proc) -> None:
    proc.add(2, flags=0x208040)
    proc.add(3, state="Z")
    proc.blind(2)
    proc.blind(3)
    assert found(proc).unseen == 0


def test_where_processes_are_hidden_that_is_said(proc: Proc) -> None:
    (proc.root / "1/stat").unlink()
    assert "hidden" in found(proc).hidden


def test_a_search_without_time_says_so(proc: Proc) -> None:
    assert "no time" in users(CACHE, proc.root, time.monotonic() - 1).stopped


def test_many_users_are_named_up_to_a_bound(proc: Proc) -> None:
    for pid in range(500, 500 + MOST_USERS + 3):
        proc.add(pid, opens=[("/srv/cache/qwen/a", "")])
    assert len(found(proc).found) == MOST_USERS


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["python3", "-m", "vllm.entrypoints.openai.api_server"],
         "python3 vllm.entrypoints.openai.api_server"),
        (["python3", "-c", "geheim"], "python3"),
        (["/usr/bin/login", "geheim"], "login"),
        (["VLLM::EngineCore"], "VLLM::EngineCore"),
        (["a\nb" * 99], one := ("a b" + "a b" * 98)[:57] + "..."),
        ([], "?"),
    ],
)  # fmt: skip
def test_of_a_command_line_only_the_program_is_told(proc: Proc, line: list[str], said: str) -> None:
    proc.add(500, line)
    assert command(proc.root, 500) == said


def test_the_deepest_mount_counts_and_of_two_at_one_point_the_later() -> None:
    known = [
        Mount("8:1", "/", "/"),
        Mount("8:2", "/", "/srv"),
        Mount("8:3", "/x", "/srv"),
        Mount("0:9", "/", "/s"),
    ]
    assert place("/srv/a", known) == ("8:3", "/x/a")
    assert place("/srv", known) == ("8:3", "/x")
    assert place("/srvs/a", known) == ("8:1", "/srvs/a")
    assert place("/srv/a", []) == ("", "/srv/a")


def test_a_mount_at_or_in_a_directory_is_told(proc: Proc) -> None:
    with (proc.root / "self/mountinfo").open("a") as file:
        file.write("30 22 8:9 / /srv/cache/a\\040b/part rw - ext4 /dev/sdc1 rw\n")
    assert mounted_below(Path("/srv/cache/a b"), proc.root) == "/srv/cache/a b/part"
    assert mounted_below(Path("/srv"), proc.root) == "/srv"
    assert mounted_below(CACHE, proc.root) == ""


def test_another_name_of_the_directory_on_this_host_is_told(proc: Proc) -> None:
    assert mounted_elsewhere(CACHE, proc.root) == ""
    with (proc.root / "self/mountinfo").open("a") as file:
        file.write("30 21 8:2 /cache/qwen /var/lib/vllm rw - xfs /dev/sdb1 rw\n")
    assert mounted_elsewhere(CACHE, proc.root) == "/var/lib/vllm"
    assert has(proc) == []  # it is ours, and no use of each process there is


# --- a real process ------------------------------------------------------------------------------

HOLD = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, *[ctypes.c_size_t] * 4, ctypes.c_long]
file = os.open(sys.argv[1], os.O_RDONLY)
libc.mmap(None, 4096, 1, 2, file, 0)  # PROT_READ, MAP_PRIVATE; Python's own mmap keeps it open
os.close(file)
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_file_that_a_real_process_only_maps_is_seen(tmp_path: Path) -> None:
    cache = tmp_path / "a cache"
    cache.mkdir()
    (cache / "kernel.so").write_bytes(b"x" * 4096)
    command_line = [sys.executable, "-c", HOLD, str(cache / "kernel.so")]
    with subprocess.Popen(
        command_line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        real = Path(os.path.realpath(cache))
        [user] = users(real, Path("/proc"), LATER).found
        assert (user.pid, user.has) == (process.pid, f"maps {real}/kernel.so")
        process.communicate("")
    assert users(real, Path("/proc"), LATER).found == ()
