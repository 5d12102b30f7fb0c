"""A person at a browser: opens the sign-in of a running service, fills its form, and follows no redirect."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
from argon2 import PasswordHasher

from engine.config.account import Client, Role, User
from engine.config.secret import Secret
from engine.interchange.tokens.code import challenge_of
from tests.interchange.kit import Running

PASSWORD = "correct horse battery"
# Cheap on purpose: the cost stands in the hash.
HASH = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
VERIFIER = "a-verifier-of-the-tests_0123456789.~abcdefghij"
CHALLENGE = challenge_of(VERIFIER)
BACK = "https://portal.example/back"
USERS = {
    "dr.osei": User(tenant="riverbend", role=Role.PHYSICIAN, password_hash=HASH, name="Ama Osei"),
    "nurse.lind": User(tenant="riverbend", role=Role.NURSE, password_hash=HASH),
    "away": User(tenant="lakeside", role=Role.PHYSICIAN, password_hash=HASH),
    "nobody": User(tenant="riverbend", role=Role.PHYSICIAN, password_hash="!"),
}


def portal(held: Secret, **changes: Any) -> Client:
    """Return a client that holds a secret and sends people to sign in."""
    settings: dict[str, Any] = {
        "tenant": "riverbend",
        "secret": held,
        "name": "<b>Portal</b> & Co",
        "uri": "https://portal.example",
        "redirect_uris": (BACK, f"{BACK}?site=1"),
        "grants": ("authorization_code", "client_credentials", "refresh_token"),
        "scopes": ("user/.", "offline_access"),
        "role": Role.PHYSICIAN,
    }
    return Client(**{**settings, **changes})


@dataclass
class Page:
    """A page that was shown: its answer, the hidden fields of its form, and where the form goes."""

    answer: httpx.Response
    hidden: dict[str, str] = field(default_factory=dict)
    action: str = ""


class _Form(HTMLParser):
    """Finds the form of a page and its hidden fields."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: dict[str, str] = {}
        self.action = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a form's address and its hidden fields."""
        given = dict(attrs)
        if tag == "form":
            self.action = given["action"] or ""
        if tag == "input" and given.get("type") == "hidden":
            self.hidden[given["name"] or ""] = given["value"] or ""


class Browser:
    """One browser with its own cookies."""

    def __init__(self, service: Running, user: str = "dr.osei", password: str = PASSWORD) -> None:
        self.service = service
        self.user = user
        self.password = password
        self.cookie = ""

    def open(self, **parameters: str | list[str]) -> Page:
        """Open the sign-in as the portal asks for it; a parameter given as '-' is left out, as a list is repeated."""
        asked = {"response_type": "code", "client_id": "portal", "redirect_uri": BACK, "state": "st", "scope": "user/."}
        query = {name: value for name, value in {**asked, **parameters}.items() if value != "-"}
        return self.visit(f"{self.service.url}/oauth/authorize", params=query)

    def visit(self, url: str, **more: Any) -> Page:
        """Open a URL, such as one that an app sends its user to."""
        return self._ask("GET", url, **more)

    def send(self, page: Page, **fields: str) -> Page:
        """Send the form of a page, filled in; fields that are given take the place of its own."""
        filled = {**page.hidden, "username": self.user, "password": self.password, "decision": "allow", **fields}
        return self._ask("POST", f"{self.service.url}{page.action}", data=filled)

    def code(self, **parameters: str | list[str]) -> str:
        """Sign in, allow what is asked for, and return the code that the client gets."""
        answer = self.send(self.open(**parameters)).answer
        assert answer.status_code == 302, answer.text
        return sent_back(answer)["code"]

    def _ask(self, method: str, url: str, **more: Any) -> Page:
        answer = self.service.http.request(method, url, headers={"cookie": self.cookie}, **more)
        # The connections are shared, the cookies are not.
        self.service.http.cookies.clear()
        self.cookie = answer.headers.get("set-cookie", self.cookie).partition(";")[0]
        found = _Form()
        found.feed(answer.text)
        return Page(answer, found.hidden, found.action)


def sent_back(answer: httpx.Response, address: str = BACK) -> dict[str, str]:
    """Return what a redirect tells the client; it must go to this address."""
    assert answer.status_code == 302, answer.text
    location = answer.headers["location"]
    assert location.startswith(address + ("&" if "?" in address else "?")), location
    return dict(parse_qsl(urlsplit(location).query))
