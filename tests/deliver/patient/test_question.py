"""Who a patient is, where the server has several: an operator answers, and the answer holds."""

import pytest

from engine.deliver.verdict import KnownIdentifier, VerdictKind
from engine.errors import PermanentDeliveryError
from engine.fhir.plan import Identity, Plan, Upsert
from tests.deliver.conftest import AT, MRN, THIN

PERSON = {"name": [{"family": "Quintero", "given": ["Marisol"]}], "gender": "female", "birthDate": "1984-02-29"}
NUMBER = Identity(MRN, "1")


@pytest.fixture
def several(site, server, identifier):
    """Two records with the number 1, and one of somebody else."""
    server.unique_mrn = False
    server.add("a", identifier=[identifier("1")], **PERSON)
    server.add("b", identifier=[identifier("1")], **PERSON)
    server.add("c", identifier=[identifier("9")], **PERSON)
    link = [{"other": {"reference": "Patient/a"}, "type": "replaced-by"}]
    server.add("gone", identifier=[identifier("1", use="old")], link=link, **PERSON | {"active": False})
    return site.open(if_none_exist="identifier")


async def asked(site, *interactions, named=""):
    """Ask the question of interactions."""
    plan = Plan("A08", "ADT|RVB", AT, 14, interactions)
    return await site.destination.question(plan, site.memory, at=AT, named=named)


async def test_the_matches_are_shown(several, server, patient):
    """All that the server finds under the number, by reading alone."""
    told = await asked(several, Upsert(patient("1")))
    assert (told.identities, {match.logical_id for match in told.matches}) == ((NUMBER,), {"a", "b"})
    assert all(request.startswith("GET ") for request in server.requests)


@pytest.mark.parametrize(
    ("named", "refusal"), [("a", None), ("b", None), ("c", "unrelated"), ("gone", "merged-away"), ("none", "absent")]
)
async def test_an_answer_is_checked_at_the_server(several, patient, named, refusal):
    """It must be there, not merged away, and match or carry the number."""
    assert (await asked(several, Upsert(patient("1")), named=named)).refusal == refusal


async def test_records_that_are_left_are_counted(several, server, patient):
    """Merged-away ones are shown and count no more, deleted ones are not there."""
    server.survivor_for_old_numbers = False
    server.touch("gone", identifier=server.patients["a"]["identifier"])
    told = await asked(several, Upsert(patient("1")))
    assert ({match.logical_id for match in told.matches}, told.left) == ({"a", "b", "gone"}, 2)
    server.touch("b", active=False, link=server.patients["gone"]["link"])
    assert (await asked(several, Upsert(patient("1")))).left == 1
    for logical_id in ("a", "b", "gone"):
        server.patients.pop(logical_id)
    told = await asked(several, Upsert(patient("1", **THIN)))
    assert (told.matches, told.left) == ((), 0)


async def test_what_was_chosen_is_delivered_and_stays_chosen(several, server, patient):
    """Held until somebody chooses; from then on to the chosen record, also on a replay that asks the server anew."""
    update = Upsert(patient("1", gender="male"))
    verdict = await several.send(update)
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "ambiguous-identity")
    several.memory.identities[NUMBER] = KnownIdentifier(NUMBER, "b", "chosen")
    assert (await several.send(update)).reason == "updated"
    assert (server.patients["a"]["gender"], server.patients["b"]["gender"]) == ("female", "male")
    several.memory.identities[NUMBER] = KnownIdentifier(NUMBER, "b", "chosen")
    assert (await several.send(update, replay=True)).reason == "unchanged"
    server.touch("b", link=[{"other": {"reference": "Patient/c"}, "type": "replaced-by"}])
    assert (await several.send(update, replay=True)).kind is not VerdictKind.DELIVERED


async def test_a_record_that_does_not_carry_the_number_can_be_chosen_among_the_alike(site, server, patient):
    """Several records with the demographics and none with the number: the chosen one gets it."""
    server.add("a", **PERSON)
    server.add("b", **PERSON)
    site.open()
    assert (await site.send(Upsert(patient("1")))).reason == "multiple-matches"
    told = await asked(site, Upsert(patient("1")), named="b")
    assert ({match.logical_id for match in told.matches}, told.refusal) == ({"a", "b"}, None)
    site.memory.identities[NUMBER] = KnownIdentifier(NUMBER, "b", "chosen")
    for replay in (False, True):
        assert (await site.send(Upsert(patient("1")), replay=replay)).kind is VerdictKind.DELIVERED
        site.memory.identities[NUMBER] = KnownIdentifier(NUMBER, "b", "chosen")
    assert [one["value"] for one in server.patients["b"]["identifier"]] == ["1"]
    assert "identifier" not in server.patients["a"]


async def test_the_side_in_question_is_asked_about(several, server, merging, identifier):
    """Of a merge, the number that stands for several."""
    server.add("d", identifier=[identifier("5")], **PERSON)
    assert (await asked(several, merging("1", "5"))).identities == (NUMBER,)
    with pytest.raises(PermanentDeliveryError, match="no-patient"):
        await asked(several)
