"""Somebody at a browser, as far as HTTP goes: cookies, forms with their tokens, what a browser says of an origin."""

import html
import re
import ssl
from collections.abc import Mapping
from typing import Any, Final

import httpx

from tests.interchange.process import TRUST

PASSWORD: Final = "a long word of Ann's, and another"
_TOKEN: Final = re.compile(r'name="csrf" value="([^"]*)"')
OURS: Final = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate"}


class Person:
    """One browser; `page` is what it was shown last."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        """Open a browser; with a context it comes over TLS."""
        self.port = port
        self.base = f"{'https' if context else 'http'}://127.0.0.1:{port}"
        self.cookie = "__Host-sid" if context else f"sid-{port}"
        self.http = httpx.AsyncClient(base_url=self.base, timeout=60, trust_env=False, verify=context or TRUST)
        self.page = ""

    async def close(self) -> None:
        """Close the browser."""
        await self.http.aclose()

    @property
    def csrf(self) -> str:
        """The token of the forms on the page shown last."""
        found = _TOKEN.search(self.page)
        assert found, "the page has no form"
        return html.unescape(found[1])

    @property
    def session(self) -> str:
        """The value of the session's cookie, '' for none."""
        return self.http.cookies.get(self.cookie, "")

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """Open a page."""
        answer = await self.http.get(path, headers=headers)
        if answer.headers.get("content-type", "").startswith("text/html"):
            self.page = answer.text
        return answer

    async def post(self, path: str, form: Mapping[str, Any] | None = None, **headers: str) -> httpx.Response:
        """Send a form of the page shown last; what comes back is shown, but no redirect is followed."""
        fields = {"csrf": self.csrf, **(form or {})}
        answer = await self.http.post(path, data=fields, headers={**OURS, **headers})
        if answer.status_code != 303 and answer.headers.get("content-type", "").startswith("text/html"):
            self.page = answer.text
        return answer

    async def set_up(self, token: str, name: str, password: str = PASSWORD) -> httpx.Response:
        """Choose a password by a one-time token, and be logged in."""
        await self.get("/set-up")
        answer = await self.post("/set-up", {"token": token, "name": name, "password": password, "again": password})
        await self.get("/account")
        return answer

    async def log_in(self, name: str, password: str = PASSWORD, totp: str = "") -> httpx.Response:
        """Log in."""
        await self.get("/log-in")
        return await self.post("/log-in", {"name": name, "password": password, "totp": totp, "to": ""})
