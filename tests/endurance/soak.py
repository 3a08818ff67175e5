"""
A soak: simulated days of a fast clock with all that happens in a daemon's life, and samples.

Traffic, faults, restarts, models that are renamed, targets that come and go, webhooks that fail
for hours, an Alertmanager that answers badly, alerts posted by it, people and Prometheus who look
at the port, reloads, pauses. What is sampled is the daemon's process, as the kernel counts it.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.bench_tree import r9700
from tests.endurance.forked import Nursery
from tests.endurance.house import House
from tests.endurance.places import DEAD, HEALTHY, Asked, Engineered, Manners, Place

HOUR = 3600.0
LOOKS = 24
"""Looks at threads and descriptors for one sample; the least counts: what never comes back."""


class Sample(NamedTuple):
    """`hours` of their time; memory and files in MB."""

    hours: float
    rounds: int
    rss: float
    threads: int
    descriptors: int
    database: float
    waiting: int


class Moody(Place):
    """Stands for an Alertmanager: takes, refuses, drops and dawdles, as luck has it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        super().__init__()

    def answer(self, _asked: Asked) -> tuple[int, bytes] | None:
        luck = self.chance.random()
        if luck < 0.02:
            return None
        if luck < 0.04:
            time.sleep(0.3)
        return (500 if luck > 0.97 else 429 if luck > 0.95 else 400 if luck > 0.93 else 200), b"x"


@dataclass
class Soak:
    """`days` of their time, `speed` times as fast as ours; a sample each `every` hours."""

    folder: Path
    days: float = 3.0
    seed: int = 1
    speed: float = 430.0
    every: float = 2.0
    nursery: Nursery | None = None
    told: Callable[[Sample], None] = lambda _: None
    happened: dict[str, int] = field(default_factory=dict)
    failed: int = 0  # looks at the port without an answer

    def run(self) -> list[Sample]:
        """Live through it, and return the samples."""
        self.chance = random.Random(self.seed)
        self._over = threading.Event()
        samples: list[Sample] = []
        with ExitStack() as stack:
            self._set_up(stack)
            self.house.running()
            began = time.monotonic()
            for work in (self._live, self._poll, self._poll, self._dribble):
                thread = threading.Thread(target=work, daemon=True)
                thread.start()
                stack.callback(thread.join)
            stack.callback(self._over.set)
            due = self.every
            while due <= self.days * 24 + 0.01:
                time.sleep(max(0.0, began + due * HOUR / self.speed - time.monotonic()))
                samples.append(self._sample((time.monotonic() - began) * self.speed / HOUR))
                self.told(samples[-1])
                due += self.every
            assert not self.house.ended()
        return samples

    def _set_up(self, stack: ExitStack) -> None:
        self.alertmanager = Moody(random.Random(self.seed + 1))
        stack.callback(self.alertmanager.close)
        self.house = stack.enter_context(
            House(
                self.folder, ["a", "b", "c", "d", "away"], ["hook-0", "hook-1"], self.speed,
                alerting={"alertmanagers": [{"url": self.alertmanager.url}], "heartbeat": True,
                          "textfile": str(self.folder / "watchdog.prom")},
                nursery=self.nursery, interval="15s",
            )
        )  # fmt: skip
        self.card = r9700(self.house.bench, "0000:00:02.0 8086:6f04", 0x03, numa=0)
        self.house.write()

    # What happens

    def _live(self) -> None:
        """Let something happen every few minutes of their time."""
        events = [self._fault, self._fault, self._fault, self._restart, self._rename, self._roam,
                  self._reload, self._pause, self._hook, self._link, self._received]  # fmt: skip
        while not self._over.wait(self.chance.uniform(60, 600) / self.speed):
            event = self.chance.choice(events)
            event()
            self.happened[event.__name__[1:]] = self.happened.get(event.__name__[1:], 0) + 1

    def _target(self) -> Engineered:
        return self.house.targets[self.chance.choice("abcd")]

    def _fault(self) -> None:
        """Make one target bad in some way, or all well again."""
        target = self._target()
        kind = self.chance.choice(("dead", "down", "stalled", "garbled", "idle", "well", "well"))
        target.drafter = DEAD if kind == "dead" else HEALTHY
        target.stalled, target.garbled = kind == "stalled", kind == "garbled"
        target.busy = 0.0 if kind == "idle" else self.chance.uniform(0.1, 1.0)
        (target.down if kind == "down" else target.up)()

    def _restart(self) -> None:
        self._target().restart()

    def _rename(self) -> None:
        """Serve another model: another subject, and one that goes for good."""
        self._target().model = f"model-{self.chance.randrange(10**6)}"

    def _roam(self) -> None:
        """Lose a target, or find it again."""
        self.house.away ^= {"away"}
        self.house.reload()

    def _reload(self) -> None:
        self.house.reload()

    def _pause(self) -> None:
        verb = self.chance.choice(("pause", "resume"))
        body = {"seconds": self.chance.uniform(600, 7200)} if verb == "pause" else {}
        self.house.post(verb, target=self._target().name, **body)

    def _hook(self) -> None:
        """Have one webhook fail for a while; the other one goes on."""
        taker = self.house.takers["hook-1"]
        taker.manners = Manners(refuses=self.chance.choice((0.0, 0.0, 0.3, 1.0)), drops=0.05)
        for each in self.house.takers.values():
            each.taken.clear()  # what arrived is judged by the crash test

    def _link(self) -> None:
        self.card.trained(self.chance.choice((1, 3, 3)), 16)

    def _received(self) -> None:
        """Post alerts as Alertmanager does, always other ones."""
        marks = [f"{self.chance.getrandbits(64):016x}" for _ in range(self.chance.randrange(1, 20))]
        self._ask("/webhook/alertmanager", json.dumps({
            "version": "4", "groupKey": marks[0], "status": "firing", "receiver": "us",
            "groupLabels": {}, "commonLabels": {}, "commonAnnotations": {}, "truncatedAlerts": 0,
            "externalURL": "http://am:9093", "alerts": [
                {"status": self.chance.choice(("firing", "resolved")), "fingerprint": mark,
                 "labels": {"alertname": f"Theirs{mark[:2]}", "host": "gpu-1"}, "annotations": {},
                 "startsAt": "2026-11-30T03:12:16Z", "endsAt": "0001-01-01T00:00:00Z"}
                for mark in marks
            ],
        }).encode())  # fmt: skip

    # Who looks

    def _poll(self) -> None:
        """Look at all pages, as browsers and Prometheus do."""
        pages = ("/", "/metrics", "/api/v1/report", "/-/healthy", "/no-such-page")
        for path in itertools.cycle(pages):
            if self._over.wait(0.2):
                return
            if not self._ask(path) and path != "/no-such-page":
                self.failed += 1

    def _ask(self, path: str, body: bytes | None = None) -> bool:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.house.port}{path}", body, {"Content-Type": "application/json"}
        )
        with suppress(OSError), urllib.request.urlopen(request, timeout=5) as page:
            page.read()
            return True
        return False

    def _dribble(self) -> None:
        """Connect, ask for half, and go away without a word."""
        while not self._over.wait(0.5):
            with suppress(OSError), socket.socket() as client:
                client.settimeout(2)
                client.connect(("127.0.0.1", self.house.port))
                client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX")
                self._over.wait(0.2)

    # What is sampled

    def _sample(self, hours: float) -> Sample:
        status = Path(f"/proc/{self.house.pid}/status")
        looks = []
        for _ in range(LOOKS):
            told = dict(
                line.split(":", 1) for line in status.read_text().splitlines() if ":" in line
            )
            open_now = len(os.listdir(f"/proc/{self.house.pid}/fd"))  # noqa: PTH208
            looks.append((int(told["VmRSS"].split()[0]), int(told["Threads"]), open_now))
            time.sleep(0.02)
        rss, threads, descriptors = (min(column) for column in zip(*looks, strict=True))
        files = sum(path.stat().st_size for path in self.house.state.glob("state.db*"))
        waiting = self.house.metric("watchdog_notices_waiting") or 0
        return Sample(
            hours, int(self.house.rounds()), rss / 1024, threads, descriptors, files / 2**20,
            int(waiting),
        )  # fmt: skip


def slope(samples: list[Sample]) -> float:
    """Memory that is added in a day, MB: the slope of the least squares through the samples."""
    days = [sample.hours / 24 for sample in samples]
    mean, level = sum(days) / len(days), sum(s.rss for s in samples) / len(samples)
    over = sum((day - mean) * (s.rss - level) for day, s in zip(days, samples, strict=True))
    return over / sum((day - mean) ** 2 for day in days)


def table(samples: list[Sample]) -> list[str]:
    """Write samples as lines for people."""
    lines = ["  hour  rounds  RSS MB  threads  descriptors  database MB  notices waiting"]
    return lines + [
        f"{s.hours:6.1f}  {s.rounds:6}  {s.rss:6.1f}  {s.threads:7}  {s.descriptors:11}  "
        f"{s.database:11.2f}  {s.waiting:15}"
        for s in samples
    ]
