"""
The shipped checks on trial: one endpoint's life, or one fault in it, and what alerts when.

Every round goes through `Assessor.assess`, as in the daemon, with the readings of the vllm
page alone: no launch probe, no GPUs. What is found is what the alert book says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import islice
from math import ceil, inf
from typing import Any, Final, NamedTuple

from bench.detection.faults import Fault
from bench.detection.feed import TARGET, Feed
from bench.detection.life import Day, Life, Setting
from watchdog.build import GAP, assessor_of
from watchdog.domain.alert import Change, State
from watchdog.domain.assess import Assessor
from watchdog.domain.finding import Finding
from watchdog.domain.memory import recall, rows_of
from watchdog.domain.sample import Reading
from watchdog.settings import Settings

DAY: Final = 86_400.0

START: Final = 1_767_571_200.0
"""When a life begins, as the checks are told: a Monday at midnight, in Unix seconds."""

DOWN: Final = 60.0
"""Seconds that a restart takes which comes with a fault."""

DECLARED: Final[Mapping[str, Any]] = {"method": "dflash", "depth": 7}
"""What a careful user declares of the drafter; how well it drafts is not among it."""

ABOUT_DRAFTS: Final = "SpecDecode"
"""How alertnames begin that speak of the drafter; others of a life speak of restarts and gaps."""


class Episode(NamedTuple):
    """One alert from firing to resolved (None while it fires), in seconds of the life."""

    detector: str
    engine: str
    fired: float
    resolved: float | None = None

    @property
    def alertname(self) -> str:
        """Its alert, whichever rule raised it."""
        return self.detector.partition("/")[0]

    def is_open(self, alertname: str, engine: str) -> bool:
        """Whether this alert of this engine fires still."""
        return self.resolved is None and (self.alertname, self.engine) == (alertname, engine)


RESTART: Final = "restart"
"""A kind of fault of our own: the server restarts at its begin, and is down for DOWN seconds."""


def detector_of(finding: Finding) -> str:
    """Name who raised an alert: its alertname; a degradation has the rule behind a slash."""
    if finding.alertname != "SpecDecodeDegraded":
        return finding.alertname
    rule = finding.check
    if rule == "baseline":
        rule = str(finding.argument.evidence.get("rule", rule))
    return f"{finding.alertname}/{rule}"


def watcher(setting: Setting, expect: Mapping[str, Any] = DECLARED) -> Assessor:
    """Make the daemon's own assessor of one target that declares `expect`."""
    settings = Settings.model_validate(
        {
            "host": "trial",
            "interval": f"{setting.interval:g}s",
            "targets": [{"name": TARGET, "url": "http://192.0.2.1:8000", "expect": dict(expect)}],
        }
    )
    return assessor_of(settings, gap_after=GAP * settings.interval)


def made(life: Life, index: int, faults: Sequence[Fault]) -> Day:
    """Make a day with its faults, restarts among them."""
    day = life.day(index, [fault for fault in faults if fault.kind != RESTART])
    for fault in faults:
        since = fault.begins - index * DAY
        if fault.kind == RESTART and -DOWN <= since < DAY:
            day = _restarted(day, since / life.setting.interval, DOWN / life.setting.interval)
    return day


def _restarted(day: Day, begins: float, lasts: float) -> Day:
    """Let the server restart at a window: nothing grows while it is down, then it begins at 0."""
    windows = len(day.read)
    down, up = slice(max(0, round(begins)), round(begins + lasts)), round(begins + lasts)
    changed: dict[str, Any] = {name: getattr(day, name).copy() for name in day._fields[1:]}
    for name, column in changed.items():
        if name not in ("read", "down", "restarted"):
            column[:, down] = 0
    changed["read"][down], changed["down"][down] = False, True
    if up < windows:
        changed["restarted"][:, up] = True
    return day._replace(**changed)


@dataclass
class Trial:
    """An assessor that watches a life; `episodes` are the alerts that it raised, oldest first."""

    life: Life
    expect: Mapping[str, Any] = field(default_factory=lambda: DECLARED)
    episodes: list[Episode] = field(default_factory=list)
    every: bool = False  # judge every round, also those that cannot say anything new

    def __post_init__(self) -> None:
        self.assessor = watcher(self.life.setting, self.expect)
        self._feed = Feed(self.life.setting, START)
        self._last: Reading | None = None
        self._until = -inf  # until when the page of `_last` needs no judging
        self._dawn = -1, self._feed  # the day that was begun last, and the feed as it was then
        self.at = 0.0

    def play(self, begin: float, end: float, faults: Sequence[Fault] = ()) -> Iterator[float]:
        """
        Judge every round of a while, in seconds of the life, and yield the time of each.

        It may be left at any round. The next while then begins at the time that was yielded, and
        has the same faults but for what is later than that.
        """
        assess, interval = self._assess, self.life.setting.interval
        for index in range(int(begin // DAY), ceil(end / DAY)):
            if self._dawn[0] != index:
                self._dawn = index, copy(self._feed)
            self._feed = copy(self._dawn[1])
            first, last = (round((at - index * DAY) / interval) for at in (begin, end))
            rounds = self._feed.readings(made(self.life, index, faults))
            for now, readings in islice(rounds, max(0, first), max(0, last)):
                changes = assess(readings, now)
                self.at = now - START
                if changes:
                    self._hear(changes, self.at)
                yield self.at

    def _assess(self, readings: list[Reading], now: float) -> Sequence[Change]:
        """
        Judge a round, if it can say anything new.

        It cannot where the page is the very same as the last one, no alert stands, and the checks
        say that time alone changes nothing yet. Most rounds of an idle endpoint are such.
        """
        again = readings[0] is self._last
        watch = self.assessor.watches[TARGET]
        if again and now < self._until:
            watch.history.read_again(now)
            return ()
        changes = self.assessor.assess(readings, now).changes
        self._last, self._until = readings[0], -inf
        if again and not self.every and not self.assessor.book.everything():
            self._until = watch.alike_until()
        return changes

    def to_end(self, begin: float, end: float, faults: Sequence[Fault] = ()) -> None:
        """Judge every round of a while."""
        for _ in self.play(begin, end, faults):
            pass

    def firing(self) -> list[Episode]:
        """Return the alerts that fire now."""
        return [episode for episode in self.episodes if episode.resolved is None]

    def branch(self) -> Trial:
        """Return another watch that knows the same, by the way of a restart without a loss."""
        other = Trial(self.life, self.expect, list(self.episodes))
        now = self.at + START
        kept = {name: json.loads(json.dumps(body)) for name, body in rows_of(self.assessor)}
        faults = recall(kept, other.assessor, now, now)
        if faults:
            raise ValueError(f"what the checks keep cannot be recalled: {'; '.join(faults)}")
        other._feed, other._dawn, other.at = copy(self._feed), self._dawn, self.at
        return other

    def _hear(self, changes: Sequence[Change], at: float) -> None:
        for change in changes:
            finding = change.alert.finding
            name, engine = finding.alertname, dict(finding.subject).get("engine", "")
            if change.alert.state is State.FIRING:
                self.episodes.append(Episode(detector_of(finding), engine, at))
            elif change.was is State.FIRING:
                self.episodes = [
                    e._replace(resolved=at) if e.is_open(name, engine) else e for e in self.episodes
                ]
