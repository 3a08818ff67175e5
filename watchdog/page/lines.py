"""Findings to lines of a verdict in a word and a sentence; too little evidence is no OK."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from watchdog.domain.finding import Finding, Verdict

NO_EVIDENCE: Final = "no evidence"
PAUSED: Final = "paused"
MOST: Final = 200
"""Lines about one subject; no check makes so many."""

_WORST_FIRST: Final = (Verdict.CRITICAL, Verdict.WARNING, Verdict.UNKNOWN, Verdict.OK)


class Line(NamedTuple):
    """One finding."""

    word: str
    alertname: str
    summary: str


def rank(verdict: Verdict) -> int:
    """Sort the worst first."""
    return _WORST_FIRST.index(verdict)


def word(finding: Finding) -> str:
    """Return the verdict; thin evidence is no OK."""
    if finding.verdict is Verdict.OK and not finding.conclusive:
        return NO_EVIDENCE
    return finding.verdict.name


def lines_of(findings: Iterable[Finding]) -> list[Line]:
    """Return a line for each, what is wrong first and what has no evidence last."""
    found = sorted(findings, key=lambda f: (rank(f.verdict), not f.conclusive))
    return [Line(word(f), f.alertname, f.argument.summary) for f in found[:MOST]]
