"""DocumentReference/$merge: a document for the patient whom a number names, new or in place of its former version."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import pytest

from tests.interchange.kit import MRN, Running, issue, merge_body, patient, record_number
from tests.interchange.test_access_log import rows

PATH = "/fhir/DocumentReference/$merge"
URI = "urn:ietf:rfc:3986"


class Chart(NamedTuple):
    """A patient, the number that names this patient, and what asks for merges."""

    service: Running
    id: str
    number: dict[str, str]

    def merge(self, **elements: Any) -> httpx.Response:
        """Ask for a merge of the specification's document; an element given as None is left out."""
        return self.service.ask("POST", PATH, json=self.document(**elements))

    def document(self, **elements: Any) -> dict[str, Any]:
        """Return the document of the specification, for this patient."""
        made = {
            "resourceType": "DocumentReference",
            "status": "current",
            "subject": {"identifier": self.number},
            "content": [{"attachment": {"url": "https://elsewhere.example/a.pdf", "contentType": "application/pdf"}}],
            **elements,
        }
        return {name: value for name, value in made.items() if value is not None}

    def count(self) -> int:
        """Count the patient's documents."""
        return int(self.service.ask("GET", f"/fhir/DocumentReference?patient={self.id}&_count=0").json()["total"])


@pytest.fixture
def chart(service: Running) -> Chart:
    """A patient of the shared service with a number of its own."""
    number = uuid4().hex
    made = service.create(identifier=[record_number(number)])
    return Chart(service, made["id"], {"system": MRN, "value": number})


def own() -> dict[str, str]:
    """Return an identifier that no other document has."""
    return {"system": URI, "value": f"urn:uuid:{uuid4()}"}


def test_a_new_document(chart: Chart) -> None:
    """C-370: it is created for the patient whom the number names, who is referred to; the number stays."""
    binary = chart.service.ask("POST", "/fhir/Binary", content=b"%PDF", headers={"content-type": "application/pdf"})
    url = f"Binary/{binary.json()['id']}"
    content = [{"attachment": {"url": url, "contentType": "application/pdf"}}]
    answer = chart.merge(masterIdentifier=own(), content=content)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert answer.headers["location"] == f"{chart.service.url}/fhir/DocumentReference/{made['id']}/_history/1"
    assert answer.headers["etag"] == 'W/"1"'
    assert made["subject"] == {"identifier": chart.number, "reference": f"Patient/{chart.id}"}
    assert made["content"] == content
    # Without a word of when, it is known since now.
    assert made["indexed"] == made["meta"]["lastUpdated"]
    assert chart.service.ask("GET", f"/fhir/DocumentReference/{made['id']}").json() == made
    shown = chart.service.ask("GET", f"/fhir/R4/DocumentReference/{made['id']}").json()
    assert shown["subject"]["reference"] == f"Patient/{chart.id}"


@pytest.mark.parametrize("known", ["masterIdentifier", "identifier", "master among identifiers", "attachment"])
def test_the_same_document_again(chart: Chart, known: str) -> None:
    """C-371: found by its masterIdentifier, else by any identifier, else by its attachment: 200, a version more."""
    number = own()
    by: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "masterIdentifier": ({"masterIdentifier": number}, {"masterIdentifier": number, "identifier": [own()]}),
        "identifier": ({"identifier": [own(), number]}, {"identifier": [number]}),
        "master among identifiers": ({"masterIdentifier": number}, {"identifier": [number]}),
        "attachment": ({}, {"masterIdentifier": own()}),
    }
    first, second = by[known]
    content = None if known == "attachment" else [{"attachment": {"title": "x"}}]
    more = {} if content is None else {"content": content}
    made = chart.merge(**first, **more, indexed="2025-07-01T10:00:00Z").json()
    answer = chart.merge(**second, **more, status="superseded")
    assert answer.status_code == 200, answer.text
    assert "location" not in answer.headers
    again = answer.json()
    assert (again["id"], again["meta"]["versionId"], again["status"]) == (made["id"], "2", "superseded")
    assert again["indexed"] == "2025-07-01T10:00:00Z"
    assert chart.count() == 1


def test_another_document(chart: Chart) -> None:
    """C-371: other numbers and attachments, and the same ones of another patient, are another document."""
    number, text = own(), uuid4().hex
    other = Chart(
        chart.service, chart.service.create(identifier=[record_number(text)])["id"], {"system": MRN, "value": text}
    )
    for one in (chart, other):
        assert one.merge(masterIdentifier=number).status_code == 201
    different = [{"attachment": {"url": "https://elsewhere.example/b.pdf"}}]
    assert chart.merge(masterIdentifier=own(), content=different).status_code == 201
    assert (chart.count(), other.count()) == (2, 1)


def test_the_master_identifier_comes_first(chart: Chart) -> None:
    """What has the masterIdentifier is the document, whatever else shares a number or an attachment."""
    first, second = own(), own()
    alpha = chart.merge(masterIdentifier=first, content=[{"attachment": {"title": "a"}}]).json()
    chart.merge(masterIdentifier=second, identifier=[own()], content=[{"attachment": {"title": "b"}}])
    answer = chart.merge(masterIdentifier=first, identifier=[second], content=[{"attachment": {"title": "a"}}])
    assert (answer.status_code, answer.json()["id"]) == (200, alpha["id"])
    told = issue(chart.merge(identifier=[first, second], content=[{"attachment": {"title": "c"}}]), 422, "duplicate")
    assert told["location"] == ["DocumentReference"]
    assert chart.count() == 2


def test_a_number_of_one_is_the_master_identifier_of_another(chart: Chart) -> None:
    """Who has it as its masterIdentifier is the document, not the one that names it among its identifiers."""
    number = own()
    alpha = chart.merge(masterIdentifier=number, content=[{"attachment": {"title": "a"}}]).json()
    subject = {"reference": f"Patient/{chart.id}"}
    beta = {"type": {"text": "x"}, "indexed": "2025-07-01T10:00:00Z", "identifier": [number], "subject": subject}
    made = chart.service.ask("POST", "/fhir/DocumentReference", json=chart.document(**beta))
    assert made.status_code == 201, made.text
    answer = chart.merge(masterIdentifier=number, content=[{"attachment": {"title": "b"}}])
    assert (answer.status_code, answer.json()["id"]) == (200, alpha["id"])


def test_two_at_once(chart: Chart) -> None:
    """C-371: whoever comes at the same moment with the same document makes one of it."""
    number = own()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: chart.merge(masterIdentifier=number), range(16)))
    assert sorted(answer.status_code for answer in answers) == [200] * 15 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert {answer.json()["meta"]["versionId"] for answer in answers} == {str(number) for number in range(1, 17)}
    assert chart.count() == 1


def test_a_merged_patient(chart: Chart) -> None:
    """C-370: the number of a record that was merged away names its survivor; documents of both are one chart's."""
    number = own()
    made = chart.merge(masterIdentifier=number).json()
    survivor = chart.service.create()["id"]
    merged = chart.service.ask("POST", "/fhir/Patient/$merge", json=merge_body(chart.id, survivor))
    assert merged.status_code == 200, merged.text
    answer = chart.merge(masterIdentifier=number)
    assert (answer.status_code, answer.json()["id"]) == (200, made["id"])
    assert answer.json()["subject"]["reference"] == f"Patient/{survivor}"


def test_not_in_r4(chart: Chart) -> None:
    """C-372: R4 has no such operation."""
    answer = chart.service.ask("POST", "/fhir/R4/DocumentReference/$merge", json=chart.document())
    issue(answer, 404, "not-supported")


def test_whose_it_is(chart: Chart) -> None:
    """C-373: a number that names nobody, or several, is 422; so is a reference to somebody else."""
    unknown = {"identifier": {"system": MRN, "value": "nobody"}}
    told = issue(chart.merge(subject=unknown), 422, "not-found")
    assert told["location"] == ["DocumentReference.subject.identifier"]
    shared = {"system": "urn:shared", "value": uuid4().hex}
    for _ in range(2):
        chart.service.ask(
            "POST", "/fhir/Patient", json=patient(identifier=[shared]), headers={"prefer": "create-always"}
        )
    issue(chart.merge(subject={"identifier": shared}), 422, "duplicate")
    other = chart.service.create()["id"]
    subject = {"identifier": chart.number, "reference": f"Patient/{other}"}
    issue(chart.merge(subject=subject), 422, "business-rule")
    assert chart.merge(subject={"reference": f"Patient/{chart.id}"}).status_code == 201
    issue(chart.merge(subject={"reference": "Patient/nobody"}), 422, "not-found")
    assert chart.count() == 1


def test_what_is_missing(chart: Chart) -> None:
    """C-374: without status, subject or content 400, with the place; an attachment that is not there is 422."""
    for element in ("status", "subject", "content"):
        told = issue(chart.merge(**{element: None}), 400, "required")
        assert told["location"][0].startswith(f"DocumentReference.{element}")
    for subject in ({"display": "x"}, {"identifier": {"value": "x"}}, {"identifier": {"system": MRN}}):
        issue(chart.merge(subject=subject), 400, "required")
    issue(chart.merge(status="wrong"), 422, "invalid")
    issue(chart.merge(nonsense=1), 400, "structure")
    for url in ("Binary/nothing", f"{chart.service.url}/fhir/Binary/nothing"):
        told = issue(chart.merge(content=[{"attachment": {"url": url}}]), 422, "not-found")
        assert told["location"] == ["DocumentReference.content[0].attachment.url"]
    assert chart.count() == 0


def test_it_is_found_by_both_kinds_of_numbers(chart: Chart) -> None:
    """FHIR: the search parameter `identifier` means the masterIdentifier too."""
    master, number = own(), own()
    made = chart.merge(masterIdentifier=master, identifier=[number]).json()
    for base in ("/fhir", "/fhir/R4"):
        for one in (master, number):
            found = chart.service.ask("GET", f"{base}/DocumentReference?identifier={URI}|{one['value']}").json()
            assert [entry["resource"]["id"] for entry in found["entry"]] == [made["id"]]


def test_whom_it_names_in_the_log(own_service: Running) -> None:
    """N-320: the row of a merge by number names the patient."""
    number = uuid4().hex
    made = own_service.create(identifier=[record_number(number)])
    merged = Chart(own_service, made["id"], {"system": MRN, "value": number}).merge()
    assert merged.status_code == 201
    assert rows(own_service)[-1][4:] == ("merge-document", "DocumentReference", "", made["id"], "done", 0)
