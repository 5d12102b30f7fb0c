"""The journal's tables, made and changed by numbered migrations that the file itself keeps count of.

Each migration runs in one transaction. A file that names a migration this program does not know was written by a
newer one, and is refused. Moments are microseconds since 1970 in UTC, lists are JSON.
"""

from contextlib import closing
from typing import Final

from sqlite_utils import Database, Migrations
from sqlite_utils.utils import sqlite3  # type: ignore[attr-defined]  # pysqlite3 where it is installed

from engine.errors import JournalUnusableError
from engine.journal.file import tables

NAME: Final = "adt-engine-journal"

MIGRATIONS: Final = Migrations(NAME)

# Every column of every table, to know a file of another program.
COLUMNS: Final = """
SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table'
"""
_STRANGE: Final = (
    "the journal was made by a version between two releases, whose tables this program cannot bring up: go on with "
    "that version, or name a new --data"
)

# In the order in which they are applied; a migration that was released is never changed.
STEPS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("0001_tables", tables.MESSAGES),
    ("0002_search", tables.SEARCH),
    ("0003_access", tables.ACCESS),
    ("0004_operations", tables.OPERATIONS),
    ("0005_replays", tables.REPLAYS),
    ("0006_care", tables.CARE),
    ("0007_duplicates", tables.DUPLICATES),
    ("0008_requests", tables.REQUESTS),
    ("0009_proofs", tables.PROOFS),
    ("0010_clock", tables.CLOCK),
    ("0011_merges", tables.MERGES),
    ("0012_lookups", tables.LOOKUPS),
    ("0013_follow_ups", tables.FOLLOW_UPS),
    ("0014_holders", tables.HOLDERS),
    ("0015_rollup", tables.ROLLUP),
    ("0016_key_mark", tables.KEY_MARK),
    ("0017_row_checks", tables.ROW_CHECKS),
    ("0018_tally", tables.TALLY),
    ("0019_way_back", tables.WAY_BACK),
    ("0020_number_form", tables.NUMBER_FORM),
)


def _register(name: str, statements: tuple[str, ...]) -> None:
    def apply(db: Database) -> None:
        for statement in statements:
            db.execute(statement)

    MIGRATIONS(name=name)(apply)


for _name, _statements in STEPS:
    _register(_name, _statements)


def migrate(db: Database) -> None:
    """Bring a file's schema up to this program's; JournalUnusableError where that cannot be done."""
    refuse_newer(db)
    try:
        MIGRATIONS.apply(db)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise JournalUnusableError(_STRANGE) from error
    _refuse_strange(db)


def refuse_older(db: Database) -> None:
    """Raise JournalUnusableError where the file was not yet brought up to this program's schema."""
    if MIGRATIONS.pending(db):
        raise JournalUnusableError("the journal is of an older adt-engine: start the engine once, which brings it up")


def refuse_newer(db: Database) -> None:
    """Raise JournalUnusableError where the file names a migration that this program does not know."""
    newer = {migration.name for migration in MIGRATIONS.applied(db)} - known_migrations()
    if newer:
        raise JournalUnusableError(
            f"the journal was written by a newer adt-engine (schema {max(newer)}): start that version, "
            "or restore a backup made by this one"
        )


def known_migrations() -> set[str]:
    """Return the names of this program's migrations."""
    with closing(Database(memory=True, execute_plugins=False)) as blank:
        return {migration.name for migration in MIGRATIONS.pending(blank)}


def _refuse_strange(db: Database) -> None:
    """Raise JournalUnusableError where tables lack columns: versions between two releases made them otherwise."""
    with closing(Database(memory=True, execute_plugins=False)) as blank:
        MIGRATIONS.apply(blank)
        wanted = set(blank.execute(COLUMNS).fetchall())
    if wanted - set(db.execute(COLUMNS).fetchall()):
        raise JournalUnusableError(_STRANGE)
