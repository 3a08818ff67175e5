"""Settings to a Watchdog that is ready for its first round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from watchdog import __version__
from watchdog.clock import Clock
from watchdog.config import access_of, checks_for, host_profile, profile_of
from watchdog.domain.assess import Assessor, Watch
from watchdog.domain.history import History
from watchdog.domain.sample import HOST
from watchdog.pci import Gpu
from watchdog.probes.gpu_memory import GpuMemory
from watchdog.probes.gpus import Gpus
from watchdog.probes.launch import Launch, is_here
from watchdog.probes.nvml import Nvml
from watchdog.probes.pcie_sysfs import PcieSysfs
from watchdog.probes.vllm_metrics import VllmMetrics
from watchdog.reader import Probe, Readers
from watchdog.round import Watchdog
from watchdog.settings import Settings
from watchdog.sinks import Sink
from watchdog.sinks.alertmanager import Alertmanager, AlertmanagerSink
from watchdog.tree import Tree

GAP = 2.5
"""Intervals between two readings above which one was missed."""


def watchdog_of(settings: Settings, sinks: Sequence[Sink], clock: Clock | None = None) -> Watchdog:
    """Put everything together; `sinks` come from the command that runs it."""
    clock = clock or Clock()
    patience = min(10.0, max(0.8, settings.interval / clock.speed / 3))
    return Watchdog(
        Readers(probes_of(settings), partial(gpu_probes, settings)),
        assessor_of(settings, gap_after=GAP * settings.interval),
        sinks,
        settings.interval,
        clock,
        read_timeout=patience,
        send_timeout=patience,
    )


def probes_of(settings: Settings) -> list[Probe]:
    """Make the probes of every target, and the one that lists this host's GPUs."""
    tree = Tree(settings.gpus.sysfs)
    probes: list[Probe] = [Gpus(tree)]
    for target in settings.targets:
        probes.append(VllmMetrics(target.name, target.url, access_of(target)))
        probes.append(Launch(target.name, target.url, tree))
    return probes


def gpu_probes(settings: Settings, listed: Iterable[Mapping[str, Any]]) -> list[Probe]:
    """Make the probes of each GPU of a census: one that hangs costs only itself."""
    tree, probes = Tree(settings.gpus.sysfs), list[Probe]()
    for gpu in map(Gpu.of, listed):
        probes.append(PcieSysfs(gpu.slot, gpu, tree))
        if gpu.vendor == "nvidia":
            probes.append(Nvml(gpu.slot, gpu.address, tree=tree))
        else:
            library = settings.gpus.pyamdgpuinfo
            probes.append(GpuMemory(gpu.slot, gpu, tree, library=library))
    return probes


def gpu_probes_now(settings: Settings, seconds: float) -> list[Probe]:
    """Make those of the GPUs that are there now; none where the bus hangs for so many seconds."""
    readers = Readers([Gpus(Tree(settings.gpus.sysfs))])
    [census] = readers.read_all(seconds)
    readers.close()
    listed: Any = census.facts.get("gpus", ())
    return gpu_probes(settings, listed)


def assessor_of(settings: Settings, gap_after: float = float("inf")) -> Assessor:
    """Make the pure middle; a replay needs no more than this."""
    watches = {
        HOST: Watch(
            History(HOST, host_profile(settings), gap_after), checks_for(settings, HOST), here=True
        )
    }
    for target in settings.targets:
        watches[target.name] = Watch(
            History(target.name, profile_of(settings, target), gap_after),
            checks_for(settings, target.name),
            here=is_here(target.url),
        )
    labels = tuple(sorted(settings.alerting.labels.items()))
    return Assessor(settings.host, __version__, watches, labels=labels)


def alertmanager_of(settings: Settings) -> list[Sink]:
    """Make the Alertmanager sink, where instances are configured."""
    instances = tuple(
        Alertmanager(part.url, access_of(part)) for part in settings.alerting.alertmanagers
    )
    return [AlertmanagerSink(instances, interval=settings.interval)] if instances else []
