"""SQLite files: libraries, settings, and what an error is one of."""

import contextlib
import errno
import sqlite3 as oracle
from pathlib import Path

import pytest
from sqlite_utils.utils import sqlite3

from engine.database.sqlite import (
    DURABLE,
    failure_of,
    is_busy,
    is_damage,
    is_disk_error,
    is_full,
    library_fault,
    untaken,
)


def test_an_old_library_is_refused_with_what_to_install() -> None:
    """Before 3.51.3 the write-ahead log can corrupt the file."""
    assert library_fault((3, 51, 3)) == library_fault((3, 52, 0)) == ""
    assert library_fault((3, 40, 1)) == (
        "SQLite 3.40.1 can corrupt a database; 3.51.3 or newer is needed: pip install 'pysqlite3>=0.6.1'"
    )


def test_a_setting_that_is_not_taken_is_named(tmp_path: Path) -> None:
    """A file on a disk takes all that durability needs; what has no write-ahead log says so."""
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        assert untaken(connection, DURABLE) == ""
        assert untaken(connection, (("journal_mode", "WAL", "wal"), ("nonsense", 1, 1))) == "nonsense=1"
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        assert untaken(connection, DURABLE) == "journal_mode=WAL"


def _of(name: str) -> sqlite3.Error:
    error = sqlite3.OperationalError("told")
    error.sqlite_errorcode, error.sqlite_errorname = getattr(oracle, name), name
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(_of("SQLITE_FULL"), {"disk", "full"}, id="full"),
        pytest.param(OSError(errno.ENOSPC, "no room"), {"disk", "full"}, id="full, by the system"),
        pytest.param(_of("SQLITE_BUSY"), {"disk", "busy"}, id="busy"),
        pytest.param(_of("SQLITE_BUSY_SNAPSHOT"), {"disk", "busy"}, id="busy, of a finer kind"),
        pytest.param(_of("SQLITE_IOERR_FSYNC"), {"disk"}, id="a sync that failed"),
        pytest.param(OSError(errno.EIO, "broken"), {"disk"}, id="a disk that broke"),
        pytest.param(_of("SQLITE_CORRUPT"), {"disk", "damage"}, id="damage"),
        pytest.param(_of("SQLITE_NOTADB"), {"disk", "damage"}, id="no database"),
        pytest.param(_of("SQLITE_CONSTRAINT_UNIQUE"), set(), id="a statement's values"),
        pytest.param(sqlite3.ProgrammingError("closed"), set(), id="no code"),
        pytest.param(ValueError("other"), set(), id="no error of a database"),
    ],
)
def test_what_an_error_is_one_of(error: Exception, said: set[str]) -> None:
    """Nothing is written after an error of the disk; one of a statement says nothing of the disk."""
    told = {"disk": is_disk_error, "full": is_full, "busy": is_busy, "damage": is_damage}
    assert {name for name, is_it in told.items() if is_it(error)} == said


def test_a_failure_has_a_name_without_values() -> None:
    """SQLite's name or the system's word, never the text of a statement; nothing for an error of ours."""
    assert failure_of(_of("SQLITE_IOERR_FSYNC")) == "SQLITE_IOERR_FSYNC"
    assert failure_of(sqlite3.ProgrammingError("told")) == "ProgrammingError"
    assert failure_of(OSError(errno.EIO, "broken")) == "broken"
    assert failure_of(ValueError("other")) is None
