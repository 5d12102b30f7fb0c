"""A log-in: what is written in one transaction (code, session, audit row), and its result."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final

import orjson

from engine.database.connection import Connection
from engine.journal.access import accounts, audit, sessions
from engine.journal.access.accounts import Account, AccountState
from engine.journal.access.audit import AuditOutcome, AuditRecord
from engine.journal.access.sessions import SessionRow
from engine.ops.access import totp
from engine.ops.access.keys import Keys
from engine.security.passwords import SHORTEST

IDLE: Final = timedelta(minutes=15)
ABSOLUTE: Final = timedelta(hours=12)
# For so long after a password was typed its session may do what needs a confirmation.
CONFIRMED_FOR: Final = timedelta(minutes=5)


class LoginRefusalReason(StrEnum):
    """Why a log-in is refused; the same for an unknown account, a wrong password and a wrong code."""

    WRONG = "wrong"
    WAIT = "wait"
    BUSY = "busy"
    INVITATION = "invitation"
    NAME = "name"
    PASSWORD = "password"  # noqa: S105 - a reason


_TEXTS: Final = {
    LoginRefusalReason.WRONG: "Name, password or code is wrong.",
    LoginRefusalReason.WAIT: "Too many attempts: try again in a while.",
    LoginRefusalReason.BUSY: "The engine is busy: try again in a moment.",
    LoginRefusalReason.INVITATION: "This one-time token is unknown, used or too old: ask for a new one.",
    LoginRefusalReason.NAME: (
        "Choose another name: small letters, digits, dot, dash and underscore, at most 64, never used before."
    ),
    LoginRefusalReason.PASSWORD: "This password cannot be chosen.",
}


@dataclass(frozen=True, slots=True)
class LoginRefusal:
    """Why not, in a sentence for people; `wait_seconds` where trying again makes sense only later."""

    reason: LoginRefusalReason
    wait_seconds: int = 0
    detail: str = ""

    @property
    def text(self) -> str:
        """The sentence to show."""
        return self.detail or _TEXTS[self.reason]


@dataclass(frozen=True, slots=True, repr=False)
class Session:
    """A session that has just begun: `cookie` is its secret, shown here once and kept nowhere.

    `enrolling`: it may only set up a second factor (`Access.enrolment`, `Access.enrol`) or log out.
    """

    cookie: str
    account: str
    enrolling: bool
    ends_at: datetime


@dataclass(frozen=True, slots=True, repr=False)
class Enrolment:
    """A second factor on offer: the base32 secret to type, and the otpauth:// link of the same."""

    secret: str
    link: str


MOST_SESSIONS: Final = 10
_LONGEST_ADDRESS: Final = 64


@dataclass(frozen=True, slots=True, repr=False)
class LoginAttempt:
    """What somebody tries under a name, and what was typed, as far as it is judged.

    `hashed`: the hash that the password was compared with; `good`: whether it is that one; `length`: of the password.
    `code`: of the second factor; None where it is not asked for again.
    """

    act: str
    name: str
    address: str
    at: datetime
    length: int = 0
    code: str | None = None
    hashed: str = ""
    good: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class StartedSession:
    """The session to begin: its cookie, and whether an account without a second factor must set one up first.

    `goes_on`: the session that continues under this cookie and keeps its end; None for a new one. `ending`: the cookie
    so far. `hashed` and `length`: of a new password, which ends all other sessions; empty where it stays.
    """

    cookie: str
    totp_required: bool
    goes_on: SessionRow | None = None
    ending: str = ""
    hashed: str = ""
    length: int = 0


def digest_of(secret: str) -> bytes:
    """Return what is kept of a cookie or token: its SHA-256. They are random, so that no salt is needed."""
    return sha256(secret.encode("utf-8", "replace")).digest()


def enter(connection: Connection, keys: Keys, attempt: LoginAttempt, entry: StartedSession) -> SessionRow | None:
    """Begin a session under a new cookie, or refuse; what was refused is in the audit too."""
    account = accounts.find(connection, attempt.name)
    if account is None or not _is_good(connection, keys, account, attempt):
        refuse(connection, attempt, account, "wrong")
        return None
    record(connection, attempt, account, second_factor=bool(account.totp))
    length = attempt.length
    if entry.hashed:
        accounts.set_password(connection, account.name, entry.hashed, attempt.at)
        sessions.end_all(connection, account.name)
        length = entry.length
    if entry.ending:
        sessions.end(connection, digest_of(entry.ending))
    weak = not account.totp and (entry.totp_required or account.totp_wanted or length < SHORTEST)
    return begin(connection, attempt, account.role, entry, enrolling=weak)


def enrol(
    connection: Connection, attempt: LoginAttempt, entry: StartedSession, sealed: bytes, step: int
) -> SessionRow | None:
    """Put a second factor in force that a session was offered, and go on under a new cookie; None: too late."""
    account = accounts.find(connection, attempt.name)
    if account is None or account.totp or not sessions.end(connection, digest_of(entry.ending)):
        return None
    record(connection, attempt, account, second_factor=True)
    accounts.set_totp(connection, account.name, sealed, step)
    return begin(connection, attempt, account.role, entry, enrolling=False)


def leave(connection: Connection, digest: bytes, address: str, now: datetime) -> None:
    """End a session, and write that into the audit trail; nothing where there is none."""
    row = sessions.find(connection, digest)
    if row is not None:
        audit.append(connection, AuditRecord(now, row.account, row.role, "page", "log-out", address))
    sessions.end(connection, digest)


def begin(
    connection: Connection, attempt: LoginAttempt, role: str, entry: StartedSession, *, enrolling: bool
) -> SessionRow:
    """Keep a session under its cookie's digest, and forget those of its account that are over."""
    now = attempt.at
    began = now if entry.goes_on is None else entry.goes_on.began_at
    row = SessionRow(attempt.name, role, attempt.address, began, now, now, enrolling, b"")
    sessions.end_old(connection, attempt.name, now - IDLE, now - ABSOLUTE)
    sessions.begin(connection, digest_of(entry.cookie), row, MOST_SESSIONS)
    return row


def record(connection: Connection, attempt: LoginAttempt, account: Account, **detail: bool) -> None:
    """Write into the audit trail that somebody comes in, or does something to the own account."""
    audit.append(connection, replace(_of(attempt, account), detail=orjson.dumps(detail).decode()))


def refuse(connection: Connection, attempt: LoginAttempt, account: Account | None, reason: str) -> None:
    """Write into the audit trail that somebody was refused; a name that is no account's is not kept.

    It may be a password in the wrong field.
    """
    audit.append(connection, replace(_of(attempt, account), outcome=AuditOutcome.REFUSED, reason=reason))


def refuse_known(connection: Connection, attempt: LoginAttempt, reason: str) -> None:
    """Write a refusal into the audit trail, under the account's name where there is such an account."""
    refuse(connection, attempt, accounts.find(connection, attempt.name), reason)


def _of(attempt: LoginAttempt, account: Account | None) -> AuditRecord:
    name, role = (account.name, account.role) if account is not None else ("", "")
    return AuditRecord(attempt.at, name, role, "page", attempt.act, attempt.address[:_LONGEST_ADDRESS])


def _is_good(connection: Connection, keys: Keys, account: Account, attempt: LoginAttempt) -> bool:
    """Say whether password and code are right; a right code is used up only with a right password."""
    code_is_good, step = True, 0
    if account.totp and attempt.code is not None:
        found = totp.step_of(keys.unseal(account.name, account.totp), attempt.code, attempt.at)
        code_is_good, step = found is not None, found or 0
    if not attempt.good or account.state is not AccountState.ACTIVE or account.password != attempt.hashed:
        return False
    return code_is_good and (not step or accounts.use_step(connection, account.name, step))
