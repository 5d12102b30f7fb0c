"""Acts on accounts and API tokens; what is secret is in the answer once, and kept nowhere.

    users.setup     {} -> INVITATION for the first administrator, who chooses the name
    users.add       {"name", "role"} -> INVITATION
    users.password  {"name"} -> INVITATION: a new password is chosen with it, the one so far is void
    users.list      {} -> [{"name", "role", "state", "second_factor", "second_factor_wanted", "password": set or not,
                    "made_at", "made_by"}]
    users.role      {"name", "role"} · users.disable · users.enable · users.remove {"name"} -> {"name"}
    users.totp      {"name", "wanted": true | false, "reset": true | false} -> {"name"}
    tokens.add      {"name", "role", "channels": [...], "days": 90}
                    -> {"name", "token", "role", "channels", "expires_at"}
    tokens.list     {} -> [{"name", "role", "channels", "made_at", "made_by", "expires_at", "used_at", "revoked_at"}]
    tokens.revoke   {"name"} -> {"name"}

INVITATION: {"name", "token", "expires_at"}; the token is good once.
"""

import secrets
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from engine.errors import ForbiddenActError, UsageError
from engine.journal.access import accounts, sessions
from engine.journal.access.accounts import AccountState
from engine.journal.access.sessions import TokenRow
from engine.ops.access import administration
from engine.ops.access.entering import digest_of
from engine.ops.access.invitation import VALID_FOR, VALID_FOR_ACCOUNT
from engine.ops.access.naming import folded
from engine.ops.access.role import Permission
from engine.ops.operations.act import Act, Actor, Given
from engine.ops.request import number_in
from engine.pipeline.engine import Engine, now
from engine.sqlite import Connection

TOKEN_BYTES: Final = 32
TOKEN_PREFIX: Final = "adt_"  # noqa: S105 - tells scanners for secrets what they found
USUAL_DAYS: Final = 90


async def _setup(engine: Engine, actor: Actor, _given: Given) -> Any:
    if actor.via != "socket":
        raise ForbiddenActError("the first administrator is invited at the terminal: adt-engine users setup")
    token, expires_at = secrets.token_urlsafe(TOKEN_BYTES), now() + VALID_FOR
    await engine.journal.write(partial(administration.invite_first, digest=digest_of(token), expires_at=expires_at))
    return _invitation("", token, expires_at)


async def _add(engine: Engine, actor: Actor, given: Given) -> Any:
    name, role, token = _text(given, "name"), _text(given, "role"), secrets.token_urlsafe(TOKEN_BYTES)
    moment = now()

    def work(connection: Connection) -> str:
        made = administration.add(connection, name, role, actor, moment)
        accounts.invite(connection, digest_of(token), made.name, moment + VALID_FOR_ACCOUNT)
        return made.name

    made = await engine.journal.write(work)
    return _invitation(made, token, moment + VALID_FOR_ACCOUNT)


async def _password(engine: Engine, _actor: Actor, given: Given) -> Any:
    token, moment = secrets.token_urlsafe(TOKEN_BYTES), now()
    until = moment + VALID_FOR_ACCOUNT
    work = partial(
        administration.invite, name=_text(given, "name"), digest=digest_of(token), now=moment, expires_at=until
    )
    account = await engine.journal.write(work)
    return _invitation(account.name, token, until)


async def _list(engine: Engine, _actor: Actor, _given: Given) -> Any:
    return [
        {
            "name": account.name,
            "role": account.role,
            "state": account.state.value,
            "second_factor": bool(account.totp),
            "second_factor_wanted": account.totp_wanted,
            "password": bool(account.password),
            "made_at": account.made_at.isoformat(timespec="seconds"),
            "made_by": account.made_by,
        }
        for account in await engine.journal.read(accounts.all_accounts)
    ]


async def _role(engine: Engine, actor: Actor, given: Given) -> Any:
    name, role = _text(given, "name"), _text(given, "role")
    account = await engine.journal.write(partial(administration.set_role, name=name, role=role, actor=actor))
    return {"name": account.name}


async def _set_state(engine: Engine, actor: Actor, given: Given, state: AccountState) -> Any:
    work = partial(administration.set_state, name=_text(given, "name"), state=state, actor=actor)
    return {"name": (await engine.journal.write(work)).name}


async def _totp(engine: Engine, _actor: Actor, given: Given) -> Any:
    wanted, reset = bool(given.get("wanted")), bool(given.get("reset"))
    work = partial(administration.set_totp, name=_text(given, "name"), wanted=wanted, reset=reset)
    return {"name": (await engine.journal.write(work)).name}


async def _add_token(engine: Engine, actor: Actor, given: Given) -> Any:
    channels, moment = given.get("channels") or [], now()
    days = number_in(given, "days", USUAL_DAYS, 1, administration.LONGEST.days)
    if not isinstance(channels, list) or not all(isinstance(one, str) for one in channels):
        raise UsageError("channels is a list of names")
    if unknown := sorted(set(channels) - set(engine.feeds)):
        raise UsageError(f"there is no channel {unknown[0]}: `adt-engine channels list` shows them")
    row = TokenRow(
        folded(_text(given, "name")), _text(given, "role"), tuple(channels), moment, actor.name,
        moment + timedelta(days=days), None, None,
    )  # fmt: skip
    token = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    made = await engine.journal.write(partial(administration.add_token, digest=digest_of(token), row=row))
    return {
        "name": made.name,
        "token": token,
        "role": made.role,
        "channels": list(made.channels),
        "expires_at": made.expires_at.isoformat(timespec="seconds"),
    }


async def _tokens(engine: Engine, _actor: Actor, _given: Given) -> Any:
    def told(moment: Any) -> str | None:
        return None if moment is None else moment.isoformat(timespec="seconds")

    return [
        {
            "name": row.name,
            "role": row.role,
            "channels": list(row.channels),
            "made_at": told(row.made_at),
            "made_by": row.made_by,
            "expires_at": told(row.expires_at),
            "used_at": told(row.used_at),
            "revoked_at": told(row.revoked_at),
        }
        for row in await engine.journal.read(sessions.tokens)
    ]


async def _revoke(engine: Engine, _actor: Actor, given: Given) -> Any:
    name = _text(given, "name")
    return {"name": await engine.journal.write(partial(administration.revoke_token, name=name, now=now()))}


def _invitation(name: str, token: str, expires_at: datetime) -> dict[str, str]:
    return {"name": name, "token": token, "expires_at": expires_at.isoformat(timespec="seconds")}


def _text(given: Given, name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{name} is missing")
    return value


ACCESS: Final = (
    Act("users.setup", Permission.USERS, _setup),
    Act("users.add", Permission.USERS, _add),
    Act("users.password", Permission.USERS, _password),
    Act("users.list", Permission.USERS, _list),
    Act("users.role", Permission.USERS, _role),
    Act("users.disable", Permission.USERS, partial(_set_state, state=AccountState.DISABLED)),
    Act("users.enable", Permission.USERS, partial(_set_state, state=AccountState.ACTIVE)),
    Act("users.remove", Permission.USERS, partial(_set_state, state=AccountState.REMOVED)),
    Act("users.totp", Permission.USERS, _totp),
    Act("tokens.add", Permission.USERS, _add_token),
    Act("tokens.list", Permission.USERS, _tokens),
    Act("tokens.revoke", Permission.USERS, _revoke),
)
