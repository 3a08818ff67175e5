"""One place of a compile cache: what is told of it, and what a hostile one cannot do."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from cache_trees import KERNEL, file, from_listing, soon

from tests.proc_tree import link, write
from watchdog import cache_look, cache_stamp, cache_tree
from watchdog.cache_beside import beside
from watchdog.cache_look import Seat, identity_of, look
from watchdog.cache_stamp import Filled, Stamp
from watchdog.domain.fingerprint import fingerprint_of

BEGAN = 1_700_000_000.0


def seen(path: Path | str, root: Path | None = None, **how: Any) -> dict[str, Any]:
    seat = Seat() if root is None else Seat(root, how.get("pid"), how.get("proc", Path("/nowhere")))
    where = {"kind": "vllm", "path": str(path), "by": "VLLM_CACHE_ROOT"}
    told = look(where, seat, how.get("deadline", soon()))
    assert json.loads(json.dumps(told)) == told
    return told


def fingerprint(model: str) -> dict[str, Any]:
    argv = ["vllm", "serve", model]
    return fingerprint_of({"argv": argv, "environ": {}, "versions": {"vllm": "1"}}).as_dict()


def filled(model: str, at: int = 1) -> Filled:
    return Filled(fingerprint(model), f"2026-09-16T02:15:{at:02d}Z", float(at))


# --- what is told --------------------------------------------------------------------------------


def test_a_real_cache_is_told_with_its_files_and_what_it_was_compiled_for(tmp_path: Path) -> None:
    told = seen(from_listing(tmp_path / "vllm", "listing_mode3.txt"))
    [inductor] = [one for one in told["entries"] if one["kind"] == "inductor"]
    known = (tmp_path / "vllm").stat()
    assert told["id"] == f"{known.st_dev}:{known.st_ino}" == identity_of(tmp_path / "vllm")
    assert told["here"] == str(tmp_path / "vllm")
    assert (told["missing"], told["cut"], told["unread"]) == (False, "", [])
    assert (told["oldest"], told["newest"]) == (BEGAN + 1, BEGAN + 6)
    assert inductor["path"] == "torch_compile_cache/bf36639200"
    assert inductor["keyed"]
    assert inductor["parts"] == ["rank_0_0/backbone"]
    assert inductor["factors"]["config_hash"] == "258067f0c0"
    assert "parts" not in inductor["factors"]
    assert (told["stamp"], told["stamp_fault"], told["aside"]) == (None, "", [])


def test_the_newest_caches_come_first_and_the_rest_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_look, "MOST_ENTRIES", 2)
    for i in range(4):
        made = file(tmp_path / f"torch_compile_cache/000000000{i}/rank_0_0/backbone/x.py")
        os.utime(made, (BEGAN + i, BEGAN + i))
    told = seen(tmp_path)
    assert [one["newest"] for one in told["entries"]] == [BEGAN + 3, BEGAN + 2]
    assert (told["more"], told["files"]) == (2, 4)


def test_a_directory_that_is_not_there_is_missing_and_what_was_set_aside_of_it_is_told(
    tmp_path: Path,
) -> None:
    (tmp_path / "qwen.stale-20260916T021500Z").mkdir()
    told = seen(tmp_path / "qwen")
    assert (told["missing"], told["id"], told["here"], told["unread"]) == (True, None, "", [])
    assert [one["name"] for one in told["aside"]] == ["qwen.stale-20260916T021500Z"]
    assert seen(tmp_path / "no/such/place")["missing"]
    assert seen(tmp_path / "no/such/place")["unread"] == []


def test_what_is_no_directory_is_not_missing(tmp_path: Path) -> None:
    (tmp_path / "qwen").touch()
    told = seen(tmp_path / "qwen")
    assert not told["missing"]
    assert told["unread"] == [[".", "is no directory"]]
    assert seen(tmp_path / "qwen/below")["missing"]


def test_copies_are_told_newest_first_with_and_without_a_z_as_utc(tmp_path: Path) -> None:
    (tmp_path / "qwen").mkdir()
    names = ("qwen.stale-20260916T021500Z", "qwen.stale-20260917T021500", "qwen.stale-20260915T0Z")
    for name in (*names, "other.stale-20260916T021500Z", "qwen.stale-20269916T021500Z"):
        (tmp_path / name).mkdir()
    (tmp_path / "qwen.stale-20260918T021500Z").touch()  # a file is no copy
    (tmp_path / "qwen.stale-20260919T021500Z").symlink_to(tmp_path / names[0])
    assert seen(tmp_path / "qwen")["aside"] == [
        {"name": "qwen.stale-20260917T021500", "at": 1789611300.0},
        {"name": "qwen.stale-20260916T021500Z", "at": 1789524900.0},
    ]


def test_the_time_zone_of_this_host_does_not_shift_the_time_of_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "qwen.stale-20260916T021500").mkdir()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert seen(tmp_path / "qwen")["aside"][0]["at"] == 1789524900.0
    finally:
        monkeypatch.undo()
        time.tzset()


def test_of_a_place_behind_a_link_the_copies_lie_beside_the_real_one(tmp_path: Path) -> None:
    (tmp_path / "disk/qwen").mkdir(parents=True)
    (tmp_path / "disk/qwen.stale-20260916T021500Z").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk/qwen")
    told = seen(tmp_path / "cache")
    assert told["here"] == str(tmp_path / "disk/qwen")
    assert len(told["aside"]) == 1


def test_all_that_vllm_compiled_may_be_set_aside_within_its_root(tmp_path: Path) -> None:
    (tmp_path / "vllm/torch_compile_cache.stale-20260916T021500Z").mkdir(parents=True)
    (tmp_path / "vllm/modelinfos.stale-20260916T021500Z").mkdir()
    (tmp_path / "vllm/torch_compile_cache/bf36639200.stale-20260916T021500Z").mkdir(parents=True)
    names = [one["name"] for one in seen(tmp_path / "vllm")["aside"]]
    assert names == ["torch_compile_cache.stale-20260916T021500Z"]


def test_more_copies_than_are_told_lose_the_oldest(tmp_path: Path) -> None:
    for day in range(1, 29):
        (tmp_path / f"qwen.stale-202609{day:02d}T021500Z").mkdir()
    found = seen(tmp_path / "qwen")["aside"]
    assert len(found) == 16
    assert found[0]["name"] == "qwen.stale-20260928T021500Z"


# --- the stamp -----------------------------------------------------------------------------------


def test_a_stamp_tells_who_filled_it_each_fingerprint_once(tmp_path: Path) -> None:
    entries = (filled("a", 1), filled("b", 2), filled("a", 3))
    cache_stamp.write(tmp_path, Stamp(entries))
    told = seen(tmp_path)
    assert [(one["fingerprint"], one["at"], one["start"]) for one in told["stamp"]] == [
        (fingerprint("b"), "2026-09-16T02:15:02Z", 2.0),
        (fingerprint("a"), "2026-09-16T02:15:03Z", 3.0),
    ]
    assert (told["stamp_more"], told["stamp_fault"]) == (0, "")


def test_of_a_stamp_of_many_launches_the_newest_are_told_and_the_rest_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_stamp.write(tmp_path, Stamp(tuple(filled(f"m{i}", i) for i in range(12))))
    told = seen(tmp_path)
    assert [one["start"] for one in told["stamp"]] == [4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]
    assert told["stamp_more"] == 4
    one = len(json.dumps(told["stamp"][0]))
    monkeypatch.setattr(cache_look, "MOST_STAMP", 2 * one + 20)
    assert (len(seen(tmp_path)["stamp"]), seen(tmp_path)["stamp_more"]) == (2, 10)
    monkeypatch.setattr(cache_look, "MOST_STAMP", 10)
    assert "too long" in seen(tmp_path)["stamp_fault"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no JSON"),
        ('{"product":"serving-watchdog","schema":99,"written_by":"9"}', "newer"),
        (
            '{"product":"serving-watchdog","schema":1,"written_by":"1","entries":[{"fingerprint":'
            '{"factors":3},"at":"2026-09-16T02:15:00Z","start":1}]}',
            "a fingerprint that is none",
        ),
    ],
)
def test_a_stamp_that_cannot_be_read_is_a_fault_and_no_empty_stamp(
    tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / cache_stamp.NAME).write_text(text)
    told = seen(tmp_path)
    assert told["stamp"] is None
    assert told["stamp_fault"].startswith(cache_stamp.NAME)
    assert why in told["stamp_fault"]


# --- hostile trees -------------------------------------------------------------------------------


def test_links_in_a_circle_are_said(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    told = seen(tmp_path / "a/vllm")
    assert not told["missing"]
    assert "circle" in told["unread"][0][1]


def test_a_link_loop_inside_is_listed_and_not_followed(tmp_path: Path) -> None:
    file(tmp_path / "torch_compile_cache/bf36639200/rank_0_0/backbone/x.py")
    (tmp_path / "torch_compile_cache/again").symlink_to(tmp_path)
    told = seen(tmp_path)
    assert told["files"] == 1
    assert told["unread"][0][0] == "torch_compile_cache/again"


def test_a_huge_tree_is_cut_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_tree.survey, "__defaults__", (100,))
    for i in range(200):
        file(tmp_path / f"{KERNEL[:-3]}{i:03d}/k.hsaco", 1)
    assert "more than 100" in seen(tmp_path)["cut"]


def test_a_look_that_is_late_is_cut_and_it_is_said(tmp_path: Path) -> None:
    file(tmp_path / "a/b")
    assert "time" in seen(tmp_path, deadline=time.monotonic() - 1)["cut"]


def test_many_faults_are_told_by_number(tmp_path: Path) -> None:
    for i in range(20):
        (tmp_path / f"link{i:02d}").symlink_to(tmp_path)
    unread = seen(tmp_path)["unread"]
    assert len(unread) == 8
    assert unread[-1] == ["...", "13 more could not be looked at"]


def test_a_path_that_vanishes_while_it_is_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = file(tmp_path / "vllm/torch_compile_cache/bf36639200/rank_0_0/backbone/x.py")
    surveyed = cache_look.survey

    def vanishing(*args: Any, **how: Any) -> Any:
        made.unlink()
        for above in list(made.parents)[:5]:
            above.rmdir()
        return surveyed(*args, **how)

    monkeypatch.setattr(cache_look, "survey", vanishing)
    told = seen(tmp_path / "vllm")
    assert told["unread"] == [[".", "is not there"]]
    assert told["files"] == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_said_and_is_not_missing(tmp_path: Path) -> None:
    (tmp_path / "home/.cache/vllm").mkdir(parents=True)
    (tmp_path / "home").chmod(0)
    told = seen(tmp_path / "home/.cache/vllm")
    (tmp_path / "home").chmod(0o700)
    assert not told["missing"]
    assert told["unread"] == [[".", "is not permitted to this user"]]


def test_an_error_is_not_taken_for_missing(tmp_path: Path) -> None:
    told = seen(tmp_path / ("x" * 300))
    assert not told["missing"]
    assert "too long" in told["unread"][0][1]


def test_a_crowded_directory_above_is_cut_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watchdog.cache_beside.MOST_NAMES", 3)
    for i in range(5):
        (tmp_path / f"d{i}").mkdir()
    assert seen(tmp_path / "d0")["unread"] == [
        ["..", "the directory above has more than 3 entries"]
    ]
    monkeypatch.setattr("watchdog.cache_beside.BETWEEN", 2)
    assert "time" in beside(tmp_path / "d0", time.monotonic() - 1)[1]


# --- the files of a container --------------------------------------------------------------------


def test_an_absolute_link_of_a_container_does_not_lead_to_our_files(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    file(outside / "torch_compile_cache/bf36639200/rank_0_0/backbone/x.py")
    root = tmp_path / "inside"
    (root / "cache").mkdir(parents=True)
    (root / "cache/vllm").symlink_to(outside)
    assert seen("/cache/vllm", root)["missing"]
    file(root / str(outside)[1:] / "torch_compile_cache/0123456789/rank_0_0/backbone/y.py")
    [entry] = seen("/cache/vllm", root)["entries"]
    assert entry["path"] == "torch_compile_cache/0123456789"


def test_links_that_climb_out_of_a_container_stay_in_it(tmp_path: Path) -> None:
    file(tmp_path / "secret/module_x.so")
    root = tmp_path / "inside"
    root.mkdir()
    (root / "vllm").symlink_to("../../../secret")
    assert seen("/vllm", root)["missing"]
    assert seen("/../../secret", root)["missing"]


def mounted(tmp_path: Path, *points: tuple[str, str]) -> str:
    """Where a container's /cache is told to be on this host; `points`: what is mounted where."""
    (tmp_path / "inside/cache").mkdir(parents=True)
    row = "1 2 8:1 {} {} rw - ext4 /dev/x rw\n"
    write(tmp_path / "proc/10/mountinfo", row.format("/srv/qwen", "/cache"))
    write(tmp_path / "proc/self/mountinfo", "".join(row.format(*point) for point in points))
    seat = {"pid": 10, "proc": tmp_path / "proc"}
    return str(seen("/cache", tmp_path / "inside", **seat)["here"])


def test_a_mount_point_is_named_only_where_no_other_path_leads_there(tmp_path: Path) -> None:
    link(tmp_path / "point", str(tmp_path / "inside/cache"))
    link(tmp_path / "long/way/to/it/qwen", str(tmp_path / "inside/cache"))
    point, way = ("/srv/qwen", f"{tmp_path}/point"), ("/srv", f"{tmp_path}/long/way/to/it")
    assert mounted(tmp_path / "1", point) == ""  # another directory than the container's
    assert mounted(tmp_path, point) == f"{tmp_path}/point"
    shutil.rmtree(tmp_path / "proc")
    shutil.rmtree(tmp_path / "inside")
    assert mounted(tmp_path, point, way) == f"{tmp_path}/long/way/to/it/qwen"
    shutil.rmtree(tmp_path / "proc")
    shutil.rmtree(tmp_path / "inside")
    assert mounted(tmp_path, ("/srv/q", f"{tmp_path}/point"), ("/", "/nowhere")) == ""
