"""
Results as Markdown, put between the markers of a page.

    python -m bench.detection.tables bench/detection/results.json docs/detection.md

A page says `<!-- table NAME -->` ... `<!-- end -->`; what stands between is written anew.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.detection import assumptions
from bench.detection.bound import bounds, nearest_mixes
from bench.detection.goals import CRITICAL, JUDGED, goals
from bench.detection.tally import (
    Rate,
    Row,
    delays,
    detectors,
    endpoint_years,
    found_within,
    grouped,
    joined,
    median,
    p99,
    percent,
    rate,
    rules,
    shipped,
)

Results = Mapping[str, Any]

NOTHING: Final = "-"
DAY: Final = 86_400.0


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table: the head, a rule, the rows."""
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", r"\|") for c in row) + " |" for row in cells)


def number(value: float | None) -> str:
    """As a person reads it: whole from 10 on, with commas."""
    if value is None:
        return NOTHING
    if math.isinf(value):
        return "never"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def short(value: float) -> str:
    """Two figures are all that are meant."""
    return f"{float(f'{value:.1e}'):,.0f}"


def pair(values: Sequence[float], scale: float = 1.0) -> str:
    """Median and p99."""
    if not values:
        return NOTHING
    return " / ".join(
        number(None if v is None else v / scale) for v in (median(values), p99(values))
    )


def alarms(counted: Rate) -> str:
    """Return events, their rate, and its limit at 95 %."""
    if not counted.years:
        return NOTHING
    return f"{counted.events}: {_rate(counted.yearly)} (< {_rate(counted.upper)})"


def _rate(value: float) -> str:
    return "0" if value == 0 else f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def run(results: Results) -> str:
    """Of which state of the program the results are, and whether they are all of them."""
    units = results.get("units", {})
    done = f"{units['done']} of {units['planned']}" if units else NOTHING
    return markdown(["commit", "units of work done"], [[results["commit"] or NOTHING, done]])


def lives(results: Results) -> str:
    """What was watched."""
    head = ["life", "profile", "used for", "seeds", "endpoint-years", "CPU s an endpoint-year"]
    return markdown(head, (
        [
            x["name"], x["profile"], x["role"], _seeds(x["seeds"]), _years([x]),
            number(x["seconds"] / endpoint_years(x) if x["years"] else None),
        ]
        for x in results["lives"]
    ))  # fmt: skip


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}-{seeds[-1]}"
    return ", ".join(map(str, seeds))


def false_alarms(results: Results) -> str:
    """Each alert of the shipped checks against each kind of life."""
    kinds = grouped(results["lives"], lambda x: (x["name"], x["role"]))
    always = {"SpecDecodeCollapsed", "SpecDecodeNotDrafting", "SpecDecodeDegraded/silent",
              "SpecDecodeDegraded/restart", "SpecDecodeDegraded/shape"}  # fmt: skip
    names = sorted({*detectors(results["lives"]), *always}, key=lambda n: (n not in CRITICAL, n))
    head = ["alert", *(f"{name}, {role}: {_years(rows)} y" for (name, role), rows in kinds.items())]
    return markdown(head, (
        [f"`{detector}`", *(alarms(rate(rows, detector)) for rows in kinds.values())]
        for detector in names
    ))  # fmt: skip


def _years(rows: Iterable[Row]) -> str:
    years = sum(map(endpoint_years, rows))
    return f"{years:.1f}" if years >= 1 else f"{years:.2f}"


def promql_alarms(results: Results) -> str:
    """Rules in PromQL against normal life by profile, and stress, not used to choose; ours too."""
    fresh = [x for x in results["lives"] if x["role"] != "choosing"]
    watched = [x for x in fresh if x["engines"] == 1 and rules([x])]
    kinds = grouped(watched, lambda x: (x["name"], x["profile"]))
    head = ["rule", *(f"{name}, {profile}" for name, profile in kinds)]
    ours = [
        ["`SpecDecodeCollapsed`", *(alarms(rate(r, "SpecDecodeCollapsed")) for r in kinds.values())]
    ]
    theirs = [
        [f"`{rule}`", *(alarms(rate(rows, rule)) for rows in kinds.values())]
        for rule in rules(watched)
    ]  # fmt: skip
    return markdown(head, [*theirs, *ours])


def found(results: Results) -> str:
    """Faults that need no baseline."""
    rows = [f for f in shipped(results["faults"]) if not _is_degrade(f)]
    head = ["fault", "profile", "faults", "missed", "delay, s", "drafts", "updates", "requests",
            "alerts each", "resolved after, s", "found by"]  # fmt: skip
    return markdown(head, ([f["name"], f["profile"], *_found(f)] for f in rows))


def _is_degrade(fault: Row) -> bool:
    return fault["name"].startswith(("degrade", "deep")) or "degrade" in fault["name"]


def _found(fault: Row) -> list[str]:
    return [
        number(fault["n"]), percent(1 - fault["found"] / fault["n"]),
        pair(delays(fault, "delays_s")), pair(delays(fault, "delays_drafts")),
        pair(delays(fault, "delays_updates")), pair(delays(fault, "delays_requests")),
        _alerts(fault), _resolved(fault), _by(fault),
    ]  # fmt: skip


def _alerts(fault: Row) -> str:
    counts = fault["alerts"]
    if not counts:
        return NOTHING
    mean = sum(counts) / len(counts)
    return f"{mean:.2f}" if mean < 10 else f"{mean:,.0f}"


def _resolved(fault: Row) -> str:
    never = sum(value is None for value in fault["resolve_s"])
    told = pair(joined([fault], "resolve_s"))
    return f"{told}, {never} not" if never else told


def promql_found(results: Results) -> str:
    """The same faults by the rules in PromQL, after ours; a column for each profile."""
    names = [f["name"] for f in results["faults"] if rules([f])]
    names = [n for name in dict.fromkeys(names) for n in (name, f"{name}, left alone")]
    rows = [f for f in results["faults"] if f["name"] in names]
    profiles = list(dict.fromkeys(f["profile"] for f in rows))
    said = ["shipped checks", *rules(rows)]
    kinds = grouped(rows, lambda f: (f["name"], f["detector"]))
    order = sorted(kinds, key=lambda kind: (_at(names, kind[0]), _at(said, kind[1])))
    head = ["fault", "rule", *(f"{p}: delay s, drafts, alerts each" for p in profiles)]
    return markdown(head, (
        [
            name, _code(detector),
            *(_cell([f for f in kinds[name, detector] if f["profile"] == p]) for p in profiles),
        ]
        for name, detector in order
    ))  # fmt: skip


def _cell(rows: Sequence[Row]) -> str:
    """Median delays and alerts of the one fault of a profile."""
    if not rows:
        return NOTHING
    (fault,) = rows
    told = [*(number(median(delays(fault, f"delays_{of}"))) for of in ("s", "drafts")),
            _alerts(fault)]  # fmt: skip
    missed = 1 - fault["found"] / fault["n"]
    return "; ".join(told) + (f" ({percent(missed)} missed)" if missed else "")


def _at(order: Sequence[str], word: str) -> int:
    return order.index(word) if word in order else len(order)


def _code(detector: str) -> str:
    return f"`{detector}`" if "rate(" in detector else detector


def degraded(results: Results) -> str:
    """Faults that are held against what was learned, or against the siblings."""
    head = ["fault", "profile", "faults", "within 25 h", "3 days", "7 days",
            "hours, median / p99", "found by"]  # fmt: skip
    return markdown(head, (
        [
            f["name"], f["profile"], number(f["n"]),
            *(percent(found_within(f, seconds)) for seconds in (JUDGED, 3 * DAY, 7 * DAY)),
            pair(delays(f, "delays_s"), 3600), _by(f),
        ]
        for f in shipped(results["faults"]) if _is_degrade(f)
    ))  # fmt: skip


def _by(fault: Row) -> str:
    by = fault.get("rules") or {fault["rule"]: fault["found"]}
    short = {name.rpartition("/")[2]: n for name, n in by.items() if name}
    return (
        ", ".join(f"{name} {n}" for name, n in sorted(short.items(), key=lambda x: -x[1]))
        or NOTHING
    )


def reached(results: Results) -> str:
    """Goals beside what was seen."""
    words = {True: "met", False: "**not met**", None: "not measured"}
    return markdown(
        ["goal", "aim", "seen", ""], ([g.what, g.aim, g.seen, words[g.met]] for g in goals(results))
    )


def missed(results: Results) -> str:
    """What was not reached, and what is known of why."""
    rows = [[g.what, g.seen, g.why or "not known"] for g in goals(results) if g.met is False]
    return markdown(["not met", "seen", "why"], rows or [["none", NOTHING, NOTHING]])


def limit(_: Results) -> str:
    """How soon any detector could find the incident."""
    head = ["healthy traffic is", "nats a draft", "drafts, idle / busy", "nats a request",
            "requests, idle / busy"]  # fmt: skip
    return markdown(head, (
        [b.healthy, f"{b.per_draft:.3f}", f"{b.drafts[0]:.0f} / {b.drafts[1]:.0f}",
         f"{b.per_request:.1f}", f"{b.requests[0]:.1f} / {b.requests[1]:.1f}"]
        for b in bounds()
    ))  # fmt: skip


def mixes(_: Results) -> str:
    """How far a degraded drafter is from a healthy one on other traffic."""
    head = ["fault", "nats a draft, mix known", "nearest mix of 6 categories", "which",
            "with odd text too", "drafts needed (idle): mix known", "mix not known"]  # fmt: skip
    return markdown(head, (
        [m.fault, f"{m.known:.2g}", f"{m.nearest:.1g}", m.mix, f"{m.with_odd:.1g}",
         number(m.drafts_known), short(m.drafts)]
        for m in nearest_mixes()
    ))  # fmt: skip


def categories(_: Results) -> str:
    """The kinds of text."""
    return markdown(assumptions.head("categories"), assumptions.categories())


def assumed(_: Results) -> str:
    """What else a life is made of."""
    return markdown(assumptions.head("figures"), assumptions.figures())


TABLES: Final[Mapping[str, Callable[[Results], str]]] = {
    "goals": reached,
    "missed": missed,
    "run": run,
    "lives": lives,
    "false-alarms": false_alarms,
    "found": found,
    "degraded": degraded,
    "promql-alarms": promql_alarms,
    "promql-found": promql_found,
    "bound": limit,
    "mixes": mixes,
    "categories": categories,
    "assumed": assumed,
}

MARKED = re.compile(r"(<!-- table (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def refreshed(page: str, results: Results) -> str:
    """Write every marked table of a page anew; an unknown name is a KeyError."""
    return MARKED.sub(lambda m: f"{m[1]}{TABLES[m['name']](results)}\n{m[3]}", page)


def main(told: str, page: str) -> None:
    """Refresh a page from a file of results."""
    path = Path(page)
    results = json.loads(Path(told).read_text(encoding="utf-8"))
    path.write_text(refreshed(path.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
