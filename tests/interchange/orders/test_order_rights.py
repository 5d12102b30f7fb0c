"""Who may order: a token for one patient orders for that one, and `place_orders` opens what it names."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from engine.config.account import Client, Role
from engine.config.secret import Secret
from tests.interchange.browser import USERS
from tests.interchange.jobs import until
from tests.interchange.kit import SECRET, Running, issue, running, secret_file
from tests.interchange.orders.ordering import ASYNC, clinic, status_of
from tests.interchange.test_patient_context import App, clients


def placer(folder: Path) -> Client:
    """Return a client that may order, and nothing else."""
    held = Secret(file=str(secret_file(folder)))
    return Client(tenant="riverbend", secret=held, scopes=("place_orders",), role=Role.NURSE)


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with apps whose tokens are for one patient."""
    folder = tmp_path_factory.mktemp("portal")
    with running(folder, clients={**clients(folder), "placer": placer(folder)}, users=USERS) as found:
        yield found


def ended(app: App, answer: httpx.Response) -> httpx.Response:
    """Return what the handle answers in the end."""
    assert answer.status_code == 202, answer.text
    handle = urlsplit(answer.headers["location"]).path
    until(lambda: app.ask("GET", handle).status_code != 202)
    return app.ask("GET", handle)


def test_an_app_orders_for_its_patient(portal: Running, base: str) -> None:
    """C-400, C-416, N-168: by handles, too; for another patient, or of another's tests, it orders nothing."""
    mine, other = clinic(portal, base), clinic(portal, base)
    app, stranger = App(portal, mine.patient), App(portal, other.patient)
    asked = app.ask("POST", f"{base}/RequestGroup", mine.order(), **ASYNC)
    draft = ended(app, asked).json()
    handle = urlsplit(asked.headers["location"]).path
    issue(stranger.ask("GET", handle), 403, "forbidden")
    path = f"{base}/RequestGroup/{draft['id']}/$submit"
    issue(stranger.ask("POST", path), 403, "forbidden")
    issue(app.ask("POST", f"{base}/RequestGroup", other.order()), 403, "forbidden")
    crossed = app.ask("POST", f"{base}/RequestGroup", mine.order(other.test()))
    issue(crossed, 422, "business-rule")
    done = ended(app, app.ask("POST", path, **ASYNC))
    assert (done.status_code, status_of(done.json())) == (200, "pending")


def test_the_scope_of_orders(portal: Running, base: str) -> None:
    """C-416: `place_orders` creates and submits orders; it reads and changes nothing, and is shown no content."""
    here = clinic(portal, base)
    fields = {"grant_type": "client_credentials", "client_id": "placer", "client_secret": SECRET}
    token = portal.http.post(f"{portal.url}/oauth/token", data=fields).json()["access_token"]
    headers = {"authorization": f"Bearer {token}"}
    made = here.ask("POST", "RequestGroup", here.order(status="draft"), headers=headers)
    assert made.status_code == 201, made.text
    order_id = made.headers["location"].rsplit("/", 3)[1]
    submitted = here.submit(order_id, headers=headers)
    assert (submitted.status_code, submitted.content) == (200, b"")
    assert status_of(here.read(order_id)) == "pending"
    for method, path in (("GET", f"RequestGroup/{order_id}"), ("DELETE", f"RequestGroup/{order_id}")):
        issue(here.ask(method, path, headers=headers), 403, "forbidden")
    issue(here.ask("POST", "Observation", {}, headers=headers), 403, "forbidden")
