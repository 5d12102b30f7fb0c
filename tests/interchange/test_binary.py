"""Binary as a kept type: content of any media type goes in and comes out, and belongs to whom it is attached."""

from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion
from engine.interchange.rest.binary.content import as_resource, content_of
from tests.interchange.browser import USERS
from tests.interchange.kit import BASES, Outside, Running, configuration, issue, running, secret_file
from tests.interchange.least import least, version_of
from tests.interchange.test_access_log import rows
from tests.interchange.test_patient_context import App, clients

PDF = b"%PDF-1.7\n\x00\xff\xfe" + bytes(range(256)) * 9
PLAIN = {"accept-encoding": "identity"}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """A service of this file's own, with an app whose tokens are for one patient, and small bodies."""
    folder: Path = tmp_path_factory.mktemp("binary")
    known = {**configuration(secret_file(folder)).clients, "portal": clients(folder)["portal"]}
    with running(folder, clients=known, users=USERS, max_body_bytes=20_000) as found:
        yield found


def element(base: str) -> str:
    """Return the name of the element that holds the content."""
    return "data" if base == BASES["R4"] else "content"


def send(
    service: Running, method: str, path: str, body: bytes, media_type: str = "application/pdf", **headers: str
) -> httpx.Response:
    """Send content as it is."""
    headers = {"content-type": media_type, **headers} if media_type else headers
    return service.ask(method, path, content=body, headers=headers)


def raw(service: Running, path: str, accept: str = "*/*", **more: Any) -> httpx.Response:
    """Return the answer to a read that does not ask for FHIR."""
    return service.ask("GET", path, headers={**PLAIN, "accept": accept}, **more)


def create(service: Running, base: str = "/fhir/R4", body: bytes = PDF, **headers: str) -> str:
    """Create a Binary of some content and return its id."""
    answer = send(service, "POST", f"{base}/Binary", body, **headers)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def attach(service: Running, patient: str, url: str, base: str = "/fhir/R4") -> httpx.Response:
    """Attach something to a document of a patient."""
    content = [{"attachment": {"url": url, "contentType": "application/pdf"}}]
    made = least("DocumentReference", patient, version_of(base), content=content)
    return service.ask("POST", f"{base}/DocumentReference", json=made)


@pytest.mark.parametrize(
    "media_type", ["application/pdf", "text/plain; charset=iso-8859-1", "image/jpeg", "text/html", ""]
)
def test_content_goes_in_and_comes_out(kept: Running, base: str, media_type: str) -> None:
    """A body of any media type is kept as it is and comes back as it was, as a file."""
    answer = send(kept, "POST", f"{base}/Binary", PDF, media_type)
    assert answer.status_code == 201, answer.text
    made, wanted = answer.json(), media_type or "application/octet-stream"
    assert (made["contentType"], b64decode(made[element(base)])) == (wanted, PDF)
    for accept in ("*/*", media_type or "image/png", "text/html, application/json"):
        read = raw(kept, f"{base}/Binary/{made['id']}", accept)
        assert (read.status_code, read.content) == (200, PDF)
        assert (read.headers["content-type"], read.headers["etag"]) == (wanted, 'W/"1"')
        assert read.headers["content-disposition"] == "attachment"
        assert read.headers["content-security-policy"] == "sandbox"
        assert read.headers["x-content-type-options"] == "nosniff"
    unchanged = kept.ask("GET", f"{base}/Binary/{made['id']}", headers={"if-none-match": 'W/"1"', "accept": "*/*"})
    assert (unchanged.status_code, unchanged.content) == (304, b"")


def test_fhir_goes_in_and_comes_out(kept: Running, base: str) -> None:
    """A Binary in FHIR's form is one: its element is `data` in R4 and `content` in STU3."""
    made = {"resourceType": "Binary", "contentType": "text/plain", element(base): "aGVsbG8="}
    for media_type in ("application/fhir+json", "application/json; charset=utf-8"):
        answer = kept.ask("POST", f"{base}/Binary", json=made, headers={"content-type": media_type})
        assert answer.status_code == 201, answer.text
        path = f"{base}/Binary/{answer.json()['id']}"
        assert raw(kept, path).content == b"hello"
        for asked in (kept.ask("GET", path), raw(kept, f"{path}?_format=json"), raw(kept, path, "application/json")):
            assert asked.headers["content-type"].startswith("application/fhir+json")
            assert {key: asked.json()[key] for key in made} == made
    for other, name in zip(BASES.values(), ("data", "content"), strict=True):
        assert kept.ask("GET", path.replace(base, other, 1)).json()[name] == "aGVsbG8="


@pytest.mark.parametrize(
    "media_type",
    ["text/html\nset-cookie: a=b", "text/html\r\nx: y", "nothing", "a/b;c", "\N{SNOWMAN}/x", 'a/b; c="d\ne"'],
)
def test_no_header_is_what_a_client_wrote(kept: Running, base: str, media_type: str) -> None:
    """A content type that is none, and what follows an id in a security context, come into no header."""
    patient = kept.create()["id"]
    context = {"reference": f"Patient/{patient}/_history/1\r\nset-cookie: c=d"}
    made = {"resourceType": "Binary", "contentType": media_type, element(base): "aGVsbG8=", "securityContext": context}
    answer = kept.ask("POST", f"{base}/Binary", json=made)
    if "\n" in media_type:
        issue(answer, 422, "invalid")
        return
    read = raw(kept, f"{base}/Binary/{answer.json()['id']}")
    assert (read.content, read.headers["content-type"]) == (b"hello", "application/octet-stream")
    assert read.headers["x-security-context"] == f"Patient/{patient}"
    assert "set-cookie" not in read.headers
    assert "x" not in read.headers


def test_what_fhir_is_not_a_binary(kept: Running, base: str) -> None:
    """FHIR, "Binary": other JSON is content, also as FHIR; what is wrong in a Binary is told."""
    text = b'{"resourceType":"Basic","code":{"text":"x"}}'
    for media_type in ("application/fhir+json", "application/json"):
        answer = send(kept, "POST", f"{base}/Binary", text, media_type)
        assert raw(kept, f"{base}/Binary/{answer.json()['id']}", "*/*").content == text
    assert send(kept, "POST", f"{base}/Binary", b"{no json", "application/json").status_code == 201
    issue(send(kept, "POST", f"{base}/Binary", b"{no json", "application/fhir+json"), 400, "structure")
    made = {"resourceType": "Binary", element(base): "aGVsbG8="}
    issue(kept.ask("POST", f"{base}/Binary", json=made), 400, "required")
    for wrong in ("!", "aGVsbG8"):
        issue(
            kept.ask("POST", f"{base}/Binary", json={**made, "contentType": "x/y", element(base): wrong}),
            422,
            "invalid",
        )


def test_other_accepts(kept: Running, base: str) -> None:
    """FHIR in XML is not served, wherever it stands in for the resource."""
    made = create(kept)
    issue(raw(kept, f"{base}/Binary/{made}", "application/fhir+xml"), 406, "not-supported")
    issue(raw(kept, f"{base}/Binary/{made}?_format=xml"), 406, "not-supported")


def test_update_and_versions(kept: Running, base: str) -> None:
    """Content replaces content under If-Match; each version is read as it was; a deletion ends it."""
    path = f"{base}/Binary/{create(kept, base)}"
    answer = send(kept, "PUT", path, b"two", "text/plain", **{"if-match": 'W/"1"'})
    assert (answer.status_code, answer.json()["meta"]["versionId"]) == (200, "2")
    stale = send(kept, "PUT", path, b"three", "text/plain", **{"if-match": 'W/"1"'})
    issue(stale, 412 if base == BASES["R4"] else 409, "conflict")
    assert (raw(kept, path).content, raw(kept, f"{path}/_history/1").content) == (b"two", PDF)
    assert raw(kept, f"{path}/_history/1").headers["content-type"] == "application/pdf"
    made = send(kept, "PUT", f"{base}/Binary/own-{base[-2:].strip('/')}", b"new", "text/plain")
    assert made.status_code == 201, made.text
    assert kept.ask("DELETE", path).status_code == 204
    issue(raw(kept, path), 410, "deleted" if base == BASES["R4"] else "not-found")


def test_reserved_ids(kept: Running, base: str) -> None:
    """Nobody makes a resource where temporary ones are."""
    issue(send(kept, "PUT", f"{base}/Binary/tmp-mine", b"x"), 405, "not-supported")


def test_size(kept: Running, base: str) -> None:
    """Content beyond max_body_bytes is 413, before it has been read where its length is told."""
    assert send(kept, "POST", f"{base}/Binary", b"x" * 20_000).status_code == 201
    issue(send(kept, "POST", f"{base}/Binary", b"x" * 20_001), 413, "too-long")


def test_attachments(kept: Running, base: str) -> None:
    """A document refers to a Binary by a relative address, which must lead somewhere; other hosts are let be."""
    patient, made = kept.create()["id"], create(kept, base)
    for url in (f"Binary/{made}", *(f"{kept.url}{one}/Binary/{made}" for one in BASES.values())):
        answer = attach(kept, patient, url, base)
        assert answer.json()["content"][0]["attachment"]["url"] == f"Binary/{made}", answer.text
    for url in ("https://elsewhere.example/Binary/x", "https://elsewhere.example/letter.pdf", "urn:uuid:x"):
        assert attach(kept, patient, url, base).json()["content"][0]["attachment"]["url"] == url
    told = issue(attach(kept, patient, "Binary/nothing", base), 422, "not-found")
    assert told["location"] == ["DocumentReference.content[0].attachment.url"]
    told = issue(kept.ask("DELETE", f"{base}/Binary/{made}"), 409, "conflict")
    assert "3 DocumentReference" in told["diagnostics"]


def test_a_patient_takes_content_along(kept: Running, base: str) -> None:
    """N-123: with a chart goes what is attached in it, and nothing that is another's too."""
    patient, other = kept.create()["id"], kept.create()["id"]
    own, shared, secured = create(kept), create(kept), create(kept, **{"x-security-context": f"Patient/{other}"})
    for who, one in ((patient, own), (patient, shared), (other, shared), (patient, secured)):
        attach(kept, who, f"Binary/{one}", base)
    assert kept.ask("DELETE", f"{base}/Patient/{patient}?_cascade=delete").status_code == 204
    assert [raw(kept, f"{base}/Binary/{one}").status_code for one in (own, shared, secured)] == [410, 200, 200]


def test_in_a_transaction(kept: Running, base: str) -> None:
    """A Binary and the document that has it attached are written together, by a URN."""
    patient = kept.create()["id"]
    binary = {"resourceType": "Binary", "contentType": "text/plain", element(base): "aGVsbG8="}
    content = [{"attachment": {"url": "urn:uuid:5f0c2b9e-8d7a-41c6-b3e2-f19000000001"}}]
    document = least("DocumentReference", patient, version_of(base), content=content)
    entries = [
        {"resource": document, "request": {"method": "POST", "url": "DocumentReference"}},
        {
            "fullUrl": content[0]["attachment"]["url"],
            "resource": binary,
            "request": {"method": "POST", "url": "Binary"},
        },
    ]
    answer = kept.ask("POST", base, json={"resourceType": "Bundle", "type": "transaction", "entry": entries})
    assert answer.status_code == 200, answer.text
    url = answer.json()["entry"][0]["resource"]["content"][0]["attachment"]["url"]
    assert raw(kept, f"{base}/{url}").content == b"hello"


def test_what_is_attached_is_reached(kept: Running, base: str) -> None:
    """Issue 13, 7: from what a search and $everything show, each attachment's address leads to its content."""
    patient, made = kept.create()["id"], create(kept, base)
    attach(kept, patient, f"Binary/{made}", base)
    for path in (f"DocumentReference?patient={patient}", f"Patient/{patient}/$everything"):
        entries = kept.ask("GET", f"{base}/{path}").json()["entry"]
        [document] = [one["resource"] for one in entries if one["resource"]["resourceType"] == "DocumentReference"]
        url = document["content"][0]["attachment"]["url"]
        assert raw(kept, f"{base}/{url}", "application/pdf").content == PDF


def test_whose_it_is(kept: Running, base: str) -> None:
    """N-168: a token for one patient reads what is attached in that chart, or secured by that patient, alone."""
    mine, other = kept.create()["id"], kept.create()["id"]
    app = App(kept, mine)
    ids = {}
    for who in (mine, other):
        ids[who] = [create(kept, base), create(kept, base, **{"x-security-context": f"Patient/{who}"})]
        document = attach(kept, who, f"Binary/{ids[who][0]}", base).json()["id"]
        ids[who].append(create(kept, base, **{"x-security-context": f"{kept.url}{base}/DocumentReference/{document}"}))
    for one in ids[mine]:
        assert app.ask("GET", f"{base}/Binary/{one}", accept="*/*").content == PDF
        assert app.ask("GET", f"{base}/Binary/{one}/_history/1", accept="*/*").content == PDF
    orphan = create(kept, base)
    for one in (*ids[other], orphan):
        issue(app.ask("GET", f"{base}/Binary/{one}"), 403, "forbidden")
        issue(app.ask("GET", f"{base}/Binary/{one}/_history"), 403, "forbidden")
    attach(kept, other, f"Binary/{ids[mine][0]}", base)
    issue(app.ask("GET", f"{base}/Binary/{ids[mine][0]}"), 403, "forbidden")
    read = raw(kept, f"{base}/Binary/{ids[mine][1]}")
    assert read.headers["x-security-context"] == f"Patient/{mine}"


def test_nobody_attaches_what_is_anothers(kept: Running, base: str) -> None:
    """N-168: a token for one patient attaches nothing of others to that chart, where it could then be read."""
    mine, other = kept.create()["id"], kept.create()["id"]
    app = App(kept, mine)
    own = create(kept, base, **{"x-security-context": f"Patient/{mine}"})
    for url, status in ((f"Binary/{own}", 201), (f"Binary/{create(kept, base)}", 403)):
        made = least("DocumentReference", mine, version_of(base), content=[{"attachment": {"url": url}}])
        assert app.ask("POST", f"{base}/DocumentReference", made).status_code == status, url
    secured = {**least("Binary", other, version_of(base))}
    issue(app.ask("POST", f"{base}/Binary", secured), 403, "forbidden")
    assert app.ask("POST", f"{base}/Binary", least("Binary", mine, version_of(base))).status_code == 201


def test_whom_it_names_in_the_log(own_service: Running, base: str) -> None:
    """N-320: the row of a read names the patient in whose chart it is; what content says of others is no access."""
    patient = own_service.create()["id"]
    made = create(own_service, base, b'{"resourceType":"Patient","id":"somebody-elses"}')
    assert rows(own_service)[-1][7] == ""
    attach(own_service, patient, f"Binary/{made}", base)
    for accept in ("*/*", "application/fhir+json"):
        raw(own_service, f"{base}/Binary/{made}", accept)
        assert rows(own_service)[-1][4:8] == ("read", "Binary", made, patient)
    create(own_service, base, **{"x-security-context": f"Patient/{patient}"})
    assert rows(own_service)[-1][7] == patient


@given(body=st.binary(max_size=200), version=st.sampled_from(list(FhirVersion)))
def test_any_bytes_stay_as_they_are(body: bytes, version: FhirVersion) -> None:
    """Whatever the bytes, and also where they are said to be JSON: what comes out is what went in."""
    for media_type in ("", "application/json", "text/plain"):
        made = as_resource({"content-type": media_type}, body, version)
        assert content_of(made, version) == body
        assert made[{"R4": "data", "STU3": "content"}[version]] == b64encode(body).decode()
