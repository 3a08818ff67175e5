"""What is put on trial: every life and every fault, with its seeds, as units of work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from bench.detection.cases import (
    YEAR,
    Case,
    after_history,
    jittered,
    live,
    live_by_promql,
    splice,
    splice_by_promql,
)
from bench.detection.life import Setting
from bench.detection.trial import DAY, DECLARED

NORMAL: Final[Mapping[str, Setting]] = {name: Setting(name) for name in ("idle", "medium", "busy")}

HOUR: Final = 3600.0

LIMITS: Final = {"idle": 3 * DAY, "medium": 12 * HOUR, "busy": 4 * HOUR}
"""Seconds within which a dead drafter has to be found."""


class LifeUnit(NamedTuple):
    """One life of so many days."""

    name: str
    role: str
    setting: Setting
    seed: int
    days: int = YEAR
    expect: Mapping[str, Any] = DECLARED

    @property
    def key(self) -> str:
        """Its own name among all units."""
        return f"life-{self.name}-{self.setting.profile}-{self.seed}-{self.days}d"

    def work(self) -> Any:
        """Do it."""
        return live(self.setting, self.seed, self.days, self.expect)


class SpliceUnit(NamedTuple):
    """Some faults of one kind, each in its own short life: those numbered `first` to `last`."""

    name: str
    setting: Setting
    case: Case
    first: int
    last: int
    seed: int = 950

    @property
    def key(self) -> str:
        """Its own name among all units."""
        return f"fault-{self.name}-{self.setting.profile}-{self.seed}-{self.first}-{self.last}"

    def work(self) -> Any:
        """Do it."""
        numbers = range(self.first, self.last)
        return {self.name: [splice(self.setting, self.seed, self.case, n) for n in numbers]}


class PromqlLifeUnit(NamedTuple):
    """The same life by the written rules."""

    life: LifeUnit

    @property
    def key(self) -> str:
        """Its own name among all units."""
        return f"promql-{self.life.key}"

    def work(self) -> Any:
        """Do it."""
        return live_by_promql(self.life.setting, self.life.seed, self.life.days)


class PromqlSpliceUnit(NamedTuple):
    """The same faults by the written rules."""

    faults: SpliceUnit

    @property
    def key(self) -> str:
        """Its own name among all units."""
        return f"promql-{self.faults.key}"

    def work(self) -> Any:
        """Do it."""
        of, numbers = self.faults, range(self.faults.first, self.faults.last)
        return {of.name: [splice_by_promql(of.setting, of.seed, of.case, n) for n in numbers]}


class HistoryUnit(NamedTuple):
    """Every kind of degradation at some moments of one life that was long watched."""

    setting: Setting
    seed: int
    cases: Mapping[str, Case]
    times: int
    days: int = 35

    @property
    def key(self) -> str:
        """Its own name among all units."""
        return f"degrade-{self.setting.profile}-{self.seed}-{self.days}d-{self.times}"

    def work(self) -> Any:
        """Do it."""
        return after_history(self.setting, self.seed, self.cases, self.days, self.times)


Unit = LifeUnit | PromqlLifeUnit | SpliceUnit | PromqlSpliceUnit | HistoryUnit


def lives(part: float = 1.0) -> Iterator[LifeUnit]:
    """Every life; `part` of the year that each would be, and of a quick slice the first alone."""
    days = round(YEAR * part)
    quick = part < 1
    held_out = {"idle": range(71, 99), "medium": range(171, 172), "busy": range(271, 272)}
    choosing = {"idle": range(1, 2)}
    yield from _normal("held out", held_out, days)
    stress: tuple[tuple[str, Mapping[str, float], Mapping[str, Sequence[int]]], ...] = (
        ("sd .9", {"sd": 0.9}, {"idle": range(63, 73), "medium": (136,), "busy": (236,)}),
        ("odd x4", {"odd_per_year": 24}, {"idle": range(51, 54)}),
    )
    for name, change, by_profile in stress:
        for profile, several in by_profile.items():
            for seed in several[:1] if quick else several:
                yield LifeUnit(name, "stress", replace(NORMAL[profile], **change), seed, days)
    for seed in (99,):
        yield LifeUnit("nothing declared", "held out", NORMAL["idle"], seed, days, {})
    for jitter in (0.0, 0.15, 0.4):
        pool = jittered(NORMAL["idle"], 8, jitter)
        yield LifeUnit(f"8 engines, jitter {jitter:g}", "stress", pool, 40, max(3, days // 12))
    if not quick:
        pool = jittered(NORMAL["idle"], 8, 0.15)
        yield LifeUnit("8 engines, jitter 0.15", "held out", pool, 41, days)
    yield from _normal("choosing", choosing, days)


def _normal(role: str, by_profile: Mapping[str, range], days: int) -> Iterator[LifeUnit]:
    for profile, several in by_profile.items():
        for seed in several[:1] if days < YEAR else several:
            yield LifeUnit("normal", role, NORMAL[profile], seed, days)


DEAD: Final[Mapping[str, tuple[Case, Mapping[str, int]]]] = {
    "incident": (Case("incident"), {"idle": 100, "medium": 50, "busy": 40}),
    "incident, left alone": (Case("incident", left=True), {"idle": 6, "medium": 3, "busy": 2}),
    "incident, greedy text": (Case("incident_greedy"), {"idle": 40, "medium": 10, "busy": 10}),
    "zero acceptance": (Case("zero"), {"idle": 40, "medium": 10, "busy": 10}),
    "mild": (Case("mild"), {"idle": 40, "medium": 10, "busy": 10}),
    "acceptance length 1.20": (Case("twilight"), {"idle": 10, "medium": 5, "busy": 5}),
    "drafting stops": (Case("stop"), {"idle": 50, "medium": 10, "busy": 20}),
}
"""Kinds that need no baseline, and how many of each befall which profile."""

_WEEK: Final = 7 * DAY

DEGRADED: Final[Mapping[str, Case]] = {
    **{f"degrade {x} %": Case("degrade", x / 100, _WEEK) for x in (10, 20, 30, 45)},
    "deep 30 %": Case("deep", 0.30, _WEEK),
    **{
        f"degrade {x} % at a restart": Case("degrade", x / 100, _WEEK, restarts=True)
        for x in (10, 20, 30)
    },
    "deep 30 % at a restart": Case("deep", 0.30, _WEEK, restarts=True),
    "incident of a day, baseline known": Case("incident", limit=DAY, left=True),
}
"""Kinds that are held against what was learned."""

ENGINE: Final[Mapping[str, tuple[Case, int]]] = {
    "one engine of 8: incident": (Case("incident", engine=3), 10),
    "one engine of 8: degrade 30 %": (Case("degrade", 0.30, _WEEK, engine=3), 6),
    "one engine of 8: degrade 20 %": (Case("degrade", 0.20, _WEEK, engine=3), 6),
}
"""Kinds that befall one engine of eight, and how many."""


def faults(part: float = 1.0) -> Iterator[SpliceUnit | HistoryUnit]:
    """Every fault, in units of some minutes; `part` of each number."""
    for name, (case, numbers) in DEAD.items():
        for profile, number in numbers.items():
            own = case._replace(limit=LIMITS[profile])
            step = {"idle": 20, "medium": 20, "busy": 15}[profile]
            yield from _split(name, NORMAL[profile], own, max(1, round(number * part)), step)
    histories = {"idle": range(5011, 5017), "medium": range(5101, 5102)}
    for profile, seeds in histories.items():
        for seed in seeds[:1] if part < 1 else seeds:
            times = 12 if part == 1 else 1
            yield HistoryUnit(NORMAL[profile], seed, DEGRADED, times)
    for profile in ("idle",):
        pool = jittered(NORMAL[profile], 8, 0.15)
        for name, (case, number) in ENGINE.items():
            yield from _split(name, pool, case, max(1, round(number * part)), 2)


def _split(name: str, setting: Setting, case: Case, number: int, step: int) -> Iterator[SpliceUnit]:
    for first in range(0, number, step):
        yield SpliceUnit(name, setting, case, first, min(number, first + step))


def everything(part: float = 1.0) -> Iterator[Unit]:
    """Every unit: faults, lives, and the same by the rules that people write in PromQL."""
    for fault in faults(part):
        yield fault
        if isinstance(fault, SpliceUnit) and fault.name in BY_PROMQL and fault.case.engine is None:
            yield PromqlSpliceUnit(fault)
    for life in lives(part):
        yield life
        if life.setting.engines == 1 and life.expect:
            yield PromqlLifeUnit(life)


BY_PROMQL: Final = ("incident", "zero acceptance", "mild")
"""Faults that the written rules are tried on as well."""
