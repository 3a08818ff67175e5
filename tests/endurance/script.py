"""
A script of faults over several targets, and what is due by it.

Each actor is a generator: it changes the world, says what alert is due, and yields for how long
the world stays as it is. It yields seconds *that somebody watched*: the script's time stands
still while no daemon reads the pages, and a wait begins anew where nobody looked for as long as
an alert's lingering does. So a script ends in the same changes however often daemons die.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from tests.bench_tree import Card
from tests.endurance.house import House
from tests.endurance.places import DEAD, HEALTHY, Engineered

Wait = float | Callable[[], bool]
Actor = Generator[Wait, None, None]

FORGETS = 50.0
"""Seconds without a round after which a wait begins anew; lingering does after 60."""

LONGEST_ROUND = 15.0
"""Seconds between two readings that count as watched, at most."""


class Due:
    """The changes that are due, of each alert in their order."""

    def __init__(self) -> None:
        self.changes: dict[str, list[str]] = defaultdict(list)

    def begins(self, *alerts: str) -> None:
        for alert in alerts:
            self.changes[alert].append("firing")

    def ends(self, *alerts: str) -> None:
        for alert in alerts:
            self.changes[alert].append("resolved")

    def firing(self) -> set[str]:
        """Alerts that should fire now."""
        return {alert for alert, changes in self.changes.items() if changes[-1] == "firing"}

    def count(self) -> int:
        return sum(map(len, self.changes.values()))


@dataclass
class Stage:
    """
    What actors need: what is due, and the house that they play in.

    `longest` seconds are between two faults; `ends` says whether to begin no more of them.
    """

    due: Due
    chance: random.Random
    longest: float
    ends: Callable[[], bool]
    house: House

    def calm(self) -> float:
        """So long is everything well before the next fault, seconds."""
        return self.chance.uniform(0.2, 1.0) * self.longest


def dying_drafter(stage: Stage, target: Engineered) -> Actor:
    """The drafter dies and heals, again and again, and dies once more at the end."""
    alert = f"SpecDecodeCollapsed {target.name}"
    yield stage.calm()
    while not stage.ends():
        target.drafter = DEAD
        stage.due.begins(alert)
        yield stage.chance.uniform(60, 120)
        target.drafter = HEALTHY
        stage.due.ends(alert)
        yield 110 + stage.calm()
    target.drafter = DEAD
    stage.due.begins(alert)
    yield 60


def falling_server(stage: Stage, target: Engineered) -> Actor:
    """Its port is closed, and open again with the same process behind it; closed at the end."""
    alert = f"ServingDown {target.name}"
    yield stage.calm()
    while not stage.ends():
        target.down()
        stage.due.begins(alert)
        yield stage.chance.uniform(90, 140)
        target.up()
        stage.due.ends(alert)
        yield 110 + stage.calm()
    target.down()
    stage.due.begins(alert)
    yield 100


def stalling_server(stage: Stage, target: Engineered) -> Actor:
    """Requests run and no token comes; then they come."""
    alert = f"ServingStalled {target.name}"
    yield stage.calm()
    while not stage.ends():
        target.stalled = True
        stage.due.begins(alert)
        yield stage.chance.uniform(160, 220)
        target.stalled = False
        stage.due.ends(alert)
        yield 110 + stage.calm()


def garbled_server(stage: Stage, target: Engineered) -> Actor:
    """Something else answers on its port; `WatchdogBlind` has a hold of 5 minutes."""
    alert = f"WatchdogBlind {target.name}"
    yield stage.calm()
    while not stage.ends():
        target.garbled = True
        stage.due.begins(alert)
        yield stage.chance.uniform(380, 430)
        target.garbled = False
        stage.due.ends(alert)
        yield 110 + stage.calm()


def impatient_hold(stage: Stage, target: Engineered) -> Actor:
    """It is garbled for less than the hold: nothing is due, however daemons die."""
    yield stage.calm()
    while not stage.ends():
        target.garbled = True
        ends = time.monotonic() + 200 / target.speed  # of all time: a hold ends while nobody looks
        yield lambda: time.monotonic() > ends  # noqa: B023  asked before it changes
        target.garbled = False
        yield 60 + stage.calm()


def degraded_link(stage: Stage, card: Card) -> Actor:
    """A card's link is trained down to Gen1 and up again; lingers for 5 minutes."""
    alert = f"GpuLinkDegraded {card.slot}"
    yield stage.calm()
    while not stage.ends():
        card.trained(1, 16)
        stage.due.begins(alert)
        yield stage.chance.uniform(40, 90)
        card.trained(3, 16)
        stage.due.ends(alert)
        yield 390 + stage.calm()


def paused_target(stage: Stage, target: Engineered) -> Actor:
    """Its drafter dies, somebody pauses it and resumes it, and it heals."""
    alert = f"SpecDecodeCollapsed {target.name}"
    yield stage.calm()
    while not stage.ends():
        target.drafter = DEAD
        stage.due.begins(alert)
        yield 80
        stage.due.ends(alert)
        yield lambda: stage.house.post("pause", target=target.name, seconds=86400.0)
        yield 60
        stage.due.begins(alert)
        yield lambda: stage.house.post("resume", target=target.name)
        yield 60
        target.drafter = HEALTHY
        stage.due.ends(alert)
        yield 110 + stage.calm()


def roaming_target(stage: Stage, target: Engineered) -> Actor:
    """Its drafter is dead for ever; the configuration loses it and finds it again."""
    alert = f"SpecDecodeCollapsed {target.name}"
    target.drafter = DEAD
    while not stage.ends():
        stage.due.begins(alert)
        yield 110 + stage.calm()
        stage.due.ends(alert)
        stage.house.away.add(target.name)
        stage.house.reload()
        yield 60 + stage.calm()
        stage.house.away.discard(target.name)
        stage.house.reload()
    target.drafter = HEALTHY
    yield 100


@dataclass
class Watched:
    """Seconds that somebody watched, as the readings of one target show; `speed` times real."""

    beacon: Engineered
    speed: float
    seconds: float = 0.0
    spells: int = 0  # times that nobody looked for long
    _at: float = field(default_factory=time.monotonic)

    def look(self) -> None:
        at = self.beacon.asked_at
        if at > self._at:
            gap, self._at = (at - self._at) * self.speed, at
            self.seconds += min(gap, LONGEST_ROUND)
            self.spells += gap > FORGETS


@dataclass
class Play:
    """Plays all actors side by side, until each has ended."""

    actors: dict[str, Actor]
    watched: Watched
    closing: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._play, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        self.closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _play(self) -> None:
        try:
            waits = {name: self._next(actor) for name, actor in self.actors.items()}
            while waits and not self.closing.wait(0.02):
                self.watched.look()
                for name, wait in list(waits.items()):
                    if wait is None:
                        del waits[name]
                    elif self._is_over(wait):
                        waits[name] = self._next(self.actors[name])
        except BaseException as error:  # noqa: BLE001  told by whoever waits for the end
            self.error = error

    def _next(self, actor: Actor) -> list[object] | None:
        wait = next(actor, None)
        return None if wait is None else [wait, self.watched.seconds, self.watched.spells]

    def _is_over(self, wait: list[object]) -> bool:
        what, since, spells = wait
        if callable(what):
            return bool(what())
        if spells != self.watched.spells:
            wait[1:] = [self.watched.seconds, self.watched.spells]
            return False
        return self.watched.seconds - since >= what  # type: ignore[operator]
