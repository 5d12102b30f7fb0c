"""The database of a shared journal: whether it is reached, keeps what it commits, and what its nodes run."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from engine.database.postgresql import PostgresqlError, shown
from engine.errors import JournalUnusableError
from engine.journal.nodes.database import open_checked
from engine.journal.nodes.lease import nodes
from engine.ops.cli.examine.check import Check, Standing, check

# Standbys that a commit does not wait for.
BEHIND: Final = "SELECT COUNT(*) FROM pg_stat_replication WHERE sync_state = 'async'"


def shared_journal(address: str) -> Iterator[Check]:
    """Yield how the database of a journal and its nodes are."""
    try:
        with closing(open_checked(address)) as connection:
            version = connection.inner.info.server_version // 10_000
            ((behind,),) = connection.execute(BEHIND).fetchall()
    except (JournalUnusableError, PostgresqlError) as error:
        yield Check("journal", Standing.FIX, str(error).partition("\n")[0], "bring the database up, then try again")
        return
    yield Check("journal", Standing.GOOD, f"{shown(address)}, PostgreSQL {version}")
    yield check(
        "standbys",
        f"{behind} that no commit waits for" if behind else "every commit waits for all there are",
        good=not behind,
        do="make it synchronous: an acknowledged message could die with the primary",
        otherwise=Standing.LOOK,
    )
    yield _files(address)


def _files(address: str) -> Check:
    try:
        living = [one for one in nodes(address) if one.state == "live"]
    except JournalUnusableError:
        return Check("nodes", Standing.GOOD, "none yet: the first engine makes the tables")
    same = len({one.configuration for one in living}) <= 1
    found = f"{len(living)} live, {'the same files' if same else 'different files'}"
    return check("nodes", found, good=same, do="give all nodes the same channels and mappings", otherwise=Standing.LOOK)
