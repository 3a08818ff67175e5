"""
How a drafter is accepted: by category of text, and by request.

A request has a logit of its own for position 0 and another for the deeper ones, given that the
position before was accepted. Requests of one category differ by a normal shift of both, so the
drafts inside a request are alike. Means are corrected for it: a category's acceptance length,
tokens / drafts over many requests, is what it is without the shift.

From the incident: the lengths of file_edit, math, prose and chat, depth 7, and 3.3 over all.
Assumed: the lengths of json and code, all shares, prompts, outputs and cached shares, that a
token after an accepted one is likelier by DEEPER, and the spread between requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from bench.detection.streams import Floats

DEPTH: Final = 7
DEEPER: Final = 0.7
"""Logit by which a position after an accepted one is likelier than position 0."""


class Category(NamedTuple):
    """
    A kind of text. `share` of the requests, `length` in tokens a draft; `prompt` and `output`
    mean tokens of a request; `cached` share of its prompt that the prefix cache has.
    """

    name: str
    share: float
    length: float
    prompt: float
    output: float
    cached: float


CATEGORIES: Final = (
    Category("file_edit", 0.12, 5.43, 3000, 700, 0.60),
    Category("math", 0.10, 5.11, 400, 800, 0.10),
    Category("json", 0.07, 4.30, 1200, 400, 0.40),
    Category("code", 0.11, 3.50, 1500, 700, 0.40),
    Category("chat", 0.28, 2.83, 900, 400, 0.50),
    Category("prose", 0.32, 2.55, 500, 480, 0.10),
    Category("odd", 0.00, 1.39, 800, 500, 0.10),  # out-of-domain text: only in its episodes
)
ODD: Final = len(CATEGORIES) - 1
SHARES: Final[Floats] = np.array([c.share for c in CATEGORIES])
OUTPUTS: Final[Floats] = np.array([c.output for c in CATEGORIES])

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(31)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def sigmoid(logit: Floats) -> Floats:
    """Probability of a logit; 0 at minus infinity."""
    odds: Floats = np.exp(-logit)
    return 1.0 / (1.0 + odds)


def length_of(first: Floats, deep: Floats) -> Floats:
    """Expected tokens a draft, from the logits of position 0 and of each deeper one."""
    kept = sigmoid(deep)
    more = np.ones_like(kept)
    for _ in range(DEPTH - 2):
        more = 1.0 + kept * more
    return 1.0 + sigmoid(first) * (1.0 + kept * more)


def pooled_length(first: float, deep: float, sd: float) -> float:
    """Tokens / drafts over many requests of equal output: a harmonic mean over their shifts."""
    shifts = sd * _NODES
    return float(1.0 / np.sum(_WEIGHTS / length_of(first + shifts, deep + shifts)))


def pooled_first(first: float, deep: float, sd: float) -> float:
    """Acceptance at position 0 over the drafts of many requests of equal output."""
    shifts = sd * _NODES
    drafts = _WEIGHTS / length_of(first + shifts, deep + shifts)
    return float(np.sum(drafts * sigmoid(first + shifts)) / np.sum(drafts))


def solved(function: Callable[[float], float], wanted: float) -> float:
    """Return where a rising function is as wanted, by halving."""
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < wanted else (low, middle)
    return (low + high) / 2


@lru_cache(maxsize=16)
def logits(sd: float) -> Floats:
    """Each category's logit of position 0, corrected for requests that differ by `sd`."""
    return np.array(
        [solved(lambda x: pooled_length(x, x + DEEPER, sd), c.length) for c in CATEGORIES]
    )


def overall_length(sd: float, first: float = 0.0, deep: float = 0.0) -> float:
    """Tokens / drafts of the usual mix, with all logits shifted."""
    drafts = [
        c.share * c.output / pooled_length(x + first, x + DEEPER + deep, sd)
        for c, x in zip(CATEGORIES, logits(sd), strict=True)
    ]
    return float(SHARES @ OUTPUTS) / sum(drafts)


def drafts_a_request() -> float:
    """Mean drafts of a request of the usual mix: 159."""
    return sum(c.share * c.output / c.length for c in CATEGORIES)
