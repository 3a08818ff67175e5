"""GPU links and their errors as families of the exposition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from watchdog.domain.families import Family, Key, counter, gauge, number
from watchdog.domain.finding import Finding
from watchdog.domain.link import SPEEDS
from watchdog.domain.report import Report

CARD: Final = ("slot", "gpu")

LEVELS: Mapping[str, tuple[str, str]] = {
    "speed": (
        "watchdog_gpu_link_speed_gigatransfers",
        "Speed per lane of the slot's link or a slower one above it, in gigatransfers a second.",
    ),
    "width": (
        "watchdog_gpu_link_width_lanes",
        "Width of the slot's link, or of a narrower one above it.",
    ),
    "expected_speed": (
        "watchdog_gpu_link_expected_speed_gigatransfers",
        "Speed that the slot is declared to run, in gigatransfers a second.",
    ),
    "expected_width": (
        "watchdog_gpu_link_expected_width_lanes",
        "Width that the slot is declared to run.",
    ),
}
"""Key of a link's evidence: name and help of the gauge that shows it."""


def of_gpus(report: Report) -> Iterator[Family]:
    """Show what the findings about links know; a link that nobody tells has no sample."""
    found: dict[str, dict[Key, float]] = {key: {} for key in LEVELS}
    errors: dict[Key, float] = {}
    for finding in report.findings:
        if finding.check == "pcie_link" and finding.alertname == "GpuLinkDegraded":
            evidence = finding.argument.evidence
            key = (_slot(finding), str(evidence.get("gpu") or ""))
            generation = evidence.get("expected_generation")
            expected = SPEEDS.get(generation) if isinstance(generation, int) else None
            for name, value in {**evidence, "expected_speed": expected}.items():
                level = number(value) if name in LEVELS else None
                if level is not None:
                    found[name][key] = level
        elif finding.check == "pcie_errors":
            errors.update(_errors(finding))
    for name, (metric, about) in LEVELS.items():
        yield gauge(metric, about, CARD, found[name])
    yield counter(
        "watchdog_pcie_errors",
        "Errors since boot that a device on the way to a GPU counted; none counted, no sample.",
        ("slot", "device", "error"),
        errors,
    )


def _slot(finding: Finding) -> str:
    return dict(finding.subject).get("slot", "")


def _errors(finding: Finding) -> Iterator[tuple[Key, float]]:
    devices = finding.argument.evidence.get("since_boot")
    for device, names in devices.items() if isinstance(devices, Mapping) else ():
        for name, count in names.items():
            yield (_slot(finding), str(device), str(name)), float(count)
