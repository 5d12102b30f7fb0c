"""FHIR clients that others wrote work against the service unchanged: fhirpy (R4, asynchronous too)."""

from collections.abc import Iterator
from typing import Any

import pytest
from fhirpy import AsyncFHIRClient, SyncFHIRClient
from fhirpy.base.exceptions import ForbiddenError, MultipleResourcesFound, OperationOutcome, ResourceNotFound

from tests.interchange.kit import MRN, Running, patient, record_number, running

PEOPLE = 45


@pytest.fixture(scope="module")
def populated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with 45 patients of one family."""
    with running(tmp_path_factory.mktemp("clients")) as service:
        for number in range(PEOPLE):
            given = f"Given{number:02d}"
            service.create(name=[{"family": "Fhirpy", "given": [given]}], identifier=[record_number(f"FP-{number}")])
        yield service


def connect(service: Running, client: str = "physician", **headers: str) -> SyncFHIRClient:
    """Return a fhirpy client with a token of an account."""
    url = f"{service.url}/fhir/R4"
    return SyncFHIRClient(url, authorization=f"Bearer {service.token(client)}", extra_headers=headers or None)


def test_create_read_and_update(populated: Running) -> None:
    """fhirpy creates, reads, updates and sees the next version."""
    client = connect(populated)
    made = client.resource("Patient", **patient(name=[{"family": "Created", "given": ["By"]}]))
    made.save()
    assert made["meta"]["versionId"] == "1"
    made["birthDate"] = "1985-01-01"
    made.save()
    read = client.reference("Patient", made.id).to_resource()
    assert (read["birthDate"], read["meta"]["versionId"]) == ("1985-01-01", "2")
    assert read.refresh()["id"] == made.id


def test_search_and_page(populated: Running) -> None:
    """fhirpy searches, counts, and walks every page by its next link, by offset and by cursor."""
    found = connect(populated).resources("Patient").search(family="Fhirpy")
    assert found.count() == PEOPLE
    assert len({one.id for one in found.limit(10).fetch_all()}) == PEOPLE
    assert len({one.id for one in found.limit(7).search(_paging="cursor").fetch_all()}) == PEOPLE
    assert found.search(given="Given07").get()["identifier"][0]["value"] == "FP-7"
    assert found.search(identifier=f"{MRN}|FP-8").first()["name"][0]["given"] == ["Given08"]


async def test_asynchronously(populated: Running) -> None:
    """fhirpy's asynchronous client pages and reads alike."""
    client = AsyncFHIRClient(f"{populated.url}/fhir/R4", authorization=f"Bearer {populated.token('physician')}")
    found = await client.resources("Patient").search(family="Fhirpy").limit(20).fetch_all()
    assert len({one.id for one in found}) == PEOPLE
    assert (await client.reference("Patient", found[0].id).to_resource())["name"][0]["family"] == "Fhirpy"


def test_conditional_create(populated: Running) -> None:
    """fhirpy's get_or_create makes one patient and then finds it; If-None-Exist does alike, and tells several apart."""
    client = connect(populated)
    person = patient(name=[{"family": "Once", "given": ["Only"]}], birthDate="1990-01-01")
    searched = client.resources("Patient").search(family="Once", given="Only", birthdate="1990-01-01")
    first, created = searched.get_or_create(client.resource("Patient", **person))
    second, again = searched.get_or_create(client.resource("Patient", **person))
    assert (created, again, first.id) == (True, False, second.id)
    careful = connect(populated, **{"If-None-Exist": "family=Once&given=Only"})
    assert careful.resource("Patient", **person).save()["id"] == first.id
    several = connect(populated, **{"If-None-Exist": "family=Fhirpy"})
    with pytest.raises(MultipleResourcesFound):
        several.resource("Patient", **person).save()


def test_stale_if_match(populated: Running) -> None:
    """An update with the version before last is refused (412, which fhirpy calls by another name)."""
    made = connect(populated).resource("Patient", **patient(name=[{"family": "Stale", "given": ["Very"]}])).save()
    connect(populated, **{"If-Match": 'W/"1"'}).resource("Patient", **made).save()
    with pytest.raises(MultipleResourcesFound, match="not version 1"):
        connect(populated, **{"If-Match": 'W/"1"'}).resource("Patient", **made).save()


def test_refusals(populated: Running) -> None:
    """Refusals reach fhirpy's user as its own errors, with the service's OperationOutcome."""
    client = connect(populated)
    with pytest.raises(ResourceNotFound):
        client.reference("Patient", "nobody").to_resource()
    with pytest.raises(ForbiddenError):
        connect(populated, "read").resource("Patient", **patient()).save()
    with pytest.raises(OperationOutcome) as refused:
        client.resource("Patient", **patient(birthDate=None)).save()
    assert refused.value.resource["issue"][0]["location"] == ["Patient.birthDate"]


def test_everything(populated: Running) -> None:
    """fhirpy runs $everything and follows its pages as it does those of a search."""
    client = connect(populated)
    owner = client.resource("Patient", **patient(name=[{"family": "Chart", "given": ["Of"]}])).save()
    for number in range(5):
        measured: dict[str, Any] = {"status": "final", "code": {"text": str(number)}, "subject": owner.to_reference()}
        client.resource("Observation", **measured).save()
    page = client.execute(f"Patient/{owner.id}/$everything", "get", params={"_count": 4})
    assert page["total"] == 6
    following = next(link["url"] for link in page["link"] if link["relation"] == "next")
    rest = client.execute(following, "get")
    types = [entry["resource"]["resourceType"] for entry in (*page["entry"], *rest["entry"])]
    assert types == ["Patient", *["Observation"] * 5]
