"""Coming in, leaving and my account: set-up by a one-time token, log-in, second factor, password, log-out."""

import re
import secrets
from datetime import timedelta
from typing import Final

from starlette.responses import Response

from engine.ops.access.actor import PERMITTED, Permission
from engine.ops.access.entering import LoginRefusal, Session
from engine.ops.access.invitation import VALID_FOR, VALID_FOR_ACCOUNT
from engine.ops.web.call import WebCall, go
from engine.ops.web.headers import SESSION, VISITOR
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Free, Route
from engine.security.passwords import SHORTEST, SHORTEST_WITH_TOTP


async def _show(call: WebCall) -> Response:
    return await call.page("account.html", alarm="", permissions=sorted(PERMITTED[call.by.role]))


async def _password(call: WebCall) -> Response:
    """Set another password; all other sessions of the account end."""
    old, new = call.form.get("old", ""), call.form.get("new", "")
    if new != call.form.get("again", ""):
        return await _again(call, 422, "The two new passwords differ.")
    found = await call.context.access.change_password(call.cookie, old, new, call.address)
    if isinstance(found, LoginRefusal):
        return await _again(call, 429 if found.wait_seconds else 403, found.text)
    answer = go("/account", "password")
    call.context.cookies.set(answer, SESSION, found.cookie)
    return answer


async def _codes(call: WebCall) -> Response:
    """Begin to set up one-time codes, for which the password must have been typed just now."""
    call.confirmed()
    return go("/second-factor")


async def _again(call: WebCall, status: int, alarm: str) -> Response:
    return await call.page("account.html", status, alarm=alarm, permissions=sorted(PERMITTED[call.by.role]))


# What `users add` prints and `weakness` asks, as the set-up page says it.
RULES: Final = {
    "hours": VALID_FOR_ACCOUNT // timedelta(hours=1),
    "minutes": VALID_FOR // timedelta(minutes=1),
    "shortest": SHORTEST,
    "shortest_with_totp": SHORTEST_WITH_TOTP,
}
# Where to go after the log-in: a page of ours and nothing else.
_PLACE: Final = re.compile(r"/[a-z0-9-]+(/[a-z0-9-]+)*")


async def _show_log_in(call: WebCall) -> Response:
    if call.actor is not None:
        return go("/")
    return await _for_visitor(call, "log_in.html", to=call.asked("to"), name="", alarm="")


async def _log_in(call: WebCall) -> Response:
    name, to = call.form.get("name", ""), call.form.get("to", "")
    old = call.context.cookies.read(call.request, SESSION)
    found = await call.context.access.log_in(
        name, call.form.get("password", ""), call.form.get("totp", ""), call.address, old
    )
    if isinstance(found, LoginRefusal):
        answer = await _for_visitor(call, "log_in.html", _status(found), to=to, name=name, alarm=_sentence(found))
        return _with_wait(answer, found)
    return _enter(call, found, to if _PLACE.fullmatch(to) else "/")


async def _show_set_up(call: WebCall) -> Response:
    return await _for_visitor(call, "set_up.html", token=call.asked("token"), name=call.asked("name"), alarm="")


async def _set_up(call: WebCall) -> Response:
    token, name, password = (call.form.get(field, "") for field in ("token", "name", "password"))
    if password != call.form.get("again", ""):
        alarm = "The two passwords differ."
        return await _for_visitor(call, "set_up.html", 422, token=token, name=name, alarm=alarm)
    refusal = await call.context.access.setup(token, name, password, call.address)
    if refusal is not None:
        answer = await _for_visitor(
            call, "set_up.html", _status(refusal), token=token, name=name, alarm=_sentence(refusal)
        )
        return _with_wait(answer, refusal)
    found = await call.context.access.log_in(name, password, "", call.address)
    return go("/log-in") if isinstance(found, LoginRefusal) else _enter(call, found, "/account")


async def _show_second_factor(call: WebCall) -> Response:
    offer = await call.context.access.enrolment(call.cookie) if call.cookie else None
    if offer is None:
        return go("/account" if call.actor is not None else "/log-in")
    return await call.page("second_factor.html", offer=offer, alarm="", required=call.actor is None)


async def _second_factor(call: WebCall) -> Response:
    found = await call.context.access.enrol(call.cookie, call.form.get("code", ""), call.address)
    if not isinstance(found, LoginRefusal):
        return _enter(call, found, "/account", "factor")
    offer = await call.context.access.enrolment(call.cookie)
    if offer is None:
        raise RefusedRequestError(_status(found), found.text)
    return await call.page(
        "second_factor.html", _status(found), offer=offer, alarm=_sentence(found), required=call.actor is None
    )


async def _log_out(call: WebCall) -> Response:
    if call.actor is not None:
        call.context.searches.forget(call.owner)
    await call.context.access.log_out(call.cookie, call.address)
    answer = go("/log-in", "signed-out")
    call.context.cookies.drop(answer, SESSION)
    return answer


def _enter(call: WebCall, session: Session, place: str, notice: str = "") -> Response:
    answer = go("/second-factor") if session.enrolling else go(place, notice)
    call.context.cookies.set(answer, SESSION, session.cookie)
    call.context.cookies.drop(answer, VISITOR)
    return answer


async def _for_visitor(call: WebCall, template: str, status: int = 200, **values: object) -> Response:
    """Answer with a form for somebody who is not signed in, bound to a cookie of the browser."""
    made = "" if call.cookie else secrets.token_urlsafe(24)
    call.cookie = call.cookie or made
    answer = await call.page(template, status, exposed=call.context.exposed, **RULES, **values)
    if made:
        call.context.cookies.set(answer, VISITOR, made)
    return answer


def _status(refusal: LoginRefusal) -> int:
    return 429 if refusal.wait_seconds else 403


def _sentence(refusal: LoginRefusal) -> str:
    return f"{refusal.text} Wait {refusal.wait_seconds} seconds." if refusal.wait_seconds else refusal.text


def _with_wait(answer: Response, refusal: LoginRefusal) -> Response:
    if refusal.wait_seconds:
        answer.headers["retry-after"] = str(refusal.wait_seconds)
    return answer


def home_of(call: WebCall) -> str:
    """Return the first page of the menu that who asks may see."""
    for route in call.context.routes:
        if route.label and isinstance(route.needs, Permission) and call.may(route.needs):
            return route.path
    return "/account"


ROUTES: Final = (
    Route("GET", "/log-in", Free.ANYBODY, _show_log_in),
    Route("POST", "/log-in", Free.ANYBODY, _log_in),
    Route("GET", "/set-up", Free.ANYBODY, _show_set_up),
    Route("POST", "/set-up", Free.ANYBODY, _set_up),
    Route("GET", "/second-factor", Free.ANYBODY, _show_second_factor),
    Route("POST", "/second-factor", Free.ANYBODY, _second_factor),
    Route("POST", "/log-out", Free.ANYBODY, _log_out),
    Route("GET", "/account", Free.SIGNED_IN, _show),
    Route("POST", "/account/password", Free.SIGNED_IN, _password),
    Route("POST", "/account/codes", Free.SIGNED_IN, _codes),
)
