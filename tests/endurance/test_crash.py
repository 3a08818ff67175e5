"""A slice of `make crash`: kills at random instants, and every change arrives once, in order."""

from __future__ import annotations

from pathlib import Path

from tests.endurance.crash import Crash, differences
from tests.endurance.forked import Nursery


def test_kills_lose_nothing_and_double_nothing(tmp_path: Path, nursery: Nursery) -> None:
    kinds = ("dead", "down", "pause", "roam")
    crash = Crash(tmp_path, kills=15, seed=4, speed=40.0, copies=1, burners=0, cards=0,
                  kinds=kinds, calm=20.0, nursery=nursery)  # fmt: skip
    outcome = crash.run()
    assert outcome.deviations == []
    assert sum(outcome.kills.values()) == 15
    assert outcome.due >= 10
    assert set(outcome.keys.values()) == {outcome.due}
    assert outcome.notified == outcome.due - 2 * outcome.flaps
    assert outcome.flaps <= 2


def test_what_differs_is_said() -> None:
    """A test that cannot fail proves nothing: what is missing, doubled and swapped is told."""
    due = {"a": ["firing", "resolved"], "b": ["firing"]}
    assert differences("hook", due, due) == []
    for came in (
        {"a": ["firing", "resolved"]},
        {"a": ["resolved", "firing"], "b": ["firing"]},
        {"a": ["firing", "resolved"], "b": ["firing", "firing"]},
        {**due, "c": ["firing"]},
    ):
        assert len(differences("hook", due, came)) == 1
