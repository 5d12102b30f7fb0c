"""The laboratory of a sandbox: it takes orders by itself or by a test's word, and returns results of its invention."""

from pathlib import Path
from typing import Any

import pytest

from tests.interchange.jobs import until
from tests.interchange.kit import running_inside
from tests.interchange.laboratory.bench import Bench, bench
from tests.interchange.laboratory.orders import keep, ordered


def reports(service: Bench, test: str) -> list[dict[str, Any]]:
    """Return the reports of a test."""
    found = service.inside.ask("GET", f"/fhir/R4/DiagnosticReport?based-on=ServiceRequest/{test}").json()
    return [entry["resource"] for entry in found.get("entry", ())]


def test_without_a_word_nothing_happens(tmp_path: Path) -> None:
    """With test hooks it waits to be told, so that a test sees each state; two seconds otherwise."""
    with bench(tmp_path) as service:
        service.place("o1")
        service.advance(1000)
        assert service.sent().standing == "waiting"
        assert service.hook("accept") == (200, {"status": "done", "order": "o1", "standing": "accepted"})
        assert (service.status(), service.order()["meta"]["versionId"]) == ("sent", "2")
    with running_inside(tmp_path, test_hooks=False) as inside:
        service = Bench(inside)
        service.place("o2")
        taken = service.until("accepted", "o2")
        assert taken.ended_ms is not None
        assert taken.ended_ms - taken.placed_ms >= 2000


def test_in_its_time(tmp_path: Path) -> None:
    """`transmit_delay_s` and `result_delay_s` say when; results are final, linked to their tests, and there once."""
    settings = {"type": "simulated", "transmit_delay_s": 60, "results": True, "result_delay_s": 600}
    with bench(tmp_path, lab_1=settings) as service:
        service.place(resources=ordered())
        service.advance(30)
        assert service.sent().standing == "waiting"
        service.advance(40)
        service.until("accepted")
        assert reports(service, "o1-LI") == []
        service.advance(601)
        until(lambda: len(reports(service, "o1-GL")) == 1)
        [lipids] = reports(service, "o1-LI")
        assert (lipids["status"], lipids["subject"]) == ("final", {"reference": "Patient/p1"})
        assert lipids["performer"] == [{"reference": "Organization/lab-1"}]
        assert {one["code"] for one in lipids["code"]["coding"]} == {"24331-1", "57698-3", "LI"}
        values = [service.inside.ask("GET", f"/fhir/R4/{one['reference']}").json() for one in lipids["result"]]
        assert [value["code"]["coding"][0]["code"] for value in values] == ["2093-3", "2571-8", "2085-9"]
        for value in values:
            assert value["basedOn"] == [{"reference": "ServiceRequest/o1-LI"}]
            assert value["valueQuantity"]["value"] > 0
            assert value["referenceRange"]
        assert service.sent().result_ms is None
        service.advance(1000)
        assert len(reports(service, "o1-LI")) == 1


@pytest.mark.parametrize("base", ["/fhir/R4", "/fhir"])
def test_by_a_test(tmp_path: Path, base: str) -> None:
    """C-408: accepted, then completed, as a test says; what is invented is valid on both bases."""
    with bench(tmp_path) as service:
        service.place(resources=ordered())
        assert service.hook("transmit")[0] == 200
        assert service.status() == "sent"
        assert service.hook("complete")[0] == 200
        for kind, number in (("DiagnosticReport", 2), ("Observation", 4)):
            found = service.inside.ask("GET", f"{base}/{kind}?patient=p1").json()
            assert found["total"] >= number
        # Those that have results are not reported twice.
        status, answer = service.hook("complete")
        assert (status, answer["error"]) == (409, "the order o1 has results of all its tests")


def test_refused_by_a_test(tmp_path: Path) -> None:
    """C-409: one that waits, and one that was accepted: both fail, with a note."""
    with bench(tmp_path) as service:
        service.place("o1", "o2")
        assert service.hook("refuse")[1]["standing"] == "refused"
        assert service.hook("accept", "o2")[0] == 200
        assert service.hook("refuse", "o2")[1]["standing"] == "refused"
        for order in ("o1", "o2"):
            assert service.status(order) == "failed"
            assert service.order(order)["status"] == "on-hold"
            assert "refused the order (AE)" in service.order(order)["note"][-1]["text"]


def test_what_a_hook_cannot_do(tmp_path: Path) -> None:
    """Each is told with what would do: another order, state or event, or a laboratory that answers for itself."""
    line = {"type": "hl7", "host": "127.0.0.1", "port": 1}
    with bench(tmp_path, real=line) as service:
        assert service.hook("accept", "nothing")[0] == 404
        service.place("o1")
        for event in ("explode", ""):
            status, answer = service.hook(event)
            assert (status, "accept | refuse | transmit | complete" in answer["error"]) == (400, True)
        assert service.inside.http.post(f"{service.inside.url}/_test/lab", content=b"{").status_code == 400
        status, answer = service.hook("complete")
        assert status == 409
        assert answer["error"] == "the order o1 is waiting: it cannot be completed, only one that is accepted"
        service.hook("accept")
        assert service.hook("accept")[0] == 409
        assert service.hook("transmit")[0] == 409
        service.hook("refuse")
        assert service.hook("complete")[0] == 409
        service.place("o2", laboratory="real")
        until(lambda: service.sent("o2").tries == 1 and service.sent("o2").standing == "waiting")
        status, answer = service.hook("accept", "o2")
        assert (status, "answers for itself" in answer["error"]) == (409, True)
        # It is sent now, and not when it would be due.
        assert service.hook("transmit", "o2") == (200, {"status": "done", "order": "o2", "standing": "waiting"})
        until(lambda: service.sent("o2").tries == 2)


def test_hooks_are_for_tests(tmp_path: Path) -> None:
    """Without `test_hooks` there is no such address."""
    with running_inside(tmp_path, test_hooks=False) as inside:
        answer = inside.http.post(f"{inside.url}/_test/lab", json={"order": "o1", "event": "accept"})
        assert answer.status_code == 404


def test_an_order_whose_test_has_gone(tmp_path: Path) -> None:
    """Results are returned of those that are there."""
    with bench(tmp_path) as service:
        service.place(resources=ordered())
        service.hook("accept")

        def work(transaction: Any) -> None:
            transaction.delete(transaction.get("ServiceRequest", "o1-LI"))
            keep(transaction, {**transaction.get("ServiceRequest", "o1-GL").resource(), "priority": "stat"})

        service.write(work)
        assert service.hook("complete")[0] == 200
        assert reports(service, "o1-LI") == []
        assert len(reports(service, "o1-GL")) == 1
