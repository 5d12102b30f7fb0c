"""Search of organizations (points T)."""

from typing import Any

import pytest

from tests.interchange.kit import SYSTEM, Running, issue, running

ORDERING = f"{SYSTEM}/fhir/StructureDefinition/organization-orderingEnabled"
TYPES = "http://terminology.hl7.org/CodeSystem/organization-type"

# In order of creation; `partOf` names one before.
ORGANIZATIONS: dict[str, dict[str, Any]] = {
    "riverbend": {
        "name": "Riverbend Medical Group",
        "type": [{"coding": [{"system": TYPES, "code": "prov"}]}],
        "address": [{"city": "Keswick", "state": "OR", "postalCode": "97301-1234"}],
        "identifier": [{"system": "urn:npi", "value": "1659999990"}],
    },
    "river lab": {
        "name": "River Lab",
        "type": [{"coding": [{"system": "urn:other", "code": "prov"}]}],
        "address": [{"city": "Salem", "state": "OR", "postalCode": "97302"}, {"city": "Kent", "state": "WA"}],
        "extension": [{"url": ORDERING, "valueBoolean": True}],
        "partOf": "riverbend",
    },
    "pine": {
        "name": "Pine Ridge Hospital",
        "alias": ["Riverside Clinic", "PRH"],
        "extension": [{"url": ORDERING, "valueBoolean": False}],
        "meta": {"tag": [{"system": "urn:t", "code": "partner"}]},
    },
    "plain": {"name": "Old River House", "extension": [{"url": "urn:orderingEnabled", "valueBoolean": True}]},
}


@pytest.fixture(scope="module")
def organizations(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service with four organizations, another tenant's beside them, and their ids by name."""
    with running(tmp_path_factory.mktemp("organizations")) as service:
        ids: dict[str, str] = {}
        for name, elements in ORGANIZATIONS.items():
            made = {"resourceType": "Organization", **elements}
            if "partOf" in made:
                made["partOf"] = {"reference": f"Organization/{ids[made['partOf']]}"}
            answer = service.ask("POST", "/fhir/R4/Organization", json=made)
            assert answer.status_code == 201, answer.text
            ids[name] = answer.json()["id"]
        theirs = {"resourceType": "Organization", "name": "Riverbend Medical Group"}
        assert service.ask("POST", "/fhir/R4/Organization", json=theirs, client="other").status_code == 201
        yield service, ids


EVERY = set(ORGANIZATIONS)

SEARCHES = [
    pytest.param("", EVERY, id="no criterion"),
    pytest.param("name=river", {"riverbend", "river lab", "pine"}, id="C-440 start of name or alias"),
    pytest.param("name=RIVERBEND%20m", {"riverbend"}, id="C-440 without case"),
    pytest.param("name=house", set(), id="C-440 only the start"),
    pytest.param("name:contains=river", EVERY, id="C-440 contains"),
    pytest.param("name:exact=River%20Lab", {"river lab"}, id="C-440 exact"),
    pytest.param("name:exact=PRH", {"pine"}, id="C-440 exact alias"),
    pytest.param("type=prov", {"riverbend", "river lab"}, id="C-440 type"),
    pytest.param(f"type={TYPES}|prov", {"riverbend"}, id="C-440 type with its system"),
    pytest.param("type:missing=true", {"pine", "plain"}, id="C-440 no type"),
    pytest.param("address-state=or", {"riverbend", "river lab"}, id="C-441 state"),
    pytest.param("address-state=WA", {"river lab"}, id="C-441 second address"),
    pytest.param("address-city=Kes", {"riverbend"}, id="C-441 city"),
    pytest.param("address-postalcode=9730", {"riverbend", "river lab"}, id="C-441 postal code"),
    pytest.param("address-postalcode=97302&address-state=WA", {"river lab"}, id="C-441 both"),
    pytest.param("ordering-enabled=true", {"river lab"}, id="C-442"),
    pytest.param("ordering-enabled=false", {"riverbend", "pine", "plain"}, id="C-442 false or not said"),
    pytest.param("ordering-enabled=true,false", EVERY, id="C-442 either"),
    pytest.param("partof={riverbend}", {"river lab"}, id="partof id"),
    pytest.param("partof=Organization/{riverbend}", {"river lab"}, id="partof reference"),
    pytest.param("partof={url}/fhir/Organization/{riverbend}", {"river lab"}, id="partof absolute"),
    pytest.param("partof=unknown", set(), id="partof unknown"),
    pytest.param("identifier=urn:npi|1659999990", {"riverbend"}, id="identifier"),
    pytest.param("identifier=1659999990&name=river", {"riverbend"}, id="identifier and name"),
    pytest.param("_tag=partner", {"pine"}, id="_tag"),
    pytest.param("_id={pine},{plain}", {"pine", "plain"}, id="_id"),
    pytest.param("_lastUpdated=gt2999", set(), id="_lastUpdated"),
]


@pytest.mark.parametrize(("query", "expected"), SEARCHES)
def test_search(organizations: tuple[Running, dict[str, str]], base: str, query: str, expected: set[str]) -> None:
    """Each search finds exactly the organizations that it names, on both bases, and none of another tenant."""
    service, ids = organizations
    answer = service.ask("GET", f"{base}/Organization?{query.format(**ids, url=service.url)}")
    assert answer.status_code == 200, answer.text
    names = {value: name for name, value in ids.items()}
    assert {names[entry["resource"]["id"]] for entry in answer.json()["entry"]} == expected
    assert answer.json()["total"] == len(expected)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("near=45.5|-122.6|10|km", "not-supported", id="C-444"),
        pytest.param("near-distance=10", "not-supported", id="C-444 distance"),
        pytest.param("ordering-enabled=yes", "invalid", id="neither true nor false"),
        pytest.param("near=Kent", "not-supported", id="a parameter that is not listed"),
        pytest.param("name=a&name=b", "invalid", id="name twice"),
        pytest.param("type:not=prov", "not-supported", id="modifier of a code"),
        pytest.param("partof:missing=x", "invalid", id="missing what"),
        pytest.param("name=%20", "invalid", id="a blank name"),
        pytest.param("name:contains=%CC%81", "invalid", id="an accent alone"),
    ],
)
def test_refused_searches(organizations: tuple[Running, dict[str, str]], base: str, query: str, code: str) -> None:
    """What a search cannot mean is 400 and never silently ignored."""
    issue(organizations[0].ask("GET", f"{base}/Organization?{query}"), 400, code)
