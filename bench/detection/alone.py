"""
The dead drafter's check alone, with limits of one's choice: how limits are compared.

    .venv/bin/python -m bench.detection.alone                        the shipped ones
    .venv/bin/python -m bench.detection.alone alarm=5.5 floor_icc=0.2

It sees the windows of a life one after the other, and no gap, no restart and no other check: that
takes minutes where the whole trial takes hours. Seeds are apart from those of the trial.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from bench.detection.cases import moment
from bench.detection.faults import Fault
from bench.detection.feed import subject_of
from bench.detection.interruptions import DAY
from bench.detection.life import Day, Life, Setting
from bench.detection.tally import median, p99
from watchdog.checks.acceptance_length import AcceptanceLength, State
from watchdog.domain import series as s
from watchdog.domain.history import Window
from watchdog.domain.profile import Profile

LIVES: Final = (("idle", 41, 4 * 365), ("medium", 131, 365), ("busy", 231, 120))
"""Healthy lives in which requests differ twice as much: profile, seed, days."""

DEAD: Final = (
    ("idle", "incident", 100),
    ("idle", "incident_greedy", 100),
    ("medium", "incident", 50),
    ("medium", "incident_greedy", 50),
)
"""Profile, kind of fault, and how many of them."""

SEED: Final = 951
DRAFTER: Final = Profile(method="dflash")


def main(limits: Sequence[str]) -> int:
    """Print false alarms of a year, then drafts and requests until found."""
    check = AcceptanceLength(
        **{name: float(x) for name, _, x in (o.partition("=") for o in limits)}
    )
    for profile, seed, days in LIVES:
        alarms = sum(_alarms(check, Setting(profile, sd=0.9), seed, days))
        print(f"sd .9, {profile}: {alarms} false alarms in {days / 365:.1f} years", flush=True)
    for profile, kind, count in DEAD:
        found = [_found(check, Setting(profile), kind, n) for n in range(count)]
        drafts, requests = ([one[i] for one in found] for i in (0, 1))
        print(
            f"{kind}, {profile}: {median(drafts):,.0f} drafts, p99 {p99(drafts):,.0f}; "
            f"{median(requests):.0f} requests, p99 {p99(requests):.0f}",
            flush=True,
        )
    return 0


def _alarms(check: AcceptanceLength, setting: Setting, seed: int, days: int) -> Iterator[int]:
    """Give 1 for each window in which a healthy drafter begins to be called dead."""
    life, state = Life(setting, seed, days), State()
    for index in range(days):
        for now, window in _windows(life.day(index)):
            was = state.dead_since
            state, _ = check.step(state, window, now)
            yield was is None and state.dead_since is not None


def _found(
    check: AcceptanceLength, setting: Setting, kind: str, number: int
) -> tuple[float, float]:
    """Return the drafts and the requests until a fault is found, endless where it is not."""
    life, state = Life(setting, SEED, 365), State()
    day, begins = moment(setting, SEED, number)
    drafts = requests = 0.0
    for index in range(day + 1, day + 6):
        for now, window in _windows(life.day(index, (Fault(kind, begins),))):
            state, _ = check.step(state, window, now)
            if now > begins:
                drafts += window.decode.real_drafts
                requests += window.decode.first_tokens
                if state.dead_since is not None:
                    return drafts, requests
    return np.inf, np.inf


def _windows(day: Day) -> Iterator[tuple[float, Window]]:
    """Give the end, in seconds of the life, and the growth of each window that has drafts."""
    interval = DAY / len(day.read)
    for at in np.flatnonzero(day.drafts[0]).tolist():
        now = day.number * DAY + (at + 1) * interval
        accepted = dict(zip(s.POSITIONS, day.accepted_at[0, at].tolist(), strict=False))
        grown = {
            s.DRAFTS: float(day.drafts[0, at]), s.UPDATES: float(day.updates[0, at]),
            s.FIRST_TOKENS: float(day.first_tokens[0, at]),
            s.GENERATED_TOKENS: float(day.generated[0, at]),
            s.ACCEPTED_TOKENS: sum(accepted.values()), **accepted,
        }  # fmt: skip
        before = {s.RUNNING: float(day.running[0, at - 1]) if at else 0.0}
        yield now, Window(subject_of(0), now, interval, grown, grown, before, profile=DRAFTER)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
