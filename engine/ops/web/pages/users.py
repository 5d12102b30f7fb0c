"""Accounts and API tokens: add, change, take back; what is secret is shown once."""

import asyncio
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from engine.ops.access.administration import OF_ACCOUNTS, OF_TOKENS
from engine.ops.access.role import Permission
from engine.ops.request import digits_of
from engine.ops.web.call import Call, go
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Route

# What a form may ask for an account, and the act with which it is done.
CHANGES: Final = {
    "disable": "users.disable",
    "enable": "users.enable",
    "remove": "users.remove",
    "want-codes": "users.totp",
    "reset-codes": "users.totp",
}


async def _list(call: Call) -> Response:
    return await _page(call)


async def _add(call: Call) -> Response:
    made = await call.perform("users.add", name=call.form.get("name", ""), role=call.form.get("role", ""))
    return await _page(call, invitation=made)


async def _password(call: Call) -> Response:
    made = await call.perform("users.password", name=call.form.get("name", ""))
    return await _page(call, invitation=made)


async def _role(call: Call) -> Response:
    await call.perform("users.role", name=call.form.get("name", ""), role=call.form.get("role", ""))
    return go("/users", "account")


async def _change(call: Call) -> Response:
    wanted = call.form.get("change", "")
    if wanted not in CHANGES:
        raise RefusedRequestError(400, "there is no such change")
    given: dict[str, Any] = {"name": call.form.get("name", "")}
    if wanted == "want-codes":
        given["wanted"] = True
    if wanted == "reset-codes":
        given["reset"] = True
    await call.perform(CHANGES[wanted], **given)
    return go("/users", "account")


async def _add_token(call: Call) -> Response:
    channels = [name for name in sorted(call.desk.engine.feeds) if call.form.get(f"channel-{name}") == "yes"]
    days = call.form.get("days", "")
    if digits_of(days) is None:
        raise RefusedRequestError(422, "say for how many days")
    given = {"name": call.form.get("name", ""), "role": call.form.get("role", ""), "days": digits_of(days)}
    return await _page(call, token=await call.perform("tokens.add", **given, channels=channels))


async def _revoke(call: Call) -> Response:
    await call.perform("tokens.revoke", name=call.form.get("name", ""))
    return go("/users", "account")


async def _page(call: Call, invitation: Any = None, token: Any = None) -> Response:
    users, tokens = await asyncio.gather(call.perform("users.list"), call.perform("tokens.list"))
    link = _link(call, invitation) if invitation else ""
    return call.page(
        "users.html", users=users, tokens=tokens, invitation=invitation, link=link, token=token, roles=OF_ACCOUNTS,
        token_roles=OF_TOKENS, channels=sorted(call.desk.engine.feeds),
    )  # fmt: skip


def _link(call: Call, invitation: Any) -> str:
    query = urlencode({"name": invitation["name"], "token": invitation["token"]})
    return f"{call.request.url.scheme}://{call.request.headers['host']}/set-up?{query}"


ROUTES: Final = (
    Route("GET", "/users", Permission.USERS, _list, label="Users"),
    Route("POST", "/users/add", Permission.USERS, _add),
    Route("POST", "/users/password", Permission.USERS, _password),
    Route("POST", "/users/role", Permission.USERS, _role),
    Route("POST", "/users/change", Permission.USERS, _change),
    Route("POST", "/tokens/add", Permission.USERS, _add_token),
    Route("POST", "/tokens/revoke", Permission.USERS, _revoke),
)
