"""The journal's tables in PostgreSQL: the same steps as in SQLite's file, and what only nodes need.

Each step runs once, in one transaction, under a lock: nodes that start together make the tables once. Steps of one
minor version only add; a database that knows a step which this program does not is a newer one's, and is refused.
"""

from typing import Final

from engine.database.connection import transaction
from engine.database.postgresql import JSON_EACH, SUBSTR, PostgresqlConnection
from engine.errors import JournalUnusableError
from engine.journal.file.schema import STEPS

# Of the advisory locks that this program takes in a database: the schema's, the writers' and the leader's.
SCHEMA_LOCK: Final = 0x41445401
TURN_LOCK: Final = 0x41445402
LEADER_LOCK: Final = 0x41445403
# A copy of the journal holds it; a node that begins shares it for a moment.
COPY_LOCK: Final = 0x41445404
# A table that is there while a copy into the database is not finished: how far it came.
COPYING: Final = "copying"

# `joins` counts how often lanes were united, `node` is the incarnation that wrote last.
_HEAD: Final = """
CREATE TABLE head (
  id INTEGER PRIMARY KEY CHECK (id = 1), node BIGINT NOT NULL, joins BIGINT NOT NULL, restored BIGINT)
"""
# One row an incarnation: a process from its start to its end. Moments are the database's.
_NODE: Final = """
CREATE TABLE node (
  incarnation INTEGER PRIMARY KEY, name TEXT NOT NULL, home TEXT NOT NULL, host TEXT NOT NULL, version TEXT NOT NULL,
  configuration TEXT NOT NULL, started_at BIGINT NOT NULL, renewed_at BIGINT NOT NULL, until BIGINT NOT NULL,
  state TEXT NOT NULL, ended_at BIGINT, turn BIGINT NOT NULL DEFAULT 0)
"""
# Microseconds since 1970 by the database's clock.
_MOMENT: Final = """
CREATE FUNCTION moment() RETURNS BIGINT LANGUAGE sql VOLATILE
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$
"""
# Which node had a lane last at a destination: another node reads the server first. 0 after lanes were united.
_LANE_HOLDER: Final = """
CREATE TABLE lane_holder (
  lane BIGINT NOT NULL, destination TEXT NOT NULL, holder BIGINT NOT NULL, PRIMARY KEY (lane, destination))
"""
_CONDITION: Final = """
CREATE TABLE node_condition (
  incarnation BIGINT NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL, wrong INTEGER NOT NULL, detail TEXT NOT NULL,
  PRIMARY KEY (incarnation, kind, subject))
"""
_RUN: Final = "CREATE TABLE node_run (run BIGINT PRIMARY KEY, incarnation BIGINT NOT NULL)"
_KEPT: Final = """
CREATE FUNCTION audit_is_only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the audit trail is only ever added to'; END $$
"""

# A node of an older version, which works on until it is stopped, knows no checksums: where it changes what one covers,
# there is none any more.
_UNCHECKED: Final = """
CREATE FUNCTION unchecked() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.crc := NULL; RETURN NEW; END $$
"""
# What is ever changed of the columns that a checksum covers.
CHANGED: Final = {
    "attempt": ("url", "query", "headers", "body"),
    "delivery": ("mapping",),
    "known": ("logical_id", "survivor"),
    "owned": ("slices",),
}


def _unchecked(table: str, columns: tuple[str, ...]) -> str:
    changed = " OR ".join(f"NEW.{column} IS DISTINCT FROM OLD.{column}" for column in columns)
    return (
        f"CREATE TRIGGER {table}_unchecked BEFORE UPDATE OF {', '.join(columns)} ON {table} FOR EACH ROW "
        f"WHEN (NEW.crc IS NOT DISTINCT FROM OLD.crc AND ({changed})) EXECUTE FUNCTION unchecked()"
    )


OWN: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "node_0001",
        (
            _HEAD,
            "INSERT INTO head (id, node, joins) VALUES (1, 0, 0)",
            _NODE,
            _LANE_HOLDER,
            _CONDITION,
            _RUN,
            "CREATE UNIQUE INDEX node_live ON node (name) WHERE state = 'live'",
            "CREATE INDEX delivery_claimed ON delivery (holder) WHERE state = 'claimed'",
        ),
    ),
    ("node_0002", (_UNCHECKED, *(_unchecked(table, columns) for table, columns in CHANGED.items()))),
)
# What PostgreSQL says in words of its own.
RAW: Final[tuple[str, ...]] = (
    JSON_EACH,
    SUBSTR,
    _MOMENT,
    _KEPT,
    "CREATE TRIGGER audit_kept BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_is_only_added_to()",
    # Queues: few rows, always changing.
    "ALTER TABLE queue SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000)",
    "ALTER TABLE delivery SET (autovacuum_vacuum_scale_factor = 0.05, fillfactor = 80)",
    "ALTER TABLE head SET (fillfactor = 10)",
    "ALTER TABLE node SET (fillfactor = 50)",
)

MADE: Final = "CREATE TABLE IF NOT EXISTS step (name TEXT PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now())"
# The steps that were made.
STEPS_MADE: Final = "SELECT name FROM step"
# A step was made.
KEEP_STEP: Final = "INSERT INTO step (name) VALUES (?)"
# Whether the tables are there, and whether they are another program's.
TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"


def migrate(connection: PostgresqlConnection) -> None:
    """Bring the tables up to this program's; JournalUnusableError where that cannot be done."""
    with transaction(connection):
        connection.execute("SELECT pg_advisory_xact_lock(?)", (SCHEMA_LOCK,))
        made = steps_made(connection)
        refuse_newer(made)
        if not made:
            _refuse_strange(connection)
        connection.execute(MADE)
        for name, statements in STEPS:
            if name not in made:
                connection.script(one for one in statements if not _is_for_old_files(one))
                connection.execute(KEEP_STEP, (name,))
        for name, statements in OWN:
            if name not in made:
                connection.script(statements)
                connection.execute(KEEP_STEP, (name,))
        if not made:
            for statement in RAW:
                connection.raw(statement)


def steps_made(connection: PostgresqlConnection) -> set[str]:
    """Return the names of the steps that a database has taken; empty where it has no journal."""
    return {name for (name,) in connection.execute(STEPS_MADE).fetchall()} if "step" in tables(connection) else set()


def tables(connection: PostgresqlConnection) -> set[str]:
    """Return the names of the tables that are there."""
    return {name for (name,) in connection.execute(TABLES).fetchall()}


def refuse_unfinished(connection: PostgresqlConnection) -> None:
    """Raise JournalUnusableError where a copy into a database was cut off."""
    if COPYING in tables(connection):
        raise JournalUnusableError(
            "a copy into the journal's database was cut off: repeat the command `adt-engine journal copy`, which goes "
            "on where it stopped, or drop the database and make a new one"
        )


def _refuse_strange(connection: PostgresqlConnection) -> None:
    if tables(connection):
        raise JournalUnusableError("the database holds tables of another program: name one of its own")


def refuse_newer(made: set[str]) -> None:
    """Raise JournalUnusableError where a database has taken a step that this program does not know."""
    newer = made - {name for name, _statements in (*STEPS, *OWN)}
    if newer:
        raise JournalUnusableError(
            f"the journal was written by a newer adt-engine (schema {max(newer)}): start that version on this node, too"
        )


def refuse_older(made: set[str]) -> None:
    """Raise JournalUnusableError where a database has no journal, or one not yet brought up to this program."""
    if not made:
        raise JournalUnusableError("there is no journal in this database: start an engine on it once")
    if {name for name, _statements in (*STEPS, *OWN)} - made:
        raise JournalUnusableError("the journal is of an older adt-engine: start the engine once, which brings it up")


def _is_for_old_files(statement: str) -> bool:
    """Say whether a statement fills tables from older ones of SQLite's, or makes a trigger in its words."""
    return statement.lstrip().startswith(("INSERT INTO noted", "INSERT OR IGNORE", "CREATE TRIGGER"))
