"""Do the witnesses of one link tell the same? Comparison, and the words for it."""

from __future__ import annotations

from typing import NamedTuple

from watchdog.domain import link_words as lw
from watchdog.domain.finding import Argument
from watchdog.domain.gpu import Sight
from watchdog.domain.link import ENDS, FIRMWARE, NEAR, Part, generation_of, link_of
from watchdog.domain.series import STARRED


class Apart(NamedTuple):
    """One difference: a firmware witness, what it tells, and what the ends of the link tell."""

    witness: str
    said: str
    ends: str
    weak: bool  # Gen1 by firmware against two ends that agree


def differences(seen: Sight) -> tuple[list[Part], list[Apart]]:
    """Compare each firmware witness with the ends of the slot's link, speed and width apart."""
    parts: list[Part] = []
    found: list[Apart] = []
    ends = [link_of(seen.levels, end) for end in ENDS]
    for witness in FIRMWARE:
        told = link_of(seen.levels, witness)
        if witness == STARRED and seen.facts.get("ambiguous"):
            continue  # several rows are starred and differ: none of them is its word
        sides = (
            (seen.waits_speed, told.speed, [end.speed for end in ends]),
            (seen.waits_width, told.width, [end.width for end in ends]),
        )
        for at, (waits, said, others) in enumerate(sides):
            known = [other for other in others if other is not None]
            if said is None or not known:
                continue
            differs = all(abs(said - other) > NEAR for other in known)
            parts.append(Part.IDLE if waits else Part.BAD if differs else Part.GOOD)
            if parts[-1] is Part.BAD:
                found.append(_apart(witness, at, said, known))
    return parts, found


def argue(seen: Sight, found: list[Apart], apart: int, rounds: int) -> Argument:
    """Say how the witnesses differ, or that they do not; `apart` counts rounds in a row."""
    evidence = lw.evidence(seen)
    if not found:
        said = "compared when busy: an idle link shifts here between one look and the next"
        said = said if seen.waits_speed else "the witnesses of the slot's link agree"
        return Argument(f"{seen.card}: {said}", evidence=evidence)
    said = _spelled(found)
    if apart < rounds:
        return Argument(f"{seen.card}: {said}; a second round decides", evidence=evidence)
    firmware = "a firmware or driver that reports the link wrongly"
    changed = "a link that trained again while the driver still shows what it was"
    weak = any(each.weak for each in found)
    moments = "it does not shift here"
    if seen.card.shifts_speed:
        moments = "the GPU worked in these rounds" if seen.busy else "the width does not shift here"
    return Argument(
        f"{seen.card}: two witnesses of one link disagree for {apart} rounds: {said}",
        "one link, told alike by the driver and by both ends of it",
        evidence | {"rounds": apart},
        ruled_out=(
            "what the GPU's own function says: inside a card with a switch it is never a witness",
            f"two moments of a link that shifts when idle: {moments}",
        ),
        suspects=(firmware, changed) if weak else (changed, firmware),
        next_step="record it with `watchdog capture DIR`, and look at the kernel's version: some "
        "kernels star the wrong row of pp_dpm_pcie",
    )


def _spelled(found: list[Apart]) -> str:
    who = ", ".join(f"{lw.NAMES[each.witness]} says {each.said}" for each in found)
    ends = ", ".join(dict.fromkeys(each.ends for each in found))
    said = f"{who}; the ends of the slot's link say {ends}"
    if any(each.weak for each in found):
        said += (
            "; firmware tells a rate that it does not know as Gen1, so against two ends that "
            "agree this is weak evidence of a slow link"
        )
    return said


def _apart(witness: str, at: int, said: float, known: list[float]) -> Apart:
    if at:
        ends = " and ".join(f"x{other:.0f}" for other in sorted(set(known)))
        return Apart(witness, f"x{said:.0f}", ends, weak=False)
    ends = " and ".join(_generation(other) for other in sorted(set(known)))
    agree = len(known) == len(ENDS) and len(set(known)) == 1
    return Apart(witness, _generation(said), ends, generation_of(said) == 1 and agree)


def _generation(speed: float) -> str:
    generation = generation_of(speed)
    return f"{speed:g} GT/s" if generation is None else f"Gen{generation}"
