"""Which process may be the server that does not answer yet, and which GPUs a server holds."""

from __future__ import annotations

import dataclasses
import json
import os
import select
import socket
import subprocess
import sys as python
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.proc_tree import Proc, card, kfd, processors, write
from watchdog.domain.fingerprint import fingerprint_of
from watchdog.probes.launch import EVERY, Launch, is_here, listening, processes, socket_of, youngest
from watchdog.servers import Search, Unclear, is_server, port_of
from watchdog.tree import Tree

SERVE = ["/venv/bin/python", "/venv/bin/vllm", "serve", "m"]


def served_on(port: int) -> list[str]:
    return ["vllm", "serve", "--port", str(port)]


def test_the_server_on_the_targets_port_counts_before_a_younger_one() -> None:
    seen = [(["vllm", "serve", "--port", "8001"], 10.0), (["vllm", "serve", "--port=8002"], 20.0)]

    assert youngest(seen, 8001) == 10.0


def test_where_no_port_fits_the_youngest_server_counts() -> None:
    seen = [(served_on(8001), 10.0), (served_on(8002), 20.0)]

    assert youngest(seen, 8218) == 20.0


def test_a_server_that_listens_on_another_port_is_up_and_not_this_one() -> None:
    seen = [(served_on(8001), 10.0), (served_on(8002), 20.0)]

    assert youngest(seen, 8218, frozenset({8002})) == 10.0
    assert youngest(seen, 8218, frozenset({8001, 8002})) is None


def test_listening_ports_of_this_host_are_seen() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()

        assert sock.getsockname()[1] in listening()


def test_other_processes_do_not_count() -> None:
    assert youngest([(["/usr/bin/python", "train.py", "--port", "8000"], 5.0)], 8000) is None


@pytest.mark.parametrize(
    "argv",
    [
        ["vim", "/venv/lib/vllm/entrypoints/openai/api_server.py"],
        ["grep", "-r", "vllm.entrypoints", "/src"],
        ["find", "/src/vllm/entrypoints"],
        ["htop", "--filter", "vllm serve"],
        ["/usr/bin/python3", "-m", "pytest", "tests/vllm/entrypoints"],
        ["python3", "/usr/bin/watchdog", "cache", "verify", "/c", "--", "vllm", "serve", "m"],
    ],
)
def test_who_searches_or_reads_what_is_vllms_starts_no_server(argv: list[str]) -> None:
    assert youngest([(argv, 5.0)], 8000) is None
    assert not is_server(argv)


@pytest.mark.parametrize(
    "argv",
    [
        ["/venv/bin/vllm", "serve", "m"],
        ["/venv/bin/python3.12", "/venv/bin/vllm", "serve", "m"],
        ["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"],
        ["python3", "/src/vllm/entrypoints/openai/api_server.py"],
        ["docker-init", "--", "vllm", "serve", "m"],
        ["uv", "run", "--project", "/src/watchdog", "vllm", "serve", "m"],
    ],
)
def test_the_ways_to_start_a_server(argv: list[str]) -> None:
    assert youngest([(argv, 5.0)], 8000) == 5.0
    assert is_server(argv)


def test_a_server_that_is_started_on_another_host_is_none_here() -> None:
    assert youngest([(["ssh", "gpu7", "vllm", "serve", "m"], 5.0)], 8000) is None


def test_who_starts_a_container_with_a_server_may_be_starting_it() -> None:
    argv = ["docker", "run", "vllm/vllm-openai", "vllm", "serve", "m"]
    assert youngest([(argv, 5.0)], 8000) == 5.0
    assert not is_server(argv)


@pytest.mark.parametrize(
    ("argv", "port"),
    [
        (["vllm", "serve", "m"], 8000),
        (["vllm", "serve", "m", "--port", "81"], 81),
        (["vllm", "serve", "m", "--port=82"], 82),
        (["vllm", "serve", "m", "--port=82", "--port", "83"], 83),  # as argparse has it
        (["vllm", "serve", "m", "--port"], 8000),
        (["vllm", "serve", "m", "--port", "x"], 8000),
    ],
)
def test_the_port_is_read_from_the_command_line(argv: list[str], port: int) -> None:
    assert port_of(argv) == port


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000", True),
        ("http://localhost:8000", True),
        ("unix:///run/vllm.sock", True),
        ("http://10.0.0.7:8000", False),
        ("http://gpu-7:8000", False),
    ],
)
def test_only_this_hosts_addresses_have_a_process_here(url: str, here: bool) -> None:
    assert is_here(url) is here


def test_processes_are_real_ones_with_their_start() -> None:
    own = [at for argv, at in processes() if "pytest" in " ".join(argv)]

    assert own
    assert all(0 <= time.time() - at < 86400 for at in own)


def test_nothing_is_looked_up_while_the_target_answers() -> None:
    probe = Launch("t", "http://127.0.0.1:8000")

    assert probe.read({"answered": True}, 0.0).facts == {}


ONE, TWO = "0000:05:00.0", "0000:89:00.0"
GIB = 2**30
UP = {"answered": True}
LATER = time.monotonic() + 1000.0
CONTAINER = "/system.slice/docker-" + "0f" * 32 + ".scope"


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path / "proc")


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    root = tmp_path / "sys"
    card(root, ONE, cpus="0-1")
    card(root, TWO, root="pci0000:80", numa=-1, cpus="0-3")
    processors(root, 0, 0, 1, 1)
    return root


def served(proc: Proc, pid: int = 500, port: int = 8000, *, parent: int = 1, **how: Any) -> None:
    """A vLLM server with an engine and two workers that changed their titles."""
    command = f"/venv/bin/python /venv/bin/vllm serve m --port {port}"
    proc.add(pid, command, parent=parent, **how)
    proc.add(pid + 1, "VLLM::EngineCore", parent=pid, **how)
    proc.add(pid + 2, "VLLM::Worker_TP0", parent=pid + 1, **how)
    proc.add(pid + 3, "VLLM::Worker_TP1", parent=pid + 1, **how)


def found(proc: Proc, port: int = 8000) -> set[int]:
    return Search(port, proc.root, LATER).find()


def unclear(proc: Proc, port: int = 8000) -> str:
    with pytest.raises(Unclear) as told:
        found(proc, port)
    return str(told.value)


@contextmanager
def a_server_with_workers() -> Iterator[tuple[int, int, list[int]]]:
    """Port, process and grandchildren of a real server; the workers end with their input."""
    code = (
        "import socket, subprocess, sys\n"
        "s = socket.create_server(('127.0.0.1', 0))\n"
        "wait = [sys.executable, '-c', 'import sys; sys.stdin.read()']\n"
        "again = [sys.executable, '-c', 'import subprocess, sys; '"
        "f'p = subprocess.Popen({wait!r}); print(p.pid, flush=True); p.wait()']\n"
        "first = subprocess.Popen(again, stdout=subprocess.PIPE, text=True)\n"
        "print(s.getsockname()[1], first.pid, first.stdout.readline().strip(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [python.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert select.select([server.stdout], [], [], 30)[0]
        port, *workers = map(int, server.stdout.readline().split())
        yield port, server.pid, workers


def test_a_real_server_is_found_by_its_port_with_all_its_workers() -> None:
    with a_server_with_workers() as (port, pid, workers):
        assert Search(port, Path("/proc"), LATER).find() >= {pid, *workers}
        assert os.getpid() not in Search(port, Path("/proc"), LATER).find()


def test_a_real_port_that_nobody_listens_on_has_no_server() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        with pytest.raises(Unclear, match="no process was seen"):
            Search(sock.getsockname()[1], Path("/proc"), LATER).find()


def test_the_listener_and_its_descendants_are_the_server(proc: Proc) -> None:
    served(proc)
    proc.add(700, "postgres", opens=[("socket:[1]", "")])
    proc.listen(8000, 42)
    proc.add(499, "python api.py", opens=[("socket:[42]", "")])
    proc.add(498, "python worker.py", parent=499)
    assert found(proc) == {498, 499}


def test_where_the_listener_may_not_be_seen_the_command_line_counts(proc: Proc) -> None:
    served(proc)
    served(proc, 600, 8001)
    proc.listen(8000, 42)
    proc.listen(8000, 42, 500)
    proc.listen(8001, 43)
    proc.listen(8001, 43, 600)
    assert found(proc) == {500, 501, 502, 503}
    assert found(proc, 8001) == {600, 601, 602, 603}


def test_a_command_line_whose_port_is_not_open_in_its_network_is_another_ones(proc: Proc) -> None:
    served(proc)
    proc.listen(8000, 42)
    assert "no process was seen" in unclear(proc)
    proc.listen(8000, 43, 500)  # open, and by another socket: a container's
    assert "no process was seen" in unclear(proc)


def test_a_worker_of_the_api_that_listens_leads_to_its_server(proc: Proc) -> None:
    served(proc)
    proc.listen(8000, 42)
    proc.add(504, "VLLM::APIServer_0", parent=500, opens=[("socket:[42]", "")])
    assert found(proc) == {500, 501, 502, 503, 504}


def test_a_shell_that_started_two_servers_is_neither(proc: Proc) -> None:
    proc.add(400, ["bash", "-c", "vllm serve a & vllm serve b --port 8001"])
    served(proc, parent=400)
    proc.add(600, "vllm serve b --port 8001", parent=400)
    proc.listen(8000, 42)
    proc.listen(8000, 42, 500)
    proc.listen(8000, 42, 400)
    assert found(proc) == {500, 501, 502, 503}


def test_dockers_proxy_leads_to_the_port_inside(proc: Proc) -> None:
    served(proc, group=CONTAINER)
    proc.add(
        300,
        "/usr/bin/docker-proxy -proto tcp -host-ip 0.0.0.0 -host-port 8218 "
        "-container-ip 172.17.0.2 -container-port 8000",
        opens=[("socket:[42]", "")],
    )
    proc.listen(8218, 42)
    proc.listen(8000, 77, 500)
    assert found(proc, 8218) == {500, 501, 502, 503}


def test_dockers_proxy_of_the_same_port_is_not_the_server(proc: Proc) -> None:
    served(proc, group=CONTAINER)
    proc.add(300, "/usr/bin/docker-proxy -host-port 8000 -container-port 8000")
    proc.listen(8000, 42)
    proc.listen(8000, 77, 500)
    assert found(proc) == {500, 501, 502, 503}


def of_page(proc: Proc, began: float | None, port: int = 8000) -> set[int]:
    """The server that is found where the page says when its process began, after the boot."""
    write(proc.root / "stat", "cpu 1 2 3\nbtime 1700000000\n")
    page = None if began is None else 1_700_000_000.0 + began
    return Search(port, proc.root, LATER, page_began=page).find()


@pytest.mark.parametrize("began", [45.0, 55.0, None])
def test_a_server_in_a_network_of_its_own_is_the_one_that_began_as_its_page_says(
    proc: Proc, began: float | None
) -> None:
    served(proc, group=CONTAINER, ticks=5000)
    proc.listen(8000, 77, 500)
    assert of_page(proc, began) == {500, 501, 502, 503}


@pytest.mark.parametrize("began", [44.9, 55.1])
def test_one_that_began_at_another_time_is_published_on_another_port(
    proc: Proc, began: float
) -> None:
    served(proc, group=CONTAINER, ticks=5000)
    proc.listen(8000, 77, 500)
    with pytest.raises(Unclear, match="names port 8000 and did not begin when the page says"):
        of_page(proc, began)


def test_of_two_with_one_port_inside_it_is_the_one_that_began_as_the_page_says(proc: Proc) -> None:
    for pid, ticks in ((500, 5000), (600, 9000)):
        served(proc, pid, group=f"/system.slice/docker-{pid:064x}.scope", ticks=ticks)
        proc.listen(8000, 77 + pid, pid)
    assert of_page(proc, 90.0) == {600, 601, 602, 603}


def test_where_nothing_tells_the_port_inside_it_is_who_began_as_the_page_says(proc: Proc) -> None:
    """One is published by the kernel's own rules, of which no process tells."""
    served(proc, group=CONTAINER, ticks=5000)
    proc.listen(8000, 77, 500)
    served(proc, 600, 9000, group=f"/system.slice/docker-{600:064x}.scope", ticks=9000)
    proc.listen(9000, 78, 600)
    assert of_page(proc, 90.0) == {600, 601, 602, 603}
    assert of_page(proc, 50.0) == {500, 501, 502, 503}
    for began in (None, 53.0):
        if began is not None:
            (proc.root / "600/stat").write_text((proc.root / "500/stat").read_text())
        with pytest.raises(Unclear, match="2 servers may be the one"):
            of_page(proc, began)


def test_who_is_seen_to_listen_needs_no_time_to_agree(proc: Proc) -> None:
    """The clock may have been set since: then the page's time is that of before."""
    served(proc, opens=[("socket:[42]", "")], ticks=5000)
    proc.listen(8000, 42)
    assert of_page(proc, 4000.0) == {500, 501, 502, 503}


def test_a_proxy_that_does_not_say_for_whom_leads_nowhere(proc: Proc) -> None:
    served(proc)
    proc.listen(8000, 43, 500)
    proc.add(300, "nginx: master process", opens=[("socket:[42]", "")])
    proc.listen(8000, 42)
    assert "a port proxy listens" in unclear(proc)


def test_two_servers_behind_one_port_are_none(proc: Proc) -> None:
    served(proc)
    served(proc, 600)
    proc.listen(8000, 43, 500)
    proc.listen(8000, 44, 600)
    assert "2 servers" in unclear(proc)


@pytest.mark.parametrize(
    ("group", "belongs"),
    [
        (CONTAINER, True),
        (CONTAINER + "/container", True),
        ("/system.slice/vllm.service", True),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service", True),
        ("/user.slice/user-1000.slice/session-3.scope", False),
        ("/user.slice/user-1000.slice/user@1000.service", False),
        ("/system.slice/ssh.service", False),
        ("/system.slice/cron.service", False),
        ("/system.slice/sshd@3-10.0.0.1:22.service", False),
        ("/system.slice/sshfs-models.service", True),
        ("/", False),
    ],
)
def test_what_else_is_in_its_service_or_container_belongs_to_it(
    proc: Proc, group: str, belongs: bool
) -> None:
    served(proc, group=group)
    proc.add(900, "ray::Worker", group=group)
    proc.add(901, "ray::Worker", group="/other" + group)
    proc.listen(8000, 42)
    proc.listen(8000, 42, 500)
    assert found(proc) == {500, 501, 502, 503} | ({900} if belongs else set())


def test_a_group_with_two_servers_does_not_make_them_one(proc: Proc) -> None:
    served(proc, group=CONTAINER)
    served(proc, 600, 8001, group=CONTAINER)
    proc.listen(8000, 42)
    proc.listen(8000, 42, 500)
    assert found(proc) == {500, 501, 502, 503}


def launch(proc: Proc, sys: Path, url: str = "http://127.0.0.1:8000") -> Launch:
    return Launch("qwen", url, Tree(sys), proc.root)


def on_two_gpus(proc: Proc, sys: Path) -> None:
    served(proc)
    proc.listen(8000, 42)
    proc.listen(8000, 42, 500)
    books = {502: {4001: 20 * GIB, 4002: 0}, 503: {4001: 0, 4002: 20 * GIB}, 9: {4001: GIB}}
    kfd(sys, {4001: ONE, 4002: TWO}, books)


def test_the_gpus_of_all_workers_are_told_with_where_they_sit(proc: Proc, sys: Path) -> None:
    on_two_gpus(proc, sys)
    facts = launch(proc, sys).read(UP, LATER).facts
    assert facts["gpus"] == [
        {
            "gpu": ONE,
            "slot": "0000:00:01.0",
            "root": "pci0000:00",
            "socket": 0,
            "numa": 0,
            "pids": [502],
        },
        {
            "gpu": TWO,
            "slot": "0000:80:01.0",
            "root": "pci0000:80",
            "socket": None,
            "numa": None,
            "pids": [503],
        },
    ]
    assert facts["pids"] == [500, 501, 502, 503]
    assert "gpus_unknown" not in facts
    assert json.loads(json.dumps(facts)) == facts


def test_how_the_server_was_launched_is_told_with_its_fingerprint(proc: Proc, sys: Path) -> None:
    on_two_gpus(proc, sys)
    facts = launch(proc, sys).read({**UP, "version": "0.32.0"}, LATER).facts
    told: Any = facts["launch"]
    assert told["versions"] == {"vllm": "0.32.0"}
    assert "serve" in told["argv"]
    assert facts["launch_fingerprint"] == fingerprint_of(told).as_dict()
    assert "launch_unknown" not in facts


def test_configured_names_count_in_the_fingerprint_or_do_not(proc: Proc, sys: Path) -> None:
    on_two_gpus(proc, sys)
    write(proc.root / "500/environ", "MY_FAST=1\0VLLM_LABEL=a\0")
    probe = dataclasses.replace(launch(proc, sys), more=("MY_*",), less=("VLLM_LABEL",))
    found: Any = probe.read(UP, LATER).facts["launch_fingerprint"]
    names = {factor["name"] for factor in found["factors"]}
    assert "env MY_FAST" in names
    assert "env VLLM_LABEL" not in names
    assert (found["more"], found["less"]) == (["env MY_*"], ["env VLLM_LABEL"])


def test_a_server_that_was_not_found_has_no_launch_and_a_reason(proc: Proc, sys: Path) -> None:
    facts = launch(proc, sys).read(UP, LATER).facts
    assert "launch" not in facts
    assert "no process was seen" in str(facts["launch_unknown"])


def test_the_reason_is_told_where_it_is_not_known(proc: Proc, sys: Path) -> None:
    facts = launch(proc, sys).read(UP, LATER).facts
    assert "no process was seen" in str(facts["gpus_unknown"])
    served(proc)
    proc.listen(8000, 42)
    proc.listen(8000, 42, 500)
    proc.blind(502)
    facts = launch(proc, sys).read(UP, LATER).facts
    assert "neither KFD" in str(facts["gpus_unknown"])
    assert facts["pids"] == [500, 501, 502, 503]


def test_between_two_searches_the_answer_is_repeated(proc: Proc, sys: Path) -> None:
    on_two_gpus(proc, sys)
    probe = launch(proc, sys)
    first = probe.read(UP, LATER).facts
    (proc.root / "500/stat").unlink()  # what is looked up anew is seen by this
    assert probe.read({**UP, **first}, LATER).facts == first
    repeated = probe.at_once({**UP, **first})
    assert repeated is not None
    assert repeated.facts == first
    assert probe.at_once(UP) is None
    assert probe.at_once({**first, "answered": False}) is None


def test_after_five_minutes_it_is_asked_anew(proc: Proc, sys: Path) -> None:
    on_two_gpus(proc, sys)
    probe = launch(proc, sys)
    first = probe.read(UP, LATER).facts
    (proc.root / "500/stat").unlink()
    asked = time.monotonic()
    young = {**UP, **first, "gpus_asked": asked - EVERY + 60}
    old = {**UP, **first, "gpus_asked": asked - EVERY}
    assert "gpus" in probe.read(young, LATER).facts
    assert "gpus_unknown" in probe.read(old, LATER).facts


def test_another_process_start_is_asked_about_at_once(proc: Proc, sys: Path) -> None:
    on_two_gpus(proc, sys)
    probe = launch(proc, sys)
    first = probe.read({**UP, "process_start": 1.0}, LATER).facts
    (proc.root / "500/stat").unlink()
    assert "gpus" in probe.read({**UP, **first, "process_start": 1.0}, LATER).facts
    assert "gpus_unknown" in probe.read({**UP, **first, "process_start": 2.0}, LATER).facts


def test_remote_targets_and_the_first_round_are_not_asked_about(proc: Proc, sys: Path) -> None:
    on_two_gpus(proc, sys)
    assert launch(proc, sys, "http://10.0.0.7:8000").read(UP, LATER).facts == {}
    assert launch(proc, sys).read({}, LATER).facts == {}


def test_a_silent_target_is_not_said_to_hold_gpus(proc: Proc, sys: Path) -> None:
    on_two_gpus(proc, sys)
    first = launch(proc, sys).read(UP, LATER).facts
    silent = launch(proc, sys).read({**first, "answered": False}, LATER).facts
    assert "gpus" not in silent


def test_on_a_host_without_gpus_a_server_holds_none(proc: Proc, tmp_path: Path) -> None:
    (tmp_path / "bare/bus/pci/devices").mkdir(parents=True)
    assert launch(proc, tmp_path / "bare").read(UP, LATER).facts["gpus"] == []
    reason = launch(proc, tmp_path / "none").read(UP, LATER).facts["gpus_unknown"]
    assert reason == "the PCI bus cannot be read (ENOENT)"


def test_a_unix_socket_is_not_looked_up(proc: Proc, sys: Path) -> None:
    facts = launch(proc, sys, "unix:///run/vllm.sock").read(UP, LATER).facts
    assert "Unix socket" in str(facts["gpus_unknown"])


@pytest.mark.parametrize(
    ("cpus", "socket_told"),
    [("0-1", 0), ("2-3", 1), ("3", 1), ("0,2", None), ("0-3", None), ("", None), ("7", None)],
)
def test_the_socket_is_that_of_all_near_processors(
    sys: Path, cpus: str, socket_told: int | None
) -> None:
    write(sys / f"bus/pci/devices/{ONE}/local_cpulist", f"{cpus}\n")
    assert socket_of(Tree(sys), ONE) == socket_told


def test_on_a_board_with_one_socket_every_gpu_is_on_it(tmp_path: Path) -> None:
    card(tmp_path, ONE, numa=-1, cpus="0-1")
    processors(tmp_path, 0, 0)
    assert socket_of(Tree(tmp_path), ONE) == 0
