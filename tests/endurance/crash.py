"""
The crash test: a daemon is killed again and again while a script of faults goes on.

Targets, receivers and a real Alertmanager outlive every daemon. Afterwards each receiver must
have been told every change that was due by the script, once: repeated under the same key if need
be, never under another one, and in order.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench_tree import r9700
from tests.endurance import script as acts
from tests.endurance.forked import Nursery
from tests.endurance.house import House
from tests.endurance.places import Flapping, Manners, about
from tests.endurance.script import Due, Play, Stage, Watched
from tests.sinks.alertmanagers import SUITES, RealAlertmanager, program
from tests.sinks.lab import Hook
from watchdog.sinks.webhook_worker import MOST_BACKOFF

WAYS = {"in start-up": 2, "at any time": 3, "in a commit": 4, "in a post": 3}
"""When a daemon is killed, and how often that is chosen."""

ACTORS = {
    "dead": acts.dying_drafter,
    "down": acts.falling_server,
    "stall": acts.stalling_server,
    "blind": acts.garbled_server,
    "hold": acts.impatient_hold,
    "pause": acts.paused_target,
    "roam": acts.roaming_target,
}

GRACE = 45.0
"""Real seconds that everything may take to arrive after the last kill, beyond one back-off."""


@dataclass
class Outcome:
    """What came of it; `deviations` is empty where all is right."""

    kills: Counter[str]
    seconds: float
    due: int
    keys: dict[str, int]  # by receiver
    again: dict[str, int]  # told more than once under the same key
    refused: dict[str, int]
    notified: int
    faults: int
    rounds: int
    flaps: int  # ends and new beginnings that Alertmanager saw nothing of
    deviations: list[str]


@dataclass
class Crash:
    """
    `speed`: how much faster than real time the daemons' time runs. `copies` of each of `kinds`
    are played, and `cards` have a link; `calm` is the longest time between two faults, seconds.
    """

    folder: Path
    kills: int = 200
    seed: int = 1
    speed: float = 10.0
    copies: int = 2
    burners: int = 1
    cards: int = 2
    kinds: Sequence[str] = tuple(ACTORS)
    calm: float = 120.0
    nursery: Nursery | None = None
    told: Callable[[str], None] = lambda _: None
    killed: Counter[str] = field(default_factory=Counter)
    own_ends: list[str] = field(default_factory=list)

    def run(self) -> Outcome:
        """Play it, and compare what arrived with what was due."""
        self.chance = random.Random(self.seed)
        self.due = Due()
        began = time.monotonic()
        with ExitStack() as stack:
            self._set_up(stack)
            self.play.start()
            while sum(self.killed.values()) < self.kills:
                self._one_life()
            self.told(f"{sum(self.killed.values())} kills; the script comes to its end")
            self._last_life()
            deviations = self._deviations()
            if (code := self.house.kill(signal.SIGTERM)) != 0:
                deviations.append(f"the last daemon ended with {code}")
            return self._outcome(deviations, time.monotonic() - began)

    # The world

    def _set_up(self, stack: ExitStack) -> None:
        self.hook = Hook()
        stack.callback(self.hook.close)
        (self.folder / "am").mkdir()
        self.alertmanager = stack.enter_context(
            RealAlertmanager(program(SUITES[0]), self.folder / "am", self.hook)
        )
        names = ["beacon", *(f"{kind}-{i}" for i in range(self.copies) for kind in self.kinds)]
        self.house = stack.enter_context(
            House(
                self.folder,
                names,
                ("hook-0", "hook-1"),
                self.speed,
                local=("beacon", "down-0"),
                alerting={"alertmanagers": [{"url": self.alertmanager.url}]},
                nursery=self.nursery,
            )
        )
        self.takers = self.house.takers
        self._misbehave(stack)
        for _ in range(self.burners):
            burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(burner.wait)
            stack.callback(burner.kill)
        self._make_play()
        stack.callback(self.play.stop)

    def _misbehave(self, stack: ExitStack) -> None:
        manners = (Manners(0.15, 0.10, 0.05), Manners(0.05, 0.05, 0.05))
        for i, (taker, mind) in enumerate(zip(self.takers.values(), manners, strict=True)):
            taker.manners, taker.chance = mind, random.Random(self.seed * 100 + i)
        self.flapping = Flapping(self.takers["hook-1"], random.Random(self.seed * 100 + 7))
        stack.callback(self.flapping.end)

    def _make_play(self) -> None:
        house = self.house
        stage = Stage(self.due, self.chance, self.calm, self._is_ending, house)
        actors = {
            f"{kind}-{i}": ACTORS[kind](stage, house.targets[f"{kind}-{i}"])
            for i in range(self.copies)
            for kind in self.kinds
        }
        for i in range(self.cards):
            card = r9700(house.bench, f"0000:00:0{i + 2}.0 8086:6f04", 4 + 4 * i, numa=0)
            card.memory(used=0)
            actors[card.slot] = acts.degraded_link(stage, card)
        house.write()
        self.play = Play(actors, Watched(house.targets["beacon"], self.speed))

    def _is_ending(self) -> bool:
        return sum(self.killed.values()) >= self.kills

    # The daemons

    def _one_life(self) -> None:
        """Start a daemon, kill it, and leave it dead for a moment."""
        self.house.start()
        way = self.chance.choices(list(WAYS), list(WAYS.values()))[0]
        self._await(way)
        early = self.house.ended()
        code = self.house.kill()
        if early and code != -signal.SIGHUP:  # a reload may come before it is listened for
            self.own_ends.append(f"a daemon ended by itself, with {code}")
        self.killed[way] += 1
        if sum(self.killed.values()) % 20 == 0:
            self.told(f"{sum(self.killed.values())} kills, {self.due.count()} changes due")
        long = self.chance.random() < 0.03  # beyond what lingering survives
        time.sleep(
            self.chance.uniform(65, 90) / self.speed if long else self.chance.uniform(0, 0.3)
        )

    def _await(self, way: str) -> None:
        chance = self.chance
        if way == "in start-up":
            time.sleep(chance.uniform(0, 0.5))
        elif way == "at any time":
            time.sleep(chance.uniform(0.3, 3.0))
        elif way == "in a commit":
            time.sleep(chance.uniform(0.3, 2.0))
            self._next_write(time.monotonic() + 2.0)
            time.sleep(chance.uniform(0, 0.004))
        else:
            time.sleep(chance.uniform(0.3, 1.0))
            taker = self.takers[chance.choice(list(self.takers))]
            taker.arrived.clear()
            taker.arrived.wait(3.0)
            time.sleep(chance.uniform(0, 0.01))

    def _next_write(self, deadline: float) -> None:
        """Return in the midst of a transaction: the write-ahead log just grew."""
        log = self.house.state / "state.db-wal"
        before = _written(log)
        while time.monotonic() < deadline and _written(log) == before:
            time.sleep(0.0002)

    def _last_life(self) -> None:
        """Let a daemon live until the script is over and everything has arrived."""
        self.house.start()
        self.flapping.end()
        for taker in self.takers.values():
            taker.manners = Manners()
        self._wait(lambda: self.play.over, 1500 / self.speed + GRACE)
        self._wait(lambda: not self._missing(), MOST_BACKOFF / self.speed + GRACE)
        time.sleep(2.0)  # for what must not come

    def _wait(self, holds: Callable[[], bool], seconds: float) -> None:
        until = time.monotonic() + seconds
        while not holds() and time.monotonic() < until:
            time.sleep(0.1)

    # What arrived

    def _missing(self) -> bool:
        enough = [len(taker.first()) for taker in self.takers.values()]
        return min(enough) < self.due.count() or len(self._notified()) < self.due.count()

    def _notified(self) -> list[tuple[str, str]]:
        told = [alert for body in list(self.hook.bodies) for alert in body["alerts"]]
        return [(about(alert["labels"]), alert["status"]) for alert in told]

    def _deviations(self) -> list[str]:
        found = list(self.own_ends)
        if self.play.error is not None:
            found.append(f"the script failed: {self.play.error!r}")
        if not self.play.over:
            found.append("the script did not come to its end")
        due = dict(self.due.changes)
        keys = {}
        for name, taker in self.takers.items():
            firsts = taker.first()
            keys[name] = {taken.key for taken in firsts}
            came = sequences((taken.about, taken.change) for taken in firsts)
            found += differences(name, due, came)
            bodies = defaultdict(set)
            for taken in taker.taken:
                bodies[taken.key].add(taken.body)
            found += [
                f"{name}: one key, two bodies: {key}" for key, b in bodies.items() if len(b) > 1
            ]
        one, two = keys.values()
        found += [f"a key that only one receiver was told: {key}" for key in one ^ two]
        notified = without_flaps(due, sequences(self._notified()))
        found += differences("Alertmanager's notifications", due, notified)
        active = {about(alert["labels"]) for alert in self.alertmanager.alerts()}
        if active != self.due.firing():
            found.append(
                f"active in Alertmanager: {sorted(active)}, due: {sorted(self.due.firing())}"
            )
        return found + self._book()

    def _book(self) -> list[str]:
        fires = self.house.fires()
        if fires == self.due.firing():
            return []
        return [f"fires in the last daemon: {sorted(fires)}, due: {sorted(self.due.firing())}"]

    def _outcome(self, deviations: list[str], seconds: float) -> Outcome:
        takers = self.takers.items()
        return Outcome(
            self.killed,
            seconds,
            self.due.count(),
            {name: len(taker.first()) for name, taker in takers},
            {name: taker.again() for name, taker in takers},
            {name: taker.refused for name, taker in takers},
            len(self._notified()),
            sum(changes.count("firing") for changes in self.due.changes.values()),
            self.house.targets["beacon"].asked,
            (self.due.count() - len(self._notified())) // 2,
            deviations,
        )


def _written(log: Path) -> tuple[int, int]:
    with suppress(OSError):
        stat = log.stat()
        return stat.st_size, stat.st_mtime_ns
    return 0, 0


def sequences(changes: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Sort changes by alert, in their order."""
    by_alert: dict[str, list[str]] = defaultdict(list)
    for alert, change in changes:
        by_alert[alert].append(change)
    return dict(by_alert)


def without_flaps(due: dict[str, list[str]], came: dict[str, list[str]]) -> dict[str, list[str]]:
    """
    Put in what Alertmanager cannot have seen: an end that a new beginning overtook.

    It is told what fires now, not each change. Where a process is killed between the end and its
    post, and the alert fires again when the next one posts, or both fall into one of its flushes,
    it fires on and notifies nothing. The webhooks are held to every change.
    """
    return {
        alert: due[alert]
        if alert in due and len(told) < len(due[alert]) and told == due[alert][-len(told) :]
        else told
        for alert, told in came.items()
    }


def differences(where: str, due: dict[str, list[str]], came: dict[str, list[str]]) -> list[str]:
    """Say in which alerts what came is not what was due."""
    return [
        f"{where}: {alert}: due {' '.join(due.get(alert, ['nothing']))}; "
        f"came {' '.join(came.get(alert, ['nothing']))}"
        for alert in sorted(due.keys() | came.keys())
        if due.get(alert, []) != came.get(alert, [])
    ]
