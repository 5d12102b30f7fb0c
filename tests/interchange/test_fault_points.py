"""The service killed between every two steps: a write is whole or absent, and what was answered is in the log."""

import shutil
import sqlite3
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from engine import fault
from engine.config.service import ServiceConfiguration
from engine.config.source import parse, validate
from engine.errors import StartError
from engine.interchange.app.process import check_open_line
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.access import faults
from engine.interchange.store.sqlite import open_known
from engine.interchange.store.verify import verify
from tests.interchange.kit import merge_body, patient
from tests.interchange.least import least, version_of
from tests.interchange.places import DATABASE
from tests.interchange.process import FORKED, started
from tests.interchange.test_process import CONFIGURATION, client

pytestmark = pytest.mark.process

STATE = "SELECT id, version, survivor, body FROM resource WHERE type=?"
LOGGED = "SELECT count(*) FROM access WHERE request=?"
KILLED = -9


@dataclass
class Lives:
    """One service, and the lives that it has had: its folder, and the headers of a client that outlives them."""

    folder: Path
    headers: dict[str, str] = field(default_factory=dict)

    def live(self, armed: str, *requests: tuple[str, str, Any]) -> list[httpx.Response]:
        """Let it live with a fault armed, and return what it answered before it died, if it did; then look at it."""
        with started(self.folder, CONFIGURATION, FORKED, armed) as process:
            if not self.headers:
                with client(process.url) as first:
                    self.headers = dict(first.headers)
            answers = []
            with httpx.Client(base_url=process.url, headers=self.headers, trust_env=False, timeout=60) as http:
                try:
                    for method, path, body in requests:
                        kind = {"content-type": "application/json-patch+json"} if method == "PATCH" else {}
                        sent = {"x-request-id": str(uuid.uuid4()), **kind}
                        content = orjson.dumps(body) if body is not None else None
                        answers.append(http.request(method, path, content=content, headers=sent))
                        assert self.logged(answers[-1]) or answers[-1].status_code >= 500
                except httpx.HTTPError:
                    assert process.run.wait(60) == KILLED
            assert ":kill" not in armed or process.run.poll() == KILLED, "the point was not reached"
        assert verify(self.folder / DATABASE, INDEXERS).faults == {}
        connection = open_known(self.folder / DATABASE)
        assert list(faults(connection)) == []
        connection.close()
        return answers

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return what a query finds in the database."""
        connection = sqlite3.connect(self.folder / DATABASE)
        found = connection.execute(sql, values).fetchall()
        connection.close()
        return found

    def logged(self, answer: httpx.Response) -> bool:
        """Say whether the request of an answer is in the access log at this moment."""
        return self.rows(LOGGED, answer.request.headers["x-request-id"]) != [(0,)]

    def stored(self, type_name: str) -> dict[str, tuple[int, str | None, Any]]:
        """Return version, survivor and body of every resource of a type, by id."""
        rows = self.rows(STATE, type_name)
        return {one: (version, gone, orjson.loads(body) if body else None) for one, version, gone, body in rows}


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Lives:
    """A service that has lived already: it keeps two patients with a chart each."""
    found = Lives(tmp_path_factory.mktemp("former"))
    made = found.live(
        "",
        *(("PUT", f"/fhir/R4/Patient/{one}", patient(id=one, name=named(one))) for one in ("first", "second")),
        *(
            ("PUT", f"/fhir/R4/Condition/{of}-{one}", least("Condition", of, id=f"{of}-{one}"))
            for of in ("first", "second")
            for one in ("a", "b")
        ),
    )
    assert {one.status_code for one in made} == {201}
    return found


@pytest.fixture
def lives(former: Lives, tmp_path: Path) -> Lives:
    """The same, to live on in a folder of its own."""
    shutil.copy(former.folder / DATABASE, tmp_path)
    return Lives(tmp_path, former.headers)


def named(family: str) -> list[dict[str, Any]]:
    """Return a name."""
    return [{"family": family, "given": ["G"]}]


def entry(method: str, url: str, resource: Any = None, **more: str) -> dict[str, Any]:
    """Return one entry of a Bundle."""
    full = {"fullUrl": more.pop("full_url")} if "full_url" in more else {}
    body = {"resource": resource} if resource is not None else {}
    return {**full, "request": {"method": method, "url": url, **more}, **body}


def visit(base: str) -> dict[str, Any]:
    """Return a transaction of every kind of write; sent again it changes nothing but versions."""
    who, cause = f"urn:uuid:{uuid.uuid4()}", {"system": "urn:fault", "value": "1"}
    condition = {**least("Condition", "x", version_of(base), identifier=[cause]), "subject": {"reference": who}}
    changed = patient(id="second", name=named("second"), birthDate="1990-01-01")
    steps = [
        entry("POST", "Condition", condition, ifNoneExist="identifier=urn:fault|1"),
        entry("POST", "Patient", patient(name=named("new")), full_url=who, ifNoneExist="family=new"),
        entry("PUT", "Patient/second", changed),
        entry("DELETE", "Condition/first-a"),
        entry("GET", "Patient/first"),
    ]
    return {"resourceType": "Bundle", "type": "transaction", "entry": steps}


def told(lives: Lives) -> list[bool]:
    """Return for each write of the transaction whether it was done."""
    patients, conditions = lives.stored("Patient"), lives.stored("Condition")
    new = [one for one, (_, _, body) in patients.items() if body["name"][0]["family"] == "new"]
    about = [body for _, _, body in conditions.values() if body and "identifier" in body]
    assert len(new) <= 1
    assert [one["subject"]["reference"] for one in about] == [f"Patient/{one}" for one in new]
    return [bool(about), bool(new), patients["second"][0] > 1, conditions["first-a"][1] == ""]


@pytest.mark.parametrize("base", ["/fhir/R4", "/fhir"])
def test_a_transaction_is_whole_or_absent(lives: Lives, base: str) -> None:
    """N-152, N-165: killed after each of its writes, before its commit and after it; sent again it has one effect."""
    for point in ("F27:kill:1", "F27:kill:2", "F27:kill:3", "F27:kill:4", "F28:kill"):
        assert lives.live(point, ("POST", base, visit(base))) == []
        assert told(lives) == [False] * 4, point
        assert lives.rows("SELECT count(*) FROM access WHERE request LIKE '%#%' OR interaction='transaction'") == [(0,)]
    for number, point in enumerate(("F29:kill", "F30:kill", "F31:kill"), 1):
        assert lives.live(point, ("POST", base, visit(base))) == []
        assert told(lives) == [True] * 4, point
        assert lives.stored("Patient")["second"][0] == 1 + number
        # Its own commit has the rows of what it wrote, also where nobody could be told what it shows.
        entries = lives.rows("SELECT count(*) FROM access WHERE request LIKE '%#%'")
        assert entries == [(number * len(visit(base)["entry"]),)]
        rows = lives.rows("SELECT status FROM access WHERE interaction='transaction' ORDER BY seq")
        assert rows == [(200,)] * (point == "F31:kill")
    again = lives.live("", ("POST", base, visit(base)))[0].json()["entry"]
    assert [one["response"]["status"][:3] for one in again] == ["200", "200", "200", "204", "200"]
    assert told(lives) == [True] * 4


@pytest.mark.parametrize("point", ["F27:kill:2", "F27:kill:4", "F29:kill"])
def test_a_merge_is_whole_or_absent(lives: Lives, point: str) -> None:
    """N-165: a merge killed among its writes leaves two patients with their charts, killed after its commit one."""
    order = ("POST", "/fhir/R4/Patient/$merge", merge_body("first", "second"))
    assert lives.live(point, order) == []
    done = point == "F29:kill"
    assert lives.stored("Patient")["first"][1] == ("second" if done else None)
    owners = {body["subject"]["reference"] for _, _, body in lives.stored("Condition").values()}
    assert owners == ({"Patient/second"} if done else {"Patient/first", "Patient/second"})
    assert lives.live("", order)[0].status_code == (422 if done else 200)


@pytest.mark.parametrize("point", ["F27:kill:3", "F28:kill", "F29:kill"])
def test_a_chart_is_deleted_whole_or_not(lives: Lives, point: str) -> None:
    """N-165: a patient deleted with the chart is there with all of it, or gone with all of it."""
    order = ("DELETE", "/fhir/R4/Patient/first?_cascade=delete", None)
    assert lives.live(point, order) == []
    gone = [lives.stored("Patient")["first"][1], *(lives.stored("Condition")[f"first-{one}"][1] for one in "ab")]
    assert gone == [""] * 3 if point == "F29:kill" else gone == [None] * 3
    assert lives.live("", order)[0].status_code == 204


def test_a_batch_stands_entry_by_entry(lives: Lives) -> None:
    """N-155, N-165: what was committed before the kill stays, what was not is absent."""
    steps = [entry("PUT", f"Location/l{number}", {**least("Location", ""), "id": f"l{number}"}) for number in range(4)]
    bundle = {"resourceType": "Bundle", "type": "batch", "entry": steps}
    assert lives.live("F29:kill:2", ("POST", "/fhir/R4", bundle)) == []
    assert set(lives.stored("Location")) == {"l0", "l1"}
    assert lives.live("F28:kill:3", ("POST", "/fhir/R4", bundle)) == []
    assert {one: version for one, (version, _, _) in lives.stored("Location").items()} == {"l0": 2, "l1": 2}


@pytest.mark.parametrize("point", ["F27:raise:3", "F28:raise", "F28:enospc", "F29:raise", "F30:raise", "F31:raise"])
def test_a_failure_answers_500(lives: Lives, point: str) -> None:
    """N-165: what fails within a request undoes it and no other; what fails at the commit ends all writing."""
    order, look = ("POST", "/fhir/R4", visit("/fhir/R4")), ("GET", "/fhir/R4/Patient/first", None)
    answers = lives.live(point, order, look)
    failed = point[:3] in {"F28", "F29"}
    # What cannot be recorded is not shown.
    assert [answer.status_code for answer in answers] == [500, 500 if failed else 200]
    assert told(lives) == [point[:3] in {"F29", "F30", "F31"}] * 4
    assert lives.live("", order)[0].status_code == 200
    assert told(lives) == [True] * 4


def test_a_read_is_recorded_before_it_is_answered(lives: Lives) -> None:
    """N-321: killed before the commit of its row a read is not answered; slowed down there, its row comes first."""
    look = ("GET", "/fhir/R4/Patient/first", None)
    rows = "SELECT count(*) FROM access WHERE interaction='read'"
    assert lives.live("F30:kill", look) == []
    assert lives.rows(rows) == [(0,)]
    assert lives.live("F31:kill", look) == []
    assert lives.rows(rows) == [(1,)]
    for point in ("F30:slow", "F28:slow", "F31:slow"):
        # `live` looks for the row of each answer at the moment that it comes.
        assert lives.live(point, look, ("GET", "/fhir/R4/Condition?patient=first", None))[1].json()["total"] == 2


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/fhir/R4/Patient/first"), ("GET", "/fhir/R4/Patient/nobody"), ("POST", "/fhir/R4/Patient/_search")],
)
def test_every_answer_waits_for_its_row(lives: Lives, method: str, path: str) -> None:
    """N-321: the answer to a write, to what is refused and to what is not there comes after the row, too."""
    body = patient(id="first") if method == "PUT" else {} if method == "POST" else None
    for armed in ("F28:slow", "F28:slow:2"):
        status = lives.live(armed, (method, path, body), (method, path, body))[0].status_code
        assert status == {"PUT": 200, "GET": 404, "POST": 415}[method]


def test_an_armed_service_keeps_to_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fault armed the service listens on loopback only, so that it cannot run in production."""
    settings = validate(parse(CONFIGURATION, "x"), ServiceConfiguration)
    check_open_line(settings, "0.0.0.0")  # noqa: S104 - asked, not bound
    monkeypatch.setattr(fault, "_armed", [])
    fault.arm("F27:kill")
    check_open_line(settings, "127.0.0.1")
    with pytest.raises(StartError, match="ENGINE_FAULT"):
        check_open_line(settings, "0.0.0.0")  # noqa: S104 - refused
