"""
The alert state machine.

Rule 1: every transition is in TRANSITIONS; nothing else changes a state.
Rule 2: a round without a verdict (BLIND) neither raises nor resolves an alert.
Rule 3: an alert ends in three ways only: on evidence, because its subject is gone for good,
        or because an operator paused its target. The change says which.

Time is an argument, in seconds of the round's timeline.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from watchdog.domain.finding import OK, Finding, Verdict
from watchdog.domain.sample import Labels

RETAIN: Final = 900.0
"""Seconds that a resolved alert is kept to be told again: Alertmanager may have been away."""

ABSENT: Final = 60.0
"""Seconds without a round, over a restart, after which what was good says nothing of now."""

LATE: Final = 0.5
"""Seconds by which a round may be early: else 60 s of 15 s rounds would now and then be 75 s."""

MOST_ALERTS: Final = 10_000
"""The book's bound; beyond it the alert that was seen longest ago leaves."""


class State(str, enum.Enum):
    """Where an alert stands."""

    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class Signal(str, enum.Enum):
    """What a round says to an alert."""

    BAD = "bad"
    BAD_FOR_LONG = "bad for long"
    GOOD = "good"
    GOOD_FOR_LONG = "good for long"
    BLIND = "blind"
    GONE = "gone"
    PAUSED = "paused"


_I, _P, _F, _R = State.INACTIVE, State.PENDING, State.FIRING, State.RESOLVED

TRANSITIONS: Mapping[State, Mapping[Signal, State]] = {
    _I: {Signal.BAD: _P, Signal.BAD_FOR_LONG: _F},
    _P: {
        Signal.BAD_FOR_LONG: _F,
        Signal.GOOD: _I,
        Signal.GOOD_FOR_LONG: _I,
        Signal.GONE: _I,
        Signal.PAUSED: _I,
    },
    _F: {Signal.GOOD_FOR_LONG: _R, Signal.GONE: _R, Signal.PAUSED: _R},
    _R: {Signal.BAD: _P, Signal.BAD_FOR_LONG: _F},
}


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a verdict must last before the alert follows it, and how loud it is."""

    severity: str
    hold: float = 0.0  # seconds bad before firing (Prometheus: for)
    linger: float = 0.0  # seconds good before resolved (Prometheus: keep_firing_for)


WARNING, CRITICAL = "warning", "critical"

PATIENCE: Mapping[str, Patience] = {
    "SpecDecodeCollapsed": Patience(CRITICAL, 0, 60),
    "SpecDecodeNotDrafting": Patience(CRITICAL, 0, 60),
    "SpecDecodeDegraded": Patience(WARNING, 0, 3600),
    "SpecDecodeShallowDrafts": Patience(WARNING, 600, 3600),
    "SpecDecodeCliff": Patience(WARNING, 600, 3600),
    "SpecDecodeCountersInconsistent": Patience(WARNING, 300, 3600),
    "ServingDown": Patience(CRITICAL, 0, 60),
    "ServingStalled": Patience(CRITICAL, 0, 60),
    "ServingStepsSlow": Patience(WARNING, 600, 1800),
    "ServingRestarting": Patience(WARNING, 0, 3600),
    "GpuLinkDegraded": Patience(WARNING, 0, 300),
    "GpuMissing": Patience(CRITICAL, 0, 300),
    "GpuLinkErrors": Patience(WARNING, 0, 3600),
    "GpuLinkWitnessesDisagree": Patience(WARNING, 300, 1800),
    "TensorParallelCrossSocket": Patience(WARNING, 300, 1800),
    "GpuMemoryStranded": Patience(WARNING, 300, 1800),
    "CompileCacheStale": Patience(WARNING, 0, 300),
    "CompileCacheInvalidationIneffective": Patience(WARNING, 0, 300),
    "VersionClaimMismatch": Patience(WARNING, 0, 300),
    "WatchdogBlind": Patience(WARNING, 300, 60),
    "ServingWatchdogTest": Patience("info"),
    "ServingWatchdogHeartbeat": Patience("none"),
}
"""Every alertname with its one severity, hold and linger (DESIGN 4.5)."""

TEST_ALERT: Final = "ServingWatchdogTest"
"""Sent by `watchdog alert test` alone; never in the book."""

HEARTBEAT: Final = "ServingWatchdogHeartbeat"
"""Made by the Alertmanager sink where it is asked for; never in the book."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A finding over time."""

    finding: Finding
    state: State = State.INACTIVE
    bad_since: float | None = None
    good_since: float | None = None
    fired_at: float | None = None
    resolved_at: float | None = None
    seen_at: float = 0.0

    def is_seen(self, now: float) -> bool:
        """Whether the round of `now` spoke of it; else what it says is as of `seen_at`."""
        return self.seen_at >= now

    @property
    def severity(self) -> str:
        """One severity for ever, by name, so that labels never change under a firing alert."""
        patience = PATIENCE.get(self.finding.alertname)
        return patience.severity if patience else "none"


@dataclass(frozen=True, slots=True)
class Change:
    """An alert's step from one state to another in this round, and what made it."""

    alert: Alert
    was: State
    why: Signal


class AlertBook:
    """All alerts by identity, moved one round at a time."""

    def __init__(self) -> None:
        self._alerts: dict[tuple[str, Labels], Alert] = {}
        self._paused: dict[str, float] = {}
        self._closed: set[tuple[str, str | None]] = set()  # what the config no longer asks
        self._ended: dict[tuple[str, Labels], str] = {}  # and whose word on it is void

    def pause(self, target: str, until: float) -> None:
        """Alert nothing about this target until then; `resume` ends it earlier."""
        self._paused[target] = until

    def resume(self, target: str) -> bool:
        """End a pause; False where there was none."""
        return self._paused.pop(target, None) is not None

    def close(self, target: str, alertname: str | None = None) -> None:
        """End a target's alerts in the next step: all, or those of one name. Nobody asks now."""
        self._closed.add((target, alertname))

    def end(self, identity: tuple[str, Labels], check: str = "") -> None:
        """End one alert in the next step; where only `check` is void, unless another says bad."""
        self._ended[identity] = check

    @property
    def pauses(self) -> Mapping[str, float]:
        """Until when each target is paused, ended pauses included until the next step."""
        return self._paused

    def paused(self, now: float) -> dict[str, float]:
        """Return the targets that are paused, and until when; ended pauses are forgotten."""
        if self._paused:
            self._paused = {target: until for target, until in self._paused.items() if until > now}
        return dict(self._paused)

    def step(
        self, findings: Iterable[Finding], now: float, gone: Iterable[Labels] = ()
    ) -> list[Change]:
        """Move every alert that these findings speak of; subjects in `gone` exist no more."""
        paused = self.paused(now)
        changes: list[Change] = []
        for finding in self._spoken(findings):
            old = self._alerts.get(finding.identity) or Alert(finding)
            self._move(_judged(old, finding, now, paused=_is_paused(finding, paused)), old, changes)
        for old in list(self._alerts.values()) if paused else ():
            # Also those of which this round says nothing: a server that is stopped for its upkeep.
            if _is_paused(old.finding, paused):
                quiet = replace(old, bad_since=None, good_since=None, seen_at=now)
                self._move((quiet, Signal.PAUSED), old, changes)
        vanished = set(gone)
        if vanished or self._closed or self._ended:
            for old in list(self._alerts.values()):
                subject, name = old.finding.subject, old.finding.alertname
                target = dict(subject).get("target", "")
                closed = {(target, None), (target, name)} & self._closed
                ended = self._is_ended(old, now)
                if subject in vanished or closed or ended:
                    self._move((replace(old, seen_at=now), Signal.GONE), old, changes)
            self._closed.clear()
            self._ended.clear()
        self._forget(now)
        return changes

    def everything(self) -> tuple[Alert, ...]:
        """Return every alert that the book knows, whatever its state: what a restart needs."""
        return tuple(self._alerts.values())

    def carry_on(self, alerts: Iterable[Alert], paused: Mapping[str, float], away: float) -> None:
        """
        Take what a former process knew, `away` seconds after its last round.

        Nobody looked meanwhile. As after a blind round, lingering begins anew once rounds were
        missed; what was only pending is forgotten after a long absence.
        """
        for alert in alerts:
            if away > RETAIN and alert.state is State.PENDING:
                continue
            kept = alert if away <= ABSENT else replace(alert, good_since=None)
            self._alerts[alert.finding.identity] = kept
        self._paused = dict(paused)

    def alerts(self) -> tuple[Alert, ...]:
        """Return those that fire and those resolved lately, oldest first."""
        told = [a for a in self._alerts.values() if a.state in (State.FIRING, State.RESOLVED)]
        return tuple(sorted(told, key=lambda a: (a.fired_at or 0.0, a.finding.identity)))

    def pending(self) -> tuple[Alert, ...]:
        """Return those that are bad, but not for long enough."""
        return tuple(a for a in self._alerts.values() if a.state is State.PENDING)

    def _spoken(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return what is said of each alert there is or may be: one finding for each."""
        if not self._alerts:  # the common case: nothing is wrong and nothing was
            findings = [finding for finding in findings if finding.verdict is not OK]
        spoken: dict[tuple[str, Labels], Finding] = {}
        for finding in findings:
            identity = finding.identity
            old = self._alerts.get(identity)
            if old is None and finding.verdict is Verdict.OK:
                continue
            other = spoken.get(identity)
            spoken[identity] = finding if other is None else _speaker(other, finding, old)
        return list(spoken.values())

    def _is_ended(self, alert: Alert, now: float) -> bool:
        void = self._ended.get(alert.finding.identity)
        bad = alert.is_seen(now) and alert.bad_since is not None
        return void is not None and not (void and bad and alert.finding.check != void)

    def _move(self, moved: tuple[Alert, Signal], old: Alert, changes: list[Change]) -> None:
        alert, signal = moved
        state = TRANSITIONS[old.state].get(signal, old.state)
        if state is not old.state:
            alert = _entered(alert, state, alert.seen_at)
            changes.append(Change(alert, old.state, signal))
        self._alerts[alert.finding.identity] = alert

    def _forget(self, now: float) -> None:
        for key, alert in list(self._alerts.items()):
            over = alert.state is State.INACTIVE or (
                alert.state is State.RESOLVED and now - (alert.resolved_at or now) > RETAIN
            )
            if over:
                del self._alerts[key]
        while len(self._alerts) > MOST_ALERTS:
            del self._alerts[min(self._alerts, key=lambda k: self._alerts[k].seen_at)]


def _is_paused(finding: Finding, paused: Mapping[str, float]) -> bool:
    return bool(paused) and dict(finding.subject).get("target") in paused


def _speaker(one: Finding, other: Finding, old: Alert | None) -> Finding:
    """
    Choose which of two checks speaks of an alert that both know.

    A bad one before a good one, so that an alert is bad while any check says so. Of equals the
    one that raised it, so that its words do not change and no other check's ignorance or health
    ends it; and else one that knows something.
    """

    def rank(finding: Finding) -> tuple[bool, bool, bool]:
        bad = _is_bad(finding)
        raised_it = old is not None and finding.check == old.finding.check
        return bad is True, raised_it, bad is not None

    return other if rank(other) > rank(one) else one


def _judged(old: Alert, finding: Finding, now: float, *, paused: bool) -> tuple[Alert, Signal]:
    """Take one finding into the alert, and say what it signals."""
    if paused:
        return replace(old, bad_since=None, good_since=None, seen_at=now), Signal.PAUSED
    bad = _is_bad(finding)
    if bad is None:
        # What was good before says nothing of now: lingering begins anew.
        return replace(old, good_since=None, seen_at=now), Signal.BLIND
    patience = PATIENCE.get(finding.alertname, Patience("none"))
    if bad:
        since = old.bad_since if old.bad_since is not None else now
        alert = replace(old, finding=finding, bad_since=since, good_since=None, seen_at=now)
        long = now - since >= patience.hold - LATE
        return alert, Signal.BAD_FOR_LONG if long else Signal.BAD
    since = old.good_since if old.good_since is not None else now
    alert = replace(old, finding=finding, bad_since=None, good_since=since, seen_at=now)
    return alert, Signal.GOOD_FOR_LONG if now - since >= patience.linger - LATE else Signal.GOOD


def _is_bad(finding: Finding) -> bool | None:
    """None: blind. UNKNOWN is blindness to every alert but the one about blindness."""
    if finding.verdict is Verdict.UNKNOWN:
        return True if finding.alertname == "WatchdogBlind" else None
    if finding.verdict is Verdict.OK:
        return False if finding.conclusive else None
    return True


def _entered(alert: Alert, state: State, now: float) -> Alert:
    if state is State.FIRING:
        return replace(alert, state=state, fired_at=now, resolved_at=None)
    if state is State.RESOLVED:
        return replace(alert, state=state, resolved_at=now)
    return replace(alert, state=state)
