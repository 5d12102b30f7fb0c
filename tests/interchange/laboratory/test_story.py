"""Orders placed over HTTP, on their way to a laboratory and back: points C-408, C-409 and C-417 on both bases."""

from pathlib import Path

from tests.interchange.jobs import until
from tests.interchange.kit import MRN, Running, record_number, running_inside
from tests.interchange.laboratory.answers import field, segments
from tests.interchange.laboratory.bench import line, tenants
from tests.interchange.laboratory.scripted import scripted
from tests.interchange.orders.ordering import clinic, id_of_test, status_of


def hook(service: Running, order: str, event: str) -> int:
    """Let a laboratory do something with an order."""
    answer = service.http.post(f"{service.url}/_test/lab", json={"order": order, "event": event})
    return answer.status_code


def test_pending_sent_completed(service: Running, base: str) -> None:
    """C-408: each step that the laboratory makes is a new version of the order."""
    place = clinic(service, base)
    order = place.place()
    seen = [(status_of(order), order["meta"]["versionId"])]
    for event in ("accept", "complete"):
        assert hook(service, order["id"], event) == 200
        order = place.read(order["id"])
        seen.append((status_of(order), order["meta"]["versionId"]))
    assert seen == [("pending", "1"), ("sent", "2"), ("completed", "3")]
    assert order["status"] == "completed"
    [test] = place.tests_of(order)
    assert test["status"] == "completed"
    found = place.ask("GET", f"DiagnosticReport?patient={place.patient}").json()
    [report] = [one["resource"] for one in found["entry"]]
    assert report["basedOn"] == [{"reference": f"{place.test_type}/{id_of_test(order)}"}]
    history = place.ask("GET", f"RequestGroup/{order['id']}/_history").json()["entry"]
    assert [status_of(one["resource"]) for one in history] == ["completed", "sent", "pending"]


def test_refused_and_submitted_again(service: Running, base: str) -> None:
    """C-409: a refusal lets the order fail, on-hold in FHIR's words, with a note; $submit makes it pending again."""
    place = clinic(service, base)
    order = place.place()
    assert hook(service, order["id"], "refuse") == 200
    failed = place.read(order["id"])
    # STU3 knows no on-hold of a request; it calls that suspended.
    assert (status_of(failed), failed["status"]) == ("failed", "on-hold" if base == "/fhir/R4" else "suspended")
    assert "refused" in failed["note"][-1]["text"]
    answer = place.submit(order["id"])
    assert (answer.status_code, status_of(answer.json())) == (200, "pending")
    assert hook(service, order["id"], "accept") == 200
    assert status_of(place.read(order["id"])) == "sent"
    assert place.cancel(order["id"]).status_code == 409


def test_what_a_laboratory_is_told(tmp_path: Path, base: str) -> None:
    """C-417: an order that is placed over HTTP comes to a laboratory over MLLP with the patient's external MRN."""
    with scripted("AA") as laboratory, running_inside(tmp_path) as service:
        place = clinic(service, base)
        settings = tenants(**{place.lab: line(laboratory.port, authorities={MRN: "RVB"})})
        service.app.service.configuration = service.app.service.configuration.model_copy(update={"tenants": settings})
        own = service.create(identifier=[record_number("MRN-417"), {"system": "urn:other", "value": "417"}])
        place.patient = own["id"]
        order = place.place(place.test("LI", "t1"), place.test("GL", "t2"))
        until(lambda: status_of(place.read(order["id"])) == "sent")
    [message] = laboratory.messages
    found = segments(message)
    assert [field(one, 3) for one in found if one[0] == "PID"] == ["MRN-417^^^RVB^MR"]
    numbers = [field(one, 2) for one in found if one[0] == "OBR"]
    assert numbers == [f"{id_of_test(order, at)}^CDIS" for at in (0, 1)]
    assert [field(one, 4) for one in found if one[0] == "OBR"] == ["LI^Test LI^L", "GL^Test GL^L"]
    assert {field(one, 4, 1) for one in found if one[0] == "ORC"} == {order["id"]}
