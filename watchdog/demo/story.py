"""The story: healthy, relaunched with a broken drafter, healed; the real daemon watches."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TextIO

from watchdog import __version__
from watchdog.clock import Clock
from watchdog.daemon import Daemon
from watchdog.demo import words
from watchdog.demo.narrator import Narrator, show_alert_log
from watchdog.demo.server import SimulatedServer
from watchdog.demo.simulation import BROKEN, HEALTHY, Drafter, Life
from watchdog.domain.alert import Alert
from watchdog.domain.report import Report
from watchdog.settings import Settings

SPEED: Final = 5.0
"""A minute of ours holds five: a round every 3 s, which leaves time to read."""

START: Final = 15.0
BEFORE_STOP: Final = 8.0
"""After a round, so that the next one finds the port closed."""

FIRES_WITHIN: Final = 180.0
RESOLVES_WITHIN: Final = 240.0
FAILED: Final = 3
INTERRUPTED: Final = 130
POLL: Final = 0.02
"""Real seconds between two looks at the daemon's newest report."""


class StoryError(Exception):
    """What the story promised did not happen; the text says what."""


def run(speed: float = SPEED, out: TextIO | None = None) -> int:
    """Tell the story. 0, or 3 where the alert did not fire or resolve in time."""
    began = time.monotonic()
    clock = Clock(speed)
    narrator = Narrator(clock, out or sys.stdout)
    show_alert_log(narrator)
    try:
        with _server(clock) as (server, life), _daemon(server.url, clock) as daemon:
            narrator.paragraphs(
                words.introduction(__version__, server.url, daemon.server.port, speed)
            )
            narrator.say("server", words.running(life))
            narrator.say("users", words.users(life, clock.now()))
            fired_after, resolved_after = Story(clock, narrator, server, daemon).tell()
    except StoryError as failure:
        narrator.paragraphs(["", f"serving-watchdog demo: FAILED: {failure}"])
        return FAILED
    except KeyboardInterrupt:
        narrator.paragraphs(["", "serving-watchdog demo: stopped before its end"])
        return INTERRUPTED
    took = time.monotonic() - began
    narrator.paragraphs(words.end(fired_after, resolved_after, took))
    return 0


@contextmanager
def _server(clock: Clock) -> Iterator[tuple[SimulatedServer, Life]]:
    """Have a healthy server that has run for ten minutes."""
    server = SimulatedServer(clock)
    try:
        now = clock.now()
        life = Life(now - 700.0, now - 600.0, HEALTHY)
        server.serve(life)
        yield server, life
    finally:
        server.close()


@contextmanager
def _daemon(url: str, clock: Clock) -> Iterator[Daemon]:
    """Run the real daemon in a thread, with the defaults but for its port and its memory."""
    with tempfile.TemporaryDirectory(prefix="serving-watchdog-demo-") as state:
        settings = Settings.model_validate(
            {
                "targets": [{"url": url, "name": "demo"}],
                "server": {"listen": "127.0.0.1:0"},
                "state_dir": state,
            }
        )
        daemon = Daemon(settings, lambda: settings, clock)
        thread = threading.Thread(target=daemon.run, name="daemon", daemon=True)
        thread.start()
        try:
            while not daemon.server.port:
                if not thread.is_alive():
                    raise StoryError("the daemon did not start; its log above says why")
                time.sleep(POLL)
            yield daemon
        finally:
            daemon.stop()
            thread.join(20.0)


@dataclass
class Story:
    """Three phases; each is told by what the daemon's reports say."""

    clock: Clock
    narrator: Narrator
    server: SimulatedServer
    daemon: Daemon

    def __post_init__(self) -> None:
        self._newest: Report | None = None
        self._told: set[str] = set()
        self._state = ""
        self._phase = "healthy"
        self._ready = 0.0

    def tell(self) -> tuple[float, float]:
        """Seconds from the broken server's first answer to the alert, and from healed to end."""
        self._until(60.0)
        self._relaunch(BROKEN, "broken")
        if not self._until(FIRES_WITHIN, lambda: self._state == "firing"):
            raise StoryError(f"the alert did not fire within {FIRES_WITHIN:.0f} s")
        fired_after = self.clock.now() - self._ready
        self._until(30.0)
        self._relaunch(HEALTHY, "healed")
        if not self._until(RESOLVES_WITHIN, lambda: self._state == "resolved"):
            raise StoryError(f"the alert did not resolve within {RESOLVES_WITHIN:.0f} s")
        return fired_after, self.clock.now() - self._ready

    def _relaunch(self, drafter: Drafter, phase: str) -> None:
        """Close the port, and open it with a new process behind it whose counters are at 0."""
        self._until(20.0, self._new_round())
        self._until(BEFORE_STOP)
        self.server.stop()
        self._phase = phase
        self._told.clear()
        self.narrator.say("server", words.STOPPED[phase])
        stopped = self.clock.now()
        self._until(START)
        self._ready = self.clock.now()
        life = Life(stopped, self._ready, drafter)
        self.server.serve(life)
        self.narrator.say("server", words.READY[phase])
        all_back = self._ready + life.traffic.ramp
        self.narrator.say("users", f"come back within {life.traffic.ramp:.0f} s, and "
                          f"{words.users(life, all_back)}")  # fmt: skip
        self.narrator.explain(words.USERS_SEE[phase])

    def _new_round(self) -> Callable[[], bool]:
        before = self._newest
        return lambda: self._newest is not before

    def _until(self, seconds: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Tell every report of these seconds; True as soon as `done`."""
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            report = self.daemon.board.report
            if report is not None and report is not self._newest:
                self._newest = report
                self._report(report)
            if done():
                return True
            time.sleep(POLL)
        return False

    def _report(self, report: Report) -> None:
        alert = words.collapsed(report.alerts)
        state = alert.state.value if alert else ""
        changed, self._state = state != self._state, state
        said = words.spoken(report)
        new = said.kind not in self._told
        self._told.add(said.kind)
        told = said.short if changed or not new else said.long
        where = said.alert if not changed and (not new or said.kind == "OK") else ""
        self.narrator.say("watchdog", told + where, report.now)
        meaning = words.MEANINGS.get((self._phase, said.kind)) if new else None
        if meaning:
            self.narrator.explain(meaning)
        if alert is not None and changed:
            self._tell_alert(alert, report.now)

    def _tell_alert(self, alert: Alert, at: float) -> None:
        self.narrator.say("ALERT", words.alert_line(alert), at)
        for label, text in words.argued(alert):
            self.narrator.add(text, label)
        self.narrator.explain(words.ALERT_MEANS[alert.state.value])
