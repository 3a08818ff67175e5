"""
Programs under the tests' control, and how to wait for them.

Everything listens on the loopback interface alone, ends with the block that started it, and waits
under a deadline: a program that hangs fails its test and never the whole run.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import requests

HOST: Final = "127.0.0.1"
GOING_DOWN: Final = 60.0
JSON = dict[str, Any]
T = TypeVar("T")


def say(line: str) -> None:
    """Print at once: a run takes minutes, and whoever waits wants to see where it is."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)  # noqa: T201


def free_port() -> int:
    """Name a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def get(url: str) -> requests.Response:
    """GET a loopback page without a proxy; 30 s cover a server whose cores are all busy."""
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, timeout=30)


def eventually(question: Callable[[], T | None], within: float, what: str, every: float = 1.0) -> T:
    """Ask until there is an answer; after `within` seconds fail, saying `what` never came."""
    deadline = time.monotonic() + within
    while True:
        try:
            answer, reason = question(), ""
        except requests.RequestException as error:
            answer, reason = None, f" (last: {error})"
        if answer is not None:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {within:.0f} s{reason}")
        time.sleep(every)


@dataclass
class Program:
    """A process of ours in a session of its own, its output in a file."""

    process: subprocess.Popen[bytes]
    log: Path

    def tail(self, lines: int = 30) -> str:
        """Return the end of its output: what a failed start is explained by."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def must_live(self) -> None:
        """Fail at once, with its last words, where it has ended."""
        if (code := self.process.poll()) is not None:
            raise AssertionError(
                f"{self.log.name} ended with {code}; its last lines:\n{self.tail()}"
            )

    def stop(self) -> int:
        """Ask it to end, as systemd does; kill what is left of its session after a minute."""
        self.process.terminate()
        try:
            return self.process.wait(GOING_DOWN)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(GOING_DOWN)
            raise AssertionError(
                f"{self.log.name} ignored SIGTERM; its last lines:\n{self.tail()}"
            ) from None


@contextmanager
def running(
    command: Sequence[str], log: Path, env: Mapping[str, str] | None = None
) -> Iterator[Program]:
    """Run a command in the background for as long as the block lasts."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
    program = Program(process, log)
    try:
        yield program
    finally:
        try:
            if process.poll() is None:
                program.stop()
        finally:
            with suppress(ProcessLookupError):  # children that outlived it, where it crashed
                os.killpg(process.pid, signal.SIGKILL)
