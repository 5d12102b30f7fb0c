"""Charts for the tests of the Chart API: a patient with reports, and what the API says of them."""

from typing import Any

import httpx

from tests.interchange.chart import put, to
from tests.interchange.kit import Running

Json = Any
LOINC = "http://loinc.org"
NPI = "http://hl7.org/fhir/sid/us-npi"
MEANING = "http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation"


def chart(service: Running, path: str, client: str = "physician", **more: Any) -> httpx.Response:
    """Ask the Chart API."""
    return service.ask("GET", f"/chart/v1/{path}", client=client, **more)


def items(service: Running, path: str, client: str = "physician", **more: Any) -> list[Json]:
    """Return the items of a list of the Chart API."""
    answer = chart(service, path, client, **more)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()["items"]


def concept(code: str, display: str, system: str = LOINC) -> Json:
    """Return a CodeableConcept."""
    return {"coding": [{"system": system, "code": code, "display": display}]}


def lipids(service: Running, patient: str, at: str = "2025-06-30T14:05:00Z", value: float = 182, **more: Any) -> str:
    """Keep an ordered lipid panel of a patient with two results; return its reference."""
    who = put(
        service,
        "Practitioner",
        name=[{"given": ["Ama"], "family": "Osei", "text": "Ama Osei, MD"}],
        identifier=[{"system": NPI, "value": "1659999990"}],
    )
    role = put(service, "PractitionerRole", practitioner=to(who))
    order = put(service, "ServiceRequest", patient, requester=to(role))
    of_it = {"basedOn": [to(order)], "effectiveDateTime": at}
    results = [
        put(
            service,
            "Observation",
            patient,
            code=concept(code, display),
            valueQuantity={"value": amount, "unit": "mg/dL"},
            interpretation=[concept("N", "Normal", MEANING)],
            referenceRange=[{"low": {"value": 40, "unit": "mg/dL"}}],
            **of_it,
        )
        for code, display, amount in (("2093-3", "Cholesterol", value), ("2085-9", "HDL", 51))
    ]
    code = {"coding": [{"system": "urn:local", "code": "LI"}, *concept("57698-3", "Lipid panel")["coding"]]}
    made = {"code": code, "result": [to(result) for result in results], **of_it, **more}
    return put(service, "DiagnosticReport", patient, **made)
