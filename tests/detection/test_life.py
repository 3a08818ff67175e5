"""A life made up from a seed: its counters fit together, and it is what it is assumed to be."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from bench.detection.acceptance import (
    CATEGORIES,
    DEPTH,
    ODD,
    OUTPUTS,
    SHARES,
    drafts_a_request,
    length_of,
    sigmoid,
)
from bench.detection.faults import BROKEN, Drafter, Fault
from bench.detection.interruptions import of_day
from bench.detection.life import Day, Life, Setting
from bench.detection.mix import Mix
from bench.detection.streams import Streams
from bench.detection.traffic import OUTPUT_SPREAD

PROFILES = ("idle", "medium", "busy")
HOUR = 240  # windows
COUNTERS = [name for name in Day._fields if name not in ("number", "read", "down", "restarted")]


@lru_cache
def days(profile: str, count: int, *faults: Fault, sd: float = 0.45, seed: int = 3) -> list[Day]:
    life = Life(Setting(profile, sd=sd), seed, count)
    return [life.day(i, faults) for i in range(count)]


def total(of: list[Day], column: str) -> float:
    return float(sum(getattr(day, column).sum() for day in of))


def length(of: list[Day]) -> float:
    return 1 + total(of, "accepted") / total(of, "drafts")


def at_first(of: list[Day]) -> float:
    return sum(day.accepted_at[..., 0].sum() for day in of) / total(of, "drafts")


def same(a: Day, b: Day) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("profile", PROFILES)
def test_the_counters_obey_the_identities_of_vllm(profile):
    for day in days(profile, 2):
        assert np.array_equal(day.generated, day.first_tokens + day.updates + day.accepted)
        assert np.array_equal(day.drafts, day.updates), "a learned drafter drafts in every step"
        kept = np.concatenate((day.drafts[..., None], day.accepted_at), axis=2)
        assert kept.shape == (1, 5760, DEPTH + 1)
        assert (np.diff(kept, axis=2) <= 0).all()
        assert ((day.iterations > 0) == (day.updates > 0)).all()
        assert (day.iterations <= day.updates).all()
        assert (day.prefix_hits <= day.prefix_queries).all()
        assert np.array_equal(day.prefix_queries, day.prompt_tokens)
        for column in COUNTERS:
            assert (getattr(day, column) >= 0).all(), column
        if not day.restarted.any():  # which cut requests, and those never finish
            present = np.cumsum(day.first_tokens - day.finished, axis=1)
            assert np.array_equal(present, day.running + day.waiting)


def test_a_step_is_fast_alone_and_slow_in_a_full_batch():
    [alone], [crowd] = days("idle", 1), days("busy", 1)
    one = alone.update_seconds.sum() / alone.updates.sum()
    assert one == pytest.approx(0.0246, rel=0.03)
    noon = slice(12 * HOUR, 13 * HOUR)
    seconds = crowd.update_seconds[0, noon].sum() / crowd.updates[0, noon].sum()
    assert seconds == pytest.approx(0.068, rel=0.01)
    batch = crowd.updates[0, noon].sum() / crowd.iterations[0, noon].sum()
    assert batch == pytest.approx(8, rel=0.01)


def test_a_saturated_server_gives_as_many_drafts_and_tokens_as_the_incidents_did():
    [day] = days("busy", 1)
    noon = slice(10 * HOUR, 16 * HOUR)
    assert np.median(day.drafts[0, noon]) == pytest.approx(1765, rel=0.01)
    assert day.drafts.max() < 1.15 * 1765
    assert 340 < day.generated[0, noon].sum() / (6 * 3600) < 460
    assert set(day.running[0, noon]) <= {7.0, 8.0}


def test_any_day_can_be_made_by_itself_and_again():
    setting = Setting("medium", engines=2, jitter=0.15)
    life, again = Life(setting, 9, 30), Life(setting, 9, 12)
    late = life.day(11)
    early = life.day(2)
    assert same(early, again.day(2))
    assert same(late, again.day(11)), "nor does a day depend on how long the life is"
    assert same(late, life.day(11))
    assert not same(early._replace(number=11), late)
    assert not same(late, Life(setting, 10, 12).day(11))
    with pytest.raises(IndexError):
        again.day(12)


def test_another_engine_changes_nothing_for_the_first():
    alone = Life(Setting("medium"), 9, 2).day(1)
    both = Life(Setting("medium", engines=2), 9, 2).day(1)
    for column in COUNTERS:
        values = getattr(both, column)
        assert np.array_equal(getattr(alone, column)[0], values[0]), column
    assert not np.array_equal(both.drafts[0], both.drafts[1])


@pytest.mark.parametrize(
    ("profile", "count", "requests", "drafts"),
    [("idle", 56, 15, 0.65), ("medium", 14, 300, 13.1), ("busy", 7, None, 84)],
)
def test_traffic_is_as_much_as_assumed(profile, count, requests, drafts):
    life = days(profile, count)
    if requests:
        assert total(life, "first_tokens") / count / 24 == pytest.approx(requests, rel=0.06)
    assert total(life, "drafts") / count / 86_400 == pytest.approx(drafts, rel=0.1)
    each = total(life, "drafts") / total(life, "first_tokens")
    assert each == pytest.approx(157, rel=0.12)


@pytest.mark.parametrize("profile", PROFILES)
def test_nights_and_weekends_are_quieter(profile):
    life = days(profile, 7)
    hours = np.stack([day.first_tokens.reshape(24, -1).sum(axis=1) for day in life])
    assert hours[:, 1:6].mean() < 0.35 * hours[:, 9:18].mean()
    assert hours[5:].mean() < 0.9 * hours[:5].mean()


@pytest.mark.parametrize(("profile", "count"), [("idle", 84), ("medium", 28)])
@pytest.mark.parametrize("sd", [0.45, 0.9])
def test_the_acceptance_length_is_about_that_of_the_incidents_healthy_drafter(profile, count, sd):
    """Categories keep their length whatever the spread of their requests."""
    life = days(profile, count, sd=sd)
    assert length(life) == pytest.approx(3.35, abs=0.25)
    assert 0.5 < at_first(life) < 0.7


def requests_of(kinds: np.ndarray, sd: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Drafts of requests, their accepted tokens, and the sum over their drafts of the square."""
    random = np.random.RandomState(1)
    shift = sd * random.standard_normal(len(kinds))
    first, deep, _ = Drafter(sd, (), 0.0).logits(np.zeros(len(kinds)), kinds, shift)
    normal = random.standard_normal(len(kinds))
    output = OUTPUTS[kinds] * np.exp(OUTPUT_SPREAD * normal - OUTPUT_SPREAD**2 / 2)
    drafts = np.maximum(2, np.rint(output / length_of(first, deep))).astype(int)
    left, kept, accepted, squares = drafts, sigmoid(first), 0, 0
    for position in range(DEPTH):
        left, kept = random.binomial(left, kept), sigmoid(deep)
        accepted, squares = accepted + left, squares + (2 * position + 1) * left
    return drafts, accepted, squares


def icc(drafts, accepted, squares) -> float:
    """Intraclass correlation by analysis of variance."""
    n, groups, mean = drafts.sum(), len(drafts), accepted.sum() / drafts.sum()
    between = (drafts * (accepted / drafts - mean) ** 2).sum() / (groups - 1)
    within = (squares - accepted**2 / drafts).sum() / (n - groups)
    size = (n - (drafts**2).sum() / n) / (groups - 1)
    return (between - within) / (between + (size - 1) * within)


def design_effect(drafts, accepted, squares) -> float:
    mean = accepted.sum() / drafts.sum()
    independent = (squares.sum() / drafts.sum() - mean**2) * drafts.sum()
    return ((accepted - mean * drafts) ** 2).sum() / independent


def test_drafts_of_one_request_are_alike_as_in_the_study():
    for kind in range(ODD + 1):
        alike = icc(*requests_of(np.full(10_000, kind), 0.45))
        assert 0.04 < alike < 0.16, CATEGORIES[kind].name
    mixed = requests_of(np.random.RandomState(2).choice(ODD + 1, 30_000, p=SHARES), 0.45)
    assert icc(*mixed) == pytest.approx(0.25, abs=0.04)
    assert design_effect(*mixed) == pytest.approx(68, abs=12)
    assert icc(*requests_of(np.full(10_000, 5), 0.9)) > 0.2, "twice the spread"


def test_the_windows_of_a_life_show_that_drafts_are_alike():
    """By windows that hold a part of one request: independent drafts would have an effect of 1."""
    effects = {}
    for sd in (0.45, 0.9):
        life = days("idle", 84, sd=sd)
        lone = [d.first_tokens[0] + np.r_[0, d.running[0, :-1]] == 1 for d in life]
        at = np.concatenate([d.accepted_at[0, m] for d, m in zip(life, lone, strict=True)])
        drafts = np.concatenate([d.drafts[0, m] for d, m in zip(life, lone, strict=True)])
        squares = at @ (2 * np.arange(DEPTH) + 1)
        effects[sd] = design_effect(drafts, at.sum(axis=1), squares)
    assert 25 < effects[0.45] < 80
    assert effects[0.9] > 1.4 * effects[0.45]


def test_drafts_that_differ_in_nothing_are_independent():
    """A drafter that is broken on all text alike, and requests that do not differ."""
    [day] = days("medium", 1, Fault("twilight"), sd=0.0)
    at, drafts = day.accepted_at[0], day.drafts[0]
    seen = drafts > 0
    squares = at[seen] @ (2 * np.arange(DEPTH) + 1)
    effect = design_effect(drafts[seen], at[seen].sum(axis=1), squares)
    assert effect == pytest.approx(1, abs=0.08)


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("profile", ["medium", "busy"])
def test_a_broken_drafter_accepts_what_is_known_of_it(kind, profile):
    life = days(profile, 1, Fault(kind))
    wanted, first = BROKEN[kind]
    assert length(life) == pytest.approx(wanted, rel=0.004)
    assert at_first(life) == pytest.approx(first, rel=0.03)


def test_a_dead_drafter_accepts_nothing_and_one_that_stopped_drafts_nothing():
    [dead], [stopped] = days("medium", 1, Fault("zero")), days("medium", 1, Fault("stop"))
    assert dead.drafts.sum() > 0
    assert dead.accepted.sum() == 0
    assert stopped.drafts.sum() == stopped.accepted.sum() == 0
    assert np.array_equal(stopped.generated, stopped.updates + stopped.first_tokens)
    assert stopped.updates.sum() == pytest.approx(dead.updates.sum(), rel=0.001)
    assert stopped.update_seconds.sum() < 0.8 * dead.update_seconds.sum(), "a plain step is shorter"


@pytest.mark.parametrize("size", [0.10, 0.20, 0.30, 0.45])
@pytest.mark.parametrize("kind", ["degrade", "deep"])
def test_a_degraded_drafter_loses_its_share_of_the_length(kind, size):
    whole, less = days("medium", 7), days("medium", 7, Fault(kind, size=size))
    assert 1 - length(less) / length(whole) == pytest.approx(size, abs=0.02)
    if kind == "deep":
        assert at_first(less) == pytest.approx(at_first(whole), abs=0.03)
    else:
        assert at_first(less) < at_first(whole) - 0.3 * size


@pytest.mark.parametrize("profile", PROFILES)
def test_before_a_fault_all_is_as_without_it_to_the_last_draft(profile):
    [whole], [broken] = days(profile, 1), days(profile, 1, Fault("incident", 43_200.0 + 7))
    for column in COUNTERS:
        a, b = getattr(whole, column), getattr(broken, column)
        assert np.array_equal(a[:, : 12 * HOUR], b[:, : 12 * HOUR]), column
    assert not np.array_equal(whole.accepted_at, broken.accepted_at)
    assert length([broken]) < length([whole])


@pytest.mark.parametrize("profile", ["idle", "medium"])
def test_requests_come_as_they_would_have_come_without_the_fault(profile):
    [whole], [broken] = days(profile, 1), days(profile, 1, Fault("incident", 10_000.0, 60_000.0))
    for column in ("first_tokens", "prompt_tokens", "prefix_queries", "prefix_hits", "read"):
        assert np.array_equal(getattr(whole, column), getattr(broken, column)), column


def test_output_stays_and_takes_more_drafts_and_longer():
    whole, broken = days("medium", 2), days("medium", 2, Fault("incident"))
    assert total(broken, "generated") == pytest.approx(total(whole, "generated"), rel=0.02)
    assert total(broken, "drafts") > 2.5 * total(whole, "drafts")
    assert total(broken, "running") > 2.5 * total(whole, "running")


def test_the_same_clients_draft_as_fast_and_get_fewer_tokens():
    whole, broken = days("busy", 1), days("busy", 1, Fault("incident"))
    assert total(broken, "drafts") == pytest.approx(total(whole, "drafts"), rel=0.1)
    assert total(broken, "generated") < 0.4 * total(whole, "generated")
    assert total(broken, "first_tokens") < 0.45 * total(whole, "first_tokens")


def test_clients_wait_longer_from_the_fault_on_and_not_from_the_next_hour():
    [whole] = days("busy", 1)
    [broken] = days("busy", 1, Fault("incident", 10.5 * 3600))
    soon = slice(10 * HOUR + 124, 11 * HOUR)
    assert broken.first_tokens[0, soon].sum() < 0.5 * whole.first_tokens[0, soon].sum()


def test_a_fault_is_over_when_it_is_over():
    fault = Fault("zero", 20_000.0, 86_400.0 + 3600)
    life = days("medium", 3, fault)
    assert life[1].accepted[0, :HOUR].sum() == 0
    assert life[1].accepted[0, HOUR:].sum() > 0
    assert same(life[2], days("medium", 3)[2])


def test_a_fault_that_begins_inside_a_window_has_a_part_of_it():
    began = 12 * 3600 + 5.0
    [whole], [broken] = days("busy", 1), days("busy", 1, Fault("zero", began))
    at = 12 * HOUR
    assert broken.drafts[0, at] == pytest.approx(whole.drafts[0, at], rel=0.05)
    part = broken.accepted[0, at] / whole.accepted[0, at]
    assert part == pytest.approx(1 / 3, abs=0.1)
    assert broken.accepted[0, at + 1] == 0


def test_a_fault_of_one_engine_leaves_the_others_alone():
    life = Life(Setting("medium", engines=3), 4, 1)
    whole, broken = life.day(0), life.day(0, [Fault("incident", engine=1)])
    for column in COUNTERS:
        a, b = getattr(whole, column), getattr(broken, column)
        assert np.array_equal(a[[0, 2]], b[[0, 2]]), column
    assert broken.accepted[1].sum() < 0.2 * whole.accepted[1].sum()


def test_a_year_has_as_many_interruptions_as_assumed():
    streams = Streams(1)
    year = [of_day(streams, day, 15.0) for day in range(4 * 365)]
    downs = [up - first for day in year for first, up in day.downs]
    assert len(downs) / 4 == pytest.approx(26, abs=8)
    assert min(downs) >= 2
    assert max(downs) <= 8
    unread = np.concatenate([~day.read for day in year])
    runs = np.diff(np.flatnonzero(np.diff(np.r_[False, unread, False])))[::2]
    assert (runs == 1).sum() / len(unread) == pytest.approx(0.002, rel=0.1)
    assert (runs > 10).sum() / 4 == pytest.approx(12, abs=5)
    assert runs.max() < 6 * HOUR


def with_a_restart() -> Day:
    """Return a day of a busy life with a restart."""
    for seed in range(100):
        if of_day(Streams(seed), 0, 15.0).downs:
            return days("busy", 1, seed=seed)[0]
    raise AssertionError


def test_nothing_happens_while_the_server_is_down():
    day = with_a_restart()
    assert day.down.any()
    assert not day.read[day.down].any()
    for column in ("updates", "first_tokens", "generated"):
        assert getattr(day, column)[:, day.down].sum() == 0, column
    up = np.flatnonzero(day.restarted[0])
    assert np.array_equal(up, np.flatnonzero(np.diff(day.down.astype(int)) == -1) + 1)
    assert (day.running[0, up - 1] == 0).all(), "what ran was cut"
    assert day.finished.sum() < day.first_tokens.sum()


def test_campaigns_and_odd_text_come_as_often_and_last_as_long_as_assumed():
    streams, years = Streams(5), 4
    mix = Mix(streams, 365 * years, 6.0, 1, 0.0).shares[:, 0]
    assert mix.sum(axis=1) == pytest.approx(1)
    odd = mix[:, ODD]
    assert odd.max() == pytest.approx(0.92, abs=0.01)
    assert odd.sum() / 0.92 / years == pytest.approx(6 * 3, rel=0.5)
    one = mix[:, :ODD].max(axis=1) > 0.85
    assert one.sum() / years == pytest.approx(20 * 24, rel=0.4)
    assert np.median(mix[:, 4]) == pytest.approx(SHARES[4], abs=0.06)
    more = Mix(streams, 365 * years, 24.0, 1, 0.0).shares[:, 0, ODD]
    assert more.sum() > 2.5 * odd.sum()


def test_the_mix_drifts_within_hours_and_within_days():
    mix = Mix(Streams(5), 365, 0.0, 1, 0.0).shares[:, 0, 5]
    logit = np.log(mix / (1 - mix))
    by_hour, by_week = np.diff(logit).std(), np.diff(logit[::168]).std()
    assert 0.05 < by_hour < 0.5 < by_week


def test_engines_share_the_mix_up_to_their_jitter():
    alike = Mix(Streams(5), 30, 0.0, 4, 0.0)
    assert np.array_equal(alike.of_day(29, 0), alike.of_day(29, 3))
    spread = {}
    for jitter in (0.15, 0.4):
        shares = Mix(Streams(5), 365, 0.0, 4, jitter).shares[:, :, :ODD]
        logit = np.log(shares[:, :2, 5] / shares[:, :2, 0])
        spread[jitter] = np.diff(logit, axis=1).std() / 2  # four independent ones in it
    assert spread[0.15] == pytest.approx(0.15, rel=0.25)
    assert spread[0.4] == pytest.approx(0.4, rel=0.25)


def test_longer_windows_hold_the_same_requests():
    """Of a day without interruptions, which are whole windows."""
    seed = next(s for s in range(100) if not of_day(Streams(s), 0, 15.0).downs)
    short = Life(Setting("medium"), seed, 1).day(0)
    long = Life(Setting("medium", interval=60.0), seed, 1).day(0)
    for column in ("updates", "first_tokens", "prompt_tokens"):
        four = getattr(short, column).reshape(1, -1, 4).sum(axis=2)
        assert np.array_equal(four, getattr(long, column)), column
    assert np.array_equal(short.running[0, 3::4], long.running[0])


def test_the_mean_request_has_as_many_drafts_as_in_the_study():
    assert drafts_a_request() == pytest.approx(157, rel=0.03)


def test_what_is_misspelt_is_refused():
    with pytest.raises(ValueError, match="no profile"):
        Setting("quiet")
    with pytest.raises(ValueError, match="no whole number"):
        Setting(interval=7.0)
    with pytest.raises(ValueError, match="no fault"):
        Life(Setting(), 1, 1).day(0, [Fault("incidnet")])
