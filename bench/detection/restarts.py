"""
The rule on restarts alone, held against all days and against days of such prompts and answers.

    .venv/bin/python -m bench.detection.restarts               lives that were held out
    .venv/bin/python -m bench.detection.restarts choosing      those that the limits were chosen on
    .venv/bin/python -m bench.detection.restarts requests differ twice as much

A restart every 17 hours of a life, each judged by the next 24 hours against the 28 days before it
(whole ones, healthy), and nothing else: no gap, no other restart, no other rule. So in minutes it
sees hundreds of restarts where a year of the trial has 26; false warnings are told for those 26. In
brackets: the same rule without the adjustment.

What the adjustment rests on is that kinds of text differ in their lengths. So the same lives are
judged again where that is not so; these changes are made to hourly sums, after the fact.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from bench.detection.faults import Fault
from bench.detection.interruptions import RESTARTS
from bench.detection.life import Life, Setting
from bench.detection.streams import Floats
from bench.detection.tally import percent
from watchdog.checks.baseline import BaselineCheck
from watchdog.domain.baseline import DAY, Baseline, Block, Day

YEAR: Final = 365
SIZES: Final = (0.0, 0.2, 0.3)
"""By how much the drafter is worse from the restart on; the first is healthy."""
APART: Final = 17
"""Hours between restarts: so that they come at all hours."""

LIVES: Final = {
    "choosing": (("idle", 0.45, range(1, 9)), ("medium", 0.45, range(101, 105))),
    "held out": (("idle", 0.45, range(301, 313)), ("medium", 0.45, range(311, 314))),
    "requests differ twice as much": (
        ("idle", 0.9, range(21, 27)),
        ("medium", 0.9, range(121, 123)),
    ),
}
"""Profile, spread of requests in logits, seeds."""

DRAFTS, ACCEPTED, FIRST, REQUESTS, PROMPT, ANSWER = range(6)
OF_ANSWERS: Final = (DRAFTS, ACCEPTED, FIRST, ANSWER)
"""What grows with the length of answers, the acceptance length being the same."""

Hours = Floats
"""Sums of each hour of a life: hour, column."""
Changed = Callable[[Hours], Hours]


def hours(life: Life, faults: Sequence[Fault] = ()) -> Hours:
    """Count a life by the hour."""
    days = [life.day(index, faults) for index in range(life.days)]
    return np.concatenate(
        [
            np.stack(
                (
                    day.drafts[0], day.accepted[0], day.accepted_at[0, :, 0],
                    day.first_tokens[0], day.prompt_tokens[0], day.generated[0],
                ), axis=1,
            ) for day in days
        ]
    )  # fmt: skip


def with_lengths_of(month: int, columns: Sequence[int], by: int) -> Changed:
    """Give each hour the mean tokens of prompts, or answers, of an hour some months later."""

    def changed(counted: Hours) -> Hours:
        tokens = counted[:, by] + 1.0
        each = tokens / (counted[:, REQUESTS] + 1.0)
        told = counted.copy()
        told[:, columns] *= (np.roll(each, -30 * 24 * month) / each)[:, None]
        return told

    return changed


def drifting(spread: float, seed: int = 5) -> Changed:
    """Let prompts and answers grow and shrink within days, without another kind of text."""

    def changed(counted: Hours) -> Hours:
        noise = np.random.RandomState(seed).standard_normal((len(counted), 2))
        keep = float(np.exp(-1 / 120))
        path = np.zeros_like(noise)
        for hour in range(1, len(noise)):
            path[hour] = keep * path[hour - 1] + np.sqrt(1 - keep**2) * noise[hour]
        factor = np.exp(spread * path)
        told = counted.copy()
        told[:, PROMPT] *= factor[:, 0]
        told[:, OF_ANSWERS] *= factor[:, 1, None]
        return told

    return changed


def scaled(by: float) -> Changed:
    """Make all prompts and answers longer or shorter."""

    def changed(counted: Hours) -> Hours:
        told = counted.copy()
        told[:, (*OF_ANSWERS, PROMPT)] *= by
        return told

    return changed


def as_is(counted: Hours) -> Hours:
    """Leave it as it is."""
    return counted


PROMPTS = with_lengths_of(2, (PROMPT,), PROMPT)
ANSWERS = with_lengths_of(3, OF_ANSWERS, ANSWER)

WORLDS: Final[dict[str, tuple[Changed, Changed, int]]] = {
    "as generated": (as_is, as_is, 28),
    "14 days are known": (as_is, as_is, 14),
    "prompts tell nothing": (PROMPTS, as_is, 28),
    "answers tell nothing": (ANSWERS, as_is, 28),
    "neither tells anything": (lambda counted: ANSWERS(PROMPTS(counted)), as_is, 28),
    "lengths drift by 0.3": (drifting(0.3), as_is, 28),
    "x 0.5 from the restart on": (as_is, scaled(0.5), 28),
    "x 0.7 from the restart on": (as_is, scaled(0.7), 28),
    "x 1.4 from the restart on": (as_is, scaled(1.4), 28),
    "x 2 from the restart on": (as_is, scaled(2.0), 28),
}
"""What happens to a whole life, what to the day after the restart, and the days that are known."""

Judged = tuple[bool, bool, bool]
"""Low by the shipped rule, low held against all days, and whether the first was adjusted."""


def judged(counted: dict[float, Hours], world: str) -> Iterator[tuple[float, Judged]]:
    """Give each size of the fault, and what is said of a restart."""
    check = BaselineCheck()
    always, since, known = WORLDS[world]
    sums = {size: np.cumsum(always(table), axis=0) for size, table in counted.items()}
    healthy = sums[0.0]
    for begins in range((known + 1) * 24, len(healthy) - 25, APART):
        midnight = begins - begins % 24
        days = [
            Day.of(_block(healthy, at - 24, at), at / 24 * DAY)
            for at in range(midnight - 24 * (known - 1), midnight + 1, 24)
        ]
        baseline = Baseline(tuple(day for day in days if day.requests >= check.min_requests))
        usual = baseline.length
        for size, passed in sums.items():
            told = _block(passed, begins, begins + 24, since)
            length = told.acceptance_length
            if told.requests < check.min_requests or length is None or usual is None:
                continue
            low, limit = check.after_restart(baseline, told)
            adjusted = limit == check.restart_adjusted
            yield size, (low, length < check.restart * usual, adjusted)


def _block(sums: Hours, begins: int, ends: int, changed: Changed = as_is) -> Block:
    """Sum the hours from one to another."""
    d = changed((sums[ends - 1] - sums[begins - 1])[None, :])[0].tolist()
    return Block(
        depth=7, drafts=d[DRAFTS], accepted=d[ACCEPTED], first=d[FIRST], requests=d[REQUESTS],
        prompt_tokens=d[PROMPT], generated=d[ANSWER],
    )  # fmt: skip


def life_of(profile: str, sd: float, seed: int, days: int = YEAR) -> dict[float, Hours]:
    """Count one life, healthy and with each fault all along."""
    life = Life(Setting(profile, sd=sd, interval=3600.0), seed, days)
    return {size: hours(life, (Fault("degrade", size=size),) if size else ()) for size in SIZES}


def told(lives: Sequence[dict[float, Hours]], world: str) -> str:
    """Put it into a row of a table: the shipped rule, and in brackets that without adjustment."""
    found: dict[float, list[Judged]] = {size: [] for size in SIZES}
    for counted in lives:
        for size, verdict in judged(counted, world):
            found[size].append(verdict)
    shares = {size: np.mean(np.array(verdicts), axis=0) for size, verdicts in found.items()}
    cells = [world, f"{len(found[0.0]):,}", percent(shares[0.0][2])]
    cells.append(f"{RESTARTS * shares[0.0][0]:.2f} ({RESTARTS * shares[0.0][1]:.2f})")
    cells += [f"{percent(shares[x][0])} ({percent(shares[x][1])})" for x in SIZES[1:]]
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str]) -> int:
    """Print a table for each profile."""
    which = " ".join(arguments) or "held out"
    if which not in LIVES:
        print(f'no lives "{which}": one of {", ".join(LIVES)}', file=sys.stderr)
        return 2
    print("| life | restarts | adjusted | false a year | 20 % found | 30 % found |", flush=True)
    for profile, sd, seeds in LIVES[which]:
        lives = [life_of(profile, sd, seed) for seed in seeds]
        print(f"{which}, {profile}: {len(lives)} endpoint-years")
        for world in WORLDS:
            print(told(lives, world), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
