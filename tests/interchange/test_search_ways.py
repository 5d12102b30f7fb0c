"""Search by POST, and within the compartment of a patient."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from engine.interchange.rest.resource.catalogue import KEPT
from tests.interchange.kit import Inside, Running, issue, record_number
from tests.interchange.least import least, version_of

FORM = {"content-type": "application/x-www-form-urlencoded"}


def post(service: Running, path: str, form: str, **more: Any) -> Any:
    """Return the answer to a search by POST."""
    return service.ask("POST", path, content=form, headers=FORM, **more)


def ids(bundle: Any) -> list[str]:
    """Return the ids of what a Bundle lists."""
    return [entry["resource"]["id"] for entry in bundle["entry"]]


def link(bundle: Any, relation: str) -> str:
    """Return the address of a relation of a Bundle, '' for none."""
    return next((one["url"] for one in bundle["link"] if one["relation"] == relation), "")


@pytest.fixture
def family(service: Running) -> list[str]:
    """Three patients of a family name that nobody else has."""
    name = f"N210 {service.create()['id']}"
    made = [
        service.create(name=[{"family": name, "given": [str(n)]}], identifier=[record_number(f"{name} {n}")])["id"]
        for n in range(3)
    ]
    return [name, *made]


def test_a_form_is_answered_as_an_address(service: Running, base: str, family: list[str]) -> None:
    """N-210: the same parameters find the same, in the body, in the address, or shared among the two."""
    name, *made = family
    asked = service.ask("GET", f"{base}/Patient?family={name}&given=1,2").json()
    for path, form in (
        ("", f"family={name}&given=1%2C2"),
        (f"?family={name}", "given=1,2"),
        (f"?family={name}&given=1,2", ""),
    ):
        told = post(service, f"{base}/Patient/_search{path}", form).json()
        assert (ids(told), told["total"], told["link"]) == (made[1:], 2, asked["link"])
        assert told["entry"] == asked["entry"]


@pytest.mark.parametrize(
    ("form", "code"),
    [("family=a&family=b", "invalid"), ("foo=1", "not-supported"), ("family=%ff", "invalid"), ("a=%00", "invalid")],
)
def test_refused_forms(service: Running, base: str, form: str, code: str) -> None:
    """N-210: a form has the rules of an address; what stands in both is given twice."""
    issue(post(service, f"{base}/Patient/_search", form), 400, code)
    issue(post(service, f"{base}/Patient/_search?family=a", "family=b"), 400, "invalid")
    issue(post(service, f"{base}/Patient/_search", "family=\u00e4".encode()), 400, "invalid")


def test_what_is_no_form(service: Running, base: str) -> None:
    """N-210: a search by POST takes a form and nothing else, and no other method."""
    issue(service.ask("POST", f"{base}/Patient/_search", json={}), 415, "not-supported")
    issue(service.ask("GET", f"{base}/Patient/_search"), 405, "not-supported")
    issue(post(service, f"{base}/Patient/x/_search", ""), 404, "not-supported")
    issue(post(service, f"{base}/Patient", "family=a"), 415, "not-supported")


@pytest.mark.parametrize("paging", ["", "&_paging=cursor"])
def test_the_next_link_holds_nothing_of_the_search(service: Running, base: str, family: list[str], paging: str) -> None:
    """N-211: pages of a search by POST are linked by a sealed continuation alone, and miss and repeat nothing."""
    name, *made = family
    bundle = post(service, f"{base}/Patient/_search", f"family={name}&_count=1&_format=json{paging}").json()
    seen = ids(bundle)
    while following := link(bundle, "next"):
        assert [key for key, _ in parse_qsl(urlsplit(following).query)] == ["_page"]
        assert urlsplit(following).path == f"{base}/Patient"
        assert name.split()[1] not in following
        again = service.ask("GET", following.removeprefix(service.url)).json()
        bundle = service.ask("GET", following.removeprefix(service.url)).json()
        assert (bundle["total"], ids(again)) == (3, ids(bundle))
        seen += ids(bundle)
    assert seen == made


def test_continuations_are_sealed(inside: Inside, base: str) -> None:
    """N-211: one that was changed, belongs to another type or tenant, or has company is 400; an old one is 410."""
    for _ in range(2):
        inside.create()
    following = link(post(inside, f"{base}/Patient/_search", "_count=1").json(), "next").removeprefix(inside.url)
    assert len(ids(inside.ask("GET", following).json())) == 1
    for path in (f"{following}A", following.replace("Patient?", "Organization?"), f"{following}&_count=2"):
        issue(inside.ask("GET", path), 400, "invalid")
    issue(inside.ask("GET", following, client="other"), 400, "invalid")
    issue(inside.ask("GET", following, client="observation"), 403, "forbidden")
    inside.advance(301)
    issue(inside.ask("GET", following), 410, "not-found")


COMPARTMENT = sorted(name for name in KEPT if any(parameter.name == "patient" for parameter in KEPT[name].parameters))


@pytest.mark.parametrize("type_name", COMPARTMENT)
def test_a_compartment(service: Running, base: str, type_name: str) -> None:
    """N-212: what is in the compartment of a patient is what `patient` finds, page by page."""
    version = version_of(base)
    patient_id, other_id = service.create()["id"], service.create()["id"]
    made = []
    for holder in (patient_id, other_id, patient_id):
        body = least(type_name, holder, version)
        name = body["resourceType"]
        made.append(service.ask("POST", f"{base}/{name}", json=body).json()["id"])
    bundle = service.ask("GET", f"{base}/Patient/{patient_id}/{name}?_count=1").json()
    assert (ids(bundle), bundle["total"]) == ([made[0]], 2)
    assert bundle["entry"][0]["fullUrl"] == f"{service.url}{base}/{name}/{made[0]}"
    assert link(bundle, "self") == f"{service.url}{base}/Patient/{patient_id}/{name}?_count=1"
    assert ids(service.ask("GET", link(bundle, "next").removeprefix(service.url)).json()) == [made[2]]
    assert ids(service.ask("GET", f"{base}/Patient/{patient_id}/{name}?_id={made[1]}").json()) == []


def test_a_compartment_has_its_rules(service: Running, base: str) -> None:
    """N-212: what has no patient is in no compartment; nobody's is empty; the token's rights are those of the type."""
    made = service.create()
    place = f"{base}/Patient/{made['id']}"
    for type_name in ("Organization", "Patient", "Nonsense", "*"):
        issue(service.ask("GET", f"{place}/{type_name}"), 404, "not-supported")
    issue(service.ask("POST", f"{place}/Observation", json={}), 405, "not-supported")
    issue(service.ask("GET", f"{place}/Observation?patient={made['id']}"), 400, "invalid")
    issue(service.ask("GET", f"{base}/Patient/a%20b/Observation"), 404, "not-found")
    assert service.ask("GET", f"{base}/Patient/none/Observation").json()["total"] == 0
    issue(service.ask("GET", f"{place}/Observation", client="administrative"), 403, "forbidden")
    issue(service.ask("GET", f"{place}/Condition", client="observation"), 403, "forbidden")
    assert service.ask("GET", f"{place}/Observation", client="observation").status_code == 200
    rest = service.http.get(f"{service.url}{base}/metadata").json()["rest"][0]
    assert rest["compartment"] == ["http://hl7.org/fhir/CompartmentDefinition/patient"]
