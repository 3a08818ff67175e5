"""The store: what is kept comes back, and a file that cannot be used costs no watching."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from watchdog import store_file
from watchdog.domain.notice import Notice
from watchdog.domain.sample import labels
from watchdog.domain.trace import Point
from watchdog.errors import CommandError
from watchdog.store import Store
from watchdog.store_tables import KEEP

ENGINE = labels(target="qwen", engine="0", model_name="m")
ROWS = {"a": {"x": 1.5}, "b": [1, None, "é"]}
SECOND = "ALTER TABLE kept ADD COLUMN since REAL"
"""What a later version might do to the tables."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "state.db"


def opened(path: Path, **more: object) -> tuple[Store, dict[str, object]]:
    store = Store(path, **more)  # type: ignore[arg-type]
    return store, store.open()


def saved(path: Path, rows: dict[str, object], **more: object) -> None:
    store, _ = opened(path)
    store.save(rows.items(), **more)  # type: ignore[arg-type]
    store.close()


def rows_in(path: Path) -> dict[str, object]:
    store, rows = opened(path)
    store.close()
    return rows


def aside(path: Path, reason: str) -> list[Path]:
    """Files set aside for this reason; each name says when."""
    return [
        file
        for file in path.parent.iterdir()
        if re.fullmatch(rf"state\.db\.{reason}-\d{{8}}T\d{{6}}\.\d+Z", file.name)
    ]


def test_rows_come_back_and_only_they(path: Path) -> None:
    saved(path, ROWS)
    saved(path, {"b": 2})
    assert rows_in(path) == {"b": 2}


def test_what_did_not_change_is_not_written_again(path: Path) -> None:
    store, _ = opened(path)
    store.save(ROWS.items())
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE kept SET body = '\"mark\"' WHERE name = 'a'")
        other.commit()
    store.save({**ROWS, "b": 3}.items())
    store.close()
    assert rows_in(path) == {"a": "mark", "b": 3}


def test_a_killed_process_leaves_whole_rounds_and_frees_the_directory(path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from watchdog.store import Store\n"
        "store = Store(Path(sys.argv[1])); store.open()\n"
        "store.save([('a', 1), ('b', 1)])\n"
        "store._tables.db.execute('BEGIN IMMEDIATE')\n"
        "store._tables.db.execute(\"UPDATE kept SET body = '2' WHERE name = 'a'\")\n"
        "os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert killed.returncode == -9
    assert rows_in(path) == {"a": 1, "b": 1}


def test_a_second_copy_is_refused_with_the_first_ones_number(path: Path) -> None:
    store, _ = opened(path)
    with pytest.raises(CommandError, match=rf"in use by process {os.getpid()}\b.*state_dir"):
        Store(path).open()
    store.close()
    assert rows_in(path) == {}


def test_files_are_for_their_owner_alone(path: Path) -> None:
    store, _ = opened(path)
    store.save(ROWS.items())
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    store.close()
    assert set(modes.values()) == {0o600}
    assert {"state.db", "state.db-wal", "lock"} <= modes.keys()


# The outbox


def notice(key: str) -> Notice:
    return Notice(key, {"key": key})


def test_each_destination_gets_every_notice_in_order_until_it_is_done(path: Path) -> None:
    store, _ = opened(path)
    store.save([], [notice("k1"), notice("k2")], ["one", "two"], now=100.0)
    first = store.first("one")
    assert first is not None
    assert (first.key, first.body, first.made_at, first.tries) == ("k1", '{"key": "k1"}', 100.0, 0)
    store.later(first.id, 130.0)
    again = store.first("one")
    assert again is not None
    assert (again.id, again.tries, again.next_at) == (first.id, 1, 130.0)
    store.done(first.id)
    assert [store.first(to).key for to in ("one", "two")] == ["k2", "k1"]  # type: ignore[union-attr]
    assert [store.waiting(to) for to in ("one", "two", "nobody")] == [1, 2, 0]
    assert store.first("nobody") is None
    store.close()


def test_a_notice_that_was_not_done_waits_over_a_restart(path: Path) -> None:
    saved(path, {}, notices=[notice("k1")], destinations=["one"], now=5.0)
    store, _ = opened(path)
    assert store.waiting("one") == 1
    store.close()


def test_the_same_notice_is_put_once(path: Path) -> None:
    store, _ = opened(path)
    for _ in range(2):
        store.save([], [notice("k1")], ["one"])
    assert store.waiting("one") == 1
    store.close()


def test_beyond_the_bound_the_oldest_notices_go_and_are_counted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watchdog.store_tables.MOST_WAITING", 3)
    store, _ = opened(path)
    store.save([], [notice(f"k{i}") for i in range(3)], ["one"])
    assert (store.waiting("one"), store.dropped) == (3, 0)
    store.save([], [notice("k3")], ["one"])
    assert (store.waiting("one"), store.dropped) == (3, 1)
    assert store.first("one").key == "k1"  # type: ignore[union-attr]
    store.close()


def test_notices_for_a_webhook_that_is_no_longer_configured_are_forgotten(path: Path) -> None:
    store, _ = opened(path)
    store.save([], [notice("k1")], ["one", "two"])
    assert store.only(["two"]) == 1
    assert [store.waiting(to) for to in ("one", "two")] == [0, 1]
    assert store.only([]) == 1
    store.close()


# The curves


def test_stretches_come_back_whole_and_in_order(path: Path) -> None:
    points = [Point(60.0 * i, 60.0, drafts=float(i), positions=(1.0, 0.5)) for i in (2, 1, 3)]
    saved(path, {}, stretches=[(ENGINE, point) for point in points], now=180.0)
    store, _ = opened(path)
    assert store.engines(0.0, 10) == [ENGINE]
    assert store.stretches(ENGINE, 60.0) == [points[0], points[2]]
    assert store.engines(180.0, 10) == []
    store.close()


def test_stretches_older_than_a_month_go(path: Path) -> None:
    store, _ = opened(path)
    store.save([], stretches=[(ENGINE, Point(100.0))], now=100.0)
    store.save([], stretches=[(ENGINE, Point(100.0 + KEEP))], now=100.0 + KEEP)
    assert len(store.stretches(ENGINE, 0.0)) == 2
    store.save([], stretches=[(ENGINE, Point(101.0 + KEEP))], now=101.0 + KEEP)
    assert [point.at for point in store.stretches(ENGINE, 0.0)] == [100.0 + KEEP, 101.0 + KEEP]
    store.close()


def test_beyond_the_bound_the_oldest_stretches_go(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watchdog.store_tables.MOST_STRETCHES", 10)
    store, _ = opened(path)
    for i in range(13):
        store.save([], stretches=[(ENGINE, Point(float(i)))], now=float(i))
        assert len(store.stretches(ENGINE, -1.0)) <= 10
    assert store.stretches(ENGINE, -1.0)[-1].at == 12.0
    assert len(store.stretches(ENGINE, -1.0)) >= 9
    store.close()


# Versions


def test_an_upgrade_migrates_and_keeps_a_copy_of_what_was_before(path: Path) -> None:
    saved(path, ROWS)
    newer, rows = opened(path, migrations=(*store_file.MIGRATIONS, SECOND))
    assert rows == ROWS
    newer.save({"a": "upgraded"}.items())
    newer.close()
    copy = path.with_name("state.db.schema-1")
    with closing(sqlite3.connect(copy)) as before:
        assert before.execute("PRAGMA user_version").fetchone() == (1,)
        assert dict(before.execute("SELECT name, body FROM kept").fetchall()).keys() == ROWS.keys()
    assert copy.stat().st_mode & 0o777 == 0o600


def test_an_older_program_refuses_a_newer_file_and_its_sentence_leads_back(path: Path) -> None:
    saved(path, ROWS)
    newer, _ = opened(path, migrations=(*store_file.MIGRATIONS, SECOND))
    newer.save({"a": "upgraded"}.items())
    newer.close()
    before = path.read_bytes()
    with pytest.raises(CommandError, match="newer serving-watchdog") as refused:
        Store(path).open()
    assert path.read_bytes() == before
    command = str(refused.value).partition("upgrade: ")[2]
    subprocess.run(command, shell=True, check=True)
    assert rows_in(path) == ROWS  # the directory is free, too


def test_an_older_program_without_a_copy_says_how_to_begin_anew(path: Path) -> None:
    newer, _ = opened(path, migrations=(*store_file.MIGRATIONS, SECOND))
    newer.close()
    with pytest.raises(CommandError, match="an empty memory: mv") as refused:
        Store(path).open()
    subprocess.run(str(refused.value).partition("memory: ")[2], shell=True, check=True)
    assert rows_in(path) == {}


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    saved(path, ROWS)
    broken = (*store_file.MIGRATIONS, "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1)")
    with pytest.raises(sqlite3.Error):
        store_file.open_file(path, broken)
    assert rows_in(path) == ROWS


# Troubles


def test_a_file_that_is_no_database_is_set_aside_and_a_new_one_begun(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database at all" * 100)
    store, rows = opened(path)
    store.save(ROWS.items())
    store.close()
    assert rows == {}
    assert [file.read_bytes()[:7] for file in aside(path, "corrupt")] == [b"this is"]
    assert rows_in(path) == ROWS


def test_another_programs_database_is_set_aside_whole(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE kept (name TEXT)")
        other.commit()
    store, _ = opened(path)
    store.close()
    [file] = aside(path, "corrupt")
    with closing(sqlite3.connect(file)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("kept",)]


def test_a_file_that_rots_while_in_use_is_set_aside_and_written_anew(path: Path) -> None:
    store, _ = opened(path)
    store.save(ROWS.items(), [notice("k1")], ["one"])
    store._tables.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.write(b"\0" * path.stat().st_size)
    store._tables.db.execute("PRAGMA cache_size = 0")
    for i in range(3):
        store.save({**ROWS, "c": i}.items())
    assert aside(path, "corrupt")
    assert store.durable
    store.close()
    assert rows_in(path) == {**ROWS, "c": 2}


@pytest.mark.usefixtures("quick")
def test_a_locked_file_is_set_aside_at_the_start(path: Path) -> None:
    saved(path, ROWS)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        store, rows = opened(path)
        assert rows == {}
        assert store.durable
        store.close()
    assert len(aside(path, "locked")) == 1


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait shorter for somebody else's lock."""
    monkeypatch.setattr("watchdog.store_file.BUSY", 0.1)


@pytest.mark.usefixtures("quick")
def test_a_file_locked_in_the_middle_is_left_and_used_again_with_all_that_came(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = opened(path)
    store.save(ROWS.items(), [notice("k1")], ["one"], [(ENGINE, Point(60.0))], 60.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.save({"a": 2}.items(), [notice("k2")], ["one"], [(ENGINE, Point(120.0))], 120.0)
        assert not store.durable
        assert "is locked" in store.trouble
        assert store.waiting("one") == 2
        other.execute("ROLLBACK")
    store.save({"a": 3}.items())
    assert not store.durable  # not before a minute is over
    monkeypatch.setattr("watchdog.store.RETRY", 0.0)
    store.done(store.first("one").id)  # type: ignore[union-attr]
    store.save({"a": 4}.items())
    assert (store.durable, store.trouble) == (True, "")
    assert [p.at for p in store.stretches(ENGINE, 0.0)] == [60.0, 120.0]
    assert store.first("one").key == "k2"  # type: ignore[union-attr]
    store.close()
    assert rows_in(path) == {"a": 4}


@pytest.mark.usefixtures("quick")
def test_a_file_that_is_tried_in_vain_is_never_called_durable_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be opened while another program writes; what memory holds cannot be moved into it."""
    monkeypatch.setattr("watchdog.store.RETRY", 0.0)
    store, _ = opened(path)
    seen, over = set[tuple[bool, bool]](), threading.Event()

    def look() -> None:
        while not over.wait(0.001):
            seen.add((store.durable, store.trouble == ""))

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        store.save(ROWS.items())
        with ThreadPoolExecutor(1) as looker:
            looker.submit(look)
            store.save({"a": 2}.items())
            over.set()
    assert seen == {(False, False)}
    store.save({"a": 3}.items())
    assert store.durable
    store.close()


def test_a_directory_that_cannot_be_had_leaves_memory_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    store, rows = opened(tmp_path / "file" / "state.db")
    store.save(ROWS.items(), [notice("k1")], ["one"])
    assert (rows, store.durable, store.waiting("one")) == ({}, False, 1)
    assert "a restart would forget them" in store.trouble
    store.close()


def test_a_closed_store_answers_that_there_is_nothing(path: Path) -> None:
    store, _ = opened(path)
    store.save([], [notice("k1")], ["one"])
    store.close()
    store.save(ROWS.items())
    assert (store.first("one"), store.waiting("one"), store.engines(0.0, 1)) == (None, 0, [])


def test_files_set_aside_are_bounded_and_the_newest_stay(path: Path) -> None:
    path.parent.mkdir()
    for i in range(store_file.MOST_ASIDE + 3):
        path.write_bytes(b"no database %d " % i * 100)
        store, _ = opened(path)
        store.close()
    kept = store_file.asides(path)
    assert len(kept) == store_file.MOST_ASIDE
    assert kept[-1].read_bytes().startswith(b"no database 12 ")
    assert kept[0].read_bytes().startswith(b"no database 3 ")


def test_a_file_that_turns_out_corrupt_when_it_is_tried_again_is_set_aside(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watchdog.store.RETRY", 0.0)
    monkeypatch.setattr("watchdog.store_file.BUSY", 0.1)
    store, _ = opened(path)
    store.save(ROWS.items())
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.save({"a": 2}.items())
    assert not store.durable
    for ending in store_file.BESIDE:
        path.with_name(path.name + ending).unlink(missing_ok=True)
    path.write_bytes(b"no database at all" * 100)
    store.save({"a": 3}.items(), [notice("k1")], ["one"])
    assert (store.durable, store.trouble, len(aside(path, "corrupt"))) == (True, "", 1)
    store.close()
    assert rows_in(path) == {"a": 3}


def test_new_tables_number_notices_above_those_of_the_old(path: Path, quick: None) -> None:  # noqa: ARG001
    """A post may be under way: what it then says is done must not be another one's number."""
    store, _ = opened(path)
    store.save([], [notice("k1")], ["one"])
    store._hang_up()
    store._use_memory("locked", sqlite3.OperationalError("as a test says"))
    store._fill(None)
    store.save([], [notice("k2")], ["one"])
    assert store.first("one").id > 1_000_000  # type: ignore[union-attr]
    store.close()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (sqlite3.OperationalError("database is locked"), "locked"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "read-only"),
        (sqlite3.OperationalError("database or disk is full"), "full"),
        (sqlite3.DatabaseError("database disk image is malformed"), "corrupt"),
        (sqlite3.OperationalError("unable to open database file"), "unusable"),
        (OSError(30, "Read-only file system", "/x"), "read-only"),
        (OSError(28, "No space left on device", "/x"), "full"),
        (PermissionError(13, "Permission denied", "/srv/is locked/malformed"), "unusable"),
    ],
)
def test_what_is_wrong_is_told_in_a_word(error: Exception, reason: str) -> None:
    assert store_file.reason_of(error) == reason


def test_every_commit_reaches_the_disk(path: Path) -> None:
    store, _ = opened(path)
    assert store._tables.db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    store.close()


def test_a_row_with_a_byte_that_we_did_not_write_is_left_out_and_written_over(path: Path) -> None:
    saved(path, {"a": 1, "b": 2})
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE kept SET body = CAST(x'22ff22' AS TEXT) WHERE name = 'a'")
        other.execute("UPDATE kept SET name = CAST(x'62ff' AS TEXT) WHERE name = 'b'")
        other.execute("INSERT INTO kept VALUES ('deep', ?)", ("[" * 200_000,))
        other.commit()
    store, rows = opened(path)
    assert rows == {}
    store.save({"a": 3}.items())
    store.close()
    assert rows_in(path) == {"a": 3}
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM kept").fetchone() == (1,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_another_users_directory_is_refused(path: Path, mode: int) -> None:
    store, _ = opened(path)
    for folder in [path.parent, *path.parent.parents][:4]:
        folder.chmod(0o755)
    path.parent.chmod(mode)
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[2]); os.setgid(65534); os.setuid(65534)\n"
        "from pathlib import Path; from watchdog.store_file import lock\n"
        "from watchdog.errors import CommandError\n"
        "try: lock(Path(sys.argv[1]))\n"
        "except CommandError as error: print(error)\n"
    )
    words = [sys.executable, "-c", program, str(path.parent), str(Path(__file__).parents[1])]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    store.close()
    if "ModuleNotFoundError" in ran.stderr or "Permission denied" in ran.stderr:
        pytest.skip("another user may not read this checkout")
    assert "belongs to another user" in ran.stdout, ran.stderr
