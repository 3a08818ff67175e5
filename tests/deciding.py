"""What every bad finding of a story must hold: each cause says what would decide."""

from __future__ import annotations

from collections.abc import Iterable

from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.suspects import RULES

TOLD = {
    *(alertname for alertname, _ in RULES),
    *("CompileCacheStale", "CompileCacheInvalidationIneffective", "VersionClaimMismatch"),
}
"""Alerts about what is lossless and slow: whose causes are many, and look alike."""


def every_cause_decides(findings: Iterable[Finding], told: set[str]) -> None:
    """Fail where a cause of a bad finding predicts nothing; each sentence is looked at once."""
    for found in findings:
        if found.verdict not in (Verdict.WARNING, Verdict.CRITICAL) or found.alertname not in TOLD:
            continue
        if found.alertname + found.check in told:
            continue
        told.add(found.alertname + found.check)
        for line in found.argument.suspects:
            assert "; predicts " in line, f"{found.alertname}: {line}"
            assert "; decided by " in line, f"{found.alertname}: {line}"
