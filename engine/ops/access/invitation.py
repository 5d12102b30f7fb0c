"""One-time tokens: the first password of an account is chosen by whom it is for, and nobody else ever knows it."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from engine.database.connection import Connection
from engine.journal.access import accounts, sessions
from engine.journal.access.accounts import AccountState
from engine.ops.access.actor import Role, is_name
from engine.ops.access.entering import LoginAttempt, record, refuse

VALID_FOR: Final = timedelta(minutes=30)
VALID_FOR_ACCOUNT: Final = timedelta(hours=24)
NOBODY_YET: Final = ""


class InvitationStatus(StrEnum):
    """The status of a one-time token for a name."""

    GOOD = "good"
    VOID = "void"
    NAME = "name"


class Invited(NamedTuple):
    """Whether a one-time token may be used under a name, and whether that account has a second factor."""

    standing: InvitationStatus
    totp: bool = False


def invited(connection: Connection, digest: bytes, name: str, now: datetime) -> Invited:
    """Say what a one-time token is worth for a (folded) name."""
    whose = accounts.invited(connection, digest, now)
    if whose is None:
        return Invited(InvitationStatus.VOID)
    account = accounts.find(connection, name)
    if whose == NOBODY_YET:
        return Invited(InvitationStatus.GOOD if account is None and is_name(name) else InvitationStatus.NAME)
    if account is None or whose != name:
        return Invited(InvitationStatus.NAME)
    if account.state is not AccountState.ACTIVE:
        return Invited(InvitationStatus.VOID)
    return Invited(InvitationStatus.GOOD, bool(account.totp) or account.totp_wanted)


def accept(connection: Connection, digest: bytes, attempt: LoginAttempt, hashed: str) -> InvitationStatus:
    """Set the password that an invited person chose; the token is void from then on, and so are open sessions."""
    found = invited(connection, digest, attempt.name, attempt.at)
    if found.standing is not InvitationStatus.GOOD:
        refuse(connection, attempt, accounts.find(connection, attempt.name), found.standing.value)
        return found.standing
    accounts.void(connection, digest)
    account = accounts.find(connection, attempt.name)
    if account is None:
        accounts.add(connection, attempt.name, Role.ADMIN.value, attempt.at, "set-up")
        account = accounts.find(connection, attempt.name)
    if account is not None:
        record(connection, attempt, account)
        accounts.set_password(connection, account.name, hashed, attempt.at)
        sessions.end_all(connection, account.name)
    return InvitationStatus.GOOD
