"""One GPU in one round: who it is, what was read of its link, and whether it works."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from watchdog.domain import series as s
from watchdog.domain.history import Window
from watchdog.domain.link import ENDS, Actual, Slot, actual_of, declared_of
from watchdog.domain.sample import Facts

AMD, NVIDIA, INTEL = "amd", "nvidia", "intel"
GPU_IDLE: Final = 0x1
"""NVML's clock event reason: nothing runs on the GPU."""
DOWN: Final = "link down"
"""How the probe begins what it says of a width that no link has."""
ASLEEP: Final = ("suspended", "suspending")
WORKING_PSTATE: Final = 2
"""P0 to P2 are the p-states of work; an idle card falls to P5 or P8."""


class Card(NamedTuple):
    """
    A GPU by its addresses and what matters of its platform, as it was last told.

    `slot` is the address of the port it is plugged into, `chain` runs from the root port to the
    function. `host` is the vendor of the root port. `switch`: the card has a switch of its own.
    """

    slot: str = "?"
    gpu: str = ""
    name: str = ""
    vendor: str = ""
    host: str = ""
    numa: int | None = None
    root: str = ""
    chain: tuple[str, ...] = ()
    switch: bool = False
    keys: tuple[str, ...] = ()  # what was declared when `key`, which led here, was looked for
    key: str = ""
    rival: str = ""  # another key that led here then, and declares something else

    @property
    def shifts_speed(self) -> bool:
        """
        Whether an idle link goes to a lower speed on purpose.

        amdgpu switches no link on an Intel host; where it is not known who is who, assume it.
        """
        return not (self.vendor == AMD and self.host == INTEL)

    @property
    def shifts_width(self) -> bool:
        """Whether an idle link gets narrower on purpose: some Radeons do, NVIDIA's cards never."""
        return self.shifts_speed and self.vendor != NVIDIA

    @property
    def end(self) -> str:
        """The card's end of the slot's link; empty where the chain is not known."""
        if self.slot not in self.chain:
            return ""
        return self.chain[min(self.chain.index(self.slot) + 1, len(self.chain) - 1)]

    def __str__(self) -> str:
        """Name it for a sentence."""
        if not self.gpu:
            return f"GPU in slot {self.slot}"
        name = f" ({self.name})" if self.name else ""
        return f"GPU {self.gpu}{name} in slot {self.slot}"


class Listed(NamedTuple):
    """One GPU of the census of the PCI bus."""

    gpu: str
    slot: str
    chain: tuple[str, ...]

    @property
    def above(self) -> tuple[str, ...]:
        """The ports above its slot, which other slots may share."""
        return self.chain[: self.chain.index(self.slot)] if self.slot in self.chain else ()


def census(listed: Iterable[object]) -> list[Listed]:
    """Return what the fact `gpus` lists; an entry without a slot is none."""
    found = []
    for entry in listed:
        if isinstance(entry, Mapping) and isinstance(entry.get("slot"), str):
            slot, chain = entry["slot"], entry.get("chain")
            chain = tuple(chain) if isinstance(chain, (list, tuple)) else (slot,)
            found.append(Listed(str(entry.get("gpu") or slot), slot, chain))
    return found


class Sight(NamedTuple):
    """
    What one round showed of one GPU. `levels` and `facts` are of this round alone.

    `busy` is None where nobody tells whether the GPU works. `error` is what a failed reading
    said, if one failed.
    """

    card: Card
    declared: Slot | None
    levels: Mapping[str, float]
    facts: Facts
    actual: Actual
    busy: bool | None
    asleep: bool
    error: str
    rival: Slot | None = None  # another declaration of the same slot that says something else

    @property
    def waits_speed(self) -> bool:
        """Whether its speed is not judged now: it slows down when idle, and may be idle."""
        return self.asleep or (self.card.shifts_speed and self.busy is not True)

    @property
    def waits_width(self) -> bool:
        """As `waits_speed`, of its width."""
        return self.asleep or (self.card.shifts_width and self.busy is not True)

    @property
    def down(self) -> str:
        """What an end of the slot's link says of itself that is no link; else empty."""
        unread = self.facts.get("unread")
        said = [unread.get(end) for end in ENDS] if isinstance(unread, Mapping) else []
        return next((str(why) for why in said if str(why).startswith(DOWN)), "")

    @property
    def state(self) -> str:
        """`busy`, `idle`, `asleep` or `unknown`."""
        if self.asleep:
            return "asleep"
        return {True: "busy", False: "idle", None: "unknown"}[self.busy]


def look(window: Window, before: Card) -> Sight:
    """Take in one round of one GPU; `before` says who it was when it was last told."""
    levels, facts = fresh(window), window.facts
    slots = window.profile.slots
    card = _led(_card(window, before), slots)
    declared = next((slot for slot in slots if slot.key == card.key), None)
    if not card.chain:
        declared = declared_of(slots, (card.slot,))
    return Sight(
        card,
        declared,
        levels,
        facts,
        actual_of(levels),
        busy(levels, card.vendor),
        facts.get("runtime") in ASLEEP,
        next((r.error for r in window.readings if r.error is not None), ""),
        next((slot for slot in slots if slot.key == card.rival), None),
    )


def fresh(window: Window) -> Mapping[str, float]:
    """Return the levels that this round brought: a GPU that was not read keeps none."""
    missed = window.gap and window.seconds is None  # the history's levels are then the old ones
    unread = bool(window.readings) and not any(r.samples for r in window.readings)
    return {} if missed or unread else window.levels


def busy(levels: Mapping[str, float], vendor: str) -> bool | None:
    """Whether the GPU works now; a card that idles between requests may say so in two ways."""
    utilisation = levels.get(s.UTILISATION)
    if utilisation is None:
        return None
    if vendor == NVIDIA:
        reasons, pstate = levels.get(s.EVENT_REASONS, 0.0), levels.get(s.PSTATE, 0.0)
        if int(reasons) & GPU_IDLE or pstate > WORKING_PSTATE:
            return False
    return utilisation > 0


def _led(card: Card, slots: tuple[Slot, ...]) -> Card:
    """
    Find the declaration that leads to this slot, once for all.

    Cards renumber while they run when one vanishes: a key that led here once stays, and another
    card's key does not come here by its new address.
    """
    keys = tuple(slot.key for slot in slots)
    if not card.chain or card.keys == keys:
        return card
    own = declared_of(slots, card.chain)
    if own is None:
        return card._replace(keys=keys, key="", rival="")
    others = (slot for slot in slots if slot.key in card.chain and slot.link != own.link)
    rival = next((slot.key for slot in others), "")
    return card._replace(keys=keys, key=own.key, rival=rival)


def _card(window: Window, before: Card) -> Card:
    """Merge what this round tells with what was known: an unread GPU keeps its name."""
    facts = window.facts
    new: dict[str, Any] = {"slot": dict(window.subject).get("slot", before.slot)}
    for key in ("gpu", "vendor", "host", "root"):
        if isinstance(facts.get(key), str):
            new[key] = facts[key]
    name = facts.get("name") or facts.get("card")
    if isinstance(name, str):
        new["name"] = name
    chain = facts.get("chain")
    if isinstance(chain, (list, tuple)):
        numa = facts.get("numa")
        new["chain"] = tuple(str(address) for address in chain)
        new["switch"] = facts.get("switch") is True
        new["numa"] = numa if isinstance(numa, int) else None
    return before._replace(**new)
