"""What the detectors have to reach, and whether the results do: computed, never typed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.detection.tally import (
    TRUE,
    Rate,
    Row,
    delays,
    detectors,
    found_within,
    grouped,
    median,
    p99,
    percent,
    rate,
    shipped,
)
from watchdog.domain.alert import PATIENCE

DAY: Final = 86_400.0
JUDGED: Final = 25 * 3600.0
"""The first 24 h after a restart are judged with the next drafts; an idle night makes them wait."""

DEAD: Final = ("incident", "incident, greedy text", "zero acceptance")
"""Drafters whose first token is accepted in at most 6.7 % of the drafts."""

LASTING: Final = (*DEAD, "incident, left alone", "incident of a day, baseline known")
"""The same, and those that last on although they were found: one alert each, all the while."""

LINGER: Final = PATIENCE["SpecDecodeCollapsed"].linger
"""Seconds that an alert stands after the repair at least; less, and it did not wait for it."""

SCRAPE: Final = 15.0
"""Seconds from one to the next, in all faults."""

FULL: Final = 100.0
"""Decode updates a second from which a server is saturated; eight at once make 117."""

UNREAD: Final = 60.0
"""Seconds without a page in a delay that are worth telling."""

CRITICAL: Final = frozenset(n for n, p in PATIENCE.items() if p.severity == "critical") - TRUE


class Goal(NamedTuple):
    """
    One thing to reach; `met` is None where the results have nothing of it, or too little.

    `why`: what is known of the cause, where it is missed.
    """

    what: str
    aim: str
    seen: str
    met: bool | None
    why: str = ""


def goals(results: Mapping[str, Any]) -> list[Goal]:
    """Every goal in the order of the issue."""
    lives, faults = results["lives"], results["faults"]
    return [
        *_dead(faults),
        *_lasting(faults),
        *_one_engine(faults),
        *_stops(faults),
        *_degraded(faults),
        *_critical(lives),
        *_warnings(lives),
        _cost(lives),
    ]


def _at_most(what: str, aim: float, seen: float | None, unit: str, why: str = "") -> Goal:
    text = "not measured" if seen is None else _figure(seen)
    return Goal(what, f"at most {aim:,g}{unit}", text, None if seen is None else seen <= aim, why)


def _delay(what: str, aim: float, rows: Sequence[Row], key: str, of: Callable[..., Any]) -> Goal:
    """
    Judge all kinds together by profile, outside of gaps, in which nobody could know.

    What was never found took for ever.
    """
    figures = {
        profile: of([delay for row in several for delay in _in_view(row, key)])
        for (profile,), several in grouped(rows, lambda row: (row["profile"],)).items()
    }
    figures = {profile: seen for profile, seen in figures.items() if seen is not None}
    if not figures:
        return _at_most(what, aim, None, "")
    told = ", ".join(f"{profile} {_figure(seen)}" for profile, seen in figures.items())
    late = "; ".join(_late(row, key, aim) for row in rows if (of(_in_view(row, key)) or 0) > aim)
    return Goal(what, f"at most {aim:,g}", told, max(figures.values()) <= aim, late)


def _figure(seen: float) -> str:
    return "never" if math.isinf(seen) else f"{seen:,.0f}"


def _named(row: Row) -> str:
    return f"{row['name']}, {row['profile']}"


def _unread(row: Row) -> Sequence[float]:
    """Seconds of each delay in which no page could be read."""
    found: Sequence[float] = row.get("blind_s") or [0.0] * row["found"]
    return found


def _in_view(row: Row, key: str) -> list[float]:
    """Delays without those of faults that fell into a gap."""
    pairs = zip(delays(row, key), [*_unread(row), *[0.0] * (row["n"] - row["found"])], strict=True)
    return [delay for delay, unread in pairs if unread < UNREAD]


def _late(row: Row, key: str, aim: float) -> str:
    """Tell how many of a kind were late, and how many of them nobody could see for a while."""
    late = [unread for delay, unread in zip(row[key], _unread(row), strict=True) if delay > aim]
    missed = row["n"] - row["found"]
    told = f"{_named(row)}: {len(late) + missed} of {row['n']} faults took more than {aim:,g}"
    if missed:
        told += f", {missed} were not found at all"
    if blind := sum(seconds >= UNREAD for seconds in late):
        told += f", {blind} fell into a gap of the scrapes, where nobody could know"
    return told


def _scrapes(what: str, aim: float, rows: Sequence[Row]) -> Goal:
    """Judge faults of a saturated server, by the pages that could be read until they were found."""
    counted = [
        (seconds - unread) / SCRAPE
        for row in rows
        for seconds, updates, unread in zip(
            row["delays_s"], row["delays_updates"], _unread(row), strict=True
        )
        if updates >= FULL * seconds
    ]
    late = sum(scrapes > aim for scrapes in counted)
    why = f"{late} of {len(counted)} faults of a saturated server took more"
    return _at_most(what, aim, p99(counted), "", why)


def _share(what: str, aim: float, rows: Sequence[Row], seconds: float, why: str) -> Goal:
    if not rows:
        return Goal(what, f"at least {percent(aim)}", "not measured", None)
    shares = {row["profile"]: found_within(row, seconds) for row in rows}
    seen = ", ".join(f"{row['profile']} {percent(shares[row['profile']])} of {row['n']}"
                     for row in rows)  # fmt: skip
    return Goal(what, f"at least {percent(aim)}", seen, min(shares.values()) >= aim, why)


def _dead(faults: Sequence[Row], names: Sequence[str] = DEAD, who: str = "") -> Iterator[Goal]:
    rows = shipped(faults, *names)
    what = who or "dead drafter"
    yield _delay(f"{what}: drafts, median", 2000, rows, "delays_drafts", median)
    yield _delay(f"{what}: drafts, p99", 4000, rows, "delays_drafts", p99)
    yield _delay(f"{what}: requests, p99", 10, rows, "delays_requests", p99)
    busy = [row for row in rows if row["profile"] == "busy"]
    if busy or not who:
        yield _scrapes(f"{what}: saturated, scrapes, p99", 3, busy)
    yield _missed(what, rows)
    yield _alerts(what, rows)
    yield _unresolved(what, rows)


def _missed(what: str, rows: Sequence[Row]) -> Goal:
    """Count what no critical alert told first: a warning is not how a dead drafter is found."""
    missed = {_named(row): row["n"] - _paged(row) for row in rows}
    where = ", ".join(f"{name}: {n}" for name, n in missed.items() if n)
    return _at_most(f"{what}: missed", 0, sum(missed.values()) if rows else None, "", where)


def _paged(row: Row) -> int:
    by = row.get("rules") or {row["rule"]: row["found"]}
    return int(sum(n for rule, n in by.items() if rule in CRITICAL))


def _alerts(what: str, rows: Sequence[Row]) -> Goal:
    most = max((n for row in rows for n in row["alerts"]), default=None)
    raised = {name for row in rows if max(row["alerts"], default=0) > 1
              for name in row.get("raised", ())}  # fmt: skip
    where = f"what was raised: {', '.join(sorted(raised))}" if raised else ""
    return _at_most(f"{what}: alerts of one fault", 1, most, "", where)


def _unresolved(what: str, rows: Sequence[Row]) -> Goal:
    left = sum(r is None for row in rows for r in row["resolve_s"]) if rows else None
    return _at_most(f"{what}: repaired and not resolved", 0, left, "")


def _lasting(faults: Sequence[Row]) -> Iterator[Goal]:
    """Only evidence resolves: neither silence, nor that it lasts."""
    rows = shipped(faults, *LASTING)
    yield _alerts("dead and left alone", shipped(faults, *LASTING[len(DEAD) :]))
    early = [r for row in rows for r in row["resolve_s"] if r is not None and r < LINGER]
    yield _at_most("dead drafter: resolved without a repair", 0, len(early) if rows else None, "")


def _one_engine(faults: Sequence[Row]) -> Iterator[Goal]:
    who = "one dead engine of 8"
    yield from _dead(faults, ("one engine of 8: incident",), who)
    rows = shipped(faults, "one engine of 8: degrade 30 %")
    what = "one engine of 8, worse by 30 %: found within 7 days"
    yield _share(what, 0.95, rows, 7 * DAY, "its requests differ from those of the others")


def _stops(faults: Sequence[Row]) -> Iterator[Goal]:
    rows = shipped(faults, "drafting stops")
    idle = [row for row in rows if row["profile"] == "idle"]
    busy = [row for row in rows if row["profile"] == "busy"]
    what = "drafting stops"
    yield _delay(f"{what}: idle, updates, p99", 800, idle, "delays_updates", p99)
    yield _scrapes(f"{what}: saturated, scrapes, p99", 1, busy)
    yield _missed(what, rows)


MIXES: Final = "draft for draft it is a healthy drafter on other text; see what can be known at all"


def _degraded(faults: Sequence[Row]) -> Iterator[Goal]:
    for name, aim, seconds, when, why in (
        ("degrade 30 %", 0.95, 7 * DAY, "within 7 days", MIXES),
        ("degrade 30 % at a restart", 0.95, JUDGED, "within 25 h", MIXES),
        ("degrade 20 % at a restart", 0.75, JUDGED, "within 25 h", MIXES),
        ("deep 30 %", 0.95, DAY, "within 24 h", "it waits for 60 requests of the last 24 h"),
    ):
        yield _share(f"{name}: found {when}", aim, shipped(faults, name), seconds, why)


def _critical(lives: Sequence[Row]) -> Iterator[Goal]:
    normal = [x for x in lives if x["name"] == "normal" and x["role"] == "held out"]
    counted = rate(normal, CRITICAL)
    seen = f"{counted.events} in {counted.years:.1f} years"
    enough = counted.years > 30 - 1e-6
    yield Goal(
        "critical false alarms, normal life held out", "none in at least 30 endpoint-years",
        seen if enough else seen + " (too short)",
        (counted.events == 0) if enough or counted.events else None,
        _which(normal, CRITICAL),
    )  # fmt: skip
    wild = [x for x in lives if x["name"] == "sd .9"]
    yield _yearly("critical false alarms, requests differ twice as much", wild, CRITICAL,
                  _which(wild, CRITICAL))  # fmt: skip


def _which(rows: Sequence[Row], names: Collection[str]) -> str:
    """Name what fired, and where."""
    told = [
        f"{row['profile']}: {name} {row['alarms'][name]['episodes']}"
        for row in rows for name in sorted(set(names) & set(row["alarms"]))
    ]  # fmt: skip
    return ", ".join(told)


OFTEN: Final[Mapping[str, str]] = {
    "silent": "a mix that stays odd for a day or three looks the same to it",
    "restart": "a mix that is odd on the day after a restart looks the same to it",
    "shape": "text whose deeper positions are worse than its first one explains looks the same",
    "siblings": "its requests differ from those of the others, by chance or by the router's choice",
}
"""What a false warning of each rule is."""


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
        where = "pools of 8, jitter to 0.15" if rows is pools else "normal life held out"
        why = OFTEN.get(detector.rpartition("/")[2], "")
        yield _yearly(f"false {detector}, {where}", rows, detector, why)


def _yearly(what: str, rows: Sequence[Row], names: str | Collection[str], why: str) -> Goal:
    """Judge a rate by profile; one alarm in less than a year shows nothing yet."""
    rates = {p: rate([x for x in rows if x["profile"] == p], names) for p in _profiles(rows)}
    seen = ", ".join(f"{p} {_counted(r)}" for p, r in rates.items())
    return Goal(what, "at most 1 a year on each profile", seen or "not measured",
                _rare(list(rates.values())), why)  # fmt: skip


def _counted(r: Rate) -> str:
    return f"{r.events} in {r.years:.1f} y" + (" (too short)" if r.years < 1 else "")


def _rare(rates: Sequence[Rate]) -> bool | None:
    if any(r.events > max(1.0, r.years) for r in rates):
        return False
    return True if rates and all(r.years >= 1 for r in rates) else None


def _profiles(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["profile"] for row in rows))


def _cost(lives: Sequence[Row]) -> Goal:
    """Judge the dearest kind of life."""
    alone = [x for x in lives if x["engines"] == 1 and x["years"]]
    cost = {f"{x['name']}, {x['profile']}": x["seconds"] / x["years"] for x in alone}
    seen = max(cost.values(), default=None)
    return _at_most("judging an endpoint-year", 120, seen, " CPU s", _dear(cost))


def _dear(cost: Mapping[str, float]) -> str:
    """Tell where the time goes."""
    told = ", ".join(f"{name}: {seconds:,.0f}" for name, seconds in cost.items())
    return f"all checks and the alert book judge a round, not one rule alone ({told})"
