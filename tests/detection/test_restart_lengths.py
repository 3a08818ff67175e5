"""The experiment on the rule of restarts: what it changes, and what it says of a short life."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from bench.detection import restarts as r
from bench.detection.life import Life, Setting


@lru_cache(maxsize=1)
def short() -> dict[float, r.Hours]:
    return r.life_of("idle", 0.45, 1, 70)


def counted(world: str) -> dict[float, tuple[int, ...]]:
    """Of each size: restarts, and how many were low, low without adjustment, and adjusted."""
    found: dict[float, list[r.Judged]] = {size: [] for size in r.SIZES}
    for size, verdict in r.judged(short(), world):
        found[size].append(verdict)
    return {
        size: (len(verdicts), *(sum(column) for column in zip(*verdicts, strict=True)))
        for size, verdicts in found.items()
    }


def test_hours_are_those_of_the_life() -> None:
    life = Life(Setting("idle", interval=3600.0), 1, 2)
    table = r.hours(life)
    assert table.shape == (48, 6)
    assert table[24:, r.DRAFTS].sum() == life.day(1).drafts.sum()
    assert table[:24, r.ANSWER].sum() == life.day(0).generated.sum()


@pytest.mark.parametrize("world", r.WORLDS)
def test_no_change_of_traffic_changes_how_well_it_is_drafted(world: str) -> None:
    always, since, _ = r.WORLDS[world]
    before = short()[0.0]
    after = since(always(before))
    some = before[:, r.DRAFTS] > 0
    assert np.allclose(
        after[some, r.ACCEPTED] / after[some, r.DRAFTS],
        before[some, r.ACCEPTED] / before[some, r.DRAFTS],
    )
    assert (after[:, r.REQUESTS] == before[:, r.REQUESTS]).all()


def test_lengths_of_another_month_are_as_different_and_tell_nothing() -> None:
    before = short()[0.0]
    after = r.PROMPTS(before)
    some = before[:, r.REQUESTS] >= 10
    old, new = (np.log(t[some, r.PROMPT] / t[some, r.REQUESTS]) for t in (before, after))
    length = before[some, r.ACCEPTED] / before[some, r.DRAFTS]
    assert new.std() == pytest.approx(old.std(), rel=0.2)
    assert np.corrcoef(old, length)[0, 1] > 0.2
    assert abs(np.corrcoef(new, length)[0, 1]) < 0.1


def test_a_short_life_as_it_was_when_this_was_written() -> None:
    assert counted("as generated") == {
        0.0: (57, 0, 0, 57), 0.2: (57, 54, 41, 57), 0.3: (57, 57, 57, 57),
    }  # fmt: skip


def test_where_lengths_tell_nothing_the_rule_is_what_it_was() -> None:
    for _, low, plain, adjusted in counted("neither tells anything").values():
        assert (low, adjusted) == (plain, 0)


def test_traffic_as_on_no_day_is_judged_as_before() -> None:
    for _, low, plain, adjusted in counted("x 0.5 from the restart on").values():
        assert (low, adjusted) == (plain, 0)


def test_unknown_lives_are_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert r.main(["of", "others"]) == 2
    assert "one of choosing, held out" in capsys.readouterr().err
