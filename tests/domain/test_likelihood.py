"""The beta-binomial against what defines it: sums over all counts, and two known special cases."""

from __future__ import annotations

import math

import pytest

from watchdog.domain.likelihood import log_likelihood

CASES = [(1, 1, 0.2, 0.3), (40, 1, 0.06, 0.02), (60, 3, 0.21, 0.15), (60, 200, 0.21, 0.15)]


def chances(drafts: int, requests: float, mean: float, icc: float) -> list[float]:
    """Every count's probability."""
    return [
        math.comb(drafts, k) * math.exp(log_likelihood(k, drafts, requests, mean, icc))
        for k in range(drafts + 1)
    ]


@pytest.mark.parametrize(("drafts", "requests", "mean", "icc"), CASES)
def test_all_counts_together_are_certain_and_their_mean_is_the_mean(drafts, requests, mean, icc):
    each = chances(drafts, requests, mean, icc)
    assert sum(each) == pytest.approx(1.0)
    assert sum(k * p for k, p in enumerate(each)) == pytest.approx(mean * drafts)


@pytest.mark.parametrize(("drafts", "requests", "mean", "icc"), CASES)
def test_the_count_varies_as_drafts_do_that_are_alike_inside_a_request(drafts, requests, mean, icc):
    """n p (1 - p) of n drafts apart, times the design effect 1 + (m - 1) icc."""
    each = chances(drafts, requests, mean, icc)
    variance = sum((k - mean * drafts) ** 2 * p for k, p in enumerate(each))
    alike = max(1.0, drafts / requests) - 1
    assert variance == pytest.approx(drafts * mean * (1 - mean) * (1 + alike * icc), rel=1e-4)


@pytest.mark.parametrize("accepted", [0, 3, 20])
def test_one_request_is_drawn_from_an_urn_that_learns(accepted):
    """Polya's urn: each draft is accepted with what was accepted before it, and a prior."""
    a, b = 0.21 * (1 / 0.15 - 1), 0.79 * (1 / 0.15 - 1)
    chance = 1.0
    for k in range(accepted):
        chance *= (a + k) / (a + b + k)
    for k in range(20 - accepted):
        chance *= (b + k) / (a + b + accepted + k)
    assert log_likelihood(accepted, 20, 1, 0.21, 0.15) == pytest.approx(math.log(chance))


@pytest.mark.parametrize(("requests", "icc"), [(1, 0.0), (20, 0.15)])
def test_drafts_that_are_not_alike_are_binomial(requests, icc):
    wanted = 3 * math.log(0.21) + 17 * math.log(0.79)
    assert log_likelihood(3, 20, requests, 0.21, icc) == pytest.approx(wanted, abs=1e-3)
