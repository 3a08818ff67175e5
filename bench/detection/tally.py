"""
What is counted in the results: rates with their limits, quantiles, shares found by a time.

A result has `lives` (healthy: every alert of them is false, or tells of a gap or a restart) and
`faults` (of one kind, found or not); `run.py` writes it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

Row = Mapping[str, Any]

SHIPPED: Final = "shipped checks"
"""How results name what is on trial; every other detector is a rule in PromQL, by its text."""

TRUE: Final = frozenset({"ServingDown", "ServingRestarting", "WatchdogBlind"})
"""Alerts that tell of the gaps and restarts which a healthy life has: they are no false ones."""


def poisson_upper(events: float, level: float = 0.95) -> float:
    """Mean that would give as few events with a chance of only 1 - level: 3.0 for none."""
    low, high = 0.0, events + 10 * math.sqrt(events + 1) + 10
    for _ in range(100):
        mean = (low + high) / 2
        if poisson_cdf(int(events), mean) > 1 - level:
            low = mean
        else:
            high = mean
    return high


def poisson_cdf(events: int, mean: float) -> float:
    """Chance of at most so many."""
    if mean == 0:
        return 1.0
    log = math.log(mean)
    return math.fsum(math.exp(k * log - mean - math.lgamma(k + 1)) for k in range(events + 1))


def median(values: Sequence[float]) -> float | None:
    """Return the middle one; None of nothing."""
    return float(statistics.median(values)) if values else None


def p99(values: Sequence[float]) -> float | None:
    """Return the value that 99 % do not exceed: of less than a hundred, the largest."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1] if values else None


def percent(share: float, digits: int = 0) -> str:
    """As `12 %`."""
    return f"{100 * share:.{digits}f} %"


class Rate(NamedTuple):
    """False alarms in some endpoint-years."""

    events: int
    years: float

    @property
    def yearly(self) -> float:
        """So many an endpoint-year; nan where nothing was watched."""
        return self.events / self.years if self.years else math.nan

    @property
    def upper(self) -> float:
        """What it is at most, at 95 %: exact for events that come at random."""
        return poisson_upper(self.events) / self.years if self.years else math.inf


def rate(lives: Iterable[Row], detector: str | Iterable[str]) -> Rate:
    """Alerts of these detectors in these lives together. A pool of engines is one endpoint."""
    names = {detector} if isinstance(detector, str) else set(detector)
    events, years = 0, 0.0
    for life in lives:
        years += endpoint_years(life)
        events += sum(life["alarms"][n]["episodes"] for n in names & set(life["alarms"]))
    return Rate(int(events), years)


def endpoint_years(life: Row) -> float:
    """How long an endpoint was watched; results count the years of each of its engines."""
    return float(life["years"]) / int(life["engines"])


def is_promql(detector: str) -> bool:
    """Whether this is a rule's text and no alertname."""
    return "rate(" in detector


def detectors(lives: Iterable[Row]) -> list[str]:
    """Every alert that fired in them, but those that are true; rules in PromQL apart."""
    fired = {name for life in lives for name in life["alarms"]}
    return sorted(n for n in fired if not is_promql(n) and n not in TRUE)


def rules(rows: Iterable[Row]) -> list[str]:
    """Every rule in PromQL of these lives or faults, in the order in which they first come."""
    seen: dict[str, None] = {}
    for row in rows:
        for name in row["alarms"] if "alarms" in row else [row["detector"]]:
            if is_promql(name):
                seen[name] = None
    return sorted(seen, key=_by_form_and_limit)


def _by_form_and_limit(text: str) -> tuple[bool, bool, float]:
    limit = float(text.partition("< ")[2].split()[0])
    return (not text.startswith("1 +"), "increase(" in text, limit)


def shipped(faults: Iterable[Row], *names: str) -> list[Row]:
    """Faults of these names as the shipped checks found them; without names all of them."""
    return [f for f in faults if f["detector"] == SHIPPED and (not names or f["name"] in names)]


def found_within(fault: Row, seconds: float) -> float:
    """Share of all faults of the row that were found by then."""
    return sum(delay <= seconds for delay in fault["delays_s"]) / fault["n"] if fault["n"] else 0.0


def delays(fault: Row, key: str) -> list[float]:
    """Every fault's delay; one that was not found has an endless one."""
    return [*fault[key], *[math.inf] * (fault["n"] - fault["found"])]


def joined(rows: Sequence[Row], key: str) -> list[float]:
    """One list of all rows, without what did not come to pass."""
    return [value for row in rows for value in row.get(key, ()) if value is not None]


def grouped(
    rows: Iterable[Row], key: Callable[[Row], tuple[str, ...]]
) -> dict[tuple[str, ...], list[Row]]:
    """Put rows together by a key, in the order in which they come."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found
