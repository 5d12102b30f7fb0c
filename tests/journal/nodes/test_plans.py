"""How PostgreSQL carries out what the writer asks: few rows are read, however many there are."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from engine.database.postgresql import connect
from tests.journal.conftest import node
from tests.journal.desk import Desk, open_desk
from tests.postgresql import new_database

MANY: Final = 30_000
# Old rows like those that are there, with numbers of their own; never counted by the server.
OLD: Final = (
    """INSERT INTO entry SELECT (jsonb_populate_record(NULL::entry, one || new)).* FROM (
      SELECT to_jsonb(e) AS one, jsonb_build_object('seq', -i, 'control_id', 'old' || i) AS new
      FROM (SELECT * FROM entry LIMIT 1) AS e, generate_series(1, {many}) AS i) AS made""",
    """INSERT INTO delivery SELECT (jsonb_populate_record(NULL::delivery, one || new)).* FROM (
      SELECT to_jsonb(d) AS one, jsonb_build_object('seq', -i) AS new
      FROM (SELECT * FROM delivery WHERE state = 'delivered' LIMIT 1) AS d, generate_series(1, {many}) AS i) AS made""",
    "INSERT INTO lane_holder SELECT -i, 'd', 1 FROM generate_series(1, {many}) AS i",
    "INSERT INTO applied SELECT 'd', -i, 'ADT|RVB', 1, -i FROM generate_series(1, {many}) AS i",
    "INSERT INTO queue SELECT 'd', -i, -i FROM generate_series(1, {many}) AS i",
)
READ: Final = """
SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)
"""


@pytest.fixture
def address(postgres: str) -> Iterator[str]:
    """Give the address of an empty database, whose rows the server never counts by itself."""
    with new_database(postgres) as made:
        yield made


async def rows_read(desk: Desk, address: str) -> int:
    """Return how many rows and index entries were read of all tables until now."""
    await desk.journal.act(lambda context: context.connection.execute("SELECT pg_stat_force_next_flush()").close())
    await desk.journal.act(lambda _: None)
    with contextlib.closing(connect(address)) as connection:
        return int(connection.execute(READ).fetchall()[0][0])


async def carry(desk: Desk, count: int, name: str) -> None:
    """Carry messages of two patients through the journal, one after the other."""
    for number in range(count):
        seq = await desk.record(f"{name}{number}", (f"s|{number % 2}",), raw=f"MSH {name}{number}".encode())
        assert await desk.claimed() == [seq]
        await desk.deliver(seq)


async def test_a_plan_of_a_small_table_reads_few_rows_of_a_large_one(tmp_path: Path, address: str) -> None:
    """Plans are kept for the life of a connection: what was right for ten rows must do for as many as there are."""
    async with open_desk(tmp_path, shared=node(address, tmp_path)) as desk:
        await carry(desk, 12, "small")
        with contextlib.closing(connect(address)) as connection:
            for table in ("entry", "delivery", "lane_holder", "applied", "queue"):
                connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
            for statement in OLD:
                connection.execute(statement.format(many=MANY))
        await carry(desk, 2, "warm")
        before = await rows_read(desk, address)
        await carry(desk, 5, "large")
        first = await desk.record("first", ("s|1",))
        behind = await desk.record("behind", ("s|1",))
        assert await desk.claimed() == [first]
        await desk.deliver(first)
        assert await desk.claimed() == [behind]
        assert await rows_read(desk, address) - before < MANY / 10
