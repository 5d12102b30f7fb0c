"""The doubles of servers: each quirk shows where its switch is set, and only there."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from tests.deliver.fake_fhir import FakeFhir
from tests.destinations.aidbox_like import AidboxLike
from tests.destinations.azure_like import AzureLike
from tests.destinations.blaze_like import BlazeLike
from tests.destinations.firely_like import FirelyLike
from tests.destinations.google_like import GoogleLike
from tests.destinations.healthlake_like import CONSISTENCY, KEY, HealthLakeLike
from tests.destinations.medplum_like import MedplumLike

SYSTEM = "https://mrn.riverbend.example"
NUMBER = f"identifier={SYSTEM}|1"
KIM = {"resourceType": "Patient", "identifier": [{"system": SYSTEM, "value": "1"}]}
UUID_1 = str(UUID(int=1))


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client of ours."""
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
async def double(request: pytest.FixtureRequest) -> AsyncIterator[FakeFhir]:
    """The double that the test names."""
    server = request.param()
    await server.start()
    yield server
    await server.stop()


def of(kind: type[FakeFhir]) -> pytest.MarkDecorator:
    """Give a test one kind of double."""
    return pytest.mark.parametrize("double", [kind], indirect=True, ids=[kind.__name__])


async def ask(
    session: aiohttp.ClientSession, server: FakeFhir, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    """Return status and JSON of an answer, None without a body."""
    url = f"{server.base}/{path}".removesuffix("/")
    async with session.request(method, url, json=body, headers=headers) as answer:
        text = await answer.read()
        return answer.status, await answer.json(content_type=None) if text else None


def bundle(*patients: str) -> dict[str, Any]:
    """Return a transaction that creates a visit of each patient."""
    entries = [
        {
            "fullUrl": f"urn:uuid:{UUID(int=at)}",
            "resource": {
                "resourceType": "Encounter",
                "subject": {"reference": patient},
                "identifier": [{"system": SYSTEM, "value": f"V{at}"}],
            },
            "request": {"method": "POST", "url": "Encounter", "ifNoneExist": f"identifier={SYSTEM}|V{at}"},
        }
        for at, patient in enumerate(patients)
    ]
    return {"resourceType": "Bundle", "type": "transaction", "entry": entries}


@of(HealthLakeLike)
@pytest.mark.parametrize("shown", [True, False], ids=["body", "location"])
async def test_a_repeated_key_creates_nothing(double, session, shown):
    """The second create with a key is answered 409 with the original; another key creates another record."""
    double.shows_original = shown
    first = await ask(session, double, "POST", "Patient", KIM, **{KEY: UUID_1})
    again = await ask(session, double, "POST", "Patient", KIM, **{KEY: UUID_1})
    other = await ask(session, double, "POST", "Patient", KIM, **{KEY: str(UUID(int=2))})
    wrong = await ask(session, double, "POST", "Patient", KIM, **{KEY: "1"})
    assert [status for status, _ in (first, again, other, wrong)] == [201, 409, 201, 400]
    assert (again[1]["resourceType"] == "Patient", len(double.patients), double.repeats) == (shown, 2, 1)


@of(HealthLakeLike)
async def test_a_search_is_behind_unless_asked_to_be_strong(double, session):
    """A new record is found with the header at once, without it once the index has it."""
    await ask(session, double, "POST", "Patient", KIM)

    async def found(**headers: str) -> int:
        _, body = await ask(session, double, "GET", f"Patient?{NUMBER}", **headers)
        return len(body["entry"])

    assert [await found(), await found(**{CONSISTENCY: "strong"})] == [0, 1]
    double.index()
    assert await found() == 1


@pytest.mark.parametrize("double", [AzureLike, FirelyLike, MedplumLike], indirect=True)
async def test_conditional_creates_race(double, session):
    """Two at once create two; a third one finds both."""
    double.race(2)
    create = (ask(session, double, "POST", "Patient", KIM, **{"If-None-Exist": NUMBER}) for _ in range(2))
    assert [status for status, _ in await asyncio.gather(*create)] == [201, 201]
    status, _ = await ask(session, double, "POST", "Patient", KIM, **{"If-None-Exist": NUMBER})
    assert (status, len(double.patients)) == (412, 2)


@of(AzureLike)
async def test_a_match_is_a_bare_200_and_a_conditional_update_ignores_versions(double, session):
    """Neither body nor Location says what matched; If-Match counts for an update by id only."""
    double.add("a", identifier=KIM["identifier"])
    assert await ask(session, double, "POST", "Patient", KIM, **{"If-None-Exist": NUMBER}) == (200, None)
    stale = {"If-Match": 'W/"9"'}
    assert (await ask(session, double, "PUT", f"Patient?{NUMBER}", KIM, **stale))[0] == 200
    assert (await ask(session, double, "PUT", "Patient/a", KIM, **stale))[0] == 412


@of(AzureLike)
async def test_a_bundle_has_at_most_500_entries(double, session):
    """The 501st entry refuses the whole bundle; a match in one that is taken is bare, too."""
    assert (await ask(session, double, "POST", "", bundle(*["Patient/a"] * 501)))[0] == 400
    assert (await ask(session, double, "POST", "", bundle("Patient/a")))[0] == 200
    _, again = await ask(session, double, "POST", "", bundle("Patient/a"))
    assert (again["entry"], len(double.chart)) == ([{"response": {"status": "200"}}], 1)


@of(GoogleLike)
async def test_conditions_are_by_identifier_only(double, session):
    """Another condition is refused, with an error that is no OperationOutcome."""
    status, body = await ask(session, double, "POST", "Patient", KIM, **{"If-None-Exist": "family=Kim"})
    assert (status, body["error"]["status"], double.patients) == (400, "INVALID_ARGUMENT", {})
    assert (await ask(session, double, "POST", "Patient", KIM, **{"If-None-Exist": NUMBER}))[0] == 201


@of(GoogleLike)
@pytest.mark.parametrize("status", [409, 429])
async def test_concurrent_bundles_of_one_patient_are_refused(double, session, status):
    """While one is under way another one about the same patient is refused, and one about somebody else is not."""
    double.refusal = status
    double.bundle_gate.clear()
    first = asyncio.create_task(ask(session, double, "POST", "", bundle("Patient/a")))
    await double.under_way.wait()
    second, body = await ask(session, double, "POST", "", bundle("Patient/a"))
    double.bundle_gate.set()
    assert (second, "error" in body, (await first)[0], double.refusals) == (status, True, 200, 1)
    assert (await ask(session, double, "POST", "", bundle("Patient/a", "Patient/b")))[0] == 200


@of(MedplumLike)
async def test_medplum_takes_few_entries_and_gives_no_tags(double, session):
    """The ninth entry beside a condition refuses an atomic transaction; without the feature each is done for itself."""
    status, taken = await ask(session, double, "POST", "", bundle(*["Patient/a"] * 8))
    assert (status, {"etag" in entry["response"] for entry in taken["entry"]}) == (200, {False})
    assert (await ask(session, double, "POST", "", bundle(*["Patient/a"] * 9)))[0] == 400
    one_fails = bundle(*["Patient/a"] * 9)
    one_fails["entry"][0]["resource"]["location"] = [{"location": {"reference": "Location/none"}}]
    double.chart.clear()
    double.atomic = False
    status, told = await ask(session, double, "POST", "", one_fails)
    assert [entry["response"]["status"][:3] for entry in told["entry"]] == ["422", *["201"] * 8]
    assert len(double.chart) == 8


@of(MedplumLike)
async def test_medplum_takes_no_ids_of_a_client(double, session):
    """An update of what is not there is refused, as its statement says."""
    _, statement = await ask(session, double, "GET", "metadata")
    assert statement["rest"][0]["resource"][0]["updateCreate"] is False
    assert (await ask(session, double, "PUT", "Patient/p-x", KIM | {"id": "p-x"}))[0] == 404


@of(AidboxLike)
async def test_aidbox_reads_the_condition_in_the_query(double, session):
    """If-None-Exist counts for nothing unless the switch says so, in a transaction neither."""
    condition = {"If-None-Exist": NUMBER}
    assert [(await ask(session, double, "POST", "Patient", KIM, **condition))[0] for _ in range(2)] == [201, 201]
    double.patients.popitem()
    assert (await ask(session, double, "POST", f"Patient?{NUMBER}", KIM))[0] == 200
    for _ in range(2):
        assert (await ask(session, double, "POST", "", bundle("Patient/a")))[0] == 200
    assert len(double.chart) == 2
    double.condition_in_query = False
    assert (await ask(session, double, "POST", "Patient", KIM, **condition))[0] == 200


@of(AidboxLike)
async def test_aidbox_signs_in_and_answers_at_its_base_alone(double, session):
    """Without the right name and secret 401; above the base nothing is FHIR."""
    double.credentials = ("engine", "secret")
    assert (await ask(session, double, "GET", "metadata"))[0] == 401
    right = {"Authorization": aiohttp.encode_basic_auth("engine", "secret")}
    assert (await ask(session, double, "GET", "metadata", **right))[0] == 200
    async with session.get(double.base.removesuffix("/fhir/R4") + "/Patient", headers=right) as answer:
        assert answer.status == 404


@of(AidboxLike)
async def test_aidbox_refuses_a_write_that_meets_another(double, session):
    """Each so-manieth write is answered 412 and does nothing; the same write is taken the next time."""
    double.collides_each = 2
    statuses = [(await ask(session, double, "PUT", "Patient/a", KIM | {"id": "a"}))[0] for _ in range(3)]
    assert (statuses, double.collisions, double.patients["a"]["meta"]["versionId"]) == ([201, 412, 200], 1, "2")


@of(FirelyLike)
async def test_firely_shows_pages_and_takes_150_entries(double, session):
    """Ten on a page, as many as are asked for up to 50, and a link to the next; a bundle of 151 is answered 413."""
    for number in range(60):
        double.add(f"p{number}", identifier=KIM["identifier"])
    pages = [(await ask(session, double, "GET", f"Patient?{NUMBER}{count}"))[1] for count in ("", "&_count=99")]
    assert [(len(page["entry"]), page["link"][0]["relation"]) for page in pages] == [(10, "next"), (50, "next")]
    assert "link" not in (await ask(session, double, "GET", "Patient?identifier=x|y"))[1]
    double.page = 0
    assert len((await ask(session, double, "GET", f"Patient?{NUMBER}"))[1]["entry"]) == 60
    assert (await ask(session, double, "POST", "", bundle(*["Patient/a"] * 151)))[0] == 413


@of(BlazeLike)
async def test_blaze_is_strict(double, session):
    """A version of what is not there is refused with 412; what changes nothing makes no version."""
    double.add("a", identifier=KIM["identifier"])
    body = double.patients["a"] | {"gender": "male"}
    for path, tag in (("Patient/b", 'W/"1"'), ("Patient/a", 'W/"0"')):
        assert (await ask(session, double, "PUT", path, body, **{"If-Match": tag}))[0] == 412
    versions = [(await ask(session, double, "PUT", "Patient/a", body))[1]["meta"]["versionId"] for _ in range(2)]
    assert versions == ["2", "2"]
    double.strict = double.keeps_equal = False
    assert (await ask(session, double, "PUT", "Patient/b", body, **{"If-Match": 'W/"1"'}))[0] == 201
    assert (await ask(session, double, "PUT", "Patient/a", body))[1]["meta"]["versionId"] == "3"


@of(BlazeLike)
async def test_blaze_keeps_references_whole(double, session):
    """A reference to what is not there is a conflict; so is one to what a condition of the same transaction matched."""
    double.add("a")
    visit = {"resourceType": "Encounter", "identifier": [{"system": SYSTEM, "value": "V0"}]}
    assert (await ask(session, double, "POST", "Encounter", visit | {"subject": {"reference": "Patient/x"}}))[0] == 409
    assert (await ask(session, double, "POST", "Encounter", visit | {"subject": {"reference": "Patient/a"}}))[0] == 201
    sent = bundle("Patient/a", "Patient/a")
    sent["entry"][1]["resource"]["partOf"] = {"reference": sent["entry"][0]["fullUrl"]}
    assert (await ask(session, double, "POST", "", sent))[0] == 409
    double.resolves_matches = True
    assert (await ask(session, double, "POST", "", sent))[0] == 200


TAKE_IDS = [HealthLakeLike, AzureLike, GoogleLike, AidboxLike, FirelyLike, BlazeLike]


@pytest.mark.parametrize("double", TAKE_IDS, indirect=True)
async def test_ids_of_a_client_are_taken_once(double, session):
    """A PUT creates; with If-None-Match it overwrites nothing that is there."""
    once = {"If-None-Match": "*"}
    assert (await ask(session, double, "PUT", "Patient/p-x", KIM | {"id": "p-x"}, **once))[0] == 201
    assert (await ask(session, double, "PUT", "Patient/p-x", KIM | {"id": "p-x"}, **once))[0] == 412
    assert double.effects == ["create p-x"]
