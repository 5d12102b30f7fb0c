"""The way in over a real journal, with a clock that the test moves and hashes that take no time."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from engine.journal.journal import Journal
from engine.security import passwords
from tests.ops.access.gate import Gate


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make hashes cheap: what they cost is one test's business."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "HASHER", cheap)
    monkeypatch.setattr(passwords, "NOBODY", cheap.hash(b"nobody"))


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    """Give the way in over a new journal."""
    opened = Gate(tmp_path)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def journal(gate: Gate) -> Journal:
    """Give the journal behind the way in."""
    return gate.journal
