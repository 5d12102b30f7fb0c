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

# Where each point stands; numbers that are missing were taken back and are not given again.
POINTS: Final = {
    "F01": "receive: a whole block is read, before anything is done with it",
    "F02": "intake: the message is parsed, before it is judged",
    "F03": "journal: messages are recorded, before the commit",
    "F05": "journal: recorded messages are committed, before the engine hears of it",
    "F06": "receive: half of an acknowledgement is written, before the other half",
    "F07": "receive: an acknowledgement is written, before it is noted as sent",
    "F08": "journal: deliveries are claimed, before the commit",
    "F09": "journal: claims are committed, before dispatch hears of it",
    "F10": "delivery: the message is mapped, before the destination is asked for anything",
    "F11": "journal: an intent is committed, before its request is sent",
    "F12": "delivery: a write is about to be sent",
    "F13": "delivery: a write is sent, before its answer",
    "F14": "delivery: the headers of a write's answer have come, before its body",
    "F15": "journal: settlements are written, before the commit",
    "F17": "journal: settlements are committed, before dispatch hears of it",
    "F18": "delivery: between two steps of a merge, link, move or change of numbers",
    "F19": "operations: the audit row is durable, before the operation; and before each batch of a bulk replay",
    "F23": "retention: a page of old bodies and entries is taken out, before the commit",
    "F24": "backup: between two chunks of the copy",
    "F27": "service: a version is written, before its index rows and the rest of its transaction",
    "F28": "service: the writes that share a commit are done, before it",
    "F29": "service: a commit is on disk, before any of its writes is answered",
    "F30": "service: rows of accesses are added that write nothing, before their commit",
    "F31": "service: those rows are on disk, before the answers leave",
    "F32": "service: a job that is asked for is written, before the commit and the 202",
    "F33": "service: a job is taken up, before its work",
    "F34": "service: a job's result is written with all that goes with it, before the commit that ends it",
    "F35": "service: a batch of a document's facts is on disk, before the next one",
    "F36": "service: a document is imported, before its job notes that",
    "F37": "delivery: a look-up was answered, before its outcome is written",
    "F38": "laboratory: it is written that an order is being sent, before the commit",
    "F39": "laboratory: that is on disk, before a byte of the order leaves",
    "F40": "laboratory: the order has left, before its answer",
    "F41": "laboratory: the answer has come, before it is written",
    "F42": "laboratory: what came of an order is written with its next version, before the commit",
    "F43": "service: an order and its tests are written as pending, before it is in the laboratory's queue",
    "F44": "service: an order is in the laboratory's queue, before the commit",
    "F45": "service: webhooks are answered, before the commit that says so",
    "F46": "service: a webhook is about to be sent",
    "F47": "delivery: a notice of a delivered event is about to be sent",
    "F48": "delivery: a notice was answered, before its outcome is written",
    "F49": "copy: rows are written with how far it came, before the commit",
    "F50": "publishing: a file of a publication is written beside the old one, before it takes its place",
    "F51": "publishing: all files are written, before they are in force",
    "F52": "relay: a message is about to be sent",
    "F53": "relay: a message is sent, before its acknowledgement",
    "F54": "relay: a message is acknowledged, before its settlement",
}
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
        raise ValueError(
            f"ENGINE_FAULT={specification!r}: expected <{'|'.join(POINTS)}>:<{'|'.join(sorted(ACTIONS))}>[:nth]"
        )
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
