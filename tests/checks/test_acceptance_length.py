"""The score against an oracle of its own, and each of its limits from both sides."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import pytest

from tests.checks.windows import window
from watchdog.checks.acceptance_length import AcceptanceLength, State
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.profile import Profile


def log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def log_odds(first: float, drafts: float, requests: float) -> float:
    """As dead as it looks, up to 6 %, against 21 % with requests that differ more."""
    each = max(1.0, drafts / requests)
    odds = 0.0
    for sign, mean, icc in (
        (1, min(0.06, max(first / drafts, 1e-3)), 0.02),
        (-1, 0.21, 0.15),
    ):
        shared = (each - 1) * icc / (drafts - 1) if drafts > 1 else 0.0
        prior = 1 / max(shared, 1e-6) - 1
        hit, miss = mean * prior, prior - mean * prior
        odds += sign * (log_beta(hit + first, miss + drafts - first) - log_beta(hit, miss))
    return odds


@dataclass
class Oracle:
    """The rules of docs/detection.md, written down a second time and apart from the check."""

    icc: float = 0.10
    score: float = 0.0
    requests: float = 0.0  # since the score left zero
    dead: bool = False
    evidence: float = 0.0
    healthy: list[tuple[float, float, float]] = field(default_factory=list)

    def restart(self) -> None:
        self.score = self.requests = self.evidence = 0.0
        self.healthy = []

    def see(self, drafts: float, first: float, new: float, running: float, seconds: float) -> None:
        if not drafts:
            return
        taking_part = max(1.0, new + running)
        alike = max(1.0, drafts / taking_part * max(1.0, 15.0 / seconds))
        effective = drafts / (1 + (alike - 1) * self.icc)
        self.evidence += effective
        odds = log_odds(first, drafts, taking_part) * min(1.0, seconds / 15.0)
        was_zero = self.score == 0.0
        self.score = min(20.25, max(0.0, self.score + odds))
        if self.score == 0.0:
            self.requests = 0.0
        else:
            self.requests += taking_part if was_zero else new
        if self.score >= 6.75 and self.requests >= 3.0:
            self.dead, self.healthy = True, []
        elif self.dead:
            self._heal(drafts, first, effective)

    def _heal(self, drafts: float, first: float, effective: float) -> None:
        self.healthy.append((drafts, first, effective))
        share = sum(h[1] for h in self.healthy) / sum(h[0] for h in self.healthy)
        if share <= 0.21:
            self.healthy = []
        elif share > 0.30 and sum(h[2] for h in self.healthy) >= 30.0:
            self.dead, self.healthy = False, []


@pytest.mark.parametrize("seed", range(12))
def test_a_random_story_is_judged_as_the_rules_say(seed: int) -> None:
    """Score, raise, clear and restart, over 600 windows of changing health."""
    rng = random.Random(seed)
    check, oracle, profile = AcceptanceLength(), Oracle(), Profile(method="dflash")
    state, now, q = None, 0.0, 0.8
    raised = 0
    for _ in range(600):
        if rng.random() < 0.03:
            q = rng.choice([0.0, 0.05, 0.067, 0.12, 0.15, 0.25, 0.35, 0.8])
        seconds = rng.choice([5.0, 15.0, 15.0, 40.0])
        now += seconds
        if rng.random() < 0.01:
            state, found = check.step(state, window(seconds=None, profile=profile), now)
            oracle.restart()
        else:
            drafts = rng.choice([0, 1, 30, 300, 1500])
            first = sum(rng.random() < q for _ in range(drafts))
            new, running = rng.randrange(3), rng.randrange(3)
            seen = window(
                drafts, [first], requests=new, running=running, seconds=seconds, profile=profile
            )
            was = oracle.dead
            oracle.see(drafts, first, new, running, seconds)
            raised += oracle.dead and not was
            state, found = check.step(state, seen, now)
        assert state.score == pytest.approx(oracle.score, abs=1e-6)
        assert state.effective == pytest.approx(oracle.evidence)
        assert (state.dead_since is not None) == oracle.dead
        assert (found[0].verdict is Verdict.CRITICAL) == oracle.dead
        if found[0].verdict is Verdict.OK and found[0].conclusive:
            assert oracle.evidence >= 30
            assert oracle.score == 0
    assert raised > 0  # else the story proves nothing


def judge(*windows: Window, check: AcceptanceLength | None = None) -> tuple[State, Finding]:
    """Step through windows of 15 s; return the last state and finding."""
    check = check or AcceptanceLength()
    state, found = check.step(None, window(seconds=None), 0.0)
    for i, seen in enumerate(windows):
        state, found = check.step(state, seen, 15.0 * (i + 1))
    return state, found[0]


DEAD = window(200, [0], requests=4)


@pytest.mark.parametrize(("drafts", "dead"), [(71, False), (72, True)])
def test_the_alarm_is_reached_at_6_75_and_not_before(drafts: int, dead: bool) -> None:
    """Of three requests, 71 rejected drafts are log-odds of 6.708 and 72 of 6.752."""
    _, found = judge(window(drafts, [0], requests=3))
    assert found.verdict is (Verdict.CRITICAL if dead else Verdict.UNKNOWN)
    if not dead:
        assert not found.conclusive
        assert "decide" in found.argument.summary


def test_two_requests_prove_nothing_and_three_do() -> None:
    two = window(900, [0], requests=2)
    assert judge(two)[1].verdict is Verdict.UNKNOWN
    assert judge(two, window(1, [0], requests=1))[1].verdict is Verdict.CRITICAL
    limits = AcceptanceLength(min_requests=2)
    assert judge(two, check=limits)[1].verdict is Verdict.CRITICAL


@pytest.mark.parametrize(
    ("drafts", "first", "dead"),
    [(100, 30, True), (100, 31, False), (29, 20, True), (30, 20, False)],
)
def test_it_clears_above_30_percent_over_30_effective_drafts(
    drafts: int,
    first: int,
    dead: bool,
) -> None:
    healthy = window(drafts, [first], requests=3)
    verdict = judge(window(80, [0], requests=3), healthy)[1].verdict
    assert (verdict is Verdict.CRITICAL) == dead


def test_a_stretch_at_the_floor_starts_the_clearing_anew() -> None:
    """20 healthy drafts, then as many that drag them to 20 %, then 20 healthy: not 30 in a row."""
    healthy, bad = window(20, [8], requests=1), window(20, [0], requests=1)
    dead = window(80, [0], requests=3)
    assert judge(dead, healthy, bad, healthy)[1].verdict is Verdict.CRITICAL
    assert judge(dead, healthy, healthy)[1].verdict is Verdict.OK


def test_silence_never_clears_and_tells_its_age() -> None:
    state, found = judge(DEAD, *[window()] * 400)
    assert found.verdict is Verdict.CRITICAL
    assert "old" in found.argument.summary
    assert state.dead_since == 15.0


def test_a_restart_keeps_the_verdict_and_forgets_the_score() -> None:
    state, found = judge(DEAD, window(seconds=None))
    assert found.verdict is Verdict.CRITICAL
    assert state.score == 0
    assert "began anew" in found.argument.summary
    assert judge(DEAD, window(seconds=None), window(100, [80], requests=3))[1].verdict is Verdict.OK


def test_evidence_older_than_max_age_says_nothing() -> None:
    check = AcceptanceLength(max_age=100.0)
    state, _ = judge(window(500, [400], requests=4), check=check)
    _, found = check.step(state, window(), 15.0 + 100.0)
    assert found[0].conclusive
    _, found = check.step(state, window(), 15.0 + 100.1)
    assert found[0].verdict is Verdict.OK
    assert not found[0].conclusive
    assert "no draft for" in found[0].argument.summary


@pytest.mark.parametrize(("updates", "dead"), [(2000, True), (2001, False)])
def test_an_unknown_method_that_drafts_on_half_of_the_updates_is_judged(
    updates: int,
    dead: bool,
) -> None:
    profile = Profile(icc=0.0)
    found = judge(window(1000, [0], requests=4, updates=updates, profile=profile))[1]
    assert found.verdict is (Verdict.CRITICAL if dead else Verdict.OK)


@pytest.mark.parametrize(
    ("method", "dead"), [("eagle3", True), ("mtp", True), ("ngram", False), ("suffix", False)]
)
def test_a_declared_method_decides_whatever_the_coverage(method: str, dead: bool) -> None:
    profile = Profile(method=method, icc=0.0)
    seldom = window(1000, [0], requests=4, updates=9000, profile=profile)
    always = window(1000, [0], requests=4, profile=profile)
    for seen in (seldom, always):
        assert (judge(seen)[1].verdict is Verdict.CRITICAL) == dead


@pytest.mark.parametrize(("generated", "dead"), [(1503, True), (1504, False)])
def test_tokens_per_step_that_gain_more_than_the_counters_save_the_drafter(
    generated: int,
    dead: bool,
) -> None:
    """Length by the counters 1.0; 1.5 tokens per step is inside the margin, more is not."""
    found = judge(window(1000, [0], requests=3, generated=generated))[1]
    assert found.verdict is (Verdict.CRITICAL if dead else Verdict.UNKNOWN)
    if not dead:
        assert "the counters are wrong" in found.argument.summary


def test_less_than_thirty_effective_drafts_are_too_little() -> None:
    for drafts, conclusive in ((29, False), (30, True)):
        found = judge(window(drafts, [drafts], requests=3))[1]
        assert found.verdict is Verdict.OK
        assert found.conclusive is conclusive


def test_a_page_without_speculation_is_ok() -> None:
    found = judge(window(depth=0, requests=3, updates=300))[1]
    assert (found.verdict, found.conclusive) == (Verdict.OK, True)
    assert "is off" in found.argument.summary


def test_drafts_of_one_request_are_alike() -> None:
    """The same 15 of 300 drafts: of one request they weigh little, of thirty they decide."""
    one = judge(window(300, [15], requests=1))[0]
    many = judge(window(300, [15], requests=30))[0]
    assert one.score < 2
    assert many.score > AcceptanceLength.alarm


@pytest.mark.parametrize(("seconds", "score"), [(15.0, 1.0), (5.0, 1 / 3), (60.0, 1.0)])
def test_looking_more_often_at_one_request_is_no_more_evidence(seconds, score) -> None:
    """Three windows of 5 s weigh as much as one of 15 s; a longer one is one look."""
    whole = judge(window(300, [15], requests=1))[0].score
    seen = judge(window(300, [15], requests=1, seconds=seconds))[0].score
    assert seen == pytest.approx(whole * score)


def test_a_request_that_clearly_works_takes_back_what_several_dead_ones_said() -> None:
    dead, works = window(300, [15], requests=1), window(300, [75], requests=1)
    state, _ = judge(dead, dead, dead, works)
    assert state.score == 0.0


@pytest.mark.parametrize(
    "limits",
    [
        {"dead": 0.21},
        {"dead": 0.0},
        {"floor": 1.0},
        {"clear_at": 0.1},
        {"dead_icc": 0.15},
        {"dead_icc": 0.0},
        {"floor_icc": 1.0},
    ],
)
def test_limits_without_a_sense_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="needs"):
        AcceptanceLength(**limits)
