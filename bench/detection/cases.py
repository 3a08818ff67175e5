"""What is scored: a healthy life, a fault until it is found and mended, faults after a history."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final, NamedTuple

import numpy as np

from bench.detection.faults import Fault
from bench.detection.life import Life, Setting
from bench.detection.promql import WRITTEN, alerts, counters
from bench.detection.trial import ABOUT_DRAFTS, DAY, DECLARED, RESTART, Episode, Trial, made

HISTORY: Final = 2
"""Whole days that are watched before a fault that needs no baseline."""

SETTLED: Final = 3 * DAY
"""Seconds after the repair in which an alert has to resolve."""

YEAR: Final = 365


class Case(NamedTuple):
    """
    A kind of fault, as `Fault` has it, and how long it lasts.

    `limit` in seconds: a fault that is not found by then is missed. One that is `left` lasts that
    long although it was found. `engine` is the index of the only one that has it.
    `restarts`: it begins with a restart of the server.
    """

    kind: str
    size: float = 0.0
    limit: float = SETTLED
    left: bool = False
    engine: int | None = None
    restarts: bool = False

    def faults(self, begins: float, ends: float = inf) -> tuple[Fault, ...]:
        """Place it in a life."""
        fault = Fault(self.kind, begins, ends, self.engine, self.size)
        if self.restarts:
            return (Fault(RESTART, begins, begins), fault)
        return (fault,)


def live(setting: Setting, seed: int, days: int, expect: Mapping[str, Any] = DECLARED) -> Any:
    """Watch a healthy life; count its alarms, and the seconds that they fired, by detector."""
    began = time.process_time()
    trial = Trial(Life(setting, seed, days), expect)
    trial.to_end(0, days * DAY)
    return {
        "years": days * setting.engines / YEAR,
        "seconds": time.process_time() - began,
        "alarms": alarms(trial.episodes, days * DAY),
    }


def alarms(episodes: Iterable[Episode], end: float) -> dict[str, dict[str, float]]:
    """Count episodes and their seconds, by detector; one that fires still does so until `end`."""
    counted: dict[str, dict[str, float]] = {}
    for episode in episodes:
        to = counted.setdefault(episode.detector, {"episodes": 0, "seconds": 0.0})
        to["episodes"] += 1
        to["seconds"] += (end if episode.resolved is None else episode.resolved) - episode.fired
    return counted


def live_by_promql(setting: Setting, seed: int, days: int) -> Any:
    """The same life as the written rules see it: each rule's alarms, by its text."""
    began = time.process_time()
    life = Life(setting, seed, days)
    seen = counters((life.day(index) for index in range(days)), interval=setting.interval)
    return {
        "seconds": time.process_time() - began,
        "alarms": {
            rule.text: {
                "episodes": len(fired := alerts(rule, seen)),
                "seconds": sum(min(ended, days * DAY) - at for at, ended in fired),
            }
            for rule in WRITTEN
        },
    }


def splice(setting: Setting, seed: int, case: Case, number: int) -> dict[str, Any]:
    """Let one fault befall a life that was watched for two days, at a random time of the third."""
    began = time.process_time()
    trial = Trial(Life(setting, seed, YEAR))
    day, begins = moment(setting, seed, number)
    trial.to_end(day * DAY, begins)
    told = befall(trial, case, begins)
    return {**told, "seconds": time.process_time() - began}


def moment(setting: Setting, seed: int, number: int) -> tuple[int, float]:
    """Draw the day on which a watch begins, and when the fault does, in seconds of the life."""
    random = np.random.RandomState([seed, number])
    day = int(random.randint(0, YEAR - 14))
    return day, (day + HISTORY) * DAY + aligned(DAY * random.uniform(), setting)


def splice_by_promql(
    setting: Setting, seed: int, case: Case, number: int
) -> dict[str, dict[str, Any]]:
    """The same fault, which lasts to its limit, as the written rules see it, by their text."""
    life = Life(setting, seed, YEAR)
    _, begins = moment(setting, seed, number)
    ends = begins + case.limit
    days = range(int(begins // DAY) - 1, int((ends - 1) // DAY) + 1)
    faults = case.faults(begins, ends)
    seen = counters(
        (made(life, index, faults) for index in days),
        interval=setting.interval, begins=days.start * DAY,
    )  # fmt: skip
    told = {}
    for rule in WRITTEN:
        fired = [at for at, _ in alerts(rule, seen) if begins < at <= ends]
        told[rule.text] = {
            "begins": begins,
            "found": bool(fired),
            "rule": rule.text,
            **(_delay(life, case, begins, fired[0]) if fired else {}),
            "raised": [rule.text] * len(fired),
            "resolve_s": None,
        }
    return told


def befall(trial: Trial, case: Case, begins: float) -> dict[str, Any]:
    """Let a fault begin now; mend it once it is found, and wait until its alert has resolved."""
    known = len(trial.episodes)
    found: Episode | None = None
    ends = begins + case.limit
    for at in trial.play(begins, ends, case.faults(begins)):
        if found is None and len(trial.episodes) > known:
            found = next((e for e in trial.episodes[known:] if _is_of(e, case)), None)
            if found is not None and not case.left:
                ends = at
                break
    resolved = None
    if found is not None:
        resolved = _mend(trial, case.faults(begins, ends), ends)
    raised = [e.detector for e in trial.episodes[known:] if e.detector.startswith(ABOUT_DRAFTS)]
    return {
        "begins": begins,
        "found": found is not None,
        "rule": found.detector if found else "",
        **(_delay(trial.life, case, begins, found.fired) if found else {}),
        "raised": raised,
        "resolve_s": None if resolved is None else resolved - ends,
    }


def _mend(trial: Trial, faults: Sequence[Fault], ends: float) -> float | None:
    """Go on without the fault until no alert about drafts fires; None if one stays for long."""
    for at in trial.play(ends, ends + SETTLED, faults):
        if not any(e.detector.startswith(ABOUT_DRAFTS) for e in trial.firing()):
            return at
    return None


def _is_of(episode: Episode, case: Case) -> bool:
    if not episode.detector.startswith(ABOUT_DRAFTS):
        return False
    return case.engine is None or episode.engine == str(case.engine)


def _delay(life: Life, case: Case, begins: float, found: float) -> dict[str, float]:
    """What went by until it was found: seconds, and of the broken engines drafts and so on."""
    spent = dict.fromkeys(("drafts", "updates", "first_tokens"), 0.0)
    interval = life.setting.interval
    engines = slice(None) if case.engine is None else slice(case.engine, case.engine + 1)
    for index in range(int(begins // DAY), int((found - 1) // DAY) + 1):
        day = made(life, index, case.faults(begins))
        first = max(0, round((begins - index * DAY) / interval))
        last = round((found - index * DAY) / interval)
        for name in spent:
            spent[name] += float(getattr(day, name)[engines, first:last].sum())
    return {
        "delay_s": found - begins,
        "delay_drafts": spent["drafts"],
        "delay_updates": spent["updates"],
        "delay_requests": spent["first_tokens"],
    }


def after_history(
    setting: Setting, seed: int, cases: Mapping[str, Case], history: int, times: int
) -> dict[str, list[dict[str, Any]]]:
    """
    Watch a life for `history` days; then, at `times` moments 4 days apart, befall it with each.

    Each case has a watch of its own from that moment on, that knows what the first one knew.
    """
    random = np.random.RandomState([seed, history])
    trial = Trial(Life(setting, seed, YEAR))
    told: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
    at = 0.0
    for number in range(times):
        begins = (history + 4 * number) * DAY + aligned(DAY * random.uniform(), setting)
        trial.to_end(at, begins)
        at = begins
        if any(e.detector.startswith(ABOUT_DRAFTS) for e in trial.firing()):
            continue  # a false alarm is up: nothing can be found beside it; the lives count it
        for name, case in cases.items():
            began = time.process_time()
            result = befall(trial.branch(), case, begins)
            told[name].append({**result, "seconds": time.process_time() - began})
    return told


def aligned(seconds: float, setting: Setting) -> float:
    """Return the end of the window in which a moment lies."""
    return float(np.ceil(seconds / setting.interval) * setting.interval)


def jittered(setting: Setting, engines: int, jitter: float) -> Setting:
    """The same endpoint with data parallel engines, whose mixes differ by `jitter`."""
    return replace(setting, engines=engines, jitter=jitter)
