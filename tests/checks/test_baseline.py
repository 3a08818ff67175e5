"""Against what is usual: learning it, the three rules at their limits, and the way back."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.checks.windows import window
from watchdog.checks.baseline import BaselineCheck
from watchdog.domain import series as s
from watchdog.domain.baseline import BLOCK, DAY
from watchdog.domain.baseline_state import State
from watchdog.domain.finding import Finding, Verdict
from watchdog.domain.history import Window
from watchdog.domain.sample import labels

HEALTHY = (0.8, 0.6, 0.45, 0.35, 0.28, 0.22, 0.17)
"""Acceptance length 3.87."""
LENGTH = 1 + sum(HEALTHY)
CHECK = BaselineCheck()


def scaled(by: float) -> tuple[float, ...]:
    """Every position weaker by the same factor: the acceptance length is `by` times as long."""
    factor = (by * LENGTH - 1) / (LENGTH - 1)
    return tuple(p * factor for p in HEALTHY)


class Engine:
    """One engine that is looked at every three hours, from a midnight on."""

    def __init__(self, check: BaselineCheck = CHECK) -> None:
        self.check, self.now = check, 100 * DAY
        first = replace(window(seconds=None), reset=False)
        self.state, self.found = check.step(None, first, self.now)

    def blocks(
        self, count: int, positions: Sequence[float] = HEALTHY, *, requests: float = 40.0,
        tokens: float = 23_000.0, updates: float | None = None,
        doubts: dict[str, Verdict] | None = None, prompt: float = 100.0, depth: int = 7,
    ) -> Finding:  # fmt: skip
        """Let three hours go by so many times, a window each; the tokens stay the same."""
        drafts = tokens / (1 + sum(positions))
        for _ in range(count):
            self.now += BLOCK
            seen = window(
                drafts, [drafts * p for p in positions], requests=requests, seconds=BLOCK,
                updates=updates, depth=depth,
            )  # fmt: skip
            grown = {**seen.grown, s.PROMPT_TOKENS: prompt * requests}
            seen = replace(seen, grown=grown, doubts=doubts or {})
            self._step(seen)
        return self.finding

    def days(self, count: float, positions: Sequence[float] = HEALTHY, **how: Any) -> Finding:
        return self.blocks(round(count * 8), positions, **how)

    def restart(self) -> None:
        self._step(window(seconds=None))

    def _step(self, seen: Window) -> None:
        self.state, self.found = self.check.step(self.state, seen, self.now)

    @property
    def finding(self) -> Finding:
        [found] = self.found
        return found

    @property
    def bad(self) -> str:
        """Which rule raised, "" for none; the verdict agrees with it."""
        assert (self.finding.verdict is Verdict.WARNING) == bool(self.state.raised)
        return self.state.raised


def learned(days: float = 10.0, check: BaselineCheck = CHECK) -> Engine:
    """An engine whose usual length is known, at the end of a day."""
    engine = Engine(check)
    engine.days(days)
    return engine


# Learning


@pytest.mark.parametrize(("days", "known"), [(7, False), (8, True)])
def test_seven_whole_days_are_learned_before_anything_is_judged(days: int, known: bool) -> None:
    """The eighth day's first block closes the seventh day."""
    engine = Engine()
    found = engine.days(days)
    assert (found.verdict, found.conclusive) == (Verdict.OK, known)
    assert ("learning" in found.argument.summary) is not known
    if known:
        assert found.argument.evidence["baseline"] == pytest.approx(LENGTH)
    else:
        assert "6 of 7 days" in found.argument.summary
        assert "baseline" not in found.argument.evidence


def test_twenty_eight_days_are_kept() -> None:
    engine = learned(40)
    assert len(engine.state.baseline.days) == 28
    assert engine.state.baseline.days[-1].at == 139 * DAY


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"requests": 59 / 8}, "59 requests on the last day; 60 make one"),
        ({"positions": [0.14]}, "acceptance length 1.14"),
        ({"doubts": {"SpecDecodeCollapsed": Verdict.UNKNOWN}}, "in doubt"),
        ({"doubts": {"SpecDecodeCliff": Verdict.WARNING}}, "in doubt"),
        ({"updates": 12_000.0}, "few of the decode updates"),
    ],
    ids=["too few requests", "a broken start", "the score is up", "another warning", "as n-gram"],
)
def test_a_day_that_may_be_broken_is_not_learned(how: dict[str, Any], why: str) -> None:
    engine = Engine()
    found = engine.days(9, **how)
    assert engine.state.baseline.days == ()
    assert why in found.argument.summary


@pytest.mark.parametrize(
    "how",
    [{"requests": 61 / 8}, {"positions": [0.16]}, {"updates": 11_800.0}],
    ids=["enough requests", "a weak drafter", "a learned drafter"],
)
def test_a_day_on_the_other_side_of_the_limit_is_learned(how: dict[str, Any]) -> None:
    engine = Engine()
    engine.days(9, **how)
    assert len(engine.state.baseline.days) == 8


def test_doubt_about_the_score_counts_only_when_the_day_is_learned() -> None:
    """One poor request moves the score on most days."""
    engine = Engine()
    engine.blocks(4)
    engine.blocks(1, doubts={"SpecDecodeCollapsed": Verdict.UNKNOWN})
    engine.blocks(4)
    assert len(engine.state.baseline.days) == 1


def test_n_gram_drafters_and_engines_without_drafts_are_not_judged() -> None:
    engine = Engine()
    assert engine.found == []
    seen = window(10, [1], profile=replace(window().profile, method="ngram"))
    assert CHECK.step(None, seen, 15.0)[1] == []


# The silent rule


@pytest.mark.parametrize(("share", "low"), [(0.65, True), (0.67, False)])
def test_24_hours_below_0_66_of_the_usual_warn(share: float, low: bool) -> None:
    engine = learned()
    found = engine.blocks(9, scaled(share))
    assert engine.bad == ("silent" if low else "")
    if low:
        said = found.argument
        assert "over 24 h is 65 % of the usual 3.87" in said.summary
        assert "a change of traffic looks the same" in said.summary
        assert said.evidence["rule"] == "silent"


@pytest.mark.parametrize(("share", "low"), [(0.75, True), (0.77, False)])
def test_72_hours_below_0_76_of_the_usual_warn(share: float, low: bool) -> None:
    engine = learned()
    assert engine.blocks(16, scaled(share)).verdict is Verdict.OK
    found = engine.blocks(11, scaled(share))
    assert engine.bad == ("silent" if low else "")
    if low:
        assert "over 72 h is 76 % of the usual" in found.argument.summary


def test_some_hours_of_odd_text_are_no_degradation() -> None:
    """Nine hours of a third of the usual length; the other fifteen are as ever."""
    engine = learned()
    engine.blocks(3, scaled(0.35), tokens=46_000.0)
    engine.blocks(6)
    assert engine.state.recent.acceptance_length < 0.66 * LENGTH  # type: ignore[operator]
    assert engine.bad == ""


def test_hours_that_another_check_found_wrong_are_told_by_it_and_weigh_nothing() -> None:
    """A collapse of two days, repaired: no second alert about the same days."""
    engine = learned()
    for doubts, share in ((2, 0.3), (3, 1.0)):
        named = {"SpecDecodeCollapsed": Verdict.CRITICAL} if share < 1 else {}
        for _ in range(8 * doubts):
            engine.blocks(1, scaled(share), doubts=named)
            assert engine.bad == ""


def test_where_only_hours_that_are_in_doubt_are_known_it_says_so() -> None:
    engine = learned()
    found = engine.days(2, scaled(0.3), doubts={"SpecDecodeCollapsed": Verdict.CRITICAL})
    assert "0 requests in 24 h, without the hours that another" in found.argument.summary
    assert "evidence_age_seconds" not in found.argument.evidence


@pytest.mark.parametrize("before", [HEALTHY, scaled(0.6)], ids=["healthy", "raised"])
def test_drafts_after_days_of_silence_are_no_silence(before: Sequence[float]) -> None:
    engine = learned()
    engine.blocks(9, before)
    engine.now += 5 * DAY
    said = engine.blocks(1, before).argument
    assert "no draft for" not in said.summary
    assert "evidence is" not in said.summary
    assert "over the last 24 h the length" not in said.summary
    assert said.evidence["length_72h"] is None


def test_what_was_told_and_is_well_again_is_not_told_again_by_the_72_hours() -> None:
    """A day and a half far too low, then not quite as ever: the 72 h are low until it is past."""
    engine = learned()
    engine.blocks(17, scaled(0.6))
    assert engine.bad == "silent"
    engine.blocks(8, scaled(0.85))
    for _ in range(30):
        engine.blocks(1, scaled(0.85))
        assert engine.bad == ""


def test_what_stands_for_long_says_what_it_is_by_now() -> None:
    engine = learned()
    while not engine.bad:
        engine.blocks(1, scaled(0.6))
    assert "over the last 24 h the length" not in engine.finding.argument.summary
    found = engine.blocks(10, scaled(0.75))
    assert engine.bad == "silent"
    assert "over the last 24 h the length is 2.90, 75 % of the usual" in found.argument.summary


def test_a_slow_step_is_no_doubt_about_the_drafter() -> None:
    engine = learned()
    engine.blocks(9, scaled(0.6), doubts={"ServingStepsSlow": Verdict.WARNING})
    assert engine.bad == "silent"


def test_72_low_hours_whose_last_24_came_back_are_no_news() -> None:
    engine = learned()
    engine.days(1.5, scaled(0.65))
    engine.days(1.5)
    assert engine.bad == ""


def test_too_few_requests_decide_nothing() -> None:
    engine = learned()
    engine.blocks(9, requests=59 / 8)
    found = engine.blocks(30, scaled(0.4), requests=59 / 8)
    assert (engine.bad, found.conclusive) == ("", False)
    assert "too little traffic" in found.argument.summary


def test_the_onset_is_between_the_blocks_where_it_fell() -> None:
    engine = learned()
    fell = engine.now
    found = engine.blocks(12, scaled(0.6))
    first, last = found.argument.evidence["onset"]  # type: ignore[misc]
    assert first <= fell <= last
    assert last - first <= 2 * BLOCK
    assert "it fell between" in found.argument.summary


def test_what_was_learned_since_it_fell_is_unlearned_and_nothing_more_is_learned() -> None:
    engine = learned(12)
    usual = engine.state.baseline.length
    engine.days(10, scaled(0.74))
    assert engine.bad == "silent"
    assert engine.state.baseline.length == pytest.approx(usual)
    assert all(d.acceptance_length == pytest.approx(LENGTH) for d in engine.state.baseline.days)
    assert "a warning stands" in engine.state.skipped


@pytest.mark.parametrize(("share", "back"), [(0.82, False), (0.84, True)])
def test_it_resolves_more_than_half_way_back_over_24_hours(share: float, back: bool) -> None:
    """Half-way between 0.66 and 1 is 0.83."""
    engine = learned()
    engine.blocks(9, scaled(0.6))
    assert engine.bad == "silent"
    engine.blocks(3, scaled(share))
    assert engine.bad == "silent"  # not before 24 h of it
    engine.blocks(8, scaled(share))
    assert engine.bad == ("" if back else "silent")


def test_silence_never_resolves() -> None:
    engine = learned()
    engine.blocks(9, scaled(0.6))
    engine.now += 5 * DAY
    engine.blocks(1, tokens=0.0, requests=0.0)
    assert engine.bad == "silent"
    assert "the evidence is 5" in engine.finding.argument.summary
    assert "over the last 24 h the length" not in engine.finding.argument.summary


# The restart rule


@pytest.mark.parametrize(("share", "low"), [(0.85, True), (0.87, False)])
def test_the_first_24_hours_after_a_restart_below_0_86_warn(share: float, low: bool) -> None:
    engine = learned()
    engine.restart()
    restarted = engine.now
    engine.blocks(7, scaled(share))
    assert engine.bad == ""
    found = engine.blocks(1, scaled(share))
    assert engine.bad == ("restart" if low else "")
    if low:
        said = found.argument
        assert "since the restart 24.0 h ago" in said.summary
        assert "85 % of the usual" in said.summary
        assert said.evidence["onset"] == [restarted, restarted]


def test_a_restart_is_judged_once() -> None:
    """What comes later is for the silent rule, whose limits are wider."""
    engine = learned()
    engine.restart()
    engine.blocks(9)
    engine.blocks(24, scaled(0.80))
    assert engine.bad == ""


def test_a_second_restart_within_24_hours_is_judged_with_the_first() -> None:
    engine = learned()
    engine.restart()
    first = engine.now
    engine.blocks(6, scaled(0.8))
    engine.restart()
    second = engine.now
    engine.blocks(1, scaled(0.8))
    assert engine.bad == ""
    found = engine.blocks(1, scaled(0.8))
    assert engine.bad == "restart"
    assert found.argument.evidence["onset"] == [first, second]


def test_of_several_restarts_the_onset_leaves_out_what_was_judged_and_nothing_else() -> None:
    """The second of three broke it: which of the two later ones it was, the hours do not tell."""
    engine = learned()
    engine.restart()
    engine.blocks(5)
    engine.restart()
    second = engine.now
    engine.blocks(2, scaled(0.8))
    engine.restart()
    third = engine.now
    found = engine.blocks(7, scaled(0.8))
    assert engine.bad == "restart"
    assert found.argument.evidence["onset"] == [second, third]


def test_what_an_older_version_kept_of_a_restart_is_judged() -> None:
    engine = learned()
    engine.restart()
    engine.state = engine.state._replace(restarts=())
    engine.blocks(8, scaled(0.8))
    assert engine.bad == "restart"


def test_a_second_restart_that_broke_it_is_judged_after_the_first() -> None:
    engine = learned()
    engine.restart()
    engine.blocks(6)
    engine.restart()
    second = engine.now
    engine.blocks(7, scaled(0.8))
    assert engine.bad == ""
    found = engine.blocks(1, scaled(0.8))
    assert engine.bad == "restart"
    assert found.argument.evidence["onset"] == [second, second]


def test_a_restart_after_one_that_was_judged_is_judged_by_itself() -> None:
    engine = learned()
    engine.restart()
    engine.blocks(9)
    engine.restart()
    engine.blocks(8, scaled(0.8))
    assert engine.bad == "restart"


@pytest.mark.parametrize(("requests", "mended"), [(60.0, True), (59.0, False)])
def test_a_second_restart_that_mended_it_is_no_warning(requests: float, mended: bool) -> None:
    """Sixty requests of the newest life show it; fewer do not speak against the other hours."""
    engine = learned()
    engine.restart()
    engine.blocks(7, scaled(0.8))
    engine.restart()
    engine.blocks(1, requests=requests)
    assert engine.bad == ("" if mended else "restart")


@pytest.mark.parametrize(("requests", "judged"), [(4.0, True), (2.0, False)])
def test_a_restart_waits_three_days_for_60_requests(requests: float, judged: bool) -> None:
    """4 in each 3 h make 60 after 45 h; 2 make 48 in three days."""
    engine = learned()
    engine.restart()
    engine.blocks(14, scaled(0.8), requests=requests)
    assert engine.bad == ""
    engine.blocks(15, scaled(0.8), requests=requests)
    assert engine.bad == ("restart" if judged else "")
    assert engine.state.restarted_at is None


def test_a_restart_that_waited_says_for_how_long() -> None:
    engine = learned()
    engine.restart()
    engine.blocks(15, scaled(0.8), requests=4)
    assert "in its first 45.0 h, 80 %" in engine.finding.argument.summary


def test_a_collapse_from_a_restart_on_is_told_once_and_not_once_more_when_it_is_mended() -> None:
    engine = learned()
    engine.restart()
    engine.blocks(10, scaled(0.27), doubts={"SpecDecodeCollapsed": Verdict.CRITICAL})
    assert engine.bad == ""
    engine.restart()
    for _ in range(12):
        engine.blocks(1)
        assert engine.bad == ""


def test_the_first_requests_of_a_collapse_are_no_part_of_a_restart_that_is_judged_later() -> None:
    """It is told once: what was gathered before it was called dead holds dead drafts as well."""
    engine = learned()
    engine.restart()
    engine.blocks(1, scaled(0.9))
    engine.blocks(1, scaled(0.27))
    engine.blocks(5, scaled(0.27), doubts={"SpecDecodeCollapsed": Verdict.CRITICAL})
    engine.restart()
    engine.blocks(1, requests=20.0)
    assert engine.bad == ""
    for _ in range(12):
        engine.blocks(1)
        assert engine.bad == ""


def test_an_engine_that_was_away_comes_back_as_after_a_restart() -> None:
    """Away for so long that the history does not know it any more: it is not told of a reset."""
    engine = learned()
    engine.now += BLOCK
    engine._step(replace(window(seconds=None), reset=False))
    engine.blocks(8, scaled(0.8))
    assert engine.bad == "restart"


@pytest.mark.parametrize(("earlier", "judged"), [(7, True), (8, False)])
def test_a_restart_among_many_is_no_moment_to_judge_by(earlier: int, judged: bool) -> None:
    """Eight in 28 days are judged, a ninth is not: one day in twenty is that low by itself."""
    engine = learned(12)
    for _ in range(earlier):
        engine.restart()
        engine.blocks(9)
    engine.restart()
    engine.blocks(9, scaled(0.8))
    assert engine.bad == ("restart" if judged else "")


def test_restarts_of_a_month_ago_count_no_more() -> None:
    engine = learned(12)
    for _ in range(10):
        engine.restart()
        engine.blocks(2)
    engine.days(28)
    engine.restart()
    engine.blocks(9, scaled(0.8))
    assert engine.bad == "restart"
    assert len(engine.state.restarts) <= 9


def test_a_restart_resolves_half_way_back() -> None:
    """Half-way between 0.86 and 1 is 0.93."""
    for share, rule in ((0.92, "restart"), (0.94, "")):
        engine = learned()
        engine.restart()
        engine.blocks(9, scaled(0.8))
        engine.blocks(10, scaled(share))
        assert engine.bad == rule


def test_the_baseline_is_kept_over_a_restart() -> None:
    engine = learned()
    days = engine.state.baseline.days
    engine.restart()
    assert engine.state.baseline.days == days


# The shape rule


def deeper(loss: float) -> tuple[float, ...]:
    """Only positions behind the first weaker: accepted per hit falls by `loss` log units."""
    whole = sum(HEALTHY) * math.exp(-loss)
    factor = (whole - HEALTHY[0]) / (sum(HEALTHY) - HEALTHY[0])
    return (HEALTHY[0], *(p * factor for p in HEALTHY[1:]))


@pytest.mark.parametrize(("loss", "low"), [(0.13, True), (0.11, False)])
def test_deeper_positions_that_position_0_does_not_explain_warn(loss: float, low: bool) -> None:
    engine = learned()
    found = engine.blocks(9, deeper(loss))
    assert engine.bad == ("shape" if low else "")
    if low:
        said = found.argument
        assert "deeper draft positions are worse than position 0 explains" in said.summary
        assert "looks the same" not in said.summary
        assert "does not look like this" in said.summary


@pytest.mark.parametrize(("loss", "back"), [(0.07, False), (0.05, True)])
def test_shape_resolves_half_way_back(loss: float, back: bool) -> None:
    engine = learned()
    engine.blocks(9, deeper(0.2))
    engine.blocks(9, deeper(loss))
    assert engine.bad == ("" if back else "shape")


def test_another_depth_is_no_worse_depth() -> None:
    """Drafts of seven and of four tokens in the same 24 hours: a mean of both is of neither."""
    engine = learned()
    engine.restart()
    for _ in range(24):
        engine.blocks(1, HEALTHY[:4], depth=4)
        assert engine.bad in ("", "restart")
    assert engine.state.recent.depth == 4


def test_deeper_positions_that_died_altogether_are_no_way_back() -> None:
    engine = learned()
    engine.blocks(9, deeper(0.2))
    engine.blocks(16, HEALTHY[:1])
    assert engine.bad == "shape"


def test_a_drafter_of_one_token_has_no_deeper_positions() -> None:
    engine = learned()
    engine.blocks(9, deeper(0.2))
    engine.restart()
    engine.blocks(17, HEALTHY[:1], depth=1)
    assert engine.bad == "silent"  # which speaks of a mean, and that is far shorter now


# What the operator says


def test_accepting_makes_the_present_length_the_usual_one() -> None:
    engine = learned()
    engine.blocks(12, scaled(0.6))
    assert engine.bad == "silent"
    engine.state = CHECK.accept(engine.state, engine.now)
    found = engine.blocks(1, scaled(0.6))
    assert (engine.bad, found.conclusive) == ("", True)
    assert engine.state.baseline.length == pytest.approx(0.6 * LENGTH)
    assert "accepted by an operator 3.0 h ago" in found.argument.summary
    engine.days(20, scaled(0.6))
    assert engine.bad == ""


def test_hours_of_a_dead_drafter_are_no_part_of_what_is_accepted() -> None:
    engine = learned()
    engine.blocks(4, scaled(0.3), doubts={"SpecDecodeCollapsed": Verdict.CRITICAL})
    engine.blocks(4, scaled(0.9))
    state = CHECK.accept(engine.state, engine.now)
    assert state.baseline.length == pytest.approx(0.9 * LENGTH)


@pytest.mark.parametrize(
    ("days", "said"),
    [(0.5, "(accepted by an operator 12.0 h ago)"), (3, "ago, and 2 days since)"),
     (40, "(28 days)")],
)  # fmt: skip
def test_what_was_accepted_is_not_called_days_that_were_learned(days: float, said: str) -> None:
    engine = learned()
    engine.state = CHECK.accept(engine.state, engine.now)
    assert said in engine.days(days).argument.summary


@pytest.mark.parametrize(
    ("positions", "requests", "why"),
    [([0.08], 40.0, "a dead drafter"), (HEALTHY, 5.0, "requests in the last 24 h")],
)
def test_too_little_or_a_dead_drafter_is_not_accepted(
    positions: Sequence[float], requests: float, why: str
) -> None:
    engine = learned()
    engine.blocks(9, positions, requests=requests)
    with pytest.raises(ValueError, match=why):
        CHECK.accept(engine.state, engine.now)


@pytest.mark.parametrize(
    ("name", "command"),
    [("0", "accept t --engine 0`"), ("0; reboot", "accept t`"), (None, "accept t`")],
)
def test_the_command_that_accepts_is_of_the_engine_that_is_low(
    name: str | None, command: str
) -> None:
    engine = learned()
    engine.blocks(9, scaled(0.6))
    about = labels(target="t", **({"engine": name} if name else {}))
    still = Window(about, engine.now, 15.0, levels=window().levels, profile=window().profile)
    [found] = CHECK.step(engine.state, still, engine.now)[1]
    assert found.argument.next_step.endswith(command)


def test_a_reset_forgets_all_and_learns_anew() -> None:
    engine = learned()
    engine.blocks(9, scaled(0.5))
    engine.state = CHECK.reset(engine.state, engine.now)
    found = engine.blocks(1)
    assert "0 of 7 days" in found.argument.summary


def test_speculation_that_is_switched_off_ends_a_warning() -> None:
    engine = learned()
    engine.blocks(9, scaled(0.5))
    off = Window(window().subject, engine.now, 15.0, facts={"format": "text"}, levels={"x": 1.0})
    state, [found] = CHECK.step(engine.state, off, engine.now)
    assert (state.raised, found.verdict, found.conclusive) == ("", Verdict.OK, True)
    assert state.baseline.days
    again = CHECK.step(state, off, engine.now)  # the alert lingers, and ends on what is said
    assert (again[0], [f.verdict for f in again[1]]) == (state, [Verdict.OK])


def test_a_method_that_has_no_usual_length_ends_a_warning() -> None:
    engine = learned()
    engine.blocks(9, scaled(0.5))
    for _ in range(2):
        engine._step(window(10, [1], profile=replace(window().profile, method="ngram")))
        assert (engine.finding.verdict, engine.finding.conclusive) == (Verdict.OK, True)
        assert "method ngram has no usual" in engine.finding.argument.summary
    assert "speculative decoding is off" not in engine.blocks(1).argument.summary
    assert not engine.state.over


# What it says of the traffic


def test_traffic_that_changed_is_suspected_and_steady_traffic_is_ruled_out() -> None:
    for prompt, suspected in ((100.0, False), (400.0, True)):
        engine = learned()
        said = engine.blocks(12, scaled(0.6), prompt=prompt).argument
        assert any("prompts 100 ->" in text for text in said.suspects) is suspected
        assert any("it hardly moved" in text for text in said.ruled_out) is not suspected


def test_an_outline_tells_what_is_known() -> None:
    engine = learned(8)
    told = CHECK.outline(engine.state, engine.now)
    assert (told["days"], told["days_needed"], told["learning"]) == (7, 7, False)
    assert told["length"] == pytest.approx(LENGTH)
    assert told["daily"][0] == [101 * DAY, pytest.approx(LENGTH)]
    assert told["raised"] == ""


def test_a_state_is_small() -> None:
    """It is written every round: some kilobytes for each engine."""
    engine = learned(60)
    assert len(engine.state.blocks) <= 57
    assert len(json.dumps(engine.state)) < 12_000


def test_a_state_starts_empty() -> None:
    assert CHECK.reset(State(), 0.0) == State()


def test_a_warning_tells_its_own_span_after_a_reload_with_other_limits() -> None:
    engine = learned()
    engine.blocks(9, scaled(0.6))
    engine.check = BaselineCheck(silent_24h=0.7)
    said = engine.blocks(1, scaled(0.6)).argument
    assert "over 24 h is 6" in said.summary
    assert not any(key.endswith("newest") for key in said.evidence)
