"""
`watchdog links`: what every GPU's link runs, from the running daemon or from a look of its own.

The daemon's word is better, since its errors "since start" cover hours; but only where it is
fresh, knows the same GPUs and judges by the same declarations. Else some rounds of the GPUs'
probes alone are made, a second apart: no server needs to answer for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from watchdog.build import watchdog_of
from watchdog.checking import daemon_report, is_fresh
from watchdog.domain.finding import Verdict, worst
from watchdog.domain.report import as_json
from watchdog.domain.sample import HOST
from watchdog.errors import CommandError
from watchdog.links_proposal import proposal
from watchdog.links_rows import LINK, LINKS, MISSING, about_links, rows
from watchdog.links_table import table
from watchdog.pci import ASLEEP, Gpu, gpus, of_device
from watchdog.probes import pcie_text
from watchdog.round import rounds
from watchdog.settings import Settings
from watchdog.tree import Tree

__all__ = ["links", "proposal", "table"]

APART: Final = 1.0  # seconds between two rounds of one's own
LEAST_ROUNDS, MOST_ROUNDS = 2, 10
PATIENCE: Final = 5.0
"""Seconds for one reading: NVML takes some to wake a driver that nobody uses."""


def links(settings: Settings) -> dict[str, Any]:
    """
    Return a report (DESIGN 4.2) of this host's GPUs alone, with four keys more.

    `source` is `daemon` or `rounds`, `rounds_seconds` what a look of its own took, `declared`
    what is declared by key, `could` what port and card say that they could do, by slot.
    """
    found = gpus_of(settings)
    report = _of_daemon(settings, found) or _looked(settings)
    slots = {key: slot.model_dump(mode="json") for key, slot in settings.gpus.slots.items()}
    tree = Tree(settings.gpus.sysfs)
    return {
        **_restricted(report),
        "declared": slots,
        "could": {gpu.slot: _could(tree, gpu) for gpu in found},
    }


def gpus_of(settings: Settings) -> list[Gpu]:
    """Return the GPUs on the bus; none where there is no bus."""
    try:
        return gpus(Tree(settings.gpus.sysfs))
    except OSError:
        return []


def _restricted(report: dict[str, Any]) -> dict[str, Any]:
    """Keep what is about links; the verdict is then theirs."""
    findings = [f for f in report["findings"] if about_links(f)]
    return {
        **report,
        "verdict": worst(Verdict[f["verdict"]] for f in findings).name,
        "readings": [r for r in report["readings"] if r["target"] == HOST],
        "findings": findings,
        "alerts": [a for a in report["alerts"] if a["alertname"] in LINKS],
        "paused": {},  # only targets are
    }


# --- a look of its own ---------------------------------------------------------------------------


def _looked(settings: Settings) -> dict[str, Any]:
    """Make as many rounds as the checks need to decide."""
    limits = (settings.checks[name]["rounds"] for name in ("pcie_link", "gpu_present"))
    most = int(min(MOST_ROUNDS, max(LEAST_ROUNDS, *limits)))
    alone = settings.model_copy(update={"targets": (), "interval": APART})
    watchdog = watchdog_of(alone, [])
    watchdog.read_timeout = PATIENCE
    began = watchdog.clock.now()
    report = None
    with closing(watchdog):
        for report in islice(rounds(watchdog), most):
            if not any("slot" in dict(finding.subject) for finding in report.findings):
                break  # no GPU, and none declared
    if report is None:  # only where the clock was stopped
        raise CommandError("stopped before the first round")
    took = round(report.now - began, 1)
    return {**as_json(replace(report, alerts=())), "source": "rounds", "rounds_seconds": took}


# --- the daemon's word ---------------------------------------------------------------------------


def _of_daemon(settings: Settings, found: list[Gpu]) -> dict[str, Any] | None:
    """Return the running daemon's report where it can stand for a look of its own, else None."""
    try:
        report = daemon_report(settings)
    except CommandError:
        return None
    if not is_fresh(report, settings):
        return None
    if not _same_gpus(report, found) or not _same_slots(report, settings):
        return None
    return {**report, "source": "daemon"} if _decided(report) else None


def _same_gpus(report: Mapping[str, Any], found: list[Gpu]) -> bool:
    listed = [r["facts"].get("gpus") for r in report["readings"] if r["probe"] == "gpus"]
    if len(listed) != 1 or listed[0] is None:
        return False
    return {(g["gpu"], g["slot"]) for g in listed[0]} == {(g.address, g.slot) for g in found}


def _same_slots(report: Mapping[str, Any], settings: Settings) -> bool:
    """Whether it judges by what the configuration at hand declares."""
    presence = [f["evidence"] for f in report["findings"] if f["alertname"] == MISSING]
    keys = {proof["slot"]: proof["key"] for proof in presence if proof.get("key")}
    if set(keys.values()) != set(settings.gpus.slots):
        return False
    for finding in report["findings"]:
        proof = finding["evidence"]
        if finding["alertname"] != LINK or proof.get("expected_generation") is None:
            continue
        slot = settings.gpus.slots.get(keys.get(proof["slot"], ""))
        judged_by = (proof["expected_generation"], proof["expected_width"], proof["note"])
        if slot is None or judged_by != (slot.generation, slot.width, slot.note or ""):
            return False
    return True


def _decided(report: Mapping[str, Any]) -> bool:
    """Whether nothing is open that a second round would decide: a daemon that just started."""
    return all(row.decided for row in rows(report))


# --- what the ends could do ----------------------------------------------------------------------


def _could(tree: Tree, gpu: Gpu) -> dict[str, dict[str, float]]:
    """Return speed (GT/s) and width of what the slot's port and the card say they could run."""
    ends = {"port": gpu.slot, "card": gpu.card} if gpu.slot != gpu.address else {"card": gpu.card}
    found: dict[str, dict[str, float]] = {}
    for end, address in ends.items():
        if of_device(tree, address, "power/runtime_status") in ASLEEP:
            continue  # a read would wake it
        speed, width = (of_device(tree, address, f"max_link_{part}") for part in ("speed", "width"))
        link = pcie_text.link(speed, width)
        if link.speed is not None and link.width is not None:
            found[end] = {"speed": link.speed, "width": link.width}
    return found
