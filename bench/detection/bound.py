"""
How soon any detector could know: the information that drafts and requests carry.

A detector with one false alarm in ARL drafts needs at least log(ARL) / KL of them on average in
the worst case (Lorden 1971), KL being the divergence of the broken drafter from a healthy one,
per draft. ARL is an endpoint-year. Drafts of one request are alike, so that the bound for
independent drafts cannot be reached; per request it can.

Per draft the divergence is a sum. Per request it is a mean over simulated broken requests of the
exact log likelihood ratio of all that counters show of one: drafts, and what each position had
accepted, whatever the request's own shift and category.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from bench.detection.acceptance import (
    CATEGORIES,
    DEEPER,
    DEPTH,
    ODD,
    OUTPUTS,
    SHARES,
    drafts_a_request,
    length_of,
    logits,
    sigmoid,
)
from bench.detection.faults import broken, size_shift
from bench.detection.streams import Floats
from bench.detection.tally import percent
from bench.detection.traffic import BUSY, OUTPUT_SPREAD, PER_HOUR

SD: Final = 0.45
"""Of requests of one category, in logits: as in normal life."""
YEAR: Final = 365 * 86_400.0
REQUESTS: Final = 2000
"""Simulated ones for each divergence."""
SHIFTS: Final[Floats] = np.linspace(-14, 14, 561)
"""Where a request's shift is integrated, in standard deviations: a healthy one is far out there
before it looks broken."""
WEIGHTS: Final[Floats] = np.exp(-(SHIFTS**2) / 2) / np.exp(-(SHIFTS**2) / 2).sum()
CLOSE: Final = 0.01
"""Part of a divergence by which it may still be above that of the nearest mix, and"""
STEPS: Final = 30_000
"""how many steps are taken at most; what is told then is still a bound from above."""


class Model(NamedTuple):
    """A drafter on traffic: its logits by category and shift, and the categories' shares."""

    first: Floats
    deep: Floats
    shares: Floats

    @property
    def lengths(self) -> Floats:
        """Tokens a draft, by category and shift."""
        return length_of(self.first, self.deep)


def known_mix() -> Floats:
    """Return the shares of the requests in normal life."""
    return SHARES


def only(name: str) -> Floats:
    """Return shares of traffic of one category."""
    return np.array([float(c.name == name) for c in CATEGORIES])


def healthy(shares: Floats, sd: float = SD) -> Model:
    """A drafter as it should be."""
    first = logits(sd)[:, None] + sd * SHIFTS
    return Model(first, first + DEEPER, shares)


def dead(kind: str, shares: Floats, sd: float = SD) -> Model:
    """One that is broken on all text alike."""
    first, deep = broken(kind, sd)
    shape = np.ones((len(CATEGORIES), 1))
    return Model(shape * (first + sd * SHIFTS), shape * (deep + sd * SHIFTS), shares)


def worse(kind: str, size: float, shares: Floats, sd: float = SD) -> Model:
    """One that is worse by a share, at all positions or at the deeper ones."""
    by = size_shift(kind, size, sd)
    well = healthy(shares, sd)
    return Model(well.first + (by if kind == "degrade" else 0.0), well.deep + by, shares)


def of_drafts(model: Model) -> Floats:
    """Distribution of the tokens that a draft has accepted, by category: 0 to DEPTH."""
    first, deep = sigmoid(model.first), sigmoid(model.deep)
    powers = [first * deep**k * (1 - deep) for k in range(DEPTH - 1)]
    counts = np.stack([1 - first, *powers, first * deep ** (DEPTH - 1)])
    weight = WEIGHTS / model.lengths  # a request that is accepted less has more drafts
    weight /= weight.sum(axis=1, keepdims=True)
    shares: Floats = np.einsum("kcs,cs->ck", counts, weight)
    return shares


def mixed(model: Model) -> Floats:
    """The same over all categories, each by its share of the drafts."""
    drafts = model.shares * OUTPUTS * (WEIGHTS / model.lengths).sum(axis=1)
    total: Floats = drafts @ of_drafts(model) / drafts.sum()
    return total


def divergence(true: Floats, other: Floats) -> float:
    """Kullback-Leibler divergence in nats; inf where the other one excludes what happens."""
    seen = true > 0
    with np.errstate(divide="ignore"):
        return float(np.sum(true[seen] * np.log(true[seen] / other[seen])))


def nearest(true: Floats, parts: Floats) -> tuple[float, Floats]:
    """
    Return the least divergence from any mixture of the parts (rows), and its weights.

    Each step multiplies a weight by what its part explains better than the whole: the divergence
    falls with every step, and no mixture is better by more than the log of the largest factor.
    """
    weights = np.full(len(parts), 1 / len(parts))
    for step in range(STEPS):
        factor = parts @ (true / (weights @ parts))
        if step % 100 == 0:
            found = divergence(true, weights @ parts)
            if math.log(factor.max()) <= CLOSE * found:
                break
        weights *= factor
    return divergence(true, weights @ parts), weights


def lorden(arl: float, kl: float) -> float:
    """Return the least mean delay in units of which `arl` are between false alarms."""
    return math.log(arl) / kl if kl else math.inf


class Seen(NamedTuple):
    """What the counters show of requests."""

    drafts: Floats
    first: Floats
    """Accepted at position 0."""
    deep: Floats
    """Accepted deeper."""
    refused: Floats
    """Refused deeper."""


def requests(model: Model, count: int, seed: int) -> Seen:
    """Simulate some, as life does."""
    random = np.random.RandomState(seed)
    category = random.choice(len(CATEGORIES), count, p=model.shares / model.shares.sum())
    shift = random.choice(len(SHIFTS), count, p=WEIGHTS)
    output = np.exp(OUTPUT_SPREAD * random.standard_normal(count) - OUTPUT_SPREAD**2 / 2)
    length = model.lengths[category, shift]
    drafts = np.maximum(1, np.rint(OUTPUTS[category] * output / length)).astype(np.int64)
    first, deep = sigmoid(model.first)[category, shift], sigmoid(model.deep)[category, shift]
    left = random.binomial(drafts, first)
    hits, more, refused = left, np.zeros(count), np.zeros(count)
    for _ in range(DEPTH - 1):
        kept = random.binomial(left, deep)
        more, refused, left = more + kept, refused + left - kept, kept
    return Seen(drafts.astype(float), hits.astype(float), more, refused)


def likelihood(model: Model, seen: Seen) -> Floats:
    """Log likelihood of each request, whatever its category and its shift."""
    log = np.full(len(seen.drafts), -np.inf)
    for c in np.flatnonzero(model.shares):
        at = math.log(OUTPUTS[c]) - OUTPUT_SPREAD**2 / 2 - np.log(model.lengths[c])
        terms = -0.5 * ((np.log(seen.drafts)[:, None] - at) / OUTPUT_SPREAD) ** 2
        terms += _chances(seen.first, seen.drafts - seen.first, model.first[c])
        terms += _chances(seen.deep, seen.refused, model.deep[c])
        terms += np.log(WEIGHTS * model.shares[c])
        log = np.logaddexp(log, _log_sum(terms))
    return log


def _chances(yes: Floats, no: Floats, logit: Floats) -> Floats:
    """Log chance of so many acceptances and refusals, by shift."""
    result: Floats = -(
        yes[:, None] * np.logaddexp(0, -logit) + no[:, None] * np.logaddexp(0, logit)
    )
    return result


def _log_sum(terms: Floats) -> Floats:
    top = terms.max(axis=1)
    total: Floats = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
    return total


def of_requests(true: Model, other: Model, count: int = REQUESTS, seed: int = 1) -> float:
    """Divergence per request, in nats."""
    seen = requests(true, count, seed)
    return float(np.mean(likelihood(true, seen) - likelihood(other, seen)))


def drafts_a_year(profile: str) -> float:
    """Of one endpoint."""
    return YEAR * BUSY if profile == "busy" else requests_a_year(profile) * drafts_a_request()


def requests_a_year(profile: str) -> float:
    """Of one endpoint."""
    if profile == "busy":
        return YEAR * BUSY / drafts_a_request()
    return YEAR / 3600 * PER_HOUR[profile]


class Bound(NamedTuple):
    """The incident against one kind of healthy traffic; pairs are of idle and busy."""

    healthy: str
    per_draft: float
    drafts: tuple[float, float]
    per_request: float
    requests: tuple[float, float]


@lru_cache(maxsize=1)
def bounds() -> tuple[Bound, ...]:
    """From the traffic that is known to that which a dead drafter is easiest taken for."""
    kinds = {
        "the known mix": known_mix(),
        "prose only": only("prose"),
        "odd text only": only("odd"),
    }
    return tuple(_bound(name, shares) for name, shares in kinds.items())


def _bound(name: str, shares: Floats) -> Bound:
    ill, well = dead("incident", shares), healthy(shares)
    draft, request = divergence(mixed(ill), mixed(well)), of_requests(ill, well)
    idle, busy = (
        (lorden(drafts_a_year(p), draft), lorden(requests_a_year(p), request))
        for p in ("idle", "busy")
    )
    return Bound(name, draft, (idle[0], busy[0]), request, (idle[1], busy[1]))


class Nearest(NamedTuple):
    """A degraded drafter against healthy ones: nats a draft."""

    fault: str
    known: float
    drafts_known: float
    """At least, of an idle endpoint, when its mix is known."""
    nearest: float
    mix: str
    with_odd: float
    drafts: float
    """The same when any healthy mix is possible."""


@lru_cache(maxsize=1)
def nearest_mixes() -> tuple[Nearest, ...]:
    """Partial faults, each as a share of the acceptance length."""
    kinds = [("degrade", 0.1), ("degrade", 0.2), ("degrade", 0.3), ("deep", 0.3)]
    return tuple(_nearest(kind, size) for kind, size in kinds)


def _nearest(kind: str, size: float) -> Nearest:
    ill, well = worse(kind, size, known_mix()), healthy(known_mix())
    true, parts = mixed(ill), of_drafts(well)
    usual, weights = nearest(true, parts[:ODD])
    with_odd, _ = nearest(true, parts)
    named = sorted(zip(weights, (c.name for c in CATEGORIES), strict=False), reverse=True)
    return Nearest(
        f"{kind} {percent(size)}",
        divergence(true, mixed(well)),
        lorden(drafts_a_year("idle"), divergence(true, mixed(well))),
        usual,
        ", ".join(f"{name} {weight:.0%}" for weight, name in named if weight >= 0.005),
        with_odd,
        lorden(drafts_a_year("idle"), with_odd),
    )
