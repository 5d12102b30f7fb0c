"""$process-message, and the messages of a hospital's events that subscribers are told and clients search."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from engine.config.service import Adt, Webhooks
from engine.fhir.schema import defects
from tests.interchange.kit import Running, issue, merge_body, running
from tests.interchange.least import version_of
from tests.interchange.subscriptions.subscribing import R4, create, owed, subscribe
from tests.interchange.webhooks.conftest import HERE
from tests.interchange.webhooks.receiver import Receiver, trusted

NOTIFY = "Bundle?message.event=admin-notify"
ALERTS = "Bundle?clinicalAlerts=true"
ROSTER = "Clinical Alerts Roster"
TRIGGERS = "http://terminology.hl7.org/CodeSystem/v2-0003"


@pytest.fixture
def selective(tmp_path: Path, authority: trustme.CA) -> Iterator[Running]:
    """A service of which one tenant is told of enrolled patients alone."""
    adt = HERE.model_copy(update={"adt": Adt(enrollment="roster")})
    tenants = {"riverbend": adt, "lakeside": HERE, "lax": HERE}
    with running(tmp_path, tenants=tenants, webhooks=Webhooks(**trusted(tmp_path, authority))) as found:
        yield found


def visit(service: Running, patient_id: str, base: str = R4) -> dict[str, Any]:
    """Create an Encounter of a patient."""
    made: dict[str, Any] = {
        "resourceType": "Encounter",
        "status": "in-progress",
        "class": {"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP"},
        "subject": {"reference": f"Patient/{patient_id}"},
        "period": {"start": "2026-11-24T08:00:00Z"},
    }
    return create(service, made, base)


def message(
    service: Running, number: str, patient_id: str, visit_id: str = "", base: str = R4, event: str = "A01"
) -> dict[str, Any]:
    """Return a message as the engine sends it: who and what as they stand at this base."""
    coding = {"system": "http://terminology.hl7.org/CodeSystem/message-events", "code": "admin-notify"}
    r4 = base == R4
    header: dict[str, Any] = {
        "resourceType": "MessageHeader",
        "id": f"h-{number}",
        **({"eventCoding": coding} if r4 else {"event": coding, "timestamp": "2026-11-24T08:00:01Z"}),
        "source": {"endpoint": "urn:riverbend:adt"},
        "reason": {"coding": [{"system": TRIGGERS, "code": event}]},
    }
    paths = [f"Patient/{patient_id}", *([f"Encounter/{visit_id}"] if visit_id else [])]
    held = [{"fullUrl": service.url + f"{base}/{path}", "resource": read(service, f"{base}/{path}")} for path in paths]
    return {
        "resourceType": "Bundle",
        "type": "message",
        "identifier": {"system": "urn:ietf:rfc:3986", "value": f"urn:uuid:{number}"},
        **({"timestamp": "2026-11-24T08:00:01Z"} if r4 else {}),
        "entry": [{"fullUrl": f"urn:uuid:{number}", "resource": header}, *held],
    }


def read(service: Running, path: str) -> dict[str, Any]:
    """Return a resource, or no more than its type and id where it is not there."""
    answer = service.ask("GET", path)
    name, _, resource_id = path.removeprefix(f"{R4}/").removeprefix("/fhir/").partition("/")
    return answer.json() if answer.status_code == 200 else {"resourceType": name, "id": resource_id}


def send(service: Running, body: Any, base: str = R4, client: str = "system") -> Any:
    """Hand a message over."""
    return service.ask("POST", f"{base}/$process-message", client=client, json=body)


def enrol(service: Running, *patients: str, name: str = ROSTER, **more: Any) -> dict[str, Any]:
    """Put patients on a roster."""
    members = [{"entity": {"reference": f"Patient/{patient}"}, **more} for patient in patients]
    roster = {"resourceType": "Group", "type": "person", "actual": True, "name": name, "member": members}
    return create(service, roster)


def test_an_event_is_told(sending: Running, hook: Receiver, base: str) -> None:
    """C-528: a message Bundle with header, Patient, Encounter and the original event, in the subscription's version."""
    other = {"/fhir": R4, R4: "/fhir"}[base]
    who = sending.create(base)["id"]
    stay = visit(sending, who)["id"]
    subscribe(sending, NOTIFY, base, channel={"endpoint": hook.url})
    elsewhere = subscribe(sending, NOTIFY, client="other", channel={"endpoint": hook.url})["id"]
    answer = send(sending, message(sending, "1", who, stay, other), other)
    assert answer.status_code == 200, answer.text
    assert defects(answer.json(), version_of(other)) == ()
    assert answer.json()["entry"][0]["resource"]["response"] == {"identifier": "h-1", "code": "ok"}
    [post] = hook.wait(1)
    assert post.event == "adt-notify"
    told = post.body
    assert (told["resourceType"], told["type"]) == ("Bundle", "message")
    assert defects(told, version_of(base)) == ()
    header, patient, encounter = (one["resource"] for one in told["entry"])
    assert header["event" if base == "/fhir" else "eventCoding"]["code"] == "admin-notify"
    system = "http://hl7.org/fhir/v2/0003" if base == "/fhir" else TRIGGERS
    assert header["reason"]["coding"] == [{"system": system, "code": "A01"}]
    assert header["focus"] == [{"reference": f"Patient/{who}"}, {"reference": f"Encounter/{stay}"}]
    assert patient == sending.ask("GET", f"{base}/Patient/{who}").json()
    assert encounter == sending.ask("GET", f"{base}/Encounter/{stay}").json()
    assert told == sending.ask("GET", f"{base}/Bundle/{told['id']}").json()
    assert owed(sending, elsewhere) == []


def test_once_each(sending: Running, hook: Receiver) -> None:
    """The same message again, as after an answer that was lost, is 200 and told once; another one is told."""
    who = sending.create()["id"]
    mine = subscribe(sending, NOTIFY, channel={"endpoint": hook.url})["id"]
    for number in ("1", "1", "2", "1"):
        assert send(sending, message(sending, number, who)).status_code == 200
    assert len(hook.wait(2)) == 2
    assert len(owed(sending, mine)) == 2
    assert sending.ask("GET", f"{R4}/Bundle?patient={who}").json()["total"] == 2


def test_searched_by_event(sending: Running, base: str) -> None:
    """Messages are searched by event code and patient, page by page, and only within the tenant."""
    who, other = sending.create()["id"], sending.create()["id"]
    for number, (one, event) in enumerate([(who, "A01"), (who, "A03"), (other, "A01"), (who, "A08")]):
        assert send(sending, message(sending, str(number), one, event=event)).status_code == 200

    def found(query: str, **who: str) -> list[str]:
        answer = sending.ask("GET", f"{base}/Bundle?{query}", **who)
        assert answer.status_code == 200, answer.text
        entries = answer.json().get("entry", [])
        return [entry["resource"]["entry"][0]["resource"]["reason"]["coding"][0]["code"] for entry in entries]

    assert found("message.event=admin-notify") == ["A01", "A03", "A01", "A08"]
    assert found("message.event=A01") == ["A01", "A01"]
    assert found(f"message.event={TRIGGERS}|A03,A08&patient=Patient/{who}") == ["A03", "A08"]
    assert found("message.event=A02") == []
    assert found("message.event=A01", client="other") == []
    first = sending.ask("GET", f"{base}/Bundle?message.event=A01&_count=1").json()
    assert (first["total"], len(first["entry"])) == (2, 1)
    following = next(one["url"] for one in first["link"] if one["relation"] == "next")
    assert len(sending.ask("GET", following.removeprefix(sending.url)).json()["entry"]) == 1
    issue(sending.ask("GET", f"{base}/Bundle?type=message"), 400, "not-supported")
    issue(sending.ask("GET", f"{base}/Bundle?patient={who}&patient={who}"), 400, "invalid")
    issue(sending.ask("GET", f"{base}/Bundle/none"), 404, "not-found")


def test_who_may(sending: Running) -> None:
    """Handing over and reading need all types' scopes, and a role that may read charts."""
    body = message(sending, "1", sending.create()["id"])
    issue(send(sending, body, client="read"), 403, "forbidden")
    issue(send(sending, body, client="administrative"), 403, "forbidden")
    issue(sending.ask("GET", f"{R4}/Bundle", client="administrative"), 403, "forbidden")
    issue(sending.ask("GET", f"{R4}/Bundle", client="observation"), 403, "forbidden")
    issue(sending.ask("GET", f"{R4}/$process-message", client="system"), 405, "not-supported")
    issue(sending.ask("POST", f"{R4}/$nothing", client="system", json={}), 404, "not-supported")


def test_enrolled_patients_only(selective: Running, hook: Receiver) -> None:
    """Where the tenant says so, only those on the roster are told of, from when they are on it, while they are."""
    mine = subscribe(selective, NOTIFY, channel={"endpoint": hook.url})["id"]
    who, other = selective.create()["id"], selective.create()["id"]
    assert send(selective, message(selective, "1", who)).status_code == 200
    roster = enrol(selective, who)
    enrol(selective, other, name="Another list")
    # Not retroactive: what came before is not told, also not when it is sent again.
    for number, one in (("1", who), ("2", who), ("3", other)):
        assert send(selective, message(selective, number, one)).status_code == 200
    [post] = hook.wait(1)
    assert post.body["identifier"]["value"] == "urn:uuid:2"
    left = {**roster, "member": [{**roster["member"][0], "inactive": True}]}
    assert selective.ask("PUT", f"{R4}/Group/{roster['id']}", json=left).status_code == 200
    assert send(selective, message(selective, "4", who)).status_code == 200
    over = {**roster, "member": [{**roster["member"][0], "period": {"end": "2020-01-01"}}]}
    assert selective.ask("PUT", f"{R4}/Group/{roster['id']}", json=over).status_code == 200
    assert send(selective, message(selective, "5", who)).status_code == 200
    assert len(owed(selective, mine)) == 1
    assert selective.ask("GET", f"{R4}/Bundle").json()["total"] == 1


@pytest.mark.parametrize(
    ("event", "alerted"), [("A01", True), ("A03", True), ("A04", True), ("A08", False), ("A11", False)]
)
def test_admissions_alert(sending: Running, hook: Receiver, base: str, event: str, *, alerted: bool) -> None:
    """A01, A03 and A04 of a patient on the roster are alerts: Parameters with the Encounter in them; others are not."""
    who, other = sending.create()["id"], sending.create()["id"]
    stay = visit(sending, who)["id"]
    mine = subscribe(sending, ALERTS, base, channel={"endpoint": hook.url})["id"]
    enrol(sending, who)
    assert send(sending, message(sending, "1", other, event=event)).status_code == 200
    assert send(sending, message(sending, "2", who, stay, event=event)).status_code == 200
    if not alerted:
        assert owed(sending, mine) == []
        return
    [post] = hook.wait(1)
    assert post.event == "clinical-alert"
    parts = {one["name"]: one for one in post.body["parameter"]}
    assert parts["eventType"]["valueString"] == "clinical-alert"
    assert parts["event"]["valueCode"] == event
    assert parts["patient"]["valueReference"] == {"reference": f"Patient/{who}"}
    assert parts["encounter"]["resource"] == sending.ask("GET", f"{base}/Encounter/{stay}").json()
    assert defects(post.body, version_of(base)) == ()
    assert len(owed(sending, mine)) == 1


def test_merged_and_deleted_patients(sending: Running, hook: Receiver) -> None:
    """An event of a merged patient is the survivor's; of a deleted one nothing is told, and nothing is left."""
    source, target = sending.create()["id"], sending.create()["id"]
    subscribe(sending, NOTIFY, channel={"endpoint": hook.url})
    assert send(sending, message(sending, "1", source)).status_code == 200
    late = message(sending, "2", source)
    body = merge_body(source, target)
    assert sending.ask("POST", f"{R4}/Patient/$merge", json=body).status_code == 200
    assert send(sending, late).status_code == 200
    assert hook.wait(2)[1].body["entry"][1]["resource"]["id"] == target
    assert sending.ask("GET", f"{R4}/Bundle?patient={target}").json()["total"] == 2
    later = message(sending, "3", target)
    assert sending.ask("DELETE", f"{R4}/Patient/{target}?_cascade=delete").status_code == 204
    issue(send(sending, later), 422, "not-found")
    assert sending.ask("GET", f"{R4}/Bundle").json()["total"] == 0


def test_a_visit_of_another_patient(sending: Running) -> None:
    """A message that says another patient's visit is refused, and told to nobody."""
    who, other = sending.create()["id"], sending.create()["id"]
    mine = subscribe(sending, NOTIFY)["id"]
    issue(send(sending, message(sending, "1", who, visit(sending, other)["id"])), 422, "business-rule")
    assert owed(sending, mine) == []


@pytest.mark.parametrize(
    ("change", "status", "code", "location"),
    [
        ({"type": "collection"}, 400, "invalid", "Bundle.type"),
        ({"entry": None}, 400, "invalid", "Bundle.type"),
        ({"identifier": None}, 400, "required", "Bundle.identifier"),
        ({"identifier": {"value": "x" * 401}}, 400, "required", "Bundle.identifier"),
        ({"identifier": "x"}, 400, "structure", "Bundle.identifier"),
        ({"type": None}, 400, "invalid", "Bundle.type"),
        ({"timestamp": "then"}, 422, "invalid", "Bundle.timestamp"),
    ],
)
def test_what_is_no_message(sending: Running, change: Any, status: int, code: str, location: str) -> None:
    """Each is refused, and says where."""
    made = {**message(sending, "1", sending.create()["id"]), **change}
    answer = send(sending, {name: value for name, value in made.items() if value is not None})
    assert issue(answer, status, code)["location"] == [location]


@pytest.mark.parametrize(
    ("change", "code", "location"),
    [
        ({"eventCoding": {"code": "patient-link"}}, "not-supported", "MessageHeader.event[x]"),
        ({"reason": {"coding": [{"system": TRIGGERS, "code": "R01"}]}}, "required", "MessageHeader.reason"),
        ({"reason": {"coding": [{"code": "A01"}]}}, "required", "MessageHeader.reason"),
    ],
)
def test_what_is_no_event(sending: Running, change: Any, code: str, location: str) -> None:
    """A message must be of an event of HL7 v2, and of one patient."""
    made = message(sending, "1", sending.create()["id"])
    header = made["entry"][0]
    wrong = {**made, "entry": [{**header, "resource": {**header["resource"], **change}}, *made["entry"][1:]]}
    assert issue(send(sending, wrong), 422, code)["location"] == [location]
    issue(send(sending, {**made, "entry": [header]}), 422, "required")
