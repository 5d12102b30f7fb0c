"""A real journal in a folder of the test's own: in SQLite's file, and as a node of PostgreSQL."""

import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.journal.opening import keep_address
from engine.journal.write.backend import SharedJournal
from tests.journal.desk import Desk, Opener, open_desk
from tests.postgresql import address_of


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the address of an empty database; none for SQLite's file.

    What is said of the file alone asks for it by `parametrize("address", ["sqlite"], indirect=True)`.
    """
    yield from address_of(request)


@pytest.fixture
def opened(tmp_path: Path, address: str) -> Opener:
    """Give a way to open the test's journal, again and again."""

    def opening(folder: Path = tmp_path, **given: Any) -> contextlib.AbstractAsyncContextManager[Desk]:
        if address:
            given["shared"] = node(address, folder)
        return open_desk(folder, **given)

    return opening


@pytest.fixture
async def desk(opened: Opener) -> AsyncIterator[Desk]:
    """Give an open journal."""
    async with opened() as found:
        yield found


def node(address: str, folder: Path) -> SharedJournal:
    """Return the node of a folder, which keeps where its journal is."""
    keep_address(folder, address)
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    return SharedJournal(address, name, name, "test", "none", lambda _name, _count: None, lambda: None)
