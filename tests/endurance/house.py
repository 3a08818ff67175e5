"""A host to watch: targets, receivers and a state directory that outlive the daemons."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench_tree import Bench
from tests.endurance.forked import Nursery
from tests.endurance.places import Engineered, Manners, Taker, about
from tests.sinks.lab import free_port
from watchdog.store import RETRY

HOST = "gpu-1"

UNIT = {"MALLOC_ARENA_MAX": "2"}
"""What systemd/serving-watchdog.service sets in the daemon's environment and matters here."""


@dataclass
class House:
    """
    `speed`: how much faster than real time the daemons' time runs.

    `local` are targets whose processes are looked for on this host, which costs a look at all of
    /proc each; the others have an address that reads as another host's. `alerting` is added to
    that part of the configuration. `nursery` starts the daemons; by default it is its own.
    `retry`: real seconds after which a daemon tries a store again.
    """

    folder: Path
    names: Iterable[str]
    hooks: Iterable[str] = ()
    speed: float = 20.0
    local: Iterable[str] = ()
    alerting: Mapping[str, Any] = field(default_factory=dict)
    nursery: Nursery | None = None
    retry: float = RETRY
    interval: str = "1s"
    state: Path = field(init=False)
    pid: int = 0

    def __post_init__(self) -> None:
        self._stack = ExitStack()
        self.state = self.folder / "state"
        self.bench = Bench(self.folder / "sys")
        self.targets = {name: Engineered(name, self.speed) for name in self.names}
        self.takers = {name: Taker(Manners(), random.Random(1)) for name in self.hooks}
        for place in (*self.targets.values(), *self.takers.values()):
            self._stack.callback(place.close)
        self.away: set[str] = set()
        self.port = free_port()
        self.config = self.folder / "config.yaml"
        self.log = self.folder / "daemon.log"
        self.write()
        self._nursery = self.nursery or self._stack.enter_context(Nursery(**UNIT))
        self._stack.callback(self._end)

    def __enter__(self) -> House:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _end(self) -> None:
        if self.pid:
            self.kill()

    def write(self) -> None:
        """Write the configuration as a whole: a daemon may be reading it."""
        targets = [
            {"name": name, "url": target.url if name in self.local else target.elsewhere}
            for name, target in self.targets.items()
            if name not in self.away
        ]
        slots = {card.address: {"generation": 3, "width": 16} for card in self.bench.cards}
        webhooks = [{"name": name, "url": taker.url} for name, taker in self.takers.items()]
        part = self.config.with_suffix(".part")
        part.write_text(json.dumps({  # JSON is YAML
            "targets": targets, "gpus": {"sysfs": str(self.bench.root), "slots": slots},
            "alerting": {**self.alerting, "webhooks": webhooks},
            "interval": self.interval, "host": HOST,
            "server": {"listen": f"127.0.0.1:{self.port}"}, "state_dir": str(self.state),
        }))  # fmt: skip
        part.replace(self.config)

    # The daemons

    def start(self) -> int:
        """Start a daemon; the former one must have ended."""
        self.pid = self._nursery.start(self.config, self.log, self.speed, self.retry)
        return self.pid

    def running(self) -> None:
        """Start a daemon, and wait until it has had a round."""
        self.start()
        until(lambda: self.get("/-/ready"))

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End the daemon; its exit code."""
        pid, self.pid = self.pid, 0
        return self._nursery.kill(pid, number)

    def ended(self) -> bool:
        """Whether the daemon ended by itself."""
        return self._nursery.ended(self.pid)

    def reaped(self) -> int:
        """Wait until the daemon ends by itself; its exit code."""
        pid, self.pid = self.pid, 0
        return self._nursery.reap(pid)

    def reload(self) -> None:
        """Have the daemon, if one runs, take a new configuration."""
        self.write()
        if pid := self.pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGHUP)

    # What it says

    def says(self, words: str) -> bool:
        return self.log.exists() and words in self.log.read_text(encoding="utf-8")

    def get(self, path: str) -> str:
        """Return a page of its port; empty where it does not answer, or not with 200."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as page:
                return str(page.read().decode())
        except (OSError, ValueError):
            return ""

    def post(self, verb: str, **body: Any) -> bool:
        """Ask it for something; False where it did not say 200."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1/{verb}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, ValueError):
            return False

    def report(self) -> dict[str, Any]:
        """Return its last report; empty where it does not answer."""
        return json.loads(self.get("/api/v1/report") or "{}")  # type: ignore[no-any-return]

    def fires(self) -> set[str]:
        """Return the alerts that fire in its book."""
        return {
            about({"alertname": alert["alertname"], **alert["subject"]})
            for alert in self.report().get("alerts", ())
            if alert["state"] == "firing"
        }

    def metric(self, name: str) -> float | None:
        """Return the value of a series without labels, or of the first one with its labels."""
        for line in self.get("/metrics").splitlines():
            head, _, value = line.rpartition(" ")
            if head == name or head.startswith(f"{name}{{"):
                return float(value)
        return None

    def rounds(self) -> float:
        return self.metric("watchdog_rounds_total") or 0.0


def until(holds: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait for it to be true, and return what it then was."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not true within {seconds} s"
        time.sleep(0.05)
    return found
