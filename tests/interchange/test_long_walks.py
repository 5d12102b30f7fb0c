"""Walks through twenty thousand patients, by offset and by cursor, also while others write (points I)."""

import asyncio
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from engine.interchange.rest.patient.index import index_patient
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from tests.interchange.kit import Running, issue, merge_body, patient, running
from tests.interchange.places import DATABASE

pytestmark = pytest.mark.matrix

MANY = 20_000
FAMILIES = 20
IDS = [f"p{number}" for number in range(MANY)]


def person(number: int, given: str = "A") -> dict[str, Any]:
    """Return the nth patient."""
    return patient(
        name=[{"family": f"Family {number % FAMILIES:02}", "given": [given]}], birthDate=f"{1900 + number % 99}"
    )


def lay_in(path: Path) -> None:
    """Put the patients into a store that no service uses yet."""
    store = Store(path, ["riverbend"], lambda: datetime.now(UTC), {"Patient": index_patient})

    def work(transaction: Transaction) -> None:
        for number, patient_id in enumerate(IDS):
            transaction.create("Patient", patient_id, person(number))

    asyncio.run(store.write("riverbend", work))
    store.close()


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with many patients, to be copied."""
    path = tmp_path_factory.mktemp("laid") / DATABASE
    lay_in(path)
    return path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, laid: Path) -> Iterator[Running]:
    """A service with many patients."""
    folder = tmp_path_factory.mktemp("many")
    shutil.copy(laid, folder / DATABASE)
    with running(folder) as service:
        yield service


class Walker:
    """Follows next links over one connection; FHIR conformance of every page is other tests' matter."""

    def __init__(self, service: Running, http: httpx.Client) -> None:
        self._url = service.url
        self._http = http
        self._headers = {"authorization": f"Bearer {service.token('physician')}"}

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Send one request."""
        content = orjson.dumps(body) if body is not None else None
        told = {**self._headers, "content-type": "application/fhir+json", **headers}
        return self._http.request(method, self._url + path, content=content, headers=told)

    def pages(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield each page of a search, following next as given."""
        while path:
            answer = self.send("GET", path)
            assert answer.status_code == 200, answer.text
            bundle: dict[str, Any] = orjson.loads(answer.content)
            yield bundle
            path = next((link["url"] for link in bundle["link"] if link["relation"] == "next"), "")
            path = path.removeprefix(self._url)


@pytest.fixture
def walker(service: Running) -> Walker:
    """One who walks through the service's patients."""
    return Walker(service, service.http)


def ids_of(bundle: dict[str, Any]) -> list[str]:
    """Return the ids on a page."""
    return [entry["resource"]["id"] for entry in bundle["entry"]]


def int_of(patient_id: str) -> int:
    """Return the place of a laid-in patient in the order of creation."""
    return int(patient_id.removeprefix("p"))


class Writer:
    """Creates, updates and merges patients until told to stop; knows which were merged away."""

    def __init__(self, walker: Walker) -> None:
        self._walker = walker
        self._chance = random.Random(7)
        self._alive = IDS.copy()
        self.merged: set[str] = set()
        self.answers: dict[str, list[int]] = {"create": [], "update": [], "merge": []}
        self._stop = threading.Event()

    def run(self) -> None:
        """Write in turn until told to stop."""
        acts: tuple[Callable[[], None], ...] = (self._create, self._update, self._merge)
        number = 0
        while not self._stop.is_set():
            acts[number % len(acts)]()
            number += 1

    def stop(self) -> None:
        """Write no more."""
        self._stop.set()

    def _create(self) -> None:
        answer = self._walker.send("POST", "/fhir/R4/Patient", person(3, "New"), prefer="create-always, return=minimal")
        self.answers["create"].append(answer.status_code)

    def _update(self) -> None:
        number = self._chance.randrange(MANY)
        patient_id = IDS[number]
        if patient_id not in self.merged:
            body = {**person(number, "Changed"), "id": patient_id}
            self.answers["update"].append(self._walker.send("PUT", f"/fhir/R4/Patient/{patient_id}", body).status_code)

    def _merge(self) -> None:
        source, target = (self._alive.pop(self._chance.randrange(len(self._alive))) for _ in "ab")
        self._alive.append(target)
        self.merged.add(source)
        answer = self._walker.send("POST", "/fhir/R4/Patient/$merge", merge_body(source, target))
        self.answers["merge"].append(answer.status_code)


@contextmanager
def writing(service: Running) -> Iterator[Writer]:
    """Let somebody write while the block runs; every write must succeed."""
    with httpx.Client(timeout=60, trust_env=False) as http:
        writer = Writer(Walker(service, http))
        thread = threading.Thread(target=writer.run)
        thread.start()
        try:
            yield writer
        finally:
            writer.stop()
            thread.join()
    assert {name: set(codes) for name, codes in writer.answers.items()} == {
        "create": {201},
        "update": {200},
        "merge": {200},
    }


def test_a_cursor_walk_among_writers(tmp_path: Path, laid: Path) -> None:
    """C-208, C-215: past 10,000 records, while others create, update and merge, none is repeated and none is missed."""
    shutil.copy(laid, tmp_path / DATABASE)
    seen: list[str] = []
    with running(tmp_path) as service:
        service.token("physician")
        with writing(service) as writer:
            for bundle in Walker(service, service.http).pages("/fhir/R4/Patient?_paging=cursor&_count=100"):
                assert bundle["total"] >= MANY - len(writer.merged)
                seen += ids_of(bundle)
    assert len(writer.answers["merge"]) > 5
    assert len(seen) == len(set(seen)) > 10_000
    assert set(IDS) - writer.merged <= set(seen)
    assert sorted(seen[:10_000], key=int_of) == seen[:10_000]


def test_an_offset_walk_among_writers(tmp_path: Path, laid: Path) -> None:
    """C-209: an offset walk while others write may shift, but every page is answered."""
    shutil.copy(laid, tmp_path / DATABASE)
    with running(tmp_path) as service:
        service.token("physician")
        with writing(service) as writer:
            pages = list(Walker(service, service.http).pages("/fhir/R4/Patient?birthdate=lt1940&_count=100"))
        after = list(Walker(service, service.http).pages("/fhir/R4/Patient?birthdate=lt1940&_count=100&_paging=cursor"))
    assert sum(len(ids_of(bundle)) for bundle in pages) > 7000
    assert len(writer.answers["merge"]) > 5
    assert {bundle["total"] for bundle in after} == {sum(len(ids_of(bundle)) for bundle in after)}


@pytest.mark.parametrize("paging", ["", "&_paging=cursor"], ids=["offset", "cursor"])
@pytest.mark.parametrize("size", [9, 40, 100])
def test_walks_of_what_nobody_changes(walker: Walker, size: int, paging: str) -> None:
    """C-206, C-224: whatever the page size, a walk visits every match once, in order of creation."""
    pages = list(walker.pages(f"/fhir/R4/Patient?family=family%2007&birthdate=ge1950&_count={size}{paging}"))
    expected = [one for number, one in enumerate(IDS) if number % FAMILIES == 7 and number % 99 >= 50]
    assert [one for bundle in pages for one in ids_of(bundle)] == expected
    assert {bundle["total"] for bundle in pages} == {len(expected)}
    assert {len(ids_of(bundle)) for bundle in pages[:-1]} == {size}


def test_next_goes_on_to_the_depth_limit(service: Running) -> None:
    """Section 6.4, C-212: next is there while more matches exist, although following it meets the limit.

    The page that leads there says so.
    """
    bundle = service.ask("GET", "/fhir/R4/Patient?_offset=9979&_count=20").json()
    warning = bundle["entry"].pop()
    assert (warning["search"]["mode"], "_paging=cursor" in str(warning["resource"])) == ("outcome", True)
    assert ids_of(bundle) == IDS[9979:9999]
    assert bundle["total"] == MANY
    links = {link["relation"]: link["url"] for link in bundle["link"]}
    issue(service.ask("GET", links["next"].removeprefix(service.url)), 400, "too-costly")


def test_the_last_pages_by_cursor(walker: Walker) -> None:
    """C-215: by cursor there is no depth limit; the last pages are whole, and the last one has no next."""
    pages = list(walker.pages("/fhir/Patient?_paging=cursor&_count=100"))
    assert [one for bundle in pages for one in ids_of(bundle)] == IDS
    assert {bundle["total"] for bundle in pages} == {MANY}
