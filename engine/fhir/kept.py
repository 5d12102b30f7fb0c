"""A value that is worked out when it is first asked for, and then kept with its object."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """As functools.cached_property, whose lock costs more until Python 3.12 than what is kept here.

    Two threads that ask at once may both work the value out; one of them is kept.
    """

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, of: Any, _: type | None = None) -> Value:
        """Return the value; another time it is found before this is asked."""
        made = of.__dict__[self._name] = self._make(of)
        return made
