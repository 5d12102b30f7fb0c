"""A service and an engine at work, and the messages that they are sent."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from engine.ops.sender.line import send_messages
from tests.flow.rig import Rig, running

ADD: Final = (
    b"MSH|^~\\&|REG|RVB|X|Y|20250701101500||ADT^A28^ADT_A05|%(id)s|P|2.5.1\rEVN||20250701101500\r"
    b"PID|1||%(number)s^^^RVB^MR||Quintero^Marisol||%(born)s|F\r"
)


def message(control_id: bytes, number: bytes, born: bytes = b"19840229") -> bytes:
    """Return an A28 of one person."""
    return ADD % {b"id": control_id, b"number": number, b"born": born}


@contextlib.asynccontextmanager
async def at_work(folder: Path, *more: bytes, ended: tuple[str, ...] = (), **channel: Any) -> AsyncIterator[Rig]:
    """Run both with one entry delivered, one held for want of a birth date, and `more` messages, which `ended` so."""
    async with running(folder, **channel) as opened:
        await opened.engine.start()
        await opened.engine.line("started")
        feed = [message(b"C1", b"RB-1"), message(b"C2", b"RB-2", born=b""), *more]
        await send_messages(*await opened.address(), feed)
        await opened.until(lambda rows: [row.state for row in rows] == ["delivered", "held", *ended])
        yield opened
