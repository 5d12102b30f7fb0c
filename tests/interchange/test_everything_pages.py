"""The pages of $everything: one snapshot, links followed as they stand, for as long as they are valid (points L)."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from engine.interchange.rest import everything as chart_module
from engine.interchange.store import continuation
from engine.interchange.store.transaction import Transaction
from tests.interchange.chart import everything, named, next_path, pages, put, resources, rich_chart, to
from tests.interchange.kit import BASES, Inside, Running, issue, merge_body, running
from tests.interchange.test_resource import least

Json = Any
LARGE = 5000


@pytest.fixture(scope="module")
def chart(service: Running) -> tuple[str, set[str]]:
    """A chart of every type, and all that belongs to it."""
    return rich_chart(service)


def lay_in(service: Inside, patient_id: str, count: int, *, tenant: str = "riverbend") -> list[str]:
    """Put Observations into a chart through the store; return them in order of creation."""

    def work(transaction: Transaction) -> list[str]:
        made = [{**least("Observation", patient_id), "valueString": str(number)} for number in range(count)]
        return [
            f"Observation/{transaction.create('Observation', f'{patient_id}-{number}', one).id}"
            for number, one in enumerate(made)
        ]

    return write(service, work, tenant)


def write(service: Inside, work: Callable[[Transaction], Any], tenant: str = "riverbend") -> Any:
    """Write into the store beside the service's requests."""
    waiting = asyncio.run_coroutine_threadsafe(service.app.service.store.write(tenant, work), service.loop)
    return waiting.result(60)


def kept_snapshots(service: Inside) -> int:
    """Return how many snapshots are kept."""
    return write(
        service, lambda transaction: transaction.connection.execute("SELECT count(*) FROM continuation").fetchone()[0]
    )


def first_page(service: Running, patient_id: str, query: str = "_count=2", base: str = "/fhir/R4") -> Json:
    """Return the first page of a chart."""
    return next(pages(service, f"{base}/Patient/{patient_id}/$everything?{query}"))


@pytest.mark.parametrize("count", [1, 2, 7, 25, 26, 27, 500])
def test_pages(service: Running, base: str, chart: tuple[str, set[str]], count: int) -> None:
    """C-311, C-312: pages of at most _count; joined they are the whole, once; only the last has no next link."""
    found = list(pages(service, f"{base}/Patient/{chart[0]}/$everything?_count={count}&_format=json"))
    sizes = [len(bundle["entry"]) for bundle in found]
    assert set(sizes[:-1]) <= {count}
    assert 0 < sizes[-1] <= count
    assert named(resources(*found)) == everything(service, base, chart[0])
    assert {bundle["total"] for bundle in found} == {len(chart[1])}
    for bundle in found[:-1]:
        assert parse_qs(urlsplit(next_path(service, bundle)).query)["_format"] == ["json"]
    assert len({bundle["id"] for bundle in found}) == len(found)


def test_filters_hold_on_every_page(service: Running, base: str, chart: tuple[str, set[str]]) -> None:
    """C-305, C-311: the pages that follow are of what was asked for on the first."""
    wanted = {one for one in chart[1] if one.partition("/")[0] in {"Organization", "Location"}}
    found = everything(service, base, chart[0], "_type=Location,Organization&_count=1")
    assert set(found) == wanted
    assert len(found) == len(wanted)


def test_total_only(service: Running, base: str, chart: tuple[str, set[str]]) -> None:
    """_count=0 asks for the total and nothing else."""
    bundle = first_page(service, chart[0], "_count=0", base)
    assert (bundle["entry"], bundle["total"], next_path(service, bundle)) == ([], len(chart[1]), "")


def test_a_large_chart(inside: Inside) -> None:
    """C-318, C-322: 5,000 resources: 100 on a page, 500 at most whatever is asked, and the first one within 2 s."""
    patient_id = inside.create()["id"]
    own = lay_in(inside, patient_id, LARGE)
    inside.http.timeout = 2
    usual = first_page(inside, patient_id, "")
    assert named(resources(usual)) == [f"Patient/{patient_id}", *own[:99]]
    assert usual["total"] == LARGE + 1
    most = first_page(inside, patient_id, "_count=100000")
    assert len(most["entry"]) == 500
    found = list(pages(inside, f"/fhir/R4/Patient/{patient_id}/$everything?_count=499"))
    assert named(resources(*found)) == [f"Patient/{patient_id}", *own]


def test_large_documents(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-318: a page of large documents holds fewer of them; joined they are all, and one always fits."""
    patient_id = inside.create()["id"]
    sizes = (10, 60, 10, 10, 10, 10, 60, 60)
    own = [
        put(inside, "DocumentReference", patient_id, content=[{"attachment": {"data": "AAAA" * 250 * size}}])
        for size in sizes
    ]
    monkeypatch.setattr(chart_module, "MOST_BYTES", 50_000)
    found = list(pages(inside, f"/fhir/R4/Patient/{patient_id}/$everything"))
    assert named(resources(*found)) == [f"Patient/{patient_id}", *own]
    assert [len(bundle["entry"]) for bundle in found] == [2, 1, 4, 1, 1]
    assert {bundle["total"] for bundle in found} == {9}


@pytest.mark.parametrize("version", BASES)
def test_links_expire(inside: Inside, version: str) -> None:
    """C-316: a link is good for 300 s, and each page gives a new one; then it is 410, and a new start is needed."""
    patient_id = inside.create()["id"]
    own, another = lay_in(inside, patient_id, 9), inside.create()["id"]
    lay_in(inside, another, 9)
    first_page(inside, another)
    bundle = first_page(inside, patient_id, "_count=2", BASES[version])
    seen = named(resources(bundle))
    for _ in range(3):
        inside.advance(299)
        first_page(inside, another)
        bundle = next(pages(inside, next_path(inside, bundle)))
        seen += named(resources(bundle))
    inside.advance(301)
    refused = issue(inside.ask("GET", next_path(inside, bundle)), 410, "not-found")
    assert refused["location"] == ["http._cursor"]
    assert seen == [f"Patient/{patient_id}", *own[:7]]
    assert len(everything(inside, BASES[version], patient_id, "_count=2")) == 10


def test_a_validity_of_its_own(tmp_path: Path) -> None:
    """C-316: cursor_validity_s is obeyed."""
    with running(tmp_path, cursor_validity_s=5) as service:
        patient_id = service.create()["id"]
        put(service, "Observation", patient_id)
        link = next_path(service, first_page(service, patient_id, "_count=1"))
        service.advance(4)
        assert service.ask("GET", link).status_code == 200
        service.advance(2)
        issue(service.ask("GET", link), 410, "not-found")


def test_links_may_be_followed_again(service: Running, base: str, chart: tuple[str, set[str]]) -> None:
    """C-311: the same link gives the same page while it is valid, whatever was added to the chart meanwhile."""
    link = next_path(service, first_page(service, chart[0], "_count=3", base))
    once, again = (service.ask("GET", link).json() for _ in range(2))
    assert resources(once) == resources(again)
    assert next_path(service, once)


def test_links_are_not_to_be_changed(service: Running, base: str, chart: tuple[str, set[str]]) -> None:
    """C-319: a link that was changed in any place, or leads elsewhere, is refused (400, another tenant: 404)."""
    link = next_path(service, first_page(service, chart[0], "_count=3", base))
    head, _, cursor = link.partition("_cursor=")
    for place in range(len(cursor)):
        changed = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
        issue(service.ask("GET", f"{head}_cursor={changed}"), 400, "invalid")
    other = service.create()["id"]
    issue(service.ask("GET", link.replace(chart[0], other)), 400, "invalid")
    other_base = next(one for one in BASES.values() if one != base)
    issue(service.ask("GET", link.replace(f"{base}/Patient", f"{other_base}/Patient")), 400, "invalid")
    issue(service.ask("GET", f"{link}&_count=2"), 400, "invalid")
    issue(service.ask("GET", link, client="other"), 404, "not-found")
    assert service.ask("GET", link).status_code == 200


def test_another_tenant_of_the_same_id(service: Running) -> None:
    """C-320: where two tenants have a patient of one id, neither's link opens the other's chart."""
    ours = service.create()
    put(service, "Observation", ours["id"])
    answer = service.ask("PUT", f"/fhir/R4/Patient/{ours['id']}", client="other", json=ours)
    assert answer.status_code == 201
    link = next_path(service, first_page(service, ours["id"], "_count=1"))
    issue(service.ask("GET", link, client="other"), 400, "invalid")
    assert everything(service, "/fhir/R4", ours["id"], client="other") == [f"Patient/{ours['id']}"]


def test_links_outlive_a_restart(tmp_path: Path) -> None:
    """C-311: a link is good after the service was stopped and started again."""
    with running(tmp_path) as service:
        patient_id = service.create()["id"]
        own = [put(service, "Observation", patient_id) for _ in range(3)]
        link = next_path(service, first_page(service, patient_id, "_count=2"))
    with running(tmp_path) as service:
        assert named(resources(*pages(service, link))) == own[1:]


def test_the_snapshot(service: Running, base: str) -> None:
    """C-311, C-320: later pages miss nothing and add nothing; they show what is there now, and no other patient's."""
    patient_id, stranger = service.create()["id"], service.create()["id"]
    own = [put(service, "Observation", patient_id, effectiveDateTime="2025-07-01") for _ in range(6)]
    bundle = first_page(service, patient_id, "_count=2&start=2025-07-01&end=2025-07-01", base)
    put(service, "Encounter", patient_id)
    put(service, "Observation", patient_id, effectiveDateTime="2025-07-01")
    for reference, elements in (
        (own[0], {"effectiveDateTime": "1999"}),
        (own[2], {"effectiveDateTime": "1999"}),
        (own[3], {"subject": to(f"Patient/{stranger}")}),
    ):
        changed = {**service.ask("GET", f"/fhir/R4/{reference}").json(), **elements}
        assert service.ask("PUT", f"/fhir/R4/{reference}", json=changed).status_code == 200
    rest = list(pages(service, next_path(service, bundle)))
    assert named(resources(*rest)) == [own[1], own[2], own[4], own[5]]
    assert {one["total"] for one in [bundle, *rest]} == {7}
    assert resources(*rest)[1]["effectiveDateTime"] == "1999"


def test_the_patient_is_merged_away_meanwhile(service: Running, base: str) -> None:
    """C-315: then the rest is the survivor's: 410 names it, so that nobody takes half of a chart for the whole."""
    source, target = service.create()["id"], service.create()["id"]
    for _ in range(3):
        put(service, "Observation", source)
    link = next_path(service, first_page(service, source, "_count=2", base))
    other = next_path(service, first_page(service, target, "_count=1&_type=Patient,Observation", base))
    assert other == ""
    assert service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(source, target)).status_code == 200
    code = "deleted" if base == BASES["R4"] else "not-found"
    assert f"Patient/{target}" in issue(service.ask("GET", link), 410, code)["diagnostics"]
    assert len(everything(service, base, target, "_count=2")) == 4


def test_snapshots_are_kept_once_and_not_for_ever(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answer is kept once, one page not at all; the expired ones go, and those beyond a tenant's number."""
    patients = [inside.create()["id"] for _ in range(4)]
    for patient_id in patients:
        lay_in(inside, patient_id, 4)
    for _ in range(3):
        first_page(inside, patients[0])
        first_page(inside, patients[0], "_count=3")
        first_page(inside, patients[0], "_count=100")
    assert kept_snapshots(inside) == 1
    inside.advance(601)
    first_page(inside, patients[1])
    assert kept_snapshots(inside) == 1
    monkeypatch.setattr(continuation, "MOST", 2)
    links = []
    for patient_id in patients:
        inside.advance(1)
        links.append(next_path(inside, first_page(inside, patient_id)))
    assert kept_snapshots(inside) == 2
    issue(inside.ask("GET", links[0]), 410, "not-found")
    assert inside.ask("GET", links[-1]).status_code == 200


def test_others_are_served_meanwhile(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-318: while a large chart is gathered, other requests are answered."""
    patient_id = inside.create()["id"]
    begun, go = threading.Event(), threading.Event()
    gather = chart_module.chart_keys

    def gather_slowly(*given: Any) -> tuple[int, ...]:
        begun.set()
        assert go.wait(60)
        return gather(*given)

    monkeypatch.setattr(chart_module, "chart_keys", gather_slowly)
    answers: list[int] = []
    path = f"/fhir/R4/Patient/{patient_id}/$everything"
    asking = threading.Thread(target=lambda: answers.append(inside.ask("GET", path).status_code))
    asking.start()
    assert begun.wait(60)
    assert inside.ask("GET", f"/fhir/R4/Patient/{patient_id}").status_code == 200
    assert answers == []
    go.set()
    asking.join(60)
    assert answers == [200]


def test_too_slow(tmp_path: Path) -> None:
    """C-317: beyond request_timeout_s it is 504."""
    with running(tmp_path, request_timeout_s=2) as service:
        patient_id = service.create()["id"]
        path = f"/fhir/R4/Patient/{patient_id}/$everything"
        assert service.http.post(f"{service.url}/_test/slow", json={"path": path, "seconds": 5}).status_code == 200
        issue(service.ask("GET", path), 504, "timeout")
        assert service.ask("GET", path).status_code == 200


class Writer(threading.Thread):
    """Changes a chart while it is read: adds to it, updates it, moves into it and out of it."""

    def __init__(self, service: Inside, patient_id: str, stranger: str, own: list[str]) -> None:
        super().__init__()
        self.service = service
        self.patient = patient_id
        self.stranger = stranger
        self.own = own
        self.moved: list[str] = []
        self.rounds = 0
        self.enough = threading.Event()

    def run(self) -> None:
        """Go round until it is enough."""
        while not self.enough.is_set():
            number = self.rounds
            put(self.service, "Observation" if number % 2 else "Encounter", self.patient)
            self.update(self.own[number * 7 % len(self.own)], {"status": "amended"})
            if number % 3 == 0:
                leaving = self.own[-1 - number // 3]
                self.moved.append(leaving)
                self.update(leaving, {"subject": to(f"Patient/{self.stranger}")})
            if number % 5 == 0:
                other = self.service.create()["id"]
                put(self.service, "Observation", other)
                answer = self.service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(other, self.patient))
                assert answer.status_code == 200, answer.text
            self.rounds += 1

    def wait_for(self, rounds: int) -> None:
        """Wait until it has gone round so often, or has failed."""
        while self.rounds < rounds and self.is_alive():
            time.sleep(0.001)

    def update(self, reference: str, elements: Json) -> None:
        """Change a resource, whatever its version is."""
        changed = {**self.service.ask("GET", f"/fhir/R4/{reference}").json(), **elements}
        answer = self.service.ask("PUT", f"/fhir/R4/{reference}", json=changed)
        assert answer.status_code == 200, answer.text


def test_a_chart_that_is_written_to(inside: Inside) -> None:
    """C-311: whatever is added, updated and moved meanwhile, what the chart held comes once, and nothing else does."""
    patient_id, stranger = inside.create()["id"], inside.create()["id"]
    own = lay_in(inside, patient_id, 300)
    writer = Writer(inside, patient_id, stranger, own)
    walk = pages(inside, f"/fhir/R4/Patient/{patient_id}/$everything?_count=7")
    found = [next(walk)]
    writer.start()
    try:
        for bundle in walk:
            found.append(bundle)
            writer.wait_for(len(found))
    finally:
        writer.enough.set()
        writer.join(60)
    assert writer.rounds >= len(found) == 43
    seen = named(resources(*found))
    assert len(seen) == len(set(seen))
    assert set(seen) <= {f"Patient/{patient_id}", *own}
    assert {f"Patient/{patient_id}", *own} - set(seen) <= set(writer.moved)
    assert {bundle["total"] for bundle in found} == {301}
