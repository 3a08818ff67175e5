"""Windows of GPUs as literals: cards, links and counters for tests of one check alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from watchdog.domain import series as s
from watchdog.domain.finding import Finding
from watchdog.domain.history import Window
from watchdog.domain.link import SPEEDS, Slot
from watchdog.domain.profile import Profile
from watchdog.domain.sample import Reading, Sample, labels

PORT, UP, DOWN, GPU = "0000:00:03.0", "0000:03:00.0", "0000:04:00.0", "0000:05:00.0"
SUBJECT = labels(slot=PORT)
GEN3_X16 = Slot(PORT, 3, 16)

Level = Mapping[str, float]


def r9700(host: str = "intel", **facts: Any) -> dict[str, Any]:
    """Facts of a Radeon with a switch of its own, in PORT; on a Xeon unless told otherwise."""
    return {
        "gpu": GPU, "slot": PORT, "chain": [PORT, UP, DOWN, GPU], "vendor": "amd",
        "device": "1002:7551", "card": "AMD 1002:7551", "host": host, "numa": 0,
        "root": "pci0000:00", "driver": "amdgpu", "runtime": "active", "switch": True,
        "rows": [], "stars": 2, "unread": {}, **facts,
    }  # fmt: skip


def geforce(host: str = "amd", **facts: Any) -> dict[str, Any]:
    """Facts of an NVIDIA card, right in PORT."""
    return {
        "gpu": "0000:01:00.0", "slot": PORT, "chain": [PORT, "0000:01:00.0"], "vendor": "nvidia",
        "device": "10de:2204", "card": "NVIDIA 10de:2204", "host": host, "numa": None,
        "root": "pci0000:00", "driver": "nvidia", "runtime": "active", "switch": False,
        "name": "RTX 3090", "unread": {}, **facts,
    }  # fmt: skip


def polaris(host: str = "intel", **facts: Any) -> dict[str, Any]:
    """Facts of a Radeon without a switch of its own."""
    chain = [PORT, "0000:01:00.0"]
    return r9700(host, gpu="0000:01:00.0", chain=chain, switch=False, **facts)


def tells(generation: int | None, width: int | None, *witnesses: str) -> dict[str, float]:
    """Levels of a link as these witnesses tell it; both ends of the slot's link unless named."""
    levels: dict[str, float] = {}
    for witness in witnesses or (s.PORT, s.CARD):
        if generation is not None:
            levels[s.LINK_SPEED + witness] = SPEEDS[generation]
        if width is not None:
            levels[s.LINK_WIDTH + witness] = float(width)
    return levels


def link(generation: int, width: int, **levels: float) -> dict[str, float]:
    """What a Radeon that is read well tells: both ends, the star, and lspci's lie."""
    told = tells(generation, width, s.PORT, s.CARD, s.STARRED) | tells(5, 16, s.FUNCTION)
    return {**told, s.UTILISATION: 0.0, **levels}


def nvidia(generation: int, width: int, **levels: float) -> dict[str, float]:
    """What an NVIDIA card tells: both ends and NVML."""
    return {**tells(generation, width, s.PORT, s.CARD, s.NVML), **levels}


BUSY: Level = {s.UTILISATION: 95.0}
NVIDIA_BUSY: Level = {s.UTILISATION: 95.0, s.PSTATE: 2.0, s.EVENT_REASONS: 4.0}
NVIDIA_IDLE: Level = {s.UTILISATION: 0.0, s.PSTATE: 8.0, s.EVENT_REASONS: 1.0}


def window(
    levels: Level,
    facts: Mapping[str, Any] | None = None,
    slots: Iterable[Slot] = (GEN3_X16,),
    *,
    seconds: float | None = 15.0,
    before: Level | None = None,
    reset: bool = False,
    error: str | None = None,
) -> Window:
    """One GPU's window; `grown` follows from `before` and `levels`."""
    told = r9700() if facts is None else facts
    counted = {n: v for n, v in levels.items() if n not in s.LEVELS}
    before = counted if before is None else before
    grown = {n: v - before.get(n, 0.0) for n, v in counted.items()}
    samples = tuple(Sample(SUBJECT, name, value) for name, value in levels.items())
    reading = Reading("pcie_sysfs", "", samples, told, error, slot=PORT)
    known = seconds is not None
    return Window(
        SUBJECT, 0.0, seconds, grown if known else {}, dict(levels), before if known else {},
        reset=reset, profile=Profile(slots=tuple(slots)), facts=told, readings=(reading,),
    )  # fmt: skip


def unread(old: Level, slots: Iterable[Slot] = (GEN3_X16,), error: str = "hangs") -> Window:
    """A round in which the GPU was not read: the history hands out its old levels, as a gap."""
    reading = Reading("pcie_sysfs", "", error=error, answered=False, slot=PORT)
    return Window(
        SUBJECT, 0.0, None, levels=dict(old), gap=True, profile=Profile(slots=tuple(slots)),
        readings=(reading,),
    )  # fmt: skip


def steps(check: Any, windows: Sequence[Window], every: float = 15.0) -> list[list[Finding]]:
    """Step through the windows; the findings of each round."""
    state, rounds = None, []
    for i, seen in enumerate(windows):
        state, found = check.step(state, seen, every * i)
        rounds.append(found)
    return rounds


def last(check: Any, windows: Sequence[Window], alertname: str) -> Finding:
    """The last round's finding of this name."""
    return next(f for f in steps(check, windows)[-1] if f.alertname == alertname)


def host(
    found: Sequence[Mapping[str, Any]] | None,
    slots: Iterable[Slot] = (GEN3_X16,),
    parts: Sequence[Window] = (),
    *,
    pci: bool = True,
) -> Window:
    """The host's window; `found` None: no census in this round."""
    profile = Profile(slots=tuple(slots))
    if found is None:
        reading = Reading("gpus", "", error="hangs", answered=False)
        return Window((), 0.0, profile=profile, readings=(reading,), parts=tuple(parts))
    facts = {"gpus": [dict(gpu) for gpu in found], "pci": pci}
    reading = Reading("gpus", "", facts=facts)
    return Window(
        (), 0.0, profile=profile, facts=facts, readings=(reading,), parts=tuple(parts)
    )  # fmt: skip
