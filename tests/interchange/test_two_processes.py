"""Two processes on one PostgreSQL: what one does the other knows at once, and what only one may do goes over."""

import contextlib
import threading
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.clock import now
from engine.fhir.schema import FhirVersion
from engine.interchange.rest.resource.catalogue import INDEXERS, KEPT
from engine.interchange.store.place import open_known, place_of
from engine.interchange.store.query import find
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.store import Store
from tests.interchange.kit import SECRET, patient
from tests.interchange.pair import Pair
from tests.interchange.parallel import at_once, statuses
from tests.interchange.process import FORKED, Process, started
from tests.interchange.subscriptions.subscribing import create, observation, owed, subscribe
from tests.interchange.test_job_kills import KILLED, PROGRAM, asked, ended
from tests.interchange.test_process import CONFIGURATION, client

pytestmark = pytest.mark.process

PAGE = 3
ROUNDS = 40


def test_a_walk_among_writers_misses_nothing(pair: Pair) -> None:
    """Pages behind the last key, read while both processes write: each record that is kept comes once, in order."""
    store = Store(pair.database, ["riverbend"], now, INDEXERS, alone=False)
    parameters = KEPT["Patient"].search_parameters(FhirVersion.R4)
    search = parse_search("Patient", parameters, (("family", "walked"),), "http://x")
    seen: list[str] = []
    done = threading.Event()

    def walk() -> None:
        after = 0
        while True:
            last = done.is_set()
            page = partial(find, search=search, count=PAGE, after=after, counted=False)
            found = store.read("riverbend", page)
            seen.extend(record.id for record in found.records)
            if found.records:
                after = found.records[-1].key
            elif last:
                return

    walker = threading.Thread(target=walk)
    walker.start()
    fresh = count()

    def visit() -> dict[str, Any]:
        people = [patient(name=[{"family": "Walked", "given": [f"G{next(fresh)}"]}]) for _ in range(4)]
        entries = [{"request": {"method": "POST", "url": "Patient"}, "resource": person} for person in people]
        return {"resourceType": "Bundle", "type": "transaction", "entry": entries}

    kept: set[str] = set()
    try:
        for _ in range(ROUNDS):
            answers = at_once(pair, [("POST", "/fhir/R4", visit(), {}) for _ in range(4)])
            assert statuses(answers) == [200] * 4
            for answer in answers:
                kept.update(one["response"]["location"].split("/Patient/")[1][:24] for one in answer.json()["entry"])
    finally:
        done.set()
        walker.join(60)
        store.close()
    assert len(kept) == 16 * ROUNDS
    assert len(seen) == len(kept)
    assert set(seen) == kept


def test_a_page_is_continued_by_the_other(pair: Pair) -> None:
    """Links to further pages are good for either process: of a search by cursor, of one by POST, and of a chart."""
    made = {pair.create(name=[{"family": "Paged", "given": [f"G{number}"]}])["id"] for number in range(5)}
    path = "/fhir/R4/Patient?family=paged&_paging=cursor&_count=2"
    seen = []
    while path:
        bundle = pair.ask("GET", path).json()
        seen += [entry["resource"]["id"] for entry in bundle["entry"]]
        further = [link["url"] for link in bundle["link"] if link["relation"] == "next"]
        path = "/fhir/" + further[0].partition("/fhir/")[2] if further else ""
    assert len(seen) == 5
    assert set(seen) == made
    one = seen[0]
    for _ in range(3):
        create(pair, observation(one))
    path, seen = f"/fhir/R4/Patient/{one}/$everything?_count=1", []
    while path:
        bundle = pair.ask("GET", path).json()
        seen += [entry["resource"]["id"] for entry in bundle["entry"]]
        further = [link["url"] for link in bundle["link"] if link["relation"] == "next"]
        path = "/fhir/" + further[0].partition("/fhir/")[2] if further else ""
    assert len(seen) == len(set(seen)) == 4


def test_a_revoked_token_is_refused_by_both(pair: Pair) -> None:
    """A token that one process has served by is refused by it from the moment that the other has revoked it."""
    first, second = pair.processes
    fields = {"grant_type": "client_credentials", "client_id": "physician", "client_secret": SECRET, "scope": "user/."}
    for one, other in ((first, second), (second, first)):
        token = pair.http.post(f"{one.url}/oauth/token", data=fields).json()["access_token"]
        headers = {"authorization": f"Bearer {token}"}
        for each in (one, other, one):
            assert pair.http.get(f"{each.url}/fhir/R4/Patient?_count=0", headers=headers).status_code == 200
        assert pair.http.get(f"{other.url}/oauth/cancel", params={"token": token}).status_code == 200
        assert pair.http.get(f"{one.url}/fhir/R4/Patient?_count=0", headers=headers).status_code == 401


def test_subscriptions_of_one_see_writes_of_the_other(pair: Pair) -> None:
    """A subscription made, changed or deleted at one process counts for the next write at the other."""
    first, second = pair.processes
    person = pair.create()["id"]
    create(second, observation(person, "100-1"))
    made = subscribe(first, "Observation?code=100-1")["id"]
    told = create(second, observation(person, "100-1"))["id"]
    assert owed(pair, made) == [f"Observation/{told}/1"]
    assert second.ask("DELETE", f"/fhir/R4/Subscription/{made}").status_code == 204
    create(first, observation(person, "100-1"))
    assert owed(pair, made) == [f"Observation/{told}/1"]


def test_what_one_asks_for_the_other_tells(pair: Pair) -> None:
    """A job asked for at either process is done by the one that does them, and fetched at either."""
    person = pair.create()["id"]
    handles = [
        process.ask("POST", f"/fhir/R4/Patient/{person}/$export-ccda", headers={"prefer": "respond-async"}).headers
        for process in pair.processes
    ]
    for handle in handles:
        path = "/fhir/" + handle["location"].partition("/fhir/")[2]
        until = time.monotonic() + 30
        while (answer := pair.ask("GET", path)).status_code == 202:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert answer.status_code == 200


def test_jobs_of_a_killed_process_are_done_by_the_other(tmp_path: Path, database: str) -> None:
    """What a process was doing when it was killed, and what waited for it, another takes up within moments."""
    with contextlib.ExitStack() as stack:
        processes: list[Process] = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            made = started(tmp_path / name, CONFIGURATION, FORKED, "", PROGRAM, database)
            processes.append(stack.enter_context(made))
        first, second = processes
        with client(first.url) as http:
            headers = dict(http.headers)
        http = stack.enter_context(httpx.Client(base_url=second.url, headers=headers, trust_env=False, timeout=60))
        handles = [asked(http, f"p{number}", "?seconds=2") for number in range(2)]
        wait_until(database, "SELECT count(*) FROM job WHERE state='running'", 2)
        handles.append(asked(http, "p9"))
        first.run.kill()
        assert first.run.wait(60) == KILLED
        assert [ended(http, handle).status_code for handle in handles] == [200] * 3
        assert second.event("jobs were interrupted")["count"] == 2
    connection = open_known(place_of(database))
    names = connection.execute("SELECT body FROM resource WHERE type='Organization'").fetchall()
    jobs = connection.execute("SELECT id, attempts FROM job ORDER BY number").fetchall()
    connection.close()
    assert len(names) == 3, "each job has kept what it is to keep, once"
    assert [attempts for _, attempts in jobs] == [2, 2, 1]


def wait_until(database: str, query: str, number: int) -> None:
    """Wait until a query counts so many; AssertionError after half a minute."""
    until = time.monotonic() + 30
    with contextlib.closing(open_known(place_of(database))) as connection:
        while connection.execute(query).fetchone()[0] != number:
            assert time.monotonic() < until, query
            time.sleep(0.02)
