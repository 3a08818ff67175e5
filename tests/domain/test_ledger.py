"""What is kept of launches and directories: bounded, compared in what matters, and read back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.caches import entry, launch, place, print_of
from watchdog.domain.ledger import (
    MOST_FILLS,
    STALE,
    Fill,
    Place,
    Stamped,
    adopted,
    compared,
    inode_of,
    is_chosen,
)
from watchdog.domain.prints import MOST_POOL, Prints

A, B = print_of(launch(3)), print_of(launch(7, image="sha256:b"))


def kept(*launches: Any) -> Prints:
    prints = Prints()
    for one in launches:
        prints = prints.added(one)
    return prints


# --- fingerprints --------------------------------------------------------------------------------


def test_a_launch_is_kept_as_it_was() -> None:
    prints = kept(A, B)
    assert prints.get(A.digest) == A
    assert prints.get(B.digest) == B
    assert prints.get("0" * 16) is None


def test_what_is_alike_in_two_launches_is_kept_once() -> None:
    assert len(kept(A, B).pool) == len(A.factors) + 2


def test_a_long_value_is_cut_and_still_tells_two_launches_apart() -> None:
    one, other = (print_of(launch(3, env={"VLLM_X": "x" * 200 + end})) for end in "ab")
    prints = kept(one, other)
    assert prints.get(one.digest) != prints.get(other.digest)
    assert all(len(shown) <= 64 for _, _, shown in prints.pool)


def test_of_two_readings_of_one_launch_the_one_that_knows_more_stays() -> None:
    dark = print_of({**launch(3), "unread": {"gpu": "EACCES"}})
    assert dark.digest == A.digest
    assert kept(A, dark).get(A.digest) == A
    assert kept(dark, A).get(A.digest) == A


def test_where_there_are_too_many_factors_the_oldest_launches_go() -> None:
    many = [print_of(launch(3, env={f"VLLM_{n}_{i}": "1" for i in range(200)})) for n in range(5)]
    prints = kept(*many)
    assert len(prints.pool) <= MOST_POOL
    assert prints.digests()[-1] == many[-1].digest
    assert many[0].digest not in prints.digests()


def test_what_nothing_speaks_of_is_forgotten() -> None:
    prints = kept(A, B)
    assert prints.only({A.digest, B.digest}) is prints
    assert prints.only({B.digest}).digests() == (B.digest,)


# --- directories ---------------------------------------------------------------------------------


def fill(digest: str, last: float = 1.0, **more: Any) -> Fill:
    return Fill(digest, 1.0, last, last, **more)


def test_the_device_is_no_part_of_what_a_directory_is() -> None:
    assert inode_of("8:77") == inode_of("9:77") == "77"
    assert inode_of(None) == ""


def test_a_launch_keeps_its_turn_when_it_comes_again() -> None:
    one = Place("/c", "1").put(fill("a")).put(fill("b")).put(fill("a", 5.0))
    assert [row.digest for row in one.fills] == ["a", "b"]
    assert one.fills[0].last == 5.0


def test_of_too_many_launches_a_stale_one_goes_first_and_then_the_oldest() -> None:
    one = Place("/c", "1")
    for n in range(MOST_FILLS):
        one = one.put(fill(str(n), float(n), verdict=STALE if n == 5 else "safe"))
    assert len(one.fills) == MOST_FILLS
    one = one.put(fill("new", 50.0))
    assert [row.digest for row in one.fills] == ["0", "1", "2", "3", "4", "6", "7", "new"]
    assert one.put(fill("newer", 51.0)).fill("0") is None


def test_a_launch_that_becomes_known_better_stays_one() -> None:
    one = Place("/c", "1").put(fill("a"))
    assert one.renamed("a", "b").fills == (fill("b"),)
    assert one.put(fill("b")).renamed("a", "b").fills == (fill("b"),)
    assert one.renamed("x", "b") is one


@pytest.mark.parametrize(
    ("kind", "keyed", "chosen"),
    [("vllm", True, False), ("vllm", False, True), ("chosen", True, True)],
)
def test_a_directory_without_vllms_key_is_known(kind: str, keyed: bool, chosen: bool) -> None:
    assert is_chosen(place(entry(keyed=keyed), kind=kind)) is chosen


# --- comparing -----------------------------------------------------------------------------------


def names(kind: str, was: dict[str, Any], now: dict[str, Any], **more: Any) -> list[str]:
    one, other = print_of(was), print_of(now)
    found = compared(kept(one, other), fill(one.digest, **more), other.digest, kind)
    assert found is not None
    return [row.name for row in found.changed]


def test_graphs_are_compared_in_everything_and_kernels_in_what_changes_kernels() -> None:
    was, now = launch(3), launch(7, image="sha256:b", env={"AITER_X": "1"})
    depth = "speculative-config num_speculative_tokens"
    assert names("vllm", was, now) == ["image", depth, "env AITER_X"]
    assert names("aiter", was, now) == ["image", "env AITER_X"]
    assert names("triton", was, now) == ["image"]


def test_a_launch_that_is_no_longer_kept_is_not_compared() -> None:
    assert compared(kept(A), fill(B.digest), A.digest) is None


def test_a_stamp_of_a_command_shows_no_change_by_what_a_command_does_not_tell() -> None:
    bare = {key: value for key, value in launch(3).items() if key != "image"}
    assert names("vllm", bare, launch(3)) == ["image"]
    assert names("vllm", bare, launch(3), origin="stamp") == []
    assert names("vllm", bare, launch(7), origin="stamp") == [
        "speculative-config num_speculative_tokens"
    ]


# --- what was there before -----------------------------------------------------------------------


def told(fact: dict[str, Any], *stamps: Stamped, start: float = 5000.0) -> list[Any]:
    found = adopted(fact, Place("/c", "1"), start, stamps, drafter=True)
    return [(row.digest, row.origin, row.compiled) for row in found.fills]


def test_files_that_are_older_than_the_start_are_traces_of_somebody() -> None:
    assert told(place(entry(oldest=100.0))) == [("", "traces", None)]
    assert told(place(entry(oldest=5000.0))) == []
    assert told(place()) == []


def test_a_stamp_says_who_and_the_files_say_whether_it_compiled() -> None:
    first, second = Stamped("a", 100.0, 100.0), Stamped("b", 2000.0, 2000.0)
    lies = place(entry(oldest=150.0))
    assert told(lies, first, second) == [("a", "stamp", True), ("b", "stamp", None)]
    assert told(lies, second, first) == [("a", "stamp", True), ("b", "stamp", None)]
    late = place(entry(oldest=2100.0))
    assert told(late, first, second) == [("a", "stamp", None), ("b", "stamp", True)]


def test_what_was_made_after_the_present_start_is_not_the_stamps_launchs() -> None:
    assert told(place(entry(oldest=5000.0)), Stamped("a", 100.0, 100.0)) == [("a", "stamp", None)]


def test_a_launch_that_is_known_is_not_taken_from_the_stamp_again() -> None:
    known = Place("/c", "1").put(fill("a"))
    lies = place(entry(oldest=150.0))
    assert adopted(lies, known, 5000.0, (Stamped("a", 1.0, 1.0),), drafter=True) == known
