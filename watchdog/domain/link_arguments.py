"""Whole arguments about a GPU's link against its declaration: one for each verdict."""

from __future__ import annotations

from watchdog.domain import link_words as lw
from watchdog.domain import series as s
from watchdog.domain import wording as w
from watchdog.domain.finding import Argument
from watchdog.domain.gpu import Sight
from watchdog.domain.link import Link, Slot, above


def undeclared(seen: Sight) -> Argument:
    link = seen.actual.link
    now = "asleep" if seen.asleep else "no witness speaks" if link.silent else lw.runs(seen)
    return Argument(
        f"{seen.card}: nothing is declared of its slot, so nothing is judged; {now}",
        "a declaration in gpus.slots",
        lw.evidence(seen),
        next_step=lw.proposal(seen),
    )


def asleep(seen: Sight) -> Argument:
    return Argument(
        f"{seen.card}: asleep: runtime-suspended, and not woken to look; judged when it runs",
        evidence=lw.evidence(seen),
    )


def silent(seen: Sight, spoke_at: float | None, now: float) -> Argument:
    age = None if spoke_at is None else now - spoke_at
    since = "never since the start" if age is None else f"last {w.span(age)} ago"
    said = ", ".join(
        f"{lw.NAMES[who]}: {why}" for who, why in lw.spoken(seen).items() if who in lw.NAMES
    )
    slot = seen.declared
    why = f"no witness speaks, {since} ({said})"
    if not seen.actual.link.silent:  # and none of its addresses is known: see PcieLink
        why = f"its chain cannot be read, so which declaration is its own is unknown ({seen.error})"
    return Argument(
        f"{seen.card}: the link is UNKNOWN: {why}",
        "a declared slot whose link can be read" if slot is None else _expected(slot),
        lw.evidence(seen) | {"silent_seconds": age},
        suspects=(
            "a GPU that hangs or fell off the bus",
            "files that may not be read here, or a driver that is not loaded",
        ),
        next_step="run `watchdog doctor`; it says what each source of this GPU answers",
    )


def declared_twice(seen: Sight, slot: Slot, rival: Slot) -> Argument:
    return Argument(
        f"{seen.card}: declared twice and differently: {slot.key} as {slot.link}, {rival.key} as "
        f"{rival.link}; {lw.runs(seen)}",
        "one declaration of a slot",
        lw.evidence(seen),
        next_step=f"remove one of the two from gpus.slots; {seen.card.slot} is the slot's port",
    )


def down(seen: Sight, slot: Slot) -> Argument:
    return Argument(
        f"{seen.card}: the link is UNKNOWN: an end of the slot's link says {seen.down}, and what "
        f"others tell of it ({seen.actual.slot}) may be of before",
        _expected(slot),
        lw.evidence(seen),
        suspects=("a GPU that fell off the bus or hangs", "a link that lost its training"),
        next_step="look in dmesg for the slot's port, Xid 79 or amdgpu resets; then power down "
        f"and reseat the card of {seen.card.slot}",
    )


def degraded(seen: Sight, slot: Slot, rounds: int) -> Argument:
    link, share = lw.judged(seen), ""
    have, want = link.bandwidth, slot.link.bandwidth
    if have is not None and want:
        share = f"; that is {w.percent(have / want)} of the declared {want:.1f} GB/s"
    return Argument(
        f"{seen.card}: {lw.runs(seen)}, declared is {lw.declaration(slot)}: "
        f"{lw.compared(link, slot)} for {rounds} rounds{share}{lw.starless(seen)}",
        _expected(slot),
        lw.evidence(seen) | {"rounds": rounds},
        lw.ruled_out(seen, slot),
        lw.suspects(seen, slot),
        lw.next_step(seen, slot),
    )


def first(seen: Sight, slot: Slot, rounds: int) -> Argument:
    kind = " busy" if seen.card.shifts_speed and seen.busy else ""
    more = f"a second{kind} round decides" if rounds == 2 else f"{rounds}{kind} rounds decide"
    return Argument(
        f"{seen.card}: {lw.runs(seen)}, declared is {lw.declaration(slot)}: "
        f"{lw.compared(lw.judged(seen), slot)}; {more}{lw.starless(seen)}",
        _expected(slot),
        lw.evidence(seen),
    )


def idle(seen: Sight, slot: Slot, found: str) -> Argument:
    why = "idle" if seen.busy is False else "not known to be busy"
    if seen.busy is None:
        why += f" ({s.UTILISATION}: {lw.reason(seen, s.UTILISATION)})"
    stands = f"; when it was last busy it ran {found}, and that stands until then" if found else ""
    return Argument(
        f"{seen.card}: {lw.runs(seen)}, declared is {lw.declaration(slot)}; {why}: slows down on "
        f"purpose here; judged when busy{stands}{lw.starless(seen)}",
        _expected(slot),
        lw.evidence(seen),
    )


def half_told(seen: Sight, slot: Slot) -> Argument:
    untold = "speed" if seen.actual.link.speed is None else "width"
    return Argument(
        f"{seen.card}: {lw.runs(seen)}: no witness tells its {untold}{lw.starless(seen)}",
        _expected(slot),
        lw.evidence(seen),
    )


def well(seen: Sight, slot: Slot) -> Argument:
    link = seen.actual.link
    better = above(link.speed, slot.speed) or above(link.width, slot.width)
    step = ""
    if better:
        better_link = Link(max(link.speed or 0, slot.speed), max(link.width or 0, slot.width))
        step = f"if it is meant to run {better_link}, declare that in gpus.slots"
    return Argument(
        f"{seen.card}: {lw.runs(seen)}, {lw.compared(seen.actual.link, slot)}"
        f"{f' ({lw.declaration(slot)})' if better or slot.note else ''}{lw.starless(seen)}",
        _expected(slot),
        lw.evidence(seen),
        next_step=step,
    )


def _expected(slot: Slot) -> str:
    return f"{lw.declaration(slot)}, as declared of {slot.key}"
