"""
AMD's compute driver in sysfs: its GPUs, and how much each process holds of each; for all to read.

A process is booked on every GPU that it opened; only bytes say that it uses one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from watchdog.tree import Tree

KFD: Final = "class/kfd/kfd"
MOST_NODES: Final = 1024

Memory = dict[str, int | None]
"""Bytes by GPU address; None where there is some, or may be, and nobody tells how much."""


def kfd_gpus(tree: Tree) -> dict[int, str]:
    """Return the addresses of KFD's GPUs by its number for them. Raises OSError without KFD."""
    found = {}
    for node in tree.names(f"{KFD}/topology/nodes")[:MOST_NODES]:
        number, address = _node(tree, f"{KFD}/topology/nodes/{node}")
        if number:  # 0 is a CPU
            found[number] = address
    return found


def kfd_archs(tree: Tree) -> list[str]:
    """
    Return the architecture of each GPU, such as gfx1201, in KFD's order. Raises OSError.

    `gfx_target_version` is 10,000 x major + 100 x minor + stepping, the last two in hexadecimal
    digits of the name: 120001 is gfx1201, 90010 gfx90a.
    """
    found = []
    for node in tree.names(f"{KFD}/topology/nodes")[:MOST_NODES]:
        words = _properties(tree, f"{KFD}/topology/nodes/{node}")
        version = int(words.get("gfx_target_version", "0"))
        if version:  # 0 is a CPU
            found.append(f"gfx{version // 10_000}{version // 100 % 100:x}{version % 100:x}")
    return found


def kfd_memory(tree: Tree) -> dict[int, Memory]:
    """Return what each ROCm process holds of each GPU. Raises OSError."""
    gpus = kfd_gpus(tree)
    names = [name for name in tree.names(f"{KFD}/proc") if name.isdecimal()]
    return {int(name): _booked(tree, f"{KFD}/proc/{name}", gpus) for name in names}


def _node(tree: Tree, place: str) -> tuple[int, str]:
    """Return a node's number and address; 0 for one that is no GPU or of another container."""
    try:
        number = int(tree.text(f"{place}/gpu_id"))
        words = _properties(tree, place)
        at, domain = int(words["location_id"]), int(words.get("domain", "0"))
    except (OSError, KeyError, ValueError):
        return 0, ""
    bus, device, function = at >> 8 & 0xFF, at >> 3 & 0x1F, at & 0x7
    return number, f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def _properties(tree: Tree, place: str) -> dict[str, str]:
    """Return a node's properties by name. Raises OSError."""
    lines = tree.text(f"{place}/properties").splitlines()
    return dict(line.split(None, 1) for line in lines if " " in line)


def _booked(tree: Tree, place: str, gpus: Mapping[int, str], *, inner: bool = False) -> Memory:
    """Add up a process's books; newer kernels keep further ones in folders `context_<n>`."""
    memory: Memory = {}
    try:
        names = tree.names(place)
    except FileNotFoundError:  # it ended meanwhile
        return memory
    for name in names:
        kind, _, number = name.partition("_")
        if kind == "vram" and number.isdecimal() and int(number) in gpus:
            _add(memory, gpus[int(number)], _bytes(tree, f"{place}/{name}"))
        elif kind == "context" and not inner:
            for address, more in _booked(tree, f"{place}/{name}", gpus, inner=True).items():
                _add(memory, address, more)
    return memory


def _add(memory: Memory, address: str, more: int | None) -> None:
    before = memory.get(address, 0)
    memory[address] = None if before is None or more is None else before + more


def _bytes(tree: Tree, file: str) -> int | None:
    try:
        return int(tree.text(file))
    except FileNotFoundError:  # it ended meanwhile
        return 0
    except (OSError, ValueError):
        return None
