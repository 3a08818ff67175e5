"""A real systemd, booted as PID 1 of a throw-away host: own processes, mounts, cgroups, network."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil

SYSTEMD = Path("/lib/systemd/systemd")
BOOT = Path(__file__).with_name("boot.sh")
UNSHARE = (
    "setpriv", "--pdeathsig", "KILL",  # a killed test run leaves no host behind
    "unshare", "--fork", "--kill-child", "--pid", "--mount", "--cgroup", "--uts", "--ipc", "--net",
    "--propagation", "private",
)  # fmt: skip
CLONE_NEWNET = 0x40000000
T = TypeVar("T")


def why_not() -> str:
    """Say why no systemd can be booted here; empty where it can."""
    if os.geteuid() != 0:
        return "booting a systemd needs root"
    for program in ("setpriv", "unshare", "nsenter", "systemctl", "journalctl"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if not SYSTEMD.exists():
        return "systemd is not installed"
    with tempfile.TemporaryDirectory(prefix="booted-") as folder:
        tried = subprocess.run(
            [*UNSHARE, "sh", str(BOOT), folder, "only try"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    said = tried.stderr.strip()
    return f"no namespaces, overlays or control groups here: {said}" if tried.returncode else ""


class Host:
    """`pid` is systemd's, seen from outside."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "boot.log"
        place = folder / "host"
        place.mkdir()
        with self._log.open("wb") as log:
            self._outer = subprocess.Popen(
                [*UNSHARE, "sh", str(BOOT), str(place)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.pid = 0
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self._outer.poll() is not None:
                break
            children = psutil.Process(self._outer.pid).children()
            if children and children[0].name() == "systemd":
                self.pid = children[0].pid
                if self.run("systemctl", "is-active", "multi-user.target").returncode == 0:
                    return
            time.sleep(0.05)
        log = self._log.read_text(errors="replace")
        self.close()
        raise AssertionError(f"systemd did not boot: {log}")

    def run(
        self, *argv: str, timeout: float = 120, text: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as root in there; its exit code and output."""
        enter = ("nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w")
        clean = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C",
        }
        return subprocess.run(
            [*enter, *argv], capture_output=True, text=True, check=False, timeout=timeout,
            input=text, env=clean | env,
        )  # fmt: skip

    def ok(self, *argv: str, timeout: float = 120, **env: str) -> str:
        """Run a program that has to succeed; its standard output."""
        done = self.run(*argv, timeout=timeout, **env)
        assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def path(self, inside: str) -> Path:
        """Where a file of that host is seen from outside."""
        return Path(f"/proc/{self.pid}/root{inside}")

    def inside(self, work: Callable[[], T]) -> T:
        """Call `work` in a thread that has that host's network, such as its loopback."""
        result: list[T] = []
        failed: list[BaseException] = []

        def enter() -> None:
            try:
                self._enter_network()
                result.append(work())
            except BaseException as error:  # noqa: BLE001  (raised again, where it is waited for)
                failed.append(error)

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return result[0]

    def _enter_network(self) -> None:
        """Take the calling thread, and no other, into that host's network."""
        with Path(f"/proc/{self.pid}/ns/net").open("rb") as network:
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def shows(self, unit: str) -> dict[str, str]:
        """Every property of a unit."""
        lines = self.ok("systemctl", "show", unit).splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def journal(self, unit: str) -> list[dict[str, Any]]:
        """What the journal holds of a unit, oldest first."""
        lines = self.ok("journalctl", "-u", unit, "-o", "json", "--no-pager").splitlines()
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Kill it; the kernel takes away its processes, mounts and groups."""
        self._outer.kill()
        self._outer.wait()


@contextmanager
def booted() -> Iterator[Host]:
    """Boot for the length of a test."""
    with tempfile.TemporaryDirectory(prefix="booted-") as folder:
        host = Host(Path(folder))
        try:
            yield host
        finally:
            host.close()
