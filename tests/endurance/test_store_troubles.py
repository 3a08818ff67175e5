"""
Real troubles of the store's file under a running daemon, and at its start.

Each is reported, watching goes on from memory, changes still arrive, and the store is durable
again when the trouble has ended.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.endurance.forked import Nursery
from tests.endurance.house import House, until
from tests.endurance.places import DEAD, HEALTHY, Manners

FIRING = ("SpecDecodeCollapsed dies", "firing")
RESOLVED = ("SpecDecodeCollapsed dies", "resolved")

root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting is for root")


@pytest.fixture
def house(tmp_path: Path, nursery: Nursery) -> Iterator[House]:
    with House(tmp_path, ["dies"], ["hook"], speed=30.0, nursery=nursery, retry=1.0) as house:
        yield house


def changes(house: House) -> list[tuple[str, str]]:
    return [(taken.about, taken.change) for taken in house.takers["hook"].first()]


def durable(house: House) -> bool:
    return house.metric("watchdog_store_durable") == 1


def troubled(house: House, words: str) -> None:
    """Wait until it says so: metric, status page, log."""
    until(lambda: house.metric("watchdog_store_durable") == 0)
    assert house.says(words)
    assert "state.db" in house.get("/")


def goes_on(house: House) -> None:
    """Watches, tells of a change, and is well when the trouble has ended."""
    house.targets["dies"].drafter = DEAD
    until(lambda: changes(house) == [FIRING])
    assert house.fires() == {FIRING[0]}


def recovers(house: House) -> None:
    """Durable again: what happened in the trouble is known after a kill, and told once."""
    until(lambda: durable(house))
    until(lambda: "in memory alone" not in house.get("/"))
    house.kill()
    house.running()
    assert durable(house)
    assert house.fires() == {FIRING[0]}
    house.targets["dies"].drafter = HEALTHY
    until(lambda: changes(house) == [FIRING, RESOLVED])
    assert len({taken.key for taken in house.takers["hook"].taken}) == 2


def asides(house: House) -> list[str]:
    return sorted(path.name for path in house.state.glob("state.db.*-*Z"))


def scribble(path: Path) -> None:
    """Overwrite a file's bytes where it is, as a broken disk does."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(random.Random(1).randbytes(size))


@contextmanager
def tmpfs(at: Path, size: str) -> Iterator[None]:
    at.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", at], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", at], check=True)


def fill(folder: Path) -> Path:
    """Leave no byte free."""
    full = folder / "full"
    with full.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return full


def test_a_corrupt_file_is_set_aside_at_the_start(house: House) -> None:
    house.running()
    house.kill()
    for path in house.state.glob("state.db*"):
        scribble(path)
    house.running()
    assert durable(house)
    assert house.says("it was set aside and a new one begun")
    assert any(name.startswith("state.db.corrupt-") for name in asides(house))
    assert "was corrupt and was set aside" in house.get("/")
    goes_on(house)
    recovers(house)


def test_a_file_that_is_scribbled_over_in_use_costs_no_round(house: House) -> None:
    house.running()
    for path in house.state.glob("state.db*"):
        if not path.name.endswith("-shm"):
            scribble(path)
    goes_on(house)
    house.targets["dies"].drafter = HEALTHY
    until(lambda: changes(house) == [FIRING, RESOLVED])
    house.kill()
    house.running()
    until(lambda: durable(house))


def test_a_file_that_another_program_locks_in_use(house: House) -> None:
    house.running()
    other = sqlite3.connect(house.state / "state.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    troubled(house, "is locked")
    goes_on(house)
    assert not durable(house)
    other.execute("ROLLBACK")
    other.close()
    recovers(house)
    assert asides(house) == []


def test_a_file_that_another_program_locks_at_the_start(house: House) -> None:
    house.targets["dies"].drafter = DEAD
    house.running()
    until(lambda: changes(house) == [FIRING])
    house.kill()
    other = sqlite3.connect(house.state / "state.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    house.running()
    troubled(house, "locked")
    assert house.fires() == {FIRING[0]}
    other.execute("ROLLBACK")
    other.close()
    recovers(house)


@root
def test_a_full_disk(house: House) -> None:
    with tmpfs(house.state, "1500k"):
        house.running()
        full = fill(house.state)
        troubled(house, "full")
        goes_on(house)
        full.unlink()
        recovers(house)
        house.kill()


@root
def test_a_disk_that_is_full_at_the_start_keeps_what_it_holds(house: House) -> None:
    """A notice that waited in the file is told while the disk is full, and not forgotten."""
    with tmpfs(house.state, "1500k"):
        house.takers["hook"].manners = Manners(refuses=1.0)
        house.targets["dies"].drafter = DEAD
        house.running()
        until(lambda: house.fires() == {FIRING[0]} and house.takers["hook"].refused)
        house.kill(signal.SIGTERM)  # so that the file has no log beside it, and needs one
        full = fill(house.state)
        house.running()
        until(lambda: house.metric("watchdog_store_durable") == 0)
        assert house.fires() == {FIRING[0]}
        full.unlink()
        until(lambda: durable(house))
        house.takers["hook"].manners = Manners()
        until(lambda: changes(house) == [FIRING])
        recovers(house)
        house.kill()


@root
def test_a_disk_that_is_read_only_at_the_start(house: House) -> None:
    house.takers["hook"].manners = Manners(refuses=1.0)
    house.targets["dies"].drafter = DEAD
    house.running()
    until(lambda: house.fires() == {FIRING[0]} and house.takers["hook"].refused)
    house.kill(signal.SIGTERM)
    subprocess.run(["mount", "--bind", house.state, house.state], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", house.state], check=True)
        house.running()
        troubled(house, "read")
        assert house.fires() == {FIRING[0]}
        house.takers["hook"].manners = Manners()
        until(lambda: changes(house) == [FIRING])
        subprocess.run(["mount", "-o", "remount,bind,rw", house.state], check=True)
        until(lambda: durable(house))
        house.kill()
    finally:
        subprocess.run(["umount", "-l", house.state], check=True)
    house.running()
    recovers(house)


def test_a_directory_that_is_deleted_in_use(house: House) -> None:
    house.running()
    shutil.rmtree(house.state)
    until(lambda: house.says("the store cannot be used") or house.says("was set aside"))
    goes_on(house)
    recovers(house)
    assert (house.state / "lock").read_text() == f"{house.pid}\n"
