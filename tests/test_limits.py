"""The fields of a check are its keys in the configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from pydantic import ValidationError

from watchdog.limits import defaults, given, limits_model, make_checks, merged, written


@dataclass(frozen=True)
class Bark:
    about: ClassVar[str] = "target"
    floor: float = 0.2
    rounds: int = 3
    loud: bool = False
    quiet: float = field(default=90.0, metadata={"unit": "seconds"})
    share: float = field(default=0.5, metadata={"most": 1.0})


CHECKS = {"bark": Bark}
MODEL = limits_model(CHECKS)


def read(**limits):
    return given(MODEL.model_validate({"bark": limits}))


@pytest.mark.parametrize(
    ("limits", "taken"),
    [
        ({"floor": 1}, {"floor": 1.0}),
        ({"rounds": 0}, {"rounds": 0}),
        ({"loud": True}, {"loud": True}),
        ({"quiet": "1m30s"}, {"quiet": 90.0}),
        ({"share": 1.0}, {"share": 1.0}),
        ({}, {}),
    ],
)
def test_a_limit_is_taken_as_its_field_wants_it(limits, taken):
    assert read(**limits) == {"bark": taken}


@pytest.mark.parametrize(
    "limits",
    [
        {"floor": -0.1},
        {"floor": True},
        {"floor": "0.1"},
        {"floor": float("nan")},
        {"floor": float("inf")},
        {"floor": 10**400},
        {"rounds": 1.5},
        {"rounds": True},
        {"loud": 1},
        {"quiet": 90},
        {"quiet": "ninety"},
        {"share": 1.01},
        {"about": "engine"},
        {"flor": 0.1},
    ],
)
def test_another_value_or_another_limit_is_refused(limits):
    with pytest.raises(ValidationError):
        read(**limits)


def test_a_later_layer_beats_an_earlier_one_limit_by_limit():
    layers = defaults(CHECKS), {"bark": {"floor": 0.3, "rounds": 5}}, {"bark": {"rounds": 7}}

    assert make_checks(merged(*layers), CHECKS) == {"bark": Bark(floor=0.3, rounds=7)}


def test_limits_are_written_as_they_are_read():
    assert written(defaults(CHECKS), CHECKS) == {
        "bark": {"floor": 0.2, "rounds": 3, "loud": False, "quiet": "1m30s", "share": 0.5}
    }
