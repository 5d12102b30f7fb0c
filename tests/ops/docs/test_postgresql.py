"""The page for whoever runs PostgreSQL: every statement that it shows is run by the role that it is meant for."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, LiteralString, cast

import psycopg
import pytest

from engine.journal.nodes.database import open_writer
from tests.postgresql import running_postgres

HELP: Final = Path(__file__).resolve().parents[3] / "engine/ops/docs"
PAGE: Final = (HELP / "postgresql.md").read_text("utf-8")
BLOCK: Final = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
HAPROXY: Final = re.compile(r"For HAProxy:\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Tables of the journal that the page's statements name.


def blocks(heading: str) -> list[str]:
    """Return the blocks of SQL under a heading of the page."""
    return BLOCK.findall(PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0])


def run(address: str, block: str) -> None:
    """Run the statements of a block, each by itself, as `psql` does."""
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in block.split(";\n"):
            if statement.strip():
                connection.execute(cast("LiteralString", statement))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Run a PostgreSQL with the roles, database and rights of the page, and tables that the engine's role made."""
    with running_postgres() as address:
        anywhere, inside, watching = blocks("Roles and rights")
        run(address, anywhere)
        adt = address.replace("/postgres?", "/adt?")
        run(adt, inside)
        run(adt, watching)
        for heading in ("Settings", "What the server logs"):
            for block in blocks(heading):
                run(adt, block)
        open_writer(adt.replace("//postgres@", "//engine@"), "test").close()
        yield adt


def test_what_the_owner_is_told_to_run_works(server: str) -> None:
    """Settings of tables, sizes and indexes, by the engine's own role."""
    told = [block for heading in ("Sizes", "Vacuum", "Indexes") for block in blocks(heading)]
    assert len(told) == 5
    for block in told:
        run(server.replace("//postgres@", "//engine@"), block)


def test_what_watchers_are_told_to_run_works(server: str) -> None:
    """Each query of what to watch runs by a role that sees no row of the journal."""
    watcher = server.replace("//postgres@", "//watcher@")
    told = [block for heading in ("Connections", "Watch") for block in blocks(heading)]
    assert len(told) == 7
    for block in told:
        run(watcher, block)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run(watcher, "SELECT * FROM engine.entry")


def test_every_block_of_the_page_was_run() -> None:
    """No heading is forgotten here."""
    headings = (
        *("Roles and rights", "Settings", "What the server logs", "Connections", "Sizes", "Vacuum", "Indexes"),
        "Watch",
    )
    assert sum(len(blocks(heading)) for heading in headings) == len(BLOCK.findall(PAGE))


def test_the_engine_role_may_do_no_more_than_it_needs(server: str) -> None:
    """It makes tables in its schema and nowhere else, and is no superuser; its settings hold for its sessions."""
    with psycopg.connect(server.replace("//postgres@", "//engine@"), autocommit=True) as connection:
        found = connection.execute("SELECT rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = 'engine'")
        assert found.fetchone() == (False, False, False)
        (schema,) = connection.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'queue'").fetchone() or ("",)
        assert schema == "engine"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE public.elsewhere (seq BIGINT)")
        assert connection.execute("SHOW log_error_verbosity").fetchone() == ("terse",)
        assert connection.execute("SHOW log_parameter_max_length").fetchone() == ("0",)


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="HAProxy is not on this machine")
def test_haproxy_takes_the_configuration_of_the_page_on_nodes(tmp_path: Path) -> None:
    """What operators copy is valid."""
    (configuration,) = HAPROXY.findall((HELP / "nodes.md").read_text("utf-8"))
    file = tmp_path / "haproxy.cfg"
    file.write_text(configuration)
    done = subprocess.run(["haproxy", "-c", "-f", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
