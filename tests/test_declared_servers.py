"""A declared server: found by its unit, container or pid file, and a stale one not believed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.hostile import HostileServer, answer
from tests.proc_tree import Proc, write
from watchdog.declared_servers import Declared, declared_pids, started_at
from watchdog.servers import Search, Unclear

BOOT = 1_700_000_000
TICKS = os.sysconf("SC_CLK_TCK")
OWN = "0f" * 32
SCOPE = f"/system.slice/docker-{OWN}.scope"
SERVE = ["/venv/bin/python", "/venv/bin/vllm", "serve", "m"]
USER = "/user.slice/user-1000.slice/user@1000.service/app.slice"


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path / "proc")
    write(made.root / "stat", f"cpu 1 2 3\nbtime {BOOT}\n")
    return made


def served(proc: Proc, pid: int = 500, port: int = 8000, *, parent: int = 1, **how: Any) -> None:
    """A vLLM server with an engine and a worker that changed their titles."""
    proc.add(pid, [*SERVE, "--port", str(port)], parent=parent, **how)
    proc.add(pid + 1, "VLLM::EngineCore", parent=pid, **how)
    proc.add(pid + 2, "VLLM::Worker_TP0", parent=pid + 1, **how)


def search(proc: Proc, port: int = 8000) -> Search:
    return Search(port, proc.root, time.monotonic() + 60)


def found(proc: Proc, port: int = 8000, socket: Path = Path("/nowhere/s"), **what: Any) -> set[int]:
    return declared_pids(Declared(**what), search(proc, port), [socket])


def unclear(proc: Proc, port: int = 8000, **what: Any) -> str:
    with pytest.raises(Unclear) as told:
        found(proc, port, **what)
    return str(told.value)


# --- a unit --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "group",
    [
        "/system.slice/vllm.service",
        "/system.slice/vllm.service/worker",
        f"/system.slice/vllm.service/libpod-payload-{OWN}",
        f"{USER}/vllm.service",
        "/machine.slice/machine-gpu.scope/system.slice/vllm.service",
    ],
)
def test_all_processes_of_a_unit_are_the_server(proc: Proc, group: str) -> None:
    served(proc, group=group)
    proc.add(700, "ray::Worker", group=group)
    served(proc, 600, group="/system.slice/vllm2.service")
    proc.add(800, SERVE, group="/system.slice/my-vllm.service")
    assert found(proc, systemd_unit="vllm.service") == {500, 501, 502, 700}


def test_the_port_is_not_asked_for_where_one_server_is_in_the_unit(proc: Proc) -> None:
    """A proxy in another unit listens on the target's port."""
    served(proc, port=9000, group="/system.slice/vllm.service")
    served(proc, 600, port=8000, group="/system.slice/other.service")
    assert found(proc, systemd_unit="vllm.service") == {500, 501, 502}


def test_of_two_servers_in_a_unit_the_one_with_the_port_is_meant(proc: Proc) -> None:
    proc.add(400, ["bash", "run.sh"], group="/system.slice/vllm.service")
    served(proc, 500, 8000, parent=400, group="/system.slice/vllm.service")
    served(proc, 600, 8001, parent=400, group="/system.slice/vllm.service")
    assert found(proc, 8001, systemd_unit="vllm.service") == {600, 601, 602}
    assert "2 vLLM servers" in unclear(proc, 8002, systemd_unit="vllm.service")


def test_a_unit_that_does_not_run_is_said_with_its_key_and_nothing_else_is_taken(
    proc: Proc,
) -> None:
    served(proc)
    proc.listen(8000, 42)
    proc.listen(8000, 42, 500)
    said = unclear(proc, systemd_unit="vllm.service")
    assert said == "launch.systemd_unit vllm.service: no process of this host is in it"


def test_two_units_of_one_name_are_none(proc: Proc) -> None:
    served(proc, group="/system.slice/vllm.service")
    served(proc, 600, group=f"{USER}/vllm.service")
    assert "there are 2 of this name" in unclear(proc, systemd_unit="vllm.service")


def test_a_unit_that_only_runs_dockers_client_holds_no_server(proc: Proc) -> None:
    proc.add(400, ["docker", "run", "vllm/vllm-openai"], group="/system.slice/vllm.service")
    served(proc, group=SCOPE)
    assert "only starts or serves others" in unclear(proc, systemd_unit="vllm.service")


def test_a_program_that_is_no_vllm_command_counts_where_it_is_declared(proc: Proc) -> None:
    proc.add(400, ["python", "my_server.py"], group="/system.slice/llm.service")
    assert found(proc, systemd_unit="llm.service") == {400}


# --- a container ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "group",
    [
        SCOPE,
        f"/docker/{OWN}",
        f"/machine.slice/libpod-{OWN}.scope/container",
        f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{OWN}.scope",
    ],
)
@pytest.mark.parametrize("length", [12, 64])
def test_a_container_is_found_by_its_id_without_an_engine(
    proc: Proc, group: str, length: int
) -> None:
    served(proc, group=group)
    served(proc, 600, group=SCOPE.replace("0f", "1e"))
    proc.add(900, "conmon", group=f"/machine.slice/libpod-conmon-{OWN}.scope")
    assert found(proc, container=OWN[:length]) == {500, 501, 502}


def test_a_name_is_asked_of_the_engine(proc: Proc, tmp_path: Path) -> None:
    served(proc, group=SCOPE)
    told = {"Id": OWN, "Image": "sha256:" + "a1" * 32, "State": {"Pid": 500}}
    body = answer(json.dumps(told).encode())
    with HostileServer(lambda visit: visit.send(body), tmp_path / "s"):
        assert found(proc, socket=tmp_path / "s", container="qwen") == {500, 501, 502}


def test_a_container_whose_group_has_another_name_is_found_by_its_process(
    proc: Proc, tmp_path: Path
) -> None:
    served(proc, group="/vllm")
    told = {"Id": OWN, "Image": "sha256:" + "a1" * 32, "State": {"Pid": 500}}
    body = answer(json.dumps(told).encode())
    with HostileServer(lambda visit: visit.send(body), tmp_path / "s"):
        assert found(proc, socket=tmp_path / "s", container="qwen") == {500, 501, 502}


def test_a_container_that_does_not_run_is_said(proc: Proc, tmp_path: Path) -> None:
    served(proc)
    told = {"Id": OWN, "Image": "sha256:" + "a1" * 32, "State": {"Pid": 0}}
    body = answer(json.dumps(told).encode())
    with HostileServer(lambda visit: visit.send(body), tmp_path / "s"):
        with pytest.raises(Unclear, match="launch.container qwen: no process .* may not run"):
            found(proc, socket=tmp_path / "s", container="qwen")


def test_a_name_without_an_engine_is_said_with_what_would_help(proc: Proc) -> None:
    served(proc, group=SCOPE)
    said = unclear(proc, container="qwen")
    assert said.startswith("launch.container qwen: not found: no engine's socket is here")
    assert said.endswith("its ID would be found without")
    assert "would be found" not in unclear(proc, container="1e" * 6)


# --- a pid file ----------------------------------------------------------------------------------


def pid_file(tmp_path: Path, text: str, at: float = BOOT + 1.0) -> Path:
    file = tmp_path / "vllm.pid"
    file.write_text(text)
    os.utime(file, (at, at))
    return file


def began_at(proc: Proc, pid: int, seconds: float) -> None:
    """Let a process have begun so many seconds after the boot."""
    stat = proc.root / str(pid) / "stat"
    stat.write_text(stat.read_text().replace(" 0 100 0\n", f" 0 {int(seconds * TICKS)} 0\n"))


def test_a_process_and_its_descendants_are_the_server(proc: Proc, tmp_path: Path) -> None:
    proc.add(400, ["bash", "run.sh"])
    served(proc, parent=400)
    served(proc, 600)
    assert found(proc, pid_file=pid_file(tmp_path, "400\n")) == {400, 500, 501, 502}


def test_of_two_servers_below_it_the_one_with_the_port_is_meant(proc: Proc, tmp_path: Path) -> None:
    proc.add(400, "supervisord")
    served(proc, parent=400)
    served(proc, 600, 8001, parent=400)
    file = pid_file(tmp_path, "400")
    assert found(proc, 8001, pid_file=file) == {600, 601, 602}
    assert "2 vLLM servers run in it, none of them with port 8002" in unclear(
        proc, 8002, pid_file=file
    )


@pytest.mark.parametrize("command", ["docker run -p 8000:8000 vllm", "docker-compose up"])
def test_a_client_of_a_container_engine_is_no_server(
    proc: Proc, tmp_path: Path, command: str
) -> None:
    proc.add(400, command)
    proc.add(401, "tee /var/log/vllm.log", parent=400)
    said = unclear(proc, pid_file=pid_file(tmp_path, "400"))
    assert "what runs in it only starts or serves others" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no number"),
        ("vllm", "holds no number"),
        ("-500", "holds no number"),
        ("500 501", "holds no number"),
        ("5" * 11, "holds no number"),
        (" " * 100 + "500", "has 103 bytes, more than 64"),
        ("77", "process 77 does not run: the file is stale"),
        ("0", "process 0 does not run"),
    ],
)
def test_a_file_that_names_no_process_is_said(
    proc: Proc, tmp_path: Path, text: str, said: str
) -> None:
    served(proc)
    told = unclear(proc, pid_file=pid_file(tmp_path, text))
    assert said in told
    assert told.startswith("launch.pid_file ")


def test_a_missing_file_and_a_pipe_are_said(proc: Proc, tmp_path: Path) -> None:
    assert "is not there" in unclear(proc, pid_file=tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    assert "is no regular file" in unclear(proc, pid_file=tmp_path / "pipe")


@pytest.mark.parametrize(("later", "stale"), [(0.0, False), (1.9, False), (2.5, True)])
def test_a_process_that_began_after_the_file_was_written_has_only_its_number(
    proc: Proc, tmp_path: Path, later: float, stale: bool
) -> None:
    """Two seconds are the clock's: the kernel tells the boot in whole ones."""
    proc.add(400, ["postgres"])
    began_at(proc, 400, 1000 + later)
    file = pid_file(tmp_path, "400", BOOT + 1000.0)
    if stale:
        assert "is stale: process 400 began after" in unclear(proc, pid_file=file)
    else:
        assert found(proc, pid_file=file) == {400}


def test_a_vllm_server_counts_whenever_it_began(proc: Proc, tmp_path: Path) -> None:
    served(proc)
    began_at(proc, 500, 5000)
    assert found(proc, pid_file=pid_file(tmp_path, "500", BOOT + 1000.0)) == {500, 501, 502}


def test_a_real_process_that_wrote_its_own_file_is_found_with_its_child(tmp_path: Path) -> None:
    file = tmp_path / "own.pid"
    code = (
        "import os, subprocess, sys\n"
        f"open({str(file)!r}, 'w').write(f'{{os.getpid()}}\\n')\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as server:
        assert server.stdout is not None
        child = int(server.stdout.readline())
        seen = Search(8000, Path("/proc"), time.monotonic() + 60)
        assert declared_pids(Declared(pid_file=file), seen) == {server.pid, child}
        began = started_at({server.pid, child}, seen)
        assert began is not None
        assert abs(time.time() - began) < 600
        assert server.stdin is not None
        server.stdin.close()
    seen = Search(8000, Path("/proc"), time.monotonic() + 60)
    with pytest.raises(Unclear, match="the file is stale"):
        declared_pids(Declared(pid_file=file), seen)


# --- since when ----------------------------------------------------------------------------------


def test_a_server_began_when_its_vllm_did_and_a_launcher_when_its_first_process_did(
    proc: Proc,
) -> None:
    proc.add(400, ["bash", "run.sh"])
    began_at(proc, 400, 10)
    proc.add(401, ["podman", "pull"], parent=400)
    began_at(proc, 401, 20)
    assert started_at({400, 401}, search(proc)) == BOOT + 10
    served(proc, parent=400)
    began_at(proc, 500, 300)
    began_at(proc, 501, 330)
    assert started_at({400, 500, 501, 502}, search(proc)) == BOOT + 300
    assert started_at({77}, search(proc)) is None
