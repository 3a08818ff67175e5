"""Word to systemd, over a real datagram socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from watchdog import systemd


def test_lines_arrive_in_one_datagram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

        assert systemd.notify("READY=1", "STATUS=well")

        assert listener.recv(1000) == b"READY=1\nSTATUS=well"


def test_abstract_sockets_work_too(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"serving-watchdog-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name)
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name)

        systemd.reloading()

        assert listener.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")


def test_without_systemd_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)

    assert not systemd.notify("READY=1")


@pytest.mark.parametrize(
    ("usec", "pid", "every"),
    [("60000000", "", 30.0), ("60000000", "1", None), ("", "", None), ("soon", "", None)],
)
def test_pings_come_twice_as_often_as_systemd_asks(
    usec: str, pid: str, every: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid)

    assert systemd.ping_every() == every
