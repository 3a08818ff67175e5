"""What a finding says about a GPU's link: witnesses, evidence, causes, proposals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from watchdog.domain import series as s
from watchdog.domain.gpu import NVIDIA, Sight
from watchdog.domain.link import Link, Slot, above, below, generation_of, link_of
from watchdog.domain.link_errors import by_device, counters, on_wire, spelled

NAMES: Final[Mapping[str, str]] = {
    s.PORT: "the slot's port",
    s.CARD: "the card's end of the slot's link",
    s.STARRED: "the starred row of pp_dpm_pcie",
    s.METRICS: "gpu_metrics",
    s.NVML: "NVML",
}
_NVML_WORDS: Final = ("link_generation", "link_width")


def witnesses_of(vendor: str) -> tuple[str, ...]:
    """Who can tell of the slot's link on this kind of card."""
    if vendor == NVIDIA:
        return (s.PORT, s.CARD, s.NVML)
    return (s.PORT, s.CARD, s.STARRED, s.METRICS)


def reason(seen: Sight, witness: str) -> str:
    """Say why a witness does not speak."""
    for key in ("unread", "nvml_unread"):
        unread = seen.facts.get(key)
        words = (witness, *(_NVML_WORDS if witness == s.NVML else ()))
        if isinstance(unread, Mapping):
            found = next((str(unread[word]) for word in words if word in unread), None)
            if found is not None:
                return found
    if witness == s.METRICS and not link_of(seen.levels, s.STARRED).silent:
        return "not asked: a row is starred"
    lost = seen.facts.get("lost")
    if witness == s.NVML and isinstance(lost, str):
        return lost
    return seen.error or "not read"


def spoken(seen: Sight) -> dict[str, str]:
    """Return each witness with what it told, or why it told nothing."""
    found = {}
    for witness in witnesses_of(seen.card.vendor):
        link = link_of(seen.levels, witness)
        found[witness] = reason(seen, witness) if link.silent else str(link)
    path = link_of(seen.levels, s.PATH)
    if not path.silent:
        found[s.PATH] = str(path)
    return found


def inside(seen: Sight) -> Link:
    """Return the link inside a card with a switch: what lspci shows of the GPU."""
    return link_of(seen.levels, s.FUNCTION)


def evidence(seen: Sight) -> dict[str, object]:
    """Everything that a table of links shows. GT/s per lane, lanes, GB/s."""
    slot, link, card = seen.declared, seen.actual.link, seen.card
    within = inside(seen)
    return {
        "gpu": card.gpu or None,
        "card": card.name or None,
        "slot": card.slot,
        "key": None if slot is None else slot.key,
        "numa": card.numa,
        "root": card.root or None,
        "expected_generation": None if slot is None else slot.generation,
        "expected_width": None if slot is None else slot.width,
        "note": "" if slot is None else slot.note,
        "generation": generation_of(link.speed),
        "speed": link.speed,
        "width": link.width,
        "gigabytes_per_second": None if link.bandwidth is None else round(link.bandwidth, 2),
        "narrow_above_the_slot": seen.actual.above,
        "witnesses": spoken(seen),
        "inside": None if within.silent else str(within),
        "busy": seen.busy,
        "state": seen.state,
        "stars": seen.facts.get("stars"),
    }


def runs(seen: Sight) -> str:
    """Say what the link runs, and where it is narrow if that is above the slot."""
    if not seen.actual.above:
        return f"the slot's link runs {seen.actual.link}"
    return (
        f"the way to the CPU runs {seen.actual.link} (the narrow link is above the slot, at a "
        f"switch of the board; the slot's own link runs {seen.actual.slot})"
    )


def judged(seen: Sight) -> Link:
    """Return what of the link may be judged now: not what an idle link lowers on purpose."""
    link = seen.actual.link
    return Link(
        None if seen.waits_speed else link.speed,
        None if seen.waits_width else link.width,
    )


def compared(link: Link, slot: Slot) -> str:
    """Say how a link differs from its declaration: `slower and narrower than declared`."""
    ways = []
    ways += ["slower"] if below(link.speed, slot.speed) else []
    ways += ["narrower"] if below(link.width, slot.width) else []
    if ways:
        return f"{' and '.join(ways)} than declared"
    ways += ["faster"] if above(link.speed, slot.speed) else []
    ways += ["wider"] if above(link.width, slot.width) else []
    return f"{' and '.join(ways)} than declared" if ways else "as declared"


def declaration(slot: Slot) -> str:
    """Write what is declared, with its note: `Gen3 x8 (bifurcated)`."""
    return f"{slot.link} ({slot.note})" if slot.note else str(slot.link)


def starless(seen: Sight) -> str:
    """Say what a missing star means; empty where a row is starred or there is no such file."""
    if seen.card.vendor == NVIDIA or not link_of(seen.levels, s.STARRED).silent:
        return ""
    if seen.asleep or seen.actual.link.silent:
        return ""
    why = reason(seen, s.STARRED)
    said = f"; {NAMES[s.STARRED]} is UNKNOWN ({why}), the others judge"
    slot = seen.declared
    degraded = slot is not None and (
        below(seen.actual.slot.speed, slot.speed) or below(seen.actual.slot.width, slot.width)
    )
    if seen.facts.get("stars") == 0 and degraded:
        said += (
            ": the actual link is not in the driver's table, which means that it changed after "
            "the driver loaded"
        )
    return said


def errors_since_boot(seen: Sight) -> str:
    """Spell the wire's errors that the chain has counted since boot; empty where there are none."""
    wire = ((c, n) for c, n in counters(seen.levels).items() if c.wire)
    return spelled(by_device(wire))


def proposal(seen: Sight) -> str:
    """Return the line to add for a GPU that nobody declared, or why there is none."""
    link, generation = seen.actual.link, generation_of(seen.actual.link.speed)
    more = "`watchdog links --propose` prints the section for all GPUs"
    if generation is None or link.width is None:
        return f"read both speed and width of its slot in the board's manual; {more}"
    if on_wire(counters(seen.levels).items()):
        return f"nothing is proposed from a boot with link errors; mend those first, then {more}"
    if seen.waits_speed:
        return f"let the GPU work, since its link may be slow while idle; then {more}"
    return (
        f"if that is what the slot should run, add to gpus.slots: "
        f'"{seen.card.slot}": {{generation: {generation}, width: {link.width:.0f}}}; {more}'
    )


def suspects(seen: Sight, slot: Slot) -> tuple[str, ...]:
    """Rank what makes a link slower or narrower than declared."""
    link, found = judged(seen), []
    counted = errors_since_boot(seen)
    if counted:
        found.append(f"a damaged signal in riser, cable or slot: {counted} since boot")
    if seen.actual.above:
        return (*found, "the board switch's own link to the CPU, or the slot it takes lanes from")
    if below(link.width, slot.width):
        found += [
            "contact: the card, its riser or its cable does not sit fully in the slot",
            "the BIOS splits the slot (bifurcation), or an M.2 or U.2 drive takes its lanes",
        ]
    if below(link.speed, slot.speed):
        found += [] if counted else ["a riser, cable or slot that does not carry the speed"]
        found.append("a BIOS or kernel setting that caps the slot's generation")
    if seen.actual.speed_by == s.METRICS and generation_of(link.speed) == 1:
        found.append("gpu_metrics alone says Gen1: some firmware says so of what it cannot tell")
    return tuple(found)


def ruled_out(seen: Sight, slot: Slot) -> tuple[str, ...]:
    """Say what only looks like a degraded link, and how it is known not to be that."""
    said, card = [_shift(seen, slot)], seen.card
    within = inside(seen)
    if card.switch:
        shows = "" if within.silent else f" ({within})"
        said.append(
            f"what lspci shows of the GPU's function{shows}: that is the link inside the card; "
            f"judged is the link between {card.slot} and {card.end}"
        )
    agree = _agreeing(seen)
    if agree:
        said.append(f"a witness that errs: {agree}")
    return tuple(line for line in said if line)


def _shift(seen: Sight, slot: Slot) -> str:
    """Say why this is no idle down-shift."""
    card = seen.card
    if not card.shifts_speed:
        return "idle down-shift: amdgpu does not switch link speeds on an Intel host"
    if seen.busy:
        used = seen.levels.get(s.UTILISATION, 0.0)
        return f"idle down-shift: the GPU works in these rounds (utilisation {used:.0f} %)"
    if below(judged(seen).width, slot.width):
        return "idle down-shift: an idle NVIDIA card keeps its width; speed is not judged now"
    return ""


def _agreeing(seen: Sight) -> str:
    """Name the witnesses that tell the same link; empty where fewer than two do."""
    names = [
        NAMES[witness]
        for witness in witnesses_of(seen.card.vendor)
        if link_of(seen.levels, witness) == seen.actual.slot
    ]
    return f"{', '.join(names)} tell the same" if len(names) > 1 else ""


def next_step(seen: Sight, slot: Slot) -> str:
    """Return the one thing to do first."""
    link, card = judged(seen), seen.card
    if seen.actual.above:
        return "reseat the board switch's riser or cable, and see `lspci -vv` of its upstream port"
    if below(link.width, slot.width):
        return (
            "see in the BIOS whether the slot is bifurcated or shares its lanes with a drive; if "
            f"x{link.width:.0f} is by design, declare it in gpus.slots, else power down and reseat "
            "the card and its riser or cable"
        )
    return (
        f"power down, reseat the card of {card.slot} and its riser or cable; if the speed does "
        "not come back, look for a BIOS setting that caps the slot's generation"
    )
