"""A set-aside is one rename that can be undone; what is no such rename is refused, untouched."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.pivoted import another_root
from tests.proc_tree import Proc, write
from watchdog import cache_copies, cache_moves
from watchdog.cache_copies import check_copies, copies, copy_at, delete
from watchdog.cache_layouts import set_aside_at
from watchdog.cache_moves import Moved, set_aside
from watchdog.errors import CommandError

NOW = datetime(2026, 11, 30, 4, 12, 16, 900_000, tzinfo=timezone(timedelta(hours=1)))
STAMP = "20261130T031216Z"


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path / "proc")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    place = tmp_path / "mnt" / "the cache"
    write(place / "torch_compile_cache/ab/model", "graph")
    return place


def aside(cache: Path, proc: Proc, **how: bool) -> Moved:
    return set_aside(cache, NOW, proc.root, **how)


def beside(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.parent.iterdir())


def refused(cache: Path, proc: Proc, **how: bool) -> str:
    """The sentence; nothing beside the cache may have changed."""
    before = beside(cache)
    with pytest.raises(CommandError) as caught:
        aside(cache, proc, **how)
    assert beside(cache) == before
    return str(caught.value)


def test_it_is_renamed_beside_itself_by_the_time_in_utc(cache: Path, proc: Proc) -> None:
    moved = aside(cache, proc)
    assert moved.source == cache
    assert moved.goal == cache.with_name(f"the cache.stale-{STAMP}")
    assert (moved.goal / "torch_compile_cache/ab/model").read_text() == "graph"
    assert not cache.exists()
    assert moved.notes == ()


def test_the_line_that_it_prints_undoes_it(cache: Path, proc: Proc) -> None:
    moved = aside(cache, proc)
    subprocess.run(moved.undo, shell=True, check=True)
    assert (cache / "torch_compile_cache/ab/model").read_text() == "graph"
    assert beside(cache) == [cache.name]


def test_the_undo_never_moves_into_a_cache_that_was_made_since(cache: Path, proc: Proc) -> None:
    moved = aside(cache, proc)
    write(cache / "new", "")
    assert subprocess.run(moved.undo, shell=True, check=False, stderr=-3).returncode != 0
    assert [path.name for path in cache.iterdir()] == ["new"]


def test_a_dry_run_says_the_same_and_changes_nothing(cache: Path, proc: Proc) -> None:
    dry = aside(cache, proc, dry_run=True)
    assert (cache / "torch_compile_cache/ab/model").exists()
    assert dry == aside(cache, proc)


def test_a_name_that_is_taken_is_left_alone(cache: Path, proc: Proc) -> None:
    cache.with_name(f"the cache.stale-{STAMP}").mkdir()  # a rename would replace an empty one
    assert "is there already" in refused(cache, proc)


def test_a_directory_in_use_is_refused_with_who_uses_it(cache: Path, proc: Proc) -> None:
    proc.add(500, "python3 /opt/bin/vllm serve", opens=[(f"{cache}/torch_compile_cache/x", "")])
    said = refused(cache, proc)
    assert f"process 500 (python3 vllm) has open {cache}/torch_compile_cache/x" in said
    assert "--force" in said


def test_a_dry_run_refuses_what_a_run_would_refuse(cache: Path, proc: Proc) -> None:
    proc.add(500, opens=[(str(cache), "")])
    assert "process 500" in refused(cache, proc, dry_run=True)


def test_with_force_it_goes_and_who_uses_it_is_said(cache: Path, proc: Proc) -> None:
    proc.add(500, opens=[(str(cache), "")])
    moved = aside(cache, proc, force=True)
    assert "process 500" in moved.notes[0]
    assert moved.goal.exists()


def test_processes_that_could_not_be_looked_at_are_said(cache: Path, proc: Proc) -> None:
    proc.add(500)
    proc.blind(500)
    [note] = aside(cache, proc).notes
    assert note.startswith("1 process(es) could not be looked at")


def test_hidden_processes_are_said(cache: Path, proc: Proc) -> None:
    (proc.root / "1/stat").unlink()
    [note] = aside(cache, proc).notes
    assert "hidden" in note


def test_a_search_that_did_not_end_is_no_leave(
    cache: Path, proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_moves, "SEARCH", -1.0)
    assert "is not known: there was no time" in refused(cache, proc)
    assert "is not known" in aside(cache, proc, force=True).notes[0]


def test_a_link_is_refused_and_its_goal_named(cache: Path, proc: Proc) -> None:
    other = cache.with_name("link")
    other.symlink_to(cache)
    assert f"symbolic link to {cache}; name that instead" in refused(other, proc)


def test_a_path_through_the_root_of_another_process_is_refused(proc: Proc, tmp_path: Path) -> None:
    """It reads as our own /, where another directory of the same name may lie."""
    (tmp_path / "var/tmp/kept").mkdir(parents=True)
    with another_root(tmp_path) as pid:
        inside = Path(f"/proc/{pid}/root/var/tmp")
        with pytest.raises(CommandError, match="leads into what another process sees"):
            aside(inside, proc, dry_run=True)


def test_links_above_it_are_followed(cache: Path, proc: Proc, tmp_path: Path) -> None:
    (tmp_path / "short").symlink_to(cache.parent)
    assert aside(tmp_path / "short" / cache.name, proc).source == cache


def test_a_loop_of_links_above_it_is_said(proc: Proc, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(CommandError, match="symbolic links"):
        aside(tmp_path / "loop" / "cache", proc)


def test_a_missing_one_and_a_file_are_refused(cache: Path, proc: Proc) -> None:
    assert "does not exist" in refused(cache.with_name("none"), proc)
    assert "is no directory" in refused(cache / "torch_compile_cache/ab/model", proc)


def test_a_copy_is_not_set_aside_again(cache: Path, proc: Proc) -> None:
    assert "is a set-aside copy already" in refused(aside(cache, proc).goal, proc)


def test_the_root_the_home_and_what_holds_it_are_refused(
    cache: Path, proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(cache / "torch_compile_cache"))
    assert "holds the home directory" in refused(cache, proc)
    assert "holds the home directory" in refused(cache / "torch_compile_cache", proc)
    assert "whole system" in refused(Path("/"), proc)
    assert "belongs to the system" in refused(Path("/var"), proc, dry_run=True)


def test_a_mount_point_is_refused(cache: Path, proc: Proc) -> None:
    point = str(cache).replace(" ", "\\040")
    write(proc.root / "self/mountinfo", f"30 22 8:9 / {point} rw - ext4 /dev/sdc1 rw\n")
    assert "is a mount point" in refused(cache, proc, force=True)


def test_a_mount_inside_is_refused(cache: Path, proc: Proc) -> None:
    point = str(cache).replace(" ", "\\040") + "/triton"
    write(proc.root / "self/mountinfo", f"30 22 8:9 / {point} rw - ext4 /dev/sdc1 rw\n")
    assert f"has {cache}/triton mounted in it" in refused(cache, proc, force=True)


def test_a_second_name_on_this_host_is_refused_unless_forced(cache: Path, proc: Proc) -> None:
    inside = str(cache).replace(" ", "\\040")
    write(
        proc.root / "self/mountinfo",
        f"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 8:1 {inside} /srv/b rw - ext4 /dev/sda1 rw\n",
    )
    assert "also mounted at /srv/b" in refused(cache, proc)
    assert aside(cache, proc, force=True).goal.exists()


@pytest.mark.parametrize(
    ("number", "said"),
    [(18, "overlay"), (16, "mounted there"), (30, "read-only"), (13, "permission denied")],
)
def test_a_rename_that_fails_says_why_and_that_all_is_as_it_was(
    cache: Path, proc: Proc, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "rename", fail)
    sentence = refused(cache, proc)
    assert "stays as it is" in sentence
    assert said in sentence


def test_where_the_owner_may_not_make_it_anew_the_line_that_does_is_said(
    cache: Path, proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.stat
    cache.chmod(0o750)
    cache.parent.chmod(0o755)

    def owned(path: Path, **how: bool) -> os.stat_result:
        fields = list(real(path, **how))
        if path in (cache, cache.parent):
            fields[4:6] = [990, 991] if path == cache else [0, 0]
        return os.stat_result(fields)

    monkeypatch.setattr(Path, "stat", owned)
    [note] = aside(cache, proc, dry_run=True).notes
    assert f"install -d -o 990 -g 991 -m 0750 {shlex.quote(str(cache))}" in note
    cache.parent.chmod(0o777)
    assert aside(cache, proc, dry_run=True).notes == ()


# --- copies --------------------------------------------------------------------------------------


def test_only_names_of_a_copy_are_copies() -> None:
    assert set_aside_at(f"qwen.stale-{STAMP}") == NOW.replace(microsecond=0)
    assert set_aside_at(f"qwen.stale-{STAMP}", "qwen") is not None
    for name in ("qwen", f"qwen.stale-{STAMP}x", f".stale-{STAMP}", "qwen.stale-20269930T031216Z"):
        assert set_aside_at(name) is None, name
    assert set_aside_at(f"qwen-2.stale-{STAMP}", "qwen") is None


def test_copies_are_listed_oldest_first_with_their_size(cache: Path, proc: Proc) -> None:
    for hours in (0, -5, -3, -4):
        write(cache / "a/b", "x" * 100)
        set_aside(cache, NOW + timedelta(hours=hours), proc.root)
    cache.with_name("other.stale-20261130T031216Z").mkdir()
    cache.with_name("the cache.stale-20261130T041216Z").write_text("a file is no copy")
    cache.with_name("the cache.stale-20261130T051216Z").symlink_to(cache.parent)

    found = copies(cache)

    assert found.cut == ""
    assert [(c.path.name[-16:], c.files, c.cut) for c in found.found] == [
        ("20261129T221216Z", 1, ""),
        ("20261129T231216Z", 1, ""),
        ("20261130T001216Z", 1, ""),
        (STAMP, 2, ""),
    ]
    assert all(100 <= c.size <= 65_536 for c in found.found)


def test_a_copy_of_many_files_is_measured_up_to_a_bound(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = cache.rename(cache.with_name(f"the cache.stale-{STAMP}"))
    for n in range(12):
        write(place / f"more/{n}", "")
    monkeypatch.setattr(cache_copies, "MOST_FILES", 10)
    measured = copy_at(place)
    assert measured.cut == "more than 10 entries"
    assert measured.files == 7  # with three folders these are 10 entries


def test_a_loop_of_links_in_a_copy_is_not_followed(cache: Path) -> None:
    place = cache.rename(cache.with_name(f"the cache.stale-{STAMP}"))
    (place / "loop").symlink_to(place)
    assert copy_at(place)[2:5:2] == (2, "")


def test_without_time_a_size_says_so(cache: Path) -> None:
    cache.rename(cache.with_name(f"the cache.stale-{STAMP}"))
    assert copies(cache, time.monotonic() - 1).found[0].cut == "no time to count all"


def test_more_copies_than_are_shown_are_said(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for minute in range(3):
        cache.with_name(f"the cache.stale-20261130T03{minute:02d}16Z").mkdir()
    monkeypatch.setattr(cache_copies, "MOST_COPIES", 2)
    assert "there are 3 copies" in copies(cache).cut
    monkeypatch.setattr(cache_copies, "MOST_NAMES", 1)
    assert "more than 1 entries" in copies(cache).cut


def test_a_parent_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no such file"):
        copies(tmp_path / "none" / "cache")


def test_only_the_named_copy_is_deleted(cache: Path, proc: Proc) -> None:
    first = cache.with_name(f"the cache.stale-{STAMP}")
    write(first / "a/b", "")
    kept = cache.with_name("the cache.stale-20261129T031216Z")
    kept.mkdir()
    delete([first], proc.root)
    assert beside(cache) == [cache.name, kept.name]


def test_what_is_no_copy_is_not_deleted_nor_what_is_named_with_it(cache: Path, proc: Proc) -> None:
    good = cache.with_name(f"the cache.stale-{STAMP}")
    good.mkdir()
    with pytest.raises(CommandError, match="is no set-aside copy"):
        delete([good, cache], proc.root)
    assert good.exists()
    assert cache.exists()


def test_a_link_with_the_name_of_a_copy_is_not_deleted(cache: Path, proc: Proc) -> None:
    link = cache.with_name(f"the cache.stale-{STAMP}")
    link.symlink_to(cache)
    with pytest.raises(CommandError, match="symbolic link"):
        delete([link], proc.root)
    assert cache.exists()


def test_links_in_a_copy_are_not_followed_when_it_goes(cache: Path, proc: Proc) -> None:
    copy = cache.with_name(f"the cache.stale-{STAMP}")
    copy.mkdir()
    (copy / "link").symlink_to(cache)
    delete([copy], proc.root)
    assert (cache / "torch_compile_cache/ab/model").exists()


def test_a_copy_in_use_or_with_a_mount_is_not_deleted(
    cache: Path, proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = aside(cache, proc).goal
    proc.add(500, opens=[(f"{copy}/torch_compile_cache/ab/model", "")])
    with pytest.raises(CommandError, match="process 500"):
        check_copies([copy], proc.root)
    monkeypatch.setattr(cache_copies, "SEARCH", -1.0)
    with pytest.raises(CommandError, match="not known"):
        check_copies([copy], proc.root)
    point = str(copy).replace(" ", "\\040") + "/torch_compile_cache"
    write(proc.root / "self/mountinfo", f"30 22 8:9 / {point} rw - ext4 /dev/sdc1 rw\n")
    with pytest.raises(CommandError, match="mounted there"):
        check_copies([copy], proc.root)
    assert copy.exists()


def test_a_copy_that_goes_only_in_part_says_so(
    cache: Path, proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise PermissionError(13, os.strerror(13), f"{path}/a")

    copy = aside(cache, proc).goal
    monkeypatch.setattr(cache_copies.shutil, "rmtree", fail)
    with pytest.raises(CommandError, match="in part only: .*/a: permission denied"):
        delete([copy], proc.root)
