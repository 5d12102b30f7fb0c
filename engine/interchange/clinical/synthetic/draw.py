"""Chance that depends on a seed alone: the same draws in every version of Python and on every machine."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import TypeVar
from uuid import UUID

One = TypeVar("One")


class Draw:
    """Draws by a seed. Only `Random.random` is used: of Python's generators it alone is promised never to change."""

    def __init__(self, seed: str) -> None:
        self._random = Random(int.from_bytes(hashlib.sha256(seed.encode()).digest()))  # noqa: S311 - no secret

    def below(self, end: int) -> int:
        """Return a whole number from 0 up to, without, `end`."""
        return int(self._random.random() * end)

    def between(self, low: float, high: float, decimals: int = 0) -> float:
        """Return a number from `low` to `high` rounded to `decimals`; an int for 0."""
        value = round(low + self._random.random() * (high - low), decimals)
        return value if decimals else int(value)

    def pick(self, of: Sequence[One]) -> One:
        """Return one element."""
        return of[self.below(len(of))]

    def some(self, of: Sequence[One], number: int) -> list[One]:
        """Return `number` different elements, all of them where there are fewer."""
        left = list(of)
        return [left.pop(self.below(len(left))) for _ in range(min(number, len(left)))]

    def chance(self, share: float) -> bool:
        """Return True with the probability `share`."""
        return self._random.random() < share

    def moment(self, start: datetime, end: datetime) -> datetime:
        """Return a whole minute from `start` to `end`."""
        return start + timedelta(minutes=self.below(max(1, int((end - start).total_seconds() // 60))))

    def id(self) -> str:
        """Return an id that is a version 4 UUID, so that it is valid in a `urn:uuid:`."""
        return str(UUID(int=self.below(2**48) << 80 | self.below(2**48) << 32 | self.below(2**32), version=4))
