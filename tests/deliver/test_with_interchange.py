"""Delivery against the interchange service itself, over HTTP with OAuth2, in both FHIR versions."""

import pytest

from engine.deliver.verdict import VerdictKind
from engine.fhir.plan import ElementChange, Upsert
from tests.deliver.conftest import MRN


@pytest.fixture
def feed(service_site):
    """A destination for the service in each FHIR version."""
    return service_site


@pytest.fixture
def numbers(request):
    """Medical record numbers that no other test uses."""
    name = "".join(letter for letter in request.node.name if letter.isalnum())
    return [f"{name}-{index}" for index in range(1, 4)]


def found(site, service, number):
    """The Patient that the service finds under a number, in R4."""
    bundle = service.ask("GET", f"/fhir/R4/Patient?identifier={MRN}|{number}", client="physician").json()
    return [entry["resource"] for entry in bundle["entry"]]


def in_use(body):
    """The medical record numbers of a Patient that are in use."""
    ours = [item for item in body["identifier"] if item["system"] == MRN]
    return [item["value"] for item in ours if item["value"] not in out_of_use(body)]


def out_of_use(body):
    """The old medical record numbers of a Patient, however its FHIR version says so."""
    ours = [item for item in body["identifier"] if item["system"] == MRN]
    said = {
        item["value"]: {item.get("use"), *(one.get("valueCode") for one in item.get("extension", ()))} for item in ours
    }
    return [value for value, uses in said.items() if "old" in uses]


async def test_service_can_do_what_delivery_relies_on(feed):
    """The service's CapabilityStatement promises merge, If-Match and conditional create."""
    assert feed.destination.abilities.missing() == ()


async def test_create_update_unchanged(feed, interchange, numbers, patient):
    """A patient is created, updated from the cache, and left alone by what changes nothing."""
    who = patient(numbers[0], family=numbers[0])
    assert (await feed.send(Upsert(who))).reason == "created"
    phone = {"system": "phone", "value": "1"}
    moved = patient(numbers[0], family=numbers[0], telecom=[phone])
    assert (await feed.send(Upsert(moved))).reason == "updated"
    assert (await feed.send(Upsert(moved))).reason == "unchanged"
    (body,) = found(feed, interchange, numbers[0])
    assert body["telecom"] == [phone]
    assert body["meta"]["versionId"] == "2"
    assert (await feed.send(Upsert(patient(numbers[0], family=numbers[0], telecom=[])))).reason == "updated"
    assert "telecom" not in found(feed, interchange, numbers[0])[0]


async def test_other_client_is_respected(feed, interchange, numbers, patient):
    """A version that another client wrote meanwhile makes the update start anew: 412 in R4, 409 in STU3."""
    await feed.send(Upsert(patient(numbers[0], family=numbers[0])))
    (body,) = found(feed, interchange, numbers[0])
    theirs = body | {"maritalStatus": {"text": "married"}}
    assert interchange.ask("PUT", f"/fhir/R4/Patient/{body['id']}", json=theirs).status_code == 200
    verdict = await feed.send(Upsert(patient(numbers[0], family=numbers[0], gender="male")))
    assert verdict.attempts[0].status in {409, 412}
    (body,) = found(feed, interchange, numbers[0])
    assert (body["gender"], body["maritalStatus"]) == ("male", {"text": "married"})


async def test_second_registration_of_the_same_demographics(feed, interchange, numbers, patient):
    """Equal demographics under another number of our system are another registration, even past the limit."""
    await feed.send(Upsert(patient(numbers[0], family=numbers[0])))
    for index in range(11):
        verdict = await feed.send(Upsert(patient(f"{numbers[1]}-{index}", family=numbers[0])))
        assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
        assert "possible-duplicate" in verdict.notes


async def test_merge_then_again_then_backwards(feed, interchange, numbers, patient, merging):
    """A merge is carried out once, known when it comes again, followed by later messages, and not undone."""
    one, two, _ = numbers
    await feed.send(Upsert(patient(one, family=one)))
    await feed.send(Upsert(patient(two, family=one, given="Ana")))
    verdict = await feed.send(merging(one, two))
    assert verdict.reason == "merged"
    assert any(note.startswith("lost Patient.") for note in verdict.notes)
    assert (await feed.send(merging(one, two))).reason == "already-merged"
    assert (await feed.send(merging(two, one))).reason == "merge-cycle"
    late = await feed.send(Upsert(patient(one, family=one, telecom=[{"system": "phone", "value": "9"}])))
    assert (late.reason, "redirected-to-survivor" in late.notes) == ("updated", True)
    (survivor,) = found(feed, interchange, one)
    assert (in_use(survivor), out_of_use(survivor)) == ([two], [one])


async def test_merge_into_a_deleted_record_is_held(feed, interchange, numbers, patient, merging):
    """A survivor that an A29 made inactive: nothing is merged into it, and it waits for a person."""
    one, two, _ = numbers
    await feed.send(Upsert(patient(one, family=one)))
    await feed.send(Upsert(patient(two, family=one, given="Ana")))
    await feed.send(Upsert(patient(two, family=one), inactivate=True))
    verdict = await feed.send(merging(one, two))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "survivor-inactive")
    await feed.send(Upsert(patient(two, family=one, given="Ana"), reactivate=True))
    assert (await feed.send(merging(one, two))).reason == "merged"


async def test_self_merge_leaves_the_chart(feed, interchange, numbers, patient, merging):
    """Two numbers of one chart: rejected, and no version more than before."""
    one, two, _ = numbers
    await feed.send(Upsert(patient(one, two, family=one)))
    before = found(feed, interchange, one)
    verdict = await feed.send(merging(one, two))
    assert (verdict.kind, verdict.reason) == (VerdictKind.REJECTED, "self-merge")
    assert found(feed, interchange, one) == before


async def test_unknown_source_is_kept_as_old(feed, interchange, numbers, patient, merging):
    """A merged number nobody knew is kept on the survivor with use=old."""
    one, two, _ = numbers
    await feed.send(Upsert(patient(two, family=two)))
    assert (await feed.send(merging(one, two))).reason == "source-absent"
    (survivor,) = found(feed, interchange, one)
    assert (in_use(survivor), out_of_use(survivor)) == ([two], [one])
    assert (await feed.send(merging(one, two))).reason == "already-merged"


async def test_unknown_survivor(feed, interchange, numbers, patient, merging):
    """A survivor nobody knew: a thin PID renames the source, a full one makes the survivor first."""
    one, two, three = numbers
    await feed.send(Upsert(patient(one, family=one)))
    assert (await feed.send(merging(one, two))).reason == "renamed"
    said = {"family": one, "given": "Marisol", "gender": "female", "birthDate": "1984-02-29"}
    verdict = await feed.send(merging(two, three, **said))
    assert verdict.reason == "merged"
    assert found(feed, interchange, two)[0]["id"] == found(feed, interchange, three)[0]["id"]


async def test_replay_of_everything_changes_nothing(feed, interchange, numbers, patient, merging):
    """The same messages again, in order, leave the server as it was, or say why they do not apply."""
    one, two, _ = numbers
    steps = [
        Upsert(patient(one, family=one)),
        Upsert(patient(two, family=one, given="Ana")),
        merging(one, two),
        Upsert(patient(two, family=one, given="Ana", telecom=[{"system": "phone", "value": "9"}])),
    ]
    for step in steps:
        await feed.send(step)
    before = found(feed, interchange, two)
    last = [await feed.send(step, replay=True) for step in steps[2:]]
    assert [verdict.reason for verdict in last] == ["already-merged", "unchanged"]
    assert found(feed, interchange, two) == before


async def test_renamed_then_again_then_back(feed, interchange, numbers, patient, renaming):
    """A change of identifier is carried out once, the old number still finds the record, and it can be taken back."""
    one, two, three = numbers
    await feed.send(Upsert(patient(one, family=one)))
    assert (await feed.send(renaming(one, two))).reason == "renamed"
    assert (await feed.send(renaming(one, two))).reason == "already-renamed"
    late = await feed.send(Upsert(patient(one, family=one, telecom=[{"system": "phone", "value": "9"}])))
    assert late.reason == "updated"
    assert found(feed, interchange, one) == found(feed, interchange, two)
    assert (await feed.send(renaming(two, one))).reason == "renamed"
    await feed.send(Upsert(patient(three, family=three)))
    assert (await feed.send(renaming(one, three))).reason == "would-merge"


async def test_linked_then_parted_then_deleted(feed, interchange, numbers, patient, linking):
    """Links stand on both records and go from both; A29 leaves the record there, inactive."""
    one, two, _ = numbers
    await feed.send(Upsert(patient(one, family=one)))
    assert (await feed.send(linking(one, two, family=one))).reason == "linked"
    assert (await feed.send(linking(two, one))).reason == "already-linked"
    ends = [found(feed, interchange, number)[0] for number in (one, two)]
    links = [body["link"] for body in ends]
    assert links == [[{"other": {"reference": f"Patient/{body['id']}"}, "type": "seealso"}] for body in reversed(ends)]
    assert (await feed.send(linking(one, two, undo=True))).reason == "unlinked"
    assert "link" not in found(feed, interchange, two)[0]
    assert (await feed.send(Upsert(patient(two, family=one), inactivate=True))).reason == "updated"
    assert found(feed, interchange, two)[0]["active"] is False


async def test_coded_elements_come_back_equal(feed, interchange, numbers, patient):
    """Coded values survive the edge between the versions, so that a repeat changes nothing."""
    coded = ElementChange(
        "maritalStatus",
        "maritalStatus",
        ({"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "M"}]},),
        many=False,
    )
    record = patient(numbers[0], family=numbers[0])
    record = type(record)(record.identities, record.identifiers, (*record.changes, coded), placeholder=False)
    await feed.send(Upsert(record))
    assert (await feed.send(Upsert(record))).reason == "unchanged"
    assert (await feed.send(Upsert(record), ambiguous=True)).reason == "unchanged"
