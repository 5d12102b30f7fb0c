"""A running engine with its pages, an account of each role, and a few messages that ended differently."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser

from engine.ops.access.administration import OF_ACCOUNTS
from engine.ops.sender.line import send_messages
from tests.chromium import chromium
from tests.flow.rig import SYSTEM, Rig, running
from tests.ops.web.person import Person

HOSTILE_NAME = "<script>alert(1)</script>^\"'><img src=x onerror=alert(2)>^\u202egnorw\x1b[31m"
FORMULA = "=1+1"
_HEAD = "MSH|^~\\&|REG|RVB|X|Y|20250701101500||ADT^A28^ADT_A05|{id}|P|2.5.1|||||||UNICODE UTF-8\rEVN||20250701101500\r"


def message(control_id: str, number: str, name: str = "Quintero^Marisol", born: str = "19840229") -> bytes:
    """Return an A28 of one person."""
    return f"{_HEAD.format(id=control_id)}PID|1||{number}^^^RVB^MR||{name}||{born}|F\r".encode()


# Delivered; held, as the service wants a birth date; waiting behind it; refused at the door; hostile; a formula.
FEED = (
    message("C1", "RB-1"),
    message("C2", "RB-2", born=""),
    message("C3", "RB-2", born=""),
    message("C4", ""),
    message("C5", "RB-5", HOSTILE_NAME),
    message(FORMULA, "RB-6"),
)
DELIVERED, HELD, WAITING, REFUSED, HOSTILE = 1, 2, 3, 4, 5


class Site:
    """A running engine: its rig, its pages' port, and its people, each with a browser of their own."""

    def __init__(self, rig: Rig, port: int) -> None:
        self.rig = rig
        self.port = port
        self.people: dict[str, Person] = {}

    async def act(self, name: str, /, **given: Any) -> Any:
        """Do an act over the admin socket, as commands do."""
        answer = await self.rig.ask(name, **given)
        assert "done" in answer, answer
        return answer["done"]

    async def person(self, role: str, name: str = "") -> Person:
        """Return the browser of an account of a role, which is logged in."""
        name = name or role
        if name not in self.people:
            invited = await self.act("users.add", name=name, role=role)
            self.people[name] = one = Person(self.port)
            answer = await one.set_up(invited["token"], name)
            assert answer.status_code == 303, answer.text
        return self.people[name]

    async def token(self, role: str, name: str, channels: tuple[str, ...] = ()) -> str:
        """Return an API token of a role."""
        made = await self.act("tokens.add", name=name, role=role, channels=list(channels), days=1)
        return str(made["token"])

    async def stranger(self) -> Person:
        """Return a browser of somebody who is not logged in."""
        one = self.people[f"stranger {len(self.people)}"] = Person(self.port)
        await one.get("/log-in")
        return one


async def start(rig: Rig) -> Site:
    """Start the rig's engine and wait for its pages."""
    await rig.engine.start()
    await rig.engine.line("started")
    return Site(rig, (await rig.engine.line("pages listening"))["port"])


async def alike(site: Site, number: str = "") -> str:
    """Make a Patient at the service as another system would, with a number of ours if named, and return its id."""
    token = await site.rig._new_token()
    body = {
        "resourceType": "Patient",
        "name": [{"family": "Alike", "given": ["Marisol"]}],
        "gender": "female",
        "birthDate": "1984-02-29",
    } | ({"identifier": [{"system": SYSTEM, "value": number}]} if number else {})
    headers = {"authorization": f"Bearer {token}", "prefer": "create-always"}
    async with httpx.AsyncClient(trust_env=False) as http:
        url = f"http://127.0.0.1:{site.rig.service_port}/fhir/R4/Patient"
        answer = await http.post(url, json=body, headers=headers | {"content-type": "application/fhir+json"})
        assert answer.status_code == 201, answer.text
        return answer.headers["location"].rpartition("/Patient/")[2].partition("/")[0]


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium, for all tests of a process; each closes the contexts that it opens."""
    async with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """An engine whose six messages ended; shared by the tests of a module, which leave it as it was."""
    async with running(tmp_path_factory.mktemp("site")) as rig:
        made = await start(rig)
        host, port = await rig.address()
        await send_messages(host, port, list(FEED))
        await rig.until(lambda rows: [row.state for row in rows] == [*STATES.values()])
        try:
            yield made
        finally:
            await asyncio.gather(*(person.close() for person in made.people.values()))


STATES: Mapping[int, str] = {1: "delivered", 2: "held", 3: "waiting", 4: "rejected", 5: "delivered", 6: "delivered"}
ROLES = tuple(str(role) for role in OF_ACCOUNTS)
