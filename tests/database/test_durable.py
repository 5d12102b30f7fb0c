"""Names of files and folders that a power cut must not take away."""

import errno
import os
import stat
from pathlib import Path

import pytest

from engine.database.durable import make_folder
from engine.errors import StartError
from tests.interchange.lives import opened

Synced = list[str]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    """The folders that are synced, by their names."""
    names: Synced = []
    real = os.fsync

    def note(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return names


def test_the_name_of_each_new_folder_is_synced(tmp_path: Path, synced: Synced) -> None:
    """A folder is durable once the one above it is synced (fsync(2)); those that were there are left alone."""
    make_folder(tmp_path / "a" / "b")
    assert synced == ["a", tmp_path.name]
    make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def test_a_service_whose_names_may_vanish_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite makes nothing of a sync of its folder that fails; the service says so before it answers anybody."""
    opened(tmp_path).close()

    def broken(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StartError, match="Input/output error"):
        opened(tmp_path)
