"""Which GPUs the PCI bus of this host has now: the kernel's list, never a driver's own count."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final

from watchdog.domain.sample import HOST, Facts, Reading
from watchdog.pci import BUS, census
from watchdog.tree import Tree

EVERY: Final = 60.0
"""Seconds between two looks at the whole bus: it has hundreds of devices, and most stay."""

SETTLED: Final = 300.0
"""Seconds after a change in which it is looked at in each round: a card may come back."""


@dataclass
class Gpus:
    """A census of `tree`: a GPU that goes is missed at once, one that comes within `every` s."""

    tree: Tree
    every: float = EVERY
    settled: float = SETTLED
    name: str = "gpus"
    target: str = HOST
    slot: str = ""

    def __post_init__(self) -> None:
        self._looked_at = self._changed_at = -math.inf
        self._known: dict[str, int] = {}
        self._facts: dict[str, object] = {}

    def at_once(self, known: Facts) -> Reading | None:  # noqa: ARG002  (what it knows is its own)
        """Return the last census, where its GPUs are in place and it is not old."""
        now = time.monotonic()
        unsettled = now - self._changed_at < self.settled
        if unsettled or now - self._looked_at >= self.every or self._moved():
            return None
        return Reading(self.name, self.target, facts=self._facts)

    def read(self, known: Facts, deadline: float) -> Reading:  # noqa: ARG002  (a few small files)
        """
        Return the facts `gpus`, `pci`, which is False where there is no bus to list, and
        `pci_unread`: devices that may be GPUs.
        """
        before = self._facts
        try:
            found, unread = census(self.tree)
            self._facts = {
                "gpus": [gpu.as_fact() for gpu in found],
                "pci": True,
                "pci_unread": unread,
            }
        except OSError:
            found = []
            self._facts = {"gpus": [], "pci": False}
        self._looked_at = time.monotonic()
        if self._facts != before:
            self._changed_at = self._looked_at
        self._known = {gpu.address: self._inode(gpu.address) for gpu in found}
        return Reading(self.name, self.target, facts=self._facts)

    def close(self) -> None:
        """Nothing blocks."""

    def _moved(self) -> bool:
        """Whether a GPU is gone, or came back meanwhile at the same address."""
        return any(self._inode(at) != number for at, number in self._known.items())

    def _inode(self, address: str) -> int:
        """Return what tells one entry of the bus from another; 0 where there is none."""
        try:
            return self.tree.inode(f"{BUS}/{address}")
        except OSError:
            return 0
