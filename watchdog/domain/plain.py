"""
Values of ours as plain data and back: what a store can keep as JSON.

`plain` writes dataclasses by field name. Named tuples are many, and JSON writes them fast as
lists; so the names of their fields are kept once for all, as *shapes*. Either way a version that
has one field more, or one less, reads what the other wrote: what is missing takes its default,
what is unknown is left out.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

Shapes = Mapping[str, Sequence[str]]
"""The fields of each named tuple, in the order in which they were written."""

AS_NOW: Final[Shapes] = types.MappingProxyType({})
"""The order of this version."""


def plain(value: Any) -> Any:
    """Write numbers, text, tuples, mappings, named tuples, dataclasses and enums as JSON."""
    kind = type(value)
    if value is None or kind in (str, float, int, bool):
        return value
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value))
        return {name: plain(getattr(value, name)) for name in names}
    return str(value)


def shapes_of(*kinds: Any) -> dict[str, list[str]]:
    """Return the shapes of these types, and of all that their fields hold."""
    shapes: dict[str, list[str]] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        waiting += [part for part in get_args(kind) if part is not Ellipsis]
        if hasattr(kind, "_fields") and _name(kind) not in shapes:
            shapes[_name(kind)] = list(kind._fields)
            waiting += _hints(kind).values()
        elif dataclasses.is_dataclass(kind) and isinstance(kind, type):
            waiting += _hints(kind).values()
    return shapes


def restored(kind: Any, data: Any, shapes: Shapes = AS_NOW) -> Any:  # noqa: PLR0911  (one a kind)
    """
    Make a `kind` of what was written. Raises ValueError where the data is of another shape.

    `kind` is a type as it is annotated: a class, `X | None`, `tuple[X, ...]`, `Mapping[str, X]`.
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), data, shapes)
    if origin is tuple:
        return _tuple(get_args(kind), data, shapes)
    if kind is Any or kind is object:
        return data
    if origin is not None and issubclass(origin, Mapping):
        _, part = get_args(kind)
        return {key: restored(part, value, shapes) for key, value in _a(dict, data).items()}
    if issubclass(kind, enum.Enum):
        return kind(data)
    if hasattr(kind, "_fields") or dataclasses.is_dataclass(kind):
        return _with_fields(kind, data, shapes)
    if kind is float and type(data) is int:
        return float(data)
    if kind is int and type(data) is float and data.is_integer():
        return int(data)
    return _a(kind, data)


def _with_fields(kind: Any, data: Any, shapes: Shapes) -> Any:
    hints = _hints(kind)
    if hasattr(kind, "_fields"):
        names = shapes.get(_name(kind), list(kind._fields))
        data = dict(zip(names, _a(list, data), strict=True))
    known = {name: value for name, value in _a(dict, data).items() if name in hints}
    try:
        return kind(**{name: restored(hints[name], v, shapes) for name, v in known.items()})
    except TypeError as error:  # a field without a default is missing
        raise ValueError(str(error)) from None


def _name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@lru_cache(maxsize=256)
def _hints(kind: Any) -> dict[str, Any]:
    fields = getattr(kind, "_fields", None) or [f.name for f in dataclasses.fields(kind)]
    hints = get_type_hints(kind)
    return {name: hints[name] for name in fields}


def _one_of(kinds: tuple[Any, ...], data: Any, shapes: Shapes) -> Any:
    if data is None and type(None) in kinds:
        return None
    [kind] = [kind for kind in kinds if kind is not type(None)]
    return restored(kind, data, shapes)


def _tuple(kinds: tuple[Any, ...], data: Any, shapes: Shapes) -> tuple[Any, ...]:
    parts = _a(list, data)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(restored(kinds[0], part, shapes) for part in parts)
    return tuple(restored(kind, part, shapes) for kind, part in zip(kinds, parts, strict=True))


def _a(kind: Any, data: Any) -> Any:
    if type(data) is not kind:
        raise ValueError(f"{type(data).__name__} where {kind.__name__} was kept")
    return data
