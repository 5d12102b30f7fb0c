"""The journal's PostgreSQL database: opened durable or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from engine.database.postgresql import Patience, PostgresqlConnection, PostgresqlError, connect, server_fault, shown
from engine.errors import JournalUnusableError
from engine.journal.nodes.schema import migrate, refuse_newer, refuse_older, refuse_unfinished, steps_made

# A node that was paused within its turn keeps nobody waiting for longer: the database ends its transaction.
TURN_SECONDS: Final = 3
# Nor does one that has vanished: the server asks whether its clients are there.
ASKED: Final = (
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 -c tcp_user_timeout=10000"
)
STATEMENT_SECONDS: Final = 30
# A writer asks for few rows, each by an index. A plan that was made while a table was small would read all of it for
# ever: it is kept until the server has counted anew. For the same reason its texts ask EXISTS with OFFSET 0, which is
# looked up for each row and never joined.
BY_INDEX: Final = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off"
WRITER: Final = (
    f"{ASKED} -c idle_in_transaction_session_timeout={TURN_SECONDS}s -c statement_timeout={STATEMENT_SECONDS}s "
    f"-c jit=off {BY_INDEX}"
)
# A copy takes as long as it takes.
COPY: Final = f"{ASKED} -c statement_timeout=0 -c idle_in_transaction_session_timeout=0 -c jit=off"
# How long a node tries to connect before it says that its database is away.
CONNECT_SECONDS: Final = 4
READ_SECONDS: Final = 60
READER: Final = f"{ASKED} -c default_transaction_read_only=on -c statement_timeout={READ_SECONDS}s -c jit=off"
# A server that is there has ended a statement so long after it had to.
SLACK_SECONDS: Final = 5


def open_writer(address: str, name: str, patience: Patience | None = None) -> PostgresqlConnection:
    """Open a writing connection and bring the tables up to date; JournalUnusableError says what to mend."""
    with _opened(address, f"adt-engine {name}", WRITER, patience) as connection:
        _refuse_unsafe(connection, address)
        refuse_unfinished(connection)
        migrate(connection)
    return connection


def open_to_copy_into(address: str) -> PostgresqlConnection:
    """Open a connection for a copy into a database, and bring the tables up to date; as `open_writer`."""
    with _opened(address, "adt-engine copy", COPY) as connection:
        _refuse_unsafe(connection, address)
        migrate(connection)
    return connection


def open_checked(address: str) -> PostgresqlConnection:
    """Open a connection that can only read, whatever is there; JournalUnusableError where commits are unsafe."""
    with _opened(address, "adt-engine doctor", READER) as connection:
        _refuse_unsafe(connection, address)
    return connection


def open_reader(address: str) -> PostgresqlConnection:
    """Open a connection that can only read; JournalUnusableError where there is no journal that this program knows."""
    with _opened(address, "adt-engine reader", READER, _reads_on) as connection:
        _refuse_others(connection)
    return connection


def open_to_copy_from(address: str) -> PostgresqlConnection:
    """Open a connection that only reads for a copy out of a database; as `open_reader`."""
    with _opened(address, "adt-engine copy", f"-c default_transaction_read_only=on {COPY}") as connection:
        _refuse_others(connection)
    return connection


def unusable(address: str, error: Exception) -> JournalUnusableError:
    """Return the error of a database that cannot be used, with what it said and without a password."""
    said = str(error).strip().partition("\n")[0] or type(error).__name__
    return JournalUnusableError(
        f"the journal's database {shown(address)} cannot be used ({said}): check that it runs and takes this account, "
        "and give the password by PGPASSWORD or PGPASSFILE"
    )


def _reads_on(waited: float) -> bool:
    """Say whether to wait on for a server that has been silent for that many seconds of reading."""
    return waited < READ_SECONDS + SLACK_SECONDS


@contextmanager
def _opened(address: str, name: str, options: str, patience: Patience | None = None) -> Iterator[PostgresqlConnection]:
    """Connect, and look at what is there; the connection is closed where that fails."""
    connection = None
    try:
        connection = connect(address, name=name, options=options, patience=patience)
        yield connection
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, PostgresqlError):
            raise unusable(address, error) from error
        raise


def _refuse_others(connection: PostgresqlConnection) -> None:
    """Raise JournalUnusableError where there is no journal of this program's version."""
    made = steps_made(connection)
    refuse_newer(made)
    refuse_older(made)
    refuse_unfinished(connection)


def _refuse_unsafe(connection: PostgresqlConnection, address: str) -> None:
    """Raise JournalUnusableError where a commit would not be durable."""
    if fault := server_fault(connection):
        raise JournalUnusableError(f"{shown(address)} cannot hold a journal: {fault}")
