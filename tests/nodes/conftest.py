"""Fixtures of several nodes: a PostgreSQL server, a database of the test's own, and the seed."""

from collections.abc import Iterator

import pytest

from tests.flow.conftest import seed
from tests.postgresql import Postgres, a_postgres, new_database

__all__ = ["seed"]


@pytest.fixture(scope="session")
def one_server() -> Iterator[Postgres]:
    """A PostgreSQL server for all tests."""
    with a_postgres() as server:
        server.start()
        yield server


@pytest.fixture
def server(one_server: Postgres) -> Iterator[Postgres]:
    """Give the server, which runs again after a test that stopped it."""
    yield one_server
    one_server.start()


@pytest.fixture
def journal(server: Postgres) -> Iterator[str]:
    """An empty database for a journal; it is given back once the server runs."""
    with new_database(server.address) as address:
        try:
            yield address
        finally:
            server.start()
