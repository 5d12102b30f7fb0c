"""Accounts and API tokens: add, change, take back; what is secret is shown once."""

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from engine.ops.access.actor import Permission
from engine.ops.access.administration import OF_ACCOUNTS, OF_TOKENS
from engine.ops.operations.access import (
    AddToken,
    AddUser,
    DisableUser,
    EnableUser,
    Invitation,
    ListTokens,
    ListUsers,
    Named,
    NewToken,
    RemoveUser,
    ResetPassword,
    RevokeToken,
    SetRole,
    SetSecondFactor,
)
from engine.ops.operations.fields import digits_of
from engine.ops.operations.operation import Operation
from engine.ops.web.call import WebCall, form, go
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Route

# What a form may ask for an account, and the operation with which it is done.
CHANGES: Final[Mapping[str, type[Operation[Named]]]] = {
    "disable": DisableUser,
    "enable": EnableUser,
    "remove": RemoveUser,
    "want-codes": SetSecondFactor,
    "reset-codes": SetSecondFactor,
}


async def _add(call: WebCall) -> Response:
    made = await call.perform(AddUser, name=call.form.get("name", ""), role=call.form.get("role", ""))
    return await _page(call, invitation=made)


async def _password(call: WebCall) -> Response:
    made = await call.perform(ResetPassword, name=call.form.get("name", ""))
    return await _page(call, invitation=made)


async def _change(call: WebCall) -> Response:
    wanted = call.form.get("change", "")
    if wanted not in CHANGES:
        raise RefusedRequestError(400, "there is no such change")
    given: dict[str, object] = {"name": call.form.get("name", "")}
    if wanted == "want-codes":
        given["wanted"] = True
    if wanted == "reset-codes":
        given["reset"] = True
    await call.perform(CHANGES[wanted], **given)
    return go("/users", "account")


async def _add_token(call: WebCall) -> Response:
    channels = [name for name in sorted(call.context.engine.feeds) if call.form.get(f"channel-{name}") == "yes"]
    days = call.form.get("days", "")
    if digits_of(days) is None:
        raise RefusedRequestError(422, "say for how many days")
    given = {"name": call.form.get("name", ""), "role": call.form.get("role", ""), "days": digits_of(days)}
    made = await call.perform(AddToken, **given, channels=channels)
    return await _page(call, token=made)


async def _page(call: WebCall, invitation: Invitation | None = None, token: NewToken | None = None) -> Response:
    users, tokens = await asyncio.gather(call.perform(ListUsers), call.perform(ListTokens))
    link = _link(call, invitation) if invitation else ""
    return await call.page(
        "users.html", users=users, tokens=tokens, invitation=invitation, link=link, token=token, roles=OF_ACCOUNTS,
        token_roles=OF_TOKENS, channels=sorted(call.context.engine.feeds),
    )  # fmt: skip


def _link(call: WebCall, invitation: Invitation) -> str:
    query = urlencode({"name": invitation.name, "token": invitation.token})
    return f"{call.request.url.scheme}://{call.request.headers['host']}/set-up?{query}"


ROUTES: Final = (
    Route("GET", "/users", Permission.USERS, _page, label="Users"),
    Route("POST", "/users/add", Permission.USERS, _add),
    Route("POST", "/users/password", Permission.USERS, _password),
    form("/users/role", SetRole, "name", "role", to="/users", notice="account"),
    Route("POST", "/users/change", Permission.USERS, _change),
    Route("POST", "/tokens/add", Permission.USERS, _add_token),
    form("/tokens/revoke", RevokeToken, "name", to="/users", notice="account"),
)
