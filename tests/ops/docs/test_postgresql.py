"""The page for whoever runs PostgreSQL: every statement that it shows is run by the role that it is meant for."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, LiteralString, cast

import psycopg
import pytest
from psycopg.pq import PGconn

from engine.journal.nodes.database import open_writer
from engine.ops.cli.examine.check import Check, CheckStatus
from engine.ops.cli.examine.shared_journal import shared_journal
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


def found(address: str) -> dict[str, Check]:
    """Return what the doctor finds, by what it looked at."""
    return {one.what: one for one in shared_journal(address)}


def as_engine(address: str) -> str:
    """Return how the engine's role connects."""
    return address.replace("//postgres@", "//engine@")


def test_the_doctor_sees_asynchronous_standbys_by_the_documented_role(server: str) -> None:
    """It may not see their state, and commits wait for none: each could lose what was acknowledged."""
    eventually(lambda: found(as_engine(server))["standbys"].standing is CheckStatus.GOOD)
    replica = f"{server.replace('/adt?', '/postgres?')}&replication=true"
    standby = PGconn.connect(replica.encode())
    try:
        seen = found(as_engine(server))["standbys"]
        assert (seen.standing, seen.found) == (CheckStatus.LOOK, "1 that no commit waits for")
    finally:
        standby.finish()


def test_the_doctor_never_says_ok_of_standbys_that_it_may_not_see(server: str) -> None:
    """Commits wait for one of several: which, the role cannot see, and is told how it could."""
    replica = f"{server.replace('/adt?', '/postgres?')}&replication=true"
    local = f"{server}&options=-c%20synchronous_commit%3Dlocal"  # or a commit would wait for nobody, for ever
    standby = PGconn.connect(replica.encode())
    try:
        run(server, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (nobody)';\nSELECT pg_reload_conf()")
        eventually(lambda: found(as_engine(server))["standbys"].found.startswith("1 of 1 that this role may not see"))
        assert found(as_engine(server))["standbys"].standing is CheckStatus.LOOK
        run(local, "GRANT pg_read_all_stats TO engine")
        assert found(as_engine(server))["standbys"].found == "1 that no commit waits for"
    finally:
        standby.finish()
        run(local, "REVOKE pg_read_all_stats FROM engine")
        run(server, "ALTER SYSTEM RESET synchronous_standby_names;\nSELECT pg_reload_conf()")


def eventually(look: Callable[[], bool]) -> None:
    """Wait until the server has taken a setting up, or has seen that a connection ended."""
    for _ in range(1000):
        if look():
            return
    raise AssertionError


@pytest.mark.parametrize(
    ("spoil", "mend", "what"),
    [
        pytest.param(
            "REVOKE INSERT ON engine.payload FROM engine", "GRANT INSERT ON engine.payload TO engine",
            "the role may not read and write payload", id="a table",
        ),
        pytest.param(
            "REVOKE ALL ON engine.step FROM engine", "GRANT ALL ON engine.step TO engine",
            "the role may not read and write step", id="the table of steps",
        ),
        pytest.param(
            "REVOKE ALL ON SCHEMA engine FROM engine", "GRANT ALL ON SCHEMA engine TO engine",
            "the role may use no schema of its search_path", id="the schema",
        ),
        pytest.param(
            "ALTER TABLE engine.payload OWNER TO postgres;\nGRANT ALL ON engine.payload TO engine",
            "ALTER TABLE engine.payload OWNER TO engine",
            "the role does not own payload: it can run, and not upgrade the tables", id="an owner",
        ),
    ],
)  # fmt: skip
def test_the_doctor_names_a_right_that_is_missing(server: str, spoil: str, mend: str, what: str) -> None:
    """Each by its name, and never that all is well, or that there is nothing yet."""
    assert found(as_engine(server))["rights"].standing is CheckStatus.GOOD
    try:
        run(server, spoil)
        seen = found(as_engine(server))
        assert seen["rights"].found == what
        assert seen["rights"].standing is not CheckStatus.GOOD
    finally:
        run(server, mend)
    assert found(as_engine(server))["rights"].standing is CheckStatus.GOOD
