"""Patient/{id}/$everything: what belongs to the answer, its filters, and who may ask (points L, C-075, C-076)."""

from typing import Any

import pytest

from tests.interchange.chart import (
    CHARTED,
    LISTED,
    SUPPORTING,
    everything,
    named,
    next_path,
    pages,
    put,
    references,
    resources,
    rich_chart,
)
from tests.interchange.kit import BASES, Running, issue, merge_body


@pytest.fixture(scope="module")
def chart(service: Running) -> tuple[str, set[str]]:
    """A chart of every type, and all that belongs to it."""
    return rich_chart(service)


def test_the_whole_chart(service: Running, base: str, chart: tuple[str, set[str]]) -> None:
    """C-300, C-301, C-302, C-303: patient, every type of the chart, and exactly the directory that these name."""
    patient_id, members = chart
    for query, headers in (("", {"accept": "application/fhir+json"}), ("?_format=json", {"accept": "text/html"})):
        answer = service.ask("GET", f"{base}/Patient/{patient_id}/$everything{query}", headers=headers)
        assert answer.headers["content-type"].startswith("application/fhir+json")
        bundle = answer.json()
        found = named(resources(bundle))
        assert set(found) == members
        assert len(found) == len(members) == bundle["total"]
        types = [one.partition("/")[0] for one in found]
        assert set(types) == LISTED
        assert list(dict.fromkeys(types)) == ["Patient", *CHARTED, *SUPPORTING]


def test_references_resolve(service: Running, base: str, chart: tuple[str, set[str]]) -> None:
    """C-304: whatever a resource refers to of the types returned stands on one of the pages, under that name."""
    found = resources(*pages(service, f"{base}/Patient/{chart[0]}/$everything?_count=3"))
    there = {f"{one['resourceType']}/{one['id']}" for one in found}
    types = {one["resourceType"] for one in found}
    wanted = {one for resource in found for one in references(resource) if one.partition("/")[0] in types}
    assert len(wanted) > 10
    assert wanted <= there


@pytest.mark.parametrize(
    ("query", "types"),
    [
        ("_type=Observation,Condition", {"Observation", "Condition"}),
        ("_type=Observation&_type=Condition", {"Observation", "Condition"}),
        ("_type=Observation&_type=Condition,Goal", {"Observation", "Condition", "Goal"}),
        ("_type=Patient", {"Patient"}),
        ("_type=Practitioner", {"Practitioner"}),
        ("_type=Location,Patient,Location", {"Patient", "Location"}),
        ("_type=Observation,Binary", {"Observation"}),
        ("_type=Binary", set()),
        ("_type=Account,RelatedPerson,Provenance,PractitionerRole", set()),
    ],
)
def test_types(service: Running, base: str, chart: tuple[str, set[str]], query: str, types: set[str]) -> None:
    """C-305, C-306: a list, repeated or both; types never held, and those outside of a chart, add nothing."""
    members = {one for one in chart[1] if one.partition("/")[0] in types}
    found = everything(service, base, chart[0], query)
    assert set(found) == members
    assert len(found) == len(members)


def test_by_post(service: Running, base: str, chart: tuple[str, set[str]]) -> None:
    """Parameters in a body, of any simple type, are those of the address; both together count as one question.

    N-236.
    """
    address = f"{base}/Patient/{chart[0]}/$everything"

    def ask(*parameters: Any, query: str = "", client: str = "physician") -> Any:
        body = {"resourceType": "Parameters", **({"parameter": list(parameters)} if parameters else {})}
        return service.ask("POST", address + query, json=body, client=client)

    assert set(named(resources(ask().json()))) == chart[1]
    types = {"name": "_type", "valueCode": "Observation"}
    first = ask({"name": "start", "valueDate": "1900-01-01"}, {"name": "_count", "valueInteger": 1}).json()
    assert named(resources(first)) == [f"Patient/{chart[0]}"]
    following = service.ask("GET", next_path(service, first))
    assert len(resources(following.json())) == 1
    assert named(resources(following.json())) != named(resources(first))
    assert set(named(resources(ask(types, query="?_type=Condition").json()))) == set(
        everything(service, base, chart[0], "_type=Observation,Condition")
    )
    issue(ask({"name": "_count", "valueInteger": 1}, query="?_count=2"), 400, "invalid")
    issue(ask({"name": "purpose", "valueCode": "x"}), 400, "not-supported")
    for bad in ({"valueCode": "x"}, {"name": "_type"}, {"name": "start", "valuePeriod": {"start": "2000"}}):
        issue(ask(bad), 400, "invalid")
    issue(service.ask("POST", address, json={"resourceType": "Patient"}), 400, "invalid")
    issue(ask(types, client="observation"), 403, "forbidden")


def test_types_have_the_names_of_their_version(service: Running, chart: tuple[str, set[str]]) -> None:
    """C-302, C-306, C-319: sTU3 says ProcedureRequest, and takes the name that the specification lists for both too."""
    orders = {one for one in chart[1] if one.startswith("ServiceRequest/")}
    for base, name in (("/fhir/R4", "ServiceRequest"), ("/fhir", "ProcedureRequest"), ("/fhir", "ServiceRequest")):
        assert set(everything(service, base, chart[0], f"_type={name}")) == orders
    issue(service.ask("GET", f"/fhir/R4/Patient/{chart[0]}/$everything?_type=ProcedureRequest"), 400, "invalid")


def test_days_of_care(service: Running, base: str) -> None:
    """C-307, C-308, C-309: days are inclusive and of the care, not of the update; what is undated stays."""
    patient_id = service.create()["id"]
    dated = {
        text: put(service, "Observation", patient_id, effectiveDateTime=text)
        for text in (
            "2025-06-30",
            "2025-06-30T23:59:59Z",
            "2025-07-01",
            "2025-07-01T00:00:00.000Z",
            "2025-07-01T23:30:00-05:00",
            "2025-07-02T23:59:59.999Z",
            "2025-07-03",
            "2025-07-03T00:00:00.000Z",
            "2025-07",
            "1999",
        )
    }
    stay = put(service, "Encounter", patient_id, period={"start": "2025-06-01", "end": "2025-07-01"})
    before = put(service, "Encounter", patient_id, period={"start": "2025-06-01", "end": "2025-06-30"})
    open_ended = put(service, "CarePlan", patient_id, period={"start": "2020-01-01"})
    doctor = put(service, "Practitioner")
    undated = put(service, "AllergyIntolerance", patient_id, recorder={"reference": doctor})
    always = {f"Patient/{patient_id}", undated, doctor}
    within = {text for text in dated if text.startswith("2025-07-0") and text < "2025-07-03"} | {"2025-07"}
    found = everything(service, base, patient_id, "start=2025-07-01&end=2025-07-02")
    assert set(found) == always | {dated[text] for text in within} | {stay, open_ended}
    only_after = everything(service, base, patient_id, "start=2025-07-03")
    assert set(only_after) == always | {dated[text] for text in dated if text >= "2025-07-03"} | {
        dated["2025-07"],
        open_ended,
    }
    only_before = everything(service, base, patient_id, "end=2025-06-30")
    assert set(only_before) == always | {dated[text] for text in dated if text < "2025-07"} | {stay, before, open_ended}
    everything_known = everything(service, base, patient_id, "start=0001-01-01&end=9999-12-31")
    assert set(everything_known) == always | {*dated.values(), stay, before, open_ended}


def test_days_leave_out_whom_only_other_care_names(service: Running, base: str) -> None:
    """C-303: a practitioner is there exactly when the care of these days names one."""
    patient_id = service.create()["id"]
    early, late = put(service, "Practitioner"), put(service, "Practitioner")
    for doctor, day in ((early, "2024-01-01"), (late, "2025-01-01")):
        put(service, "Observation", patient_id, effectiveDateTime=day, performer=[{"reference": doctor}])
    found = everything(service, base, patient_id, "start=2025-01-01&_type=Practitioner")
    assert found == [late]


def test_since(service: Running, base: str) -> None:
    """C-310: only what was changed after the moment, the directory and the Patient too."""
    doctor = put(service, "Practitioner")
    patient_id = service.create()["id"]
    old = put(service, "Observation", patient_id, performer=[{"reference": doctor}])
    changed = put(service, "Condition", patient_id)
    service.advance(2)
    moment = service.ask("PUT", f"/fhir/R4/{changed}", json=service.ask("GET", f"/fhir/R4/{changed}").json()).json()
    at = moment["meta"]["lastUpdated"].replace("+00:00", "Z")
    second = f"{at[:19]}Z"
    service.advance(2)
    new = put(service, "Goal", patient_id)
    directory = service.ask("GET", f"/fhir/R4/{doctor}").json()
    service.ask("PUT", f"/fhir/R4/{doctor}", json=directory)
    assert everything(service, base, patient_id, f"_since={at}") == [new, doctor]
    assert everything(service, base, patient_id, f"_since={second}") == [changed, new, doctor]
    assert everything(service, base, patient_id, "_since=2020") == [f"Patient/{patient_id}", changed, old, new, doctor]
    assert everything(service, base, patient_id, "_since=2999-01-01T00:00:00Z") == []


@pytest.mark.parametrize(
    "query",
    [
        "start=yesterday",
        "start=2025",
        "start=20250701",
        "start=2025-02-30",
        "start=2025-07-02&end=2025-07-01",
        "end=2025-13-01",
        "end=",
        "start=2025-07-01&start=2025-07-02",
        "_since=yesterday",
        "_since=",
        "_since=2025-07-01T10:00:00",
        "_since=2025-07-01T10:00:00+02:00",
        "_since=2025-13-01T10:00:00Z",
        "_type=Nonsense",
        "_type=Observation,Nonsense",
        "_type=observation",
        "_type=",
        "_count=-1",
        "_count=many",
        "_count=",
        "_count=1&_count=2",
        "_cursor=",
        "_cursor=abc",
        "_cursor=abc&_count=2",
    ],
)
def test_malformed(service: Running, base: str, chart: tuple[str, set[str]], query: str) -> None:
    """C-319: what cannot be understood, or says two things, is refused and not ignored (400)."""
    issue(service.ask("GET", f"{base}/Patient/{chart[0]}/$everything?{query}"), 400, "invalid")


@pytest.mark.parametrize("query", ["name=x", "_offset=0", "_sort=date", "start:missing=true", "_paging=cursor"])
def test_unknown_parameters(service: Running, base: str, chart: tuple[str, set[str]], query: str) -> None:
    """Section 6B: a filter that is not known is refused, so that nobody takes more for what was asked for (400)."""
    issue(service.ask("GET", f"{base}/Patient/{chart[0]}/$everything?{query}"), 400, "not-supported")


def test_unknown_patient(service: Running, base: str) -> None:
    """C-313: an unknown patient is 404 and the diagnostics name it; so is an id that is none."""
    for patient_id in ("nobody", "5f0c2b9e8d7a41c6b3e2f190"):
        found = issue(service.ask("GET", f"{base}/Patient/{patient_id}/$everything"), 404, "not-found")
        assert f"Patient/{patient_id}" in found["diagnostics"]
    issue(service.ask("GET", f"{base}/Patient/no_id/$everything"), 404, "not-found")


def test_nothing_matches(service: Running, base: str) -> None:
    """C-314: a patient alone is one entry; a filter that leaves nothing gives an empty list, not none."""
    patient_id = service.create()["id"]
    assert everything(service, base, patient_id) == [f"Patient/{patient_id}"]
    bundle = service.ask("GET", f"{base}/Patient/{patient_id}/$everything?_type=Observation").json()
    assert (bundle["entry"], bundle["total"], next_path(service, bundle)) == ([], 0, "")


def test_merged_away(service: Running, base: str) -> None:
    """C-315: the chart of a merged-away patient is gone (410), and the refusal names the survivor, who has it all."""
    source, target = service.create()["id"], service.create()["id"]
    ours, theirs = put(service, "Observation", source), put(service, "Observation", target)
    assert service.ask("POST", f"{base}/Patient/$merge", json=merge_body(source, target)).status_code == 200
    code = "deleted" if base == BASES["R4"] else "not-found"
    found = issue(service.ask("GET", f"{base}/Patient/{source}/$everything"), 410, code)
    assert f"Patient/{target}" in found["diagnostics"]
    assert set(everything(service, base, target)) == {f"Patient/{target}", ours, theirs}


def test_other_patients(service: Running, base: str) -> None:
    """C-320: what is another patient's never appears, even where a resource of this chart names it."""
    patient_id, stranger = service.create()["id"], service.create()["id"]
    foreign = put(service, "Encounter", stranger)
    put(service, "Condition", stranger)
    own = put(service, "Observation", patient_id, encounter={"reference": foreign})
    focus = put(service, "Observation", stranger, focus=[{"reference": f"Patient/{patient_id}"}])
    assert set(everything(service, base, patient_id)) == {f"Patient/{patient_id}", own}
    assert focus in everything(service, base, stranger)


@pytest.mark.parametrize(
    ("client", "status"),
    [
        ("pread", 200),
        ("patient360", 200),
        ("read", 200),
        ("nurse", 200),
        ("system", 200),
        ("observation", 403),
        ("pwrite", 403),
        ("administrative", 403),
        ("other", 404),
    ],
)
def test_who_may(service: Running, base: str, chart: tuple[str, set[str]], client: str, status: int) -> None:
    """C-075, C-076, C-080: scopes of whole charts, and roles that may read one; another tenant has no such patient."""
    answer = service.ask("GET", f"{base}/Patient/{chart[0]}/$everything", client=client)
    assert answer.status_code == status, answer.text


def test_a_scope_of_charts_opens_no_search(service: Running, base: str, chart: tuple[str, set[str]]) -> None:
    """C-076: patient360 alone opens charts, and neither reads nor searches of single types."""
    for path in (f"Observation?patient={chart[0]}", f"Patient/{chart[0]}", "Patient"):
        issue(service.ask("GET", f"{base}/{path}", client="patient360"), 403, "forbidden")


def test_it_is_told_of(service: Running, base: str) -> None:
    """The CapabilityStatement names the operation, and its address takes GET and POST only."""
    said: dict[str, Any] = service.ask("GET", f"{base}/metadata").json()["rest"][0]
    operations = (
        said["operation"]
        if base == BASES["STU3"]
        else next(one for one in said["resource"] if one["type"] == "Patient")["operation"]
    )
    assert "everything" in {operation["name"] for operation in operations}
    answer = service.ask("PUT", f"{base}/Patient/x/$everything", json={})
    issue(answer, 405, "not-supported")
    assert answer.headers["allow"] == "GET, HEAD, POST"
