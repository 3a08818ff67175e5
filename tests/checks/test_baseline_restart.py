"""The restart rule where the days tell what is usual for such prompts and answers."""

from __future__ import annotations

import json

import pytest

from tests.checks.test_baseline import LENGTH, Engine, scaled
from watchdog.checks.baseline import BaselineCheck
from watchdog.domain.baseline import DAY, Day
from watchdog.domain.baseline_state import State
from watchdog.domain.plain import plain, restored, shapes_of

PROMPTS = (700.0, 850.0, 1000.0, 1200.0, 1450.0)
SHORT, USUAL, LONG = PROMPTS[0], PROMPTS[2], PROMPTS[4]


def usual(prompt: float) -> float:
    """Share of the usual length that text of such prompts has: 0.84 to 1.20."""
    return (prompt / USUAL) ** 0.5


def learned(days: int = 21) -> Engine:
    """An engine whose longer prompts go with text that is drafted better."""
    engine = Engine()
    for day in range(days):
        prompt = PROMPTS[day * 2 % 5]
        engine.days(1, scaled(usual(prompt)), prompt=prompt)
    return engine


def restarted(share: float, prompt: float, days: int = 21) -> Engine:
    """One that restarted, and then was drafted at a share of the length of all days."""
    engine = learned(days)
    engine.restart()
    engine.blocks(8, scaled(share), prompt=prompt)
    return engine


@pytest.mark.parametrize(("share", "low"), [(0.87, True), (0.89, False)])
def test_usual_traffic_is_held_against_a_closer_limit(share: float, low: bool) -> None:
    assert restarted(share, USUAL).bad == ("restart" if low else "")


def test_short_prompts_with_the_text_that_goes_with_them_are_no_degradation() -> None:
    """It is below 0.86 of all days."""
    assert restarted(0.84, SHORT).bad == ""


def test_a_worse_drafter_is_found_although_the_text_has_become_easier() -> None:
    """It is above 0.86 of all days."""
    assert restarted(0.90, LONG).bad == "restart"
    assert restarted(0.94, LONG).bad == ""


@pytest.mark.parametrize(("share", "low"), [(0.79, True), (0.81, False)])
def test_no_traffic_explains_less_than_0_80_of_all_days(share: float, low: bool) -> None:
    assert restarted(share, SHORT).bad == ("restart" if low else "")


@pytest.mark.parametrize("prompt", [500.0, 2000.0])
@pytest.mark.parametrize(("share", "low"), [(0.85, True), (0.87, False)])
def test_prompts_as_on_no_day_are_held_against_all_days(
    prompt: float, share: float, low: bool
) -> None:
    engine = restarted(share, prompt)
    assert engine.bad == ("restart" if low else "")
    assert "for such prompts" not in engine.finding.argument.summary


@pytest.mark.parametrize(("days", "adjusted"), [(13, False), (14, True)])
def test_fewer_than_fourteen_days_are_no_days_to_adjust_by(days: int, adjusted: bool) -> None:
    assert restarted(0.84, SHORT, days).bad == ("" if adjusted else "restart")


def test_it_says_what_is_usual_for_such_prompts_and_answers() -> None:
    found = restarted(0.70, SHORT).finding
    said = found.argument
    least = LENGTH * 0.905
    assert f"of the usual for such prompts and answers, {least:.2f}" in said.summary
    assert "(of 700 and 576 tokens; for all traffic it is 3.87; 21 days)" in said.summary
    assert "since the restart 24.0 h ago" in said.summary
    assert "length 2.71 in its first 24.0 h, 77 % of" in said.summary
    assert said.evidence["baseline_for_traffic"] == pytest.approx(least, rel=0.01)
    assert said.evidence["baseline"] == pytest.approx(LENGTH)
    assert said.evidence["limit"] == 0.88
    assert "88% where it is known for such prompts and answers" in said.expected


def test_other_rules_say_nothing_of_such_prompts() -> None:
    engine = learned()
    said = engine.blocks(9, scaled(0.6), prompt=SHORT).argument
    assert engine.bad == "silent"
    assert "such prompts" not in said.summary
    assert "baseline_for_traffic" not in said.evidence


@pytest.mark.parametrize(("share", "back"), [(0.97, False), (1.0, True)])
def test_it_resolves_half_way_back_to_what_is_usual_for_the_traffic(
    share: float, back: bool
) -> None:
    """Long prompts raise what is usual by 5 %; half-way between 0.88 and 1 of that is 0.99."""
    engine = restarted(0.80, LONG)
    assert engine.bad == "restart"
    engine.blocks(10, scaled(share), prompt=LONG)
    assert engine.bad == ("" if back else "restart")


def test_days_since_the_restart_are_no_part_of_what_it_is_judged_by() -> None:
    """The fourteenth day ends, and is learned, between the restart and its judgement."""
    engine = learned(13)
    engine.blocks(7, prompt=USUAL)
    engine.restart()
    engine.blocks(7, scaled(0.84), prompt=SHORT)
    assert len(engine.state.baseline.days) == 14
    engine.blocks(1, scaled(0.84), prompt=SHORT)
    assert engine.bad == "restart"
    assert len(engine.state.baseline.days) == 13
    assert engine.state.limit == 0.86


@pytest.mark.parametrize(("prompt", "mended"), [(SHORT, True), (USUAL, False)])
def test_a_second_restart_that_mended_it_is_held_against_its_own_traffic(
    prompt: float, mended: bool
) -> None:
    """After it the length is that of short prompts, whatever they were before."""
    engine = learned()
    engine.restart()
    engine.blocks(5, scaled(0.70), prompt=USUAL)
    engine.restart()
    engine.blocks(3, scaled(0.84), prompt=prompt)
    assert engine.bad == ("" if mended else "restart")


@pytest.mark.parametrize(("requests", "judged"), [(40.0, True), (4.0, False)])
def test_a_restart_is_judged_after_24_hours_though_no_draft_comes_just_then(
    requests: float, judged: bool
) -> None:
    engine = learned()
    engine.restart()
    restarted = engine.now
    engine.blocks(7, scaled(0.7), requests=requests)
    waits = DAY if judged else 3 * DAY
    assert engine.check.alike_until(engine.state) == min(
        restarted + waits, engine.state.recent_until + DAY
    )
    engine.blocks(1, scaled(0.7), tokens=0.0, requests=0.0)
    assert engine.bad == ("restart" if judged else "")


def test_what_an_older_version_kept_is_read_and_judged_by_all_days() -> None:
    engine = learned()
    shapes = shapes_of(State)
    [name] = [name for name in shapes if name.endswith(".Day")]
    assert tuple(shapes[name]) == Day._fields
    kept = json.loads(json.dumps(plain(engine.state)))
    older = {**shapes, name: shapes[name][:-2]}
    days = kept[0][0]
    kept[0][0] = [day[:-2] for day in days]
    engine.state = restored(State, kept, older)
    assert len(engine.state.baseline.days) == 20
    engine.restart()
    engine.blocks(8, scaled(0.85), prompt=SHORT)
    assert engine.bad == "restart"
    assert engine.state.limit == BaselineCheck().restart
