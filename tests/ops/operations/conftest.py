"""Operations over a real journal; what they would do is replaced where only the way to them is tested."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ops.operations.stage import Stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Give a journal with a trail, and a way to do operations."""
    opened = await Stage.open(tmp_path)
    yield opened
    await opened.journal.close()
