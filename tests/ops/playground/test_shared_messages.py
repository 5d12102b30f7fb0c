"""De-identified copies in the data folder: numbered, few, for a month, for the engine's own user."""

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.ops.playground.shared_messages import (
    FOLDER,
    KEPT,
    MOST_SHARED,
    SharedMessage,
    delete,
    share,
    shared_messages,
)

NOW = datetime(2025, 7, 1, 12, tzinfo=UTC)


def kept(data: Path, now: datetime = NOW) -> SharedMessage:
    """Share a copy."""
    return share(data, now, "olga", "adt", "A01", "MSH|")


def test_a_copy_is_kept_listed_and_deleted(tmp_path: Path) -> None:
    """The newest first; nobody else on the machine reads it."""
    assert shared_messages(tmp_path, NOW) == []
    first, second = kept(tmp_path), kept(tmp_path)
    assert (first.number, second.number) == (1, 2)
    assert shared_messages(tmp_path, NOW) == [second, first]
    files = list((tmp_path / FOLDER).iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    delete(tmp_path, 1)
    assert shared_messages(tmp_path, NOW) == [second]
    with pytest.raises(UsageError, match="no shared message"):
        delete(tmp_path, 1)


def test_a_copy_is_gone_after_a_month(tmp_path: Path) -> None:
    """To the minute, from the disk, too."""
    one = kept(tmp_path)
    assert shared_messages(tmp_path, NOW + KEPT - timedelta(minutes=1)) == [one]
    assert shared_messages(tmp_path, NOW + KEPT) == []
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_there_are_few(tmp_path: Path) -> None:
    """The next one is refused; those that have expired do not count."""
    for _ in range(MOST_SHARED):
        kept(tmp_path)
    with pytest.raises(UsageError, match="50 messages are shared already"):
        kept(tmp_path)
    assert kept(tmp_path, NOW + KEPT).number == 1


def test_two_who_share_at_once_have_a_number_each(tmp_path: Path) -> None:
    """No copy takes the place of another."""
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: kept(tmp_path).number, range(24)))
    assert sorted(made) == list(range(1, 25))
