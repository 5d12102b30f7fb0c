"""A scripted engine, and the token with which it is asked."""

from collections.abc import AsyncIterator

import pytest

from tests.ops.sites.scripted import TOKEN, VARIABLE, Scripted, scripted


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    """The token, in the environment."""
    monkeypatch.setenv(VARIABLE, TOKEN)
    return TOKEN


@pytest.fixture
async def north() -> AsyncIterator[Scripted]:
    """An engine whose destination does not answer."""
    async with scripted() as found:
        yield found
