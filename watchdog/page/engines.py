"""Targets and their engines: figures, curve, bars and findings; many are drawn, not all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from watchdog.board import Board
from watchdog.domain.exposition import SOURCES
from watchdog.domain.families import number
from watchdog.domain.finding import Finding, Verdict, worst
from watchdog.domain.report import Report
from watchdog.domain.sample import HOST, Labels
from watchdog.domain.trace import UNREAD, Point
from watchdog.page.bars import Bars, barred
from watchdog.page.curve import Curve, drawn, span_of
from watchdog.page.lines import NO_EVIDENCE, PAUSED, Line, lines_of, rank
from watchdog.page.shown import name

MOST_DRAWN: Final = 50
MOST_LINES: Final = 500
MOST_TARGETS: Final = 500
"""Engines with a curve, engines and targets with a line."""

HEAD: Final = "acceptance_length"
"""The check that says whether an engine's drafter has evidence at all."""


class Figure(NamedTuple):
    """A number with its name and unit."""

    words: str
    value: str
    unit: str


class Engine(NamedTuple):
    """One engine; `key` is unique on the page."""

    key: str
    name: str
    word: str
    figures: list[Figure]
    curve: Curve | None
    bars: Bars | None
    lines: list[Line]


class Target(NamedTuple):
    """One target; `brief` are engines for which there was no room to draw them."""

    name: str
    word: str
    engines: list[Engine]
    brief: list[Line]
    more: int
    lines: list[Line]


class _Part(NamedTuple):
    """What is known of one engine."""

    subject: Labels
    findings: list[Finding]
    points: Sequence[Point]

    @property
    def verdict(self) -> Verdict:
        return worst(f.verdict for f in self.findings)

    @property
    def word(self) -> str:
        """Return the worst verdict; OK only where something was judged."""
        heads = [f for f in self.findings if f.check == HEAD] or self.findings
        if self.verdict is Verdict.OK and not any(f.conclusive for f in heads):
            return NO_EVIDENCE
        return self.verdict.name


def targets_of(board: Board, report: Report) -> list[Target]:
    """Return the targets, the worst first; all curves of a page show the same time."""
    traces = board.traces()
    own, parts = _sorted_out(report, traces)
    span = span_of(traces.values(), report.now)
    worst_first = sorted((p for of in parts.values() for p in of), key=lambda p: rank(p.verdict))
    room = {part.subject: f"e{i}" for i, part in enumerate(worst_first[:MOST_DRAWN])}
    known = dict.fromkeys([*board.known_targets(), *own, *parts])
    made = [
        _target(
            target, own.get(target, []), parts.get(target, []), room, _Drawing(board, report, span)
        )
        for target in known
    ]
    made.sort(key=lambda target: target[0])
    return [target for _, target in made[:MOST_TARGETS]]


def _sorted_out(
    report: Report, traces: Mapping[Labels, Sequence[Point]]
) -> tuple[dict[str, list[Finding]], dict[str, list[_Part]]]:
    """Sort findings by target, and those of an engine by engine."""
    own: dict[str, list[Finding]] = {r.target: [] for r in report.readings if r.target != HOST}
    of_engine: dict[Labels, list[Finding]] = {subject: [] for subject in traces}
    for finding in report.findings:
        subject = dict(finding.subject)
        if "engine" in subject:
            of_engine.setdefault(finding.subject, []).append(finding)
        elif "target" in subject:
            own.setdefault(subject["target"], []).append(finding)
    parts: dict[str, list[_Part]] = {}
    for about, findings in of_engine.items():
        part = _Part(about, findings, traces.get(about, ()))
        parts.setdefault(dict(about).get("target", ""), []).append(part)
    return own, parts


class _Drawing(NamedTuple):
    """What every engine of a page shares."""

    board: Board
    report: Report
    span: float


def _target(
    target: str, own: list[Finding], parts: list[_Part], room: Mapping[Labels, str], on: _Drawing
) -> tuple[int, Target]:
    verdict = worst([*(f.verdict for f in own), *(part.verdict for part in parts)])
    parts = sorted(parts, key=lambda part: (rank(part.verdict), _natural(part.subject)))
    marks = on.board.marks(target)
    with_room = [part for part in parts if part.subject in room]
    without = [part for part in parts if part.subject not in room]
    return rank(verdict), Target(
        name(target),
        _word(target, verdict, own, parts, on.report),
        [_engine(part, room[part.subject], marks, on) for part in with_room],
        [Line(part.word, engine_name(part.subject), _brief(part)) for part in without[:MOST_LINES]],
        max(0, len(without) - MOST_LINES),
        lines_of(own),
    )


def _word(
    target: str, verdict: Verdict, own: list[Finding], parts: list[_Part], report: Report
) -> str:
    if target in report.paused:
        return PAUSED
    if verdict is not Verdict.OK:
        return verdict.name
    words = {part.word for part in parts}
    if words == {NO_EVIDENCE} or not (words or any(f.conclusive for f in own)):
        return NO_EVIDENCE
    return verdict.name


def engine_name(subject: Labels) -> str:
    """Return `engine 0 of replica a, model qwen`."""
    named = dict(subject)
    replica = f" of replica {name(named['replica'])}" if "replica" in named else ""
    model = f", model {name(named['model_name'])}" if named.get("model_name") else ""
    return f"engine {name(named.get('engine', '?'))}{replica}{model}"


def _natural(subject: Labels) -> tuple[str, int, str]:
    """Sort engine 10 after engine 9."""
    named = dict(subject)
    engine = named.get("engine", "")
    number_of = int(engine) if engine.isascii() and engine.isdigit() and len(engine) < 9 else 0
    return (named.get("replica", ""), number_of, engine)


def _engine(part: _Part, key: str, marks: Sequence[tuple[str, float]], on: _Drawing) -> Engine:
    proof = {f.check: f.argument.evidence for f in part.findings if f.check == HEAD}
    usual = measured(part.findings).get("baseline")
    lines = marks if usual is None else [*marks, ("baseline", round(usual, 2))]
    return Engine(
        key,
        engine_name(part.subject),
        part.word,
        _figures(part, on.report.now),
        drawn(part.points, lines, on.report.now, on.span, on.report.skew),
        barred(proof.get(HEAD, {}).get("positions")),
        lines_of(part.findings),
    )


def _figures(part: _Part, now: float) -> list[Figure]:
    """Return what a step brings and costs, as the checks measured it, and how busy it is."""
    seen = measured(part.findings)
    step = seen.get("step_seconds")
    told = [
        ("acceptance length", seen.get("acceptance_length"), "tokens", ".2f"),
        ("tokens per step", seen.get("tokens_per_step"), "", ".2f"),
        ("step time", None if step is None else step * 1000, "ms", ".0f"),
        ("tokens per draft", seen.get("draft_tokens_per_draft"), "", ".2f"),
    ]
    for point in part.points[-1:]:
        if now - point.at > UNREAD:
            break  # how busy it was says nothing of now
        generated = number(point.generated / point.seconds) if point.seconds > 0 else None
        told += [
            ("generated", generated, "tokens/s", ",.0f"),
            ("requests running", number(point.running), "", ",.0f"),
            ("requests waiting", number(point.waiting), "", ",.0f"),
        ]
    return [
        Figure(words, format(value, form), unit)
        for words, value, unit, form in told
        if value is not None
    ]


def measured(findings: Iterable[Finding]) -> dict[str, float]:
    """Return the figures that /metrics has, from the same checks."""
    by_check = {finding.check: finding.argument.evidence for finding in findings}
    found: dict[str, float] = {}
    for key, checks in SOURCES.items():
        for check in checks:
            value = number(by_check.get(check, {}).get(key))
            if value is not None:
                found.setdefault(key, value)
    return found


def _brief(part: _Part) -> str:
    length = measured(part.findings).get("acceptance_length")
    told = "" if length is None else f"acceptance length {length:.2f}; "
    lines = lines_of(part.findings)[:1]
    return told + (lines[0].summary if lines else "nothing was found out yet")
