"""
Which GPUs the host has, and the way from the root port to each.

A Radeon card may carry a switch of its own: root port -> 1002:1478 -> 1002:1479 -> GPU. What
the GPU's function says of its link is then about the inside of the card. The kernel skips these
bridges too when it looks for the slot (amdgpu_device_partner_bandwidth). The slot is named by
its port, the first bridge upward that is not the card's: cards renumber when one vanishes,
ports do not.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from watchdog.tree import Tree

BUS: Final = "bus/pci/devices"
AMD, NVIDIA = "0x1002", "0x10de"
VENDORS: Final = {AMD: "amd", NVIDIA: "nvidia"}
CLASSES: Final = ("0x0300", "0x0302", "0x0380", "0x1200")
"""VGA, 3D and other display controllers; processing accelerators (MI300)."""

MOST_GPUS: Final = 64
ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")

ASLEEP: Final = ("suspended", "suspending")
"""Runtime states in which a read may wake a device, or fail."""

_HEX: Final = re.compile(r"0x[0-9a-f]{4,6}")
_SPEED: Final = re.compile(r"\s*(\d+(?:\.\d+)?) ?GT/s(?: PCIe)?\s*")


class Gpu(NamedTuple):
    """
    One GPU by its addresses.

    `chain` runs from the root port to the function; `slot` is the port that the card is plugged
    into, the function itself where it sits on the root bus. `device` is `1002:7551`. `switch`:
    the card carries a switch of its own.
    """

    address: str
    slot: str
    chain: tuple[str, ...]
    vendor: str
    device: str
    root: str
    switch: bool = False

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Gpu:
        """Make it of its entry in the fact `gpus` (see `as_fact`)."""
        values = {name: told[name] for name in ("slot", "vendor", "device", "root", "switch")}
        return cls(address=told["gpu"], chain=tuple(told["chain"]), **values)

    def as_fact(self) -> dict[str, object]:
        """Return it as plain data, its address as `gpu`."""
        told = self._asdict()
        return {"gpu": told.pop("address"), **told, "chain": list(self.chain)}

    @property
    def card(self) -> str:
        """The card's end of the slot's link."""
        at = self.chain.index(self.slot)
        return self.chain[min(at + 1, len(self.chain) - 1)]


def gpus(tree: Tree) -> list[Gpu]:
    """Return every AMD and NVIDIA GPU, by address. Raises OSError where the bus is not there."""
    return census(tree)[0]


def census(tree: Tree) -> tuple[list[Gpu], list[str]]:
    """Return the GPUs, and the devices of which it cannot be read what they are. Raises OSError."""
    found: dict[str, Gpu] = {}
    unread: list[str] = []
    for name in tree.names(BUS):
        try:
            gpu = gpu_at(tree, name) if ADDRESS.fullmatch(name) else None
        except FileNotFoundError:  # it went meanwhile
            continue
        except OSError:
            unread.append(name)
            continue
        if gpu is not None:
            # Two GPUs behind one card's switch share its slot: the second goes by its own address.
            slot = gpu.slot if gpu.slot not in found else gpu.address
            found[slot] = gpu._replace(slot=slot)
    if len(found) > MOST_GPUS:
        raise OSError(errno.EOVERFLOW, f"more than {MOST_GPUS} GPUs")
    return list(found.values()), unread[:MOST_GPUS]


def _number(tree: Tree, address: str, file: str) -> str:
    """Return a file that holds `0x1002` or the like. Raises OSError where it holds no such."""
    text = tree.text(f"{BUS}/{address}/{file}", 64).strip()
    if not _HEX.fullmatch(text):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), file)
    return text


def of_device(tree: Tree, address: str, file: str) -> str:
    """Return a one-line file of a PCI device; empty where it cannot be read."""
    try:
        return tree.text(f"{BUS}/{address}/{file}", 256).strip()
    except OSError:
        return ""


def numa_of(tree: Tree, address: str) -> int | None:
    """Return a device's NUMA node; None where it is -1: then the firmware does not tell."""
    text = of_device(tree, address, "numa_node")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def driver_of(tree: Tree, address: str) -> str | None:
    """
    Return the driver that a device is bound to, None where there is none.

    From uevent: a recording or a simulated /sys need not hold where the link `driver` leads.
    """
    lines = of_device(tree, address, "uevent").splitlines()
    named = [line.removeprefix("DRIVER=") for line in lines if line.startswith("DRIVER=")]
    return named[0][:64] if named else None


def speed_of(text: str) -> float | None:
    """Return the GT/s of `8.0 GT/s PCIe` or, before Linux 5.7, `8 GT/s`; None for any other."""
    match = _SPEED.fullmatch(text)
    return float(match[1]) if match else None


def gpu_at(tree: Tree, address: str) -> Gpu | None:
    """Return the GPU at an address, None where it is none. Raises OSError where it is not told."""
    vendor = _number(tree, address, "vendor")
    if vendor not in VENDORS or not _number(tree, address, "class").startswith(CLASSES):
        return None
    if tree.has(f"{BUS}/{address}/physfn"):
        return None  # a virtual function of a card that is listed itself
    try:
        parts = tree.real(f"{BUS}/{address}").split("/")
    except OSError:
        parts = [address]
    chain = tuple(part for part in parts if ADDRESS.fullmatch(part)) or (address,)
    root = next((part for part in parts if part.startswith("pci")), "")
    above = [port for port in chain[:-1] if of_device(tree, port, "vendor") != AMD]
    # A bridge of AMD's graphics vendor is the card's; AMD's root ports are 1022.
    slot = above[-1] if above else address
    device = f"{vendor[2:]}:{of_device(tree, address, 'device')[2:]}"
    switch = slot != address and chain.index(slot) < len(chain) - 2
    return Gpu(address, slot, chain, VENDORS[vendor], device, root, switch)
