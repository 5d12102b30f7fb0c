"""Temporary Binaries: what an operation made, for its tenant, for an hour, and for nobody else."""

from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from engine.interchange.rest.binary.temporary import LIFE, new_temporary, take_expired
from engine.interchange.store import temporary
from engine.interchange.store.temporary import DUE, EMPTY, FORGET, GET, KNOWN_MS, due, sweep
from engine.interchange.store.transaction import milliseconds
from tests.interchange.browser import USERS
from tests.interchange.kit import BASES, Inside, configuration, issue, running_inside, secret_file
from tests.interchange.test_access_log import ROWS
from tests.interchange.test_patient_context import App, clients

BODY = b"<ClinicalDocument>\xff" + b"x" * 5000 + b"</ClinicalDocument>"
XML = {"accept": "text/xml", "accept-encoding": "identity"}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """A service of this file's own, with clients whose tokens are for one patient."""
    folder: Path = tmp_path_factory.mktemp("temporary")
    known = {**configuration(secret_file(folder)).clients, "portal": clients(folder)["portal"]}
    with running_inside(folder, clients=known, users=USERS) as found:
        yield found


def keep(inside: Inside, patient: str, body: bytes = BODY) -> str:
    """Let the service keep a document of a patient for an hour, as an operation does."""
    service = inside.app.service
    until = service.clock() + LIFE
    document = new_temporary(body, "text/xml", until, patient=patient)
    inside.run(service.store.write("riverbend", lambda inner: temporary.keep(inner, document)))
    return document.id


def rows(inside: Inside) -> list[tuple[Any, ...]]:
    """Return what the access log has now."""
    return inside.app.service.store.reader().execute(ROWS).fetchall()


@pytest.mark.parametrize("accept", ["text/xml", "*/*", "", "application/xml, text/xml;q=0.9"])
def test_it_is_fetched_as_it_is(kept: Inside, base: str, accept: str) -> None:
    """Its bytes with their media type, as a file: nothing that a browser would show or run."""
    made = keep(kept, kept.create()["id"])
    answer = kept.ask("GET", f"{base}/Binary/{made}", headers={**XML, "accept": accept})
    assert (answer.status_code, answer.content) == (200, BODY)
    told = answer.headers
    assert (told["content-type"], told["content-length"]) == ("text/xml", str(len(BODY)))
    assert told["etag"] == f'"{sha256(BODY).hexdigest()}"'
    assert told["content-disposition"] == "attachment"
    assert (told["x-content-type-options"], told["cache-control"]) == ("nosniff", "no-store")


def test_it_is_shown_as_fhir(kept: Inside, base: str) -> None:
    """Whoever accepts FHIR gets a Binary of that version, also in a batch."""
    made = keep(kept, kept.create()["id"], b"x")
    wanted = {"resourceType": "Binary", "id": made, "contentType": "text/xml"}
    wanted["data" if base == BASES["R4"] else "content"] = "eA=="
    assert kept.ask("GET", f"{base}/Binary/{made}").json() == wanted
    assert kept.ask("GET", f"{base}/Binary/{made}?_format=json", headers=XML).json() == wanted
    batch = {
        "resourceType": "Bundle",
        "type": "batch",
        "entry": [{"request": {"method": "GET", "url": f"Binary/{made}"}}],
    }
    assert kept.ask("POST", base, json=batch).json()["entry"][0]["resource"] == wanted


def test_who_may_fetch_it(kept: Inside, base: str) -> None:
    """Whoever of the tenant may read the chart; nobody of another tenant, no other role or scope."""
    path = f"{base}/Binary/{keep(kept, kept.create()['id'])}"
    for client in ("physician", "nurse", "read", "pread", "patient360", "system"):
        assert kept.ask("GET", path, client=client, headers=XML).content == BODY, client
    issue(kept.ask("GET", path, client="other", headers=XML), 404, "not-found")
    for client in ("administrative", "observation", "pwrite"):
        issue(kept.ask("GET", path, client=client, headers=XML), 403, "forbidden")
    issue(kept.http.get(kept.url + path), 401, "login")
    for method in ("PUT", "DELETE", "PATCH"):
        answer = kept.ask(method, path, headers={"content-type": "text/xml"}, content=b"<other/>")
        assert answer.headers["allow"] == "GET, HEAD", issue(answer, 405, "not-supported")


def test_a_token_for_one_patient_fetches_that_patients(kept: Inside, base: str) -> None:
    """N-168: one's own document is fetched, another's is 403."""
    mine, other = kept.create()["id"], kept.create()["id"]
    app = App(kept, mine)
    assert app.ask("GET", f"{base}/Binary/{keep(kept, mine)}").content == BODY
    issue(app.ask("GET", f"{base}/Binary/{keep(kept, other)}"), 403, "forbidden")


def test_whose_it_is_stands_in_the_access_log(kept: Inside, base: str) -> None:
    """N-320: the row of the access names the patient, whom neither address nor content need to name."""
    patient = kept.create()["id"]
    made = keep(kept, patient, b'{"resourceType":"Patient","id":"somebody-elses"}')
    kept.ask("GET", f"{base}/Binary/{made}", headers=XML)
    assert rows(kept)[-1][4:] == ("read-temporary", "Binary", made, patient, "done", 200)
    issue(kept.ask("GET", f"{base}/Binary/{made}", client="administrative", headers=XML), 403, "forbidden")
    assert rows(kept)[-1][4:] == ("read-temporary", "Binary", made, patient, "refused", 403)


def test_it_expires(inside: Inside, base: str) -> None:
    """C-335: after its hour 410, its content is swept, and a day later nothing knows of it."""
    service = inside.app.service
    made = keep(inside, inside.create()["id"])
    path = f"{base}/Binary/{made}"
    inside.advance(LIFE.total_seconds() - 60)
    assert inside.ask("GET", path, headers=XML).content == BODY
    inside.advance(60)
    inside.tokens.clear()
    told = issue(inside.ask("GET", path, headers=XML), 410, "not-found")
    assert told["location"] == ["http.id"]
    issue(inside.ask("GET", path, client="other", headers=XML), 404, "not-found")
    now_ms = milliseconds(service.clock())
    newer = keep(inside, "x")
    assert due(service.store.reader(), now_ms)
    inside.run(take_expired(service))
    assert not due(service.store.reader(), now_ms)
    count = "SELECT count(*), sum(length(body)) FROM temporary_binary"
    assert service.store.reader().execute(count).fetchone() == (2, len(BODY))
    issue(inside.ask("GET", path, headers=XML), 410, "not-found")
    assert inside.ask("GET", f"{base}/Binary/{newer}", headers=XML).status_code == 200
    assert inside.run(service.store.write_raw(lambda inner: sweep(inner, now_ms + KNOWN_MS))) == 1
    issue(inside.ask("GET", path, headers=XML), 404, "not-found")


def test_the_sweep_asks_an_index(inside: Inside) -> None:
    """Taking what has expired reads nothing else."""
    for statement, arguments, index in (
        (EMPTY, (b"", 1, 0, b""), "temporary_binary_by_expiry"),
        (FORGET, (0,), "temporary_binary_by_expiry"),
        (DUE, (1, b"", 0), "temporary_binary_by_expiry"),
        (GET, (1, "x"), "sqlite_autoindex_temporary_binary_1"),
    ):
        plan = inside.app.service.store.reader().execute(f"EXPLAIN QUERY PLAN {statement}", arguments).fetchall()
        assert any(f"USING INDEX {index} (" in row[-1] for row in plan), plan


def test_it_is_no_target_of_a_reference(kept: Inside, base: str) -> None:
    """What is there for an hour is attached to nothing that stays."""
    patient = kept.create()["id"]
    made = keep(kept, patient)
    assert timedelta(hours=1) == LIFE
    document = {
        "resourceType": "DocumentReference",
        "status": "current",
        "type": {"text": "x"},
        "subject": {"reference": f"Patient/{patient}"},
        "content": [{"attachment": {"url": f"{kept.url}{base}/Binary/{made}"}}],
    }
    document |= {"indexed": "2025-07-01T10:00:00Z"} if base == BASES["STU3"] else {}
    told = issue(kept.ask("POST", f"{base}/DocumentReference", json=document), 422, "not-found")
    assert told["location"] == ["DocumentReference.content[0].attachment.url"]
