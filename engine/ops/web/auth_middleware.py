"""Who may come in: a caller is identified and permitted before anything it sent is read, and a form must be ours."""

from dataclasses import dataclass, replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from engine.errors import UnconfirmedOperationError
from engine.ops.access.actor import Permission
from engine.ops.access.entering import LoginRefusal
from engine.ops.web.body import read_form
from engine.ops.web.call import WebCall, WebContext
from engine.ops.web.headers import SESSION, VISITOR
from engine.ops.web.origin import FIELD, check_origin
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Authentication, Free, Route

PASSWORD: Final = "confirm_password"  # noqa: S105 - the name of a field
CODE: Final = "confirm_totp"
NAME: Final = "username"


class SignInNeededError(RefusedRequestError):
    """Nobody is signed in, and the page needs somebody."""

    def __init__(self) -> None:
        super().__init__(401, "log in first")


@dataclass(frozen=True, slots=True)
class AuthMiddleware:
    """Authenticates and authorises the request of one route, then calls its view."""

    context: WebContext
    route: Route

    async def answer(self, request: Request) -> Response:
        """Admit the caller and answer, or raise why not."""
        call = request.state.call = WebCall(request, self.context, self.route)
        await (self._know_bearer(call) if self.route.gate is Authentication.TOKEN else self._know_browser(call))
        if isinstance(self.route.needs, Permission) and not call.may(self.route.needs):
            raise RefusedRequestError(403, f"your role may not do this: it needs the permission {self.route.needs}")
        if call.may(Permission.METADATA) and self.route.gate is Authentication.SESSION and not is_stream(request):
            call.held = await self.context.tally.held(self.context.engine)
            call.pairs = await self.context.open_pairs.count(self.context.engine)
        if self.route.method != "GET" and self.route.gate is Authentication.SESSION:
            return await self._take(call)
        return await self.route.view(call)

    async def _take(self, call: WebCall) -> Response:
        """Answer a form that is ours; where what it asks for needs the password once more, ask for that."""
        check_origin(call.request.headers, call.request.url.scheme)
        call.form = await read_form(call.request)
        if not call.cookie or not self.context.access.keys.is_csrf(call.cookie, call.form.get(FIELD, "")):
            raise RefusedRequestError(403, "the form does not belong to this session: open the page again")
        if call.form.get(PASSWORD) and call.actor is not None and not call.actor.confirmed:
            refusal = await self._confirm(call)
            if refusal is not None:
                return await _ask_again(call, 429 if refusal.wait_seconds else 403, refusal.text)
        try:
            answer = await self.route.view(call)
        except UnconfirmedOperationError:
            answer = await _ask_again(call, 403, "")
        if call.renewed:
            self.context.cookies.set(answer, SESSION, call.renewed)
        return answer

    async def _know_browser(self, call: WebCall) -> None:
        access, request = self.context.access, call.request
        cookie = self.context.cookies.read(request, SESSION)
        if cookie:
            call.cookie = cookie
            call.actor = await access.session_of(cookie, call.address, touch=not is_stream(request))
        elif self.route.needs is Free.ANYBODY:
            call.cookie = self.context.cookies.read(request, VISITOR)
        if call.actor is None and self.route.needs is not Free.ANYBODY:
            raise SignInNeededError

    async def _know_bearer(self, call: WebCall) -> None:
        if self.route.needs is Free.ANYBODY:
            return
        scheme, _, token = call.request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise RefusedRequestError(401, "send a token: Authorization: Bearer TOKEN")
        call.actor = await self.context.access.actor_of(token.strip(), call.address)
        if call.actor is None:
            raise RefusedRequestError(401, "the token is unknown, expired or revoked")

    async def _confirm(self, call: WebCall) -> LoginRefusal | None:
        """Check the password that came with the form; the session goes on under a new cookie."""
        found = await self.context.access.confirm(
            call.cookie, call.form[PASSWORD], call.form.get(CODE, ""), call.address
        )
        if isinstance(found, LoginRefusal):
            return found
        call.cookie = call.renewed = found.cookie
        call.actor = replace(call.by, confirmed=True)
        return None


async def _ask_again(call: WebCall, status: int, alarm: str) -> Response:
    """Ask for the password and send the same form again with it."""
    fields = {name: value for name, value in call.form.items() if name not in {FIELD, PASSWORD, CODE, NAME}}
    return await call.page("confirm.html", status, fields=fields, alarm=alarm, action=call.request.url.path)


def is_stream(request: Request) -> bool:
    """Say whether a request is one that a page makes by itself: it keeps no session alive."""
    return is_stream_at(request.url.path)


def is_stream_at(path: str) -> bool:
    """Say whether an address is of a stream."""
    return path.startswith("/live/")
