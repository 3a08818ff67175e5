"""Settings to a Watchdog that is ready for its first round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from watchdog import __version__
from watchdog.board import Board
from watchdog.clock import Clock
from watchdog.config import access_of, checks_for, host_profile, profile_of
from watchdog.declared_servers import Declared
from watchdog.domain.assess import Assessor, Watch
from watchdog.domain.exposition import expose
from watchdog.domain.history import History
from watchdog.domain.report import Delivery, Report
from watchdog.domain.sample import HOST
from watchdog.errors import ConfigError
from watchdog.fetch import Fetcher
from watchdog.fields import secret_url
from watchdog.pci import Gpu
from watchdog.posting import Address
from watchdog.probes.compile_cache import CompileCache
from watchdog.probes.gpu_memory import GpuMemory
from watchdog.probes.gpus import Gpus
from watchdog.probes.launch import Launch, is_here
from watchdog.probes.nvml import Nvml
from watchdog.probes.pcie_sysfs import PcieSysfs
from watchdog.probes.server_log import ServerLog
from watchdog.probes.vllm_metrics import VllmMetrics
from watchdog.reader import Probe, Readers
from watchdog.round import Watchdog
from watchdog.settings import PingSettings, Settings, Target, WebhookSettings
from watchdog.settings_alerting import expanded
from watchdog.sinks import Sink
from watchdog.sinks.alertmanager import Alertmanager, AlertmanagerSink
from watchdog.sinks.log import Log
from watchdog.sinks.ping import Ping
from watchdog.sinks.textfile import Textfile
from watchdog.sinks.webhook import Outbox, Webhook, WebhookSink
from watchdog.tree import Tree

MOST_ADDRESS = 4096
"""Characters of a file that holds an address."""

GAP = 2.5
"""Intervals between two readings above which one was missed."""


def watchdog_of(
    settings: Settings,
    sinks: Sequence[Sink],
    clock: Clock | None = None,
    more: Sequence[Probe] = (),
) -> Watchdog:
    """Put everything together; `sinks`, and probes beyond those of the settings, are handed in."""
    clock = clock or Clock()
    patience = min(10.0, max(0.8, settings.interval / clock.speed / 3))
    return Watchdog(
        Readers([*probes_of(settings), *more], partial(gpu_probes, settings)),
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
        declared = _declared(target)
        factors = target.cache.factors
        probes.append(
            Launch(target.name, target.url, tree, declared=declared, more=factors.add,
                   less=factors.ignore)
        )  # fmt: skip
        if declared.given or is_here(target.url):
            probes.append(CompileCache(target.name, target.cache.directory))
        log = expanded(target.launch.log)
        if log is not None:
            probes.append(ServerLog(target.name, log))
    return probes


def _declared(target: Target) -> Declared:
    """Return what names the target's processes: such a target runs on this host."""
    launch = target.launch
    return Declared(launch.systemd_unit, launch.container, launch.pid_file)


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
            here=_declared(target).given or is_here(target.url),
            source=target.url,
        )
    labels = tuple(sorted(settings.alerting.labels.items()))
    return Assessor(settings.host, __version__, watches, labels=labels)


def sinks_of(settings: Settings, outbox: Outbox, board: Board, clock: Clock) -> list[Sink]:
    """Make every sink that is configured; the log always is."""
    alerting, sinks = settings.alerting, list[Sink]([Log()])
    if alerting.alertmanagers:
        instances = tuple(Alertmanager(p.url, access_of(p)) for p in alerting.alertmanagers)
        sinks.append(
            AlertmanagerSink(instances, interval=settings.interval, heartbeat=alerting.heartbeat)
        )
    hooks = [_webhook(part, outbox, clock) for part in alerting.webhooks]
    sinks += [hook for hook in hooks if isinstance(hook, Unready)]
    ready = tuple(hook for hook in hooks if isinstance(hook, Webhook))
    if ready:
        sinks.append(WebhookSink(ready))
    if alerting.textfile is not None:
        sinks.append(Textfile(alerting.textfile, lambda r: expose(r, board.totals(), __version__)))
    if alerting.ping is not None:
        sinks.append(_ping(alerting.ping, board))
    return sinks


def _webhook(part: WebhookSettings, outbox: Outbox, clock: Clock) -> Webhook | Unready:
    try:
        url = address_of(part)
    except ConfigError as error:
        return Unready("webhook", part.name, error.faults[0])
    return Webhook(part.name, url, access_of(part), outbox=outbox, clock=clock)


def _ping(part: PingSettings, board: Board) -> Sink:
    try:
        url = address_of(part)
    except ConfigError as error:
        return Unready("ping", _shown(part), error.faults[0])
    return Ping(url, part.start_url, part.fail_url, lambda: "; ".join(board.unreached()))


@dataclass(frozen=True)
class Unready:
    """Stands for a place whose address cannot be read: told each round, and no end of watching."""

    name: str
    instance: str
    why: str

    def send(self, report: Report, deadline: float) -> list[Delivery]:
        """Say that nothing was sent."""
        del report, deadline
        return [Delivery(self.name, self.instance, ok=False, detail=self.why, count=1)]


def places_of(settings: Settings) -> list[tuple[str, str]]:
    """Return each place that is told, by its sink and by the name that its deliveries have."""
    alerting = settings.alerting
    places = [("log", "stderr")]
    places += [("alertmanager", Fetcher(part.url).shown) for part in alerting.alertmanagers]
    places += [("webhook", name) for name in destinations_of(settings)]
    if alerting.textfile is not None:
        places.append(("textfile", str(alerting.textfile)))
    if alerting.ping is not None:
        places.append(("ping", _shown(alerting.ping)))
    return places


def _shown(part: PingSettings) -> str:
    """Name a ping's place as its deliveries do."""
    try:
        return Address(address_of(part)).shown
    except ConfigError:
        return "ping"


def destinations_of(settings: Settings) -> list[str]:
    """Return the names that notices are kept for."""
    return [webhook.name for webhook in settings.alerting.webhooks]


def address_of(part: WebhookSettings | PingSettings) -> str:
    """Return the address, from its file where it is a secret. ConfigError if that has none."""
    if part.url is not None:
        return part.url
    path = expanded(part.url_file)
    try:
        with open(path or "", encoding="utf-8") as file:  # noqa: PTH123
            return secret_url(file.read(MOST_ADDRESS))
    except (OSError, ValueError) as error:
        why = (error.strerror or "?").lower() if isinstance(error, OSError) else str(error)
        raise ConfigError([f"alerting: url_file: {path}: {why}"]) from None


def marks_of(settings: Settings, target: str) -> list[tuple[str, float]]:
    """Return what a target's acceptance length is held against: a word and tokens, each."""
    checks = checks_for(settings, target)
    marks = [("dead drafter", 1 + checks["acceptance_length"].floor)]
    expect = next((part.expect for part in settings.targets if part.name == target), None)
    if expect is not None and expect.acceptance_length is not None:
        declared, limits = expect.acceptance_length, checks["declared_length"]
        marks.append(("declared", declared))
        marks.append((f"degraded below {limits.low_day:.0%} of it", limits.low_day * declared))
    return marks
