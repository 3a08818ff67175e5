"""What is usual for prompts and answers of a length, and when nobody can tell."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from watchdog.domain.adjusted import BEYOND, DOWN, UP, usual_for
from watchdog.domain.baseline import DAY, Block, Day

PROMPTS = (700.0, 800.0, 900.0, 1000.0, 1150.0, 1300.0, 1450.0)
ANSWERS = (420.0, 500.0, 380.0, 460.0, 540.0)


def block(prompt: float, answer: float, length: float, requests: float = 400.0) -> Block:
    """Traffic of so many tokens a prompt and an answer, drafted so well."""
    drafts = requests * answer / length
    return Block(
        depth=7, drafts=drafts, accepted=drafts * (length - 1), first=drafts * 0.7,
        requests=requests, prompt_tokens=requests * prompt, generated=requests * answer,
    )  # fmt: skip


def truth(prompt: float, answer: float) -> float:
    """A length that goes with both, as where kinds of text differ in them: 3.4 for all."""
    return 3.4 * (prompt / 1000) ** 0.25 * (answer / 460) ** 0.35


def days(count: int, noise: float = 0.02, seed: int = 1) -> list[Day]:
    """Days of all these prompts and answers, in turn."""
    dice = random.Random(seed)
    told = []
    for number in range(count):
        prompt, answer = PROMPTS[number % 7], ANSWERS[number % 5]
        length = truth(prompt, answer) * math.exp(dice.gauss(0, noise))
        told.append(Day.of(block(prompt, answer, length), (number + 1) * DAY))
    return told


def plain(of: Sequence[Day]) -> float:
    return sorted(day.acceptance_length for day in of)[len(of) // 2]


@pytest.mark.parametrize(("prompt", "answer"), [(850.0, 430.0), (1000.0, 460.0), (900.0, 500.0)])
def test_days_tell_what_is_usual_for_such_prompts_and_answers(prompt: float, answer: float) -> None:
    usual = usual_for(days(28), block(prompt, answer, 2.5))
    assert usual == pytest.approx(truth(prompt, answer), rel=0.02)


def test_what_it_is_now_says_nothing_of_what_is_usual() -> None:
    assert usual_for(days(28), block(850, 430, 1.2)) == usual_for(days(28), block(850, 430, 4.9))


@pytest.mark.parametrize(("count", "known"), [(13, False), (14, True)])
def test_fourteen_days_are_needed(count: int, known: bool) -> None:
    assert (usual_for(days(count), block(850, 430, 3.0)) is not None) is known


def test_a_day_that_an_operator_accepted_is_one_day_however_often_it_stands_there() -> None:
    accepted = [days(1)[0]._replace(at=0.5 * DAY)] * 7
    assert usual_for([*accepted, *days(12)], block(850, 430, 3.0)) is None
    assert usual_for([*accepted, *days(13)], block(850, 430, 3.0)) is not None


def test_days_of_an_older_version_have_no_traffic_and_do_not_count() -> None:
    old = [day._replace(prompt_tokens=0.0, generated=0.0) for day in days(28)]
    assert usual_for(old, block(850, 430, 3.0)) is None
    assert usual_for([*old, *days(40)[28:]], block(850, 430, 3.0)) is None


@pytest.mark.parametrize("missing", ["requests", "prompt_tokens", "generated", "drafts"])
def test_traffic_that_is_not_known_has_no_usual_length(missing: str) -> None:
    assert usual_for(days(28), block(850, 430, 3.0)._replace(**{missing: 0.0})) is None


@pytest.mark.parametrize("seed", range(12))
def test_lengths_that_prompts_and_answers_tell_nothing_about_are_left_alone(seed: int) -> None:
    """Days that differ as they do in life, whatever the traffic."""
    dice = random.Random(seed)
    told = []
    for day in days(28):
        length = 3.4 * math.exp(dice.gauss(0, 0.09))
        told.append(day._replace(accepted=day.drafts * (length - 1)))
    assert usual_for(told, block(720, 390, 3.0)) is None


def test_prompts_that_hardly_differ_tell_nothing_though_each_longer_one_was_drafted_better() -> (
    None
):
    """A slope of 10 fits these days best: it would foretell anything at the next change."""
    told = []
    for number in range(28):
        off = 0.01 * ((number * 5) % 7 - 3) / 3
        told.append(
            Day.of(block(1000 * math.exp(off), 460, 3.4 * math.exp(10 * off)), (number + 1) * DAY)
        )
    assert usual_for(told, block(1100, 460, 3.0)) is None


def test_steady_days_tell_nothing() -> None:
    same = [Day.of(block(1000, 460, 3.4), (n + 1) * DAY) for n in range(28)]
    assert usual_for(same, block(1000, 460, 3.0)) is None


@pytest.mark.parametrize("longest", [(1450.0, 460.0), (1000.0, 540.0)])
@pytest.mark.parametrize("shortest", [(700.0, 460.0), (1000.0, 380.0)])
def test_traffic_unlike_every_learned_day_is_not_judged_by_them(
    longest: tuple[float, float], shortest: tuple[float, float]
) -> None:
    for (prompt, answer), sign in ((longest, 1), (shortest, -1)):
        for beyond, known in ((BEYOND - 0.01, True), (BEYOND + 0.01, False)):
            factor = math.exp(sign * beyond)
            moved = (prompt * factor, answer) if prompt != 1000 else (prompt, answer * factor)
            assert (usual_for(days(28), block(*moved, 3.0)) is not None) is known


def test_however_far_traffic_goes_the_usual_length_moves_by_a_tenth_at_most_and_less_upwards() -> (
    None
):
    usual = plain(days(29))
    low, high = (usual_for(days(28), block(*at, 3.0)) for at in ((700, 380), (1450, 540)))
    assert truth(700, 380) < 0.87 * usual
    assert truth(1450, 540) > 1.1 * usual
    assert low == pytest.approx(usual * math.exp(-DOWN), rel=0.01)
    assert high == pytest.approx(usual * math.exp(UP), rel=0.01)
