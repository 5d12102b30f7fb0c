"""Patient/{id}/$export-ccda over HTTP: at once or by a job, with what it takes and what it refuses."""

from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from lxml import etree

from engine.config.service import Jobs, Organization, Tenant
from engine.interchange.clinical.synthetic.chart import synthetic_chart, transaction
from tests.interchange.ccda.test_document import find, read, section
from tests.interchange.jobs import KIND, Bench, ask_for, ended
from tests.interchange.kit import BASES, Running, issue, merge_body, running, running_inside
from tests.interchange.least import least, version_of

Json = Any
ASYNC = {"prefer": "respond-async"}
R4, STU3 = BASES["R4"], BASES["STU3"]


def call(service: Running, base: str, patient_id: str, query: str = "", **more: Any) -> httpx.Response:
    """Ask for the export of a patient as a base has it."""
    method = "POST" if base == R4 else "GET"
    return service.ask(method, f"{base}/Patient/{patient_id}/$export-ccda{query}", **more)


def parameters(service: Running, answer: httpx.Response) -> dict[str, Json]:
    """Return what the job of a 202 came to: name and value of each parameter."""
    assert answer.status_code == 202, answer.text
    location = answer.headers["location"]
    assert answer.headers["content-location"] == location
    assert location.startswith(service.url)
    assert int(answer.headers["retry-after"]) > 0
    told = ended(service, location.removeprefix(service.url)).json()
    assert told["resourceType"] == "Parameters"
    found = {}
    for one in told["parameter"]:
        name = one.pop("name")
        (found[name],) = one.items()
    return found


@pytest.mark.parametrize("base", [R4, STU3])
def test_a_job_makes_it_and_a_link_leads_to_it(service: Running, base: str) -> None:
    """C-330, C-332, C-333, C-334, C-335, C-337, C-291: 202, then Parameters, then the document by its link."""
    made = service.create(base)["id"]
    found = parameters(service, call(service, base, made, "?tz=UTC", headers=ASYNC))
    kinds = {name: kind for name, (kind, _) in found.items()}
    assert kinds == {
        "url": "valueString",
        "contentType": "valueString",
        "format": "valueCoding",
        "size": "valuePositiveInt",
        "checksum": "valueString",
        "expiredAt": "valueDateTime",
    }
    url = found["url"][1]
    assert url.startswith(f"{service.url}{base}/Binary/")
    answer = service.ask("GET", url.removeprefix(service.url), headers={"accept": found["contentType"][1]})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/xml")
    assert len(answer.content) == found["size"][1]
    assert sha256(answer.content).hexdigest() == found["checksum"][1]
    document = read(answer.content)
    assert document.tag == "{urn:hl7-org:v3}ClinicalDocument"
    issue(service.ask("GET", url.removeprefix(service.url), client="other"), 404, "not-found")
    assert found["format"][1]["code"] == "urn:hl7-org:sdwg:ccda-structuredBody:2.1"


def test_the_link_ends_after_an_hour(own_service: Running) -> None:
    """C-335: expiredAt is in the future; past it the link is gone (410)."""
    made = own_service.create()["id"]
    found = parameters(own_service, call(own_service, R4, made, headers=ASYNC))
    assert found["expiredAt"][1] > own_service.ask("GET", f"{R4}/Patient/{made}").json()["meta"]["lastUpdated"]
    path = found["url"][1].removeprefix(own_service.url)
    assert own_service.ask("GET", path, headers={"accept": "text/xml"}).status_code == 200
    own_service.advance(3601)
    own_service.tokens.clear()
    issue(own_service.ask("GET", path, headers={"accept": "text/xml"}), 410, "not-found")


def test_r4_has_it_at_once(service: Running) -> None:
    """C-338: without Prefer 200 application/xml, with a body of Parameters, an empty body, or none at all."""
    made = service.create()["id"]
    for more in (
        {},
        {"headers": {"accept": "application/xml"}},
        {"headers": {"accept": "application/fhir+json"}},
        {"json": {"resourceType": "Parameters"}},
        {"json": {"resourceType": "Parameters", "parameter": [{"name": "tz", "valueString": "UTC"}]}},
    ):
        answer = call(service, R4, made, **more)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/xml"
        assert find(read(answer.content), "c:code/@code") == ["34133-9"]
    issue(call(service, R4, made, headers={"accept": "application/pdf"}), 406, "not-supported")


def test_stu3_is_asked_for_a_job(service: Running) -> None:
    """C-336: without Prefer 400; the methods of the other version are 405 (C-341)."""
    made = service.create()["id"]
    issue(call(service, STU3, made), 400, "not-supported")
    for method, base, other in (("GET", R4, "POST"), ("POST", STU3, "GET")):
        answer = service.ask(method, f"{base}/Patient/{made}/$export-ccda", headers=ASYNC, json=None)
        issue(answer, 405, "not-supported")
        assert other in answer.headers["allow"]


@pytest.mark.parametrize("zone", ["Mars/Base", "", "America", "../etc/passwd", "/etc/localtime", "x" * 999])
def test_a_time_zone_is_one_of_the_iana_names(service: Running, zone: str) -> None:
    """C-339: anything else is a 400 that names tz, in the address and in the body, in both versions."""
    made = service.create()["id"]
    query = str(httpx.QueryParams({"tz": zone}))
    for base in (R4, STU3):
        told = issue(call(service, base, made, f"?{query}", headers=ASYNC), 400, "invalid")
        assert told["location"] == ["http.tz"]
    if zone and zone.isprintable():
        body = {"resourceType": "Parameters", "parameter": [{"name": "tz", "valueString": zone}]}
        issue(call(service, R4, made, json=body), 400, "invalid")


def test_times_are_told_in_the_zone(service: Running) -> None:
    """C-339: tz=America/Los_Angeles: times in that zone, by default in UTC."""
    made = service.create()["id"]
    visit = least("Procedure", made, performedDateTime="2025-01-15T20:00:00Z")
    assert service.ask("POST", f"{R4}/Procedure", json=visit).status_code == 201
    for query, value in (("", "20250115200000+0000"), ("?tz=America/Los_Angeles", "20250115120000-0800")):
        document = read(call(service, R4, made, query).content)
        assert find(section(document, "47519-4"), ".//c:procedure/c:effectiveTime/@value") == [value]
        assert str(find(document, "c:effectiveTime/@value")[0])[-5:] == value[-5:]


def test_what_is_refused(service: Running) -> None:
    """C-340: an unknown patient 404, one of another tenant too, a deleted or merged one 410, no right to read 403."""
    mine, gone, survivor = (service.create()["id"] for _ in range(3))
    merged = service.create()["id"]
    assert service.ask("DELETE", f"{R4}/Patient/{gone}", client="system").status_code == 204
    assert service.ask("POST", f"{R4}/Patient/$merge", json=merge_body(merged, survivor)).status_code == 200
    for base, deleted in ((R4, "deleted"), (STU3, "not-found")):
        issue(call(service, base, str(uuid4()), headers=ASYNC), 404, "not-found")
        issue(call(service, base, mine, headers=ASYNC, client="other"), 404, "not-found")
        issue(call(service, base, gone, headers=ASYNC), 410, deleted)
        told = issue(call(service, base, merged, headers=ASYNC), 410, deleted)
        assert survivor in told["diagnostics"]
        for client in ("observation", "pwrite", "administrative"):
            issue(call(service, base, mine, headers=ASYNC, client=client), 403, "forbidden")
        for query in ("?patient=x", "?tz=UTC&tz=UTC"):
            assert call(service, base, mine, query, headers=ASYNC).status_code == 400
    for client in ("pread", "patient360"):
        assert call(service, R4, mine, client=client).status_code == 200
    issue(call(service, R4, mine, content=b"<x/>", headers={"content-type": "text/xml"}), 415, "not-supported")
    issue(call(service, R4, mine, json={"resourceType": "Patient"}), 400, "invalid")


@pytest.mark.parametrize("base", [R4, STU3])
def test_what_the_chart_has_is_in_it(service: Running, base: str) -> None:
    """C-344: name, birth date, and what was written through either base."""
    made = service.create(base)["id"]
    version = version_of(base)
    for name, code in (("AllergyIntolerance", "code"), ("Condition", "code")):
        body = least(name, made, version, **{code: {"text": f"The {name}"}})
        assert service.ask("POST", f"{base}/{name}", json=body).status_code == 201
    request = least("MedicationRequest", made, version, medicationCodeableConcept={"text": "The medication"})
    assert service.ask("POST", f"{base}/MedicationRequest", json=request).status_code == 201
    document = read(call(service, R4, made).content)
    assert find(document, "c:recordTarget//c:patient/c:name/*/text()") == ["Marisol", "Ines", "Quintero"]
    assert find(document, "//c:birthTime/@value") == ["19840229"]
    for code, text in (("48765-2", "AllergyIntolerance"), ("11450-4", "Condition"), ("10160-0", "medication")):
        assert find(section(document, code), ".//c:entry//c:originalText/text()") == [f"The {text}"]


def test_a_whole_chart_and_who_keeps_it(tmp_path: Path) -> None:
    """What was written by a transaction is there, as is the organization of the tenant, by its configuration."""
    keeper = Organization(
        name="Riverbend Clinic",
        npi="1659999990",
        oid="1.2.3",
        telephone="+1 503 555 0100",
        street="1 Elm",
        city="Bend",
        state="OR",
        postal_code="97701",
    )
    chart = synthetic_chart("export", facts=60)
    with running(
        tmp_path, tenants={"riverbend": Tenant(organization=keeper), "lakeside": Tenant(), "lax": Tenant()}
    ) as service:
        answer = service.ask("POST", R4, json=transaction(chart))
        assert answer.status_code == 200, answer.text
        created = answer.json()["entry"][0]["response"]["location"].split("Patient/")[1].split("/")[0]
        document = read(call(service, R4, created).content)
    (custodian,) = find(document, "c:custodian//c:representedCustodianOrganization")
    assert find(custodian, "c:name/text()") == ["Riverbend Clinic"]
    assert find(custodian, "c:id/@root") == ["2.16.840.1.113883.4.6", "1.2.3"]
    assert find(custodian, "c:addr/*/text()") == ["1 Elm", "Bend", "OR", "97701", "US"]
    assert find(custodian, "c:telecom/@value") == ["tel:+15035550100"]
    count = {name: sum(one["resourceType"] == name for one in chart) for name in ("Condition", "Immunization")}
    assert len(find(section(document, "11450-4"), "c:entry")) == count["Condition"]
    assert len(find(section(document, "11369-6"), "c:entry")) == count["Immunization"]
    assert etree.tostring(document)


def test_a_patient_who_went_meanwhile_has_no_document(tmp_path: Path) -> None:
    """C-343: deleted between the question and the work, the job has failed: 422, again and again."""
    bench = Bench()
    with running_inside(tmp_path, {KIND: bench.work}, jobs=Jobs(at_once=1, at_once_per_tenant=1)) as service:
        made = service.create()["id"]
        ask_for(service, "another")
        assert bench.begun.acquire(timeout=10)
        handle = call(service, R4, made, headers=ASYNC).headers["location"].removeprefix(service.url)
        assert service.ask("DELETE", f"{R4}/Patient/{made}", client="system").status_code == 204
        bench.go.set()
        for _ in range(2):
            assert made in issue(ended(service, handle), 422, "processing")["diagnostics"]
