"""What administrators do with accounts and tokens; each function is one transaction on the writing connection."""

from datetime import datetime, timedelta
from typing import Final

from engine.database.connection import Connection
from engine.errors import AccessError, ForbiddenOperationError, UsageError
from engine.journal.access import accounts, sessions
from engine.journal.access.accounts import Account, AccountState
from engine.journal.access.sessions import ApiTokenRow
from engine.ops.access.actor import RULE, Actor, Role, folded, is_name
from engine.ops.access.invitation import NOBODY_YET

# The owner is who may open the socket; a sender is a program.
OF_ACCOUNTS: Final = tuple(role for role in Role if role not in {Role.OWNER, Role.SENDER})
OF_TOKENS: Final = tuple(role for role in Role if role not in {Role.OWNER, Role.ADMIN})
LONGEST: Final = timedelta(days=366)


def invite_first(connection: Connection, digest: bytes, expires_at: datetime) -> None:
    """Keep the one-time token of the first administrator; AccessError where there is one already."""
    there = _administrators(connection)
    if there:
        raise AccessError(
            f"there is an administrator already ({there[0]}): `adt-engine users add` makes further accounts, and "
            "`adt-engine users password` a new one-time token for one"
        )
    accounts.invite(connection, digest, NOBODY_YET, expires_at)


def add(connection: Connection, name: str, role: str, actor: Actor, now: datetime) -> Account:
    """Make an account without a password; AccessError for a name that was ever given."""
    name = named(name)
    _role_in(role, OF_ACCOUNTS)
    if not accounts.add(connection, name, role, now, actor.name):
        raise AccessError(f"there is or was an account {name}: names are never reused, choose another")
    return find(connection, name)


def invite(connection: Connection, name: str, digest: bytes, now: datetime, expires_at: datetime) -> Account:
    """Keep a new one-time token of an account; its password so far lets nobody in, and its sessions end."""
    account = find(connection, name)
    accounts.invite(connection, digest, account.name, expires_at)
    accounts.set_password(connection, account.name, "", now)
    sessions.end_all(connection, account.name)
    return account


def set_role(connection: Connection, name: str, role: str, actor: Actor) -> Account:
    """Give an account another role, which counts for its open sessions at once."""
    account = _other(connection, name, actor)
    _role_in(role, OF_ACCOUNTS)
    accounts.set_role(connection, account.name, role)
    _keep_an_administrator(connection, account, actor)
    return find(connection, account.name)


def set_state(connection: Connection, name: str, state: AccountState, actor: Actor) -> Account:
    """Disable, enable or remove an account; unless it is enabled its sessions and one-time token end."""
    account = _other(connection, name, actor)
    accounts.set_state(connection, account.name, state)
    if state is not AccountState.ACTIVE:
        sessions.end_all(connection, account.name)
        accounts.withdraw(connection, account.name)
        _keep_an_administrator(connection, account, actor)
    return account


def set_totp(connection: Connection, name: str, *, wanted: bool, reset: bool) -> Account:
    """Ask an account for a second factor or no longer; with `reset` the one that it has is void."""
    account = find(connection, name)
    accounts.want_totp(connection, account.name, wanted=wanted)
    if reset:
        accounts.set_totp(connection, account.name, b"", account.totp_step)
        sessions.end_all(connection, account.name)
    return find(connection, account.name)


def add_token(connection: Connection, digest: bytes, row: ApiTokenRow) -> ApiTokenRow:
    """Keep an API token; AccessError for a name that was ever given."""
    named(row.name)
    _role_in(row.role, OF_TOKENS)
    if not row.made_at < row.expires_at <= row.made_at + LONGEST:
        raise UsageError(f"a token is good for 1 to {LONGEST.days} days")
    if not sessions.add_token(connection, digest, row):
        raise AccessError(f"there is or was a token {row.name}: choose another name")
    return row


def revoke_token(connection: Connection, name: str, now: datetime) -> str:
    """End a token; AccessError where there is none that could be ended."""
    if not sessions.revoke_token(connection, folded(name), now):
        raise AccessError(f"there is no token {name} that is still valid: `adt-engine users token list` shows them")
    return folded(name)


def named(name: str) -> str:
    """Return a name that can be given; UsageError for another."""
    if not is_name(folded(name)):
        raise UsageError(f"{name!r} cannot be a name: {RULE}")
    return folded(name)


def find(connection: Connection, name: str) -> Account:
    """Return an account that is not removed; AccessError for none."""
    account = accounts.find(connection, folded(name))
    if account is None or account.state is AccountState.REMOVED:
        raise AccessError(f"there is no account {name}: `adt-engine users list` shows them")
    return account


def _other(connection: Connection, name: str, actor: Actor) -> Account:
    """Return an account; ForbiddenOperationError where it is the asker's own."""
    account = find(connection, name)
    if actor.via == "page" and actor.name == account.name:
        raise ForbiddenOperationError("nobody changes their own role or state: ask another administrator")
    return account


def _keep_an_administrator(connection: Connection, account: Account, actor: Actor) -> None:
    """Raise AccessError where nobody could administer any more; the owner, at the terminal, still could."""
    if account.role == Role.ADMIN and actor.role is not Role.OWNER and not _administrators(connection):
        raise AccessError(f"{account.name} is the last administrator: make another one first")


def _administrators(connection: Connection) -> list[str]:
    """Return the accounts that administer and can log in."""
    return [
        account.name
        for account in accounts.all_accounts(connection)
        if account.role == Role.ADMIN and account.state is AccountState.ACTIVE and account.password
    ]


def _role_in(role: str, allowed: tuple[Role, ...]) -> None:
    if role not in allowed:
        raise UsageError(f"{role!r} is not one of the roles {', '.join(allowed)}")
