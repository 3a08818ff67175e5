"""The places of a launch's graphs, as facts tell them, and the command that sets one aside."""

from __future__ import annotations

from typing import Any

import pytest

from watchdog.domain.cache_commands import quoted
from watchdog.domain.cache_sight import places_in, set_aside

PLACE = {"kind": "vllm", "path": "/c/qwen", "by": "VLLM_CACHE_ROOT", "files": 3, "newest": 50.0}


def facts(*places: Any, root: str = "", start: Any = 100.0) -> dict[str, Any]:
    return {"cache": {"start": start, "places": list(places)}, "launch": {"root": root}}


def test_vllms_own_place_comes_first_and_missing_ones_are_left_out() -> None:
    triton = {"kind": "triton", "path": "/t", "by": "HOME"}
    gone = {**PLACE, "path": "/gone", "missing": True}
    assert [place.path for place in places_in(facts(triton, gone, PLACE))] == ["/c/qwen", "/t"]


@pytest.mark.parametrize(
    ("newest", "age"), [(50.0, 50.0), (99.0, 1.0), (100.0, None), (None, None)]
)
def test_a_place_is_old_where_its_newest_file_is_older_than_the_start(
    newest: float | None, age: float | None
) -> None:
    [place] = places_in(facts({**PLACE, "newest": newest}))
    assert place.age == age
    assert ("before this start" in place.words) is (age is not None)


def test_the_command_names_the_path_of_this_host() -> None:
    assert "`watchdog cache set-aside --directory /c/qwen`" in set_aside(facts(PLACE), "qwen")
    inside = facts({**PLACE, "here": "/srv/cache"}, root="/proc/1/root")
    assert "--directory /srv/cache`, start" in set_aside(inside, "qwen")
    unknown = set_aside(facts(PLACE, root="/proc/1/root"), "qwen")
    assert "--directory /c/qwen` with the host's path of that folder" in unknown


def test_a_place_of_the_configuration_is_named_by_its_target() -> None:
    declared = facts({**PLACE, "by": "configuration"})
    assert "`watchdog cache set-aside 'my qwen'`" in set_aside(declared, "my qwen")


def test_where_no_place_of_graphs_is_known_there_is_no_command() -> None:
    for told in ({}, {"cache": None}, facts(), facts({"kind": "triton", "path": "/t", "by": "x"})):
        assert set_aside(told, "qwen") == ""


@pytest.mark.parametrize("odd", [7, "x", {}, {"kind": "vllm"}, {"kind": "vllm", "path": "c"},
                                 {"kind": "vllm", "path": "/" + "c" * 5000}])  # fmt: skip
def test_a_row_of_another_shape_is_no_place(odd: Any) -> None:
    assert places_in(facts(odd)) == []


@pytest.mark.parametrize(
    ("word", "shown"),
    [("/c/qwen-0.1_a", "/c/qwen-0.1_a"), ("/c/my cache", "'/c/my cache'"), ("", "''"),
     ("/c/$(x)'y", "'/c/$(x)'\\''y'"), ("/c/a\nb", "'/c/a?b'"), ("-rf", "-rf")],
)  # fmt: skip
def test_a_word_of_a_command_is_safe_in_a_shell(word: str, shown: str) -> None:
    assert quoted(word) == shown
