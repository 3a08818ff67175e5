"""How a server was launched, read of its processes: what is told, what is not, and no secret."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.proc_tree import Proc, card, write
from watchdog.domain.fingerprint import compare, fingerprint_of
from watchdog.launches import launch_of
from watchdog.tree import Tree

SECRET = "sk-seeded-0123456789"
ASKED = '{"method":"eagle3","model":"drafter","num_speculative_tokens":7}'
SERVE = ["/venv/bin/python", "/venv/bin/vllm", "serve", "--model=/nowhere", "--api-key", SECRET]
CONTAINER = "0123456789abcdef" * 4


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path / "proc")
    write(made.root / "stat", "cpu 1 2 3\nbtime 1700000000\nprocesses 9\n")
    return made


def environment(proc: Proc, pid: int, **variables: str) -> None:
    write(proc.root / str(pid) / "environ", "".join(f"{n}={v}\0" for n, v in variables.items()))


def told(proc: Proc, *pids: int, sys: Path | None = None, version: str | None = "1") -> Any:
    tree = Tree(sys or proc.root / "no-sys")
    return launch_of(pids, proc.root, tree, time.monotonic() + 5, version)


def model(folder: Path, **config: object) -> Path:
    write(folder / "config.json", json.dumps({"architectures": ["A"], **config}))
    return folder


def test_the_process_that_the_workers_descend_from_is_the_launch(proc: Proc) -> None:
    proc.add(10, SERVE)
    proc.add(11, "VLLM::EngineCore", parent=10)
    proc.add(12, SERVE, parent=10)  # an API worker has the same words
    environment(proc, 10, VLLM_USE_V1="1")
    environment(proc, 12, VLLM_USE_V1="0")
    found = told(proc, 10, 11, 12)
    assert found["argv"][:4] == SERVE[:4]
    assert found["environ"] == {"VLLM_USE_V1": "1"}
    assert found["versions"] == {"vllm": "1"}
    assert found["started_at"] == 1_700_000_000 + 100 / os.sysconf("SC_CLK_TCK")


def test_what_only_started_the_server_is_not_the_launch(proc: Proc) -> None:
    proc.add(9, ["sudo", *SERVE])
    proc.add(10, SERVE, parent=9)
    environment(proc, 9, VLLM_USE_V1="0")
    environment(proc, 10, VLLM_USE_V1="1")
    assert told(proc, 9, 10)["environ"] == {"VLLM_USE_V1": "1"}


def test_no_secret_of_argv_or_environment_is_kept(proc: Proc) -> None:
    proc.add(10, SERVE)
    environment(proc, 10, VLLM_API_KEY=SECRET, HF_TOKEN=SECRET, VLLM_USE_V1="1", HOME="/root")
    found = told(proc, 10)
    assert SECRET not in json.dumps(found)
    assert SECRET not in json.dumps(fingerprint_of(found).as_dict())
    assert found["environ"] == {"VLLM_USE_V1": "1"}


@pytest.mark.parametrize(
    "value", ["https://me:{}@host/x", "--api-key {}", '{{"api_key": "{}"}}', "{}"]
)
def test_a_secret_inside_a_value_of_the_environment_is_masked(proc: Proc, value: str) -> None:
    proc.add(10, SERVE)
    environment(proc, 10, VLLM_X=value.format(SECRET), VLLM_Y="a=b, c")
    found = told(proc, 10)
    assert SECRET not in json.dumps(found)
    assert "..." in found["environ"]["VLLM_X"]
    assert found["environ"]["VLLM_Y"] == "a=b, c"


def test_what_may_not_be_read_is_told_and_proves_no_sameness(proc: Proc) -> None:
    proc.add(10, SERVE)
    found = told(proc, 10)
    assert "ENOENT" in found["unread"]["environ"]
    assert fingerprint_of(found).partial
    environment(proc, 10, VLLM_USE_V1="1")
    again = fingerprint_of(told(proc, 10))
    assert compare(fingerprint_of(found), again).changed == ()
    assert not compare(fingerprint_of(found), again).same


@pytest.mark.parametrize(
    "before", [["uv", "run"], ["python3", "/opt/run.py"], ["docker-init", "--"]]
)
def test_who_stays_to_start_the_server_by_other_words_is_not_the_server(
    proc: Proc, before: list[str]
) -> None:
    """It may set variables for it: its own environment is another one."""
    proc.add(9, [*before, *SERVE])
    proc.add(10, SERVE, parent=9)
    proc.add(11, SERVE, parent=10)  # forked, as a worker of the API
    environment(proc, 9, VLLM_USE_V1="0")
    environment(proc, 10, VLLM_USE_V1="1")
    found = told(proc, 9, 10, 11)
    assert (found["pid"], found["environ"]) == (10, {"VLLM_USE_V1": "1"})


def test_of_two_that_one_script_started_neither_is_told(proc: Proc) -> None:
    proc.add(9, ["python3", "/opt/run.py", *SERVE])
    proc.add(10, SERVE, parent=9)
    proc.add(11, [*SERVE, "--port", "8001"], parent=9)
    assert "no single process" in told(proc, 9, 10, 11)["unread"]["argv"]


@pytest.mark.parametrize("several", [(), (SERVE, SERVE)], ids=["none", "two"])
def test_without_one_head_there_is_no_command_line(proc: Proc, several: tuple[Any, ...]) -> None:
    pids = [proc.add(20 + i, words) and 20 + i for i, words in enumerate(several)]
    found = told(proc, *pids)
    assert "argv" not in found
    assert "no single process" in found["unread"]["argv"]


def test_a_command_line_without_bounds_is_not_kept(proc: Proc) -> None:
    proc.add(10, [*SERVE, *["x"] * 1024])
    assert "1024 words" in told(proc, 10)["unread"]["argv"]


def test_of_a_command_line_that_is_read_by_half_nothing_is_kept(proc: Proc) -> None:
    proc.add(10, [*SERVE, *["x" * 99] * 700])
    found = told(proc, 10)
    assert "65536" in found["unread"]["argv"]
    assert "argv" not in found


def test_a_value_that_is_nested_too_deep_to_be_walked_is_masked(proc: Proc) -> None:
    proc.add(10, [*SERVE, "--hf-overrides", "[" * 900 + "]" * 900])
    assert "..." in json.dumps(told(proc, 10)["argv"])
    assert fingerprint_of(told(proc, 10)).digest


def test_folders_of_model_and_drafter_are_identified_where_the_server_sees_them(
    proc: Proc, tmp_path: Path
) -> None:
    target = model(tmp_path / "models/target")
    place = proc.add(10, ["vllm", "serve", str(target), "--speculative-config", ASKED])
    model(tmp_path / "run/drafter", hidden=1)
    (place / "cwd").symlink_to(tmp_path / "run")
    environment(proc, 10)
    found = told(proc, 10)
    assert found["models"]["model"]["architecture"] == "A"
    assert found["models"]["drafter"]["config"] != found["models"]["model"]["config"]
    before = fingerprint_of(found)
    model(tmp_path / "run/drafter", hidden=2)
    changed = compare(before, fingerprint_of(told(proc, 10))).changed
    assert {one.name for one in changed} == {"drafter config"}


@pytest.mark.parametrize(
    "group",
    [
        f"/system.slice/docker-{CONTAINER}.scope",
        f"/docker/{CONTAINER}",
        f"/machine.slice/libpod-{CONTAINER}.scope/container",
        f"/kubepods/burstable/pod0a1b2c3d/{CONTAINER}",
        f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{CONTAINER}.scope",
    ],
)
def test_a_container_sees_its_own_files_and_its_image_is_not_known(
    proc: Proc, tmp_path: Path, group: str
) -> None:
    place = proc.add(10, ["vllm", "serve", "/m"], group=group)
    model(tmp_path / "inside/m")
    (place / "root").symlink_to(tmp_path / "inside")
    environment(proc, 10)
    found = told(proc, 10)
    assert found["models"]["model"]["architecture"] == "A"
    assert found["container"] == CONTAINER[:12]
    assert CONTAINER[:12] in found["unread"]["image"]


def test_a_link_inside_a_container_is_followed_inside_it(proc: Proc, tmp_path: Path) -> None:
    place = proc.add(10, ["vllm", "serve", "/m/now"], group=f"/docker/{CONTAINER}")
    model(tmp_path / "inside/kept/a", hidden=1)
    (tmp_path / "inside/m").mkdir()
    (tmp_path / "inside/m/now").symlink_to("/kept/a")  # /kept/a of this host is another one, if any
    (place / "root").symlink_to(tmp_path / "inside")
    environment(proc, 10)
    assert told(proc, 10)["models"]["model"]["architecture"] == "A"


def test_where_nobody_tells_the_architecture_it_is_missing(proc: Proc, tmp_path: Path) -> None:
    proc.add(10, SERVE)
    assert "gpu" not in told(proc, 10, sys=tmp_path / "sys")["unread"]
    card(tmp_path / "sys", "0000:05:00.0", vendor="0x10de")
    assert "NVIDIA" in told(proc, 10, sys=tmp_path / "sys")["unread"]["gpu"]


@pytest.mark.parametrize(("version", "name"), [(120001, "gfx1201"), (90010, "gfx90a")])
def test_the_architecture_of_the_gpus_is_that_of_the_driver(
    proc: Proc, tmp_path: Path, version: int, name: str
) -> None:
    proc.add(10, SERVE)
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    write(nodes / "0/properties", "cpu_cores_count 8\ngfx_target_version 0\n")
    for node in ("1", "2"):
        write(nodes / node / "properties", f"simd_count 64\ngfx_target_version {version}\n")
    assert told(proc, 10, sys=tmp_path / "sys")["gpu"] == {"arch": name}
    write(nodes / "2/properties", "gfx_target_version many\n")
    assert "gpu" in told(proc, 10, sys=tmp_path / "sys")["unread"]


def test_the_process_and_its_caches_are_told_and_change_no_fingerprint(proc: Proc) -> None:
    proc.add(10, [*SERVE, "--compilation-config", '{"cache_dir": "/chosen"}'])
    environment(proc, 10, HOME="/root", USER="svc", VLLM_CACHE_ROOT="/var/cache/qwen")
    found = told(proc, 10)
    assert (found["pid"], found["root"]) == (10, "")
    assert {one["kind"]: one["path"] for one in found["caches"]} == {
        "vllm": "/var/cache/qwen",
        "chosen": "/chosen",
        "triton": "/root/.triton/cache",
        "aiter": "/root/.aiter/jit",
        "inductor": "/tmp/torchinductor_svc",
    }
    assert "HOME" not in found["environ"]
    bare = {key: found[key] for key in found.keys() - {"pid", "root", "caches"}}
    assert fingerprint_of(bare) == fingerprint_of(found)


def test_caches_that_are_not_known_make_no_fingerprint_partial(proc: Proc) -> None:
    proc.add(10, SERVE)
    environment(proc, 10, HOME="/root", VLLM_CACHE_ROOT="relative")
    found = told(proc, 10)
    parts = {part for part, _ in fingerprint_of(found).unread}
    assert "VLLM_CACHE_ROOT" in found["unread"]["caches"]
    assert "caches" not in parts


def test_a_server_in_a_container_or_with_mounts_of_its_own_has_another_root(proc: Proc) -> None:
    proc.add(10, SERVE, group=f"/docker/{CONTAINER}")
    assert told(proc, 10)["root"] == str(proc.root / "10/root")
    proc.add(20, SERVE)
    (proc.root / "20/ns").mkdir()
    (proc.root / "20/ns/mnt").symlink_to("mnt:[2]")
    (proc.root / "self/ns/mnt").symlink_to("mnt:[1]")
    assert told(proc, 20)["root"] == str(proc.root / "20/root")
    (proc.root / "20/ns/mnt").unlink()
    (proc.root / "20/ns/mnt").symlink_to("mnt:[1]")
    assert told(proc, 20)["root"] == ""


def test_a_variable_that_is_configured_to_count_is_read_too_and_no_secret_is(proc: Proc) -> None:
    proc.add(10, SERVE)
    environment(proc, 10, MY_FAST="1", MY_TOKEN=SECRET, OTHER="1", VLLM_USE_V1="1")
    later = time.monotonic() + 5
    found = launch_of([10], proc.root, Tree(proc.root / "no-sys"), later, "1", ("MY_*",))
    assert found["environ"] == {"MY_FAST": "1", "VLLM_USE_V1": "1"}
    assert told(proc, 10)["environ"] == {"VLLM_USE_V1": "1"}


HUB = "models--a--b"
COMMIT = "0123456789" * 4


def test_a_reference_of_the_hub_that_is_a_pipe_holds_nobody_up(proc: Proc, tmp_path: Path) -> None:
    (tmp_path / "hub" / HUB / "refs").mkdir(parents=True)
    os.mkfifo(tmp_path / "hub" / HUB / "refs/main")
    proc.add(10, ["vllm", "serve", "a/b"])
    environment(proc, 10, HF_HUB_CACHE=str(tmp_path / "hub"))
    assert "no local folder" in told(proc, 10)["unread"]["model files"]


def test_a_model_of_the_hub_in_a_container_is_found_by_its_own_links(
    proc: Proc, tmp_path: Path
) -> None:
    place = proc.add(10, ["vllm", "serve", "a/b"], group=f"/docker/{CONTAINER}")
    inner = tmp_path / "inside"
    write(inner / "hub" / HUB / "refs/main", COMMIT)
    (inner / "hub" / HUB / "snapshots").mkdir()
    (inner / "hub" / HUB / "snapshots" / COMMIT).symlink_to("/kept")
    write(inner / "blobs/1", '{"architectures": ["Inner"]}')
    (inner / "kept").mkdir()
    (inner / "kept/config.json").symlink_to("/blobs/1")
    (place / "root").symlink_to(inner)
    environment(proc, 10, HF_HUB_CACHE="/hub")
    assert told(proc, 10)["models"]["model"]["architecture"] == "Inner"


def test_a_relative_model_in_a_container_is_found_by_its_own_links(
    proc: Proc, tmp_path: Path
) -> None:
    place = proc.add(10, ["vllm", "serve", "m"], group=f"/docker/{CONTAINER}")
    (tmp_path / "inside/app").mkdir(parents=True)
    (tmp_path / "inside/app/m").symlink_to("/kept")
    model(tmp_path / "inside/kept")
    (place / "root").symlink_to(tmp_path / "inside")
    (place / "cwd").symlink_to("/app")
    environment(proc, 10)
    assert told(proc, 10)["models"]["model"]["architecture"] == "A"


@pytest.mark.parametrize("name", ["/a\\u0000b", "/a\\ud800b", "/a" + "/b" * 300])
@pytest.mark.parametrize("group", ["/", f"/docker/{CONTAINER}"])
def test_a_drafter_whose_path_can_be_none_is_said(proc: Proc, name: str, group: str) -> None:
    place = proc.add(
        10, ["vllm", "serve", "/m", "--speculative-config", f'{{"model":"{name}"}}'], group=group
    )
    (place / "root").mkdir()
    environment(proc, 10)
    found = told(proc, 10)
    assert found["argv"]
    assert "drafter files" in found["unread"] or found["models"]["drafter"]["unread"]


def test_a_number_that_is_another_process_by_now_tells_nothing(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = proc.add(10, SERVE)
    environment(proc, 10, VLLM_USE_V1="1")
    words = (place / "stat").read_text().split()

    def models_of(*_: object) -> dict[str, object]:
        write(place / "stat", " ".join([*words[:-2], "999", words[-1]]))
        return {}

    monkeypatch.setattr("watchdog.launches.models_of", models_of)
    assert told(proc, 10) == {"unread": {"argv": "process 10 ended meanwhile"}}


def test_no_secret_in_a_path_is_kept_with_a_reason(proc: Proc, tmp_path: Path) -> None:
    token = "hf_" + "a1B2" * 6
    (tmp_path / token).mkdir()
    proc.add(10, [f"{tmp_path}/{token}/vllm", "serve", str(tmp_path / token)])
    write(tmp_path / token / "vllm", "#!/bin/sh\n")
    environment(proc, 10, PYTHONPATH=f"/{token}", HOME="/nowhere")
    found = told(proc, 10)
    assert token not in json.dumps({key: found[key] for key in ("unread", "models", "argv")})
    assert found["unread"]["versions"]
