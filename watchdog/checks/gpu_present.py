"""
Is there a GPU in every slot that is declared to have one, and does each still answer?

The declaration is compared with the PCI bus, never with a driver's own count: a card that fell
off the bus is missing from that count too. Cards renumber when one vanishes and ports do not, so
a key that once led to a slot stays with that slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from watchdog.domain import gpu_present_words as say
from watchdog.domain.finding import Argument, Finding, Verdict
from watchdog.domain.gpu import Listed, census
from watchdog.domain.history import Window
from watchdog.domain.link import Slot
from watchdog.domain.sample import labels

NAME = "GpuMissing"
NVIDIA = "nvidia"


class State(NamedTuple):
    """The slot of each key that was seen once, and rounds in a row of what is wrong."""

    resolved: tuple[tuple[str, str], ...] = ()
    seen_at: tuple[tuple[str, float], ...] = ()  # by slot
    missing: tuple[tuple[str, int], ...] = ()  # by slot, or by a key that led nowhere yet
    lost: tuple[tuple[str, int], ...] = ()  # by slot


@dataclass(frozen=True)
class GpuPresent:
    """Fields are limits: rounds in a row."""

    about: ClassVar[str] = "host"

    rounds: int = 2

    def step(self, state: State | None, window: Window, now: float) -> tuple[State, list[Finding]]:
        """Judge one round of the host."""
        state = state or State()
        declared = window.profile.slots
        listed = window.facts.get("gpus")
        if not isinstance(listed, (list, tuple)) or window.facts.get("pci") is False:
            return state, self._uncounted(state, window, declared, told=listed is not None)
        found = census(listed)
        if not found and not declared:
            return State(), [Finding(NAME, (), Verdict.OK, say.none)]
        state = _resolved(state, declared, found, now)
        return self._judge(state, window, declared, found, now)

    def _uncounted(
        self, state: State, window: Window, declared: tuple[Slot, ...], *, told: bool
    ) -> list[Finding]:
        """No census: whether a declared GPU is there is not known."""
        if not declared:
            return [Finding(NAME, (), Verdict.OK, say.no_bus)] if told else []
        why = next((r.error for r in window.readings if r.error and r.probe == "gpus"), "")
        places = _places(state, declared)
        return [
            Finding(NAME, labels(slot=at), Verdict.UNKNOWN, partial(say.uncounted, slot, why))
            for at, slot in places.items()
        ]

    def _judge(
        self,
        state: State,
        window: Window,
        declared: tuple[Slot, ...],
        found: list[Listed],
        now: float,
    ) -> tuple[State, list[Finding]]:
        present = {gpu.slot: gpu for gpu in found}
        places = _places(state, declared)
        absent = [at for at in places if at not in present]
        unread = window.facts.get("pci_unread") if absent else None
        missing = {} if unread else {at: dict(state.missing).get(at, 0) + 1 for at in absent}
        parts = {dict(part.subject).get("slot", ""): part for part in window.parts}
        lost = {}
        for at in present:
            n = _lost(parts.get(at), dict(state.lost).get(at, 0))
            if n:
                lost[at] = n
        others = tuple(at for at in present if at not in places)
        findings = [_unsure(at, places[at], unread) for at in absent if unread]
        for at, rounds in missing.items():
            absence = say.Absence(at, places[at], rounds, _age(state, at, now), others)
            argue = partial(say.missing, absence, tuple(present), self.rounds)
            findings.append(self._counted(at, argue, rounds))
        for at, gpu in present.items():
            findings.append(self._present(at, places.get(at), gpu, parts.get(at), lost.get(at, 0)))
        findings += _found_elsewhere(state, places)
        kept = dict(state.missing)
        still = {at: n for at, n in kept.items() if at not in present and at not in missing}
        state = state._replace(
            missing=tuple({**still, **missing}.items()), lost=tuple(lost.items())
        )
        return state, findings

    def _present(
        self,
        at: str,
        slot: Slot | None,
        gpu: Listed,
        part: Window | None,
        rounds: int,
    ) -> Finding:
        if not rounds:
            argue = partial(say.present, at, slot, gpu)
            return Finding(NAME, labels(slot=at), Verdict.OK, argue)
        reason = part.facts.get("lost") if part is not None else None
        if not isinstance(reason, str):  # not asked in this round: what it was then still stands
            argue = partial(say.not_asked, at, gpu)
            return Finding(NAME, labels(slot=at), Verdict.OK, argue, conclusive=False)
        loss = say.Loss(at, slot, gpu.gpu, reason, rounds)
        return self._counted(at, partial(say.lost, loss, self.rounds), rounds)

    def _counted(self, at: str, argue: partial[Argument], rounds: int) -> Finding:
        bad = rounds >= self.rounds  # else too little evidence yet
        verdict = Verdict.CRITICAL if bad else Verdict.OK
        return Finding(NAME, labels(slot=at), verdict, argue, conclusive=bad)


def _unsure(at: str, slot: Slot, unread: object) -> Finding:
    """Say that it is not known: a device that cannot be read may be the GPU that is looked for."""
    names = ", ".join(map(str, unread)) if isinstance(unread, list) else "a device"
    argue = partial(say.uncounted, slot, f"what {names} is cannot be read")
    return Finding(NAME, labels(slot=at), Verdict.UNKNOWN, argue)


def _resolved(state: State, declared: tuple[Slot, ...], found: list[Listed], now: float) -> State:
    """
    Lead each key to its slot, once for all, and note which slots have a GPU now.

    The address of a port above a switch of the board leads to every slot below it.
    """
    known = list(state.resolved)
    for slot in declared:
        for gpu in found:
            first = slot.key not in dict(known)
            if slot.key in gpu.chain and (first or slot.key in gpu.above):
                known += [(slot.key, gpu.slot)] if (slot.key, gpu.slot) not in known else []
    seen = {**dict(state.seen_at), **{gpu.slot: now for gpu in found}}
    return state._replace(resolved=tuple(known), seen_at=tuple(seen.items()))


def _age(state: State, at: str, now: float) -> float | None:
    """Seconds since a GPU was last seen in a slot; None where none ever was."""
    seen_at = dict(state.seen_at).get(at)
    return None if seen_at is None else now - seen_at


def _places(state: State, declared: tuple[Slot, ...]) -> dict[str, Slot]:
    """Return the slots of each declaration, or its key where that never led to one."""
    places: dict[str, Slot] = {}
    for slot in declared:
        led = [at for key, at in state.resolved if key == slot.key]
        for at in led or [slot.key]:
            places.setdefault(at, slot)
    return places


def _lost(part: Window | None, rounds: int) -> int:
    """Count rounds in a row that the driver said a GPU is lost; an unasked round is none."""
    if part is None:
        return rounds
    if part.facts.get("driver", NVIDIA) not in (None, NVIDIA):
        return 0  # bound to another driver, of which NVML knows nothing: not lost
    if isinstance(part.facts.get("lost"), str):
        return rounds + 1
    answers = any(r.probe == "nvml" and r.samples for r in part.readings)
    return 0 if answers else rounds


def _found_elsewhere(state: State, places: Mapping[str, Slot]) -> list[Finding]:
    """End what was said under a key before it was known which slot it leads to."""
    return [
        Finding(NAME, labels(slot=key), Verdict.OK, partial(say.resolved, key, at))
        for key, at in state.resolved
        if key != at and at in places and key in dict(state.missing)
    ]
