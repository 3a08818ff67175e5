"""The daemon as a process: signals, reload, port, systemd; and in-process under clock steps."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import time_machine

from tests.serving import Served, recorded, served
from watchdog.config import load
from watchdog.daemon import Daemon
from watchdog.domain.notice import Notice
from watchdog.errors import TryLater
from watchdog.schedule import Every

HEALTHY = ("g_draft_same_healthy_0_start", "g_draft_same_healthy_1_after_greedy")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def written(path: Path, url: str, port: int, interval: str = "1s") -> Path:
    path.write_text(
        f"targets: [{{url: '{url}', name: tiny}}]\ninterval: {interval}\n"
        f"server: {{listen: '127.0.0.1:{port}'}}\n"
    )
    return path


@contextmanager
def in_process(config: Path) -> Iterator[Daemon]:
    """A daemon in a thread of this process, which reads its file again when asked."""
    daemon = Daemon(load(config), lambda: load(config))
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        until(lambda: daemon.board.rounds >= 1)
        yield daemon
    finally:
        daemon.stop()
        thread.join(30)
    assert not thread.is_alive()


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def until(holds: object, seconds: float = 20.0) -> None:
    """Poll a condition until a deadline."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if holds():  # type: ignore[operator]
                return
        time.sleep(0.05)
    pytest.fail(f"did not come true in {seconds} s")


class Running:
    """A daemon in a process of its own, and what it logged."""

    def __init__(self, config: Path, **env: str) -> None:
        self.log = config.with_suffix(".log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "watchdog", "run", "--config", str(config)],
                stderr=log,
                env={**os.environ, **env},
            )

    def says(self, words: str) -> bool:
        return words in self.log.read_text()


@contextmanager
def running(config: Path, **env: str) -> Iterator[Running]:
    daemon = Running(config, **env)
    try:
        yield daemon
    finally:
        daemon.process.kill()
        daemon.process.wait(10)


@contextmanager
def healthy() -> Iterator[Served]:
    with served(*(recorded(name) for name in HEALTHY)) as server:
        yield server


def test_it_reports_on_its_port_and_ends_with_0_at_sigterm(tmp_path: Path) -> None:
    port = free_port()
    with healthy() as server, running(written(tmp_path / "c.yaml", server.url, port)) as daemon:
        until(lambda: get(port, "/-/ready")[0] == 200)
        until(lambda: "5.0" in get(port, "/metrics")[1])

        report = json.loads(get(port, "/api/v1/report")[1])
        assert report["product"] == "serving-watchdog"
        assert report["verdict"] == "OK"
        assert get(port, "/-/healthy")[0] == 200
        assert "watchdog_acceptance_length{" in get(port, "/metrics")[1]

        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(20) == 0
        assert daemon.says("stopped")


def test_a_reload_with_a_bad_file_keeps_the_old_one_and_says_why(tmp_path: Path) -> None:
    port = free_port()
    config = tmp_path / "c.yaml"
    with healthy() as server, running(written(config, server.url, port)) as daemon:
        until(lambda: get(port, "/-/ready")[0] == 200)
        good = config.read_text()
        config.write_text(good + "interval: 7s\n")

        daemon.process.send_signal(signal.SIGHUP)

        until(lambda: "watchdog_config_last_reload_successful 0" in get(port, "/metrics")[1])
        until(lambda: daemon.says("c.yaml:4:1: interval"))
        asked = server.asked
        until(lambda: server.asked > asked + 1)

        config.write_text(good.replace("name: tiny", "name: renamed"))
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: '"renamed"' in get(port, "/api/v1/report")[1])
        assert "watchdog_config_last_reload_successful 1" in get(port, "/metrics")[1]


def test_systemd_hears_ready_pings_and_stopping(tmp_path: Path) -> None:
    port = free_port()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener, healthy() as server:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(20)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "2000000"}
        with running(written(tmp_path / "c.yaml", server.url, port), **env) as daemon:
            assert listener.recv(1000) == b"READY=1"
            assert listener.recv(1000) == b"WATCHDOG=1"
            assert listener.recv(1000) == b"WATCHDOG=1"
            daemon.process.send_signal(signal.SIGTERM)
            last = b""
            while last != b"STOPPING=1":
                last = listener.recv(1000)


def test_a_port_in_use_is_an_exit_of_3_with_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken, healthy() as server:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with running(written(tmp_path / "c.yaml", server.url, port)) as daemon:
            assert daemon.process.wait(20) == 3
            assert daemon.says(f"cannot listen on 127.0.0.1:{port}")


def test_the_schedule_knows_one_next_time_however_far_the_clock_went() -> None:
    every = Every(15)
    then = datetime(2026, 1, 1, tzinfo=timezone.utc)
    now = then + timedelta(days=365)

    assert every.get_next_fire_time(None, now) == now
    assert every.get_next_fire_time(then, now) == now + timedelta(seconds=15)


@pytest.mark.parametrize("step", [-3600.0, 365 * 86400.0], ids=["an hour back", "a year on"])
def test_rounds_go_on_when_the_wall_clock_is_stepped(tmp_path: Path, step: float) -> None:
    with healthy() as server:
        config = written(tmp_path / "c.yaml", server.url, 0)
        with in_process(config) as daemon:
            until(lambda: daemon.board.rounds >= 2)
            with time_machine.travel(time.time() + step, tick=True):
                rounds = daemon.board.rounds
                until(lambda: daemon.board.rounds >= rounds + 3)
                report = daemon.board.report
                assert report is not None
                assert abs(report.skew - step) < 60
                stamp = datetime.fromisoformat(report.wall(report.now).replace("Z", "+00:00"))
                assert abs(stamp.timestamp() - time.time()) < 60  # told in the wall clock's time


def test_a_reload_lets_go_of_what_is_configured_no_more(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    with healthy() as server:
        written(config, server.url, 0)
        plain = config.read_text()
        config.write_text(
            plain + "alerting: {webhooks: [{url: 'http://127.0.0.1:9', name: gone}]}\n"
        )
        with in_process(config) as daemon:
            store, [hook] = daemon._keeper.store, daemon._watchdog.sinks[-1].webhooks  # type: ignore[attr-defined]
            store.save([], [Notice("k1", {"key": "k1"})], ["gone"], now=0.0)
            until(lambda: ("webhook", "gone", "ok") in daemon.board.notifications)
            config.write_text(plain.replace("interval: 1s", "interval: 2s"))
            daemon._reload.set()
            until(lambda: daemon.board.interval == 2.0)
            until(lambda: store.waiting("gone") == 0)
            assert hook._closed.is_set()
            assert ("webhook", "gone", "ok") not in daemon.board.notifications


def test_a_daemon_whose_rounds_stop_is_not_healthy(tmp_path: Path) -> None:
    with healthy() as server, in_process(written(tmp_path / "c.yaml", server.url, 0)) as daemon:
        assert daemon.board.healthy()
        patience = daemon._patience
        assert 2 <= patience <= 60  # seconds, for an interval of one
        daemon._finished -= patience
        daemon._turn.acquire()
        try:
            assert not daemon.board.healthy()
            with pytest.raises(TryLater):
                daemon.board.pause("tiny", 60.0)
        finally:
            daemon._turn.release()
        until(daemon.board.healthy)


def test_a_round_that_was_about_to_begin_as_it_ended_keeps_no_process(tmp_path: Path) -> None:
    with healthy() as server:
        with in_process(written(tmp_path / "c.yaml", server.url, 0)) as daemon:
            pass
        rounds = daemon.board.rounds
        late = threading.Thread(target=daemon._round, daemon=True)
        late.start()
        late.join(10)
        assert not late.is_alive()
        assert daemon.board.rounds == rounds
        with pytest.raises(TryLater, match="ending"):
            daemon.board.pause("tiny", 60.0)


def test_a_configuration_that_is_refused_is_among_the_daemons_troubles(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    with healthy() as server, in_process(written(config, server.url, 0)) as daemon:
        assert daemon.board.notes() == []
        good = config.read_text()
        config.write_text("interval: never\n")
        daemon._reload.set()
        until(lambda: any("config check" in note for note in daemon.board.notes()))
        config.write_text(good)
        daemon._reload.set()
        until(lambda: daemon.board.notes() == [])
