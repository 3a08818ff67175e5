"""The information bound: closed forms, and what a degraded drafter cannot be told from."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.detection import bound
from bench.detection.acceptance import CATEGORIES, DEPTH, ODD, overall_length
from bench.detection.faults import BROKEN


def bernoulli(p: float) -> np.ndarray:
    return np.array([1 - p, p])


def test_the_divergence_of_two_coins_is_the_closed_form():
    told = 0.2 * math.log(0.2 / 0.5) + 0.8 * math.log(0.8 / 0.5)
    assert bound.divergence(bernoulli(0.2), bernoulli(0.5)) == pytest.approx(told)
    assert bound.divergence(bernoulli(0.5), bernoulli(0.2)) != pytest.approx(told)


def test_a_divergence_is_nothing_from_itself_and_infinite_from_what_excludes_it():
    assert bound.divergence(bernoulli(0.3), bernoulli(0.3)) == 0
    assert bound.divergence(bernoulli(0.3), bernoulli(0.0)) == math.inf
    assert bound.divergence(bernoulli(0.0), bernoulli(0.3)) == pytest.approx(-math.log(0.7))


def test_the_delay_is_the_logarithm_of_the_time_between_alarms_over_the_divergence():
    assert bound.lorden(math.e**10, 0.5) == pytest.approx(20)
    assert bound.lorden(1e6, 0.0) == math.inf


def test_a_mixture_of_the_parts_is_found_again_at_no_distance():
    parts = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    wanted = np.array([0.2, 0.5, 0.3])
    away, weights = bound.nearest(wanted @ parts, parts)
    assert away < 1e-9
    assert weights == pytest.approx(wanted, abs=1e-3)


def test_a_coin_outside_of_the_mixtures_is_nearest_to_the_outermost_one():
    parts = np.array([bernoulli(0.5), bernoulli(0.7)])
    away, weights = bound.nearest(bernoulli(0.2), parts)
    assert away == pytest.approx(bound.divergence(bernoulli(0.2), bernoulli(0.5)), rel=0.02)
    assert weights == pytest.approx([1, 0], abs=0.02)


@pytest.mark.parametrize("kind", BROKEN)
def test_the_distribution_of_a_broken_drafter_has_its_length_and_its_first_token(kind):
    length, _ = BROKEN[kind]
    drafts = bound.mixed(bound.dead(kind, bound.known_mix()))
    assert drafts.sum() == pytest.approx(1)
    assert 1 + drafts @ np.arange(DEPTH + 1) == pytest.approx(length, rel=1e-3)


def test_the_distribution_of_the_usual_mix_has_its_length():
    drafts = bound.mixed(bound.healthy(bound.known_mix()))
    assert 1 + drafts @ np.arange(DEPTH + 1) == pytest.approx(overall_length(bound.SD), rel=1e-3)


def test_each_category_has_its_own_length():
    drafts = bound.of_drafts(bound.healthy(bound.known_mix()))
    lengths = 1 + drafts @ np.arange(DEPTH + 1)
    assert lengths == pytest.approx([c.length for c in CATEGORIES], rel=1e-3)


def coins(first: float, deep: float) -> bound.Model:
    """Prose without a spread between requests: every draft has the same chances."""
    shape = np.ones((len(CATEGORIES), bound.SHIFTS.size))
    return bound.Model(first * shape, deep * shape, bound.only("prose"))


def chances(seen: bound.Seen, first: float, deep: float) -> np.ndarray:
    """Log likelihood of requests by hand: outputs, then a coin for each position."""
    heads, more = (1 / (1 + math.exp(-logit)) for logit in (first, deep))
    length = 1 + heads * sum(more**k for k in range(DEPTH))
    prose = next(c.output for c in CATEGORIES if c.name == "prose")
    middle = math.log(prose / length) - bound.OUTPUT_SPREAD**2 / 2
    return (
        -(((np.log(seen.drafts) - middle) / bound.OUTPUT_SPREAD) ** 2) / 2
        + seen.first * math.log(heads)
        + (seen.drafts - seen.first) * math.log(1 - heads)
        + seen.deep * math.log(more)
        + seen.refused * math.log(1 - more)
    )


def test_requests_without_a_spread_have_the_likelihood_of_their_coins():
    ill, well = (-1.0, -0.4), (0.5, 0.3)
    seen = bound.requests(coins(*ill), 500, 1)
    assert seen.deep.sum() > 1000
    ratio = bound.likelihood(coins(*ill), seen) - bound.likelihood(coins(*well), seen)
    assert ratio == pytest.approx(chances(seen, *ill) - chances(seen, *well))


def test_requests_of_several_kinds_have_the_likelihood_of_each_by_its_share():
    seen = bound.requests(bound.healthy(bound.known_mix()), 200, 1)
    kinds = [("prose", 0.3), ("file_edit", 0.7)]
    parts = [
        math.log(share) + bound.likelihood(bound.healthy(bound.only(name)), seen)
        for name, share in kinds
    ]
    both = sum(share * bound.only(name) for name, share in kinds)
    told = bound.likelihood(bound.healthy(both), seen)
    assert told == pytest.approx(np.logaddexp(*parts))


def test_requests_of_a_healthy_drafter_say_nothing_against_it():
    well = bound.healthy(bound.known_mix())
    assert bound.of_requests(well, well, count=50) == 0


def test_what_is_least_like_a_dead_drafter_is_found_soonest():
    known, prose, odd = bound.bounds()
    assert known.per_draft > prose.per_draft > odd.per_draft > 0
    assert known.drafts[0] < prose.drafts[0] < odd.drafts[0]
    assert odd.per_request == min(b.per_request for b in (known, prose, odd))
    assert all(b.drafts[0] < b.drafts[1] and b.requests[0] < b.requests[1] for b in bound.bounds())


@pytest.mark.parametrize("size", [0.1, 0.2, 0.3])
def test_a_uniform_degrade_is_nearly_a_healthy_mix(size):
    true = bound.mixed(bound.worse("degrade", size, bound.known_mix()))
    well = bound.healthy(bound.known_mix())
    known = bound.divergence(true, bound.mixed(well))
    away, weights = bound.nearest(true, bound.of_drafts(well)[:ODD])
    assert away < known / 8
    assert weights.sum() == pytest.approx(1)
    assert bound.nearest(true, bound.of_drafts(well))[0] < known / 400


def test_a_deep_fault_is_no_healthy_mix_at_all():
    (deep,) = [m for m in bound.nearest_mixes() if m.fault == "deep 30 %"]
    assert deep.with_odd > deep.known / 4
    assert deep.drafts < 1000
