"""
Daemons that start at once: a process that has imported everything forks one when asked.

Each is a process of its own that runs the real `Daemon` and dies of a real SIGKILL. What is
shared is the work of importing, a second each on a small machine.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from watchdog import logs, store
from watchdog.clock import Clock
from watchdog.config import load
from watchdog.daemon import Daemon
from watchdog.errors import WatchdogError
from watchdog.store import RETRY

ROOT = Path(__file__).parents[2]


class Nursery:
    """The process that forks; `env` is added to the daemons' environment."""

    def __init__(self, **env: str) -> None:
        self._alive: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.endurance.forked"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, **env},
        )  # fmt: skip

    def start(self, config: Path, log: Path, speed: float = 1.0, retry: float = RETRY) -> int:
        """
        Start a daemon that logs to the end of `log`; its process id.

        `retry`: real seconds after which it tries a store again that could not be used.
        """
        pid = self._ask(config=str(config), log=str(log), speed=speed, retry=retry)
        self._alive.add(pid)
        return pid

    def kill(self, pid: int, number: int = signal.SIGKILL) -> int:
        """Send a signal and wait for the end; the exit code, negative where a signal ended it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        return self.reap(pid)

    def reap(self, pid: int) -> int:
        """Wait for a daemon's end; its exit code."""
        code = self._ask(reap=pid)
        self._alive.discard(pid)
        return code

    def ended(self, pid: int) -> bool:
        """Whether it runs no more; a zombie waits to be reaped."""
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
        return state in "ZX"

    def close(self) -> None:
        """End every daemon that is left, and the process."""
        for pid in list(self._alive):
            self.kill(pid)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, **what: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def main() -> None:
    """Fork and reap as standard input asks, a line of JSON each."""
    gc.freeze()
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        if "reap" in asked:
            _, status = os.waitpid(asked["reap"], 0)
            _answer(os.waitstatus_to_exitcode(status))
            continue
        pid = os.fork()
        if pid == 0:
            store.RETRY = asked["retry"]  # type: ignore[misc]
            _be_a_daemon(Path(asked["log"]), Path(asked["config"]), asked["speed"])
        _answer(pid)


def _answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _be_a_daemon(log: Path, config: Path, speed: float) -> None:
    code = 70
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        told = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for descriptor, to in ((nothing, 0), (nothing, 1), (told, 2)):
            os.dup2(descriptor, to)
        logs.configure("plain")
        code = Daemon(load(config), lambda: load(config), Clock(speed=speed)).run()
    except WatchdogError as error:
        code = 3
        sys.stderr.write(f"serving-watchdog: {error}\n")
    except BaseException:  # noqa: BLE001  whatever it is: this process must not go on forking
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
