"""
What people write in PromQL against a dead drafter, evaluated as Prometheus would, over years.

    seen = counters(life.day(i) for i in range(365))
    for rule in WRITTEN:
        for began, ended in alerts(rule, seen): ...

The same arithmetic as `rate()` and `increase()` on floats: resets, extrapolation to the ends of the
range and its limits, a range without two samples. 0/0 is NaN, which is below nothing: silence ends
an alert. Scrapes and evaluations come at the same moments; a missed scrape is merely absent, for
the stale marker that it leaves is no sample of a range. tests/detection/test_promql.py shows
that `promtool test rules` raises the same alerts at the same times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

RANGE = 300.0
"""Seconds of a range: everybody writes [5m]."""
EDGE = 1.1
"""Samples farther from an end of the range than this many intervals do not reach to it."""
SERIES = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
}
LETTERS = {"drafts": "D", "draft_tokens": "T", "accepted": "A"}


class Counters(NamedTuple):
    """The scrapes of one engine that arrived: when (seconds), and what each counter read."""

    at: Array
    drafts: Array
    draft_tokens: Array
    accepted: Array


class Dialect(NamedTuple):
    """What versions of Prometheus do differently inside a range."""

    left_open: bool
    """Since 3.0 a sample exactly at the beginning is outside of the range."""
    zero_last: bool
    """Since 2.52 a counter's zero limits what the edge rule left; before, what it began with."""

    @classmethod
    def of(cls, version: str) -> Dialect:
        """Take it from `2.53.3+ds1`."""
        major, minor = (int(part) for part in version.split(".")[:2])
        return cls(left_open=major >= 3, zero_last=(major, minor) >= (2, 52))


TODAY = Dialect.of("3.5.0")


class Rule(NamedTuple):
    """An alerting rule: accepted tokens over drafts or draft tokens, below a limit for a time."""

    over: str
    below: float
    hold: float
    """Seconds."""
    least: float = 0.0
    """Drafts within the range that it asks for; 0: it does not ask."""

    @property
    def text(self) -> str:
        """As in a table: with A, D and T for the three counters."""
        hold = f"{self.hold / 60:g}m"
        return f"{self.expression(LETTERS)} for {hold}"

    def expression(self, names: dict[str, str] = SERIES) -> str:
        """As in a rule file."""
        ratio = f"rate({names['accepted']}[5m]) / rate({names[self.over]}[5m])"
        length = "1 + " if self.over == "drafts" else ""
        enough = f" and increase({names['drafts']}[5m]) >= {self.least:g}" if self.least else ""
        return f"{length}{ratio} < {self.below:g}{enough}"


WRITTEN = (
    *(Rule("drafts", below, 300.0) for below in (1.1, 1.2, 1.5, 2.0)),
    *(Rule("drafts", below, 300.0, least=200.0) for below in (1.12, 1.2, 1.5)),
    *(Rule("draft_tokens", below, 600.0) for below in (0.03, 0.05, 0.2)),
)
"""What is compared: the study's best threshold of each form, and those that people write."""


def counters(
    days: Iterable[Any], engine: int = 0, interval: float = 15.0, begins: float = 0.0
) -> Counters:
    """Put days of a life together as the series that Prometheus has of one engine."""
    parts = [_part(day, engine) for day in days]
    grown, born, read = (np.concatenate(column, axis=-1) for column in zip(*parts, strict=True))
    totals = np.array([_total(row, born) for row in grown])
    at = begins + interval * np.arange(1, read.size + 1)
    return Counters(at[read], *totals[:, read])


def alerts(
    rule: Rule, seen: Counters, evaluated: Array | None = None, dialect: Dialect = TODAY
) -> list[tuple[float, float]]:
    """
    When the alert fired, and the first evaluation at which it did not; inf: it fires at the end.

    It is evaluated at each time of `evaluated`; without, at the pace of the scrapes.
    """
    times = _each_scrape(seen.at) if evaluated is None else evaluated
    fires = firing(rule, seen, times, dialect)
    edges = np.diff(np.concatenate(([False], fires, [False])).astype(np.int8))
    ends = np.append(times, np.inf)[np.flatnonzero(edges == -1)]
    return list(zip(times[edges[:-1] == 1].tolist(), ends.tolist(), strict=True))


def firing(rule: Rule, seen: Counters, times: Array, dialect: Dialect = TODAY) -> Array:
    """Whether it fires at each time: true for `hold` at every evaluation without a gap."""
    true = holds(rule, seen, times, dialect)
    index = np.arange(times.size)
    since = np.maximum.accumulate(np.where(true, 0, index + 1))
    since = np.minimum(since, index)
    return true & (times - times[since] >= rule.hold)


def holds(rule: Rule, seen: Counters, times: Array, dialect: Dialect = TODAY) -> Array:
    """Whether the expression has a result at each time."""
    span = _Span.of(seen.at, times, dialect)
    below: Array = getattr(seen, rule.over)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = span.rate(seen.accepted) / span.rate(below)
        value = 1 + ratio if rule.over == "drafts" else ratio
        result: Array = value < rule.below
        if rule.least:
            result = result & (span.increase(seen.drafts) >= rule.least)
    return result


class _Span(NamedTuple):
    """The range before each evaluation: its first and last sample, and how far they are from it."""

    first: Array
    last: Array
    known: Array
    sampled: Array
    to_start: Array
    to_end: Array
    dialect: Dialect

    @classmethod
    def of(cls, at: Array, times: Array, dialect: Dialect) -> _Span:
        side: Any = "right" if dialect.left_open else "left"
        first = np.searchsorted(at, times - RANGE, side=side)
        last = np.searchsorted(at, times, side="right") - 1
        known = last > first
        first, last = np.where(known, first, 0), np.where(known, last, 0)
        return cls(
            first, last, known, at[last] - at[first],
            at[first] - (times - RANGE), times - at[last], dialect,
        )  # fmt: skip

    def rate(self, value: Array) -> Array:
        return self.increase(value) / RANGE

    def increase(self, value: Array) -> Array:
        """Prometheus' extrapolation; NaN without two samples."""
        grown = _unbroken(value)
        rise = grown[self.last] - grown[self.first]
        with np.errstate(divide="ignore", invalid="ignore"):
            between = self.sampled / (self.last - self.first)
            to_zero = np.where(rise > 0, self.sampled * (value[self.first] / rise), np.inf)
            if self.dialect.zero_last:
                before = np.minimum(_edge(self.to_start, between), to_zero)
            else:
                before = _edge(np.minimum(self.to_start, to_zero), between)
            after = _edge(self.to_end, between)
            result: Array = rise * ((self.sampled + before + after) / self.sampled)
        return np.where(self.known, result, np.nan)


def _edge(gap: Array, between: Array) -> Array:
    """Half an interval where the range's end is too far for the series to have reached it."""
    return np.where(gap < EDGE * between, gap, between / 2)


def _unbroken(value: Array) -> Array:
    """Undo resets: a counter that fell began at 0, and what it reads has come since."""
    step = np.diff(value, prepend=value[:1])
    grown: Array = np.cumsum(np.where(step < 0, value, step))
    return grown


def _part(day: Any, engine: int) -> tuple[Array, Array, Array]:
    drafts, accepted = day.drafts[engine], day.accepted_at[engine]
    tokens = getattr(day, "draft_tokens", None)
    proposed = drafts * accepted.shape[-1] if tokens is None else tokens[engine]
    grown = np.array([drafts, proposed, accepted.sum(axis=-1)], dtype=float)
    return grown, day.restarted[engine], day.read


def _total(grown: Array, born: Array) -> Array:
    """Counters of what was added in each window; one that is born in a window begins at 0 there."""
    total = np.cumsum(grown)
    before: Array = np.maximum.accumulate(np.where(born, total - grown, 0.0))
    return total - before


def _each_scrape(at: Array) -> Array:
    """The moments of all scrapes, those that were missed included."""
    pace = float(np.min(np.diff(at)))
    return np.arange(at[0], at[-1] + pace / 2, pace)
