"""Which GPUs a server holds: what its processes show, or what the driver says of who holds each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from watchdog.domain.finding import Finding
from watchdog.domain.sample import Facts, Reading

Held = list[Mapping[str, Any]]


def held_by_driver(readings: Iterable[Reading]) -> list[dict[str, object]]:
    """Tell of each GPU of the host whose driver names its holders who they are."""
    facts: dict[str, dict[str, object]] = {}
    for reading in readings:
        if reading.slot:
            facts.setdefault(reading.slot, {}).update(reading.facts)
    return [
        {"slot": slot, "gpu": own.get("gpu"), "pids": own["holders"]}
        for slot, own in facts.items()
        if "holders" in own and own.get("vendor") == "nvidia"
    ]


def held_by(facts: Facts) -> Held | None:
    """
    Return the GPUs that a target's processes hold, by its facts; None where nobody knows.

    `gpus` are what the processes show. Else `held`, the driver's word of each GPU, is joined with
    the server's `pids`, and with `places`, where each GPU sits.
    """
    told, by_driver, pids = facts.get("gpus"), facts.get("held"), facts.get("pids")
    if isinstance(told, list):
        return told
    if not isinstance(by_driver, list) or not isinstance(pids, list):
        return None
    own, listed = set(pids), facts.get("places")
    places = {p.get("gpu"): p for p in (listed if isinstance(listed, list) else [])}
    found = [gpu for gpu in by_driver if own & set(gpu.get("pids", ()))]
    return [{**gpu, **places.get(gpu.get("gpu"), {})} for gpu in found] or None


def of_target(findings: Iterable[Finding], readings: Iterable[Reading]) -> list[Finding]:
    """Return those about GPUs that a target holds; all of them where it is not known which."""
    facts: dict[str, object] = {}
    for reading in readings:
        facts.update(reading.facts)
    held = held_by(facts)
    slots = None if held is None else {gpu.get("slot") for gpu in held}
    return [f for f in findings if slots is None or dict(f.subject).get("slot") in slots]
