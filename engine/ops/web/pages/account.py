"""My account: who I am here, another password, one-time codes."""

from typing import Final

from starlette.responses import Response

from engine.ops.access.actor import PERMITTED
from engine.ops.access.session import LoginRefusal
from engine.ops.web.call import WebCall, go
from engine.ops.web.headers import SESSION
from engine.ops.web.route import Free, Route


async def _show(call: WebCall) -> Response:
    return call.page("account.html", alarm="", permissions=sorted(PERMITTED[call.by.role]))


async def _password(call: WebCall) -> Response:
    """Set another password; all other sessions of the account end."""
    old, new = call.form.get("old", ""), call.form.get("new", "")
    if new != call.form.get("again", ""):
        return _again(call, 422, "The two new passwords differ.")
    found = await call.context.access.change_password(call.cookie, old, new, call.address)
    if isinstance(found, LoginRefusal):
        return _again(call, 429 if found.wait_seconds else 403, found.text)
    answer = go("/account", "password")
    call.context.cookies.set(answer, SESSION, found.cookie)
    return answer


async def _codes(call: WebCall) -> Response:
    """Begin to set up one-time codes, for which the password must have been typed just now."""
    call.confirmed()
    return go("/second-factor")


def _again(call: WebCall, status: int, alarm: str) -> Response:
    return call.page("account.html", status, alarm=alarm, permissions=sorted(PERMITTED[call.by.role]))


ROUTES: Final = (
    Route("GET", "/account", Free.SIGNED_IN, _show),
    Route("POST", "/account/password", Free.SIGNED_IN, _password),
    Route("POST", "/account/codes", Free.SIGNED_IN, _codes),
)
