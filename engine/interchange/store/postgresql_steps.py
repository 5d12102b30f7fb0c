"""The service's tables in PostgreSQL: made and brought up to date by the steps of SQLite's, and a few of its own."""

from contextlib import closing
from typing import Final

from engine.database.postgresql import PostgresqlConnection, PostgresqlError, connect, error_text, is_busy, server_fault
from engine.errors import StartError
from engine.interchange.store.schema import STEPS, settle, statements_of

NAME: Final = "adt-engine interchange"
# Which of the locks of a database an advisory lock is: of the schema that the tables are in.
WRITE_LOCK: Final = "728001, hashtext(current_schema())"
# The same number in the server's list of locks.
HELD: Final = "728001, hashtext(current_schema())::bigint & 4294967295, 2"
INDEX_LOCK: Final = "728002, hashtext(current_schema())"
TERM_LOCK: Final = "728003, hashtext(current_schema())"
LOCK_SECONDS: Final = 10
# Queries are short and many: compiling them costs more than it saves.
SESSION: Final = f"-c jit=off -c lock_timeout={LOCK_SECONDS}s"
# One transaction that writes at a time, of all processes: `postgresql_writer.py` says why. The lock is a statement of
# its own, so that those behind it see all that was committed before it was had.
WRITING: Final = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_advisory_xact_lock({WRITE_LOCK})"

# The indexes of SQLite's tables without row numbers end with the key by themselves.
ENDING_WITH_KEYS: Final = """
DROP INDEX string_by_value;
CREATE INDEX string_by_value ON string_index (tenant, parameter, folded, key);
DROP INDEX token_by_code;
CREATE INDEX token_by_code ON token_index (tenant, parameter, code, system, key);
DROP INDEX token_by_system;
CREATE INDEX token_by_system ON token_index (tenant, parameter, system, key);
DROP INDEX date_by_low;
CREATE INDEX date_by_low ON date_index (tenant, parameter, low, high, key);
DROP INDEX date_by_high;
CREATE INDEX date_by_high ON date_index (tenant, parameter, high, key);
DROP INDEX reference_by_target;
CREATE INDEX reference_by_target ON reference_index (tenant, target, parameter, key);
"""
# The last commit of each process: read where its connection ended during a commit.
COMMITS: Final = "CREATE TABLE process_commit (process TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT, WITHOUT ROWID"
OWN_STEPS: Final = {"postgresql_keys": ENDING_WITH_KEYS, "postgresql_commits": COMMITS}
ALL_STEPS: Final = {**STEPS, **OWN_STEPS}

REMEMBERED: Final = "interchange_step"
REMEMBER: Final = (
    f"CREATE TABLE IF NOT EXISTS {REMEMBERED} (name TEXT PRIMARY KEY, taken_at TEXT NOT NULL DEFAULT now()::text)"
)
TAKEN: Final = f"SELECT name FROM {REMEMBERED}"  # noqa: S608 - a name of this module
TAKE: Final = f"INSERT INTO {REMEMBERED} (name) VALUES (?)"  # noqa: S608 - a name of this module
TABLES: Final = (
    "SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = current_schema()::regnamespace"
    " AND relkind IN ('r', 'p', 'v', 'm', 'f')"
)


def prepare(address: str, shown: str, environment: str) -> None:
    """Make the tables, or bring them up to date; of two processes that start together one waits for the other.

    StartError: the server cannot be reached or is not durable, the tables are another program's or a newer
    program's, or the database belongs to another environment.
    """
    try:
        with closing(connect(address, name=NAME, options=SESSION)) as connection:
            if fault := server_fault(connection):
                raise StartError(f"the database {shown} cannot be used: {fault}")
            connection.execute(WRITING)
            taken = _taken(connection, shown)
            if taken is None:
                connection.execute(REMEMBER)
            for name, script in ALL_STEPS.items():
                if name not in (taken or ()):
                    connection.script(statements_of(script))
                    connection.execute(TAKE, (name,))
            settle(connection, environment, shown)
            connection.execute("COMMIT")
    except PostgresqlError as error:
        raise _unusable(shown, error) from error


def missing(address: str, shown: str) -> set[str]:
    """Return the steps that a database lacks; StartError where this program did not make it."""
    try:
        with closing(connect(address, name=NAME, options=SESSION)) as connection:
            return ALL_STEPS.keys() - (_taken(connection, shown) or set())
    except PostgresqlError as error:
        raise _unusable(shown, error) from error


def _taken(connection: PostgresqlConnection, shown: str) -> set[str] | None:
    """Return the steps that a database has taken, None for an empty one."""
    if connection.execute("SELECT current_schema()").fetchone() == (None,):
        raise StartError(
            f"the database {shown} has no schema for tables: CREATE SCHEMA interchange AUTHORIZATION the role that"
            " the service uses, and ALTER ROLE … SET search_path TO interchange"
        )
    tables = {name for (name,) in connection.execute(TABLES)}
    if REMEMBERED not in tables:
        if tables:
            raise StartError(f"the database {shown} is another program's: name another with --database")
        return None
    taken = [str(name) for (name,) in connection.execute(TAKEN)]
    unknown = [name for name in taken if name not in ALL_STEPS]
    if unknown:
        raise StartError(
            f"the database {shown} was changed by a newer adt-engine (step {unknown[0]}): "
            "install that one, or restore a backup from before"
        )
    return set(taken)


def _unusable(shown: str, error: Exception) -> StartError:
    if is_busy(error):
        return StartError(
            f"another process keeps the database {shown}: wait until it is done, or end it, and try again"
        )
    return StartError(
        f"the database {shown} cannot be used ({error_text(error)}): mend the server, the address, or what its role"
        " may do, or name another with --database"
    )
