"""A person at the chart pages: signs in by the service's own sign-in, follows redirects, keeps cookies, sends forms."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from engine.config.account import Client, Role, User
from engine.interchange.web.viewer.session import RETURN
from tests.interchange.browser import HASH, PASSWORD, USERS
from tests.interchange.kit import Inside, configuration, running_inside, secret_file

HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')
# Those that were opened: their connections are closed with the service.
BROWSERS: list[httpx.Client] = []
PEOPLE = {
    **USERS,
    "clerk": User(tenant="riverbend", role=Role.ADMINISTRATIVE, password_hash=HASH),
    "robot": User(tenant="riverbend", role=Role.SYSTEM_INTEGRATION, password_hash=HASH),
}


@contextmanager
def pages(folder: Path, **changes: Any) -> Iterator[Inside]:
    """Run a service whose chart pages let people of a tenant in."""
    known = configuration(secret_file(folder)).clients
    with running_inside(folder, clients=known, users=PEOPLE, **changes) as inside:
        register(inside, chart=viewer(inside, "riverbend"))
        try:
            yield inside
        finally:
            while BROWSERS:
                BROWSERS.pop().close()


def viewer(inside: Inside, tenant: str, **more: Any) -> Client:
    """Return the registration of the pages for a tenant: a public client that people are sent back to here."""
    settings: dict[str, Any] = {
        "tenant": tenant,
        "name": f"The chart of {tenant}",
        "grants": ("authorization_code",),
        "redirect_uris": (f"{inside.url}{RETURN}",),
        "scopes": ("user/*.*",),
    }
    return Client(**{**settings, **more})


def register(inside: Inside, **clients: Client) -> None:
    """Register clients whose addresses are known only now that the port is."""
    service = inside.app.service
    known = {**service.configuration.clients, **clients}
    service.configuration = service.configuration.model_copy(update={"clients": known})


class Person:
    """One person with a browser of their own, without scripts."""

    def __init__(self, inside: Inside, login: str = "dr.osei", *, signed_in: bool = True) -> None:
        self.inside = inside
        self.login = login
        self.http = httpx.Client(base_url=inside.url, follow_redirects=True, timeout=30, trust_env=False)
        # As a proxy does: what is addressed to the service's base reaches the port where it listens.
        self.http.event_hooks["request"] = [lambda asked: setattr(asked, "url", asked.url.copy_with(port=inside.port))]
        BROWSERS.append(self.http)
        if signed_in:
            answer = self.sign_in()
            assert answer.status_code == 200, answer.text

    def sign_in(self) -> httpx.Response:
        """Sign in from the first page on; return the page that follows."""
        page = self.open("/chart/sign-in")
        fields = {"username": self.login, "password": PASSWORD, "decision": "allow"}
        return self.http.post("/oauth/authorize", data={**hidden(page), **fields})

    def open(self, path: str) -> httpx.Response:
        """Open a page."""
        return self.http.get(path)

    def send(self, path: str, page: httpx.Response | None = None, **fields: str) -> httpx.Response:
        """Send a form with the hidden fields of a page, of the first one where none is given."""
        return self.http.post(path, data={**hidden(page or self.open("/chart")), **fields})


def hidden(page: httpx.Response) -> dict[str, str]:
    """Return the hidden fields of a page."""
    return {name: unescape(value) for name, value in HIDDEN.findall(page.text)}
