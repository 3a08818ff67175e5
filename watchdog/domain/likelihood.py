"""How likely a count of accepted drafts is where the drafts of one request are alike."""

from __future__ import annotations

from math import lgamma
from typing import Final

INDEPENDENT: Final = 1e-6
"""The least correlation: a beta-binomial has some, and below this one nobody could see it."""


def log_likelihood(
    accepted: float, drafts: float, requests: float, mean: float, icc: float
) -> float:
    """
    Log-probability that `accepted` of `drafts` are, but for a term that is in every hypothesis.

    Each request accepts at a share of its own. Over requests the shares are beta-distributed with
    this mean (0 to 1), so that drafts of one request correlate by `icc` (0 to 1), and the count
    of one request is beta-binomial. That of several requests is taken as a beta-binomial of the
    same variance: of m drafts each, all `drafts` together correlate by (m - 1) icc / (drafts - 1).
    """
    each = max(1.0, drafts / requests)
    alike = (each - 1) * icc / (drafts - 1) if drafts > 1 else 0.0
    certain = 1 / max(alike, INDEPENDENT) - 1
    a, b = mean * certain, (1 - mean) * certain
    seen = lgamma(a + accepted) + lgamma(b + drafts - accepted) - lgamma(certain + drafts)
    return seen - (lgamma(a) + lgamma(b) - lgamma(certain))
