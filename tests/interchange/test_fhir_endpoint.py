"""The door: addresses, media types, HTTP basics, errors and limits (points A, Z)."""

from pathlib import Path

import httpx
import pytest

from tests.interchange.kit import Inside, Running, conforms, issue, patient, running


def test_both_bases_serve_the_same_patient(service: Running) -> None:
    """C-001, C-002, C-003: the R4 and the STU3 base answer with the same Patient as application/fhir+json."""
    made = service.create()
    for base in ("/fhir/R4", "/fhir"):
        answer = service.ask("GET", f"{base}/Patient/{made['id']}")
        assert answer.status_code == 200
        assert answer.json()["resourceType"] == "Patient"
        assert answer.json()["id"] == made["id"]
        assert answer.headers["content-type"].startswith("application/fhir+json")


@pytest.mark.parametrize(
    "media_type", ["application/fhir+json", "application/json", "application/fhir+json;charset=utf-8"]
)
def test_json_bodies_are_taken(service: Running, base: str, media_type: str) -> None:
    """C-004, C-005: FHIR's media type and plain JSON are both taken."""
    headers = {"content-type": media_type, "prefer": "create-always"}
    assert service.ask("POST", f"{base}/Patient", json=patient(), headers=headers).status_code == 201


def test_other_bodies_are_refused(service: Running, base: str) -> None:
    """C-006: a body of another media type is 415, and so is one of none."""
    issue(
        service.ask("POST", f"{base}/Patient", json=patient(), headers={"content-type": "text/plain"}),
        415,
        "not-supported",
    )
    issue(service.ask("POST", f"{base}/Patient", content=b"{}"), 415, "not-supported")


@pytest.mark.parametrize(
    ("accept", "query", "status"),
    [
        ("application/fhir+xml", "", 406),
        ("text/html, application/fhir+json;q=0", "", 406),
        ("text/html, */*;q=0.8", "", 200),
        ("application/json", "", 200),
        ("application/fhir+json", "?_format=xml", 406),
        ("application/fhir+xml", "?_format=json", 200),
        ("*/*", "?_format=application/fhir+json", 200),
        ("*/*", "?_format=application%2Ffhir%2Bjson", 200),
    ],
)
def test_only_json_goes_out(service: Running, accept: str, query: str, status: int) -> None:
    """C-007: an Accept or _format without JSON is 406; _format goes before Accept."""
    made = service.create()
    answer = service.ask("GET", f"/fhir/R4/Patient/{made['id']}{query}", headers={"accept": accept})
    assert answer.status_code == status
    if status == 406:
        issue(answer, 406, "not-supported")


@pytest.mark.parametrize(
    "path", ["/Nonsense", "/Nonsense/1", "/Patient/1/$nonsense", "/Patient/1/_other/1", "/Patient/"]
)
def test_unknown_addresses(service: Running, base: str, path: str) -> None:
    """C-008: what the service does not have is 404 not-supported."""
    issue(service.ask("GET", base + path), 404, "not-supported")


def test_a_method_that_is_not_there(service: Running, base: str) -> None:
    """C-009, N-120: POST to a patient is 405 with Allow, and the patient is as it was."""
    made = service.create()
    answer = service.ask("POST", f"{base}/Patient/{made['id']}", json=made)
    issue(answer, 405, "not-supported")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, PATCH, PUT"
    assert service.ask("GET", f"{base}/Patient/{made['id']}").headers["etag"] == 'W/"1"'


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
def test_a_base_takes_bundles_only(service: Running, base: str, method: str) -> None:
    """C-009: another method than POST at a base is 405, and Allow says what it takes."""
    for path in (base, f"{base}/"):
        answer = service.ask(method, path)
        issue(answer, 405, "not-supported")
        assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(("base_path", "version"), [("/fhir/R4", "4.0.1"), ("/fhir", "3.0.1")])
def test_metadata_is_open_and_true(service: Running, base_path: str, version: str) -> None:
    """C-010, C-011: /metadata needs no token and names what is served, $merge among it."""
    answer = service.http.get(f"{service.url}{base_path}/metadata")
    conforms(answer, f"{base_path}/metadata")
    statement = answer.json()
    assert statement["fhirVersion"] == version
    rest = statement["rest"][0]
    resource = next(one for one in rest["resource"] if one["type"] == "Patient")
    assert resource["type"] == "Patient"
    assert {one["code"] for one in resource["interaction"]} == {
        *("read", "vread", "history-instance", "history-type", "search-type", "create", "update", "patch", "delete")
    }
    operations = resource.get("operation", []) + rest.get("operation", [])
    assert {operation["name"] for operation in operations} >= {"merge", "everything"}
    assert resource["conditionalCreate"] is True
    assert resource["versioning"] == "versioned"


def test_smart_configuration(service: Running) -> None:
    """C-012: the SMART configuration is open and names the token endpoints."""
    known = service.http.get(f"{service.url}/.well-known/smart-configuration").json()
    assert known["token_endpoint"] == f"{service.url}/oauth/token"
    assert known["introspection_endpoint"].endswith("/oauth/info")
    assert known["revocation_endpoint"].endswith("/oauth/cancel")


def test_versions_are_told(service: Running, base: str) -> None:
    """C-013: ETag is the version in meta; Last-Modified is there; If-None-Match spares the body."""
    made = service.create(base)
    answer = service.ask("GET", f"{base}/Patient/{made['id']}")
    assert answer.headers["etag"] == 'W/"1"'
    assert answer.json()["meta"]["versionId"] == "1"
    assert answer.headers["last-modified"].endswith("GMT")
    assert answer.json()["meta"]["lastUpdated"][-13:-10] != "000+"
    spared = service.ask("GET", f"{base}/Patient/{made['id']}", headers={"if-none-match": 'W/"1"'})
    assert (spared.status_code, spared.content) == (304, b"")


def test_tenants_do_not_see_each_other(service: Running, base: str) -> None:
    """C-014: another tenant's patient is absent from reads, searches, and updates."""
    made = service.create(base)
    issue(service.ask("GET", f"{base}/Patient/{made['id']}", client="other"), 404, "not-found")
    found = service.ask("GET", f"{base}/Patient?_id={made['id']}", client="other").json()
    assert (found["total"], found["entry"]) == (0, [])
    put = service.ask("PUT", f"{base}/Patient/{made['id']}", client="other", json=patient(id=made["id"]))
    assert put.status_code == 201
    kept = service.ask("GET", f"{base}/Patient/{made['id']}").json()
    assert kept["meta"]["versionId"] == "1"


def test_request_ids(service: Running) -> None:
    """C-015: a request id is echoed, on every door; without one the service makes it up."""
    for path in ("/fhir/R4/metadata", "/oauth/info", "/livez", "/nowhere"):
        answer = service.http.get(service.url + path, headers={"x-request-id": "abc-123"})
        assert answer.headers["x-request-id"] == "abc-123"
        assert service.http.get(service.url + path).headers["x-request-id"]


def test_health(service: Running) -> None:
    """The service says that it is alive and ready."""
    assert service.http.get(f"{service.url}/livez").status_code == 200
    assert service.http.get(f"{service.url}/readyz").json() == {"status": "ready"}


def test_an_unforeseen_error_tells_nothing(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """C-551: an unhandled exception is 500 exception without its text, and the log names nothing of the patient."""

    def fail() -> str:
        raise RuntimeError("Quintero")

    inside.token("physician")
    monkeypatch.setattr(inside.app.service, "new_id", fail)
    answer = inside.ask("POST", "/fhir/R4/Patient", json=patient())
    issue(answer, 500, "exception")
    said = "".join(capfd.readouterr())
    assert "Quintero" not in answer.text + said
    assert "Traceback" not in answer.text + said


def test_body_limit(tmp_path: Path) -> None:
    """C-561: a body over the limit is 413, whether its length is told or not; the connection stays usable."""
    with running(tmp_path, max_body_bytes=2048) as small:
        large = patient(address=[{"text": "x" * 4096}])
        issue(small.ask("POST", "/fhir/R4/Patient", json=large), 413, "too-long")
        told = {"content-type": "application/fhir+json"}
        pieces = (b"[1," * 100 for _ in range(40))
        issue(small.ask("POST", "/fhir/R4/Patient", content=pieces, headers=told), 413, "too-long")
        assert small.ask("POST", "/fhir/R4/Patient", json=patient()).status_code == 201


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 5000 + b"1", b"\xff\xfe", b"", b"{"])
def test_deep_or_broken_json(service: Running, base: str, body: bytes) -> None:
    """C-561, C-108: what is deep without an end, broken or empty is 400 structure."""
    answer = service.ask("POST", f"{base}/Patient", content=body, headers={"content-type": "application/fhir+json"})
    issue(answer, 400, "structure")


def test_order_of_checks(service: Running) -> None:
    """Section 1: 401, then the address, then the media type, then scope, then the body."""
    bad = {"content": b"{", "headers": {"content-type": "text/plain", "authorization": "Bearer no"}}
    answer = service.http.request("POST", f"{service.url}/fhir/R4/Nonsense", **bad)
    issue(answer, 401, "login")
    issue(service.ask("POST", "/fhir/R4/Nonsense", content=b"{"), 404, "not-supported")
    issue(service.ask("POST", "/fhir/R4/Patient", client="read", content=b"{"), 415, "not-supported")
    json = {"content-type": "application/fhir+json"}
    issue(service.ask("POST", "/fhir/R4/Patient", client="read", content=b"{", headers=json), 403, "forbidden")
    for query in ("family=%FF", "family=%00", "&".join(f"a{number}=1" for number in range(101))):
        issue(service.ask("GET", f"/fhir/R4/Patient?_format=xml&{query}", client="observation"), 406, "not-supported")
        issue(service.ask("GET", f"/fhir/R4/Patient?{query}", client="observation"), 403, "forbidden")
        issue(service.ask("GET", f"/fhir/R4/Patient?{query}"), 400, "invalid")


def test_conflict_is_told_before_a_bad_value(service: Running) -> None:
    """Section 1: 409 comes before 422."""
    made = service.create("/fhir")
    wrong = patient(id=made["id"], gender="X")
    stale = service.ask("PUT", f"/fhir/Patient/{made['id']}", json=wrong, headers={"if-match": 'W/"7"'})
    issue(stale, 409, "conflict")
    issue(service.ask("PUT", f"/fhir/Patient/{made['id']}", json=wrong), 422, "invalid")


def test_a_prefix_of_the_base_address_is_heeded(tmp_path: Path) -> None:
    """A service behind a proxy's path answers below it, and says so in Location."""
    with running(tmp_path, base_url="http://127.0.0.1:9/cdis") as proxied:
        proxied.url = f"http://127.0.0.1:{proxied.port}/cdis"
        answer = proxied.ask("POST", "/fhir/R4/Patient", json=patient())
        assert answer.headers["location"].startswith("http://127.0.0.1:9/cdis/fhir/R4/Patient/")


def test_stu3_aliases_are_off_by_default(service: Running, tmp_path: Path) -> None:
    """Section 1: /fhir/STU3 is served only where the configuration names it."""
    made = service.create()
    issue(service.ask("GET", f"/fhir/STU3/Patient/{made['id']}"), 404, "not-supported")
    with running(tmp_path, stu3_path_aliases=("STU3",)) as aliased:
        kept = aliased.create()
        assert aliased.ask("GET", f"/fhir/STU3/Patient/{kept['id']}").status_code == 200


def test_httpx_is_no_special_client(service: Running) -> None:
    """A fresh connection for each request works as well."""
    answer = httpx.get(f"{service.url}/fhir/metadata", trust_env=False)
    assert answer.status_code == 200
