"""Boards as a daemon puts them up, for the tests of the page: one engine, many, hostile ones."""

from __future__ import annotations

from dataclasses import replace

from watchdog.board import Board
from watchdog.domain.alert import Alert, State
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.received import Received
from watchdog.domain.report import Report
from watchdog.domain.sample import Labels, Reading, labels
from watchdog.domain.trace import Point

NOW = 1_796_040_000.0  # 2026-11-30T12:00:00Z

HOSTILE = (
    "<script>window.hacked=1;alert(1)</script>",
    "\"'><img src=x onerror=alert(2)>",
    "</title></style></main></svg><iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "\u202egpj.exe\u2066\u200f <b onclick=alert(3)>",
    "{{ 7 * 7 }}{% raw %}&lt;&#60;script&#62;",
    "javascript:alert(4)",
    "x" * 10_000,
    "\x00\x1b[31m\ud800\ufeff",
)


def engine(target: str = "qwen", number: str = "0", model: str = "qwen3") -> Labels:
    return labels(target=target, engine=number, model_name=model)


def finding(
    subject: Labels,
    verdict: Verdict = Verdict.OK,
    *,
    alertname: str = "SpecDecodeCollapsed",
    check: str = "acceptance_length",
    conclusive: bool = True,
    said: Argument | None = None,
) -> Finding:
    words = said or Argument(f"{dict(subject).get('target')} engine: {verdict.name.lower()}")
    return Finding(
        alertname, subject, verdict, lambda: words, conclusive=conclusive, value=1.08, check=check
    )


def dead(subject: Labels) -> Finding:
    """A dead drafter with its whole argument."""
    said = Argument(
        "qwen engine 0: the drafter is dead",
        "position 0 accepted on more than 20 % of the drafts",
        {
            "drafts": 1700.0,
            "acceptance_length": 1.079,
            "tokens_per_step": 1.081,
            "step_seconds": 0.0952,
            "draft_tokens_per_draft": 2.96,
            "positions": [0.067, 0.009, 0.003],
        },
        ("queueing: 0 requests waiting",),
        ("a compile cache of an older launch",),
        "move the compile cache aside",
    )
    return finding(subject, Verdict.CRITICAL, said=said)


def fired(what: Finding, at: float = NOW - 300) -> Alert:
    return Alert(what, State.FIRING, bad_since=at, fired_at=at, seen_at=NOW)


def over(alert: Alert, at: float = NOW - 60) -> Alert:
    return replace(alert, state=State.RESOLVED, resolved_at=at)


def trace(*lengths: float) -> list[Point]:
    """Stretches of a minute up to now."""
    ends = [NOW - 60.0 * i for i in range(len(lengths))][::-1]
    return [
        Point(at, 60.0, 1000.0, 1000 * (length - 1), generated=4300.0, running=8.0, waiting=3.0)
        for at, length in zip(ends, lengths, strict=True)
    ]


def board(*findings: Finding, alerts: tuple[Alert, ...] = (), **changes: object) -> Board:
    """A board 4 s after a round that found this; `changes` are of the report."""
    targets = list(dict.fromkeys(dict(f.subject).get("target", "") for f in findings))
    readings = tuple(Reading("vllm_metrics", target, took=0.01) for target in targets)
    report = Report("gpu-1", "1.0", NOW, readings, findings, alerts)
    return Board(
        report=replace(report, **changes),  # type: ignore[arg-type]
        known_targets=lambda: targets,
        marks=lambda _target: (("declared", 3.0), ("dead drafter", 1.2)),
        succeeded={("vllm_metrics", target, ""): NOW for target in targets},
        age=lambda: 4.0,
    )


def incident(**changes: object) -> Board:
    """The drafter of one engine has died five minutes ago."""
    shown = board(dead(engine()), alerts=(fired(dead(engine())),), **changes)
    lengths = (3.8,) * 20 + (1.08,) * 5
    shown.traces = lambda: {engine(): trace(*lengths)}
    return shown


def hostile(words: tuple[str, ...] = HOSTILE) -> Board:
    """Every text that comes from others is one of these."""
    findings, alerts, received = [], [], []
    for i, text in enumerate(words):
        said = Argument(text, text, {text: text, "list": [text]}, (text,), (text,), text)
        found = finding(engine(text, text, text), Verdict.CRITICAL, said=said)
        findings.append(found)
        alerts += [fired(found), over(fired(found))]
        told = Received(
            f"f{i}", text, text, text, labels(alertname=text), text, NOW - 60, NOW - 60,
            diagnosis=(text,), diagnosed_at=NOW,
        )  # fmt: skip
        received.append(told)
    shown = board(*findings, alerts=tuple(alerts), received=tuple(received))
    assert shown.report is not None
    readings = tuple(Reading("launch", text, error=text, slot=text) for text in words)
    paused = dict.fromkeys(words, NOW + 600)
    shown.report = replace(shown.report, host=words[0], readings=readings, paused=paused)
    shown.notes = lambda: list(words)
    shown.marks = lambda _target: [(text, 2.0) for text in words]
    shown.traces = lambda: {f.subject: trace(3.8, 3.8, 1.1) for f in findings}
    return shown
