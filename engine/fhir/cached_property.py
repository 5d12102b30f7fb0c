"""A property that is computed on first access and stored on its object."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class CachedProperty(Generic[Value]):
    """functools.cached_property without its lock, which costs more before Python 3.12 than the values here.

    Two threads may both compute the value; one result is stored.
    """

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, of: Any, _: type | None = None) -> Value:
        """Compute and store the value; later accesses find it on the object."""
        made = of.__dict__[self._name] = self._make(of)
        return made
