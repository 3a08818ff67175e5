"""Safe is only what nothing else has filled; what cannot be told is never called safe."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from watchdog.cache_guard import SAFE, STALE, UNKNOWN, Answer, judged, stamped
from watchdog.cache_stamp import NAME, Filled, Stamp, read, write
from watchdog.domain.fingerprint import Fingerprint, fingerprint_of
from watchdog.errors import CommandError

NOW = datetime(2026, 11, 30, 3, 12, 16, tzinfo=timezone.utc)
AT = "2026-11-30T03:12:16Z"
FILES = {"config": "c1", "tensors": "t1", "quantization": "none", "files": "f1"}


def launch(depth: int = 3, **more: Any) -> Fingerprint:
    """A launch whose every part a command line tells is known."""
    drafter = f'{{"method": "ngram", "num_speculative_tokens": {depth}}}'
    argv = ["vllm", "serve", "/m", "--speculative-config", drafter]
    told = {"argv": argv, "environ": {}, "gpu": {}, "models": {"model": FILES}, **more}
    found = fingerprint_of(told)
    return Fingerprint(found.factors, tuple(row for row in found.unread if row[0] != "versions"))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A directory with a file in it."""
    place = tmp_path / "the cache"
    place.mkdir()
    (place / "model").write_text("graph")
    return place


def filled(cache: Path, *found: Fingerprint) -> None:
    write(cache, Stamp(tuple(Filled(one.as_dict(), AT, 1.0) for one in found)))


def test_the_launches_of_these_tests_are_whole() -> None:
    assert launch().unread == ()


def test_a_directory_that_is_missing_or_empty_is_safe(tmp_path: Path) -> None:
    assert judged(tmp_path / "none", launch()).code == SAFE
    assert judged(tmp_path, launch()).code == SAFE


def test_a_directory_with_a_stamp_alone_is_safe_for_every_launch(tmp_path: Path) -> None:
    filled(tmp_path, launch(7))
    assert judged(tmp_path, launch(3)).code == SAFE


def test_one_that_the_same_launch_filled_is_safe(cache: Path) -> None:
    filled(cache, launch(), launch())
    assert judged(cache, launch()).code == SAFE


def test_one_that_another_launch_filled_is_stale_with_what_changed(cache: Path) -> None:
    filled(cache, launch(3))
    answer = judged(cache, launch(7))
    assert answer.code == STALE
    assert "speculative-config num_speculative_tokens 3 -> 7" in answer.words
    assert AT in answer.words
    assert answer.next_step == f"watchdog cache set-aside --directory '{cache}'"


def test_one_of_several_entries_that_differs_makes_it_stale(cache: Path) -> None:
    filled(cache, launch(5), launch(3), launch(7))
    answer = judged(cache, launch(7))
    assert answer.code == STALE
    assert "tokens 3 -> 7" in answer.words  # the newest that differs
    assert "and 1 more" in answer.words


def test_a_directory_with_files_and_no_stamp_is_unknown(cache: Path) -> None:
    answer = judged(cache, launch())
    assert answer.code == UNKNOWN
    assert "no stamp" in answer.words
    assert "set-aside" in answer.next_step
    filled(cache)
    assert judged(cache, launch()).code == UNKNOWN


def test_a_partial_launch_without_a_difference_is_unknown(cache: Path) -> None:
    filled(cache, launch())
    dark = launch(unread={"environ": "not permitted"}, environ=None)
    answer = judged(cache, dark)
    assert answer.code == UNKNOWN
    assert "environ" in answer.words


def test_a_partial_launch_with_a_difference_is_stale(cache: Path) -> None:
    filled(cache, launch(3))
    assert judged(cache, launch(7, environ=None, unread={"environ": "no"})).code == STALE


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("versions", {"vllm": "0.32.0"}),
        ("gpu", {"arch": "gfx1201"}),
        ("image", "sha256:" + "a" * 64),
    ],
)
def test_what_a_command_line_does_not_tell_is_unknown_and_no_change(
    cache: Path, part: str, told: Any
) -> None:
    filled(cache, launch(**{part: told}))
    answer = judged(cache, launch())
    assert answer.code == UNKNOWN
    assert part in answer.words
    filled(cache, launch())
    assert judged(cache, launch(**{part: told})).code == UNKNOWN
    filled(cache, launch(**{part: told}))
    assert judged(cache, launch(**{part: told})).code == SAFE
    assert judged(cache, launch(7)).code == STALE


@pytest.mark.parametrize(
    "text", ["", "{}", '{"product": "serving-watchdog", "schema": 99, "written_by": "9"}']
)
def test_a_stamp_that_cannot_be_read_is_refused_with_the_next_step(cache: Path, text: str) -> None:
    (cache / NAME).write_text(text)
    for call in (lambda: judged(cache, launch()), lambda: stamped(cache, launch(), NOW)):
        with pytest.raises(CommandError, match="set-aside --directory"):
            call()
    assert (cache / NAME).read_text() == text


def test_a_fingerprint_that_was_tampered_with_is_refused(cache: Path) -> None:
    data = launch().as_dict()
    data["factors"][0]["shown"], data["factors"][0]["digest"] = "x", "0" * 16
    write(cache, Stamp((Filled(data, AT, 1.0),)))
    with pytest.raises(CommandError, match="fingerprint that cannot be read"):
        judged(cache, launch())


def test_a_directory_that_cannot_be_looked_into_is_no_empty_one(cache: Path) -> None:
    with pytest.raises(CommandError, match="not a directory"):
        judged(cache / "model", launch())


def test_a_stamp_makes_the_directory_that_is_then_safe_for_this_launch_alone(
    tmp_path: Path,
) -> None:
    place = tmp_path / "new"
    assert stamped(place, launch(), NOW) == ""
    (place / "model").write_text("graph")
    assert judged(place, launch()).code == SAFE
    assert judged(place, launch(7)).code == STALE
    [entry] = read(place).entries  # type: ignore[union-attr]
    assert (entry.at, entry.start) == (AT, NOW.timestamp())


def test_a_launch_that_was_announced_and_filled_nothing_is_forgotten(tmp_path: Path) -> None:
    stamped(tmp_path, launch(3), NOW)
    assert stamped(tmp_path, launch(7), NOW) == ""
    (tmp_path / "model").write_text("graph")
    assert judged(tmp_path, launch(7)) == Answer(SAFE, judged(tmp_path, launch(7)).words)


def test_a_stamp_over_what_another_launch_filled_hides_nothing(cache: Path) -> None:
    filled(cache, launch(3))
    assert "1 other launch(es) filled it before" in stamped(cache, launch(7), NOW)
    assert judged(cache, launch(7)).code == STALE


LAUNCH = {"argv": ["vllm", "serve", "org/model"], "environ": {}, "versions": {"vllm": "0.32.0"}}
"""A model in a hub, or in a container: its files are not seen by this host before it starts."""


@pytest.mark.parametrize(
    ("unread", "step"),
    [
        ({}, "--ignore 'model *' for `stamp` and `verify` alike"),
        ({"versions": "none"}, "--ignore 'model *' --ignore 'version *' for"),
        ({"environ": "permission denied"}, "this host cannot tell more of the launch"),
    ],
)
def test_a_launch_that_is_not_whole_is_told_what_would_decide(
    cache: Path, unread: dict[str, str], step: str
) -> None:
    """A set-aside alone would make the next start pass, and refuse the one after it."""
    found = fingerprint_of({**LAUNCH, "unread": unread})
    filled(cache, found)
    answer = judged(cache, found)
    assert answer.code == UNKNOWN
    assert step in answer.next_step


def test_what_is_ignored_need_not_be_read(cache: Path) -> None:
    found = fingerprint_of(LAUNCH, (), ("model *",))
    assert found.unread == ()
    filled(cache, found)
    assert judged(cache, found).code == SAFE


@pytest.mark.parametrize(("ignored", "code"), [(("version *",), SAFE), ((), UNKNOWN)])
def test_versions_that_only_a_daemon_knew_may_be_ignored(
    cache: Path, ignored: tuple[str, ...], code: int
) -> None:
    told = {**LAUNCH, "models": {"model": FILES}}
    filled(cache, fingerprint_of({**told, "versions": {"vllm": "0.32.0", "torch": "2.11"}}))
    found = fingerprint_of({**told, "versions": {}, "unread": {"versions": "none"}}, (), ignored)
    assert judged(cache, found).code == code


def test_a_stamp_over_files_of_nobody_knows_whom_says_so(cache: Path) -> None:
    assert "taken for granted" in stamped(cache, launch(), NOW)
    assert judged(cache, launch()).code == SAFE


def test_a_parent_that_is_missing_is_made(tmp_path: Path) -> None:
    """`cache key` names a directory in a folder that nobody else makes."""
    stamped(tmp_path / "none" / "cache", launch(), NOW)
    assert judged(tmp_path / "none/cache", launch()).code == SAFE


def test_a_parent_that_is_no_directory_is_said(tmp_path: Path) -> None:
    (tmp_path / "none").write_text("")
    with pytest.raises(CommandError, match="cannot be"):
        stamped(tmp_path / "none" / "cache", launch(), NOW)


def test_a_link_that_leads_nowhere_is_not_called_safe(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(CommandError, match="is a link that leads nowhere"):
        judged(tmp_path / "link", launch())


def test_a_draft_of_a_stamp_is_no_file_of_the_cache(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.0a1b").write_text("")
    assert judged(tmp_path, launch()).code == SAFE
    os.mkdir(tmp_path / "torch_compile_cache")  # noqa: PTH102
    assert judged(tmp_path, launch()).code == UNKNOWN


# --- what an older stamp does not know -----------------------------------------------------------


def test_an_older_stamp_that_knows_less_is_unknown_until_somebody_says_it_is_the_same(
    cache: Path,
) -> None:
    filled(cache, launch())
    now = launch(versions={"vllm": "0.32.0"})
    answer = judged(cache, now)
    assert answer.code == UNKNOWN
    assert answer.next_step.endswith(
        "; or, if none but this launch filled it, `watchdog cache stamp --same`"
    )
    assert "1 other launch" in stamped(cache, now, NOW)
    assert judged(cache, now).code == UNKNOWN  # to stamp it at each start proves nothing
    assert stamped(cache, now, NOW, same=True) == ""
    assert judged(cache, now).code == SAFE
    assert judged(cache, launch(versions={"vllm": "0.33.0"})).code == STALE


def test_nobody_can_say_that_a_launch_with_a_known_difference_is_the_same(cache: Path) -> None:
    filled(cache, launch(3), launch(7))
    now = launch(7, versions={"vllm": "0.32.0"})
    assert "1 other launch(es) filled it before" in stamped(cache, now, NOW, same=True)
    assert judged(cache, now).code == STALE
    assert len(read(cache).entries) == 2  # type: ignore[union-attr]


def test_to_a_launch_that_is_not_whole_no_stamp_is_offered(cache: Path) -> None:
    filled(cache, launch())
    answer = judged(cache, launch(unread={"environ": "not permitted"}, environ=None))
    assert "--same" not in answer.next_step


def test_a_name_that_is_configured_to_count_no_longer_makes_no_other_launch(cache: Path) -> None:
    argv = ["vllm", "serve", "/m", "--max-model-len", "9"]
    filled(cache, launch(argv=argv))
    told = {"argv": argv, "environ": {}, "gpu": {}, "models": {"model": FILES},
            "versions": {"vllm": "1"}}  # fmt: skip
    less = fingerprint_of(told, less=["max-model-len"])
    filled(cache, fingerprint_of(told))
    assert stamped(cache, less, NOW) == ""
    assert judged(cache, less).code == SAFE
