"""A month with faults in it, judged by one process, and by many that were killed in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.detection.faults import Fault
from bench.detection.feed import Feed
from bench.detection.life import Life, Setting
from bench.detection.trial import ABOUT_DRAFTS, DAY, START, detector_of, watcher
from tests.restarting import kept
from watchdog.domain.assess import Assessor
from watchdog.domain.memory import recall
from watchdog.domain.report import Report
from watchdog.domain.sample import Reading

HOUR = 3600.0
SETTING = Setting("idle", interval=60.0)  # a month is then judged twice within seconds
EACH_DAY = SETTING.windows
LIFE = Life(SETTING, 4, 30)
FAULTS = (
    Fault("incident", 11.4 * DAY, 11.4 * DAY + 6 * HOUR),
    Fault("stop", 14.5 * DAY, 14.5 * DAY + 8 * HOUR),
    Fault("degrade", 17.3 * DAY, 24 * DAY, size=0.45),
)
KILLS = 80


def kills(days: range, number: int, loses: float) -> dict[int, bool]:
    """Rounds at which the process ends, some soon after a fault; True: and that round is lost."""
    random = np.random.RandomState(11)
    anywhere = random.randint(days.start * EACH_DAY + 1, days.stop * EACH_DAY, number)
    begin = [int(fault.begins / SETTING.interval) for fault in FAULTS]
    in_trouble = [at + int(after) for at in begin for after in random.randint(1, 120, 12)]
    at = sorted({int(n) for n in (*anywhere, *in_trouble)})
    return dict(zip(at, (random.random_sample(len(at)) < loses).tolist(), strict=True))


@dataclass
class Watched:
    """One way through the month: the alerts' steps, and the processes that it took."""

    assessor: Assessor = field(default_factory=lambda: watcher(SETTING))
    steps: list[tuple[float, str, str]] = field(default_factory=list)
    processes: int = 1
    kept_at: float = 0.0

    def judge(self, readings: Sequence[Reading], now: float) -> Report:
        self.kept_at = now
        report = self.assessor.assess(readings, now)
        for change in report.changes:
            self.steps.append((now, detector_of(change.alert.finding), change.alert.state.value))
        return report

    def die(self, now: float) -> None:
        """End, and go on as another process with what was kept of the last whole round."""
        rows = kept(self.assessor)
        self.assessor = watcher(SETTING)
        assert recall(rows, self.assessor, now, self.kept_at) == []
        self.processes += 1

    def drafts(self) -> list[tuple[float, str, str]]:
        """Steps of alerts about the drafter."""
        return [step for step in self.steps if step[1].startswith(ABOUT_DRAFTS)]


def verdicts(report: Report) -> list[tuple[object, ...]]:
    return [
        (f.check, f.alertname, f.subject, f.verdict, f.conclusive, f.value) for f in report.findings
    ]


def live(
    days: range, killed_at: Mapping[int, bool], *, shown: bool
) -> tuple[Watched, Watched, list[int]]:
    """
    Watch some days in both ways; also return the rounds in which their verdicts differ.

    `shown`: the one that is never killed sees the rounds which the other one loses.
    """
    whole, mortal, differ = Watched(), Watched(), []
    feed, number = Feed(SETTING, START), days.start * EACH_DAY
    for index in days:
        for now, readings in feed.readings(LIFE.day(index, FAULTS)):
            lost = killed_at.get(number)
            if shown or not lost:
                told = whole.judge(readings, now)
            if not lost:
                judged = verdicts(mortal.judge(readings, now))
                differ += [number] if judged != verdicts(told) else []
            if lost is not None:
                mortal.die(now)
            number += 1
    return whole, mortal, differ


def test_killing_it_at_random_points_of_a_month_changes_no_verdict_but_by_the_windows_lost():
    """Every verdict and value is that of a process which lived on, and missed the same rounds."""
    killed_at = kills(range(30), KILLS, 0.5)
    whole, mortal, differ = live(range(30), killed_at, shown=False)
    assert mortal.processes == 1 + len(killed_at) > KILLS
    assert sum(killed_at.values()) > KILLS / 4
    assert differ == []
    assert mortal.steps == whole.steps
    fired = [what for _, what, state in whole.drafts() if state == "firing"]
    assert fired == [
        "SpecDecodeCollapsed", "SpecDecodeNotDrafting", "SpecDecodeDegraded/silent"
    ]  # fmt: skip
    assert sum(state == "resolved" for _, _, state in whole.drafts()) == 3


def test_a_window_lost_with_each_of_many_kills_delays_an_alert_by_no_more_than_a_window():
    """Against a process that saw every round, those included that the killed ones lost."""
    days = range(10, 16)
    killed_at = dict.fromkeys(kills(days, 0, 1.0), True)
    whole, mortal, _ = live(days, killed_at, shown=True)
    assert len(whole.drafts()) == 4
    for (at, *what), (later, *same) in zip(whole.drafts(), mortal.drafts(), strict=True):
        assert what == same
        assert 0 <= later - at <= SETTING.interval
