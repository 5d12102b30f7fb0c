"""Fixtures of the whole engine: a rig, where its journal is, and what the command line says of seeds and long runs."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.flow.rig import Rig, running
from tests.postgresql import new_database


@pytest.fixture(autouse=True)
def journal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the address of the database for the journal of every rig; none for SQLite's file, as is usual.

    Files whose tests hold on both ask for it by `parametrize("journal", ["sqlite", "postgresql"], indirect=True)`;
    with `--postgresql` all do that do not ask for one.
    """
    usual = "postgresql" if request.config.getoption("--postgresql") else "sqlite"
    if getattr(request, "param", usual) == "sqlite":
        yield ""
        return
    with new_database(request.getfixturevalue("postgres")) as address:
        monkeypatch.setattr(Rig, "journal", address)
        yield address


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A service and a proxy that run; the test starts the engine."""
    async with running(tmp_path) as opened:
        yield opened


@pytest.fixture
def seed(pytestconfig: pytest.Config) -> int:
    """The seed of feeds and random choices."""
    return int(pytestconfig.getoption("--seed"))
