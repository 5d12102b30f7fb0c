"""Nothing of a patient leaves the service by a side door: canaries through every failure, then a search for them."""

import contextlib
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.interchange.kit import SECRET, Inside, Running, merge_body, patient, record_number, running

FAMILY = "Kanarivogel"
GIVEN = "Quetzalina"
NUMBER = "KNRMRN77"
STREET = "Pelikanstieg"
BIRTH = "1947-06-11"
QUERY = "Wiedehopf"
TOKEN = "at_Flamingo"
HEADER = "Papageitaucher"
CANARIES = (FAMILY, GIVEN, NUMBER, STREET, BIRTH, QUERY, TOKEN, HEADER, SECRET)
SUNG = patient(
    name=[{"family": FAMILY, "given": [GIVEN]}],
    birthDate=BIRTH,
    identifier=[record_number(NUMBER)],
    address=[{"text": STREET}],
)
FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/fhir+json", "x-request-id": HEADER, "user-agent": HEADER}
PATCH = {"content-type": "application/json-patch+json"}
PATCHES = (
    [{"op": FAMILY, "path": f"/{FAMILY}"}],
    [{"op": "remove", "path": f"/{FAMILY}/{NUMBER}"}],
    [{"op": "test", "path": "/name/0/family", "value": f"{FAMILY}{FAMILY}"}],
    [{"op": "add", "path": "/gender", "value": FAMILY}],
)
ENTRIES = (
    {"request": {"method": "POST", "url": f"Patient?family={QUERY}"}, "resource": {**SUNG, "gender": FAMILY}},
    {"request": {"method": FAMILY, "url": f"{FAMILY}/{NUMBER}"}},
    {"request": {"method": "PUT", "url": f"Patient?identifier={NUMBER}"}, "resource": {"id": FAMILY}},
    {
        "request": {"method": "POST", "url": "Condition"},
        "resource": {"resourceType": "Condition", "subject": {"reference": f"Patient?identifier={NUMBER}x"}},
    },
)


def leaks(said: str) -> list[str]:
    """Return the canaries that are in what was said."""
    return [canary for canary in CANARIES if canary.lower() in said.lower()]


def every_failure(service: Running) -> list[httpx.Response]:
    """Send canaries into every kind of refusal; return the answers that are refusals."""
    made = service.ask("POST", "/fhir/R4/Patient", json=SUNG, headers=JSON)
    assert made.status_code == 201
    at = f"/fhir/R4/Patient/{made.json()['id']}"
    answers = [
        service.ask("POST", "/fhir/R4/Patient", json=SUNG, headers=JSON),
        service.ask("POST", "/fhir/Patient", json={**SUNG, "gender": FAMILY, "identifier": []}, headers=JSON),
        service.ask("POST", "/fhir/R4/Patient", content=f'{{"{FAMILY}": {NUMBER}'.encode(), headers=JSON),
        service.ask("POST", "/fhir/R4/Patient", content=FAMILY.encode(), headers={**JSON, "content-type": FAMILY}),
        service.ask("PUT", at, json={**SUNG, "id": "other"}, headers=JSON),
        service.ask("PUT", at, json={**SUNG, "id": made.json()["id"]}, headers={**JSON, "if-match": QUERY}),
        service.ask("POST", "/fhir/R4/Patient", json=SUNG, headers={**JSON, "if-none-exist": f"phone={QUERY}"}),
        service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(("urn:x", NUMBER), ("urn:x", FAMILY))),
        service.ask("GET", f"/fhir/R4/Patient?birthdate={QUERY}&family={FAMILY}", headers=JSON),
        service.ask("GET", f"/fhir/R4/Patient?identifier={NUMBER}|{NUMBER}|{NUMBER}", headers=JSON),
        service.ask("GET", f"/fhir/R4/Patient/{FAMILY}%20{GIVEN}", headers=JSON),
        service.ask("GET", f"/fhir/R4/{FAMILY}/{NUMBER}", headers=JSON),
        service.ask("GET", at, headers={**JSON, "accept": f"text/{QUERY}"}),
        service.ask("DELETE", f"/fhir/R4/Patient/{FAMILY}?_cascade={QUERY}", headers=JSON),
        service.ask("DELETE", f"/fhir/R4/Patient?phone={QUERY}", headers=JSON),
        service.ask("PUT", f"/fhir/R4/Patient?identifier={NUMBER}|{NUMBER}|{NUMBER}", json=SUNG, headers=JSON),
        service.ask("GET", f"{at}/_history/{NUMBER}", headers=JSON),
        service.ask("GET", f"{at}/_history?_since={QUERY}", headers=JSON),
        *(service.ask("PATCH", at, json=steps, headers={**JSON, **PATCH}) for steps in PATCHES),
        *(
            service.ask("POST", "/fhir/R4", json={"resourceType": "Bundle", "type": kind, "entry": [one]}, headers=JSON)
            for kind in ("transaction", FAMILY)
            for one in ENTRIES
        ),
        service.ask("GET", f"/fhir/R4/Patient?_sort={QUERY}", headers=JSON),
        service.ask("GET", f"/fhir/R4/Patient?_elements={QUERY}", headers=JSON),
        service.ask("GET", f"{at}?_summary={QUERY}", headers=JSON),
        service.ask("GET", f"/fhir/R4/Patient?_include=Patient:{QUERY}", headers=JSON),
        service.ask("GET", f"/fhir/R4/Patient?_total={QUERY}&family={FAMILY}", headers=JSON),
        service.ask("GET", f"/fhir/R4/Patient?phone=a|{QUERY}|{NUMBER}", headers=JSON),
        service.ask("GET", f"/fhir/R4/Patient?_page={TOKEN}", headers=JSON),
        service.ask("GET", f"/fhir/R4/Observation?patient.birthdate={QUERY}", headers=JSON),
        service.ask("GET", f"/fhir/R4/Patient?_has:Observation:patient:date={QUERY}", headers=JSON),
        service.ask("POST", "/fhir/R4/Patient/_search", content=f"birthdate={FAMILY}", headers=FORM),
        service.ask("POST", "/fhir/R4/Patient/_search", content=f"{FAMILY}", headers=JSON),
        service.http.get(f"{service.url}/fhir/R4/Patient?family={QUERY}", headers={"authorization": f"Bearer {TOKEN}"}),
        service.http.get(f"{service.url}/oauth/info?access_token={TOKEN}"),
        service.http.get(f"{service.url}/{FAMILY}/{NUMBER}?{QUERY}={QUERY}"),
        service.http.post(f"{service.url}/oauth/token", data={"grant_type": FAMILY, "client_id": TOKEN}),
        service.http.post(f"{service.url}/oauth/token", content=f"{FAMILY}={FAMILY}&{FAMILY}={FAMILY}"),
        service.http.post(
            f"{service.url}/oauth/token",
            data={"grant_type": "client_credentials", "client_id": "physician", "client_secret": TOKEN},
        ),
    ]
    assert [answer.request.url for answer in answers if answer.status_code < 400] == []
    return answers


def malformed(service: Running) -> list[str]:
    """Send canaries in what is no HTTP, and break lines in the middle; return what came back."""
    heard = []
    head = f"POST /fhir/R4/Patient?family={QUERY} HTTP/1.1\r\nhost: x\r\nx-a: {HEADER}\r\n"
    for sent in (
        f"{FAMILY} {NUMBER}\r\n\r\n",
        f"GET /{FAMILY}\x00 HTTP/1.1\r\n\r\n",
        f"GET /{FAMILY * 2000} HTTP/1.1\r\n\r\n",
        f"{head}x-b: {FAMILY * 3000}\r\n\r\n",
        f"{head}transfer-encoding: chunked\r\n\r\n{FAMILY}\r\n",
        f"{head}connection: upgrade\r\nupgrade: {FAMILY}\r\n\r\n",
        f"{head}content-length: 999\r\n\r\n{FAMILY}",
    ):
        with socket.create_connection(("127.0.0.1", service.port), timeout=60) as line:
            line.sendall(sent.encode())
            line.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while part := line.recv(65536):
                    heard.append(part.decode())
    return heard


def test_logs_metrics_and_refusals_say_nothing(tmp_path: Path) -> None:
    """Canaries in bodies, addresses, queries, headers and tokens come out in no refusal, log or metric."""
    with running(tmp_path, request_timeout_s=5) as service:
        service.token("physician")
        # The request id is the client's own, and goes back to it alone.
        answers = [f"{answer.text}{answer.headers.multi_items()}" for answer in every_failure(service)]
        assert leaks("".join(answers).replace(HEADER, "")) == []
        assert leaks("".join(malformed(service))) == []
        for trouble in ({"path": "/fhir"}, {"path": "/fhir", "after_commit": True}, {"path": "/oauth"}):
            service.http.post(f"{service.url}/_test/fail", json={**trouble, "times": 1})
            path = "/oauth/token" if trouble["path"] == "/oauth" else f"/fhir/R4/Patient?family={QUERY}"
            failed = service.http.post(service.url + path, json=SUNG, headers={"authorization": f"Bearer {TOKEN}"})
            assert failed.status_code >= 500
            assert leaks(failed.text) == []
        service.process.run.send_signal(signal.SIGHUP)
        service.process.event("reloaded")
        assert leaks(service.http.get(f"{service.url}/metrics").text) == []
    said = service.process.log.read_text()
    assert {line["event"] for line in service.process.events} == {
        "listening",
        "request failed",
        "page failed",
        "token refused",
        "reloaded",
        "stopping",
        "stopped",
    }
    assert leaks(said) == []


@pytest.mark.parametrize(
    ("where", "name"), [("store", "find"), ("store", "read"), ("store", "write"), ("vault", "find")]
)
def test_an_error_that_nobody_foresaw_says_nothing(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], where: str, name: str
) -> None:
    """C-551: an error's text stays inside, wherever it is raised: 500 for the client, kind and place in the log."""
    inside.token("physician")

    def fail(*_given: Any, **_more: Any) -> Any:
        raise RuntimeError(f"{FAMILY} {GIVEN} of {STREET} has {NUMBER}")

    monkeypatch.setattr(getattr(inside.app.service, where), name, fail)
    answers = [
        inside.ask("GET", f"/fhir/R4/Patient/{NUMBER}"),
        inside.ask("GET", f"/fhir/R4/Patient?family={FAMILY}"),
        inside.ask("POST", "/fhir/R4/Patient", json=SUNG),
        inside.http.get(f"{inside.url}/oauth/info?access_token={TOKEN}"),
        inside.http.get(f"{inside.url}/oauth/cancel?token={TOKEN}"),
    ]
    failed = [answer for answer in answers if answer.status_code == 500]
    assert failed
    said = "".join(capfd.readouterr())
    assert said.count("RuntimeError") == len(failed)
    assert "Traceback" not in said
    assert leaks(said + "".join(answer.text for answer in failed)) == []
