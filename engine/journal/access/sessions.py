"""Sessions and API tokens in the journal's database: only digests are kept, and they outlive a restart."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import orjson

from engine.database.connection import Connection, Row, by_name, json_list
from engine.journal.moment import from_micros, optional_from_micros, to_micros

# A session counts only with an active account; the role is the account's of now.
FIND: Final = """
SELECT s.account, a.role, s.address, s.began_at, s.seen_at, s.confirmed_at, s.enrolling, s.offer,
  length(a.totp) AS factor
FROM session AS s JOIN account AS a ON a.name = s.account WHERE s.digest = ? AND a.state = 'active'
"""
# A new session.
BEGIN: Final = """
INSERT INTO session (digest, account, address, began_at, seen_at, confirmed_at, enrolling) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
# A session was used.
SEE: Final = "UPDATE session SET seen_at = ? WHERE digest = ?"
# The secret that a session was shown for a second factor.
OFFER: Final = "UPDATE session SET offer = ? WHERE digest = ?"
# End a session.
END: Final = "DELETE FROM session WHERE digest = ?"
# End all sessions of an account.
END_ALL: Final = "DELETE FROM session WHERE account = ?"
# End what was idle too long, or began too long ago.
END_OLD: Final = "DELETE FROM session WHERE account = ? AND (seen_at <= ? OR began_at <= ?)"
# End all but an account's newest sessions.
END_MANY: Final = """
DELETE FROM session WHERE digest IN (
  SELECT digest FROM session WHERE account = ? ORDER BY began_at DESC LIMIT 1000000 OFFSET ?)
"""

# API tokens, without their digests.
_BEARER: Final = "SELECT name, role, channels, made_at, made_by, expires_at, used_at, revoked_at FROM bearer"
# All, by name.
BEARERS: Final = f"{_BEARER} ORDER BY name"
# One, by its digest.
BEARER: Final = f"{_BEARER} WHERE digest = ?"
# A new API token, unless the name is taken.
ADD_BEARER: Final = """
INSERT INTO bearer (name, digest, role, channels, made_at, made_by, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
# An API token was used.
USE_BEARER: Final = "UPDATE bearer SET used_at = ? WHERE name = ?"
# End an API token; the first moment stays.
REVOKE_BEARER: Final = "UPDATE bearer SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL"


@dataclass(frozen=True, slots=True, repr=False)
class SessionRow:
    """One session: whose, since when, seen and confirmed by password last; `enrolling` until its second factor is set.

    `offer`: the sealed secret that was shown for a second factor, empty for none. `second_factor`: whether the account
    has one now.
    """

    account: str
    role: str
    address: str
    began_at: datetime
    seen_at: datetime
    confirmed_at: datetime
    enrolling: bool
    offer: bytes
    second_factor: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class ApiTokenRow:
    """One API token; no channels: not limited to any."""

    name: str
    role: str
    channels: tuple[str, ...]
    made_at: datetime
    made_by: str
    expires_at: datetime
    used_at: datetime | None
    revoked_at: datetime | None


def find(connection: Connection, digest: bytes) -> SessionRow | None:
    """Return a session of an active account; None for none. Whether it is too old is for the caller to say."""
    return next(map(_session, by_name(connection, FIND, (digest,))), None)


def begin(connection: Connection, digest: bytes, session: SessionRow, most: int) -> None:
    """Keep a session; of one account the latest `most` stay."""
    moments = (to_micros(session.began_at), to_micros(session.seen_at), to_micros(session.confirmed_at))
    connection.execute(BEGIN, (digest, session.account, session.address, *moments, int(session.enrolling)))
    connection.execute(END_MANY, (session.account, most))


def see(connection: Connection, digest: bytes, now: datetime) -> None:
    """Note that a session was used."""
    connection.execute(SEE, (to_micros(now), digest))


def offer(connection: Connection, digest: bytes, sealed: bytes) -> None:
    """Note the sealed secret that a session was shown."""
    connection.execute(OFFER, (sealed, digest))


def end(connection: Connection, digest: bytes) -> bool:
    """End a session; False where there is none."""
    return connection.execute(END, (digest,)).rowcount == 1


def end_all(connection: Connection, account: str) -> int:
    """End all sessions of an account; return how many."""
    return int(connection.execute(END_ALL, (account,)).rowcount)


def end_old(connection: Connection, account: str, seen_before: datetime, began_before: datetime) -> None:
    """Forget sessions of an account that are idle or too old."""
    connection.execute(END_OLD, (account, to_micros(seen_before), to_micros(began_before)))


def tokens(connection: Connection) -> tuple[ApiTokenRow, ...]:
    """Return all API tokens by name, revoked ones too."""
    return tuple(map(_token, by_name(connection, BEARERS)))


def token(connection: Connection, digest: bytes) -> ApiTokenRow | None:
    """Return a token by its digest, expired and revoked ones too; None for none."""
    return next(map(_token, by_name(connection, BEARER, (digest,))), None)


def add_token(connection: Connection, digest: bytes, made: ApiTokenRow) -> bool:
    """Keep a token; False where its name was ever given."""
    channels = json_list(made.channels)
    moments = (to_micros(made.made_at), made.made_by, to_micros(made.expires_at))
    return connection.execute(ADD_BEARER, (made.name, digest, made.role, channels, *moments)).rowcount == 1


def use_token(connection: Connection, name: str, now: datetime) -> None:
    """Note that a token was used."""
    connection.execute(USE_BEARER, (to_micros(now), name))


def revoke_token(connection: Connection, name: str, now: datetime) -> bool:
    """End a token for good; False where there is none that could be ended."""
    return connection.execute(REVOKE_BEARER, (to_micros(now), name)).rowcount == 1


def _session(row: Row) -> SessionRow:
    return SessionRow(
        row["account"], row["role"], row["address"], from_micros(row["began_at"]), from_micros(row["seen_at"]),
        from_micros(row["confirmed_at"]), bool(row["enrolling"]), bytes(row["offer"]), bool(row["factor"]),
    )  # fmt: skip


def _token(row: Row) -> ApiTokenRow:
    return ApiTokenRow(
        row["name"], row["role"], tuple(orjson.loads(row["channels"])), from_micros(row["made_at"]), row["made_by"],
        from_micros(row["expires_at"]), optional_from_micros(row["used_at"]), optional_from_micros(row["revoked_at"]),
    )  # fmt: skip
