"""What a finding says about a GPU that is there, or is not."""

from __future__ import annotations

from typing import NamedTuple

from watchdog.domain import wording as w
from watchdog.domain.finding import Argument
from watchdog.domain.gpu import Listed
from watchdog.domain.link import Slot


def none() -> Argument:
    """A host without GPUs: said once, and no fault."""
    return Argument("no AMD or NVIDIA GPU on this host and none declared: no links to watch")


def no_bus() -> Argument:
    """No PCI bus to list, as in many containers, and nothing declared."""
    return Argument("no PCI bus can be listed here and no GPU is declared: no links to watch")


def uncounted(slot: Slot, why: str) -> Argument:
    """There was no census in this round."""
    reason = why or "the PCI bus cannot be listed here"
    return Argument(
        f"{_declared(slot)}: whether its GPU is there is UNKNOWN: {reason}",
        "a GPU on the PCI bus",
        suspects=("a container without /sys/bus/pci, or gpus.sysfs that points elsewhere",),
        next_step="run `watchdog doctor`; it says what can be listed here",
    )


class Absence(NamedTuple):
    """
    No GPU in the slot `at`, which `slot` declares, for so many rounds.

    `age` in seconds since one was seen there, None where none ever was; `others` are slots with
    a GPU that no declaration leads to.
    """

    at: str
    slot: Slot
    rounds: int
    age: float | None
    others: tuple[str, ...]


class Loss(NamedTuple):
    """A GPU on the bus of which the driver says that it is lost, for so many rounds."""

    at: str
    slot: Slot | None
    gpu: str
    reason: str
    rounds: int


def missing(absence: Absence, present: tuple[str, ...], limit: int) -> Argument:
    """No GPU is in a declared slot; `present` are the slots that have one."""
    at, slot, rounds, age, others = absence
    seen = "never seen since the watchdog started" if age is None else f"seen {w.span(age)} ago"
    where = "" if at == slot.key else f" in slot {at}"
    summary = f"{_declared(slot)}: no GPU{where}{_lasting(rounds, limit)}; {seen}"
    renumbered = (
        f"addresses that changed since the declaration: the GPU in slot {', '.join(others)} is "
        "declared nowhere; a port's address, as `watchdog links` shows it, does not renumber"
    )
    fell = "the card fell off the bus: look in dmesg for the slot's port, Xid 79 or amdgpu resets"
    contact = "the card or its power cable is loose, or the riser is dead"
    return Argument(
        summary,
        f"a GPU in the slot of {slot.key}, as declared",
        {
            "slot": at,
            "key": slot.key,
            "rounds": rounds,
            "seen_seconds_ago": age,
            "present": list(present),
        },
        ruled_out=("a driver that does not list it: the PCI bus itself has no GPU there",),
        suspects=(renumbered, fell, contact) if age is None and others else (fell, contact),
        next_step="look at `dmesg -T | grep -iE 'pcieport|xid|amdgpu'` for the moment it left, "
        "then power the host off and on; a warm reboot often does not bring a card back",
    )


def present(at: str, slot: Slot | None, gpu: Listed) -> Argument:
    """The GPU is on the bus and not lost."""
    name = f"GPU {gpu.gpu} in slot {at}"
    evidence = {"slot": at, "gpu": gpu.gpu, "key": None if slot is None else slot.key}
    if slot is None:
        return Argument(
            f"{name}: present; nothing is declared of its slot, so its absence would not be "
            "noticed",
            evidence=evidence,
        )
    moved = slot.key not in gpu.chain
    more = f"; its addresses changed, {slot.key} is no longer one of them" if moved else ""
    return Argument(f"{name}: present, as declared{more}", evidence=evidence)


def lost(loss: Loss, limit: int) -> Argument:
    """The bus has it, and its driver says that it is lost."""
    at, slot, gpu, reason, rounds = loss
    return Argument(
        f"GPU {gpu} in slot {at}: lost{_lasting(rounds, limit)}: {reason}",
        "a GPU that its driver can reach",
        {
            "slot": at,
            "gpu": gpu,
            "key": None if slot is None else slot.key,
            "lost": reason,
            "rounds": rounds,
        },
        ruled_out=("a card that was taken out: the PCI bus still lists it",),
        suspects=(
            "the GPU fell off the bus: Xid 79 in dmesg, but not always",
            "power: an overloaded supply or a loose cable",
            "a link that failed: see its error counters in `watchdog links`",
        ),
        next_step=f"stop what uses it and reset it alone with `nvidia-smi --gpu-reset -i {gpu}`; "
        "if that fails, power the host off and on",
    )


def not_asked(at: str, gpu: Listed) -> Argument:
    """It was lost when its driver last answered, and the driver did not answer now."""
    return Argument(
        f"GPU {gpu.gpu} in slot {at}: on the bus; its driver said that it is lost and "
        "did not answer in this round"
    )


def resolved(key: str, at: str) -> Argument:
    """A key that led nowhere leads to a slot now."""
    return Argument(f"{key} leads to slot {at} now; see there")


def _declared(slot: Slot) -> str:
    note = f" ({slot.note})" if slot.note else ""
    return f"declared slot {slot.key}{note}"


def _lasting(rounds: int, limit: int) -> str:
    if rounds < limit:
        return " in this round (the next decides)"
    return f" for {rounds} rounds"
