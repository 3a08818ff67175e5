"""A property that is worked out at most once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801  (used as a decorator, like cached_property)
    """
    functools.cached_property without the lock that it has before Python 3.12.

    One window has several and each is asked for within its round, by one thread.
    """

    def __init__(self, made: Callable[[Any], T]) -> None:
        self._made, self.__doc__ = made, made.__doc__
        self._name = made.__name__

    @overload
    def __get__(self, one: None, owner: type[Any]) -> once[T]: ...
    @overload
    def __get__(self, one: object, owner: type[Any]) -> T: ...
    def __get__(self, one: object | None, owner: type[Any]) -> T | once[T]:
        """Make the value, and put it where it is found first from now on."""
        if one is None:
            return self
        value = one.__dict__[self._name] = self._made(one)
        return value
