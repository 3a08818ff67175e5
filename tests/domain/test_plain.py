"""Values written as plain data and read back."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.checks import CHECKS
from watchdog.domain.plain import plain, restored, shapes_of


class Colour(enum.Enum):
    RED = "red"


class Inner(NamedTuple):
    at: float = 0.0
    names: tuple[str, ...] = ()


class Outer(NamedTuple):
    count: int = 0
    inner: Inner = Inner()
    maybe: float | None = None
    pairs: tuple[tuple[str, int], ...] = ()
    by_name: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Flat:
    colour: Colour
    text: str = ""


inners = st.builds(Inner, st.floats(allow_nan=False), st.lists(st.text(), max_size=3).map(tuple))
outers = st.builds(
    Outer,
    st.integers(),
    inners,
    st.none() | st.floats(allow_nan=False),
    st.lists(st.tuples(st.text(), st.integers()), max_size=3).map(tuple),
    st.dictionaries(st.text(), st.floats(allow_nan=False), max_size=3),
)


def through_json(value: object) -> object:
    return json.loads(json.dumps(plain(value)))


@given(outers)
def test_what_is_written_is_read_back_the_same_through_json(value: Outer) -> None:
    assert restored(Outer, through_json(value)) == value


def test_dataclasses_and_enums_are_read_back() -> None:
    value = Flat(Colour.RED, "x")
    assert restored(Flat, through_json(value)) == value


def test_no_number_and_the_infinities_are_read_back() -> None:
    back = restored(tuple[float, ...], through_json((math.nan, math.inf, -math.inf)))
    assert math.isnan(back[0])
    assert back[1:] == (math.inf, -math.inf)


def test_a_field_that_is_missing_takes_its_default_and_one_too_many_is_left_out() -> None:
    assert restored(Flat, {"colour": "red", "of_a_newer_version": [1]}) == Flat(Colour.RED)


def test_a_named_tuple_of_another_version_is_read_by_the_names_that_were_kept_with_it() -> None:
    shapes = shapes_of(Outer)
    [inner] = [name for name in shapes if name.endswith("Inner")]
    assert shapes[inner] == ["at", "names"]
    shapes[inner] = ["names", "of_a_newer_version", "at"]
    assert restored(Inner, [["n"], 7, 1.0], shapes) == Inner(1.0, ("n",))
    shapes[inner] = ["names"]
    assert restored(Inner, [["n"]], shapes) == Inner(0.0, ("n",))


def test_shapes_hold_what_is_inside_of_tuples_mappings_and_dataclasses() -> None:
    names = {name.rpartition(".")[2] for name in shapes_of(tuple[Outer, ...] | None)}
    assert names == {"Outer", "Inner"}
    assert shapes_of(CHECKS["step_time"], float, Flat) == {}


def test_a_whole_number_is_read_as_the_float_or_the_int_that_it_was() -> None:
    assert restored(float, 1) == 1.0
    assert restored(int, 2.0) == 2


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Inner, {"at": 1.0}),
        (Inner, [1.0]),
        (Inner, ["noon", []]),
        (Inner, [None, []]),
        (Inner, [1.0, "one"]),
        (int, 1.5),
        (int, True),
        (tuple[int, int], [1, 2, 3]),
        (Mapping[str, float], []),
        (Flat, {"text": "the colour is missing"}),
        (Flat, {"colour": "blue"}),
    ],
)
def test_data_of_another_shape_is_a_value_error_and_no_crash(kind: type, data: object) -> None:
    with pytest.raises(ValueError, match="."):
        restored(kind, data)


@pytest.mark.parametrize("check", CHECKS)
def test_the_first_state_of_every_check_is_read_back(check: str) -> None:
    annotated = get_type_hints(CHECKS[check].step)["state"]
    [kind] = [kind for kind in annotated.__args__ if kind is not type(None)]
    assert restored(annotated, through_json(kind())) == kind()
