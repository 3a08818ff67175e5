"""The board to what the page says, from top to bottom: plain values, which the template writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from watchdog.board import Board
from watchdog.domain import wording as w
from watchdog.domain.alert import Alert, State
from watchdog.domain.arrivals import FIRING
from watchdog.domain.finding import Finding, Verdict, worst
from watchdog.domain.received import Received, is_inbox
from watchdog.domain.report import RUNBOOK, Report
from watchdog.domain.sample import HOST
from watchdog.page.engines import Target, targets_of
from watchdog.page.lines import Line, lines_of, rank
from watchdog.page.links import Link, links_of
from watchdog.page.shown import clock, name, pairs

MOST_ALERTS: Final = 50
MOST_NOTES: Final = 50
MOST_PROBES: Final = 500
"""Rows of each kind; of more the page says how many there are."""

_LOUD: Final = {"critical": Verdict.CRITICAL, "warning": Verdict.WARNING}


class Raised(NamedTuple):
    """
    An alert with its whole argument; `since` and `ago` are of its firing or its end.

    `seen` is when a round spoke of it last, empty where that was this one.
    """

    alertname: str
    severity: str
    word: str
    subject: str
    since: str
    ago: str
    seen: str
    summary: str
    expected: str
    evidence: list[tuple[str, str]]
    ruled_out: Sequence[str]
    suspects: Sequence[str]
    next_step: str
    runbook: str


class Heard(NamedTuple):
    """An alert of another program, and what was seen here of what it names."""

    alertname: str
    status: str
    of: str
    since: str
    ago: str
    summary: str
    diagnosed: str
    diagnosis: Sequence[str]


class Probed(NamedTuple):
    """A probe: when a reading of it last went well, and why this round's did not."""

    probe: str
    of: str
    succeeded: str
    ago: str
    error: str


class Some(NamedTuple):
    """The first rows of a list, and how many more there are."""

    rows: Sequence[NamedTuple]
    more: int


class Content(NamedTuple):
    """Everything below the banner of one report."""

    host: str
    version: str
    verdict: str
    at: str
    firing: Some
    resolved: Some
    paused: list[tuple[str, str, str]]
    received: Some
    targets: list[Target]
    drawn: int
    links: list[Link]
    of_host: list[Line]
    probes: Some


def content_of(board: Board, report: Report) -> Content:
    """Return what the page says of a report."""
    told = _Told(report)
    targets = targets_of(board, report)
    loud = (_LOUD.get(a.severity, Verdict.OK) for a in report.alerts if a.state is State.FIRING)
    return Content(
        name(report.host),
        report.version,
        worst([report.verdict, *loud]).name,
        told.when(report.now),
        told.alerts(State.FIRING),
        told.alerts(State.RESOLVED),
        [(name(t), told.when(until), w.span(until - report.now))
         for t, until in sorted(report.paused.items())],
        told.received(),
        targets,
        sum(len(target.engines) for target in targets),
        links_of(report),
        lines_of(f for f in report.findings if _of_host(f)),
        told.probes(board),
    )  # fmt: skip


def _of_host(finding: Finding) -> bool:
    """Whether it is about the host and has no row in the table of links."""
    subject = dict(finding.subject)
    if "target" in subject:
        return False
    quiet = finding.verdict is Verdict.OK
    return not (quiet and (finding.alertname == "WatchdogBlind" or "slot" in subject))


class _Told(NamedTuple):
    """Words for the times of one report."""

    report: Report

    def when(self, at: float) -> str:
        return clock(at + self.report.skew, self.report.now + self.report.skew)

    def ago(self, at: float) -> str:
        return w.span(max(0.0, self.report.now - at))

    def alerts(self, state: State) -> Some:
        """Return those of a state, the worst and then the newest first."""
        found = [a for a in self.report.alerts if a.state is state]
        found.sort(key=lambda a: (rank(_LOUD.get(a.severity, Verdict.OK)), -(a.fired_at or 0.0)))
        return Some(
            [self._raised(a) for a in found[:MOST_ALERTS]], max(0, len(found) - MOST_ALERTS)
        )

    def _raised(self, alert: Alert) -> Raised:
        finding, argument = alert.finding, alert.finding.argument
        at = alert.resolved_at if alert.state is State.RESOLVED else alert.fired_at
        at = self.report.now if at is None else at
        return Raised(
            finding.alertname,
            alert.severity,
            _LOUD.get(alert.severity, Verdict.OK).name,
            subject_of(finding.subject),
            self.when(at),
            self.ago(at),
            "" if alert.is_seen(self.report.now) else self.when(alert.seen_at),
            argument.summary,
            argument.expected,
            pairs(argument.evidence),
            argument.ruled_out,
            argument.suspects,
            argument.next_step,
            RUNBOOK.format(alertname=finding.alertname),
        )

    def received(self) -> Some:
        """Return the alerts of others, those that fire first."""
        found = sorted(self.report.received, key=lambda one: one.status != FIRING)
        rows = [self._heard(one) for one in found[:MOST_ALERTS]]
        return Some(rows, max(0, len(found) - MOST_ALERTS))

    def _heard(self, one: Received) -> Heard:
        return Heard(
            name(one.alertname),
            one.status,
            name(one.target) if one.target != HOST else "this host",
            self.when(one.received_at),
            self.ago(one.received_at),
            one.summary,
            self.when(one.diagnosed_at) if one.diagnosis else "",
            one.diagnosis,
        )

    def probes(self, board: Board) -> Some:
        """Return what each probe did, those that failed first."""
        asked = (r for r in self.report.readings if not is_inbox(r))
        readings = sorted(asked, key=lambda r: r.error is None)
        rows = []
        for reading in readings[:MOST_PROBES]:
            at = board.succeeded.get((reading.probe, reading.target, reading.slot))
            of = " ".join(filter(None, (reading.target, reading.slot))) or "this host"
            rows.append(
                Probed(
                    reading.probe,
                    name(of) if reading.target != HOST else of,
                    "never yet" if at is None else self.when(at),
                    "" if at is None else self.ago(at),
                    reading.error or "",
                )
            )
        return Some(rows, max(0, len(readings) - MOST_PROBES))


def subject_of(subject: Iterable[tuple[str, str]]) -> str:
    """Return labels as words: `target qwen, engine 0`."""
    return ", ".join(f"{key} {name(value)}" for key, value in subject)
