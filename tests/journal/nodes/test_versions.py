"""The oldest PostgreSQL that is promised understands every statement that the newest does."""

import contextlib
import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Final

import psycopg
import pytest

from engine import journal
from engine.database.dialect import POSTGRESQL
from engine.database.postgresql import PostgresqlConnection, connect
from engine.journal.nodes.schema import migrate
from engine.journal.read import filtering
from engine.journal.read.searching import AMONG
from engine.journal.read.streams import Stream
from tests.postgresql import oldest, running_postgres

STATEMENT: Final = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b")
# Tables of a SQLite file and of its index of words, and that of a copy under way.
OF_FILES: Final = re.compile(
    r'relation "(sqlite_\w+|copying|indexed|words\w*|person|names|pragma_\w+)" does not exist|near "MATCH"'
)
# What is only the beginning of a statement.
PARTS: Final = {
    "engine.journal.read.searching.COLUMNS",
    "engine.journal.read.selecting.SELECT",
    "engine.journal.read.patients._MINE",
}
COUNT: Final = "SELECT COUNT(*) FROM ({} LIMIT ?) AS counted"


def statements() -> dict[str, str]:
    """Return every statement of the journal's modules by its place, and what is put together from parts."""
    found = {}
    for module in pkgutil.walk_packages(journal.__path__, f"{journal.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            text = value.sql if isinstance(value, Stream) else value
            if name.isupper() and isinstance(text, str) and STATEMENT.match(text) and "{" not in text:
                found[f"{module.name}.{name}"] = text
    for name in ("HAS_REASON", "HAS_OUTCOME", "IS_NAMED"):
        found[f"condition {name}"] = f"{AMONG} WHERE {getattr(filtering, name)}"
    for name in ("ALL", "FEED", "VISIT", "CONTROL", "STATE", "STATE_AT_DOOR", "REASON", "REASON_AT_DOOR", "NOTED"):
        stream = getattr(filtering, name)
        found[f"count {name}"] = COUNT.format(stream.sql if isinstance(stream, Stream) else stream)
    return found


@contextlib.contextmanager
def tables(address: str) -> Iterator[PostgresqlConnection]:
    """Connect to a server with the journal's tables."""
    with contextlib.closing(connect(address)) as connection:
        migrate(connection)
        yield connection


def refused(connection: PostgresqlConnection, texts: dict[str, str]) -> dict[str, str]:
    """Return those of some texts that a server does not understand, and why."""
    found = {}
    for place, text in texts.items():
        try:
            result = connection.inner.pgconn.prepare(b"one", POSTGRESQL.render(text).encode())
            if message := result.error_message:
                found[place] = message.decode()
            else:
                connection.raw("DEALLOCATE one")
        except psycopg.Error as error:
            found[place] = str(error)
    return found


def test_the_oldest_understands_what_the_newest_does(postgres: str) -> None:
    """Whatever the engine can send: a subselect without an alias was a syntax error before 16."""
    texts = statements()
    assert len(texts) > 150
    with tables(postgres) as newest:
        strange = refused(newest, texts)
    assert [place for place, why in strange.items() if not OF_FILES.search(why) and place not in PARTS] == []
    with running_postgres(oldest()) as address, tables(address) as connection:
        assert refused(connection, {place: text for place, text in texts.items() if place not in strange}) == {}


def test_the_test_finds_what_16_made_right(postgres: str) -> None:
    """The servers do differ: this test would find the fault that was."""
    texts = {"one": "SELECT COUNT(*) FROM (SELECT 1 FROM lane_of LIMIT ?)"}
    with tables(postgres) as newest:
        assert refused(newest, texts) == {}
    with running_postgres(oldest()) as address, tables(address) as connection:
        assert "alias" in refused(connection, texts)["one"]


@pytest.mark.parametrize("address", ["postgresql"], indirect=True)
def test_the_oldest_is_the_oldest_that_is_promised(address: str) -> None:
    """What the tests call the oldest is one that the engine starts on, and older than the newest."""
    with contextlib.closing(connect(address)) as connection, running_postgres(oldest()) as other:
        with contextlib.closing(connect(other)) as old:
            assert 14 <= old.inner.info.server_version // 10_000 < 16
        assert connection.inner.info.server_version // 10_000 >= 14
