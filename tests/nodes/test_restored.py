"""A database that was restored: the journal has gone back behind what was acknowledged, and says so."""

import asyncio
import contextlib
from pathlib import Path

from engine.database.postgresql import connect
from engine.ops.sender.line import send_messages
from tests.flow.feed import make_feed
from tests.nodes.rig import nodes
from tests.postgresql import Postgres


def copied(server: str, journal: str) -> str:
    """Copy a database as of now; return the copy's name."""
    name = name_of(journal)
    with contextlib.closing(connect(server)) as connection:
        connection.execute(f"CREATE DATABASE {name}_backup TEMPLATE {name}")
    return f"{name}_backup"


def put_back(server: str, journal: str, backup: str) -> None:
    """Put a copy in the place of a database."""
    name = name_of(journal)
    with contextlib.closing(connect(server)) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        connection.execute(f"ALTER DATABASE {backup} RENAME TO {name}")


def name_of(address: str) -> str:
    """Return the name of an address's database."""
    return address.partition("?")[0].rpartition("/")[2]


async def test_a_journal_that_went_back_pauses_every_destination(
    tmp_path: Path, server: Postgres, journal: str, seed: int
) -> None:
    """Nothing is delivered before somebody has looked; then it goes on."""
    feed = [message.raw for message in make_feed(seed, 12, 0)]
    async with nodes(tmp_path, journal, 1) as rig:
        await rig.start()
        await send_messages("127.0.0.1", await rig.nodes[0].up(), feed[:4])
        await rig.drained()
        await rig.nodes[0].stop()
        backup, before = copied(server.address, journal), len(rig.rows())
        await rig.start()
        await send_messages("127.0.0.1", await rig.nodes[0].up(), feed[4:8])
        await rig.drained()
        await rig.nodes[0].stop()
        put_back(server.address, journal, backup)
        await rig.start()
        await rig.nodes[0].line("journal went back")
        await rig.nodes[0].line("started")
        (shown,) = (await rig.ask_node(0, "destinations.list"))["done"]
        assert shown["state"] == "paused"
        await send_messages("127.0.0.1", await rig.nodes[0].up(), feed[8:])
        await asyncio.sleep(1)
        states = [row.state for row in rig.rows()]
        assert len(states) > before
        assert set(states[before:]) <= {"received", "waiting"}
        await rig.ask_node(0, "destinations.resume", destination="interchange")
        await rig.drained()
        assert await rig.nodes[0].stop() == 0
        await rig.start()
        await rig.nodes[0].line("started")
        (shown,) = (await rig.ask_node(0, "destinations.list"))["done"]
        assert shown["state"] != "paused"
