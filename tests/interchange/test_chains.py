"""Searches by linked resources, one link away: chains and `_has`, within what the token may search."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fhir.versions.names import name_in
from engine.interchange.rest.resource.catalogue import KEPT
from tests.interchange.kit import MRN, Running, issue, merge_body, record_number, running
from tests.interchange.least import least, version_of
from tests.interchange.test_walk import scoped

Kept = tuple[Running, dict[str, str]]


def concept(code: str) -> dict[str, Any]:
    """Return a CodeableConcept of one code."""
    return {"coding": [{"system": "urn:c", "code": code}]}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service with three charts, one of which another one joined, and another tenant's; the ids of all by name."""
    with running(tmp_path_factory.mktemp("chains")) as service:
        ids: dict[str, str] = {}

        def make(called: str, type_name: str, patient: str = "", **more: Any) -> None:
            body = least(type_name, ids.get(patient, ""), **more)
            answer = service.ask("POST", f"/fhir/R4/{type_name}", json=body)
            assert answer.status_code == 201, answer.text
            ids[called] = answer.json()["id"]

        make("org", "Organization", name="Riverbend")
        make("doctor", "Practitioner", name=[{"family": "Osei"}])
        births = {"one": "1984-02-29", "two": "1990-01-01", "three": "1984", "gone": "1970"}
        for name, birth in births.items():
            ids[name] = service.create(
                birthDate=birth, name=[{"family": name, "given": ["A"]}], identifier=[record_number(name)]
            )["id"]
        make("visit", "Encounter", "one", status="finished", **{"class": {"code": "AMB"}})
        make("stay", "Encounter", "two", status="in-progress", **{"class": {"code": "IMP"}})
        doctor = [{"reference": f"Practitioner/{ids['doctor']}"}]
        visit, stay = ({"reference": f"Encounter/{ids[name]}"} for name in ("visit", "stay"))
        make("a", "Observation", "one", code=concept("A"), encounter=visit, performer=doctor)
        make("b", "Observation", "one", code=concept("B"), performer=[{"reference": f"Organization/{ids['org']}"}])
        make("c", "Observation", "two", code=concept("A"), encounter=stay)
        make("d", "Observation", "gone", code=concept("D"))
        merged = service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(ids["gone"], ids["three"]))
        assert merged.status_code == 200
        service.create(client="other", birthDate="1984-02-29", identifier=[record_number("one")])
        yield service, ids


def found(kept: Kept, path: str, base: str) -> set[str]:
    """Return the names of what a search finds; `{name}` in the path stands for an id."""
    service, ids = kept
    answer = service.ask("GET", f"{base}/{path.format(**ids)}")
    assert answer.status_code == 200, answer.text
    bundle = answer.json()
    assert bundle["total"] == len(bundle["entry"])
    names = {value: name for name, value in ids.items()}
    return {names[entry["resource"]["id"]] for entry in bundle["entry"]}


FOUND = {
    f"Observation?patient.identifier={MRN}|one": {"a", "b"},
    f"Observation?subject.identifier={MRN}|one,{MRN}|two": {"a", "b", "c"},
    f"Observation?subject:Patient.identifier={MRN}|two": {"c"},
    f"Observation?patient.identifier={MRN}|gone": {"d"},
    "Observation?patient.identifier=nobody": set(),
    "Observation?patient={one},{two}&patient.birthdate=1984-02-29": {"a", "b"},
    "Observation?patient={one},{two},{three}&patient.birthdate=ge1984&patient.name=t": {"c", "d"},
    "Observation?patient={one},{two}&encounter.status=finished": {"a"},
    "Observation?patient={one},{two}&encounter.class=IMP&code=A": {"c"},
    "Observation?patient={one}&performer:Practitioner.name=osei": {"a"},
    "Observation?patient={one}&performer.name=river": {"b"},
    "Observation?patient={one}&performer.name:exact=osei": set(),
    "Observation?patient={one},{two}&encounter.patient={two}": {"c"},
    "DiagnosticReport?patient.birthdate=1984": set(),
    "Patient?_has:Observation:patient:code=A": {"one", "two"},
    "Patient?_has:Observation:subject:code=urn:c|D": {"three"},
    "Patient?_has:Observation:patient:code=A&_has:Observation:patient:code=B": {"one"},
    "Patient?_has:Observation:patient:encounter={stay}": {"two"},
    "Patient?_has:Observation:patient:code:missing=true": set(),
    "Patient?_has:Encounter:patient:status=finished&family=o": {"one"},
    "Encounter?patient={one},{two}&_has:Observation:encounter:code=A": {"visit", "stay"},
    "Practitioner?_has:Observation:performer:patient={one}": {"doctor"},
    "Practitioner?_has:Observation:performer:patient={two}": set(),
    "Organization?_has:Observation:performer:code=B": {"org"},
}


@pytest.mark.parametrize("path", FOUND)
def test_chains(kept: Kept, base: str, path: str) -> None:
    """N-240, N-241: each finds what the search of the other type leads to, after merges too, and no other tenant's."""
    assert found(kept, path, base) == FOUND[path]


def test_pages_of_chains(kept: Kept, base: str) -> None:
    """N-240: they go with pages, orders, includes and forms."""
    service, ids = kept
    path = f"{base}/Observation?patient.identifier={MRN}|one&_count=1&_sort=-code&_include=Observation:patient"
    bundle = service.ask("GET", path).json()
    assert [entry["resource"]["id"] for entry in bundle["entry"]] == [ids["b"], ids["one"]]
    bundle = service.ask("GET", bundle["link"][1]["url"].removeprefix(service.url)).json()
    assert [entry["resource"]["id"] for entry in bundle["entry"]] == [ids["a"], ids["one"]]
    form = {"content-type": "application/x-www-form-urlencoded"}
    text = "_has%3AObservation%3Apatient%3Acode=A"
    bundle = service.ask("POST", f"{base}/Patient/_search", content=text, headers=form).json()
    assert [entry["resource"]["id"] for entry in bundle["entry"]] == [ids["one"], ids["two"]]
    walked = []
    path = f"{base}/Patient?_has:Observation:patient:code=A&_paging=cursor&_count=1"
    while path:
        bundle = service.ask("GET", path).json()
        walked += [entry["resource"]["id"] for entry in bundle["entry"]]
        path = next((one["url"] for one in bundle["link"] if one["relation"] == "next"), "").removeprefix(service.url)
    assert walked == [ids["one"], ids["two"]]


REFUSED = [
    ("Observation?patient.birthdate=1984", "required"),
    ("Observation?encounter.identifier=x", "required"),
    ("Observation?patient.identifier:missing=true", "required"),
    ("Observation?_has:Provenance:target:_id=x", "required"),
    ("Observation?patient={one}&code.text=x", "not-supported"),
    ("Observation?patient={one}&foo.name=x", "not-supported"),
    ("Observation?patient={one}&patient.foo=x", "not-supported"),
    ("Observation?patient={one}&subject:Device.name=x", "not-supported"),
    ("Observation?patient={one}&patient.organization.name=x", "not-supported"),
    ("Observation?patient={one}&patient._has:Observation:patient:code=x", "not-supported"),
    ("Observation?patient={one}&patient.name=a&patient.name=b", "invalid"),
    ("Observation?patient={one}&patient.name=", "invalid"),
    ("Patient?_has:Observation:patient=x", "not-supported"),
    ("Patient?_has:Nonsense:patient:code=x", "not-supported"),
    ("Patient?_has:Observation:code:code=x", "not-supported"),
    ("Patient?_has:Observation:patient:foo=x", "not-supported"),
    ("Patient?_has:Observation:patient:encounter.status=x", "not-supported"),
    ("Patient?_has:Observation:patient:_has:Provenance:target:_id=x", "not-supported"),
    ("Patient?_has=x", "not-supported"),
]


@pytest.mark.parametrize(("path", "code"), REFUSED)
def test_refused_chains(kept: Kept, base: str, path: str, code: str) -> None:
    """N-242: one link and no more; what does not name patients limits no clinical search."""
    service, ids = kept
    issue(service.ask("GET", f"{base}/{path.format(**ids)}"), 400, code)
    lenient = {"prefer": "handling=lenient"}
    known = service.ask("GET", f"{base}/Patient?foo.bar=1&_has:Observation:patient:code=B", headers=lenient).json()
    assert known["total"] == 1


RIGHTS = [
    ("Observation?patient.identifier=x", "user/Observation.read", "user/Patient.read"),
    ("Patient?_has:Observation:patient:code=A", "user/Patient.read", "user/Observation.read"),
    ("Encounter?patient={one}&_has:Observation:encounter:code=A", "user/Encounter.read", "observation.read"),
    ("Observation?patient={one}&performer:Practitioner.name=a", "user/Observation.read", "user/Practitioner.read"),
]


@pytest.mark.parametrize(("path", "own", "other"), RIGHTS)
def test_what_the_token_may_not_search(kept: Kept, base: str, path: str, own: str, other: str) -> None:
    """N-243: without a scope for the other type a search by it is 403: its answer would tell of that."""
    service, ids = kept
    address = f"{service.url}{base}/{path.format(**ids)}"
    answer = service.http.get(address, headers={"authorization": f"Bearer {scoped(service, own)}"})
    issue(answer, 403, "forbidden")
    both = {"authorization": f"Bearer {scoped(service, f'{own} {other}')}"}
    assert service.http.get(address, headers=both).status_code == 200
    if "_has" in path:
        issue(
            service.ask("GET", f"{base}/Patient?_has:Observation:patient:code=A", client="administrative"),
            403,
            "forbidden",
        )


LINKS = sorted(
    (name, parameter.name, target)
    for name in ("Observation", "Encounter", "PractitionerRole", "Provenance", "Patient")
    for parameter in KEPT[name].parameters
    for target in parameter.targets
)
SCOPES = [f"user/{name}.read" for name in ("Observation", "Encounter", "Practitioner", "Organization", "Provenance")]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_chain_finds_what_may_be_read(kept: Kept, data: st.DataObject) -> None:
    """N-243: with any scopes a chain or `_has` finds a part of what the plain search finds, or is refused."""
    service, ids = kept
    source, link, target = data.draw(st.sampled_from(LINKS))
    forward, base = data.draw(st.booleans()), data.draw(st.sampled_from(["/fhir/R4", "/fhir"]))
    searched, asked = (source, target) if forward else (target, source)
    called = {one: name_in(version_of(base), one) for one in (source, target)}
    name = f"{link}:{called[target]}._id" if forward else f"_has:{called[source]}:{link}:_id"
    held = sorted({f"user/{searched}.read", *data.draw(st.lists(st.sampled_from(SCOPES), max_size=4))})
    headers = {"authorization": f"Bearer {scoped(service, ' '.join(held))}"}
    everything = f"{service.url}{base}/{called[searched]}?_id={','.join(ids.values())}"
    answer = service.http.get(f"{everything}&{name}={','.join(ids.values())}", headers=headers)
    if base == "/fhir" and answer.status_code == 400:
        # R4 has parameters that STU3 does not know.
        return
    if f"user/{asked}.read" not in held:
        issue(answer, 403, "forbidden")
        return
    listed = {one["resource"]["id"] for one in service.http.get(everything, headers=headers).json()["entry"]}
    chained = {one["resource"]["id"] for one in answer.json()["entry"]}
    other_path = f"{service.url}{base}/{called[asked]}?_id={','.join(ids.values())}"
    others = service.http.get(other_path, headers=headers).json()
    expected = set()
    for one in listed:
        for other in (entry["resource"]["id"] for entry in others["entry"]):
            holder, held_id = (one, other) if forward else (other, one)
            query = f"_id={holder}&{link}={called[target]}/{held_id}"
            if service.ask("GET", f"{base}/{called[source]}?{query}").json()["total"]:
                expected.add(one)
    assert chained == expected
