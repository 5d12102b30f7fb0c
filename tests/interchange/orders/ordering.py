"""Orders for the tests: laboratories, patients with a chart to order in, and RequestGroups in both versions."""

import itertools
from dataclasses import dataclass
from typing import Any

import httpx

from engine.fhir.schema import FhirVersion
from tests.interchange.jobs import ended
from tests.interchange.kit import SYSTEM, Running

ASYNC = {"prefer": "respond-async"}
PATCH = {"content-type": "application/json-patch+json"}
R4 = "/fhir/R4"
_numbers = itertools.count(1)


def url(name: str) -> str:
    """Return the address of an extension, as the pages of the service print it."""
    return f"{SYSTEM}/fhir/StructureDefinition/{name}"


def extension(name: str, **value: Any) -> dict[str, Any]:
    """Return an extension of an order."""
    return {"url": url(f"requestgroup-{name}"), **value}


def to(reference: str) -> dict[str, str]:
    """Return a reference."""
    return {"reference": reference}


def version_of(base: str) -> FhirVersion:
    """Return the version of a base."""
    return FhirVersion.R4 if base == R4 else FhirVersion.STU3


@dataclass
class Clinic:
    """A patient, who orders, and a laboratory of its own that takes orders."""

    service: Running
    base: str
    patient: str
    author: str
    lab: str

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """Send a request below the base."""
        if body is not None:
            more["json"] = body
        return self.service.ask(method, f"{self.base}/{path}", **more)

    @property
    def test_type(self) -> str:
        """What a test is called at this base."""
        return "ServiceRequest" if self.base == R4 else "ProcedureRequest"

    def test(self, code: str = "LI", within: str = "t1", system: str = "", **more: Any) -> dict[str, Any]:
        """Return a test as an order contains it; without a code it has a text."""
        coding = {"system": system or f"urn:uuid:f:{self.lab}", "code": code, "display": f"Test {code}"}
        made = {
            "resourceType": self.test_type,
            "id": within,
            "status": "active",
            "intent": "order",
            "subject": to(f"Patient/{self.patient}"),
            "code": {"coding": [coding]} if code else {"text": "some test"},
            **more,
        }
        return {name: value for name, value in made.items() if value is not None}

    def order(self, *tests: dict[str, Any], contained: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
        """Return an order of these tests, of one where no action is given either; None leaves an element out."""
        parts = tests if tests or "action" in more else (self.test(),)
        made = {
            "resourceType": "RequestGroup",
            "status": "active",
            "intent": "order",
            "subject": to(f"Patient/{self.patient}"),
            "author": to(f"Practitioner/{self.author}"),
            "contained": [*parts, *contained],
            "extension": [extension("performer", valueReference=to(f"Organization/{self.lab}"))],
            "action": [{"resource": to(f"#{part['id']}")} for part in parts],
            **more,
        }
        return {name: value for name, value in made.items() if value not in (None, [])}

    def place(self, *tests: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Return an order that is pending."""
        answer = self.ask("POST", "RequestGroup", self.order(*tests, **more))
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def draft(self, *tests: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Return an order that waits for its $submit."""
        answer = self.ask("POST", "RequestGroup", self.order(*tests, **more), headers=ASYNC)
        assert answer.status_code == 202, answer.text
        done = ended(self.service, answer.headers["location"].removeprefix(self.service.url))
        assert done.status_code == 200, done.text
        found: dict[str, Any] = done.json()
        return found

    def submit(self, order_id: str, **more: Any) -> httpx.Response:
        """Submit an order."""
        return self.ask("POST", f"RequestGroup/{order_id}/$submit", **more)

    def read(self, order_id: str) -> dict[str, Any]:
        """Return an order as it is kept."""
        found: dict[str, Any] = self.ask("GET", f"RequestGroup/{order_id}").json()
        return found

    def tests_of(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the tests of an order."""
        return [self.ask("GET", one["resource"]["reference"]).json() for one in order["action"]]

    def patch(self, path: str, *steps: dict[str, Any], **more: Any) -> httpx.Response:
        """Patch a resource."""
        return self.ask("PATCH", path, list(steps), headers={**PATCH, **more})

    def cancel(self, order_id: str, word: str = "revoked") -> httpx.Response:
        """Cancel an order."""
        return self.patch(f"RequestGroup/{order_id}", {"op": "replace", "path": "/status", "value": word})

    def report(self, *based_on: str, status: str = "final", patient: str = "", **more: Any) -> dict[str, Any]:
        """Return a report that is the result of these tests or orders."""
        body = {
            "resourceType": "DiagnosticReport",
            "status": status,
            "code": {"text": "x"},
            "subject": to(f"Patient/{patient or self.patient}"),
            **more,
        }
        if based_on:
            body["basedOn"] = [to(one) for one in based_on]
        return body

    def result(self, *based_on: str, **more: Any) -> str:
        """Keep a report, and return its address."""
        answer = self.ask("POST", "DiagnosticReport", self.report(*based_on, **more))
        assert answer.status_code == 201, answer.text
        return f"DiagnosticReport/{answer.json()['id']}"


def clinic(service: Running, base: str = R4) -> Clinic:
    """Return a new patient, with who orders and a laboratory that takes orders."""
    number = next(_numbers)
    lab, author = f"lab-{number}", f"author-{number}"
    enabled = {"url": url("organization-orderingEnabled"), "valueBoolean": True}
    body = {"resourceType": "Organization", "id": lab, "name": f"Laboratory {number}", "extension": [enabled]}
    assert service.ask("PUT", f"{R4}/Organization/{lab}", json=body).status_code == 201
    who = {"resourceType": "Practitioner", "id": author, "name": [{"family": "Osei"}]}
    assert service.ask("PUT", f"{R4}/Practitioner/{author}", json=who).status_code == 201
    return Clinic(service, base, service.create()["id"], author, lab)


def status_of(order: dict[str, Any]) -> str:
    """Return the status of an order."""
    [found] = [one["valueCoding"] for one in order["extension"] if one["url"] == url("requestgroup-orderStatus")]
    assert found["system"] == f"{SYSTEM}/order-status"
    code: str = found["code"]
    return code


def id_of_test(order: dict[str, Any], number: int = 0) -> str:
    """Return the id of a test of an order."""
    reference: str = order["action"][number]["resource"]["reference"]
    return reference.partition("/")[2]


# What STU3 calls two of R4's statuses.
STU3 = {"on-hold": "suspended", "revoked": "cancelled"}


def said(base: str, status: str) -> str:
    """Return what a base calls a status of R4."""
    return status if base == R4 else STU3.get(status, status)


def codes(answer: httpx.Response) -> list[tuple[str, str, str]]:
    """Return code, detail and place of each issue of a refusal."""
    return [
        (one["code"], one["details"]["coding"][0]["code"] if "details" in one else "", one["location"][0])
        for one in answer.json()["issue"]
    ]
