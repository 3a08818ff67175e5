from __future__ import annotations

import itertools

import pytest

from watchdog.demo.simulation import BROKEN, HEALTHY, Life, Traffic

STARTED, READY = 1_796_000_000.0, 1_796_000_015.0
COUNTS = ("drafts", "draft_tokens", "accepted", "first_tokens", "finished", "iterations",
          "generated", "prompt_tokens", "updates")  # fmt: skip


@pytest.fixture(params=[HEALTHY, BROKEN], ids=["healthy", "broken"])
def life(request):
    return Life(STARTED, READY, request.param)


def test_no_counter_falls_inside_a_life(life):
    moments = [life.counters(READY + tenth / 10) for tenth in range(-50, 6000)]
    for before, after in itertools.pairwise(moments):
        for name in COUNTS:
            assert getattr(after, name) >= getattr(before, name), name
        assert all(a >= b for a, b in zip(after.accepted_at, before.accepted_at, strict=True))


def test_counters_begin_at_zero_with_the_life(life):
    born = life.counters(READY - 0.001)
    assert [getattr(born, name) for name in COUNTS] == [0] * len(COUNTS)
    assert (born.started, born.ready, born.running) == (STARTED, READY, 0)


def test_the_same_moment_has_the_same_counters(life):
    assert life.counters(READY + 77.7) == Life(STARTED, READY, life.drafter).counters(READY + 77.7)


@pytest.mark.parametrize(
    ("drafter", "length", "per_draft", "first"),
    [(HEALTHY, 3.315, 7.0, 0.800), (BROKEN, 1.0799, 2.96, 0.067)],
    ids=["healthy", "broken"],
)
def test_the_figures_are_those_of_the_incident(drafter, length, per_draft, first):
    c = Life(STARTED, READY, drafter).counters(READY + 3600)
    assert 1 + c.accepted / c.drafts == pytest.approx(length, abs=1e-3)
    assert c.draft_tokens / c.drafts == pytest.approx(per_draft, abs=1e-3)
    assert c.accepted_at[0] / c.drafts == pytest.approx(first, abs=1e-3)
    assert list(c.accepted_at) == sorted(c.accepted_at, reverse=True)


def test_the_broken_run_accepts_as_many_draft_tokens_as_the_incident_did():
    c = Life(STARTED, READY, BROKEN).counters(READY + 3600)
    assert c.accepted / c.draft_tokens == pytest.approx(0.0270, abs=1e-4)


def test_both_witnesses_tell_the_same_acceptance_length(life):
    before, after = life.counters(READY + 100), life.counters(READY + 400)
    drafts = after.drafts - before.drafts
    gained = 1 + (after.accepted - before.accepted) / drafts
    tokens = (after.generated - after.first_tokens) - (before.generated - before.first_tokens)
    assert tokens / (after.updates - before.updates) == pytest.approx(gained)


def test_few_slots_are_in_use_until_the_clients_are_back(life):
    way = Traffic()
    early, late = life.counters(READY + way.ramp - 1), life.counters(READY + way.ramp + 1)
    assert (early.running, early.waiting) == (way.early, 0)
    assert (late.running, late.waiting) == (way.slots, way.waiting)


def test_users_of_the_broken_server_get_a_third():
    full = READY + 60
    healthy = Life(STARTED, READY, HEALTHY).tokens_per_second(full)
    broken = Life(STARTED, READY, BROKEN).tokens_per_second(full)
    assert healthy == pytest.approx(8 * 10.5 * 3.315)
    assert healthy / broken == pytest.approx(3.315 / 1.0799)
