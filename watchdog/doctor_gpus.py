"""`watchdog doctor` on GPUs: which there are, what each source shows, and what it does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from watchdog.build import gpu_probes_now
from watchdog.domain.finding import Verdict
from watchdog.domain.sample import NO_FACTS, Reading
from watchdog.errors import ProbeError
from watchdog.installation import Line
from watchdog.pci import gpus
from watchdog.reader import Probe
from watchdog.settings import Settings
from watchdog.tree import Tree, errno_name


def gpu_steps(
    settings: Settings, patience: float
) -> list[tuple[str, Callable[[], Iterable[Line]]]]:
    """One step for the bus and one for each source of each GPU; `patience` in seconds."""
    steps: list[tuple[str, Callable[[], Iterable[Line]]]] = [("gpus", partial(listed, settings))]
    for probe in gpu_probes_now(settings, patience):
        what = f"{probe.name} {probe.slot}"
        steps.append((what, partial(shows, what, probe, patience)))
    return steps


def listed(settings: Settings) -> Iterator[Line]:
    """Which GPUs the bus has, and whether each is declared."""
    try:
        found = gpus(Tree(settings.gpus.sysfs))
    except OSError as error:
        verdict = Verdict.UNKNOWN if settings.gpus.slots else Verdict.OK
        yield Line(verdict, "gpus", f"no PCI bus below {settings.gpus.sysfs} ({errno_name(error)})")
        return
    if not found:
        yield Line(Verdict.OK, "gpus", "no AMD or NVIDIA GPU on the PCI bus")
        return
    bare = [g.address for g in found if not settings.gpus.slots.keys() & {*g.chain}]
    names = ", ".join(f"{g.address} ({g.device}) in slot {g.slot}" for g in found)
    step = "watchdog links --propose" if bare else ""
    not_declared = f"; not declared, so not judged: {', '.join(bare)}" if bare else ""
    yield Line(Verdict.OK, "gpus", f"{names}{not_declared}", step)
    for gpu in found:
        for key in settings.gpus.slots.keys() & {*gpu.chain[gpu.chain.index(gpu.slot) + 1 :]}:
            detail = f"{key} is declared by an address that changes when a card vanishes"
            yield Line(Verdict.OK, "gpus", detail, f'write "{gpu.slot}", its port, in its place')


def shows(what: str, probe: Probe, patience: float) -> Iterator[Line]:
    """What one source of one GPU shows, and what it cannot."""
    try:
        reading = probe.read(NO_FACTS, time.monotonic() + patience)
    except ProbeError as error:
        yield Line(Verdict.UNKNOWN, what, str(error))
        return
    blanks = list(_blanks(reading))
    but = f"; not told: {', '.join(blanks)}" if blanks else ""
    yield Line(Verdict.OK, what, f"{len(reading.samples)} values read{but}")


def _blanks(reading: Reading) -> Iterator[str]:
    for key in ("unread", "nvml_unread"):
        told = reading.facts.get(key)
        for name, why in told.items() if isinstance(told, dict) else ():
            yield f"{name} ({why})"
    for key, name in (("lost", "the card"), ("holders_unknown", "who holds its memory")):
        if key in reading.facts:
            yield f"{name} ({reading.facts[key]})"
