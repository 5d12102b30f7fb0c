"""Fault points: places where a test may kill, fail or slow the process; no effect unless armed at start.

`ENGINE_FAULT=<point>:<action>[:nth]` arms one point (actions: kill, raise, hang, eio, enospc, slow). An armed
process refuses to listen beyond loopback, so that it cannot run in production.
"""

import errno
import os
import signal
import time
from dataclasses import dataclass
from typing import Final

POINTS: Final = frozenset(f"F{number:02d}" for number in range(1, 27))
ACTIONS: Final = frozenset({"kill", "raise", "hang", "eio", "enospc", "slow"})
SLOW_SECONDS: Final = 0.2
HANG_SECONDS: Final = 3600.0


class InjectedFaultError(Exception):
    """A fault that a test asked for."""


@dataclass(slots=True)
class _Armed:
    point: str
    action: str
    countdown: int


_armed: list[_Armed] = []


def arm(specification: str) -> None:
    """Arm one point from `point:action[:nth]`; ValueError names what is wrong."""
    parts = specification.split(":")
    if len(parts) not in {2, 3} or parts[0] not in POINTS or parts[1] not in ACTIONS:
        raise ValueError(f"ENGINE_FAULT={specification!r}: expected <F01..F26>:<{'|'.join(sorted(ACTIONS))}>[:nth]")
    nth = int(parts[2]) if len(parts) == 3 else 1
    _armed[:] = [_Armed(parts[0], parts[1], nth)]


def armed() -> bool:
    """Say whether a fault is armed in this process."""
    return bool(_armed)


def point(name: str) -> None:
    """Stand at a named point; does nothing unless a test armed it."""
    if _armed and _armed[0].point == name:
        _strike(_armed[0])


def _strike(fault: _Armed) -> None:
    fault.countdown -= 1
    if fault.countdown:
        return
    if fault.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault.action == "raise":
        raise InjectedFaultError(fault.point)
    if fault.action in {"eio", "enospc"}:
        number = errno.EIO if fault.action == "eio" else errno.ENOSPC
        raise OSError(number, os.strerror(number))
    time.sleep(HANG_SECONDS if fault.action == "hang" else SLOW_SECONDS)
