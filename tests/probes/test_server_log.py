"""A server's log: read when a process is new, once more, then where it changed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.domain.test_start_lines import HIT, compiled, engine, head
from watchdog import start_log
from watchdog.build import probes_of
from watchdog.domain.sample import Facts
from watchdog.probes import PROBES
from watchdog.probes.server_log import AGAIN, EVERY, ServerLog
from watchdog.reader import Readers
from watchdog.settings import Settings

LATER = time.monotonic() + 1000.0


class Clock:
    """Seconds of a monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("watchdog.probes.server_log.time", made)
    return made


class Server:
    """A log and what the probe was told in the round before."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path, self.clock = path, clock
        self.begun = time.time() - 100.0
        self.probe = ServerLog("t", path)
        self.known: Facts = {"answered": True, "process_start": self.begun}
        self.looks = 0

    def write(self, *lines: str) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def round(self, **more: object) -> Facts:
        """Read as the daemon does: at once where nothing need be read."""
        known = {**self.known, "answered": True, **more}
        reading = self.probe.at_once(known)
        if reading is None:
            self.looks += 1
            reading = self.probe.read(known, LATER)
        self.known = {"process_start": self.begun, **more, **reading.facts}
        assert json.loads(json.dumps(self.known)) == self.known
        return reading.facts


@pytest.fixture
def server(tmp_path: Path, clock: Clock) -> Server:
    return Server(tmp_path / "vllm.log", clock)


def compiled_of(facts: Facts) -> int:
    log: Any = facts["log"]
    return int(log["compiled"])


def test_before_anything_is_known_and_while_it_is_silent_nothing_is_read(server: Server) -> None:
    server.write(head(), engine(), compiled())
    assert server.probe.read({}, LATER).facts == {}
    assert server.probe.read({"answered": False}, LATER).facts == {}


def test_a_new_process_is_read_at_once_and_then_carried(server: Server) -> None:
    server.write(head(), engine(), compiled())
    first = server.round()
    assert compiled_of(first) == 1
    assert server.round() == first
    assert server.looks == 1


def test_it_is_read_once_more_after_a_minute_since_lines_may_come_late(server: Server) -> None:
    server.write(head(), engine(), compiled())
    server.round()
    server.write(compiled())
    server.clock.now += AGAIN - 1
    assert compiled_of(server.round()) == 1
    server.clock.now += 1
    assert compiled_of(server.round()) == 2
    assert server.looks == 2


def test_then_it_is_looked_at_seldom_and_read_where_it_changed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.write(head(), engine(), compiled())
    server.round()
    server.clock.now += AGAIN
    server.round()
    reads = count_reads(monkeypatch)
    server.clock.now += EVERY - 1
    server.round()
    assert (server.looks, len(reads)) == (2, 0)
    server.clock.now += 1
    server.round()
    assert (server.looks, len(reads)) == (3, 0)  # looked at, and it is as it was
    server.write(compiled())
    server.clock.now += EVERY
    assert compiled_of(server.round()) == 2
    assert (server.looks, len(reads)) == (4, 1)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    reads: list[Path] = []
    whole = start_log.read

    def counting(path: Path, deadline: float) -> start_log.Found:
        reads.append(path)
        return whole(path, deadline)

    monkeypatch.setattr("watchdog.start_log.read", counting)
    return reads


def test_another_process_is_read_at_once(server: Server) -> None:
    server.write(head(), engine(), compiled())
    server.round()
    server.write(head(), engine(), HIT)
    assert compiled_of(server.round()) == 1  # the page still tells of the old one
    assert compiled_of(server.round(process_start=server.begun + 1)) == 0


def test_where_the_page_tells_no_start_that_of_the_process_counts(server: Server) -> None:
    server.write(head(), engine(), compiled())
    none: dict[str, Any] = {"process_start": None}
    server.round(**none, launch={"started_at": 5.0})
    server.write(head(), engine(), HIT)
    assert compiled_of(server.round(**none, launch={"started_at": 5.0})) == 1
    assert compiled_of(server.round(**none, launch={"started_at": 6.0})) == 0


def test_a_start_that_is_older_than_the_process_is_not_laid_to_it(server: Server) -> None:
    server.write(head(), engine(), compiled())
    os.utime(server.path, (server.begun - 1000, server.begun - 1000))
    facts = server.round()
    assert "log" not in facts
    assert facts["log_unknown"] == (
        f"{server.path}: nothing was written to it since the process began"
    )
    server.write(head(), engine(), HIT, HIT)  # it came late
    server.clock.now += AGAIN
    log: Any = server.round()["log"]
    assert log["hits"] == 2


def test_a_log_that_cannot_be_read_is_said(server: Server, tmp_path: Path) -> None:
    assert server.round()["log_unknown"] == f"{server.path} is not there"
    os.mkfifo(tmp_path / "fifo")
    facts = ServerLog("t", tmp_path / "fifo").read({"answered": True}, LATER).facts
    assert "is no regular file" in str(facts["log_unknown"])


@pytest.mark.parametrize("rotate", [Path.unlink, lambda path: path.write_bytes(b"on and on\n")])
def test_what_was_read_of_a_start_outlasts_the_rotation_of_its_log(
    server: Server, rotate: Callable[[Path], object]
) -> None:
    server.write(head(), engine(), compiled())
    server.round()
    rotate(server.path)
    for _ in range(3):
        server.clock.now += EVERY
        assert compiled_of(server.round()) == 1
    again = server.round(process_start=server.begun + 1)  # but not that of another process
    assert again.get("log_unknown") or not again["log"]["began"]  # type: ignore[index]


def test_it_is_there_where_a_log_is_given(tmp_path: Path) -> None:
    log = tmp_path / "qwen.log"
    targets = [{"url": "http://127.0.0.1:1", "launch": {"log": str(log)}},
               {"url": "http://127.0.0.1:2"}]  # fmt: skip
    settings = Settings.model_validate({"targets": targets})
    found = [probe for probe in probes_of(settings) if isinstance(probe, ServerLog)]
    assert found == [ServerLog("127.0.0.1:1", log)]
    assert PROBES[ServerLog.name] is ServerLog


def test_a_round_of_readers_carries_it(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    path.write_text(f"{head()}\n{engine()}\n{compiled()}")
    readers = Readers([ServerLog("t", path)])
    rounds = [readers.read_all(5.0)[0] for _ in range(3)]
    readers.close()
    assert [reading.error for reading in rounds] == [None, None, None]
    assert "log" not in rounds[0].facts
    assert compiled_of(rounds[1].facts) == 1
    assert rounds[2].facts == rounds[1].facts
