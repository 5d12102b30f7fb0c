"""GET and POST /oauth/authorize: people sign in, allow or cancel, and are sent back to the client."""

import asyncio
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.interchange.http.tokens import read_form
from engine.interchange.oauth.attempts import Attempts
from engine.interchange.oauth.authorize import Asked, Pairs, SentBackError, UnknownCallerError, read_request
from engine.interchange.oauth.endpoint import parse_fields, read_pairs
from engine.interchange.oauth.fault import OAuthError
from engine.interchange.oauth.page import Form, message_page, security_policy, sign_in_page
from engine.interchange.oauth.password import NOBODY, is_password
from engine.interchange.outcome import RefusedError
from engine.interchange.search.seal import seal, unseal
from engine.interchange.service import Service
from engine.interchange.store.transaction import milliseconds
from engine.telemetry import logger

PATH: Final = "/oauth/authorize"
COOKIE: Final = re.compile(r"[A-Za-z0-9_-]{20,64}")
# Each check of a password takes 64 MiB.
CHECKS_AT_ONCE: Final = 2
FORM_LIFETIME_MS: Final = 600_000
WRONG: Final = "User name or password is wrong."
STALE: Final = "This page was open for too long, or in another browser. Please sign in again."
PRIVATE: Final = {"referrer-policy": "no-referrer", "pragma": "no-cache"}


class SignIn:
    """The sign-in of one service; `new_secret` makes what nobody can guess."""

    def __init__(self, service: Service, new_secret: Callable[[], str]) -> None:
        self._service = service
        self._new_secret = new_secret
        self._attempts = Attempts(service.clock)
        self._checks = asyncio.Semaphore(CHECKS_AT_ONCE)

    def routes(self) -> list[Route]:
        """Return the routes of the sign-in."""
        return [Route(PATH, self._show, methods=["GET"]), Route(PATH, self._decide, methods=["POST"])]

    async def _show(self, request: Request) -> Response:
        try:
            asked = self._asked(read_pairs(request.scope["query_string"].decode("latin-1")))
        except (UnknownCallerError, SentBackError, ValueError) as error:
            return _refused(error)
        login = self._service.configuration.auth.auto_login_user
        if not login:
            return self._form(request, asked, 200)
        if self._service.configuration.users[login].tenant != asked.client.tenant:
            return _redirect(asked.refusal("access_denied", "The user is of another organization."))
        return await self._allow(asked, login)

    async def _decide(self, request: Request) -> Response:
        try:
            fields = parse_fields(request.headers.get("content-type", ""), await read_form(request))
            asked = self._asked(read_pairs(fields.get("request", "")))
        except (UnknownCallerError, SentBackError, OAuthError, ValueError) as error:
            return _refused(error)
        login, decision = fields.get("username", "").strip(), fields.get("decision")
        if not self._sealed(self._browser(request), asked, fields.get("seal", "")):
            return self._form(request, asked, 400, login, STALE)
        if decision == "cancel":
            return _redirect(asked.refusal("access_denied", "The user has cancelled."))
        address = request.client.host if request.client else ""
        wait = self._attempts.begin(login, address)
        if wait:
            logger().warning("sign-in refused", client=asked.client_id, reason="throttled")
            alarm = f"Too many attempts. Please wait {-(-wait // 60)} minutes, then try again."
            return self._form(request, asked, 429, login, alarm, {"retry-after": str(wait)})
        if not await self._is_user(asked, login, fields.get("password", "")):
            logger().warning("sign-in refused", client=asked.client_id, reason="password")
            return self._form(request, asked, 403, login, WRONG)
        self._attempts.succeed(login, address)
        return await self._allow(asked, login)

    def _asked(self, pairs: Pairs) -> Asked:
        return read_request(self._service.configuration, pairs)

    async def _allow(self, asked: Asked, login: str) -> Response:
        return _redirect(asked.answer(code=await self._service.codes.issue(asked.allowed_by(login))))

    async def _is_user(self, asked: Asked, login: str, password: str) -> bool:
        """Say whether a password is a user's of the client's tenant; takes as long for one that is unknown."""
        user = self._service.configuration.users.get(login)
        known = user is not None and user.tenant == asked.client.tenant and user.may_sign_in
        hashed = user.password_hash if user is not None and known else NOBODY
        async with self._checks:
            right = await asyncio.to_thread(is_password, hashed, password)
        return known and right

    def _form(
        self,
        request: Request,
        asked: Asked,
        status: int,
        login: str = "",
        alarm: str = "",
        headers: dict[str, str] | None = None,
    ) -> Response:
        browser = self._browser(request) or self._new_secret()
        form = Form(
            action=f"{urlsplit(self._service.configuration.token_url).path}{PATH}",
            application=asked.client.name or asked.client_id,
            scopes=tuple(asked.scope.split()),
            hidden={"request": asked.text, "seal": self._seal(browser, asked)},
            login=login,
            alarm=alarm,
        )
        answer = _page(sign_in_page(form), status, asked.redirect_uri, headers or {})
        # Lax: it comes along when the client sends the person here, and not with a form of another site.
        answer.set_cookie(self._cookie, browser, path="/", secure=self._secure, httponly=True, samesite="lax")
        return answer

    def _seal(self, browser: str, asked: Asked) -> str:
        """Return what says that this service made the form, for this browser and this request, just now."""
        until = milliseconds(self._service.clock()) + FORM_LIFETIME_MS
        return seal(self._service.seal_secret, _bound(browser, asked), (), until)

    def _sealed(self, browser: str, asked: Asked, text: str) -> bool:
        now = milliseconds(self._service.clock())
        try:
            unseal(self._service.seal_secret, _bound(browser, asked), text, now, "")
        except RefusedError:
            return False
        return bool(browser)

    def _browser(self, request: Request) -> str:
        """Return by what a browser is known, '' where it is not."""
        found = request.cookies.get(self._cookie, "")
        return found if COOKIE.fullmatch(found) else ""

    @property
    def _secure(self) -> bool:
        return self._service.configuration.token_url.startswith("https:")

    @property
    def _cookie(self) -> str:
        # `__Host-`: no other host below the same domain can set it.
        return "__Host-sign-in" if self._secure else "sign-in"


def _bound(browser: str, asked: Asked) -> tuple[str, ...]:
    return "sign-in", browser, asked.text


def _refused(error: Exception) -> Response:
    if isinstance(error, SentBackError):
        return _redirect(error.location)
    text = str(error) if isinstance(error, UnknownCallerError) else "The request cannot be read."
    logger().warning("sign-in refused", reason="request", error=text)
    return _page(message_page("You cannot sign in from here", text), 400, "", {})


def _redirect(location: str) -> Response:
    return Response(b"", 302, {**PRIVATE, "location": location})


def _page(text: str, status: int, redirect_uri: str, headers: dict[str, str]) -> Response:
    policy = {"content-security-policy": security_policy(redirect_uri), "x-frame-options": "DENY"}
    return Response(text, status, {**PRIVATE, **policy, **headers}, "text/html")
