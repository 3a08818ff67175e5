"""
The limits of checks as configuration: which there are, what they may be, what they are.

A check is a frozen dataclass and its fields are its limits; so a new limit is a key of the
configuration with no line written here. A field's metadata may say `unit` ("seconds" makes it
a duration) and `most`; no limit is negative.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from watchdog.duration import HINT, format_duration, parse_duration

Limits = Mapping[str, Mapping[str, float]]
"""Check -> limit -> value; durations in seconds."""

Checks = Mapping[str, Callable[..., Any]]
"""Check -> its class, a dataclass whose fields have defaults."""

SECONDS: Final = "seconds"


class Strict(BaseModel):
    """A section of the configuration: unknown keys and wrong types are faults, nothing changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def read_duration(value: Any) -> float:
    """A duration as the configuration writes it, in seconds. Raises ValueError with the hint."""
    if isinstance(value, str):
        return parse_duration(value)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    raise ValueError(f"{value} has no unit; {HINT}" if number else HINT)


def limits_model(checks: Checks) -> type[Strict]:
    """Make a section with one section for each check and one key for each of its limits."""
    sections: dict[str, Any] = {}
    for check, kind in checks.items():
        keys: dict[str, Any] = {f.name: (_type_of(f), f.default) for f in _fields(kind)}
        section = create_model(check, __base__=Strict, **keys)
        sections[check] = (section, section())
    return create_model("Limits", __base__=Strict, **sections)


def given(section: BaseModel) -> Limits:
    """Only the limits that the file names."""
    parts = {check: getattr(section, check) for check in section.model_fields_set}
    return {
        check: {limit: getattr(part, limit) for limit in part.model_fields_set}
        for check, part in sorted(parts.items())
    }


def merged(*layers: Limits) -> Limits:
    """Join layers of limits; a later layer beats an earlier one."""
    made: dict[str, dict[str, float]] = {}
    for layer in layers:
        for check, limits in layer.items():
            made.setdefault(check, {}).update(limits)
    return made


def defaults(checks: Checks) -> Limits:
    """Every limit of every check."""
    made: dict[str, dict[str, Any]] = {}
    for check, kind in checks.items():
        made[check] = {f.name: f.default for f in _fields(kind)}
    return made


def written(limits: Limits, checks: Checks) -> dict[str, dict[str, Any]]:
    """Return limits as the configuration writes them: durations as text."""
    return {
        check: {
            f.name: format_duration(values[f.name]) if _in_seconds(f) else values[f.name]
            for f in _fields(checks[check])
            if f.name in values
        }
        for check, values in limits.items()
    }


def make_checks(limits: Limits, checks: Checks) -> dict[str, Any]:
    """Make each check with its limits."""
    return {check: kind(**limits.get(check, {})) for check, kind in checks.items()}


def _fields(kind: Any) -> list[dataclasses.Field[Any]]:
    return [f for f in dataclasses.fields(kind) if f.init]


def _in_seconds(field: dataclasses.Field[Any]) -> bool:
    return field.metadata.get("unit") == SECONDS


def _type_of(field: dataclasses.Field[Any]) -> Any:
    """What the file may say for this limit; its default's type decides."""
    if isinstance(field.default, bool):
        return bool
    bounds = Field(ge=0, le=field.metadata.get("most"))
    if _in_seconds(field):
        return Annotated[float, BeforeValidator(read_duration), bounds]
    return Annotated[int if isinstance(field.default, int) else float, bounds]
