"""A real journal in a folder of the test's own."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.journal.journal import Journal
from tests.journal.desk import NOW, Desk, Opener


@pytest.fixture
def opened(tmp_path: Path) -> Opener:
    """Give a way to open the test's journal, again and again."""

    @contextlib.asynccontextmanager
    async def open_desk(folder: Path = tmp_path, **given: Any) -> AsyncIterator[Desk]:
        failures: list[BaseException] = []
        journal = await Journal.open(folder, clock=lambda: NOW, fail=failures.append, **given)
        try:
            yield Desk(journal, folder, failures)
        finally:
            await journal.close()

    return open_desk


@pytest.fixture
async def desk(opened: Opener) -> AsyncIterator[Desk]:
    """Give an open journal."""
    async with opened() as open_desk:
        yield open_desk
