"""Accounts and invitations in the journal's database; every function works on the writing connection."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from engine.database.connection import Connection, Row, by_name
from engine.journal.moment import from_micros, optional_from_micros, to_micros

# An account with all that is known of it.
_ACCOUNT: Final = """
SELECT name, role, state, password, password_at, totp, totp_step, totp_wanted, made_at, made_by FROM account
"""
# By its name, whatever became of it.
FIND: Final = f"{_ACCOUNT} WHERE name = ?"
# Those that were not removed.
ALL: Final = f"{_ACCOUNT} WHERE state <> 'removed' ORDER BY name"
# A new account, unless the name is taken.
ADD: Final = """
INSERT INTO account (name, role, state, made_at, made_by) VALUES (?, ?, 'active', ?, ?) ON CONFLICT DO NOTHING
"""
# Enable, disable or remove an account.
SET_STATE: Final = "UPDATE account SET state = ? WHERE name = ?"
# Give an account another role.
SET_ROLE: Final = "UPDATE account SET role = ? WHERE name = ?"
# A new password, as its hash.
SET_HASH: Final = "UPDATE account SET password = ?, password_at = ? WHERE name = ?"
# A second factor, and the step of its last code.
SET_TOTP: Final = "UPDATE account SET totp = ?, totp_step = ? WHERE name = ?"
# Ask for a second factor, or no longer.
WANT_TOTP: Final = "UPDATE account SET totp_wanted = ? WHERE name = ?"
# A code is good once: the step that it belongs to must be later than the last one used.
USE_STEP: Final = "UPDATE account SET totp_step = ? WHERE name = ? AND totp_step < ?"

# Invite: the holder of the token may set the password.
INVITE: Final = "INSERT INTO invitation (digest, account, expires_at) VALUES (?, ?, ?)"
# Take an account's invitations back.
WITHDRAW: Final = "DELETE FROM invitation WHERE account = ?"
# An invitation is used.
VOID: Final = "DELETE FROM invitation WHERE digest = ?"
# Whose an invitation is, and until when.
INVITED: Final = "SELECT account, expires_at FROM invitation WHERE digest = ?"


class AccountState(StrEnum):
    """Whether an account may be used; a removed one never again, and its name is not given to anybody else."""

    ACTIVE = "active"
    DISABLED = "disabled"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, repr=False)
class Account:
    """One account; `password` is its hash, empty until it is set; `totp` its sealed secret, empty for none.

    `totp_step`: the 30 seconds since 1970 of the last code used. `totp_wanted`: the next log-in must set one up.
    """

    name: str
    role: str
    state: AccountState
    password: str
    password_at: datetime | None
    totp: bytes
    totp_step: int
    totp_wanted: bool
    made_at: datetime
    made_by: str


def find(connection: Connection, name: str) -> Account | None:
    """Return an account, removed ones too; None for none."""
    return next(map(_account, by_name(connection, FIND, (name,))), None)


def all_accounts(connection: Connection) -> tuple[Account, ...]:
    """Return the accounts that are not removed, by name."""
    return tuple(map(_account, by_name(connection, ALL)))


def add(connection: Connection, name: str, role: str, now: datetime, by: str) -> bool:
    """Make an account without a password; False where the name was ever given."""
    return connection.execute(ADD, (name, role, to_micros(now), by)).rowcount == 1


def set_state(connection: Connection, name: str, state: AccountState) -> None:
    """Enable, disable or remove an account."""
    connection.execute(SET_STATE, (state.value, name))


def set_role(connection: Connection, name: str, role: str) -> None:
    """Give an account another role."""
    connection.execute(SET_ROLE, (role, name))


def set_password(connection: Connection, name: str, hashed: str, now: datetime) -> None:
    """Set the hash of a password; the empty one lets nobody in."""
    connection.execute(SET_HASH, (hashed, to_micros(now), name))


def set_totp(connection: Connection, name: str, sealed: bytes, step: int) -> None:
    """Set the sealed secret and the step of the code that proved it; an empty secret for none."""
    connection.execute(SET_TOTP, (sealed, step, name))


def want_totp(connection: Connection, name: str, *, wanted: bool) -> None:
    """Ask for a second factor from the next log-in on, or no longer."""
    connection.execute(WANT_TOTP, (int(wanted), name))


def use_step(connection: Connection, name: str, step: int) -> bool:
    """Use up a code by its step; False where this one or a later one was used before."""
    return connection.execute(USE_STEP, (step, name, step)).rowcount == 1


def invite(connection: Connection, digest: bytes, account: str, expires_at: datetime) -> None:
    """Keep the digest of a one-time token; an older one for the same account is void."""
    connection.execute(WITHDRAW, (account,))
    connection.execute(INVITE, (digest, account, to_micros(expires_at)))


def invited(connection: Connection, digest: bytes, now: datetime) -> str | None:
    """Return whose one-time token this is, '' for the first administrator's; None where it is none or too old."""
    row = by_name(connection, INVITED, (digest,)).fetchone()
    return row["account"] if row is not None and to_micros(now) < row["expires_at"] else None


def void(connection: Connection, digest: bytes) -> None:
    """Use a one-time token up."""
    connection.execute(VOID, (digest,))


def withdraw(connection: Connection, account: str) -> None:
    """Void the one-time token of an account, if there is one."""
    connection.execute(WITHDRAW, (account,))


def _account(row: Row) -> Account:
    return Account(
        row["name"], row["role"], AccountState(row["state"]), row["password"],
        optional_from_micros(row["password_at"]), bytes(row["totp"]), row["totp_step"], bool(row["totp_wanted"]),
        from_micros(row["made_at"]), row["made_by"],
    )  # fmt: skip
