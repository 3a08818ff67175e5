"""What a finding says about error counters of a GPU's link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from watchdog.domain import wording as w
from watchdog.domain.finding import Argument
from watchdog.domain.gpu import Sight
from watchdog.domain.link_errors import TOTAL, direction, spelled

ByDevice = Mapping[str, Mapping[str, float]]

NO_PROOF: Final = (
    "coverage unknown: counters of zero are no proof of a good link; the firmware may keep errors "
    "to itself (firmware-first), or the kernel runs with pci=noaer"
)


class Sums(NamedTuple):
    """
    Errors by device and name: since boot, since the watchdog started, in this window.

    `hard` are the window's non-fatal and fatal ones. `worst` is what `device` counted on the wire
    in the last `seconds`, `allowed` what may be counted in them, `a_minute` in one minute.
    """

    boot: ByDevice
    start: ByDevice
    window: ByDevice
    hard: ByDevice
    device: str
    worst: float
    allowed: float
    seconds: float
    a_minute: float
    link: str
    resets: int
    declared: bool = False


def evidence(sums: Sums) -> dict[str, object]:
    """Every count that a reader needs to judge for himself."""
    return {
        "since_boot": {by: dict(names) for by, names in sums.boot.items()},
        "since_start": {by: dict(names) for by, names in sums.start.items()},
        "window": {by: dict(names) for by, names in sums.window.items()},
        "device": sums.device or None,
        "stretch_seconds": round(sums.seconds, 3),
        "stretch_errors": round(sums.worst, 2),
        "allowed_errors": round(sums.allowed, 2),
        "allowed_a_minute": sums.a_minute,
        "link": sums.link,
        "counters_fell": sums.resets,
    }


def untold(seen: Sight) -> Argument:
    """No counter was read in this round."""
    why = f" ({seen.error})" if seen.error else ""
    return Argument(
        f"{seen.card}: no error counter was read in this round{why}; {NO_PROOF}",
        next_step="run `watchdog doctor`; it says which files of this GPU cannot be read",
    )


def quiet(seen: Sight, sums: Sums, *, first: bool, fell: bool) -> Argument:
    """Nothing grew by more than is allowed: what was counted before, as information."""
    said = [f"{spelled(sums.boot)} since boot" if sums.boot else "no error counted"]
    if not (sums.boot or sums.start or sums.resets):
        said[0] += f": {NO_PROOF}"
    if first and not fell and sums.boot:
        said.append("this is the first reading, and the next says whether they grow")
    if sums.start:
        kinds = [name for names in sums.start.values() for name in names]
        now = "none of them in this round"
        if not any(" " in name for name in kinds):  # of the others none is allowed
            now = f"now within the {sums.allowed:.0f} in {w.span(sums.seconds)} that are allowed"
        said.append(f"{spelled(sums.start)} since the watchdog started, {now}")
    elif sums.boot and not first:
        said[0] += ", none since the watchdog started"
    times = "" if sums.resets < 2 else f" ({sums.resets} times since the watchdog started)"
    if fell:
        said.append(
            "the counters began anew: a device of this chain was removed and enumerated again, or "
            f"its driver loaded again{times}; nothing is counted of this window"
        )
    elif sums.resets:
        said.append(f"the counters began anew since the watchdog started{times}")
    return Argument(f"{seen.card}: {'; '.join(said)}", _allowed(sums), evidence(sums))


def grew(seen: Sight, sums: Sums) -> Argument:
    """Errors grow: which, where, how fast and which way."""
    parts = []
    if sums.hard:
        parts.append(f"errors that no retry mends: {spelled(sums.hard)} in this round")
    if sums.worst > sums.allowed:
        where = "by NVML" if sums.device == "nvml" else f"at {sums.device}"
        parts.append(
            f"{_rounded(sums.worst)} correctable link errors {where} in "
            f"{w.span(sums.seconds)}, allowed are {sums.allowed:.0f}"
        )
    more = f"; since the watchdog started: {spelled(sums.start)}" if sums.start else ""
    return Argument(
        f"{seen.card}: {'; '.join(parts)}{more}",
        _allowed(sums),
        evidence(sums),
        ruled_out=(
            "errors of the start of the machine: only growth since the last reading counts",
            *(
                (f"an allowance that shrinks with a slow link: it is that of {sums.link}",)
                if sums.declared
                else ()
            ),
        ),
        suspects=(*_directions(seen, sums), *_causes(sums)),
        next_step=f"power down, reseat the card of {seen.card.slot} and its riser or cable, then "
        "compare the counters under load; if they still grow, set the slot one generation lower",
    )


def _rounded(n: float) -> str:
    return w.count(n) if n == int(n) else f"about {n:,.0f}"


def _allowed(sums: Sums) -> str:
    return (
        f"at most {sums.allowed:.0f} correctable link errors in {w.span(sums.seconds)} at one "
        f"device ({sums.a_minute:g} a minute for {sums.link}), and none that is not correctable"
    )


def _directions(seen: Sight, sums: Sums) -> tuple[str, ...]:
    """Say which way the damaged packets went, for what grew since the start, the most first."""
    flat = [(n, by, name) for by, names in sums.start.items() for name, n in names.items()]
    flat.sort(key=lambda item: (-item[0], item[1], item[2]))
    told = [direction(seen.card, by, name) for _, by, name in flat if name != TOTAL]
    return tuple(dict.fromkeys(line for line in told if line))[:3]


def _causes(sums: Sums) -> tuple[str, ...]:
    wire = (
        "a riser, cable or slot contact that damages the signal",
        "a speed that the riser or cable does not carry: a lower generation would be stable",
    )
    if not sums.hard:
        return wire
    return ("a GPU that is about to fall off the bus: look for Xid or AER lines in dmesg", *wire)
