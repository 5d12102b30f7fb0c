"""`_include` and `_revinclude`: what comes along with matches, as far as the token may read it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fhir.schema import FhirVersion
from engine.interchange.rest.resource import includes
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.store.search.criterion import ParameterKind
from tests.interchange.kit import Inside, Running, issue, merge_body, running
from tests.interchange.least import least
from tests.interchange.test_walk import scoped
from tests.tiers import trials

Kept = tuple[Running, dict[str, str]]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service with a directory, two charts and another tenant's, and the ids of all by name."""
    with running(tmp_path_factory.mktemp("includes")) as service:
        ids: dict[str, str] = {}

        def make(name: str, type_name: str, **more: Any) -> None:
            body = least(type_name, ids.get("one", ""), **more)
            answer = service.ask("POST", f"/fhir/R4/{type_name}", json=body)
            assert answer.status_code == 201, answer.text
            ids[name] = answer.json()["id"]

        def to(name: str, type_name: str) -> dict[str, str]:
            return {"reference": f"{type_name}/{ids[name]}"}

        make("org", "Organization")
        make("doctor", "Practitioner")
        make("role", "PractitionerRole", practitioner=to("doctor", "Practitioner"))
        doctors = [to("doctor", "Practitioner"), to("org", "Organization")]
        ids["one"] = service.create(generalPractitioner=doctors, managingOrganization=to("org", "Organization"))["id"]
        ids["two"] = service.create(generalPractitioner=doctors[1:])["id"]
        make("visit", "Encounter", serviceProvider=to("org", "Organization"))
        for name in ("first", "second"):
            performers = [to("doctor", "Practitioner"), to("role", "PractitionerRole")]
            make(name, "Observation", encounter=to("visit", "Encounter"), performer=performers)
        make("record", "Provenance", target=[to("one", "Patient"), to("first", "Observation")])
        yield service, ids


def entries(kept: Kept, path: str, base: str = "/fhir/R4", **more: Any) -> tuple[list[str], list[str]]:
    """Return the names of matches and of what comes along; `{name}` in the path stands for an id."""
    service, ids = kept
    answer = service.ask("GET", f"{base}/{path.format(**ids)}", **more)
    assert answer.status_code == 200, answer.text
    bundle = answer.json()
    names = {value: name for name, value in ids.items()}
    found: dict[str, list[str]] = {"match": [], "include": []}
    for entry in bundle["entry"]:
        resource = entry["resource"]
        assert entry["fullUrl"] == f"{service.url}{base}/{resource['resourceType']}/{resource['id']}"
        found[entry["search"]["mode"]].append(names[resource["id"]])
    assert bundle["total"] == len(found["match"])
    return found["match"], found["include"]


ALONG = {
    "Observation?patient={one}&_include=Observation:subject": ["one"],
    "Observation?patient={one}&_include=Observation:patient:Patient": ["one"],
    "Observation?patient={one}&_include=Observation:patient:Device": None,
    "Observation?patient={one}&_include=Observation:performer": ["doctor", "role"],
    "Observation?patient={one}&_include=Observation:performer:Practitioner": ["doctor"],
    "Observation?patient={one}&_include=Observation:performer:Organization": [],
    "Observation?patient={one}&_include=Observation:encounter&_include=Observation:patient": ["visit", "one"],
    "Encounter?_id={visit}&_revinclude=Observation:encounter": ["first", "second"],
    "Encounter?_id={visit}&_revinclude=Observation:encounter:Encounter&_include=Encounter:service-provider": [
        "first",
        "second",
        "org",
    ],
    "Patient?_id={one}&_include=Patient:general-practitioner&_include=Patient:organization": ["doctor", "org"],
    "Patient?_id={one},{two}&_include=Patient:general-practitioner": ["doctor", "org"],
    "Patient?_id={one}&_revinclude=Provenance:target": ["record"],
    "Patient?_id={one}&_revinclude=Provenance:patient": ["record"],
    "Patient?_id={two}&_revinclude=Provenance:target": [],
    "Observation?patient={one}&_revinclude=Provenance:target": ["record"],
    "Practitioner?_id={doctor}&_revinclude=PractitionerRole:practitioner&_revinclude=Patient:general-practitioner": [
        "role",
        "one",
    ],
    "PractitionerRole?_include=PractitionerRole:practitioner": ["doctor"],
}


@pytest.mark.parametrize("path", ALONG)
def test_what_comes_along(kept: Kept, base: str, path: str) -> None:
    """N-230: what matches refer to, or what refers to them, comes once, with the mode include, and is not counted."""
    expected = ALONG[path]
    if expected is None:
        issue(kept[0].ask("GET", f"{base}/{path.format(**kept[1])}"), 400, "invalid")
        return
    matches, along = entries(kept, path, base)
    assert sorted(along) == sorted(expected)
    assert not set(along) & set(matches)
    assert matches == entries(kept, path.split("&_", maxsplit=1)[0].split("?_include", maxsplit=1)[0], base)[0]


def test_pages_have_their_own(kept: Kept, base: str) -> None:
    """N-230: each page brings what its own matches need, and the next link asks for the same."""
    service, ids = kept
    path = (
        f"{base}/Observation?patient={ids['one']}&_count=1&_include=Observation:patient&_include=Observation:encounter"
    )
    for name in ("first", "second"):
        bundle = service.ask("GET", path).json()
        assert [entry["resource"]["id"] for entry in bundle["entry"]] == [ids[name], ids["one"], ids["visit"]]
        path = next((one["url"] for one in bundle["link"] if one["relation"] == "next"), "").removeprefix(service.url)
    form = {"content-type": "application/x-www-form-urlencoded"}
    text = f"patient={ids['one']}&_count=1&_include=Observation:patient"
    bundle = service.ask("POST", f"{base}/Observation/_search", content=text, headers=form).json()
    bundle = service.ask("GET", bundle["link"][1]["url"].removeprefix(service.url)).json()
    assert [entry["resource"]["id"] for entry in bundle["entry"]] == [ids["second"], ids["one"]]


@pytest.mark.parametrize(
    "query",
    [
        "_include=",
        "_include=*",
        "_include=Observation",
        "_include=Observation:*",
        "_include=Observation:foo",
        "_include=Observation:code",
        "_include=Encounter:patient",
        "_include=Observation:patient:Nonsense",
        "_revinclude=Nonsense:patient",
        "_revinclude=Provenance:target:Patient",
    ],
)
def test_refused_includes(kept: Kept, base: str, query: str) -> None:
    """N-231: what cannot come along is refused, and so is iterating."""
    service, ids = kept
    path = f"{base}/Observation?patient={ids['one']}&{query}"
    issue(service.ask("GET", path), 400, "invalid")
    for modifier in ("iterate", "recurse"):
        name, _, value = query.partition("=")
        issue(
            service.ask("GET", f"{base}/Observation?patient={ids['one']}&{name}:{modifier}={value}"),
            400,
            "not-supported",
        )


def test_names_of_stu3(kept: Kept) -> None:
    """N-230: types are called as the version calls them."""
    service, ids = kept
    body = least("ServiceRequest", ids["two"], encounter={"reference": f"Encounter/{ids['visit']}"})
    made = service.ask("POST", "/fhir/R4/ServiceRequest", json=body).json()["id"]
    path = f"/fhir/Encounter?_id={ids['visit']}&_revinclude=ProcedureRequest:encounter"
    along = service.ask("GET", path).json()["entry"][1]["resource"]
    assert (along["resourceType"], along["id"]) == ("ProcedureRequest", made)


def test_nothing_that_the_token_may_not_read(kept: Kept, base: str) -> None:
    """N-232: a scope or role that does not open a type leaves it out, and what it opens comes."""
    service, ids = kept
    path = "Observation?patient={one}&_include=Observation:patient&_include=Observation:performer"
    path += "&_revinclude=Provenance:target"
    assert entries(kept, path, base, client="observation")[1] == []
    token = {"authorization": f"Bearer {scoped(service, 'user/Observation.read user/Practitioner.read')}"}
    answer = service.http.get(f"{service.url}{base}/{path.format(**ids)}", headers=token).json()
    assert [one["resource"]["id"] for one in answer["entry"][2:]] == [ids["doctor"]]
    path = "Patient?_id={one}&_revinclude=Observation:patient&_include=Patient:general-practitioner"
    assert set(entries(kept, path, base, client="administrative")[1]) == {"doctor", "org"}
    assert set(entries(kept, path, base)[1]) == {"first", "second", "doctor", "org"}
    token = {"authorization": f"Bearer {scoped(service, 'patient.read')}"}
    answer = service.http.get(f"{service.url}{base}/{path.format(**ids)}", headers=token).json()
    assert [one["resource"]["id"] for one in answer["entry"]] == [ids["one"]]


def test_links_to_merged_records(own_service: Running) -> None:
    """N-230: a survivor brings the record whose place it took; no search finds that itself."""
    source, target = own_service.create()["id"], own_service.create()["id"]
    assert own_service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(source, target)).status_code == 200
    bundle = own_service.ask("GET", f"/fhir/R4/Patient?_id={target},{source}&_include=Patient:link").json()
    assert [(one["resource"]["id"], one["search"]["mode"]) for one in bundle["entry"]] == [
        (target, "match"),
        (source, "include"),
    ]


def test_too_much_is_refused(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """N-231: more than an answer holds is refused, never left out."""
    monkeypatch.setattr(includes, "MOST", 2)
    patient_id = inside.create()["id"]
    path = f"/fhir/R4/Patient?_id={patient_id}&_revinclude=Observation:patient"
    for number in range(3):
        assert len(inside.ask("GET", path).json()["entry"]) == 1 + number
        inside.ask("POST", "/fhir/R4/Observation", json=least("Observation", patient_id))
    issue(inside.ask("GET", path), 400, "too-costly")
    monkeypatch.setattr(includes, "MOST", 3)
    assert len(inside.ask("GET", path).json()["entry"]) == 4
    monkeypatch.setattr(includes, "MOST_BYTES", 300)
    issue(inside.ask("GET", path), 400, "too-costly")


REFERENCES = sorted(
    f"{name}:{one.name}" for name in KEPT for one in KEPT[name].parameters if one.kind is ParameterKind.REFERENCE
)
SCOPES = [f"user/{name}.read" for name in KEPT]


@pytest.mark.property
@settings(max_examples=trials(60), deadline=None)
@given(data=st.data())
def test_any_include_shows_what_may_be_read(kept: Kept, data: st.DataObject) -> None:
    """N-232: with any scopes, whatever comes along is of a type that the token may read, and of its tenant."""
    service, ids = kept
    type_name = data.draw(st.sampled_from(["Patient", "Encounter", "Observation", "Practitioner", "Provenance"]))
    own = data.draw(st.lists(st.sampled_from(SCOPES), max_size=3, unique=True))
    base = data.draw(st.sampled_from(["/fhir/R4", "/fhir"]))
    scope = " ".join(sorted({f"user/{type_name}.read", *own}))
    asked = data.draw(st.lists(st.sampled_from(REFERENCES), max_size=4))
    query = "&".join(
        f"_{'include' if one.startswith(f'{type_name}:') and data.draw(st.booleans()) else 'revinclude'}={one}"
        for one in asked
    )
    headers = {"authorization": f"Bearer {scoped(service, scope)}"}
    path = f"{service.url}{base}/{type_name}?_id={','.join(ids.values())}&{query}"
    answer = service.http.get(path, headers=headers)
    if base == "/fhir" and answer.status_code == 400:
        # R4 has parameters that STU3 does not know.
        return
    bundle = answer.json()
    for one in bundle["entry"]:
        read = service.http.get(one["fullUrl"], headers=headers)
        assert (read.status_code, read.json()) == (200, one["resource"])
    everything = [one["resource"]["id"] for one in bundle["entry"]]
    assert len(everything) == len(set(everything))


@pytest.mark.parametrize("version", list(FhirVersion))
def test_includes_are_declared(kept: Kept, version: FhirVersion) -> None:
    """N-233: the CapabilityStatement names every include, and what is asked beside the parameters of each type."""
    base = "/fhir/R4" if version is FhirVersion.R4 else "/fhir"
    rest = kept[0].http.get(f"{kept[0].url}{base}/metadata").json()["rest"][0]
    said = {one["type"]: one for one in rest["resource"]}
    assert {"Observation:encounter", "Observation:subject"} <= set(said["Observation"]["searchInclude"])
    assert {"Observation:patient", "Provenance:target"} <= set(said["Patient"]["searchRevInclude"])
    assert "Provenance:target" in said["Observation"]["searchRevInclude"]
    assert "searchInclude" not in said["Organization"] or "Organization:partof" in said["Organization"]["searchInclude"]
    for word in ("_sort", "_elements", "_summary", "_total", "_include", "_revinclude"):
        assert word in rest["documentation"]
