"""The database of a shared journal: whether it is reached, keeps what it commits, lets the engine in, and its nodes."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final, NamedTuple

from engine.database.connection import refusal_of
from engine.database.postgresql import PostgresqlConnection, PostgresqlError, shown
from engine.errors import JournalUnusableError
from engine.journal.nodes.database import open_checked
from engine.journal.nodes.lease import nodes
from engine.journal.nodes.schema import steps_made
from engine.ops.cli.examine.check import Check, CheckStatus, check

# Standbys: all, those that no commit waits for, those whose state the role may not see; whether commits wait at all.
STANDBYS: Final = """
SELECT COUNT(*), COUNT(*) FILTER (WHERE sync_state = 'async'), COUNT(*) FILTER (WHERE sync_state IS NULL),
  current_setting('synchronous_standby_names') <> ''
FROM pg_stat_replication
"""
# The schema where tables are looked for and made, and whether the role may make them there.
SCHEMA: Final = "SELECT current_schema(), has_schema_privilege(current_schema(), 'CREATE')"
# The tables of that schema which the role may not use in each way that the engine does, or does not own.
TABLES: Final = """
SELECT tablename, has_table_privilege(name, 'SELECT') AND has_table_privilege(name, 'INSERT')
  AND has_table_privilege(name, 'UPDATE') AND has_table_privilege(name, 'DELETE'), pg_has_role(tableowner, 'USAGE')
FROM (SELECT tablename, tableowner, quote_ident(schemaname) || '.' || quote_ident(tablename) AS name FROM pg_tables
  WHERE schemaname = current_schema()) AS mine
ORDER BY tablename
"""
ROLES: Final = "give the role of the engine the rights of `adt-engine help postgresql` (Roles and rights)"


class _Rights(NamedTuple):
    """A schema, and the tables there that the role may not write, and that it does not own."""

    schema: str
    may_create: bool
    closed: tuple[str, ...]
    others: tuple[str, ...]


def shared_journal(address: str) -> Iterator[Check]:
    """Yield how the database of a journal and its nodes are; what could not be looked at is never good."""
    try:
        with closing(open_checked(address)) as connection:
            version = connection.inner.info.server_version // 10_000
            standbys = _standbys(connection)
            rights = _rights(connection)
            is_made = bool(steps_made(connection)) if not rights.closed else True
    except JournalUnusableError as error:
        yield Check("journal", CheckStatus.FIX, str(error).partition("\n")[0], "bring the database up, then try again")
        return
    except PostgresqlError as error:
        yield Check("journal", CheckStatus.FIX, f"{shown(address)} cannot be looked at ({refusal_of(error)})", ROLES)
        return
    yield Check("journal", CheckStatus.GOOD, f"{shown(address)}, PostgreSQL {version}")
    yield standbys
    yield _allowed(rights, is_made=is_made)
    if is_made:
        yield _files(address)
    else:
        yield Check("nodes", CheckStatus.GOOD, "none yet: the first engine makes the tables")


def _standbys(connection: PostgresqlConnection) -> Check:
    ((count, behind, unseen, waits),) = connection.execute(STANDBYS).fetchall()
    if unseen and waits:
        return Check(
            "standbys", CheckStatus.LOOK,
            f"{unseen} of {count} that this role may not see: commits wait for some of them",
            "let a superuser see whether each is synchronous, or GRANT pg_read_all_stats to the engine's role",
        )  # fmt: skip
    # Where commits wait for none, every standby is asynchronous, whether it is seen or not.
    behind += unseen
    return check(
        "standbys",
        f"{behind} that no commit waits for" if behind else "every commit waits for all there are",
        good=not behind,
        do="make it synchronous: an acknowledged message could die with the primary",
        otherwise=CheckStatus.LOOK,
    )


def _rights(connection: PostgresqlConnection) -> _Rights:
    ((schema, may_create),) = connection.execute(SCHEMA).fetchall()
    rows = connection.execute(TABLES).fetchall()
    closed = tuple(name for name, is_open, _ in rows if not is_open)
    return _Rights(schema or "", bool(may_create), closed, tuple(name for name, _, is_mine in rows if not is_mine))


def _allowed(rights: _Rights, *, is_made: bool) -> Check:
    if not rights.schema:
        return Check("rights", CheckStatus.FIX, "the role may use no schema of its search_path", ROLES)
    if rights.closed:
        return Check("rights", CheckStatus.FIX, f"the role may not read and write {_listed(rights.closed)}", ROLES)
    if not rights.may_create and not is_made:
        return Check("rights", CheckStatus.FIX, f"the role may make no tables in the schema {rights.schema}", ROLES)
    if rights.others or not rights.may_create:
        what = _listed(rights.others) if rights.others else f"the schema {rights.schema}"
        found = f"the role does not own {what}: it can run, and not upgrade the tables"
        return Check("rights", CheckStatus.LOOK, found, ROLES)
    return Check("rights", CheckStatus.GOOD, "the role may read, write and upgrade the tables")


def _listed(names: tuple[str, ...]) -> str:
    rest = len(names) - 3
    return ", ".join(names[:3]) + (f" and {rest} more" if rest > 0 else "")


def _files(address: str) -> Check:
    try:
        living = [node for node in nodes(address) if node.state == "live"]
    except JournalUnusableError as error:
        return Check("nodes", CheckStatus.FIX, str(error).partition("\n")[0], "mend that, then try again")
    same = len({one.configuration for one in living}) <= 1
    found = f"{len(living)} live, {'the same files' if same else 'different files'}"
    return check(
        "nodes", found, good=same, do="give all nodes the same channels and mappings", otherwise=CheckStatus.LOOK
    )
