"""Fixtures of the whole engine: a rig, and what the command line says of seeds and long runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.flow.rig import Rig, running


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A service and a proxy that run; the test starts the engine."""
    async with running(tmp_path) as opened:
        yield opened


@pytest.fixture
def seed(pytestconfig: pytest.Config) -> int:
    """The seed of feeds and random choices."""
    return int(pytestconfig.getoption("--seed"))
