"""Login and logout of the pages, a client of the service's own sign-in (authorization code, PKCE)."""

import re
from collections.abc import Callable
from functools import partial
from hmac import compare_digest
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from engine.config.account import Client
from engine.interchange.core.service import Service
from engine.interchange.tokens.account import allowed_now
from engine.interchange.tokens.code import CodeExchange, challenge_of
from engine.interchange.tokens.scope import right
from engine.interchange.web.viewer.rendering import page, redirect
from engine.interchange.web.viewer.session import HOME, RETURN, Cookie, viewers

SIGN_IN_SECONDS: Final = 600
# The pending sign-in in a cookie: client, state and verifier, none with a blank.
UNDER_WAY: Final = re.compile(r"(\S+):([\w-]{20,}):([\w-]{43,})")
# Scopes that the pages do not use.
UNUSED: Final = frozenset({"offline_access", "openid", "profile", "fhirUser"})


class LoginFlow:
    """The login flow of the viewer."""

    def __init__(self, service: Service, new_secret: Callable[[], str], issued: Callable[[str], None]) -> None:
        self._service = service
        self._new_secret = new_secret
        self._issued = issued
        secure = service.configuration.base_url.startswith("https:")
        self.session = Cookie("chart", secure)
        self._under_way = Cookie("chart-sign-in", secure)

    async def leave(self, request: Request) -> Response:
        """Redirect to the sign-in, as the chosen client or the only one."""
        clients = viewers(self._service.configuration)
        name = request.query_params.get("client", "") or next(iter(clients), "")
        if name not in clients:
            return self.show("This sign-in is not there. Start again.", 404)
        state, verifier = self._new_secret(), self._new_secret() + self._new_secret()
        parameters = {
            "response_type": "code",
            "client_id": name,
            "redirect_uri": self._return,
            "scope": " ".join(_scopes(clients[name])),
            "state": state,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        answer = redirect(f"{self._service.configuration.token_url}/oauth/authorize?{urlencode(parameters)}")
        self._under_way.set(answer, f"{name}:{state}:{verifier}", SIGN_IN_SECONDS)
        return answer

    async def arrive(self, request: Request) -> Response:
        """Exchange the code, and begin a session."""
        known = UNDER_WAY.fullmatch(self._under_way.read(request))
        state, code = (request.query_params.get(name, "") for name in ("state", "code"))
        if known is None or not compare_digest(known[2].encode(), state.encode()):
            return self.show("This sign-in was begun in another browser, or too long ago. Please sign in again.", 400)
        client = viewers(self._service.configuration).get(known[1])
        if client is None or not code:
            return self.show("You were not signed in.", 403)
        version = self._service.tenant(client.tenant).rest_api_version
        left = partial(allowed_now, self._service.configuration)
        exchange = CodeExchange(known[1], self._return, known[3], version, left)
        exchanged = await self._service.codes.exchange(code, exchange)
        if exchanged is None:
            return self.show("The sign-in has expired. Please sign in again.", 400)
        self._issued("authorization_code")
        answer = redirect(self._home)
        self.session.set(answer, exchanged[0].access, exchanged[0].expires_in)
        self._under_way.drop(answer)
        return answer

    async def end(self, token: str) -> Response:
        """End a session and revoke its token."""
        await self._service.vault.revoke(token)
        answer = redirect(self._home)
        self.session.drop(answer)
        return answer

    def show(self, alarm: str = "", status: int = 200) -> Response:
        """Return the login page."""
        configuration = self._service.configuration
        clients = [(name, one.name or one.tenant) for name, one in viewers(configuration).items()]
        values = {"session": None, "prefix": configuration.path_prefix, "clients": clients, "alarm": alarm}
        return page("entrance.html", {**values, "address": self._return}, status)

    @property
    def _return(self) -> str:
        return f"{self._service.configuration.base_url}{RETURN}"

    @property
    def _home(self) -> str:
        return f"{self._service.configuration.path_prefix}{HOME}"


def _scopes(client: Client) -> tuple[str, ...]:
    return tuple(scope for scope in client.scopes if scope not in UNUSED and right(scope) is not None)
