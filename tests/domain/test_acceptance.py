"""The arithmetic of speculative decoding, against counting by hand."""

from __future__ import annotations

import random
import statistics

import pytest

from watchdog.domain.acceptance import (
    NOTHING,
    Decode,
    Recent,
    decode_of,
    effective_drafts,
    padded_drafts,
)


def test_the_seed_incidents_own_arithmetic_holds() -> None:
    """170 drafts and 27 accepted tokens made about 200 generated tokens."""
    d = Decode(170, 503, 27, (11, 9, 7), generated=199, first_tokens=2, updates=170)

    assert d.acceptance_length == pytest.approx(1.1588, abs=1e-4)
    assert d.tokens_per_step == pytest.approx(d.acceptance_length)
    assert d.tokens_per_draft == pytest.approx(2.96, abs=0.01)


@pytest.mark.parametrize(
    ("drafts", "first_tokens", "updates", "padded"),
    [
        (99, 99, 0.0, 99),
        (100, 10, 95.0, 5),
        (100, 3, 90.0, 3),
        (80, 10, 95.0, 0),
        (50, 10, None, 10),
    ],
    ids=["all", "beyond-the-updates", "one-a-first-token", "n-gram", "no-updates-on-the-page"],
)
def test_padded_first_steps_are_told_from_drafts(
    drafts: float, first_tokens: float, updates: float | None, padded: float
) -> None:
    assert padded_drafts(drafts, first_tokens, updates) == padded


def test_nothing_has_no_figures() -> None:
    for figure in (
        NOTHING.acceptance_length, NOTHING.acceptance_rate, NOTHING.tokens_per_draft,
        NOTHING.tokens_per_step, NOTHING.step_seconds, NOTHING.coverage, NOTHING.batch,
        NOTHING.upper_length(3),
    ):  # fmt: skip
        assert figure is None


def test_drafts_of_one_request_count_for_less() -> None:
    assert effective_drafts(160, 1, 15, icc=0.1) == pytest.approx(160 / 16.9)
    assert effective_drafts(160, 160, 15, icc=0.1) == 160
    assert effective_drafts(160, 1, 15, icc=0.0) == 160


def test_faster_scrapes_do_not_count_the_same_request_twice() -> None:
    whole = effective_drafts(150, 1, 15, icc=0.1)
    parts = sum(effective_drafts(10, 1, 1, icc=0.1) for _ in range(15))

    assert parts == pytest.approx(whole, rel=0.01)


def test_the_bound_is_the_sample_deviation_of_accepted_tokens() -> None:
    rng = random.Random(7)
    accepted = []
    for _ in range(4000):
        n = 0
        while n < 5 and rng.random() < 0.7:
            n += 1
        accepted.append(n)
    at = tuple(float(sum(n > i for n in accepted)) for i in range(5))
    d = Decode(4000, 20000, sum(accepted), at, effective=4000)
    expected = 1 + statistics.mean(accepted) + 3 * statistics.pstdev(accepted) / 4000**0.5

    assert d.upper_length(3) == pytest.approx(expected)


def test_requests_that_ran_before_are_counted_once() -> None:
    first = decode_of({"drafts": 10, "first_tokens": 2, "updates": 10}, 3, 15, 0.1)
    second = decode_of({"drafts": 10, "first_tokens": 1, "updates": 10}, 5, 15, 0.1)

    assert first.requests == 5
    assert first.then(second).requests == 6


def test_recent_evidence_is_bounded_and_every_count_in_it_is_whole() -> None:
    recent, now = Recent(), 0.0
    d = Decode(100, 700, 200, (100, 50, 50), effective=10, seconds=15, requests=1, first_tokens=1)
    for _ in range(40):
        now += 15
        recent = recent.then(d, now, full=recent.newer.effective >= 60)

    assert 600 <= recent.whole.drafts <= 1300
    assert recent.whole.drafts % 100 == 0
    assert recent.whole.drafts / 100 * 15 == now - recent.at
