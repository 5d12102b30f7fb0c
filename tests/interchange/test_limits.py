"""What a client may send and how long it may take: heads, bodies, time, connections (points A, Z)."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from engine.fhir.schema import FhirVersion
from engine.interchange.app import process
from engine.interchange.rest.resource import draft
from engine.interchange.web.http import fhir_endpoint
from tests.interchange.kit import Inside, Running, issue, patient, running, running_inside

JSON = {"content-type": "application/fhir+json"}
NEVER_ENDING = b"GET /fhir/R4/Patient HTTP/1.1\r\nHost: x\r\nX-Long: "


@contextlib.contextmanager
def line(service: Running) -> Iterator[socket.socket]:
    """Open a connection of one's own."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as opened:
        yield opened


def heard(opened: socket.socket) -> bytes:
    """Return all that comes until the other side closes."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := opened.recv(65536):
            parts.append(part)
    return b"".join(parts)


def outcome_of(answer: bytes) -> tuple[int, str]:
    """Return status and issue code of one raw answer that must be an OperationOutcome."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/fhir+json" in head
    assert b"connection: close" in head
    found = orjson.loads(body)["issue"][0]
    assert found["severity"] == "error"
    assert found["diagnostics"]
    assert found["location"]
    return int(head.split(b" ")[1]), found["code"]


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        pytest.param(NEVER_ENDING + b"a" * 1_000_000, 431, "too-long", id="one endless header"),
        pytest.param(b"GET /fhir HTTP/1.1\r\n" + b"a: b\r\n" * 5_000 + b"\r\n", 431, "too-long", id="many headers"),
        pytest.param(b"GET /fhir/R4/Patient?a=" + b"a" * 1_000_000, 414, "too-long", id="endless address"),
        pytest.param(b"\x16\x03\x01\x00\xa5\x01\r\n\r\n", 400, "structure", id="TLS to a plain port"),
        pytest.param(b"NONSENSE /fhir HTTP/1.1\r\n\r\n", 400, "structure", id="no method"),
        pytest.param(b"GET /fhir/R4/Patient/\xff HTTP/1.1\r\n\r\n", 400, "structure", id="no ASCII"),
        pytest.param(b"POST /fhir HTTP/1.1\r\ncontent-length: -5\r\n\r\n", 400, "structure", id="negative length"),
        pytest.param(b"POST /fhir HTTP/1.1\r\ncontent-length: five\r\n\r\n", 400, "structure", id="no length"),
        pytest.param(
            b"POST /fhir HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n1",
            400,
            "structure",
            id="two lengths",
        ),
        pytest.param(
            b"POST /fhir HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            "structure",
            id="length and chunks",
        ),
        pytest.param(b"GET /fhir HTTP/1.1\r\nx: a\x00b\r\n\r\n", 400, "structure", id="NUL in a header"),
    ],
)
def test_heads_are_bounded(service: Running, sent: bytes, status: int, code: str) -> None:
    """C-550: a head that is too large or no HTTP is refused in FHIR's form as soon as that is known, and closed."""
    with line(service) as opened:
        with contextlib.suppress(ConnectionError):
            opened.sendall(sent)
        assert outcome_of(heard(opened)) == (status, code)
    assert service.http.get(f"{service.url}/livez").status_code == 200


def test_large_heads_within_the_limits_pass(service: Running) -> None:
    """A query of 8,000 bytes and headers of 16,000 are taken."""
    headers = {"x-long": "a" * 15_000}
    answer = service.ask("GET", f"/fhir/R4/Patient?family={'a' * 7_900}", headers=headers)
    assert answer.json()["total"] == 0


def test_garbage_after_a_request_does_not_take_its_answer(service: Running) -> None:
    """A request that came whole is answered, and then the connection ends."""
    with line(service) as opened:
        opened.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n\x00\x01\x02")
        said = heard(opened)
    assert said.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in said


def test_a_slow_head_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that does not come in time is 408; a connection that says nothing is closed."""
    monkeypatch.setattr(process, "ARRIVAL_SECONDS", 0.3)
    with running_inside(tmp_path) as service, line(service) as slow, line(service) as silent:
        slow.sendall(NEVER_ENDING)
        assert outcome_of(heard(slow)) == (408, "timeout")
        assert heard(silent) == b""


def test_a_slow_body_is_refused(tmp_path: Path) -> None:
    """A body that stops coming, or comes byte by byte, is 408 after request_timeout_s, and nothing was done."""
    with running(tmp_path, request_timeout_s=1.5) as service, line(service) as opened:
        head = f"POST /fhir/R4/Patient HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {service.token('physician')}\r\n"
        opened.sendall(head.encode() + b"content-type: application/json\r\ncontent-length: 999\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(20):
                opened.sendall(b"{")
                time.sleep(0.1)
        assert outcome_of(heard(opened)) == (408, "timeout")
        assert service.ask("GET", "/fhir/R4/Patient?_count=0").json()["total"] == 0


def test_connections_are_bounded(tmp_path: Path) -> None:
    """Beyond max_connections a request is 503 with Retry-After; the others go on, and a free place is taken again."""
    with running(tmp_path, max_connections=2) as service:
        assert service.ask("GET", "/fhir/R4/Patient").status_code == 200
        with line(service) as held, line(service) as refused:
            held.sendall(b"GET /li")
            refused.sendall(b"GET /fhir/R4/metadata HTTP/1.1\r\nhost: x\r\n\r\n")
            said = heard(refused)
            assert outcome_of(said) == (503, "transient")
            assert b"retry-after: 1" in said
            assert service.ask("GET", "/fhir/R4/Patient").status_code == 200
            held.sendall(b"vez HTTP/1.1\r\nhost: x\r\n\r\n")
            assert held.recv(12) == b"HTTP/1.1 200"
        deadline = time.monotonic() + 60
        while (again := httpx.get(f"{service.url}/livez", trust_env=False).status_code) != 200:
            assert time.monotonic() < deadline, again


def test_a_refused_body_does_not_spoil_the_connection(tmp_path: Path) -> None:
    """C-561: a body over the limit is 413 before it is read, with or without a length; the next request is answered."""
    with running(tmp_path, max_body_bytes=2048) as service, line(service) as opened:
        token = service.token("physician")
        head = f"POST /fhir/R4/Patient HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n".encode()
        head += b"content-type: application/json\r\n"
        opened.sendall(head + b"content-length: 1000000\r\n\r\n")
        assert opened.recv(12) == b"HTTP/1.1 413"
        opened.sendall(b" " * 1_000_000 + b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert b'{"status":"alive"}' in heard(opened)
        with line(service) as chunked:
            chunked.sendall(head + b"transfer-encoding: chunked\r\n\r\n" + b"400\r\n" + b" " * 1024 + b"\r\n")
            chunked.sendall((b"400\r\n" + b" " * 1024 + b"\r\n") * 2)
            assert chunked.recv(12) == b"HTTP/1.1 413"


def test_expect_is_heeded(service: Running) -> None:
    """A client that waits for `100 Continue` gets it where its body is wanted, and else the refusal and an end."""
    body = orjson.dumps(patient())
    head = f"POST /fhir/R4/Patient HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {len(body)}\r\n"
    head += "content-type: application/json\r\nprefer: create-always\r\nauthorization: Bearer {}\r\n\r\n"
    with line(service) as wanted, line(service) as unwanted:
        wanted.sendall(head.format(service.token("physician")).encode())
        assert wanted.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wanted.sendall(body)
        assert wanted.recv(12) == b"HTTP/1.1 201"
        unwanted.sendall(head.format("nobody").encode())
        assert outcome_of(heard(unwanted)) == (401, "login")


@pytest.mark.parametrize("encoding", ["deflate", "br", "deflate, gzip", "gzip, gzip"])
def test_compressed_bodies_are_refused(service: Running, encoding: str) -> None:
    """N-313: a body that is compressed otherwise than by gzip is 415; one that is said to be as it is, is taken."""
    headers = {**JSON, "content-encoding": encoding}
    answer = service.ask("POST", "/fhir/R4/Patient", content=b"\x1f\x8b", headers=headers)
    issue(answer, 415, "not-supported")
    assert answer.headers["accept-encoding"] == "gzip"
    plain = {**JSON, "content-encoding": "identity", "prefer": "create-always"}
    assert service.ask("POST", "/fhir/R4/Patient", json=patient(), headers=plain).status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"resourceType":"Patient","name":[{"family":"a\x00b"}]}', id="raw NUL"),
        pytest.param(b'{"resourceType":"Patient","name":[{"family":"\\ud800"}]}', id="lone surrogate"),
        pytest.param(b'{"resourceType":"Patient","name":[{"family":"\xff"}]}', id="no UTF-8"),
        pytest.param(b'\xef\xbb\xbf{"resourceType":"Patient"}', id="byte order mark"),
        pytest.param('{"resourceType":"Patient"}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b'{"resourceType":"Patient","multipleBirthInteger":NaN}', id="NaN"),
        pytest.param(b'{"resourceType":"Patient","multipleBirthInteger":-Infinity}', id="Infinity"),
        pytest.param(b'{"resourceType":"Patient","multipleBirthInteger":1e400,}', id="a comma too many"),
        pytest.param(b'{"resourceType":"Patient","resourceType":"Patient"', id="no end"),
        pytest.param(b'{"resourceType":"Patient","a":"\\u0000","name":"\\ud800"}', id="NUL and a lone surrogate"),
    ],
)
def test_what_is_no_json(service: Running, base: str, body: bytes) -> None:
    """C-561: what is broken, or in no encoding of JSON, is 400 structure, whatever else is wrong with it."""
    issue(service.ask("POST", f"{base}/Patient", content=body, headers=JSON), 400, "structure")
    issue(service.ask("POST", f"{base}/Patient/$merge", content=body, headers=JSON), 400, "structure")


@pytest.mark.parametrize(
    ("body", "place"),
    [
        pytest.param(
            b'{"resourceType":"Patient","gender":"male","gender":"female"}', "Patient.gender", id="a key twice"
        ),
        pytest.param(
            b'{ "resourceType": "Patient", "name": [ { "family": "A", "family": "B" } ] }',
            "Patient.name[0].family",
            id="twice below",
        ),
        pytest.param(
            b'{"resourceType":"Patient","gender":"male","\\u0067ender":"female"}', "Patient.gender", id="twice, escaped"
        ),
        pytest.param(
            b'{"resourceType":"Patient","resourceType":"Patient"}', "Patient.resourceType", id="the type twice"
        ),
        pytest.param(
            b'{"resourceType":"Patient","name":[{},{"family":"a\\u0000b"}]}', "Patient.name[1].family", id="NUL"
        ),
        pytest.param(b'{"resourceType":"Patient","a\\u0000":1}', "Patient", id="NUL in a key"),
        pytest.param(
            b'{"resourceType":"Patient","multipleBirthInteger":1e400}', "Patient.multipleBirthInteger", id="1e400"
        ),
        pytest.param(b'{"resourceType":"Patient","a":{"b":[0,1e-400]}}', "Patient.a.b[1]", id="1e-400"),
        pytest.param(
            b'{"resourceType":"Patient","multipleBirthInteger":' + b"9" * 401 + b"}",
            "Patient.multipleBirthInteger",
            id="401 digits",
        ),
        pytest.param(b'{"resourceType":"Patient","a":' + b"9" * 5000 + b"}", "Patient.a", id="5,000 digits"),
        pytest.param(b'{"resourceType":"Patient","x":' + b"[" * 100 + b"]" * 100 + b"}", "Patient.x", id="101 levels"),
        pytest.param(
            b'{"resourceType":"Patient","x":' + b'{"a":' * 900 + b"1" + b"}" * 901, "Patient.x", id="901 levels"
        ),
        pytest.param(
            b'{"resourceType":"Patient","x":' + b'{"a":' * 5000 + b"1" + b"}" * 5001, "http.body", id="5,001 levels"
        ),
        pytest.param(b"[" * 101 + b"]" * 101, "http.body", id="101 levels of lists"),
    ],
)
def test_valid_json_that_readers_understand_differently(service: Running, base: str, body: bytes, place: str) -> None:
    """C-561: a NUL, a key twice, a number beyond a double and too many levels are JSON: 422 with the element."""
    for path in ("Patient", "Patient/$merge"):
        refused = issue(service.ask("POST", f"{base}/{path}", content=body, headers=JSON), 422, "invalid")
        assert refused["location"] == [place]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"resourceType":"Patient","multipleBirthInteger":' + b"9" * 30 + b"}", id="30 digits"),
        pytest.param(b'{"resourceType":"Patient","x":' + b"[" * 99 + b"]" * 99 + b"}", id="100 levels"),
        pytest.param(b"[" * 100 + b"]" * 100, id="100 levels of lists"),
        pytest.param(b'{"resourceType":"Patient","name":' + b"[1e300]" + b"}", id="a large number for a name"),
        pytest.param(b'"Patient"', id="a string"),
        pytest.param(b"null", id="null"),
    ],
)
def test_json_that_is_no_patient(service: Running, base: str, body: bytes) -> None:
    """JSON that can be read but is no Patient is refused as such; nothing behind the door falls over it."""
    answer = service.ask("POST", f"{base}/Patient", content=body, headers=JSON)
    assert answer.status_code in {400, 422}


def test_a_backslash_before_u0000_is_text(service: Running) -> None:
    """Six characters that look like the escape of a NUL are kept as they are."""
    made = service.create(name=[{"family": "a\\u0000b", "given": ["c"]}])
    assert made["name"][0]["family"] == "a\\u0000b"


def test_others_are_served_while_a_large_body_is_checked(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-561: the work on a large body holds up no other request."""
    begun, go = threading.Event(), threading.Event()
    check = draft.tolerated

    def check_slowly(body: Any, version: FhirVersion) -> Any:
        begun.set()
        assert go.wait(60)
        return check(body, version)

    patient_id = inside.create()["id"]
    monkeypatch.setattr(draft, "tolerated", check_slowly)
    monkeypatch.setattr(fhir_endpoint, "LARGE_BYTES", 2_000)
    answers: list[int] = []
    large = patient(id=patient_id, photo=[{"data": "AAAA" * 1_000}])
    path = f"/fhir/R4/Patient/{patient_id}"
    writing = threading.Thread(target=lambda: answers.append(inside.ask("PUT", path, json=large).status_code))
    writing.start()
    assert begun.wait(60)
    assert inside.ask("GET", path).json()["meta"]["versionId"] == "1"
    assert answers == []
    go.set()
    writing.join(60)
    assert answers == [200]
    assert inside.ask("GET", path).json()["photo"] == large["photo"]
