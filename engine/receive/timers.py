"""Timers of one connection by name, each of which runs once at a time."""

import asyncio
from collections.abc import Callable


class Timers:
    """Calls `ring` with a timer's name and the time; `failed` where that raises, and nothing once they were stopped."""

    __slots__ = ("_failed", "_loop", "_ring", "_running", "_stopped")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ring: Callable[[str, float], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._loop = loop
        self._ring = ring
        self._failed = failed
        self._running: dict[str, asyncio.TimerHandle] = {}
        self._stopped = False

    @property
    def names(self) -> tuple[str, ...]:
        """Those that run."""
        return tuple(self._running)

    def arm(self, name: str, seconds: float) -> None:
        """Start a timer that does not run."""
        if name not in self._running and not self._stopped:
            self._running[name] = self._loop.call_later(seconds, self._over, name)

    def arm_by(self, name: str, moment: float) -> None:
        """Let a timer ring at a moment, or earlier where it is to ring earlier."""
        timer = self._running.get(name)
        if timer is not None and timer.when() > moment:
            timer.cancel()
            del self._running[name]
        self.arm(name, moment - self._loop.time())

    def stop(self) -> None:
        """Stop all of them for good."""
        self._stopped = True
        for timer in self._running.values():
            timer.cancel()
        self._running.clear()

    def _over(self, name: str) -> None:
        del self._running[name]
        try:
            self._ring(name, self._loop.time())
        except Exception as error:  # noqa: BLE001 - the last resort: else nobody hears of it
            self._failed(error)
