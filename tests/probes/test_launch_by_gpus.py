"""The server behind a port is, where nothing else tells, the only one that holds a GPU."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.proc_tree import Proc, card, kfd
from watchdog.probes.launch import Launch
from watchdog.tree import Tree

ONE, TWO = "0000:05:00.0", "0000:89:00.0"
GIB = 2**30
TARGET = 8218
NOBODY = f"no process was seen that listens on port {TARGET} or names it"


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """The target's port is open, and who listens may not be seen."""
    made = Proc(tmp_path / "proc")
    made.listen(TARGET, 42)
    return made


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    root = tmp_path / "sys"
    card(root, ONE)
    card(root, TWO, root="pci0000:80")
    return root


def served(proc: Proc, pid: int, port: int = 8000, *, up: bool = True) -> None:
    """A vLLM server with a worker, in a container with a network of its own."""
    group = f"/system.slice/docker-{pid:064x}.scope"
    proc.add(pid, f"/venv/bin/python /venv/bin/vllm serve m --port {port}", group=group)
    proc.add(pid + 1, "VLLM::Worker_TP0", parent=pid, group=group)
    if up:
        proc.listen(port, 1000 + pid, pid)


def books(sys: Path, held: Mapping[int, int]) -> None:
    kfd(sys, {4001: ONE, 4002: TWO}, {pid: {number: 20 * GIB} for pid, number in held.items()})


def told(proc: Proc, sys: Path) -> dict[str, Any]:
    probe = Launch("qwen", f"http://127.0.0.1:{TARGET}", Tree(sys), proc.root)
    return dict(probe.read({"answered": True}, time.monotonic() + 1000.0).facts)


def unclear(proc: Proc, sys: Path) -> str:
    facts = told(proc, sys)
    assert "pids" not in facts
    assert "launch" not in facts
    assert facts.get("gpus_unknown", facts["launch_unknown"]) == facts["launch_unknown"]
    return str(facts["launch_unknown"])


def test_the_only_server_that_holds_a_gpu_is_the_one(proc: Proc, sys: Path) -> None:
    served(proc, 500)
    served(proc, 600, 9000)  # an embedding model on the processor
    books(sys, {501: 4001, 9: 4002})
    facts = told(proc, sys)
    assert facts["pids"] == [500, 501]
    assert [(gpu["gpu"], gpu["pids"]) for gpu in facts["gpus"]] == [(ONE, [501])]
    assert "launch_unknown" not in facts


@pytest.mark.parametrize(("began", "its_own"), [(1.0, True), (500.0, False)])
def test_and_only_if_it_began_when_the_page_says(
    proc: Proc, sys: Path, began: float, its_own: bool
) -> None:
    """Else the server of the page holds none that is seen, and this is another one."""
    (proc.root / "stat").write_text("btime 1700000000\n")
    served(proc, 500)
    books(sys, {501: 4001})
    start = {"answered": True, "process_start": 1_700_000_000.0 + began}
    probe = Launch("qwen", f"http://127.0.0.1:{TARGET}", Tree(sys), proc.root)
    facts = probe.read(start, time.monotonic() + 1000.0).facts
    if its_own:
        assert facts["pids"] == [500, 501]
    else:
        assert facts["launch_unknown"] == (
            f"{NOBODY}; the vLLM server 500 holds a GPU and did not begin when the page says that "
            f"its process did"
        )


def test_the_open_file_of_an_nvidia_gpu_tells_it_too(proc: Proc, tmp_path: Path) -> None:
    card(tmp_path / "sys", ONE, vendor="0x10de")
    proc.nvidia(ONE)
    served(proc, 500)
    proc.add(502, "VLLM::Worker_TP1", parent=500, opens=[("/dev/nvidia0", "")])
    assert told(proc, tmp_path / "sys")["pids"] == [500, 501, 502]


def test_two_servers_that_hold_gpus_are_none(proc: Proc, sys: Path) -> None:
    served(proc, 500)
    served(proc, 600)
    books(sys, {501: 4001, 601: 4002})
    assert unclear(proc, sys) == f"{NOBODY}, and 2 vLLM servers that may be it hold GPUs"


def test_where_one_is_not_known_to_hold_none_another_is_not_taken(proc: Proc, sys: Path) -> None:
    served(proc, 500)
    served(proc, 600)
    proc.blind(601)  # no KFD here: the open files are all there is
    why = unclear(proc, sys)
    assert why.startswith(f"{NOBODY}; whether the vLLM server 600 holds a GPU is not known: ")
    assert "neither KFD" in why


def test_where_no_server_holds_a_gpu_none_is_taken(proc: Proc, sys: Path) -> None:
    served(proc, 500)
    books(sys, {9: 4001})
    assert unclear(proc, sys) == f"{NOBODY}, and no vLLM server that may be the one holds a GPU"


def test_a_server_with_a_port_of_the_host_is_another_one(proc: Proc, sys: Path) -> None:
    served(proc, 500, 8001)
    proc.listen(8001, 1500)
    books(sys, {501: 4001, 601: 4002})
    assert unclear(proc, sys) == NOBODY
    served(proc, 600)
    assert told(proc, sys)["pids"] == [600, 601]


def test_what_a_server_of_another_port_started_is_its_own(proc: Proc, sys: Path) -> None:
    served(proc, 500, 8001)
    proc.listen(8001, 1500)
    proc.add(502, "/venv/bin/vllm serve m --port 8002", parent=500)
    proc.listen(8002, 1502, 502)
    books(sys, {502: 4001})
    assert unclear(proc, sys) == NOBODY


def test_a_server_that_docker_publishes_elsewhere_is_another_one(proc: Proc, sys: Path) -> None:
    served(proc, 500)
    proc.add(300, "/usr/bin/docker-proxy -host-port 8001 -container-port 8000")
    books(sys, {501: 4001})
    assert unclear(proc, sys) == NOBODY


def test_a_server_that_is_not_up_may_start_for_another_port(proc: Proc, sys: Path) -> None:
    served(proc, 500, up=False)
    books(sys, {501: 4001})
    why = "the vLLM server 500 holds a GPU and was not seen to listen"
    assert unclear(proc, sys) == f"{NOBODY}; {why}"


def test_a_proxy_that_is_seen_stays_unclear(proc: Proc, sys: Path) -> None:
    served(proc, 500)
    proc.add(300, "nginx: master process", opens=[("socket:[42]", "")])
    books(sys, {501: 4001})
    assert "a port proxy listens" in unclear(proc, sys)


def test_who_listens_counts_before_who_holds_a_gpu(proc: Proc, sys: Path) -> None:
    served(proc, 500)
    proc.add(300, "python api.py", opens=[("socket:[42]", "")])
    books(sys, {501: 4001})
    assert told(proc, sys)["pids"] == [300]


@pytest.mark.parametrize("bus", [True, False])
def test_on_a_host_without_gpus_nothing_changes(proc: Proc, tmp_path: Path, bus: bool) -> None:
    if bus:
        (tmp_path / "bare/bus/pci/devices").mkdir(parents=True)
    served(proc, 500)
    assert told(proc, tmp_path / "bare")["launch_unknown"] == NOBODY
