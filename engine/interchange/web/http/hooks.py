"""Test hooks of a sandbox: advance the clock, delay a path, fail a path before or after its commit."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from engine.fhir.json import JsonObject


class Clock:
    """The service's clock: the wall clock, advanced by tests."""

    def __init__(self, wall: Callable[[], datetime]) -> None:
        self._wall = wall
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        """Return the current time, aware, in UTC."""
        return self._wall() + self._ahead

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self._ahead += timedelta(seconds=seconds)


class HookError(ValueError):
    """A hook's request is not valid."""


class AskedForError(Exception):
    """A fault that a test injected."""


@dataclass(slots=True)
class InjectedFault:
    """A fault injected into the next `times` requests at a path (and below it), of one method or of any."""

    path: str
    method: str
    times: int
    seconds: float = 0.0
    fails: bool = False
    after_commit: bool = False

    def matches(self, method: str, path: str) -> bool:
        """Return whether the fault applies to a request, and count it."""
        here = path == self.path or path.startswith(self.path.rstrip("/") + "/")
        if self.times <= 0 or not here or self.method not in {"", method}:
            return False
        self.times -= 1
        return True

    async def apply(self) -> None:
        """Delay the request, then fail it if the fault says so."""
        await asyncio.sleep(self.seconds)
        if self.fails and not self.after_commit:
            raise AskedForError

    def apply_after_commit(self) -> None:
        """Raise TimeoutError after the commit, if the fault says so: the client does not learn the result."""
        if self.fails:
            raise TimeoutError


class Hooks:
    """The injected faults: POST /_test/clock, /_test/slow, /_test/fail, and /_test/reset to clear them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._faults: list[InjectedFault] = []

    def ask(self, name: str, body: JsonObject) -> None:
        """Apply a hook's JSON body; HookError if it is not valid."""
        try:
            if name == "clock":
                self._clock.advance(float(body["advance_seconds"]))
            elif name == "slow":
                self._faults.append(_injected_fault(body, seconds=float(body["seconds"])))
            elif name == "fail":
                self._faults.append(
                    _injected_fault(body, fails=True, after_commit=bool(body.get("after_commit", False)))
                )
            elif name == "reset":
                self._faults.clear()
            else:
                raise HookError(f"there is no hook /_test/{name[:20]}")
        except (KeyError, TypeError, AttributeError) as error:
            raise HookError(f"/_test/{name}: a key is missing or of the wrong kind") from error

    def match(self, method: str, path: str) -> InjectedFault | None:
        """Return the fault to apply to a request, None for none."""
        matched = next((fault for fault in self._faults if fault.matches(method, path)), None)
        self._faults = [fault for fault in self._faults if fault.times > 0]
        return matched


def _injected_fault(
    body: JsonObject, *, seconds: float = 0.0, fails: bool = False, after_commit: bool = False
) -> InjectedFault:
    times = int(body.get("times", 1))
    return InjectedFault(str(body["path"]), str(body.get("method", "")).upper(), times, seconds, fails, after_commit)
