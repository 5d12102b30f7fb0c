"""Moves of numbers at a real HTTP server: they go from one chart to another, and neither chart is merged or lost."""

import pytest

from engine.deliver.verdict import Failure, VerdictKind
from engine.fhir.plan import Identity, Move, Upsert
from tests.deliver.conftest import MRN, THIN
from tests.deliver.fake_fhir import Step

PERSON = {"name": [{"family": "Quintero", "given": ["Marisol"]}], "gender": "female", "birthDate": "1984-02-29"}
WHOLE = {"family": "Quintero", "given": "Marisol", "gender": "female", "birthDate": "1984-02-29"}
OTHER = {"name": [{"family": "Osei", "given": ["Kwame"]}], "gender": "male", "birthDate": "1950-01-01"}


@pytest.fixture
async def two(site, server, identifier):
    """A destination, and two records: a with 1 and 9, b with 2."""
    server.add("a", identifier=[identifier("1"), identifier("9")], **PERSON)
    server.add("b", identifier=[identifier("2")], **PERSON)
    return await opened(site)


@pytest.fixture
def moving(patient, identifier):
    """Makes a move of numbers to the patient of another; elements describe that one as the PID does."""

    def make(*numbers, to, source=(), **elements):
        gone = tuple(Identity(MRN, number) for number in numbers)
        named = tuple(Identity(MRN, number) for number in source)
        return Move(gone, tuple(identifier(number) for number in numbers), named, patient(to, **THIN | elements))

    return make


async def opened(site, **settings):
    """A destination that has read the server's CapabilityStatement."""
    site.open(**settings)
    await site.destination.check()
    return site


def numbers(server, logical_id):
    """What a record carries: number and use."""
    return [(item["value"], item.get("use", "")) for item in server.patients[logical_id]["identifier"]]


async def test_the_number_leaves_the_one_and_is_the_others(two, server, moving, patient):
    """Two versioned writes, the record that it leaves first, both read afterwards; the charts stay two."""
    verdict = await two.send(moving("9", to="2", family="Osei"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "moved")
    assert (numbers(server, "a"), numbers(server, "b")) == ([("1", "")], [("2", ""), ("9", "")])
    assert server.effects == ["update a", "update b"]
    assert server.patients["b"]["name"] == PERSON["name"]
    assert {(one.identity.value, one.logical_id) for one in verdict.known} == {("9", "b"), ("2", "b")}
    assert verdict.merges == ()
    late = await two.send(Upsert(patient("9", telecom=[{"value": "7"}])))
    assert (late.reason, server.patients["b"]["telecom"]) == ("updated", [{"value": "7"}])


async def test_a_move_twice_is_one_move(two, server, moving):
    """Sent again, and back and forth, the number is where the last move brought it."""
    await two.send(moving("9", to="2"))
    again = await two.send(moving("9", to="2"))
    assert (again.reason, again.attempts) == ("already-moved", ())
    assert (await two.send(moving("9", to="1"))).reason == "moved"
    assert numbers(server, "a") == [("1", ""), ("9", "")]


async def test_several_numbers_of_one_record(two, server, moving, identifier):
    """All that MRG-1 lists goes in the same two writes; what the other has already stays there."""
    server.touch("a", identifier=[identifier(number) for number in ("1", "8", "9")])
    await two.send(moving("8", to="2"))
    assert (await two.send(moving("8", "9", to="2"))).reason == "moved"
    assert (numbers(server, "a"), numbers(server, "b")) == ([("1", "")], [("2", ""), ("8", ""), ("9", "")])


async def test_numbers_of_two_records_are_held(two, server, moving, identifier):
    """MRG-1 lists numbers of two people: which of them is meant is for a person to say."""
    server.add("c", identifier=[identifier("7"), identifier("6")], **OTHER)
    verdict = await two.send(moving("9", "7", to="2"))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "identity-conflict", [])


async def test_the_last_number_is_held(two, server, moving):
    """A chart without a number would be found by nobody: that is a merge, or a change of number."""
    verdict = await two.send(moving("1", "9", to="2"))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "last-number", [])


async def test_a_number_of_another_patient_than_named_is_held(two, server, moving, identifier):
    """MRG names the patient whom the number leaves, and the number is somebody else's."""
    server.add("c", identifier=[identifier("7")], **OTHER)
    verdict = await two.send(moving("9", to="2", source=("7",)))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "number-of-another-patient", [])
    assert (await two.send(moving("9", to="2", source=("1",)))).reason == "moved"


async def test_a_number_that_was_merged_or_changed_is_held(two, server, moving, merging, renaming, identifier):
    """A number out of use leads to a chart of its own; moving it would take more along than anybody said."""
    server.add("c", identifier=[identifier("7")], **PERSON)
    await two.send(merging("7", "1"))
    assert (await two.send(moving("7", to="2"))).reason == "source-merged-elsewhere"
    assert (await two.send(moving("7", to="1"))).reason == "already-moved"
    await two.send(renaming("9", "5"))
    assert (await two.send(moving("9", to="2"))).reason == "source-merged-elsewhere"
    assert server.effects == ["merge c into a", "update a", "update a"]


async def test_to_a_merged_number_goes_to_the_survivor(two, server, moving, merging, identifier):
    """Who gets the number was merged away: it is the survivor's, and that is said."""
    server.add("c", identifier=[identifier("7")], **PERSON)
    await two.send(merging("7", "2"))
    verdict = await two.send(moving("9", to="7"))
    assert (verdict.reason, "redirected-to-survivor" in verdict.notes) == ("moved", True)
    assert ("9", "") in numbers(server, "b")


@pytest.mark.parametrize(
    ("policy", "kind", "reason"),
    [
        ("record", VerdictKind.DELIVERED, "source-absent"),
        ("hold", VerdictKind.HELD, "unknown-source"),
        ("reject", VerdictKind.REJECTED, "unknown-source"),
    ],
)
async def test_a_number_that_nobody_has(site, server, moving, identifier, policy, kind, reason):
    """The number becomes that of the patient named, or a person decides, as `unknown_source` says."""
    server.add("b", identifier=[identifier("2")], **PERSON)
    verdict = await (await opened(site, unknown_source=policy)).send(moving("9", to="2"))
    assert (verdict.kind, verdict.reason) == (kind, reason)
    assert (("9", "") in numbers(server, "b")) == (policy == "record")


async def test_nobody_who_gets_it(two, server, moving):
    """The patient is made where the PID says enough, and held where it does not, before anything is written."""
    held = await two.send(moving("9", to="3"))
    assert (held.kind, held.reason, server.effects) == (VerdictKind.HELD, "unknown-survivor", [])
    verdict = await two.send(moving("9", to="3", **WHOLE))
    assert (verdict.reason, numbers(server, "p1")) == ("moved", [("3", ""), ("9", "")])
    assert server.effects == ["create p1", "update a", "update p1"]


async def test_neither_known(two, server, moving):
    """Nobody has the number and nobody gets it: made of the PID, or nothing where it is too thin."""
    assert (await two.send(moving("6", to="3"))).reason == "nothing-to-move"
    assert (await two.send(moving("6", to="3", **WHOLE))).reason == "created"
    assert numbers(server, "p1") == [("3", ""), ("6", "")]


async def test_another_person_than_the_record(two, server, moving):
    """Other names and another birth date than the record has: flagged or held, as for an update."""
    said = {"family": "Osei", "given": "Kwame", "gender": "male", "birthDate": "1950-01-01"}
    holding = two.channel.model_copy(update={"another_person": "hold"})
    held = await two.send(moving("9", to="2", **said), channel=holding)
    assert (held.kind, held.reason, server.effects) == (VerdictKind.HELD, "overlay-suspected", [])
    verdict = await two.send(moving("9", to="2", **said))
    assert (verdict.reason, "overlay-suspected" in verdict.notes) == ("moved", True)


async def test_a_move_cut_off_between_its_writes_is_finished(site, server, moving, identifier):
    """Taken from the one and not yet given to the other: the next try gives it, whatever the policy for the unknown."""
    server.add("a", identifier=[identifier("1"), identifier("9")], **PERSON)
    server.add("b", identifier=[identifier("2")], **PERSON)
    await opened(site, unknown_source="hold")
    server.script.append(Step("PUT", 503, path="Patient/b"))
    assert (await site.send(moving("9", to="2"))).failure is Failure.TRANSIENT
    assert numbers(server, "a") == [("1", "")]
    verdict = await site.send(moving("9", to="2"), attempts_made=2, ambiguous=True)
    assert (verdict.reason, numbers(server, "b")) == ("moved", [("2", ""), ("9", "")])


async def test_a_server_that_keeps_the_number_is_not_believed(two, server, moving):
    """200 to the write and the number still there: ambiguous, and the other record is not touched."""
    body = b'{"resourceType": "Patient", "id": "a", "meta": {"versionId": "2"}}'
    server.script.append(Step("PUT", 200, body=body, path="Patient/a"))
    verdict = await two.send(moving("9", to="2"))
    assert (verdict.failure, verdict.reason, server.effects) == (Failure.AMBIGUOUS, "move-unverified", [])


async def test_a_number_that_the_server_says_is_taken_is_held(two, server, moving):
    """What the search did not show and the write does."""
    refusal = b'{"resourceType": "OperationOutcome", "issue": [{"severity": "error", "code": "duplicate"}]}'
    server.script.append(Step("PUT", 409, body=refusal, path="Patient/b"))
    assert (await two.send(moving("9", to="2"))).reason == "number-of-another-patient"
