"""The stamp in a cache directory: read back as written, and every other file refused by name."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import threading
import time

import pytest

from watchdog import __version__, cache_stamp
from watchdog.cache_stamp import (
    MOST,
    NAME,
    Filled,
    Stamp,
    Unreadable,
    Unwritable,
    read,
    turn,
    write,
)

AT = "2026-09-06T11:22:33Z"


def filled(i=0, **more):
    return Filled({"factors": [["model", f"{i:016x}", f"/models/{i}"]], **more}, AT, 1.5e9 + i)


def names(directory):
    return [path.name for path in directory.iterdir()]


def stored(directory, **changes):
    """Write a stamp with some keys as they should not be."""
    document = {
        "product": "serving-watchdog",
        "schema": 1,
        "written_by": "0.1.0",
        "entries": [filled()._asdict()],
    }
    text = json.dumps({**document, **changes})
    (directory / NAME).write_text(text)


def test_a_stamp_is_read_as_it_was_written(tmp_path):
    stamp = Stamp((filled(1), filled(2)))

    write(tmp_path, stamp)

    assert read(tmp_path) == stamp
    assert read(tmp_path).written_by == __version__


def test_a_directory_without_a_stamp_has_none(tmp_path):
    assert read(tmp_path) is None
    assert read(tmp_path / "not/there") is None


def test_a_stamp_replaces_the_one_before_and_leaves_nothing_else(tmp_path):
    write(tmp_path, Stamp((filled(1),)))
    write(tmp_path, Stamp((filled(2),)))

    assert read(tmp_path) == Stamp((filled(2),))
    assert names(tmp_path) == [NAME]


def test_all_may_read_a_stamp_whatever_the_umask(tmp_path):
    old = os.umask(0o077)
    try:
        write(tmp_path, Stamp())
    finally:
        os.umask(old)

    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o644


def test_a_stamp_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    done = []
    sync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda d: (done.append("sync"), sync(d)))
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("rename"), rename(a, b)))

    write(tmp_path, Stamp())

    assert done == ["sync", "rename", "sync"]


def test_who_noted_it_is_kept_and_an_older_stamp_is_of_launchers(tmp_path):
    write(tmp_path, Stamp((filled(1)._replace(by="daemon"), filled(2))))
    assert [entry.by for entry in read(tmp_path).entries] == ["daemon", ""]
    old = {key: value for key, value in filled()._asdict().items() if key != "by"}
    for by in ({}, {"by": 7}, {"by": "somebody"}):
        stored(tmp_path, entries=[{**old, **by}])
        assert [entry.by for entry in read(tmp_path).entries] == [""]


def test_two_who_write_have_turns_and_lose_nothing(tmp_path):
    def write_one(i):
        with turn(tmp_path):
            stamp = read(tmp_path) or Stamp()
            time.sleep(0.02)
            write(tmp_path, stamp.added(filled(i)))

    threads = [threading.Thread(target=write_one, args=(i,)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {entry.start - 1.5e9 for entry in read(tmp_path).entries} == set(range(5))


def test_a_turn_that_never_ends_holds_up_no_launch(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_stamp, "PATIENCE", 0.1)

    with turn(tmp_path), turn(tmp_path):
        write(tmp_path, Stamp((filled(1),)))

    assert read(tmp_path) == Stamp((filled(1),))


def test_the_turn_of_a_directory_that_is_not_there_says_nothing(tmp_path):
    with turn(tmp_path / "none"):
        assert read(tmp_path / "none") is None


# --- entries ---


def test_the_oldest_entry_goes_first():
    stamp = Stamp()
    for i in range(MOST + 5):
        stamp = stamp.added(filled(i))

    assert [entry.start - 1.5e9 for entry in stamp.entries] == list(range(5, MOST + 5))


def test_a_warm_start_keeps_who_filled_the_directory():
    stamp = Stamp().added(filled(1))

    assert stamp.added(filled(1)._replace(start=2e9, at="2026-09-13T00:00:00Z")) == stamp


def test_a_fingerprint_that_comes_back_is_an_entry_again():
    stamp = Stamp().added(filled(1)).added(filled(2)).added(filled(1))

    assert stamp.entries == (filled(1), filled(2), filled(1))


def test_entries_that_are_too_long_together_lose_the_oldest(tmp_path):
    long = [filled(i, shown="x" * 1_000_000) for i in range(6)]

    write(tmp_path, Stamp(tuple(long)))

    assert read(tmp_path).entries == tuple(long[-4:])


def test_one_entry_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(Unwritable, match="is longer than 4194304"):
        write(tmp_path, Stamp((filled(shown="x" * 5_000_000),)))

    assert names(tmp_path) == []


# --- stamps that cannot be used ---


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"product": "cargo"}, "is no stamp of serving-watchdog"),
        ({"schema": 2}, r"was written by a newer serving-watchdog \(0.1.0, schema 2\)"),
        ({"schema": 2, "entries": "other"}, "was written by a newer"),
        ({"schema": 0}, "has the schema 0"),
        ({"schema": True}, "has the schema True"),
        ({"schema": None}, "has the schema None"),
        ({"written_by": 3}, "written_by that is no text"),
        ({"entries": {}}, "entries that are no list of at most 32"),
        ({"entries": [filled()._asdict()] * 33}, "entries that are no list of at most 32"),
        ({"entries": [5]}, r"entries\[0\] that is no object"),
        ({"entries": [{"at": AT}]}, r"entries\[0\].fingerprint that is no object"),
        ({"entries": [{"fingerprint": {}, "at": "9 o'clock"}]}, r"entries\[0\].at that is no time"),
        ({"entries": [{"fingerprint": {}, "at": AT[:-1]}]}, r"entries\[0\].at that is no time"),
        ({"entries": [{"fingerprint": {}, "at": AT}]}, r"entries\[0\].start that is no time"),
        (
            {"entries": [filled()._asdict(), {**filled()._asdict(), "start": True}]},
            r"entries\[1\].start that is no time",
        ),
        ({"entries": [{**filled()._asdict(), "start": 1e300}]}, "start that is no time"),
        ({"entries": [{**filled()._asdict(), "start": -1}]}, "start that is no time"),
        ({"entries": [{**filled()._asdict(), "start": float("nan")}]}, "start that is no time"),
        ({"entries": [{**filled()._asdict(), "start": 10**400}]}, "start that is no time"),
    ],
)
def test_a_stamp_that_makes_no_sense_is_no_missing_one(tmp_path, changes, reason):
    stored(tmp_path, **changes)

    with pytest.raises(Unreadable, match=reason) as caught:
        read(tmp_path)

    assert str(tmp_path / NAME) in str(caught.value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "holds no JSON"),
        (b'{"product": "serving-', "holds no JSON"),
        (b"\xff\xfe\x00", "holds no JSON"),
        (b"[" * 100_000, "holds no JSON"),
        (b"[]", "JSON that is no object"),
        (b" " * 5_000_000, "has 5000000 bytes, more than"),
    ],
)
def test_a_stamp_that_is_no_json_is_told(tmp_path, data, reason):
    (tmp_path / NAME).write_bytes(data)

    with pytest.raises(Unreadable, match=reason):
        read(tmp_path)


def test_keys_that_came_later_are_no_fault(tmp_path):
    stored(tmp_path, more=1, entries=[{**filled()._asdict(), "note": "mine"}])

    assert read(tmp_path).entries == (filled(),)


def test_a_pipe_in_place_of_a_stamp_does_not_block(tmp_path):
    os.mkfifo(tmp_path / NAME)

    with pytest.raises(Unreadable, match="is no regular file"):
        read(tmp_path)


def test_a_link_in_place_of_a_stamp_is_not_followed(tmp_path):
    stored(tmp_path)
    (tmp_path / NAME).rename(tmp_path / "elsewhere")
    (tmp_path / NAME).symlink_to("elsewhere")

    with pytest.raises(Unreadable, match="is a link"):
        read(tmp_path)

    write(tmp_path, Stamp())
    assert read(tmp_path) == Stamp()
    assert b"entries" in (tmp_path / "elsewhere").read_bytes()
    assert len(json.loads((tmp_path / "elsewhere").read_text())["entries"]) == 1  # as it was


def test_a_directory_that_is_a_file_is_told(tmp_path):
    (tmp_path / "cache").touch()

    with pytest.raises(Unreadable, match="below something that is no directory"):
        read(tmp_path / "cache")


# --- places where nothing can be written ---


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EROFS, "mounted read-only"),
        (errno.ENOSPC, "no space left"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "not permitted to this user"),
        (errno.EIO, "Input/output error"),
    ],
)
@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_what_failed_is_told_and_the_old_stamp_stays(tmp_path, monkeypatch, call, number, reason):
    write(tmp_path, Stamp((filled(1),)))
    with monkeypatch.context() as patch:
        patch.setattr(cache_stamp.os, call, failing(number))
        with pytest.raises(Unwritable, match=reason) as caught:
            write(tmp_path, Stamp((filled(2),)))

    assert str(tmp_path / NAME) in str(caught.value)
    assert read(tmp_path) == Stamp((filled(1),))
    assert names(tmp_path) == [NAME]


def failing(number):
    def call(*_args, **_kwargs):
        raise OSError(number, os.strerror(number))

    return call


def test_a_full_file_system_keeps_the_old_stamp(tmp_path):
    """By a real limit on the size of files, in a process of its own."""
    write(tmp_path, Stamp((filled(1),)))

    said = in_a_process(
        "import resource, signal;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))",
        tmp_path,
    )

    assert "File too large" in said
    assert read(tmp_path) == Stamp((filled(1),))
    assert names(tmp_path) == [NAME]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_another_users_directory_is_told(tmp_path):
    said = in_a_process("os.setgid(65534); os.setuid(65534)", tmp_path)

    assert "is not permitted to this user" in said
    assert names(tmp_path) == []


def in_a_process(before, directory):
    """Write a stamp into the directory in a process of its own; return what it says."""
    code = f"""
import os, sys
from pathlib import Path
from watchdog.cache_stamp import Stamp, Unwritable, write
{before}
try:
    write(Path(sys.argv[1]), Stamp())
except Unwritable as error:
    os.write(1, str(error).encode())
"""
    run = [sys.executable, "-c", code, directory]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout


def test_a_directory_that_is_not_there_is_told(tmp_path):
    with pytest.raises(Unwritable, match="is not there"):
        write(tmp_path / "none", Stamp())


def test_a_directory_in_place_of_the_stamp_is_told(tmp_path):
    (tmp_path / NAME).mkdir()

    with pytest.raises(Unwritable, match="is a directory"):
        write(tmp_path, Stamp())

    assert names(tmp_path) == [NAME]
