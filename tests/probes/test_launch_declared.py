"""The launch probe where the server is declared: what beats the search, and what it then tells."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.hostile import HostileServer, answer
from tests.proc_tree import Proc, write
from watchdog.build import probes_of
from watchdog.config import load
from watchdog.declared_servers import Declared
from watchdog.domain.fingerprint import fingerprint_of
from watchdog.probes.launch import EVERY, Launch
from watchdog.tree import Tree

LATER = time.monotonic() + 1000.0
UP = {"answered": True}
OWN = "0f" * 32
SCOPE = f"/system.slice/docker-{OWN}.scope"
IMAGE = "sha256:" + "a1" * 32
TITLE, VERSION = "org.opencontainers.image.title", "org.opencontainers.image.version"
TOLD = {"Id": OWN, "Image": IMAGE, "State": {"Pid": 500}, "Config": {
    "Labels": {TITLE: "radiance", VERSION: "0.6.2"}}}  # fmt: skip
ANSWER = answer(json.dumps(TOLD).encode())


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path / "proc")
    write(made.root / "stat", "cpu 1 2 3\nbtime 1700000000\n")
    return made


def served(proc: Proc, pid: int, group: str, port: int = 8000) -> None:
    proc.add(pid, f"/venv/bin/python /venv/bin/vllm serve m --port {port}", group=group)
    proc.add(pid + 1, "VLLM::EngineCore", parent=pid, group=group)
    write(proc.root / str(pid) / "environ", "RADIANCE_VERSION=0.9.3\0HF_TOKEN=sk-seeded-1\0")


def launch(proc: Proc, tmp_path: Path, url: str = "http://127.0.0.1:8000", **what: Any) -> Launch:
    tree, sockets = Tree(tmp_path / "sys"), [tmp_path / "s"]
    return Launch("qwen", url, tree, proc.root, declared=Declared(**what), sockets=sockets)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000", "http://gpu-7.lan:8000", "unix:///run/vllm.sock"]
)
def test_what_is_declared_beats_the_search_whatever_the_url(
    proc: Proc, tmp_path: Path, url: str
) -> None:
    served(proc, 500, "/system.slice/vllm.service", 9000)
    served(proc, 600, "/")
    proc.listen(8000, 42)
    proc.listen(8000, 42, 600)
    facts = launch(proc, tmp_path, url, systemd_unit="vllm.service").read(UP, LATER).facts
    assert facts["pids"] == [500, 501]
    told: Any = facts["launch"]
    assert "9000" in told["argv"]


def test_what_is_declared_and_not_there_is_said_and_no_other_is_taken(
    proc: Proc, tmp_path: Path
) -> None:
    served(proc, 600, "/")
    proc.listen(8000, 42)
    proc.listen(8000, 42, 600)
    facts = launch(proc, tmp_path, systemd_unit="vllm.service").read(UP, LATER).facts
    assert "launch" not in facts
    assert "launch.systemd_unit vllm.service" in str(facts["launch_unknown"])


def test_where_processes_are_hidden_a_unit_that_is_not_seen_is_not_said_to_be_absent(
    tmp_path: Path,
) -> None:
    proc = Proc(tmp_path / "proc", "pid:[4026532000]")
    for known in (UP, {"answered": False}):
        facts = launch(proc, tmp_path, systemd_unit="vllm.service").read(known, LATER).facts
        assert "a container" in str(facts["launch_unknown"])


def test_a_silent_target_is_starting_where_its_own_unit_is_young(
    proc: Proc, tmp_path: Path
) -> None:
    served(proc, 600, "/system.slice/other.service")
    probe = launch(proc, tmp_path, systemd_unit="vllm.service")
    facts = probe.read({"answered": False}, LATER).facts
    assert "started_at" not in facts  # another server that starts is not this one
    assert "launch.systemd_unit vllm.service" in str(facts["launch_unknown"])
    served(proc, 500, "/system.slice/vllm.service")
    facts = probe.read({"answered": False}, LATER).facts
    assert facts["started_at"] == pytest.approx(1_700_000_001, abs=0.01)


def test_after_a_silence_it_is_looked_anew_where_no_page_tells_the_process(
    proc: Proc, tmp_path: Path
) -> None:
    served(proc, 500, "/system.slice/vllm.service")
    probe = launch(proc, tmp_path, systemd_unit="vllm.service")
    first = probe.read(UP, LATER).facts
    silent = probe.read({**first, "answered": False}, LATER).facts
    assert probe.at_once({**first, **UP}) is not None
    assert probe.at_once({**first, **silent, **UP}) is None
    start = {"process_start": 1.0}
    kept = probe.read({**first, **start, "answered": False}, LATER).facts
    assert "gpus_asked" not in kept


def test_the_image_is_a_factor_and_its_label_a_claim(proc: Proc, tmp_path: Path) -> None:
    served(proc, 500, SCOPE)
    probe = launch(proc, tmp_path, container=OWN[:12])
    with HostileServer(lambda visit: visit.send(ANSWER), tmp_path / "s") as docker:
        facts = probe.read({**UP, "version": "0.27.1"}, LATER).facts
        asked = {**facts, **UP, "gpus_asked": time.monotonic() - EVERY}
        again = probe.read({**asked, "version": "0.27.1"}, LATER).facts
        assert len(docker.visits) == 1
    told: Any = facts["launch"]
    assert told["image"] == IMAGE
    assert again["launch"] == told
    assert "image" not in told["unread"]
    assert facts["launch_fingerprint"] == fingerprint_of(told).as_dict()
    assert IMAGE in json.dumps(facts["launch_fingerprint"])
    assert facts["versions"] == again["versions"] == {
        "claims": [
            {"component": "radiance", "version": "0.9.3", "by": "environment RADIANCE_VERSION"},
            {"component": "radiance", "version": "0.6.2", "by": f"image label {VERSION}"},
        ],
        "reports": [{"component": "vllm", "version": "0.27.1", "by": "/version"}],
        "partial": False,
    }  # fmt: skip
    assert "sk-seeded" not in json.dumps(facts)


def test_an_engine_that_does_not_let_us_leaves_the_reason(proc: Proc, tmp_path: Path) -> None:
    served(proc, 500, SCOPE)
    facts: Any = launch(proc, tmp_path, container=OWN[:12]).read(UP, LATER).facts
    told = facts["launch"]
    assert facts["versions"]["partial"]  # its labels may claim a version
    assert "no engine's socket is here" in told["unread"]["image"]
    assert OWN[:12] in told["unread"]["image"]


def test_the_settings_reach_the_probe(tmp_path: Path) -> None:
    file = tmp_path / "watchdog.yaml"
    file.write_text(
        "targets:\n"
        "  - {url: 'http://gpu-7:8000', name: a, launch: {systemd_unit: vllm.service}}\n"
        "  - {url: 'http://gpu-7:8001', name: b, launch: {container: qwen}}\n"
        "  - {url: 'http://gpu-7:8002', name: c, launch: {pid_file: /run/vllm.pid}}\n"
        "  - {url: 'http://gpu-7:8003', name: d}\n"
    )
    found = [x.declared for x in probes_of(load(file)) if isinstance(x, Launch)]
    assert found == [
        ("vllm.service", None, None),
        (None, "qwen", None),
        (None, None, Path("/run/vllm.pid")),
        (None, None, None),
    ]
