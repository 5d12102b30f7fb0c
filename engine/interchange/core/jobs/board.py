"""What those who ask for jobs, those who do them and those who count them tell each other within a process."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


def _uncounted(_kind: str, _state: str, _seconds: float) -> None:
    """Count nothing."""


@dataclass(slots=True)
class Board:
    """`bell` rings when something may be to do; `ended` is told kind, state and seconds of work of what has ended."""

    bell: asyncio.Event = field(default_factory=asyncio.Event)
    ended: Callable[[str, str, float], None] = _uncounted
