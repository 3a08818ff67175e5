"""What the generator takes from the incident and what it assumes, as rows of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.detection import interruptions, mix, traffic
from bench.detection.acceptance import CATEGORIES, DEEPER, DEPTH, SHARES, overall_length
from bench.detection.faults import BROKEN
from bench.detection.life import Setting
from bench.detection.tally import percent

INCIDENT: Final = frozenset({"file_edit", "math", "prose", "chat"})
"""Categories whose acceptance length was measured in the incident."""


def categories() -> list[list[str]]:
    """Name, share of the requests, acceptance length and where it is from, tokens."""
    return [
        [
            c.name, percent(share) if share else "in its episodes", f"{c.length:.2f}",
            "incident" if c.name in INCIDENT else "assumed",
            f"{c.prompt:,.0f}", f"{c.output:,.0f}", percent(c.cached),
        ]
        for c, share in zip(CATEGORIES, SHARES, strict=True)
    ]  # fmt: skip


def figures() -> list[list[str]]:
    """What, how much, and from where."""
    usual = Setting()
    one, all_of_them = traffic.STEP
    slow, slower = mix.RELAXATION
    night, weekend = traffic.WEEK[0] / traffic.WEEK[12], traffic.WEEK[5 * 24] / traffic.WEEK[0]
    return [
        _of("depth of the drafts", f"{DEPTH}, always in full", "incident"),
        _of("acceptance length over all", f"{overall_length(usual.sd):.2f}", "incident: 3.3"),
        _of("seconds of a decode step", f"{one:g} alone, {all_of_them:g} with {traffic.CLIENTS}, "
            "evenly in between", "incident, and assumed in between"),
        _of("requests of one category differ", f"normally, by {usual.sd:g} logits; "
            "stress: 0.9", "assumed; nothing else moves false alarms as much"),
        _of("a token after an accepted one", f"is likelier by {DEEPER:g} logits", "assumed"),
        _of("the mix drifts", f"by {mix.SPREAD[0]:g} logits within {slow:g} hours, and by "
            f"{mix.SPREAD[1]:g} within {slower / 24:g} days", "assumed"),
        _of("campaigns of one category", f"{mix.CAMPAIGNS:g} a year, {percent(mix.CAMPAIGN[0])} of "
            f"the requests, {mix.CAMPAIGN[1]:g} h on average", "assumed"),
        _of("out-of-domain text", f"{usual.odd_per_year:g} times a year (stress: 24), "
            f"{percent(mix.ODD_TEXT[0])} of requests, {mix.ODD_TEXT[1]:g} h on average", "assumed"),
        _of("requests an hour", f"{traffic.PER_HOUR['idle']:g} idle, "
            f"{traffic.PER_HOUR['medium']:g} medium; busy: {traffic.CLIENTS} clients that ask "
            f"again, {traffic.BUSY:g} drafts/s on average", "assumed"),
        _of("day and week", f"nights at {percent(night)} of the working hours, weekends at "
            f"{percent(weekend)}", "assumed"),
        _of("prompts and outputs", f"lognormal, {traffic.PROMPT_SPREAD:g} and "
            f"{traffic.OUTPUT_SPREAD:g}", "assumed"),
        _of("restarts", f"{interruptions.RESTARTS:g} a year, down for "
            f"{interruptions.DOWN[0]:g} to {interruptions.DOWN[1]:g} s", "assumed"),
        _of("scrapes", f"every {usual.interval:g} s, {percent(interruptions.MISSED, 1)} missed, "
            f"{interruptions.GAPS:g} gaps a year of {interruptions.GAP[0] / 60:g} min to "
            f"{interruptions.GAP[1] / 3600:g} h", "assumed"),
        *(_of(f"broken: {kind.replace('_', ', ')}", f"length {length:g}, position 0 accepted in "
              f"{percent(first, 1)}, on all text alike", _from(kind))
          for kind, (length, first) in BROKEN.items()),
    ]  # fmt: skip


def _of(what: str, how_much: str, where: str) -> list[str]:
    return [what, how_much, where]


def _from(kind: str) -> str:
    return "incident" if kind.startswith("incident") else "assumed"


def head(of: str) -> Sequence[str]:
    """Return the heads of the two tables."""
    if of == "categories":
        return ["text", "requests", "length", "from", "prompt", "output", "of it cached"]
    return ["what", "how much", "from"]
