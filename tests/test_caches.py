"""Rows of what is known of compile caches: the wall clock's times, bounds, reasons."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.cached import NEW, NOW, ROOT, assessor, fill, outline, place, start
from watchdog.caches import ELSEWHERE, MOST_PLACES, NOT_YET, UNWATCHED, rows, wall
from watchdog.domain.cache_sight import places_in
from watchdog.domain.wording import size


def row(state: dict[str, Any] | None, **facts: Any) -> dict[str, Any]:
    [only] = rows(assessor({"qwen": state}, **facts))
    return only


def test_times_are_those_of_the_wall_clock() -> None:
    found = row(outline(place("stale", aside=[{"name": "qwen.stale-1", "at": NOW - 3600}])))
    assert found["target"] == "qwen"
    assert found["asked"] == "2026-11-30T11:59:00Z"
    [one] = found["places"]
    assert (one["oldest"], one["newest"]) == ("2026-11-06T12:00:00Z", "2026-11-06T12:10:00Z")
    assert one["aside"] == [{"name": "qwen.stale-1", "at": "2026-11-30T11:00:00Z"}]
    assert [(f["first"], f["last"]) for f in one["fills"]] == [
        ("2026-11-06T12:00:00Z", "2026-11-06T13:00:00Z"),
        ("2026-11-13T12:00:00Z", "2026-11-13T13:00:00Z"),
    ]
    [begun] = found["starts"]
    assert (begun["start"], begun["up_seconds"]) == ("2026-11-13T12:00:00Z", 600.0)
    assert found["running_since"] == "2026-11-13T12:00:00Z"
    assert found["answers"] is True
    json.dumps(found, allow_nan=False)


def test_what_vllm_noted_of_its_directories_has_those_times_too() -> None:
    made = {"path": "aa", "oldest": NOW - 3600, "newest": None, "parts": [], "config": ""}
    [one] = row(outline(place(made=[made])))["places"]
    assert one["made"] == [{**made, "oldest": "2026-11-30T11:00:00Z"}]


@pytest.mark.parametrize("odd", [math.nan, math.inf, 1e300, -1e300, True, "yesterday", None])
def test_a_time_that_is_none_is_not_shown(odd: Any) -> None:
    assert wall(odd) is None
    assert row(outline(place(oldest=odd)))["places"][0]["oldest"] is None


def test_what_could_not_be_seen_of_a_place_is_laid_beside_it() -> None:
    seen = {"path": ROOT, "here": "/mnt/qwen", "missing": False, "cut": "more than 200,000 files",
            "unread": [["rank_0_0", "is not permitted to this user"]]}  # fmt: skip
    other = {"path": "/root/.triton/cache", "missing": True}
    [one, two] = row(
        outline(place(), place(path="/root/.triton/cache")), cache={"places": [seen, other]}
    )["places"]
    assert (one["cut"], one["here"]) == ("more than 200,000 files", "/mnt/qwen")
    assert one["unread"] == [["rank_0_0", "is not permitted to this user"]]
    assert (one["missing"], two["missing"]) == (False, True)


def test_a_container_is_told_since_its_paths_are_not_those_of_the_host() -> None:
    assert row(outline(), launch={"container": "0a1b"})["container"] is True
    # another tree of mounts alone is what a hardened unit of ours has
    assert row(outline(), launch={"root": "/proc/4711/root"})["container"] is False
    assert row(outline())["container"] is False


def test_what_became_of_a_stamp_is_said_instead_of_what_the_last_look_saw() -> None:
    known = assessor({"qwen": outline(), "llama": outline()})
    told = rows(known, {("qwen", ROOT): "the daemon may not write there"})
    assert [one["places"][0]["stamp"] for one in told] == [
        "the daemon may not write there", "no stamp",
    ]  # fmt: skip


def test_where_the_place_is_missing_no_stamp_is_in_it() -> None:
    gone = {"places": [{"path": ROOT, "missing": True}]}
    told = rows(assessor({"qwen": outline()}, cache=gone), {("qwen", ROOT): "names 1 launch"})
    assert told[0]["places"][0]["stamp"] == "no stamp"


def test_what_is_not_known_has_its_reason() -> None:
    assert row(None)["unknown"] == NOT_YET
    remote = assessor({"qwen": outline()})
    remote.watches["qwen"].here = False
    assert rows(remote)[0]["unknown"] == ELSEWHERE
    assert [row(None)["here"], rows(remote)[0]["here"]] == [True, False]
    unwatched = assessor({"qwen": outline()})
    unwatched.watches["qwen"].checks = {}
    assert rows(unwatched)[0]["unknown"] == UNWATCHED
    for empty in (row(None), rows(remote)[0]):
        assert (empty["places"], empty["starts"], empty["now"]) == ([], [], None)


def test_a_server_that_was_not_read_does_not_answer() -> None:
    known = assessor({"qwen": outline()})
    window = known.watches["qwen"].newest
    assert window is not None
    window.readings = ()
    found = rows(known)[0]
    assert (found["answers"], found["running_since"]) == (False, None)
    known.watches["qwen"].newest = None
    assert rows(known)[0]["answers"] is False


def test_every_list_is_bounded() -> None:
    many = [place(path=f"/{n}", fills=[fill(NEW, n) for n in range(500)]) for n in range(20)]
    now = {
        "digest": NEW,
        "partial": True,
        "factors": [{"name": str(n), "shown": "x" * 120} for n in range(2000)],
        "unread": [{"part": str(n), "reason": "no"} for n in range(500)],
    }
    found = row(outline(*many, now=now, starts=[start()] * 500))
    assert len(found["places"]) == MOST_PLACES
    assert len(found["places"][0]["fills"]) == 64
    assert len(found["starts"]) == 64
    assert (len(found["now"]["factors"]), len(found["now"]["unread"])) == (512, 64)
    assert len(json.dumps(found)) < 1 << 18


def test_this_host_itself_has_no_row() -> None:
    assert rows(assessor({})) == []


@pytest.mark.parametrize(("files", "words"), [(1, "newest of 1 file was"), (2, "of 2 files was")])
def test_one_file_is_not_called_files(files: int, words: str) -> None:
    seen = {"path": ROOT, "kind": "vllm", "files": files, "newest": NOW - 3600}
    [one] = places_in({"cache": {"start": NOW, "places": [seen]}})
    assert words in one.words


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_300_000_000, "1.2 GiB")],
)
def test_sizes_are_written_in_one_way(number: int, words: str) -> None:
    assert size(number) == words
