"""Error counters of a PCIe chain: which there are, who counts them, and which way they point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from watchdog.domain import series as s
from watchdog.domain.gpu import Card
from watchdog.domain.link import Link

NVML: Final = "nvml"
TOTAL: Final = "TOTAL"
CORRECTABLE, NONFATAL, FATAL = "correctable", "nonfatal", "fatal"

RECEIVER: Final = frozenset(
    {"RxErr", "BadTLP", "BadDLLP"}
    | {"RECEIVER_ERROR", "BAD_TLP", "BAD_DLLP", "LCRC", "NAKS_SENT", "LANE_ERROR"}
)
"""Counted by the end at which damaged packets arrive."""
TRANSMITTER: Final = frozenset(
    {"Timeout", "Rollover"} | {"Replay", "ReplayRollover", "NAKS_RECEIVED"}
)
"""Counted by the end that had to send again."""
OF_THE_LINK: Final = RECEIVER | TRANSMITTER
"""Correctable errors of the wire. The others (NonFatalErr, CorrIntErr, HeaderOF) are not its."""

KINDS: Final = {s.CORRECTABLE: CORRECTABLE, s.NONFATAL: NONFATAL, s.FATAL: FATAL}


class Counter(NamedTuple):
    """One error counter; `kind` is correctable, nonfatal or fatal, `by` an address or `nvml`."""

    kind: str
    by: str
    name: str

    @property
    def wire(self) -> bool:
        """Whether it counts correctable errors of a link."""
        return self.kind == CORRECTABLE and self.name in OF_THE_LINK


def counter_of(series: str) -> Counter | None:
    """Return the counter that a series is; None where it is none."""
    for prefix, kind in KINDS.items():
        if series.startswith(prefix):
            by, _, name = series[len(prefix) :].partition(" ")
            return Counter(kind, by, name) if name else None
    return None


def counters(levels: Mapping[str, float]) -> dict[Counter, float]:
    """Return every error counter of these levels."""
    found = ((counter_of(name), value) for name, value in levels.items())
    return {counter: value for counter, value in found if counter is not None}


def by_device(counted: Iterable[tuple[Counter, float]]) -> dict[str, dict[str, float]]:
    """Sort counts that are not zero by device; a total only where nothing else is named."""
    found: dict[str, dict[str, float]] = {}
    rest: dict[str, dict[str, float]] = {}
    named = set()
    for counter, n in counted:
        if n <= 0:
            continue
        group = rest if counter.name == TOTAL else found
        if group is found:
            named.add((counter.by, counter.kind))
        key = f"{counter.kind} {counter.name}" if counter.kind != "correctable" else counter.name
        group.setdefault(counter.by, {})[key] = n
    for by, totals in rest.items():
        for key, n in totals.items():
            kind = key.split()[0] if " " in key else "correctable"
            if (by, kind) not in named:
                found.setdefault(by, {})[key] = n
    return found


def on_wire(counted: Iterable[tuple[Counter, float]]) -> dict[str, float]:
    """
    Return correctable errors of the wire by device.

    A device's own kinds add up, except NVML's, which tell one event under several names (a
    replay, and the NAK that asked for it).
    """
    found: dict[str, float] = {}
    for counter, n in counted:
        if counter.wire and n > 0:
            so_far = found.get(counter.by, 0.0)
            found[counter.by] = max(so_far, n) if counter.by == NVML else so_far + n
    return found


def allowed_a_minute(link: Link) -> float:
    """
    Return how many correctable errors a minute a healthy link of this kind may have.

    DCGM's rule for replays: a bit error rate of 1e-12 on every lane, rounded up.
    """
    speed, width = link.speed or 0.0, link.width or 0.0
    return float(max(1, math.ceil(round(speed / 1000 * 60 * width, 6))))


def flat(counts: Mapping[str, Mapping[str, float]]) -> list[tuple[float, str, str]]:
    """Return count, name and device of each counter, the most first."""
    found = [(n, name, by) for by, names in counts.items() for name, n in names.items()]
    return sorted(found, key=lambda item: (-item[0], item[1], item[2]))


def spelled(counts: Mapping[str, Mapping[str, float]]) -> str:
    """Write counts as `6,655 BadTLP at 0000:00:02.0`, the most first."""
    where = {NVML: "by NVML"}
    said = [f"{n:,.0f} {name} {where.get(by, f'at {by}')}" for n, name, by in flat(counts)]
    more = f" and {len(said) - 4} more" if len(said) > 4 else ""
    return ", ".join(said[:4]) + more


def direction(card: Card, by: str, name: str) -> str:
    """Say which way the damaged packets went: a receiver counts what arrives, not what it sends."""
    kind = name.rsplit(maxsplit=1)[-1]
    if kind not in OF_THE_LINK:
        return ""
    away = "GPU -> CPU"
    if by == NVML or by == card.end != card.slot:
        way = "CPU -> GPU" if kind in RECEIVER else away
        return f"{kind} by the card: {way} on the slot's link"
    if by == card.slot:
        way = away if kind in RECEIVER else "CPU -> GPU"
        return f"{kind} at the slot's port {by}: {way} on the slot's link"
    if by in card.chain:
        inside = card.chain.index(by) > card.chain.index(card.slot)
        where = "inside the card" if inside else "above the slot, at a switch of the board"
        return f"{kind} at {by}: on a link {where}"
    return ""
