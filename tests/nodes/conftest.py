"""Fixtures of several nodes: a PostgreSQL server, a database of the test's own, and the seed."""

from collections.abc import Iterator

import pytest

from tests.flow.conftest import seed
from tests.postgresql import new_database, running_postgres

__all__ = ["seed"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server."""
    with running_postgres() as address:
        yield address


@pytest.fixture
def journal(postgres: str) -> Iterator[str]:
    """An empty database for a journal."""
    with new_database(postgres) as address:
        yield address
