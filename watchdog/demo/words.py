"""What the demo says: of the server, of its users, of the daemon's report, and what it means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from watchdog.demo.simulation import BROKEN, HEALTHY, Life
from watchdog.domain.alert import PATIENCE, Alert, State
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.report import RUNBOOK, Report
from watchdog.domain.wording import length

COLLAPSED: Final = "SpecDecodeCollapsed"
LINGER: Final = PATIENCE[COLLAPSED].linger

STOPPED: Final = {
    "broken": "is stopped, and launched again with another configuration; its compile cache "
    "is still that of the old one",
    "healed": "is stopped, and launched again with its compile cache moved aside",
}
READY: Final = {
    "broken": f"answers; the drafter is broken: drafts of {BROKEN.tokens_per_draft:g} tokens, "
    f"{BROKEN.positions[0] * 100:.1f} % of the first ones right",
    "healed": f"answers; the drafter works: drafts of {HEALTHY.tokens_per_draft:g} tokens, "
    f"{HEALTHY.positions[0] * 100:.0f} % of the first ones right",
}
USERS_SEE: Final = {
    "broken": "every answer is right, /health says 200, and the server logs no error: "
    "it is lossless, and slow",
    "healed": "the same answers as before, fast again",
}

MEANINGS: Final = {
    ("healthy", "no evidence"): "one page is no evidence: only what the counters grow by is",
    ("healthy", "OK"): f"a step gives {HEALTHY.acceptance_length:.1f} tokens instead of 1: "
    "speculative decoding pays",
    ("broken", "silent"): "a relaunch is no outage yet: nobody is paged for one refused scrape",
    ("broken", "no evidence"): "the counters began anew, and nothing is counted across that",
    ("broken", "leaning"): "few users are back yet: it is suspected, and nobody is woken for it",
    ("healed", "silent"): "silence is no healing: the alert stays",
    ("healed", "CRITICAL"): "the alert waits for healthy drafts; counters at 0 are none",
    ("healed", "OK"): f"healthy drafts at last; the alert resolves once they have lasted "
    f"{LINGER:.0f} s",
}
"""What the daemon's word means, by phase of the story and kind of word."""

ALERT_MEANS: Final = {
    "firing": "it goes to the log, and to Alertmanager where one is configured, and stays until "
    "healthy drafts are seen",
    "resolved": "the log and Alertmanager are told that it is over",
}


class Spoken(NamedTuple):
    """What the daemon says in one round: at length for the first time, in short again."""

    kind: str
    long: str
    short: str
    alert: str  # where the alert stands, to be put behind


def introduction(version: str, url: str, port: int, speed: float) -> list[str]:
    """Say what is real here and what is not, in paragraphs."""
    simulated = (
        f"Simulated: a vLLM server with speculative decoding, {url}. Its page has the shape of a "
        f"real vLLM 0.32, its drafters have the figures of a real incident."
    )
    real = (
        f"Real: the daemon, its port http://127.0.0.1:{port}, its scrapes, its alerts, and its "
        f"rounds every 15 s, which are {15 / speed:.2g} s here."
    )
    return [
        f"serving-watchdog {version} demo: a simulated server; time runs {speed:g} times faster",
        "",
        simulated,
        real,
        f"It takes about {300 / speed:.0f} s; Ctrl-C ends it. The clock on the left is simulated.",
        "",
    ]


def end(fired_after: float, resolved_after: float, took: float) -> list[str]:
    """Say what was seen, and what to do next, in paragraphs."""
    seen = (
        f"serving-watchdog demo: the alert fired {fired_after:.0f} s after the broken server's "
        f"first answer and resolved {resolved_after:.0f} s after the healed one's (simulated "
        f"time); the demo took {took:.0f} s."
    )
    return [
        "",
        seen,
        "next: watchdog check --url http://127.0.0.1:8000   judges a server of yours, now",
        "next: watchdog config init                         finds the servers of this host",
    ]


def running(life: Life) -> str:
    """Introduce the server."""
    drafter, way = life.drafter, life.traffic
    return (
        f"has run for 10 minutes: {way.slots} requests at a time, {way.waiting} waiting; its "
        f"drafter proposes {drafter.tokens_per_draft:g} tokens for each step"
    )


def users(life: Life, now: float) -> str:
    """Say what the users get."""
    total = life.tokens_per_second(now)
    return f"get {total:.0f} tokens per second, {total / life.slots(now):.0f} each; answers right"


def collapsed(alerts: Iterable[Alert]) -> Alert | None:
    """Find the alert of the story."""
    return next((alert for alert in alerts if alert.finding.alertname == COLLAPSED), None)


def alert_line(alert: Alert) -> str:
    """Head the alert's lines."""
    verb = "FIRES" if alert.state is State.FIRING else "RESOLVED"
    return f"{verb}: {alert.finding.alertname}, severity {alert.severity}"


def argued(alert: Alert) -> Iterator[tuple[str, str]]:
    """Label and text of each line of a firing alert's argument."""
    argument = alert.finding.argument
    yield "summary", argument.summary
    if alert.state is not State.FIRING:
        return
    yield "expected", argument.expected
    for line in argument.ruled_out:
        yield "ruled out", line
    for rank, line in enumerate(argument.suspects, 1):
        yield f"suspect {rank}", line
    yield "next step", argument.next_step
    yield "runbook", RUNBOOK.format(alertname=alert.finding.alertname)


def spoken(report: Report) -> Spoken:
    """Put one round's report into a line."""
    found = {finding.alertname: finding for finding in report.findings}
    finding = found.get(COLLAPSED) or found["ServingDown"]
    kind = _kind(finding)
    word = finding.verdict.name if kind != "no evidence" else kind
    value = f"acceptance length {length(finding.value)}" if finding.value else "no answer yet"
    return Spoken(
        kind, f"{word}: {finding.argument.summary}", f"{word}: {value}", _alert(report, kind)
    )


def _kind(finding: Finding) -> str:
    if finding.alertname != COLLAPSED:
        return "silent"
    if finding.verdict is Verdict.UNKNOWN:
        return "leaning"
    return finding.verdict.name if finding.conclusive else "no evidence"


def _alert(report: Report, kind: str) -> str:
    alert = collapsed(report.alerts)
    if alert is None or alert.state is not State.FIRING or alert.fired_at is None:
        return ""
    if kind == "OK" and alert.good_since is not None:
        left = LINGER - (report.now - alert.good_since)
        if left < 1:  # a round is never due to the millisecond
            return "; the alert resolves in the next round if it stays OK"
        return f"; the alert still fires, for {left:.0f} s if it stays OK"
    return f"; the alert has fired for {report.now - alert.fired_at:.0f} s"
