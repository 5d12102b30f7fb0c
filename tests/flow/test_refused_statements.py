"""Statements that PostgreSQL refuses while the engine runs: each is told of, and mended without a restart."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.flow.feed import Author, FeedMessage
from tests.flow.rig import Rig, running
from tests.flow.sender import code_of

pytestmark = pytest.mark.parametrize("journal", ["postgresql"], indirect=True)
GONE: Final = "42P01 UndefinedTable"


async def answered(rig: Rig, message: FeedMessage) -> str:
    """Send one message and return MSA-1 of what comes back."""
    host, port = await rig.address()
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(b"\x0b" + message.raw + b"\x1c\r")
        return code_of(await reader.readuntil(b"\x1c\r"), message.control_id)
    finally:
        writer.close()
        await writer.wait_closed()


def said(rig: Rig, event: str) -> Callable[[], bool]:
    """Return whether the engine has said something of what the database calls a table that is not there."""

    def has() -> bool:
        lines: list[dict[str, Any]] = rig.engine.lines
        return any(line["event"] == event and line.get("code") == GONE for line in lines)

    return has


def has_alert(rig: Rig) -> bool:
    """Say whether the alert has opened."""
    return any(line["event"] == "alert" and line.get("code") == "journal-refuses" for line in rig.engine.lines)


async def test_what_cannot_be_stored_claimed_or_settled_is_told_of_and_goes_on_once_mended(
    tmp_path: Path, journal: str
) -> None:
    """The sender gets AR and may send again; a delivery that cannot be noted is held; the engine never ends."""
    author = Author(7)
    messages = [author.event("A28", number, author.person()) for number in range(3)]
    async with running(tmp_path) as rig:
        await rig.engine.start()
        rig.ask_database("ALTER TABLE payload RENAME TO gone")
        assert await answered(rig, messages[0]) == "AR"
        assert said(rig, "not stored")()
        rig.ask_database("ALTER TABLE gone RENAME TO payload")
        assert await answered(rig, messages[0]) == "AA"
        await rig.drained()
        await rig.engine.wait_for(lambda: has_alert(rig), 30)
        rig.ask_database("ALTER TABLE answer RENAME TO gone")
        assert await answered(rig, messages[1]) == "AA"
        await rig.engine.wait_for(said(rig, "not settled"), 30)
        rig.ask_database("ALTER TABLE gone RENAME TO answer")
        rows = await rig.until(lambda rows: rows[-1].state == "held")
        assert [(row.state, row.reason) for row in rows] == [("delivered", "created"), ("held", "engine-error")]
        assert await answered(rig, messages[2]) == "AA"
        await rig.drained()
        assert "error" not in await rig.ask("messages.release", entry=2)
        rows = await rig.until(lambda rows: [row.state for row in rows] == ["delivered"] * 3)
        assert len(await rig.patients()) == 3
        assert await rig.engine.stop() == 0
