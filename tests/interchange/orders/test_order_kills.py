"""The service killed at each step of an order: it and its tests and its place in the queue are there together, once."""

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from engine.interchange.orders.order import status_of
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.verify import verify
from tests.interchange.kit import SYSTEM, patient
from tests.interchange.orders.ordering import ASYNC, R4, Clinic, url
from tests.interchange.places import DATABASE
from tests.interchange.process import FORKED, started
from tests.interchange.test_job_kills import KILLED, ended
from tests.interchange.test_process import CONFIGURATION, client

pytestmark = pytest.mark.process

BODIES = "SELECT body FROM resource WHERE type=? AND survivor IS NULL"
QUEUE = "SELECT order_id, standing FROM transmission"
# The commits of a job: it is asked for, taken up, and ends; after a kill it is taken back first.
ASKED, DONE, TAKEN_BACK_AND_DONE = "F29:kill:1", "F29:kill:3", "F29:kill:3"
# An order of two tests: each is a version, and so is the order; then its place in the queue, and the commit.
WRITES = ["F27:kill:2", "F43:kill", "F44:kill", "F29:kill"]
HERE = Clinic(None, R4, "p1", "author", "lab")  # type: ignore[arg-type] # it only makes bodies here


@dataclass
class Lives:
    """One service and its lives, with a token that outlives them."""

    folder: Path
    headers: dict[str, str] = field(default_factory=dict)

    @contextlib.contextmanager
    def live(self, armed: str = "") -> Iterator[httpx.Client]:
        """Let it live; with a fault armed it must die of it. Afterwards its database is whole."""
        with started(self.folder, CONFIGURATION, FORKED, armed) as process:
            if not self.headers:
                with client(process.url) as first:
                    self.headers = dict(first.headers)
            with httpx.Client(base_url=process.url, headers=self.headers, trust_env=False, timeout=60) as http:
                yield http
                if armed:
                    assert process.run.wait(60) == KILLED
        assert verify(self.folder / DATABASE, INDEXERS).faults == {}

    def rows(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        """Return what a query finds while no service runs."""
        connection = sqlite3.connect(self.folder / DATABASE)
        found = connection.execute(sql, values).fetchall()
        connection.close()
        return found

    def kept(self) -> list[tuple[str, int, list[str], list[str]]]:
        """Return of each order its status and version, the statuses of its tests, and where it is on its way."""
        orders = [orjson.loads(body) for (body,) in self.rows(BODIES, "RequestGroup")]
        tests = [orjson.loads(body) for (body,) in self.rows(BODIES, "ServiceRequest")]
        queue = self.rows(QUEUE)
        mine = {
            one["id"]: [test["status"] for test in tests if test["requisition"]["value"] == one["id"]] for one in orders
        }
        assert sum(map(len, mine.values())) == len(tests)
        assert {order_id for order_id, _ in queue} <= set(mine)
        return [
            (
                str(status_of(order, SYSTEM)),
                int(order["meta"]["versionId"]),
                mine[order["id"]],
                [standing for order_id, standing in queue if order_id == order["id"]],
            )
            for order in orders
        ]


DRAFT = ("draft", 1, ["draft"] * 2, [])
PLACED = ("pending", 1, ["active"] * 2, ["waiting"])
SUBMITTED = ("pending", 2, ["active"] * 2, ["waiting"])
NEW = {"if-none-exist": "identifier=urn:orders|1"}


def body(**more: Any) -> dict[str, Any]:
    """Return an order of two tests."""
    own = {"identifier": [{"system": "urn:orders", "value": "1"}], **more}
    return HERE.order(HERE.test("A", "t1"), HERE.test("B", "t2"), **own)


def ask(http: httpx.Client, method: str, path: str, json: Any = None, **headers: str) -> httpx.Response | None:
    """Return the answer to a request; None where the service died of it."""
    content = orjson.dumps(json) if json is not None else None
    try:
        return http.request(method, f"{R4}/{path}", content=content, headers=headers)
    except httpx.HTTPError:
        return None


def handle(answer: httpx.Response | None) -> str:
    """Return the handle that an answer promises, '' for none."""
    if answer is None:
        return ""
    assert answer.status_code == 202, answer.text
    return str(answer.headers["location"].partition("/fhir/")[2])


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Lives:
    """A service that has lived already: it knows a patient, who orders, a laboratory, and a draft."""
    found = Lives(tmp_path_factory.mktemp("former"))
    enabled = [{"url": url("organization-orderingEnabled"), "valueBoolean": True}]
    with found.live() as http:
        for one in (
            patient(id="p1"),
            {"resourceType": "Practitioner", "id": "author"},
            {"resourceType": "Organization", "id": "lab", "name": "Laboratory", "extension": enabled},
        ):
            made = ask(http, "PUT", f"{one['resourceType']}/{one['id']}", one)
            assert made is not None
            assert made.status_code == 201, made.text
    return found


@pytest.fixture
def lives(former: Lives, tmp_path: Path) -> Lives:
    """The same, to live on in a folder of its own."""
    shutil.copy(former.folder / DATABASE, tmp_path)
    return Lives(tmp_path, former.headers)


@pytest.mark.parametrize("point", WRITES)
def test_an_order_is_placed_whole_or_not(lives: Lives, point: str) -> None:
    """C-403, C-562: killed at each write, before and after the commit; asked again there is one."""
    with lives.live(point) as http:
        assert ask(http, "POST", "RequestGroup", body(), **NEW) is None
    assert lives.kept() == ([PLACED] if point == "F29:kill" else [])
    with lives.live() as http:
        answer = ask(http, "POST", "RequestGroup", body(), **NEW)
        assert answer is not None
        assert answer.status_code == (200 if point == "F29:kill" else 201)
    assert lives.kept() == [PLACED]


@pytest.mark.parametrize("point", ["F32:kill", ASKED, "F33:kill", "F27:kill:3", "F34:kill", DONE])
def test_an_order_asked_for_is_made_once(lives: Lives, point: str) -> None:
    """C-400, C-562: what a 202 promised is there after the next start, as one draft; what it did not, is not."""
    with lives.live(point) as http:
        promised = handle(ask(http, "POST", "RequestGroup", body(), **ASYNC))
    asked = lives.rows("SELECT id FROM job")
    assert bool(promised) <= bool(asked)
    assert bool(asked) == (point != "F32:kill")
    with lives.live() as http:
        if asked:
            done = ended(http, f"R4/RequestResult/{asked[0][0]}")
            assert done.status_code == 200, done.text
            assert done.json()["meta"]["versionId"] == "1"
    assert lives.kept() == [DRAFT] * len(asked)


@pytest.mark.parametrize("later", [False, True], ids=["at-once", "later"])
def test_an_order_is_submitted_whole_or_not(lives: Lives, later: bool) -> None:
    """C-401, C-562: killed again and again, a draft stays one, with its tests and out of the queue, or is pending."""
    with lives.live() as http:
        made = ask(http, "POST", "RequestGroup", body(status="draft"))
        assert made is not None
        path = f"RequestGroup/{made.json()['id']}/$submit"
    assert lives.kept() == [DRAFT]
    if not later:
        for point in WRITES[:-1]:
            with lives.live(point) as http:
                assert ask(http, "POST", path) is None
            assert lives.kept() == [DRAFT], point
        with lives.live(WRITES[-1]) as http:
            assert ask(http, "POST", path) is None
        assert lives.kept() == [SUBMITTED]
        return
    # A job may see three ends of the process; it is the same job all the time.
    with lives.live("F44:kill") as http:
        handle(ask(http, "POST", path, **ASYNC))
    for point in ("F34:kill", TAKEN_BACK_AND_DONE):
        assert lives.kept() == [DRAFT], point
        with lives.live(point):
            pass
    assert lives.kept() == [SUBMITTED]
    [(job,)] = lives.rows("SELECT id FROM job")
    with lives.live() as http:
        done = ended(http, f"R4/RequestResult/{job}")
        assert (done.status_code, status_of(done.json(), SYSTEM)) == (200, "pending")
    assert lives.kept() == [SUBMITTED]


@pytest.mark.parametrize("point", ["F27:kill:1", "F27:kill:3", "F27:kill:4", "F29:kill"])
def test_results_complete_whole_or_not(lives: Lives, point: str) -> None:
    """C-427, C-562: a report, its tests and its order are as they were, or all are completed."""
    with lives.live() as http:
        made = ask(http, "POST", "RequestGroup", body())
        assert made is not None
        order_id = made.json()["id"]
    with lives.live(point) as http:
        assert ask(http, "POST", "DiagnosticReport", HERE.report(f"RequestGroup/{order_id}")) is None
    done = point == "F29:kill"
    assert lives.kept() == [("completed", 2, ["completed"] * 2, ["waiting"]) if done else PLACED]
    assert len(lives.rows(BODIES, "DiagnosticReport")) == done
