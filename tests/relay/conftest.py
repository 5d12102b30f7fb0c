"""Fixtures of the relay tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flow.conftest import seed
from tests.relay.rig import RelayRig, relaying

__all__ = ["seed"]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RelayRig]:
    """An engine that relays; the test describes its receivers and starts it."""
    async with relaying(tmp_path) as rig:
        yield rig
