"""
How much memory of an AMD GPU is in use, and which processes hold it.

Bytes come from sysfs (`mem_info_vram_*`) or, where asked for, from pyamdgpuinfo, which has the
same figures of the same driver. NVIDIA's memory is told by NVML. A suspended GPU is left asleep.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from watchdog.domain import series as s
from watchdog.domain.sample import HOST, Facts, Reading, Sample, labels
from watchdog.errors import NoAnswer, NotUnderstood
from watchdog.holders import Held, holders_of
from watchdog.pci import ASLEEP, BUS, Gpu, of_device
from watchdog.tree import Tree, errno_name

LITTLE: Final = 256 * 2**20
"""Bytes in use below which nobody's open files are searched: a driver keeps some for itself."""

MOST_PIDS: Final = 64


@dataclass(frozen=True)
class GpuMemory:
    """`slot` names the GPU. `library`: read the bytes through pyamdgpuinfo (GPL, an extra)."""

    slot: str
    gpu: Gpu
    tree: Tree = field(default_factory=Tree)
    proc: Path = Path("/proc")
    library: bool = False
    target: str = HOST
    name: str = "gpu_memory"

    def read(self, known: Facts, deadline: float) -> Reading:  # noqa: ARG002  (nothing to carry over)
        """
        Return bytes in use and in all, and who holds them; `deadline` in monotonic seconds.

        Raises NoAnswer where the driver does not tell, NotUnderstood where it makes no sense.
        """
        if self._asleep():
            return Reading(self.name, self.target, facts={"memory_asleep": True}, slot=self.slot)
        if self.library:
            used, total = _by_library(self.gpu.address)
        elif self._without_driver():
            facts = {"memory_unknown": "amdgpu does not drive this card"}
            return Reading(self.name, self.target, facts=facts, slot=self.slot)
        else:
            used, total = self._bytes("used"), self._bytes("total")
        held = holders_of(self.gpu.address, self.tree, self.proc, deadline, search=used >= LITTLE)
        subject = labels(slot=self.slot)
        return Reading(
            self.name,
            self.target,
            (Sample(subject, s.MEMORY_USED, used), Sample(subject, s.MEMORY_TOTAL, total)),
            {"memory_by": "pyamdgpuinfo" if self.library else "sysfs", **_facts(held)},
            slot=self.slot,
        )

    def close(self) -> None:
        """Nothing blocks."""

    def _asleep(self) -> bool:
        """Whether the GPU is suspended: a question could wake it."""
        return of_device(self.tree, self.gpu.address, "power/runtime_status") in ASLEEP

    def _without_driver(self) -> bool:
        """Whether the card is there and no file of amdgpu is: given to a virtual machine, say."""
        place = f"{BUS}/{self.gpu.address}"
        return self.tree.has(place) and not self.tree.has(f"{place}/mem_info_vram_total")

    def _bytes(self, which: str) -> float:
        file = f"mem_info_vram_{which}"
        try:
            text = self.tree.text(f"{BUS}/{self.gpu.address}/{file}", 64).strip()
        except OSError as error:
            raise NoAnswer(f"{self.gpu.address}/{file}: {errno_name(error)}") from error
        if not text.isascii() or not text.isdecimal():
            raise NotUnderstood(f"{self.gpu.address}/{file} is no number of bytes: {text!r}")
        return float(text)


def _facts(held: Held) -> dict[str, object]:
    facts: dict[str, object] = {}
    if held.pids is None:
        facts["holders_unknown"] = held.why
    else:
        facts["holders"] = sorted(held.pids)[:MOST_PIDS]
    if held.gone:
        facts["holders_gone"] = sorted(held.gone)[:MOST_PIDS]
    return facts


def _by_library(address: str) -> tuple[float, float]:
    try:
        device = _device(address)
        return float(device.query_vram_usage()), float(device.memory_info["vram_size"])
    except ImportError as error:
        raise NoAnswer("pyamdgpuinfo is asked for and not installed") from error
    except (OSError, RuntimeError, KeyError) as error:
        _device.cache_clear()  # a card that came back is another device
        raise NoAnswer(f"pyamdgpuinfo: {error}") from error


@lru_cache(maxsize=64)
def _device(address: str) -> Any:
    """Open a GPU once: the library has no close."""
    import pyamdgpuinfo  # type: ignore[import-not-found]  # noqa: PLC0415  (GPL, and an extra)

    for number in range(pyamdgpuinfo.detect_gpus()):
        device = pyamdgpuinfo.get_gpu(number)
        if str(device.pci_slot).lower() == address:
            return device
    raise RuntimeError(f"it does not know {address}")
