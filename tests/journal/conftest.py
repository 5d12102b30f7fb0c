"""A real journal in a folder of the test's own."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.journal.desk import Desk, Opener, open_desk


@pytest.fixture
def opened(tmp_path: Path) -> Opener:
    """Give a way to open the test's journal, again and again."""

    def opening(folder: Path = tmp_path, **given: Any) -> contextlib.AbstractAsyncContextManager[Desk]:
        return open_desk(folder, **given)

    return opening


@pytest.fixture
async def desk(opened: Opener) -> AsyncIterator[Desk]:
    """Give an open journal."""
    async with opened() as found:
        yield found
