"""Every refusal on a FHIR path is an OperationOutcome, by a table and by random requests (points Z)."""

from typing import Any

import httpx
import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.interchange.outcome import Category
from tests.interchange.kit import Outside, Running, issue, merge_body, patient, record_number

JSON = {"content-type": "application/fhir+json"}
ONE = patient(name=[{"family": "One", "given": ["Of", "Each"]}])
NUMBER = record_number("of-errors")


def fhir(method: str, path: str, **more: Any) -> tuple[str, str, dict[str, Any]]:
    """Return a request below a base."""
    return method, path, more


# One request for each row of the table of section 1.1 that a client can bring about by itself.
REFUSED = [
    pytest.param(fhir("POST", "/Patient", content=b"{", headers=JSON), 400, "structure", id="400 structure"),
    pytest.param(fhir("POST", "/Patient", json=patient(gender=None)), 400, "required", id="400 required"),
    pytest.param(fhir("GET", "/Patient?_count=x"), 400, "invalid", id="400 invalid"),
    pytest.param(fhir("GET", "/Patient?%ff=%fe"), 400, "invalid", id="400 invalid query"),
    pytest.param(fhir("GET", "/Patient?family=%00"), 400, "invalid", id="400 invalid NUL"),
    pytest.param(fhir("GET", f"/Patient?{'a=b&' * 101}"), 400, "invalid", id="400 invalid many"),
    pytest.param(fhir("GET", "/Patient?nonsense=1"), 400, "not-supported", id="400 not-supported"),
    pytest.param(fhir("GET", "/Patient?_offset=9999"), 400, "too-costly", id="400 too-costly"),
    pytest.param(fhir("GET", "/Patient", headers={"authorization": ""}), 401, "login", id="401 login"),
    pytest.param(fhir("GET", "/Patient", client="observation"), 403, "forbidden", id="403 scope"),
    pytest.param(
        fhir("POST", "/Patient/$merge", client="administrative", json=merge_body("a", "b")),
        403,
        "forbidden",
        id="403 role",
    ),
    pytest.param(fhir("GET", "/Patient/nobody"), 404, "not-found", id="404 resource"),
    pytest.param(fhir("GET", "/Nonsense"), 404, "not-supported", id="404 type"),
    pytest.param(fhir("GET", "/Patient/a%2Fb"), 404, "not-supported", id="404 escaped slash"),
    pytest.param(fhir("GET", "/Patient/%00"), 404, "not-found", id="404 NUL"),
    pytest.param(fhir("GET", "/Patient/%2e%2e"), 404, "not-found", id="404 dots"),
    pytest.param(fhir("PUT", "/Patient/%2e%2e", json=patient(id="..")), 404, "not-found", id="404 dots to write"),
    pytest.param(fhir("PUT", "/Patient/a%20b", json=patient(id="a b")), 400, "invalid", id="400 id"),
    pytest.param(fhir("GET", f"/Patient/{'a' * 65}"), 404, "not-found", id="404 long id"),
    pytest.param(fhir("GET", "/Patient/1/"), 404, "not-supported", id="404 trailing slash"),
    pytest.param(fhir("DELETE", "/Patient/1"), 405, "not-supported", id="405 DELETE"),
    pytest.param(fhir("OPTIONS", "/Patient"), 405, "not-supported", id="405 OPTIONS"),
    pytest.param(fhir("PROPFIND", "/Patient"), 405, "not-supported", id="405 PROPFIND"),
    pytest.param(fhir("POST", "/metadata", json={}), 405, "not-supported", id="405 metadata"),
    pytest.param(fhir("GET", "/Patient", headers={"accept": "text/xml"}), 406, "not-supported", id="406"),
    pytest.param(fhir("POST", "/Patient", json=ONE, copies=10), 409, "duplicate", id="409 limit"),
    pytest.param(
        fhir("POST", "/Patient", json=patient(identifier=[NUMBER]), copies=1), 409, "duplicate", id="409 number"
    ),
    pytest.param(fhir("POST", "/Patient", content=b" " * 10_485_761, headers=JSON), 413, "too-long", id="413"),
    pytest.param(fhir("POST", "/Patient", content=b"<a/>"), 415, "not-supported", id="415"),
    pytest.param(fhir("POST", "/Patient", json=patient(gender="X")), 422, "invalid", id="422 invalid"),
    pytest.param(
        fhir("POST", "/Patient", json=patient(generalPractitioner=[{"reference": "https://elsewhere.example/P/1"}])),
        422,
        "not-found",
        id="422 not-found",
    ),
]


@pytest.mark.parametrize(("request_", "status", "code"), REFUSED)
def test_every_refusal_is_an_outcome(
    service: Running, base: str, request_: tuple[str, str, dict[str, Any]], status: int, code: str
) -> None:
    """C-550: severity, code, diagnostics and location stand on every refusal of the table, in both versions."""
    method, path, given_ = request_
    more = dict(given_)
    for _ in range(more.pop("copies", 0)):
        service.ask(method, base + path, **more)
    answer = service.ask(method, base + path, **more)
    first = issue(answer, status, code)
    assert first["location"][0].startswith(("http", "Patient", "Parameters"))
    assert (status == 405) == ("allow" in answer.headers)
    assert answer.headers["cache-control"] == "no-store"


def test_nobody_learns_from_a_refusal_what_was_sent(service: Running) -> None:
    """A refusal names elements, parameters and modifiers, never what a client wrote in them."""
    secret = "Kanarivogel"
    marked = {"resourceType": "Patient", secret: secret, "name": secret, "gender": secret, "birthDate": secret}
    bodies = [
        marked,
        {**marked, "name": [{secret: secret, "family": [secret]}]},
        patient(gender=secret, birthDate=secret, maritalStatus={"coding": [{"system": secret, secret: 1}]}),
        patient(identifier=[{"type": {"coding": [{"code": "MR"}]}, "value": secret}]),
        patient(generalPractitioner=[{"reference": f"https://{secret}.example/{secret}"}]),
        patient(generalPractitioner=[{"reference": f"Practitioner/{secret}"}]),
        patient(telecom=[{"system": secret, "value": secret, "rank": secret}]),
        {"resourceType": secret},
        {"resourceType": "Parameters", "parameter": [{"name": secret, "valueString": secret}]},
    ]
    answers = [service.ask("POST", "/fhir/R4/Patient", json=body) for body in bodies]
    answers += [service.ask("POST", "/fhir/R4/Patient/$merge", json=body) for body in bodies]
    answers += [service.ask("POST", "/fhir/Patient", json=body) for body in bodies]
    queries = (f"birthdate={secret}", f"_count={secret}", f"_id:x={secret}", f"identifier={secret}|{secret}|")
    answers += [service.ask("GET", f"/fhir/R4/Patient?{query}") for query in queries]
    answers += [service.ask("POST", "/fhir/R4/Patient", json=patient(), headers={"if-none-exist": secret})]
    answers += [service.ask("PUT", "/fhir/Patient/a", json=patient(id="a"), headers={"if-match": secret})]
    answers += [service.ask(secret.upper()[:4], "/fhir/R4/Patient"), service.ask("GET", f"/fhir/R4/{secret}/1")]
    refused = [answer for answer in answers if answer.status_code >= 400]
    assert len(refused) >= len(answers) - 2
    assert [answer.text for answer in refused if secret.lower() in answer.text.lower()] == []


def test_what_only_the_service_brings_about() -> None:
    """C-550: the table of refusals is the one of the design, and what this service adds to it."""
    table = {(one.status, one.value[1]) for one in Category}
    assert {(429, "throttled"), (500, "exception"), (504, "timeout"), (410, "deleted"), (412, "conflict")} <= table
    assert {(408, "timeout"), (414, "too-long"), (431, "too-long"), (503, "transient")} <= table


PATHS = st.one_of(
    st.sampled_from(["/fhir", "/fhir/", "/fhir/R4", "/fhir/R4/", "/fhir/metadata", "/fhir/R4/Patient/$merge"]),
    st.builds(
        lambda version, kind, rest: f"/fhir{version}/{kind}{rest}",
        st.sampled_from(["", "/R4", "/R4/R4", "//", "/STU3"]),
        st.sampled_from(["Patient", "Observation", "ServiceRequest", "ProcedureRequest", "patient", "%50atient", "$x"]),
        st.one_of(
            st.sampled_from(["", "/", "/1", "/1/_history/1", "/$everything", "/1/$x", "/..", "/%2e%2e/%2fx"]),
            st.binary(max_size=12).map(lambda raw: "/" + "".join(f"%{byte:02x}" for byte in raw)),
        ),
    ),
)
QUERIES = st.one_of(
    st.just(""),
    st.lists(
        st.builds(
            lambda name, modifier, value: f"{name}{modifier}={value}",
            st.sampled_from(
                ["family", "birthdate", "identifier", "_count", "_offset", "_id", "_lastUpdated", "x", "_format"]
            ),
            st.sampled_from(["", ":exact", ":contains", ":missing", ":Patient.name", ":"]),
            st.one_of(
                st.sampled_from(
                    ["", "1", "-1", "ge2020", "9999-99-99", "a|b|c", "|", ",", "\\", "\\,", "%00", "1e9", "0001"]
                ),
                st.binary(max_size=8).map(lambda raw: "".join(f"%{byte:02x}" for byte in raw)),
            ),
        ),
        max_size=4,
    ).map("&".join),
)
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["resourceType", "id", "name", "identifier", "reference", "extension", "parameter", "value"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)
BODIES = st.one_of(
    st.binary(max_size=40),
    VALUES.map(
        lambda value: orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_SUBCLASS, default=str) if fits(value) else b"0"
    ),
    st.dictionaries(
        st.sampled_from(
            ["id", "meta", "name", "identifier", "gender", "birthDate", "contact", "link", "extension", "contained"]
        ),
        VALUES,
        max_size=5,
    ).map(lambda part: orjson.dumps({**patient(), **part}) if fits(part) else b"1"),
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "content-type": st.sampled_from(["application/fhir+json", "application/json;charset=x", "text/plain", ";", ""]),
        "accept": st.sampled_from(["*/*", "application/fhir+json", "text/html", ",,;q=", "application/xml;q=0"]),
        "prefer": st.sampled_from(["return=minimal", "return=x", "create-always", "respond-async", "=;,=", ""]),
        "if-match": st.sampled_from(['W/"1"', '"', "*", "W/1", 'W/"99999999999999999999"']),
        "if-none-match": st.sampled_from(['W/"1"', "*", ","]),
        "if-none-exist": st.sampled_from(["family=a", "?", "x=y", "birthdate=x", "%ff=%00", "given:missing=true"]),
        "x-request-id": st.text(st.characters(codec="latin-1", exclude_categories=("Cc",)), max_size=20).map(str.strip),
        "authorization": st.sampled_from(["Bearer", "Bearer x", "Basic eDp5", "bearer \xe9", ""]),
    },
)


def fits(value: Any) -> bool:
    """Say whether orjson writes a value: whole numbers of 64 bits, no lone surrogates."""
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]),
    path=PATHS,
    query=QUERIES,
    headers=HEADERS,
    body=BODIES,
)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(method="POST", path="/fhir/R4/Patient", query="", headers={}, body=orjson.dumps({**patient(), "name": 5}))
def test_no_request_breaks_the_service(
    service: Outside, method: str, path: str, query: str, headers: dict[str, str], body: bytes
) -> None:
    """C-550, C-551: whatever is asked is answered, never with 500, and every refusal is an OperationOutcome."""
    sent = {"content-type": "application/fhir+json", "authorization": f"Bearer {service.token('physician')}", **headers}
    raw = [(name, value.encode("latin-1")) for name, value in sent.items()]
    url = httpx.URL(service.url).copy_with(raw_path=f"{path}{'?' * bool(query)}{query}".encode())
    answer = service.http.send(service.http.build_request(method, url, headers=raw, content=body))
    assert answer.status_code < 500
    if answer.status_code >= 400 and method != "HEAD":
        assert answer.headers["content-type"] == "application/fhir+json"
        for one in answer.json()["issue"]:
            assert one["severity"] == "error"
            assert one["diagnostics"]
            assert one["location"]
