"""What each role sees at the chart pages: the search, demographics, clinical records, and orders."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.clock import now
from engine.config.laboratory import Laboratory
from engine.config.service import Tenant
from engine.interchange.orders.compendium.files.read import load_file
from engine.interchange.orders.compendium.load import load
from tests.interchange.chart import put
from tests.interchange.kit import SYSTEM, Inside, merge_body, record_number
from tests.interchange.viewer.people import Person, pages, register, viewer
from tests.interchange.viewer.test_ordering import LAB, SAMPLE

CLINICAL = ("results", "visits", "documents", "orders")
ROLES = {
    "dr.osei": True,
    "nurse.lind": True,
    "clerk": False,
    "robot": True,
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """A service with a laboratory, whose chart pages a person of each role may open."""
    with pages(tmp_path_factory.mktemp("rights")) as found:
        load(found.app.service.configuration, found.database, "riverbend", load_file(SAMPLE), now, lambda *_: None)
        yield found


def somebody(site: Inside, number: str) -> str:
    """Keep a patient with an address, an allergy and a visit; return the id."""
    patient: str = site.create(
        name=[{"family": "Desk", "given": ["Dana"]}],
        birthDate="1971-05-06",
        identifier=[record_number(number)],
        telecom=[{"system": "phone", "value": "555-0147"}],
    )["id"]
    put(site, "AllergyIntolerance", patient, code={"text": "Penicillin"})
    put(site, "Encounter", patient, reasonCode=[{"text": "Overdose"}])
    return patient


@pytest.mark.parametrize(("login", "clinical"), ROLES.items())
def test_each_role(site: Inside, login: str, clinical: bool) -> None:
    """Every role searches and reads demographics; the administrative role sees nothing clinical, nor a way to it."""
    patient = somebody(site, f"desk-{login}")
    person = Person(site, login)
    for fields in ({"name": "desk"}, {"birthdate": "1971-05-06"}, {"identifier": f"desk-{login}"}):
        assert f'href="/chart/patients/{patient}"' in person.send("/chart", **fields).text, fields
    chart = person.open(f"/chart/patients/{patient}")
    assert chart.status_code == 200
    for part in ("Dana Desk", "1971-05-06", f"desk-{login}", "555-0147"):
        assert part in chart.text, part
    assert ("Penicillin" in chart.text) == clinical
    assert ("no clinical records" in chart.text) == (not clinical)
    for path in CLINICAL:
        address = f"/chart/patients/{patient}/{path}"
        assert (f'href="{address}"' in chart.text) == clinical, path
        answer = person.open(address)
        assert (answer.status_code, "Overdose" in answer.text) == (
            (200, path == "visits") if clinical else (403, False)
        ), path


def test_a_clerk_reads_no_clinical_record_by_its_address(site: Inside) -> None:
    """A document, its content, and a new order are refused to the administrative role too."""
    patient = somebody(site, "desk-addresses")
    document = put(site, "DocumentReference", patient).partition("/")[2]
    clerk = Person(site, "clerk")
    for path in (f"documents/{document}", f"documents/{document}/content/0", "orders/new", f"orders/new/{LAB}"):
        assert clerk.open(f"/chart/patients/{patient}/{path}").status_code == 403, path


@pytest.mark.parametrize(("login", "offered"), [("dr.osei", True), ("nurse.lind", True), ("clerk", False)])
def test_an_order_is_offered_to_whom_may_place_one(site: Inside, login: str, offered: bool) -> None:
    """Physicians and nurses; not the administrative role."""
    patient = somebody(site, f"order-{login}")
    text = Person(site, login).open(f"/chart/patients/{patient}/orders").text
    assert (f'href="/chart/patients/{patient}/orders/new"' in text) == offered


def test_an_order_is_not_offered_by_an_application_that_reads(site: Inside) -> None:
    """Scopes without a right to write: orders are shown, none is offered, and the form's address is refused."""
    before = site.app.service.configuration
    register(site, chart=viewer(site, "riverbend", scopes=("user/*.read",)))
    patient = somebody(site, "order-reader")
    person = Person(site)
    answer = person.open(f"/chart/patients/{patient}/orders")
    assert (answer.status_code, "orders/new" in answer.text) == (200, False)
    assert person.open(f"/chart/patients/{patient}/orders/new").status_code == 403
    site.app.service.configuration = before


def test_a_merged_record_takes_no_order(site: Inside) -> None:
    """The chart that it was merged into does: the address of the form says so."""
    source, target = somebody(site, "order-source"), somebody(site, "order-target")
    site.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(source, target))
    person = Person(site)
    assert "orders/new" not in person.open(f"/chart/patients/{source}/orders").text
    refused = person.open(f"/chart/patients/{source}/orders/new/{LAB}")
    assert (refused.status_code, "was merged" in refused.text) == (409, True)


def test_laboratories_that_take_no_orders(site: Inside) -> None:
    """One without a test on offer is not offered, and neither is an address that names it or nobody."""
    enabled = {"url": f"{SYSTEM}/fhir/StructureDefinition/organization-orderingEnabled", "valueBoolean": True}
    empty = put(site, "Organization", name="Empty Laboratory", extension=[enabled]).partition("/")[2]
    patient = somebody(site, "order-empty")
    person = Person(site)
    offered = person.open(f"/chart/patients/{patient}/orders/new").text
    assert ("Cedar Valley" in offered, "Empty Laboratory" in offered) == (True, False)
    for laboratory in (empty, "nobody"):
        assert person.open(f"/chart/patients/{patient}/orders/new/{laboratory}").status_code == 404


def test_a_laboratory_that_is_not_connected(tmp_path: Path) -> None:
    """In production, where no connector leads to the laboratory, no order is offered; where one does, it is."""
    with pages(tmp_path) as site:
        load(site.app.service.configuration, site.database, "riverbend", load_file(SAMPLE), now, lambda *_: None)
        patient = site.create()["id"]
        person = Person(site)
        address = f"/chart/patients/{patient}/orders"
        service = site.app.service
        before = service.configuration
        connected = Tenant(laboratories={LAB: Laboratory(connector={"type": "directory", "folder": str(tmp_path)})})
        for tenant, offered in ((Tenant(), False), (connected, True)):
            changes = {"environment": "production", "tenants": {**before.tenants, "riverbend": tenant}}
            service.configuration = before.model_copy(update=changes)
            assert ("orders/new" in person.open(address).text) == offered
