"""
The GPUs' part of a recorded folder (DESIGN 4.3): `sys/`, `nvml.json`, `gpu_memory.json`.

What is recorded is what the probes read, no more: the same probes read it again from there.
Each GPU is taken down by a reader of its own, so one that hangs is missing and no other.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from watchdog.domain.sample import HOST, NO_FACTS, Facts, Reading
from watchdog.errors import CommandError, NoAnswer, ProbeError
from watchdog.pci import ADDRESS, MOST_GPUS, Gpu, gpu_at, gpus
from watchdog.probes.gpu_memory import GpuMemory
from watchdog.probes.gpus import Gpus
from watchdog.probes.launch import Launch, place_of
from watchdog.probes.nvml import Nvml, reading_of
from watchdog.probes.nvml_words import failed
from watchdog.probes.pcie_sysfs import PcieSysfs
from watchdog.reader import Probe, Readers
from watchdog.tree import ERRNO, Tree, errno_name

SYS, NVML, MEMORY = "sys", "nvml.json", "gpu_memory.json"
LARGEST: Final = 1 << 20  # bytes of nvml.json or gpu_memory.json
LARGEST_LAUNCH: Final = 8 << 20
"""Bytes of what was learned of processes: an environment of 1 MiB has six times that as JSON."""
MOST_LINKS: Final = 40
"""Symbolic links on one way, as the kernel allows."""


@dataclass
class Taken:
    """What was taken down: files and links below `sys/`, NVML's answers, memory's holders."""

    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    nvml: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)

    def add(self, other: Taken) -> None:
        """Join what another reader took down."""
        self.files |= other.files
        self.links |= other.links
        self.folders |= other.folders
        self.nvml |= other.nvml
        self.memory |= other.memory

    def write(self, directory: Path) -> None:
        """Write it below a snapshot's folder. Raises OSError."""
        for place in self.folders:
            (directory / SYS / place).mkdir(parents=True, exist_ok=True)
        for place, body in self.files.items():
            file = directory / SYS / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
        for place, target in self.links.items():
            link = directory / SYS / place
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        for name, answers in ((NVML, self.nvml), (MEMORY, self.memory)):
            if answers:
                text = json.dumps(answers, indent=1, sort_keys=True)
                (directory / name).write_text(text + "\n", encoding="utf-8")


NO_GPUS: Final = Taken()


@dataclass(frozen=True)
class NotingTree(Tree):
    """Reads as any tree, and keeps what it read: bodies, errors, and the links on the way."""

    taken: Taken = field(default_factory=Taken)

    def data(self, path: str, most: int = 4096) -> bytes:
        place = self._place(path)
        try:
            body = super().data(path, most)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.taken.files[place + ERRNO] = errno_name(error).encode()
            raise
        if len(body) >= len(self.taken.files.get(place, b"")):
            self.taken.files[place] = body
        return body

    def names(self, path: str) -> list[str]:
        found = super().names(path)
        self.taken.folders.add(self._place(path))
        return found

    def _place(self, path: str) -> str:
        """Return where a path leads, link by link; the links are kept as they are."""
        done: list[str] = []
        todo = path.split("/")
        links = 0
        while todo:
            part = todo.pop(0)
            if part == "..":
                done = done[:-1]
                continue
            here = "/".join([*done, part])
            if links < MOST_LINKS and (self.root / here).is_symlink():
                target = os.readlink(self.root / here)  # noqa: PTH115  (its text, as it is)
                if not target.startswith("/"):
                    links += 1
                    self.taken.links[here] = target
                    todo = target.split("/") + todo
                    continue
            done.append(part)
        return "/".join(part for part in done if part != ".")


@dataclass
class _Taker:
    """A probe that takes one GPU down, by the probes that would read it."""

    gpu: Gpu
    probes: Sequence[Probe]
    taken: Taken = field(default_factory=Taken)
    name: str = "capture"
    target: str = HOST

    @property
    def slot(self) -> str:
        return self.gpu.slot

    def read(self, known: Facts, deadline: float) -> Reading:  # noqa: ARG002  (all is recorded)
        taken = Taken()
        for probe in self.probes:
            if isinstance(probe, Nvml) and probe.spared() is None:
                taken.nvml[probe.address] = _asked(probe, deadline)
            elif isinstance(probe, (PcieSysfs, GpuMemory)):
                tree = NotingTree(probe.tree.root, taken)
                with contextlib.suppress(OSError):
                    gpu_at(tree, self.gpu.address)
                with contextlib.suppress(ProbeError):  # what could be read is kept
                    facts = replace(probe, tree=tree).read(NO_FACTS, deadline).facts
                    if isinstance(probe, GpuMemory):
                        taken.memory[self.slot] = dict(facts)
        self.taken = taken
        return Reading(self.name, self.target, slot=self.slot)

    def close(self) -> None:
        for probe in self.probes:
            probe.close()


class GpuRecorder:
    """Takes this host's GPUs down, again and again; `probes` are theirs."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        found = [probe.gpu for probe in probes if isinstance(probe, PcieSysfs)]
        self._takers = [
            _Taker(gpu, [probe for probe in probes if probe.slot == gpu.slot]) for gpu in found
        ]
        self._readers = Readers(self._takers)

    @property
    def count(self) -> int:
        """How many GPUs there are."""
        return len(self._takers)

    def take(self, seconds: float) -> Taken:
        """Take all down within so many seconds; a GPU that hangs is not in it."""
        whole = Taken(folders={"bus/pci/devices"} if self._takers else set())
        readings = self._readers.read_all(seconds)
        for taker, reading in zip(self._takers, readings, strict=True):
            if reading.error is None:
                whole.add(taker.taken)
        return whole

    def close(self) -> None:
        """Let the readers go."""
        self._readers.close()


def _asked(probe: Nvml, deadline: float) -> dict[str, Any]:
    try:
        return probe.ask(deadline)
    except ProbeError as error:
        return failed(error)


def recorded(folder: Path) -> Iterator[Reading]:
    """Yield the readings of the GPUs in one snapshot. Raises CommandError."""
    tree = Tree(folder / SYS)
    nvml, memory = json_of(folder / NVML), json_of(folder / MEMORY)
    found: list[Gpu] = []
    if tree.has("."):
        yield Gpus(tree).read(NO_FACTS, 0.0)
        with contextlib.suppress(OSError):
            found = gpus(tree)
    for gpu in found:
        yield _read(PcieSysfs(gpu.slot, gpu, tree))
        if gpu.vendor == "amd":
            yield _of_memory(gpu, tree, memory.get(gpu.slot))
    slots = {gpu.address: gpu.slot for gpu in found}
    for written, answers in nvml.items():
        address = _short(written)
        reading = _of_nvml(slots.get(address, address), answers)
        if address not in slots and reading.error is None:  # no sys/ says where it sits
            reading = replace(reading, facts={"gpu": address, "chain": [address], **reading.facts})
        yield reading


def _short(address: str) -> str:
    """Return an address as sysfs writes it; NVML writes the domain with eight digits."""
    address = address.lower()
    return address[4:] if address.startswith("0000") and address.find(":") == 8 else address


def _read(probe: PcieSysfs | GpuMemory) -> Reading:
    return _or_failed(probe.name, probe.slot, lambda: probe.read(NO_FACTS, 0.0))


def _or_failed(name: str, slot: str, read: Callable[[], Reading]) -> Reading:
    """Read, and make of a failure the reading that says so, as a reader does."""
    try:
        return read()
    except ProbeError as error:
        answered = not isinstance(error, NoAnswer)
        return Reading(name, HOST, error=str(error), answered=answered, slot=slot)


def _of_memory(gpu: Gpu, tree: Tree, facts: object) -> Reading:
    """Read the bytes from the tree; who held them is told by the recording, not by this host."""
    reading = _read(GpuMemory(gpu.slot, gpu, tree, proc=tree.root / "no-proc"))
    if isinstance(facts, Mapping):
        own = {k: v for k, v in reading.facts.items() if not k.startswith("holders")}
        reading = replace(reading, facts={**own, **facts})
    return reading


def _of_nvml(slot: str, answers: object) -> Reading:
    told = answers if isinstance(answers, Mapping) else {}
    return _or_failed(Nvml.name, slot, lambda: reading_of(slot, told))


def launch_of(file: Path, tree: Tree) -> Reading:
    """
    Read what was learned of a target's processes in one snapshot. Raises CommandError.

    A GPU may be told by its address alone: where it sits is then read from the snapshot.
    """
    facts, target = json_of(file, LARGEST_LAUNCH), unquote(file.name.removesuffix(".json"))
    for key in ("gpus", "places"):
        if isinstance(facts.get(key), list):
            facts[key] = [_held(entry, tree) for entry in facts[key][:MOST_GPUS]]
    return Reading(Launch.name, target, facts=facts)


def _held(entry: object, tree: Tree) -> dict[str, object]:
    told: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {"gpu": entry}
    address = str(told.get("gpu"))
    gpu = None
    with contextlib.suppress(OSError):
        gpu = gpu_at(tree, address) if ADDRESS.fullmatch(address) else None
    place = {} if gpu is None else place_of(tree, gpu)
    own = {k: told[k] for k in ("socket", "numa") if isinstance(told.get(k), int)}
    own |= {k: told[k] for k in ("slot", "root") if isinstance(told.get(k), str)}
    pids = told.get("pids")
    known = [pid for pid in pids if isinstance(pid, int)] if isinstance(pids, list) else []
    return {"gpu": address, **place, **own, "pids": known}


def json_of(file: Path, most: int = LARGEST) -> dict[str, Any]:
    """Return a JSON object from a file; nothing where there is none. Raises CommandError."""
    try:
        with file.open("rb") as stream:
            body = stream.read(most + 1)
        data = json.loads(body)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CommandError(f"cannot read {file}: {(error.strerror or '?').lower()}") from error
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file}: is no JSON: {error}") from error
    if not isinstance(data, dict) or len(body) > most:
        raise CommandError(f"{file}: is no JSON object of at most {most} bytes")
    return data
