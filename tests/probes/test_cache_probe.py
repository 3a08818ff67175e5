"""The probe of the compile caches: when it looks, at whose files, and what it says of them."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cache_trees import file, from_listing
from tests.pivoted import another_root
from tests.proc_tree import Proc, link, write
from watchdog import processes
from watchdog.domain.sample import Reading, Sample, labels
from watchdog.launches import launch_of
from watchdog.probes import compile_cache as module
from watchdog.probes.compile_cache import AGAIN, EVERY, CompileCache
from watchdog.reader import Readers
from watchdog.tree import Tree

LATER = time.monotonic() + 1000.0
SERVE = ["/venv/bin/python", "/venv/bin/vllm", "serve", "m"]
CONTAINER = "/system.slice/docker-" + "0f" * 32 + ".scope"
STARTED = 1_700_000_000 + 100 / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path / "proc")
    write(made.root / "stat", "cpu 1 2 3\nbtime 1700000000\nprocesses 9\n")
    return made


def serving(proc: Proc, group: str = "/", **variables: str) -> None:
    proc.add(10, SERVE, group=group)
    told = {"HOME": "/nowhere", "USER": "svc", "TMPDIR": "/nowhere", **variables}
    write(proc.root / "10/environ", "".join(f"{n}={v}\0" for n, v in told.items()))


def known(proc: Proc, **more: object) -> dict[str, object]:
    """What the other probes of the target told in the last round."""
    tree = Tree(proc.root / "no-sys")
    launch = launch_of([10], proc.root, tree, time.monotonic() + 5, "1")
    return {"answered": True, "launch": launch, "gpus_start": None, **more}


def cache(probe: CompileCache, facts: dict[str, object]) -> Any:
    told: Any = probe.read(facts, LATER).facts["cache"]
    assert json.loads(json.dumps(told)) == told
    return told


# --- where it looks ------------------------------------------------------------------------------


def test_the_caches_of_the_servers_own_process_are_told(proc: Proc, tmp_path: Path) -> None:
    from_listing(tmp_path / "vllm", "listing_mode3.txt")
    serving(proc, VLLM_CACHE_ROOT=str(tmp_path / "vllm"), TRITON_CACHE_DIR=str(tmp_path / "t"))
    told = cache(CompileCache("qwen", None, proc.root), known(proc))
    assert [(one["kind"], one["by"]) for one in told["places"]] == [
        ("vllm", "VLLM_CACHE_ROOT"),
        ("triton", "TRITON_CACHE_DIR"),
    ]
    assert told["places"][0]["newest"] == 1_700_000_006.0
    assert told["places"][1]["missing"]
    assert (told["unknown"], told["note"], told["start"]) == ("", "", STARTED)
    assert 0 <= time.time() - told["asked"] < 60


def test_vllms_own_place_is_told_even_where_it_is_missing(proc: Proc) -> None:
    serving(proc)
    [place] = cache(CompileCache("qwen", None, proc.root), known(proc))["places"]
    assert (place["path"], place["missing"]) == ("/nowhere/.cache/vllm", True)


def test_a_default_of_another_library_is_told_where_it_is_there(proc: Proc, tmp_path: Path) -> None:
    serving(proc, HOME=str(tmp_path))
    (tmp_path / ".triton/cache").mkdir(parents=True)
    (tmp_path / ".aiter/jit.stale-20260916T021500Z").mkdir(parents=True)
    told = cache(CompileCache("qwen", None, proc.root), known(proc))
    assert [one["kind"] for one in told["places"]] == ["vllm", "triton", "aiter"]


def test_without_an_environment_only_what_is_declared_is_looked_at(
    proc: Proc, tmp_path: Path
) -> None:
    proc.add(10, SERVE, group=CONTAINER)
    [place] = cache(CompileCache("qwen", tmp_path, proc.root), known(proc))["places"]
    assert (place["kind"], place["path"], place["by"]) == ("vllm", str(tmp_path), "configuration")
    assert place["here"] == str(tmp_path)
    told = cache(CompileCache("qwen", None, proc.root), known(proc))
    assert told["places"] == []
    assert "environment" in told["unknown"]


def test_where_the_process_is_not_known_the_reason_is_told(proc: Proc, tmp_path: Path) -> None:
    facts: dict[str, object] = {"answered": True, "launch_unknown": "no process", "gpus_start": 5.0}
    facts["process_start"] = 5.0
    told = cache(CompileCache("qwen", None, proc.root), facts)
    assert (told["places"], told["unknown"], told["start"]) == ([], "no process", 5.0)
    assert len(cache(CompileCache("qwen", tmp_path, proc.root), facts)["places"]) == 1


def test_the_processs_own_place_counts_before_another_that_is_declared(
    proc: Proc, tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "same").symlink_to(tmp_path / "own")
    serving(proc, VLLM_CACHE_ROOT=str(tmp_path / "own"))
    told = cache(CompileCache("qwen", tmp_path / "claimed", proc.root), known(proc))
    assert [one["path"] for one in told["places"]] == [str(tmp_path / "own")]
    assert str(tmp_path / "claimed") in told["note"]
    assert "VLLM_CACHE_ROOT" in told["note"]
    for same in ("own", "same"):
        assert cache(CompileCache("qwen", tmp_path / same, proc.root), known(proc))["note"] == ""


# --- the files of a container --------------------------------------------------------------------


def test_a_container_is_looked_at_through_its_own_root(proc: Proc, tmp_path: Path) -> None:
    file(tmp_path / "inside/cache/torch_compile_cache/0123456789/rank_0_0/backbone/x.py")
    serving(proc, CONTAINER, VLLM_CACHE_ROOT="/cache")
    link(proc.root / "10/root", str(tmp_path / "inside"))
    [place] = cache(CompileCache("qwen", None, proc.root), known(proc))["places"]
    assert (place["path"], place["files"], place["here"]) == ("/cache", 1, "")


def test_a_process_that_ended_meanwhile_has_no_place(
    proc: Proc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(proc, CONTAINER, VLLM_CACHE_ROOT="/cache")
    link(proc.root / "10/root", str(tmp_path))
    facts = known(proc)
    monkeypatch.setattr(processes, "started", lambda *_: STARTED + 100)  # another has its number
    told = cache(CompileCache("qwen", None, proc.root), facts)
    assert told["places"] == []
    assert "ended" in told["unknown"]
    claimed = cache(CompileCache("qwen", tmp_path, proc.root), facts)
    assert [one["by"] for one in claimed["places"]] == ["configuration"]


def of_process(pid: int, path: str) -> dict[str, object]:
    launch = {
        "pid": pid,
        "root": f"/proc/{pid}/root",
        "started_at": processes.started(Path("/proc"), pid),
        "caches": [{"kind": "vllm", "path": path, "by": "VLLM_CACHE_ROOT"}],
    }
    return {"launch": launch, "gpus_start": None}


def test_a_real_process_with_another_root_is_looked_at_there_and_not_here(tmp_path: Path) -> None:
    """Its `root` reads as a link to `/`: who resolves that looks at this host."""
    host = tmp_path / "host"
    file(host / "inside/srv/vllm/torch_compile_cache/0123456789/rank_0_0/backbone/x.py")
    (host / "inside/srv/vllm.stale-20260916T021500Z").mkdir()
    (host / "inside/tmp").symlink_to("/srv")
    with another_root(host / "inside") as pid:
        assert os.readlink(f"/proc/{pid}/root") == "/"  # noqa: PTH115
        [place] = cache(CompileCache("qwen"), of_process(pid, "/tmp/vllm"))["places"]
    assert (place["files"], place["missing"], place["unread"]) == (1, False, [])
    assert [one["path"] for one in place["entries"]] == ["torch_compile_cache/0123456789"]
    assert place["here"] == str((host / "inside/srv/vllm").resolve())
    assert len(place["aside"]) == 1


def test_what_was_set_aside_of_a_mounted_directory_is_seen_on_this_host(tmp_path: Path) -> None:
    """The container has the directory mounted, and nothing beside it."""
    file(tmp_path / "host/qwen/torch_compile_cache/0123456789/rank_0_0/backbone/x.py")
    (tmp_path / "host/qwen.stale-20260916T021500Z").mkdir()
    (tmp_path / "inside/cache").mkdir(parents=True)
    with another_root(tmp_path / "inside", str(tmp_path / "host/qwen"), "/cache") as pid:
        facts = of_process(pid, "/cache")
        [place] = cache(CompileCache("qwen"), facts)["places"]
        declared = CompileCache("qwen", tmp_path / "host/qwen")
        assert cache(declared, facts)["note"] == ""  # another path, the same directory
    assert (place["path"], place["files"]) == ("/cache", 1)
    assert place["here"] == str((tmp_path / "host/qwen").resolve())
    assert [one["name"] for one in place["aside"]] == ["qwen.stale-20260916T021500Z"]


# --- when it looks -------------------------------------------------------------------------------


@pytest.fixture
def seen(proc: Proc, tmp_path: Path) -> dict[str, object]:
    """What is known after the first look."""
    serving(proc, VLLM_CACHE_ROOT=str(tmp_path / "vllm"))
    facts = known(proc, process_start=5.0, gpus_start=5.0)
    return {**facts, **probe(proc).read(facts, LATER).facts}


def probe(proc: Proc) -> CompileCache:
    return CompileCache("qwen", None, proc.root)


def after(seen: dict[str, object], seconds: float, **more: object) -> dict[str, object]:
    """The same facts, as if the look had been made so long ago."""
    looked: Any = seen["cache_looked"]
    times = {key: looked[key] - seconds for key in ("due", "free")}
    return {**seen, "cache_looked": {**looked, **times}, **more}


def looks(proc: Proc, facts: dict[str, object]) -> bool:
    return probe(proc).at_once(facts) is None


def test_before_the_launch_is_known_there_is_nothing_to_look_at(proc: Proc) -> None:
    for facts in ({}, {"answered": True}, {"answered": True, "process_start": 5.0}):
        reading = probe(proc).at_once(facts)
        assert reading is not None
        assert reading.facts == {}
        assert probe(proc).read(facts, LATER).facts == {}


def test_between_two_looks_what_was_found_is_carried_over(
    proc: Proc, seen: dict[str, object]
) -> None:
    reading = probe(proc).at_once(seen)
    assert reading is not None
    assert reading.facts["cache"] is seen["cache"]
    assert probe(proc).read(seen, LATER).facts == reading.facts


def test_a_new_process_is_looked_at_again_after_a_minute_and_then_seldom(
    proc: Proc, seen: dict[str, object]
) -> None:
    assert not looks(proc, after(seen, AGAIN - 1))
    due = after(seen, AGAIN + 1)
    assert looks(proc, due)
    second = {**due, **probe(proc).read(due, LATER).facts}
    assert not looks(proc, after(second, EVERY - 1))
    assert looks(proc, after(second, EVERY + 1))


def test_another_start_is_looked_at_once_its_launch_is_known(
    proc: Proc, seen: dict[str, object]
) -> None:
    young = after(seen, 10, process_start=9.0)
    assert not looks(proc, young)  # the launch is still that of the process before
    carried = probe(proc).at_once(young)
    assert carried is not None
    assert carried.facts["cache"] is seen["cache"]
    again = {**young, "gpus_start": 9.0}
    assert looks(proc, again)
    found = probe(proc).read(again, LATER).facts
    assert cache(probe(proc), again)["start"] == 9.0
    assert not looks(proc, after({**again, **found}, AGAIN - 1))


def test_other_places_of_the_same_process_are_looked_at(
    proc: Proc, seen: dict[str, object]
) -> None:
    dark: Any = {**seen, "launch_unknown": "hidden"}
    del dark["launch"]
    assert looks(proc, after(dark, 10))


def test_looking_takes_a_fiftieth_of_the_time_at_most(
    proc: Proc, seen: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: Any) -> dict[str, Any]:
        time.sleep(0.2)
        return {"kind": "vllm", "path": "/x", "by": "HOME", "id": None, "here": ""}

    monkeypatch.setattr(module, "look", slow)
    facts = {key: seen[key] for key in ("launch", "gpus_start", "process_start")}
    tired = {**facts, **probe(proc).read(facts, LATER).facts, "gpus_start": 9.0}
    tired["process_start"] = 9.0
    assert not looks(proc, after(tired, 9))
    assert looks(proc, after(tired, 60))


def test_a_silent_target_is_not_looked_at(proc: Proc, seen: dict[str, object]) -> None:
    reading = probe(proc).read(after(seen, 1000, answered=False), LATER)
    assert reading.facts == {}


def test_what_was_found_outlasts_a_launch_that_hangs(proc: Proc, seen: dict[str, object]) -> None:
    dark = {key: seen[key] for key in ("answered", "process_start", "cache", "cache_looked")}
    reading = probe(proc).at_once(after(dark, 1000))
    assert reading is not None
    assert reading.facts["cache"] is seen["cache"]


# --- what it costs the others --------------------------------------------------------------------


class Page:
    """A page that is read, of the same target."""

    name, target, slot = "page", "qwen", ""

    def __init__(self, launch: object) -> None:
        self.launch = launch
        self.known: list[bool] = []

    def read(self, known: Any, deadline: float) -> Reading:
        del deadline
        self.known.append(known.get("answered", True))
        sample = Sample(labels(target="qwen"), "running", 1.0)
        facts = {"launch": self.launch, "gpus_start": None}
        return Reading(self.name, self.target, (sample,), facts)

    def close(self) -> None: ...


def test_a_disk_that_hangs_costs_this_reading_alone(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(proc)
    free = threading.Event()

    def hung(*_: Any) -> dict[str, Any]:
        free.wait(30)
        return {"kind": "vllm", "path": "/x", "by": "HOME", "id": None, "here": ""}

    monkeypatch.setattr(module, "look", hung)
    page = Page(known(proc)["launch"])
    readers = Readers([page, probe(proc)])
    first, second, third = (readers.read_all(0.2) for _ in range(3))
    free.set()
    assert [reading.error for reading in first] == [None, None]
    for readings in (second, third):
        assert readings[0].error is None
        assert "still reading" in str(readings[1].error)
    assert page.known == [True, True, True]  # that the disk hangs is no silence of the server
    readers.close()


def test_a_round_that_carries_over_costs_next_to_nothing(
    proc: Proc, seen: dict[str, object]
) -> None:
    began = time.perf_counter()
    for _ in range(1000):
        probe(proc).at_once(seen)
    assert time.perf_counter() - began < 0.5
