"""
One GPU's link as sysfs tells it: every witness, and the error counters of its whole chain.

The slot's link lies between the slot's port and the card's end; `pp_dpm_pcie` states it a second
time, from the card's firmware. What the function of a card with a switch of its own says is the
link inside the card. Nothing is judged here. `pcie_bw` is never read: it blocks for a second.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from watchdog.domain import series as s
from watchdog.domain.sample import HOST, Facts, Reading, Sample, labels
from watchdog.errors import NoAnswer
from watchdog.pci import ASLEEP, BUS, Gpu, driver_of, numa_of, of_device
from watchdog.probes import gpu_metrics, pcie_text
from watchdog.tree import Tree, errno_name

AER: Final = (
    ("aer_dev_correctable", s.CORRECTABLE),
    ("aer_dev_nonfatal", s.NONFATAL),
    ("aer_dev_fatal", s.FATAL),
)
HOSTS: Final = {"0x8086": "intel", "0x1022": "amd"}


@dataclass(frozen=True)
class PcieSysfs:
    """Reads the GPU `gpu` in the slot `slot` below `tree` (/sys or a recording)."""

    slot: str
    gpu: Gpu
    tree: Tree
    name: str = "pcie_sysfs"
    target: str = HOST

    def read(self, known: Facts, deadline: float) -> Reading:  # noqa: ARG002  (some small files)
        """Return samples and facts; a file that cannot be read is told in the fact `unread`."""
        if not self.tree.has(f"{BUS}/{self.gpu.address}"):
            raise NoAnswer(f"{self.gpu.address} is no longer on the PCI bus")
        return _Look(self.gpu, self.tree).reading(self.name, self.slot)

    def close(self) -> None:
        """Nothing blocks for long; a device that hangs in a read cannot be freed from here."""


@dataclass
class _Look:
    """One look at one GPU: what was read, and what could not be."""

    gpu: Gpu
    tree: Tree
    levels: dict[str, float] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def reading(self, probe: str, slot: str) -> Reading:
        self._place()
        self._links()
        if self.gpu.vendor == "amd":
            self._amdgpu()
        self._errors()
        self.facts["unread"] = self.unread
        subject = labels(slot=slot)
        samples = tuple(Sample(subject, word, value) for word, value in self.levels.items())
        return Reading(probe, HOST, samples, self.facts, slot=slot)

    def _place(self) -> None:
        """Where the card sits, and who it is."""
        gpu = self.gpu
        self.facts |= {
            "gpu": gpu.address,
            "slot": gpu.slot,
            "chain": list(gpu.chain),
            "vendor": gpu.vendor,
            "device": gpu.device,
            "card": f"{gpu.vendor.upper()} {gpu.device}",
            "host": self._host(),
            "numa": numa_of(self.tree, gpu.address),
            "root": gpu.root,
            "driver": driver_of(self.tree, gpu.address),
            "runtime": of_device(self.tree, gpu.address, "power/runtime_status") or "unknown",
            "switch": gpu.switch,
            "rows": [],
            "stars": None,
        }

    def _host(self) -> str:
        """Whose root port it is; on the root bus itself, whose host bridge."""
        first = self.gpu.chain[0]
        if first == self.gpu.address:
            first = f"{self.gpu.root.removeprefix('pci')}:00.0"
        return HOSTS.get(of_device(self.tree, first, "vendor"), "other")

    def _asleep(self, address: str) -> bool:
        return of_device(self.tree, address, "power/runtime_status") in ASLEEP

    def _links(self) -> None:
        """Both ends of the slot's link, the inside of the card, and the links above the slot."""
        gpu = self.gpu
        if gpu.slot != gpu.address:
            self._witness(s.PORT, self._link(s.PORT, gpu.slot))
        self._witness(s.CARD, self._link(s.CARD, gpu.card))
        if gpu.switch:
            self._witness(s.FUNCTION, self._link(s.FUNCTION, gpu.address))
        above = gpu.chain[: gpu.chain.index(gpu.slot)]
        links = [self._link(f"{s.PATH} {address}", address) for address in above]
        self._witness(
            s.PATH,
            pcie_text.Link(
                min((link.speed for link in links if link.speed), default=None),
                min((link.width for link in links if link.width), default=None),
            ),
        )

    def _link(self, name: str, address: str) -> pcie_text.Link:
        """Read one end of a link; `name` is what it is called in `unread`."""
        if self._asleep(address):
            self.unread[name] = "suspended: a read would wake it"
            return pcie_text.Link()
        try:
            speed = self.tree.text(f"{BUS}/{address}/current_link_speed", 256)
            width = self.tree.text(f"{BUS}/{address}/current_link_width", 256)
        except OSError as error:
            self.unread[name] = _why(error)
            return pcie_text.Link()
        link = pcie_text.link(speed, width)
        if link.reason:
            self.unread[name] = link.reason
        return link

    def _witness(self, who: str, link: pcie_text.Link) -> None:
        if link.speed is not None:
            self.levels[s.LINK_SPEED + who] = link.speed
        if link.width is not None:
            self.levels[s.LINK_WIDTH + who] = float(link.width)

    def _amdgpu(self) -> None:
        """What only the driver of an awake Radeon tells."""
        if self.facts["runtime"] in ASLEEP:
            asleep = "suspended: a read would wake it"
            self.unread |= dict.fromkeys((s.STARRED, s.METRICS, s.UTILISATION), asleep)
            return
        told = self._starred()
        self._witness(s.STARRED, pcie_text.Link(told.speed, told.width))
        if told.speed is None:
            self._witness(s.METRICS, self._metrics())
        self._busy()

    def _starred(self) -> pcie_text.Starred:
        try:
            told = pcie_text.starred(self.tree.text(f"{BUS}/{self.gpu.address}/pp_dpm_pcie"))
        except OSError as error:
            told = pcie_text.Starred(reason=_why(error))
        self.facts |= {"rows": list(told.rows), "stars": told.stars}
        if told.reason:
            self.unread[s.STARRED] = told.reason
        if told.ambiguous:
            self.facts["ambiguous"] = True
        return told

    def _metrics(self) -> pcie_text.Link:
        try:
            link = gpu_metrics.link(self.tree.data(f"{BUS}/{self.gpu.address}/gpu_metrics"))
        except OSError as error:
            link = pcie_text.Link(reason=_why(error))
        if link.reason:
            self.unread[s.METRICS] = link.reason
        return link

    def _busy(self) -> None:
        try:
            text = self.tree.text(f"{BUS}/{self.gpu.address}/gpu_busy_percent", 64).strip()
        except OSError as error:
            self.unread[s.UTILISATION] = _why(error)
            return
        if text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 100:
            self.levels[s.UTILISATION] = float(text)
        else:
            self.unread[s.UTILISATION] = pcie_text.shown(text)

    def _errors(self) -> None:
        """Counters of each device of the chain: they are kernel memory and wake nothing."""
        for address in self.gpu.chain:
            for file, word in AER:
                for name, count in self._counters(address, file):
                    self.levels[f"{word}{address} {name}"] = float(count)

    def _counters(self, address: str, file: str) -> Iterator[tuple[str, int]]:
        try:
            found = pcie_text.counters(self.tree.text(f"{BUS}/{address}/{file}"))
        except OSError as error:
            self.unread[f"{address} {file}"] = _why(error)
            return
        if not found:
            self.unread[f"{address} {file}"] = "not understood"
        yield from found.items()


def _why(error: OSError) -> str:
    return "absent" if error.errno == errno.ENOENT else errno_name(error)
