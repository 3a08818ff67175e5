"""Readings in, report out: the pure middle of every round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from watchdog.domain.alert import AlertBook
from watchdog.domain.diagnosis import diagnose
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.history import History, Window
from watchdog.domain.profile import Profile
from watchdog.domain.report import Report
from watchdog.domain.sample import Labels, Reading


class Check(Protocol):
    """What `checks/` holds, seen from here."""

    about: str

    def step(self, state: Any, window: Window, now: float) -> tuple[Any, list[Finding]]:
        """Judge one window."""
        ...


@dataclass
class Watch:
    """One target: its history, its checks by name, and what they keep of each subject."""

    history: History
    checks: Mapping[str, Check]
    states: dict[Labels, dict[str, Any]] = field(default_factory=dict)

    def step(self, readings: Sequence[Reading], now: float) -> tuple[list[Finding], list[Labels]]:
        """Judge one round; also return the subjects that are gone for good."""
        whole = self.history.add(readings, now)
        findings: list[Finding] = []
        for name, check in self.checks.items():
            windows = (whole,) if check.about == "target" else whole.parts
            for window in windows:
                states = self.states.setdefault(window.subject, {})
                states[name], found = check.step(states.get(name), window, now)
                for finding in found:
                    finding.check = name
                findings += found
        gone = self.history.gone(now)
        if gone or len(self.states) > len(self.history) + 1:
            self._forget()
        return findings, gone

    def _forget(self) -> None:
        """Keep states only of subjects that the history still knows."""
        known = self.history.subjects()
        self.states = {about: kept for about, kept in self.states.items() if about in known}


@dataclass
class Assessor:
    """All targets, and the one alert book."""

    host: str
    version: str
    watches: Mapping[str, Watch]
    book: AlertBook = field(default_factory=AlertBook)
    labels: Labels = ()

    def assess(self, readings: Sequence[Reading], now: float, skew: float = 0.0) -> Report:
        """Judge one round's readings."""
        findings: list[Finding] = []
        gone: list[Labels] = []
        for target, watch in self.watches.items():
            own = [reading for reading in readings if reading.target == target]
            judged, vanished = watch.step(own, now)
            up = any(reading.samples for reading in own)  # then silence is a probe's own
            findings += [blind(reading) for reading in own if reading.answered or up]
            findings += diagnose(judged)
            gone += vanished
        changes = self.book.step(findings, now, gone)
        return Report(
            self.host,
            self.version,
            now,
            tuple(readings),
            tuple(findings),
            self.book.alerts(),
            tuple(changes),
            self.book.paused(now),
            self.labels,
            skew,
        )

    def take_over(self, old: Assessor) -> None:
        """Carry on after a reload: histories, states, alerts and pauses of targets that remain."""
        self.book = old.book
        for target, watch in self.watches.items():
            before = old.watches.get(target)
            if before is not None:
                profile, gap_after = watch.history.profile, watch.history.gap_after
                watch.history, watch.states = before.history, before.states
                watch.history.profile, watch.history.gap_after = profile, gap_after
                for alertname in unasked(profile):
                    self.book.close(target, alertname)
        for target in old.watches.keys() - self.watches.keys():
            self.book.close(target)


def unasked(profile: Profile) -> list[str]:
    """Alerts that no check speaks of with this profile: they would fire for ever."""
    names = []
    if profile.acceptance_length is None:
        names.append("SpecDecodeDegraded")
    if not profile.speculation or profile.drafts_sometimes:
        names.append("SpecDecodeNotDrafting")
    return names


def blind(reading: Reading) -> Finding:
    """Make the finding about a reading itself: blindness alerts like everything else."""
    subject = (("probe", reading.probe), ("target", reading.target))
    if reading.error is None:
        read_well = partial(Argument, f"{reading.target}: {reading.probe} was read")
        return Finding("WatchdogBlind", subject, Verdict.OK, read_well, check="reading")
    said = Argument(
        f"{reading.target}: cannot be judged: {reading.error}",
        "a page that can be read and makes sense",
        ruled_out=("a server that is down: something answered",),
        next_step="run `watchdog doctor`; it says what this source answers and why that is odd",
    )
    return Finding("WatchdogBlind", subject, Verdict.UNKNOWN, lambda: said, check="reading")
