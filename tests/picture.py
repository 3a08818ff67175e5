"""
Make the picture of the status page that the README shows: `make picture`, some three minutes.

    python -m tests.picture FILE [--dark] [--phone]

Nothing in it is drawn by hand: the real daemon watches the demo's server for a day and the GPUs
of the seeds' bench, 480 times as fast; after 23 hours the server is relaunched with a broken
drafter, and Chromium takes the picture of what the daemon's page says.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench_tree import seeds_bench
from tests.browser import browser
from tests.png import shrunk
from watchdog.clock import Clock
from watchdog.daemon import Daemon
from watchdog.demo.server import SimulatedServer
from watchdog.demo.simulation import BROKEN, Counters, Drafter, Life
from watchdog.domain.alert import State
from watchdog.settings import Settings

SPEED = 480.0
HOUR = 3600.0
HEALTHY = Drafter((0.86, 0.66, 0.48, 0.34, 0.22, 0.15, 0.09), 7.0)

SLOTS = {
    "0000:00:02.0": {"generation": 3, "width": 16},
    "0000:00:03.0": {"generation": 3, "width": 8, "note": "bifurcated"},
    "0000:80:02.0": {"generation": 3, "width": 16},
    "0000:80:03.0": {"generation": 3, "width": 16},
}

WAVES = ((0.06, 5.1 * HOUR), (0.04, 1.7 * HOUR), (0.03, 0.6 * HOUR))
"""Share by which acceptance comes and goes with what users ask, and seconds of each wave."""


@dataclass(frozen=True)
class Lively(Life):
    """A life whose users do not always ask the same."""

    def counters(self, now: float) -> Counters:
        told = super().counters(now)
        served = max(1.0, now - self.ready)
        mean = 1 + sum(
            share * period / math.tau * (1 - math.cos(math.tau * served / period)) / served
            for share, period in WAVES
        )
        accepted = tuple(math.floor(n * mean) for n in told.accepted_at)
        return told._replace(accepted_at=accepted)


@contextmanager
def watched(url: str, sys: Path, clock: Clock) -> Iterator[Daemon]:
    """Run the real daemon in a thread."""
    settings = Settings.model_validate(
        {
            "host": "gpu-1",
            "interval": "1m",
            "targets": [{"url": url, "name": "qwen", "expect": {"acceptance_length": 3.0}}],
            "gpus": {"sysfs": str(sys), "slots": SLOTS},
            "server": {"listen": "127.0.0.1:0"},
        }
    )
    daemon = Daemon(settings, lambda: settings, clock)
    thread = threading.Thread(target=daemon.run, name="daemon", daemon=True)
    thread.start()
    try:
        until(lambda: daemon.board.report is not None, 30)
        yield daemon
    finally:
        daemon.stop()
        thread.join(30)


def until(holds: Callable[[], bool], seconds: float) -> None:
    """Poll until a condition is true."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"did not happen within {seconds:g} s")
        time.sleep(0.02)


def fires(daemon: Daemon) -> bool:
    """Whether the newest report has the alert."""
    report = daemon.board.report
    return report is not None and any(
        a.finding.alertname == "SpecDecodeCollapsed" and a.state is State.FIRING
        for a in report.alerts
    )


def main() -> None:
    """Live through the day and take the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--hours", type=float, default=23.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["STATE_DIRECTORY"] = str(Path(folder, "state"))
        bench = seeds_bench(Path(folder, "sys"))
        for card in bench.cards:
            card.busy(97)
        clock = Clock(SPEED)
        with closing(SimulatedServer(clock)) as server:
            began = clock.now()
            server.serve(Lively(began - 2 * HOUR, began - 2 * HOUR, HEALTHY))
            with watched(server.url, bench.root, clock) as daemon:
                until(lambda: clock.now() - began > asked.hours * HOUR, 600)
                server.stop()
                clock.sleep(240)
                server.serve(Lively(clock.now() - 200, clock.now(), BROKEN))
                until(lambda: fires(daemon), 60)
                clock.sleep(0.7 * HOUR)
                take(f"http://127.0.0.1:{daemon.server.port}/", asked.file)


def take(url: str, file: Path) -> None:
    """Save the page down to its last section but the probes, in light; dark and small beside it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = {"": (1040, False)}
    if "KEEP" in os.environ:
        beside |= {"-dark": (1040, True), "-phone": (360, False), "-phone-dark": (360, True)}
    with browser() as chromium:
        for suffix, (width, dark) in beside.items():
            with chromium.tab(url, width, dark=dark) as tab:
                end = tab.run("document.getElementById('probes').getBoundingClientRect().top")
                picture = file.with_stem(file.stem + suffix)
                tab.picture(picture, height=end)
                picture.write_bytes(shrunk(picture.read_bytes()))
                assert tab.complaints == []


if __name__ == "__main__":
    main()
