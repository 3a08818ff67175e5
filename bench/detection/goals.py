"""What the detectors have to reach, and whether the results do: computed, never typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.detection.tally import (
    TRUE,
    Row,
    detectors,
    found_within,
    joined,
    median,
    p99,
    percent,
    rate,
    shipped,
)
from watchdog.domain.alert import PATIENCE

DAY: Final = 86_400.0
A_DAY_JUDGED: Final = 25 * 3600.0
"""A rule that judges the first day does so in a round after it, and a restart takes minutes."""

DEAD: Final = ("incident", "incident, greedy text", "zero acceptance")
"""Drafters whose first token is accepted in at most 6.7 % of the drafts."""

CRITICAL: Final = frozenset(n for n, p in PATIENCE.items() if p.severity == "critical") - TRUE


class Goal(NamedTuple):
    """One thing to reach; `met` is None where the results have nothing of it."""

    what: str
    aim: str
    seen: str
    met: bool | None


def goals(results: Mapping[str, Any]) -> list[Goal]:
    """Every goal in the order of the issue."""
    lives, faults = results["lives"], results["faults"]
    return [
        *_dead(faults),
        *_one_engine(faults),
        *_stops(faults),
        *_degraded(faults),
        *_critical(lives),
        *_warnings(lives),
        _cost(lives),
    ]


def _at_most(what: str, aim: float, seen: float | None, unit: str) -> Goal:
    text = "not measured" if seen is None else f"{seen:,.0f}"
    return Goal(what, f"at most {aim:,g}{unit}", text, None if seen is None else seen <= aim)


def _share(what: str, aim: float, rows: Sequence[Row], seconds: float) -> Goal:
    if not rows:
        return Goal(what, f"at least {percent(aim)}", "not measured", None)
    shares = {row["profile"]: found_within(row, seconds) for row in rows}
    seen = ", ".join(f"{profile} {percent(share)}" for profile, share in shares.items())
    return Goal(what, f"at least {percent(aim)}", seen, min(shares.values()) >= aim)


def _dead(faults: Sequence[Row], names: Sequence[str] = DEAD, who: str = "") -> Iterator[Goal]:
    """One goal each for all profiles together; the slowest kind on any profile counts."""
    rows = shipped(faults, *names)
    what = who or "dead drafter"
    yield _at_most(f"{what}: drafts, median", 2000, _worst(rows, "delays_drafts", median), "")
    yield _at_most(f"{what}: drafts, p99", 4000, _worst(rows, "delays_drafts", p99), "")
    yield _at_most(f"{what}: requests, p99", 10, _worst(rows, "delays_requests", p99), "")
    busy = [row for row in rows if row["profile"] == "busy"]
    if busy or not who:
        yield _at_most(f"{what}: saturated, p99", 45, _worst(busy, "delays_s", p99), " s")
    missed = sum(row["n"] - row["found"] for row in rows) if rows else None
    yield _at_most(f"{what}: missed", 0, missed, "")
    most = max((n for row in rows for n in row["alerts"]), default=None)
    yield _at_most(f"{what}: alerts of one fault", 1, most, "")
    left = sum(r is None for row in rows for r in row["resolve_s"]) if rows else None
    yield _at_most(f"{what}: repaired and not resolved", 0, left, "")


def _worst(rows: Sequence[Row], key: str, of: Any) -> float | None:
    figures = [of(joined([row], key)) for row in rows]
    return max((f for f in figures if f is not None), default=None)


def _one_engine(faults: Sequence[Row]) -> Iterator[Goal]:
    yield from _dead(faults, ("one engine of 8: incident",), "one dead engine of 8")


def _stops(faults: Sequence[Row]) -> Iterator[Goal]:
    rows = shipped(faults, "drafting stops")
    idle = [row for row in rows if row["profile"] == "idle"]
    busy = [row for row in rows if row["profile"] == "busy"]
    what = "drafting stops"
    yield _at_most(f"{what}: idle, updates, p99", 800, _worst(idle, "delays_updates", p99), "")
    yield _at_most(f"{what}: saturated, median", 15, _worst(busy, "delays_s", median), " s")
    missed = sum(row["n"] - row["found"] for row in rows) if rows else None
    yield _at_most(f"{what}: missed", 0, missed, "")


def _degraded(faults: Sequence[Row]) -> Iterator[Goal]:
    for name, aim, seconds, when in (
        ("degrade 30 %", 0.95, 7 * DAY, "within 7 days"),
        ("degrade 30 % at a restart", 0.95, A_DAY_JUDGED, "after a day"),
        ("degrade 20 % at a restart", 0.75, A_DAY_JUDGED, "after a day"),
        ("deep 30 %", 0.95, A_DAY_JUDGED, "within a day"),
    ):
        yield _share(f"{name}: found {when}", aim, shipped(faults, name), seconds)


def _critical(lives: Sequence[Row]) -> Iterator[Goal]:
    normal = [x for x in lives if x["name"] == "normal" and x["role"] == "held out"]
    counted = rate(normal, CRITICAL)
    seen = f"{counted.events} in {counted.years:.1f} years"
    enough = counted.years >= 29.95
    yield Goal(
        "critical false alarms, normal life held out", "none in at least 30 endpoint-years",
        seen if enough else seen + " (too short)",
        (counted.events == 0) if enough or counted.events else None,
    )  # fmt: skip
    wild = rate([x for x in lives if x["name"] == "sd .9"], CRITICAL)
    yield Goal(
        "critical false alarms, requests differ twice as much", "at most 1 a year",
        f"{wild.events} in {wild.years:.1f} years",
        wild.yearly <= 1 if wild.years else None,
    )  # fmt: skip


def _warnings(lives: Sequence[Row]) -> Iterator[Goal]:
    """The profile with the most counts: an average would hide it."""
    normal = [x for x in lives if x["name"] == "normal" and x["role"] == "held out"]
    pools = [x for x in lives if x["engines"] > 1 and x["jitter"] <= 0.15]
    named = {d: normal for d in detectors(normal) if d not in CRITICAL}
    named.setdefault("SpecDecodeDegraded/silent", normal)
    named.setdefault("SpecDecodeDegraded/restart", normal)
    named.setdefault("SpecDecodeDegraded/shape", normal)
    named["SpecDecodeDegraded/siblings"] = pools
    for detector, rows in sorted(named.items()):
        rates = {p: rate([x for x in rows if x["profile"] == p], detector) for p in _profiles(rows)}
        seen = ", ".join(f"{p} {r.events} in {r.years:.1f} y" for p, r in rates.items())
        met = all(r.yearly <= 1 for r in rates.values()) if rates else None
        where = "pools of 8" if rows is pools else "normal life held out"
        yield Goal(
            f"false {detector}, {where}", "at most 1 a year on each profile",
            seen or "not measured", met,
        )  # fmt: skip


def _profiles(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["profile"] for row in rows))


def _cost(lives: Sequence[Row]) -> Goal:
    alone = [x for x in lives if x["engines"] == 1 and x["years"]]
    worst = max((x["seconds"] / x["years"] for x in alone), default=None)
    return _at_most("judging an endpoint-year", 120, worst, " CPU s")
