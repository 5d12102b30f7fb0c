"""PostgreSQL: connections that take SQLite's words, and what an error is one of.

An address is a URI as libpq reads it (`postgresql://user@host/name?sslmode=verify-full`); the password comes from
PGPASSWORD, PGPASSFILE or ~/.pgpass.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

import psycopg
from psycopg import errors
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, TupleRow, dict_row, tuple_row
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumperUnknown

from engine.database.dialect import POSTGRESQL, lossless, without_nul

OLDEST: Final = 14
CONNECT_SECONDS: Final = 10

# SQLite's view of a JSON list as rows: `key` counts from 0, `value` is a whole number, `atom` the text of a number or
# text, `list` a list within the list.
JSON_EACH: Final = """
CREATE OR REPLACE FUNCTION json_each(of TEXT) RETURNS TABLE (key BIGINT, value BIGINT, atom TEXT, list JSONB)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10 AS $$
  SELECT place - 1, CASE WHEN jsonb_typeof(one) = 'number' THEN one::bigint END, one #>> '{}', one
  FROM jsonb_array_elements(of::jsonb) WITH ORDINALITY AS i (one, place)
$$
"""

# SQLite's substr of numbers of any size.
SUBSTR: Final = """
CREATE OR REPLACE FUNCTION substr(of TEXT, first BIGINT, count BIGINT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT substr(of, first::integer, count::integer) $$
"""

SERVER: Final = (
    "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), current_setting('fsync'),"
    " current_setting('full_page_writes'), current_setting('synchronous_commit'),"
    " current_setting('synchronous_standby_names'), pg_is_in_recovery()"
)

# Sessions that hold an advisory lock and have been silent for `seconds` in the middle of what they send.
STALLED: Final = """
SELECT COUNT(pg_terminate_backend(a.pid)) FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND (l.classid::bigint, l.objid::bigint, l.objsubid) = ({lock})
  AND a.datname = current_database() AND a.usename = current_user
  AND a.state = 'active' AND a.wait_event_type = 'Client'
  AND GREATEST(a.query_start, a.state_change) < clock_timestamp() - make_interval(secs => ?)
"""

PostgresqlError: Final = psycopg.Error
# Given the seconds that a server has kept us waiting, says whether to wait on.
Patience = Callable[[float], bool]

_T = TypeVar("_T")


class _Waiting(psycopg.Connection[TupleRow]):
    """A connection that ends by itself where its server is silent for too long: a cut line may never tell of that."""

    patience: Patience | None = None

    def wait(self, gen: PQGen[_T], *given: Any, **named: Any) -> _T:
        return super().wait(gen if self.patience is None else self._patient(gen, self.patience), *given, **named)

    def _patient(self, gen: PQGen[_T], waits_on: Patience) -> PQGen[_T]:
        begun = time.monotonic()
        try:
            ready = next(gen)
            while True:
                # Ten times a second this goes on though nothing has come.
                heard = yield ready
                if not heard and not waits_on(time.monotonic() - begun):
                    self.pgconn.finish()
                    raise psycopg.OperationalError("the server does not answer")
                ready = gen.send(heard)
        except StopIteration as ended:
            return cast(_T, ended.value)


class PostgresqlConnection:
    """One connection to PostgreSQL, as `connection.Connection` says; it begins no transaction by itself."""

    def __init__(self, inner: "psycopg.Connection[TupleRow]") -> None:
        self.inner = inner
        self._together = False

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self.inner.info.transaction_status not in {TransactionStatus.IDLE, TransactionStatus.UNKNOWN}

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> "psycopg.Cursor[TupleRow]":
        """Run a statement."""
        return self.inner.execute(_text(sql), values or None)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> "psycopg.Cursor[TupleRow]":
        """Run a statement for each of several rows of values, in one round trip."""
        cursor = self.inner.cursor()
        cursor.executemany(_text(sql), rows)
        return cursor

    def by_name(self, sql: str, values: Sequence[Any] = (), /) -> "psycopg.Cursor[DictRow]":
        """Ask a query; its rows are read by the names of their columns."""
        cursor = psycopg.RawCursor(self.inner, row_factory=dict_row)
        return cursor.execute(_text(sql), values or None)

    def as_stored(self, sql: str, values: Sequence[Any] = (), /) -> list[tuple[Any, ...]]:
        """Return the rows of a query, whatever a disk made of their texts."""
        cursor = psycopg.RawCursor(self.inner, row_factory=tuple_row)
        cursor.adapters.register_loader("text", _Stored)
        return cursor.execute(_text(sql), values or None).fetchall()

    def raw(self, sql: str) -> None:
        """Run a text of PostgreSQL's own as it is."""
        self.inner.execute(sql.encode())

    def script(self, statements: Iterable[str]) -> None:
        """Run statements one after the other."""
        for statement in statements:
            self.execute(statement)

    def copy_in(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add rows to a table by COPY."""
        with self.inner.cursor().copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)

    def copy_out(self, sql: str, types: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query by COPY, one after the other, so that few are in memory at a time.

        `types`: of its columns, as PostgreSQL names them.
        """
        with self.inner.cursor().copy(f"COPY ({POSTGRESQL.render(sql)}) TO STDOUT".encode()) as copy:
            copy.set_types(types)
            yield from copy.rows()

    @contextmanager
    def moment(self, seconds: float) -> Iterator[None]:
        """Read everything within as of one moment; TimeoutError where a statement took `seconds`."""
        self.execute(POSTGRESQL.reading)
        self.raw(f"SET LOCAL statement_timeout = {int(seconds * 1000)}")
        try:
            yield
        except errors.QueryCanceled as error:
            raise TimeoutError from error
        finally:
            self.execute("ROLLBACK")

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send statements on without waiting for each until the block ends, or a row is asked for.

        An error then comes with a later statement, or with the end of the block. `rowcount` is not known within. A
        block within such a block is part of it.
        """
        if self._together:
            yield
            return
        self._together = True
        try:
            with self.inner.pipeline():
                yield
        finally:
            self._together = False

    def close(self) -> None:
        """End the connection; what was not committed is undone."""
        self.inner.close()


def connect(
    address: str,
    *,
    name: str = "adt-engine",
    options: str = "",
    patience: Patience | None = None,
    seconds: int = CONNECT_SECONDS,
) -> PostgresqlConnection:
    """Connect; psycopg.Error where the server cannot be reached or does not let us in.

    `name` is what the server's list of sessions shows. `options`: settings of the session (`-c name=value`), besides
    those that the address has. `patience` is asked while the server is silent; `seconds`: how long it may take to
    connect.
    """
    given = str(conninfo_to_dict(address).get("options") or "")
    inner = _Waiting.connect(
        address,
        autocommit=True,
        row_factory=tuple_row,
        cursor_factory=psycopg.RawCursor,
        prepare_threshold=2,
        application_name=name,
        connect_timeout=seconds,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=10_000,
        options=f"{given} {options}".strip(),
    )
    inner.patience = patience
    inner.prepared_max = 400
    inner.adapters.register_dumper(int, Int8Dumper)
    inner.adapters.register_dumper(str, _TextDumper)
    inner.adapters.register_loader("numeric", _Number)
    return PostgresqlConnection(inner)


def address_fault(address: str) -> str:
    """Return why an address is not to be used: it cannot be read, or holds a password; '' where it may."""
    try:
        parts = conninfo_to_dict(address)
    except psycopg.Error:
        return "expected postgresql://USER@HOST[:PORT]/NAME"
    if parts.get("password"):
        return "leave the password out, every user of this machine can see it; set PGPASSWORD, PGPASSFILE or ~/.pgpass"
    return ""


def server_fault(connection: PostgresqlConnection) -> str:
    """Return why a server would not keep a committed write, and what to mend; '' where it does."""
    found = connection.execute(SERVER).fetchone() or (0, "", "", "", "", "", False)
    version, encoding, fsync, pages, commit, standbys, is_standby = found
    if version < OLDEST * 10_000:
        return f"PostgreSQL {version // 10_000} is too old: {OLDEST} or newer is needed"
    if encoding != "UTF8":
        return f"its encoding is {encoding}: CREATE DATABASE … ENCODING UTF8 TEMPLATE template0"
    if is_standby:
        return "it is a standby, which only reads: name the primary"
    for name, value in (("fsync", fsync), ("full_page_writes", pages)):
        if value != "on":
            return f"{name} is off, so that a crash loses what was answered: set {name} = on, and reload"
    if commit == "off" or (standbys and commit not in {"on", "remote_apply"}):
        return (
            f"synchronous_commit is {commit}, so that a crash loses what was answered: set it to on, for this role or"
            " in postgresql.conf"
        )
    return ""


def end_stalled(connection: PostgresqlConnection, lock: str, seconds: float) -> None:
    """End the sessions of this database and role that hold a lock and stand still in the middle of what they send.

    Between two statements the server itself does that. `lock`: class, number and kind as pg_locks has them, as SQL.
    """
    connection.execute(STALLED.format(lock=lock), (seconds,))


def error_text(error: BaseException) -> str:
    """Return what a server, or the way to it, says of a failure at the start, in one line and without a password.

    Not for statements with values: those may be repeated in it.
    """
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    if isinstance(error, psycopg.OperationalError):
        return " ".join(str(error).split())
    return type(error).__name__


def shown(address: str) -> str:
    """Return an address without its password and settings, for people."""
    scheme, _, rest = address.partition("://")
    account, at, where = rest.partition("?")[0].rpartition("@")
    return f"{scheme}://{account.partition(':')[0]}{at}{where}"


def is_again(error: BaseException) -> bool:
    """Say whether the same transaction may succeed if it is tried again: a deadlock, a serialization failure."""
    return isinstance(error, errors.DeadlockDetected | errors.SerializationFailure)


def is_busy(error: BaseException) -> bool:
    """Say whether an error is that of a lock which somebody else holds."""
    return isinstance(error, errors.LockNotAvailable)


def is_late(error: BaseException) -> bool:
    """Say whether a statement has ended because its time was over."""
    return isinstance(error, errors.QueryCanceled)


def is_full(error: BaseException) -> bool:
    """Say whether an error is that of a database without room."""
    return isinstance(error, errors.DiskFull | errors.OutOfMemory)


def is_lost(error: BaseException) -> bool:
    """Say whether the connection is gone, or the server stops or only reads, so that nothing can be written now."""
    return isinstance(
        error,
        errors.AdminShutdown | errors.CrashShutdown | errors.CannotConnectNow | errors.IdleInTransactionSessionTimeout
        | errors.IdleSessionTimeout | errors.ReadOnlySqlTransaction | errors.TooManyConnections,
    ) or (isinstance(error, psycopg.OperationalError) and (error.sqlstate or "08").startswith("08"))  # fmt: skip


def _text(sql: str) -> bytes:
    return POSTGRESQL.render(sql).encode()


class _TextDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(without_nul(obj))


class _Stored(Loader):
    def load(self, data: Buffer) -> str:
        return lossless(bytes(data))


class _Number(Loader):
    """Sums of whole numbers are whole numbers."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return float(text) if "." in text else int(text)
