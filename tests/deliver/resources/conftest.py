"""Fixtures of resources beside the Patient."""

from collections.abc import AsyncIterator

import pytest

from tests.deliver.fake_chart import FakeChart


@pytest.fixture
async def chart() -> AsyncIterator[FakeChart]:
    """A scripted server with charts on a free port."""
    fake = await FakeChart().start()
    yield fake
    await fake.stop()
