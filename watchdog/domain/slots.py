"""Slots whose GPU or link cannot be known, and cards that left them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.sample import Labels, Reading

DECLARED: Final = ("GpuLinkDegraded", "GpuMissing")
"""Alerts that stand on what is declared of a slot."""


def blind_links(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Tell of each slot whether its GPU or link can be known at all: not knowing alerts too."""
    by_slot: dict[Labels, Finding] = {}
    for finding in findings:
        told = by_slot.get(finding.subject)
        if finding.alertname in DECLARED and (told is None or told.verdict is Verdict.OK):
            by_slot[finding.subject] = finding
    for subject, finding in by_slot.items():
        if subject:
            unknown = finding.verdict is Verdict.UNKNOWN
            verdict = Verdict.UNKNOWN if unknown else Verdict.OK
            argue = partial(_known, finding, unknown=unknown)
            yield Finding("WatchdogBlind", subject, verdict, argue, check=finding.check)


def _known(finding: Finding, *, unknown: bool) -> Argument:
    if unknown:
        return finding.argument
    return Argument(f"the GPU in slot {dict(finding.subject)['slot']}: something is known of it")


def left(readings: Sequence[Reading], subjects: Iterable[Labels]) -> list[Labels]:
    """
    Return which subjects, of a probe and a slot, have no card any more by this round's census.

    Blindness about a card ends when it leaves the bus: its absence says more. So it does where
    another maker's card is in the slot, which this probe does not read.
    """
    listed = next((r.facts.get("gpus") for r in readings if r.probe == "gpus"), None)
    if not isinstance(listed, list):
        return []
    slots = {gpu.get("slot") for gpu in listed}
    read = {(reading.probe, reading.slot) for reading in readings}
    named = ((subject, dict(subject)) for subject in subjects)
    return [
        subject
        for subject, names in named
        if "probe" in names
        and "slot" in names
        and (names["slot"] not in slots or (names["probe"], names["slot"]) not in read)
    ]
