"""Results of a laboratory, from the line to the chart: reports and observations, linked to the order they answer."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.ops.sender.line import send_messages
from tests.flow.feed import SYSTEM
from tests.flow.operator import started
from tests.flow.rig import Rig, Row, running

PLACER = "https://ehr.example/placer-order-number"  # numbers of its own system only the service gives out
AUTHORITIES = {"RVB": SYSTEM, "CENTRAL": "https://central.example", "EHR^PLAC": PLACER}
POTASSIUM = "OBX|1|NM|2823-3^Potassium^LN||{value}|mmol/L^mmol/L^UCUM|3.5-5.0|H|||{status}"
SODIUM = "OBX|2|NM|2951-2^Sodium^LN||140|mmol/L^mmol/L^UCUM|135-145|N|||F"
DRAWN, TOLD, PANEL = "20260302080000-0500", "20260302101000-0500", "24323-8^Metabolic panel^LN"


def report(
    control_id: str, *results: str, patient: str = "RB-1", order: str = "sr-1", filler: str = "A1", status: str = "F"
) -> bytes:
    """Return a result message about one order of one patient."""
    minute = int(control_id[1:])
    lines = (
        f"MSH|^~\\&|LAB|CENTRAL|CDIS|RVB|2026030210{minute:02}00-0500||ORU^R01^ORU_R01|{control_id}|P|2.5.1",
        f"PID|1||{patient}^^^RVB^MR~L{patient}^^^CENTRAL^PI||Quintero^Marisol||19840229|F|||9 Lab Street",
        f"ORC|RE|{order}^EHR|{filler}^CENTRAL",
        f"OBR|1|{order}^EHR|{filler}^CENTRAL|{PANEL}|||{DRAWN}|||||||||||||||{TOLD}||CH|{status}",
        *results,
    )
    return "\r".join(lines).encode() + b"\r"


def potassium(value: str = "5.4", status: str = "F") -> str:
    """Return the result of a potassium."""
    return POTASSIUM.format(value=value, status=status)


class Laboratory:
    """A channel for results, and two patients who are in the chart."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.patients: dict[str, str] = {}

    async def register(self, number: str) -> None:
        """Put a patient in the chart."""
        made = await self.rig.make(
            {
                "resourceType": "Patient",
                "identifier": [{"system": SYSTEM, "value": number, "type": {"coding": [{"code": "MR"}]}}],
                "name": [{"family": "Quintero", "given": ["Marisol"]}],
                "gender": "female",
                "birthDate": "1984-02-29",
            }
        )
        self.patients[number] = f"Patient/{made['id']}"

    async def order(self, placer: str, patient: str = "RB-1") -> str:
        """Order a test for a patient and return the reference."""
        made = await self.rig.make(
            {
                "resourceType": "ServiceRequest",
                "identifier": [{"type": {"coding": [{"code": "PLAC"}]}, "system": PLACER, "value": placer}],
                "status": "active",
                "intent": "order",
                "code": {"coding": [{"system": "http://loinc.org", "code": "24323-8"}]},
                "subject": {"reference": self.patients[patient]},
            }
        )
        return f"ServiceRequest/{made['id']}"

    async def send(self, raw: bytes) -> Row:
        """Send a message and return its entry once it has ended."""
        host, port = await self.rig.address()
        count = len(self.rig.rows())
        (answer,) = await send_messages(host, port, [raw])
        assert answer.code == "AA"
        over = {"delivered", "filtered", "held", "rejected"}
        rows = await self.rig.until(lambda rows: len(rows) > count and rows[-1].state in over)
        return rows[-1]

    async def chart(self, type_: str) -> list[dict[str, Any]]:
        """Return the resources of a type of all patients."""
        found: list[dict[str, Any]] = []
        for patient in self.patients.values():
            bundle = await self.rig.get(f"/{type_}?patient={patient}&_count=100")
            found += [entry["resource"] for entry in bundle.get("entry", ())]
        return found


@pytest.fixture(params=["auto", "off"])
async def laboratory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Laboratory]:
    """An engine with a channel for results, that writes in transactions or one by one."""
    async with running(tmp_path, mapping="oru", authorities=AUTHORITIES) as rig:
        file = rig.folder / "channels" / "riverbend-adt.yaml"
        file.write_text(file.read_text().replace('"if_none_exist"', f'"bundle":"{request.param}","if_none_exist"'))
        made = Laboratory(rig)
        await made.register("RB-1")
        await started(rig)
        yield made


async def test_a_result_its_correction_and_its_resend(laboratory: Laboratory) -> None:
    """One report, its results in order, linked by the placer's number; corrected in place; a resend writes nothing."""
    order = await laboratory.order("sr-1")
    first = await laboratory.send(report("L1", potassium(), SODIUM))
    assert (first.state, first.reason, first.notes) == ("delivered", "created", "[]")
    (made,) = await laboratory.chart("DiagnosticReport")
    results = {one["id"]: one for one in await laboratory.chart("Observation")}
    named = [results[one["reference"].partition("/")[2]] for one in made["result"]]
    assert [one["code"]["text"] for one in named] == ["Potassium", "Sodium"]
    assert [one["reference"] for one in made["basedOn"]] == [order]
    assert (made["status"], made["issued"]) == ("final", "2026-03-02T10:10:00-05:00")
    assert {one["value"] for one in made["identifier"]} >= {"sr-1", "A1"}
    patient = await laboratory.rig.get(f"/{laboratory.patients['RB-1']}")
    assert patient["meta"]["versionId"] == "1"  # neither PID-11 nor the laboratory's number is in it
    again = await laboratory.send(report("L2", potassium("6.1", "C"), SODIUM, status="C"))
    assert (again.state, again.reason) == ("delivered", "updated")
    (corrected,) = await laboratory.chart("DiagnosticReport")
    assert (corrected["id"], corrected["status"], corrected["result"]) == (made["id"], "corrected", made["result"])
    now = {one["code"]["text"]: one for one in await laboratory.chart("Observation")}
    assert len(now) == len(results)
    assert (now["Potassium"]["valueQuantity"]["value"], now["Potassium"]["status"]) == (6.1, "corrected")
    assert now["Sodium"]["meta"]["versionId"] == "1"
    writes = len(laboratory.rig.attempts())
    resent = await laboratory.send(report("L3", potassium("6.1", "C"), SODIUM, status="C"))
    assert (resent.state, resent.reason) == ("delivered", "unchanged")
    assert len(laboratory.rig.attempts()) == writes


async def test_a_destination_of_the_older_version(tmp_path: Path) -> None:
    """In STU3 an order is a ProcedureRequest: it is found and linked all the same."""
    async with running(tmp_path, mapping="oru", authorities=AUTHORITIES) as rig:
        file = rig.folder / "channels" / "riverbend-adt.yaml"
        file.write_text(file.read_text().replace("/fhir/R4", "/fhir").replace('"auth"', '"fhir":"STU3","auth"'))
        laboratory = Laboratory(rig)
        await laboratory.register("RB-1")
        order = await laboratory.order("sr-1")
        await started(rig)
        made = await laboratory.send(report("L1", potassium()))
        assert (made.state, made.reason, made.notes) == ("delivered", "created", "[]")
        (told,) = await laboratory.chart("DiagnosticReport")
        assert [one["reference"] for one in told["basedOn"]] == [order]


async def test_several_orders_of_one_number(laboratory: Laboratory) -> None:
    """Which of them the report answers nobody knows: none is linked. One in error counts for nothing."""
    for _ in range(2):
        await laboratory.order("sr-1")
    row = await laboratory.send(report("L1", potassium()))
    assert (row.state, row.notes) == ("delivered", '["multiple-matches"]')
    (made,) = await laboratory.chart("DiagnosticReport")
    assert "basedOn" not in made


async def test_what_a_correction_says_no_more_goes(laboratory: Laboratory) -> None:
    """A value that was flagged high, and is not, is no longer flagged; what the sender did not write stays."""
    await laboratory.order("sr-1")
    await laboratory.send(report("L1", potassium("6.1"), "NTE|1|L|Called to the ward"))
    plain = "OBX|1|NM|2823-3^Potassium^LN||4.1|mmol/L^mmol/L^UCUM|3.5-5.0||||C"
    assert (await laboratory.send(report("L2", plain, order="", status="C"))).reason == "updated"
    (now,) = await laboratory.chart("Observation")
    assert (now["valueQuantity"]["value"], now["status"]) == (4.1, "corrected")
    assert now.keys().isdisjoint({"interpretation", "note"})
    (made,) = await laboratory.chart("DiagnosticReport")
    assert (made["status"], len(made["basedOn"])) == ("corrected", 1)  # a message without the number undoes no link


async def test_an_order_that_is_unknown_and_comes_later(laboratory: Laboratory) -> None:
    """The report is kept without a link, and linked by its next message; no order is ever made."""
    kept = await laboratory.send(report("L1", potassium(status="P"), status="P"))
    assert (kept.state, kept.reason, kept.notes) == ("delivered", "created", '["order-not-found"]')
    (made,) = await laboratory.chart("DiagnosticReport")
    assert "basedOn" not in made
    assert await laboratory.chart("ServiceRequest") == []
    order = await laboratory.order("sr-1")
    linked = await laboratory.send(report("L2", SODIUM))
    assert (linked.state, linked.notes) == ("delivered", '["results-not-repeated"]')
    (now,) = await laboratory.chart("DiagnosticReport")
    assert (now["status"], [one["reference"] for one in now["basedOn"]]) == ("final", [order])
    assert len(now["result"]) == 2  # what is not sent again stays
    assert made["result"][0] in now["result"]


async def test_nothing_is_written_of_a_result_that_is_held(laboratory: Laboratory) -> None:
    """An order of somebody else, and a patient whom nobody knows: each held by a reason that says so."""
    await laboratory.register("RB-2")
    await laboratory.order("sr-2", "RB-2")
    wrong = await laboratory.send(report("L1", potassium(), SODIUM, order="sr-2"))
    assert (wrong.state, wrong.reason) == ("held", "order-of-another-patient")
    nobody = await laboratory.send(report("L2", potassium(), patient="RB-9"))
    assert (nobody.state, nobody.reason) == ("held", "unknown-patient")
    assert await laboratory.chart("DiagnosticReport") == []
    assert await laboratory.chart("Observation") == []
    assert [attempt for attempt in laboratory.rig.attempts() if attempt.method != "GET"] == []


async def test_a_filler_number_of_another_patient_is_held(laboratory: Laboratory) -> None:
    """A report that is in somebody else's chart is not written again into this one, nor moved."""
    await laboratory.register("RB-2")
    await laboratory.send(report("L1", potassium()))
    held = await laboratory.send(report("L2", potassium("3.9"), patient="RB-2"))
    assert (held.state, held.reason) == ("held", "resource-of-another-patient")
    (one,) = await laboratory.chart("Observation")
    assert (one["subject"]["reference"], one["valueQuantity"]["value"]) == (laboratory.patients["RB-1"], 5.4)


async def test_a_text_that_gets_shorter(laboratory: Laboratory) -> None:
    """Lines that a corrected text has no more are in error, and no longer listed; other results stay."""
    lines = [f"OBX|{number}|TX|22634-0^Pathology^LN||line {number}||||||F" for number in (1, 2, 3)]
    await laboratory.send(report("L1", *lines, SODIUM))
    row = await laboratory.send(report("L2", *lines[:2], status="C"))
    assert (row.state, set(row.notes.strip("[]").split(","))) == (
        "delivered",
        {'"order-not-found"', '"results-not-repeated"', '"retired"'},
    )
    found = {one.get("valueString", "sodium"): one for one in await laboratory.chart("Observation")}
    assert {text: one["status"] for text, one in found.items()} == {
        "line 1": "final", "line 2": "final", "line 3": "entered-in-error", "sodium": "final",
    }  # fmt: skip
    (made,) = await laboratory.chart("DiagnosticReport")
    listed = {one["reference"].partition("/")[2] for one in made["result"]}
    assert listed == {found[text]["id"] for text in ("line 1", "line 2", "sodium")}
