"""Families of the exposition: gauges and counters whose labels never change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from watchdog.domain.sample import Labels

LONGEST: Final = 512
"""Characters of a label value; what is longer is cut."""

Family = GaugeMetricFamily | CounterMetricFamily
Key = tuple[str, ...]


def values(subject: Labels, names: tuple[str, ...]) -> Key:
    """Return a subject's label values in this order, "" for those that it has not."""
    pairs = dict(subject)
    return tuple(pairs.get(name, "") for name in names)


def number(value: object) -> float | None:
    """Return what is a finite number, else None: a series that is absent beats one that is NaN."""
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    return None


def _clean(value: str) -> str:
    """A label value that can be written as UTF-8 on one line, whatever a server named its model."""
    text = value[:LONGEST].encode("utf-8", "replace").decode("utf-8")
    return text.replace("\r", "\n")  # some readers of the text end a line at either; \n is escaped


def gauge(name: str, about: str, names: tuple[str, ...], found: Mapping[Key, float]) -> Family:
    """Make a gauge; `found` is by label values."""
    family = GaugeMetricFamily(name, about, labels=names)
    for key, value in _unique(found).items():
        family.add_metric(key, value)
    return family


def counter(name: str, about: str, names: tuple[str, ...], found: Mapping[Any, float]) -> Family:
    """`name` without `_total`, which the text adds."""
    family = CounterMetricFamily(name, about, labels=names)
    for key, value in _unique(found).items():
        family.add_metric(key, value)
    return family


def _unique(found: Mapping[Key, float]) -> dict[Key, float]:
    """Clean the label values; of two that became alike one counts: one sample a series."""
    return {tuple(_clean(text) for text in key): value for key, value in sorted(found.items())}
