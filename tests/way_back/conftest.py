"""Fixtures of the way back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flow.conftest import seed
from tests.way_back.rig import WayBackRig, way_back_rig

__all__ = ["seed"]


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[WayBackRig]:
    """A service whose changes an old system learns; the test starts the engine."""
    async with way_back_rig(tmp_path) as rig:
        yield rig
