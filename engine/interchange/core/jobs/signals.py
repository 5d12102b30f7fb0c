"""Signals within a process between those who request jobs, the worker and the metrics."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


def _uncounted(_kind: str, _state: str, _seconds: float) -> None:
    """Count nothing."""


@dataclass(slots=True)
class JobSignals:
    """`wakeup` is set when there may be work; `ended` is called with kind, state and seconds of an ended job."""

    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    ended: Callable[[str, str, float], None] = _uncounted
