"""What the disk changed is never delivered."""

import contextlib
from pathlib import Path

import pytest

from engine.journal.file.database import FILE, sqlite3
from engine.ops.sender.line import send_messages
from tests.flow.rig import running
from tests.ops.at_work import message

# What is said of a file.
pytestmark = pytest.mark.parametrize("journal", ["sqlite"], indirect=True)


async def test_a_body_that_was_changed_on_the_disk_holds_its_patient_only(tmp_path: Path) -> None:
    """The digest it came with no longer fits: it is held by name, and the next patient is delivered."""
    async with running(tmp_path) as rig:
        await rig.engine.start()
        await rig.engine.line("started")
        assert "error" not in await rig.ask("destinations.pause", destination="interchange")
        host, port = await rig.address()
        await send_messages(host, port, [message(b"C1", b"RB-1"), message(b"C2", b"RB-2")])
        assert await rig.engine.stop() == 0
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / FILE)) as connection:
            connection.execute(
                "UPDATE payload SET raw = CAST(replace(raw, 'Quintero', 'Quintera') AS BLOB) WHERE seq = 1"
            )
            connection.commit()
        await rig.engine.start()
        await rig.engine.line("started")
        assert "error" not in await rig.ask("destinations.resume", destination="interchange")
        await rig.until(lambda rows: [(row.state, row.reason) for row in rows][:1] == [("held", "body-damaged")])
        await rig.until(lambda rows: rows[1].state == "delivered")
        assert await rig.numbered("RB-1") == []
