"""Operations on accounts and API tokens; a secret is in the answer once, and stored nowhere."""

import secrets
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, ClassVar, Final

from pydantic import Field

from engine.clock import now
from engine.database.connection import Connection
from engine.errors import ForbiddenOperationError, UsageError
from engine.journal.access import accounts, sessions
from engine.journal.access.accounts import Account, AccountState
from engine.journal.access.sessions import ApiTokenRow
from engine.ops.access import administration
from engine.ops.access.actor import Actor, Permission, folded
from engine.ops.access.entering import digest_of
from engine.ops.access.invitation import VALID_FOR, VALID_FOR_ACCOUNT
from engine.ops.audit.trail import Audited
from engine.ops.operations.fields import ChannelNames, Name, Switch, number
from engine.ops.operations.operation import Confirm, Operation, Request
from engine.ops.views.answer import Answer, Time, TimeInSeconds
from engine.pipeline.engine import Engine

TOKEN_BYTES: Final = 32
TOKEN_PREFIX: Final = "adt_"  # noqa: S105 - tells scanners for secrets what they found
USUAL_DAYS: Final = 90

Days = Annotated[int, number(1, administration.LONGEST.days), Audited.VALUE]


class Invitation(Answer):
    """A one-time token for an account; the first administrator chooses the name."""

    name: str
    token: str
    expires_at: Time


class AccountView(Answer):
    """An account; `password` says whether one is set."""

    name: str
    role: str
    state: AccountState
    second_factor: bool
    second_factor_wanted: bool
    password: bool
    made_at: TimeInSeconds
    made_by: str


class Named(Answer):
    """The account or token that was changed."""

    name: str


class NewToken(Answer):
    """A new token, shown once."""

    name: str
    token: str
    role: str
    channels: tuple[str, ...]
    expires_at: TimeInSeconds


class TokenView(Answer):
    """A token; without channels it is not limited to any."""

    name: str
    role: str
    channels: tuple[str, ...]
    made_at: TimeInSeconds
    made_by: str
    expires_at: TimeInSeconds
    used_at: TimeInSeconds | None
    revoked_at: TimeInSeconds | None


class OfAccount(Request):
    """An account or token by its name."""

    account: Name = Field(alias="name", description="Its name.")


class WithRole(OfAccount):
    """An account or token, and its role."""

    role: Name = Field(description="Its role.")


class SetUp(Operation[Invitation]):
    """Invite the first administrator (at the terminal only)."""

    name = "users.setup"
    permission = Permission.USERS
    confirm = Confirm.STEP_UP

    async def run(self, engine: Engine, actor: Actor) -> Invitation:
        """Return the invitation; AccessError where there is an administrator."""
        if actor.via != "socket":
            raise ForbiddenOperationError("the first administrator is invited at the terminal: adt-engine users setup")
        token, expires_at = secrets.token_urlsafe(TOKEN_BYTES), now() + VALID_FOR
        await engine.journal.write(partial(administration.invite_first, digest=digest_of(token), expires_at=expires_at))
        return Invitation(name="", token=token, expires_at=_seconds(expires_at))


class AddUser(WithRole, Operation[Invitation]):
    """Create an account, with a one-time token to set its password."""

    name = "users.add"
    permission = Permission.USERS
    confirm = Confirm.STEP_UP

    async def run(self, engine: Engine, actor: Actor) -> Invitation:
        """Return the invitation; AccessError for a name that was ever given."""
        token, moment = secrets.token_urlsafe(TOKEN_BYTES), now()

        def work(connection: Connection) -> str:
            made = administration.add(connection, self.account, self.role, actor, moment)
            accounts.invite(connection, digest_of(token), made.name, moment + VALID_FOR_ACCOUNT)
            return made.name

        made = await engine.journal.write(work)
        return Invitation(name=made, token=token, expires_at=_seconds(moment + VALID_FOR_ACCOUNT))


class ResetPassword(OfAccount, Operation[Invitation]):
    """Reset an account's password, with a one-time token to set a new one."""

    name = "users.password"
    permission = Permission.USERS
    confirm = Confirm.STEP_UP

    async def run(self, engine: Engine, _actor: Actor) -> Invitation:
        """Return the invitation."""
        token, moment = secrets.token_urlsafe(TOKEN_BYTES), now()
        until = moment + VALID_FOR_ACCOUNT
        work = partial(administration.invite, name=self.account, digest=digest_of(token), now=moment, expires_at=until)
        account = await engine.journal.write(work)
        return Invitation(name=account.name, token=token, expires_at=_seconds(until))


class ListUsers(Operation[list[AccountView]]):
    """List accounts."""

    name = "users.list"
    permission = Permission.USERS

    async def run(self, engine: Engine, _actor: Actor) -> list[AccountView]:
        """Return all accounts."""
        return [_account_view(one) for one in await engine.journal.read(accounts.all_accounts)]


class SetRole(WithRole, Operation[Named]):
    """Change an account's role; open sessions have it at once."""

    name = "users.role"
    permission = Permission.USERS
    confirm = Confirm.STEP_UP

    async def run(self, engine: Engine, actor: Actor) -> Named:
        """Return the account."""
        work = partial(administration.set_role, name=self.account, role=self.role, actor=actor)
        return Named(name=(await engine.journal.write(work)).name)


class _SetState(OfAccount, Operation[Named]):
    permission = Permission.USERS
    confirm = Confirm.STEP_UP
    state: ClassVar[AccountState]

    async def run(self, engine: Engine, actor: Actor) -> Named:
        """Return the account."""
        work = partial(administration.set_state, name=self.account, state=self.state, actor=actor)
        return Named(name=(await engine.journal.write(work)).name)


class DisableUser(_SetState):
    """Disable an account; its sessions end."""

    name = "users.disable"
    state = AccountState.DISABLED


class EnableUser(_SetState):
    """Enable a disabled account."""

    name = "users.enable"
    state = AccountState.ACTIVE


class RemoveUser(_SetState):
    """Remove an account; its name is never reused."""

    name = "users.remove"
    state = AccountState.REMOVED


class SetSecondFactor(OfAccount, Operation[Named]):
    """Require one-time codes of an account or no longer, or reset them."""

    name = "users.totp"
    permission = Permission.USERS
    confirm = Confirm.STEP_UP

    wanted: Switch = Field(default=False, description="Whether a second factor is required.")
    reset: Switch = Field(default=False, description="Reset it, if the phone is lost.")

    async def run(self, engine: Engine, _actor: Actor) -> Named:
        """Return the account."""
        work = partial(administration.set_totp, name=self.account, wanted=self.wanted, reset=self.reset)
        return Named(name=(await engine.journal.write(work)).name)


class AddToken(WithRole, Operation[NewToken]):
    """Create an API token, limited to `channels` where they are named."""

    name = "tokens.add"
    permission = Permission.USERS
    confirm = Confirm.STEP_UP

    channels: ChannelNames = Field((), description="Only for these channels.")
    days: Days = Field(USUAL_DAYS, description="How long it is valid.")

    async def run(self, engine: Engine, actor: Actor) -> NewToken:
        """Return the token; UsageError for a channel that is none."""
        if unknown := sorted(set(self.channels) - set(engine.feeds)):
            raise UsageError(f"there is no channel {unknown[0]}: `adt-engine channels list` shows them")
        moment = now()
        row = ApiTokenRow(
            folded(self.account), self.role, self.channels, moment, actor.name, moment + timedelta(days=self.days),
            None, None,
        )  # fmt: skip
        token = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        made = await engine.journal.write(partial(administration.add_token, digest=digest_of(token), row=row))
        return NewToken.of(made, token=token)


class ListTokens(Operation[list[TokenView]]):
    """List API tokens, without the secrets, which are not stored."""

    name = "tokens.list"
    permission = Permission.USERS

    async def run(self, engine: Engine, _actor: Actor) -> list[TokenView]:
        """Return all tokens."""
        return [TokenView.of(row) for row in await engine.journal.read(sessions.tokens)]


class RevokeToken(OfAccount, Operation[Named]):
    """Revoke an API token."""

    name = "tokens.revoke"
    permission = Permission.USERS
    confirm = Confirm.STEP_UP

    async def run(self, engine: Engine, _actor: Actor) -> Named:
        """Return the token's name."""
        work = partial(administration.revoke_token, name=self.account, now=now())
        return Named(name=await engine.journal.write(work))


def _account_view(account: Account) -> AccountView:
    return AccountView.of(
        account,
        second_factor=bool(account.totp),
        second_factor_wanted=account.totp_wanted,
        password=bool(account.password),
    )


def _seconds(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


ACCESS: Final = (
    SetUp, AddUser, ResetPassword, ListUsers, SetRole, DisableUser, EnableUser, RemoveUser, SetSecondFactor, AddToken,
    ListTokens, RevokeToken,
)  # fmt: skip
