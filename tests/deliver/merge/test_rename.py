"""Changes of identifier at a real HTTP server: one record gets another number, and two are never made one."""

from engine.deliver.verdict import Failure, VerdictKind
from engine.fhir.plan import Identity, Rename, Upsert
from tests.deliver.conftest import ENDED, THIN
from tests.deliver.fake_fhir import Step

MRN = "https://mrn.riverbend.example"
ENT = "https://empi.riverbend.example"
PERSON = {"name": [{"family": "Quintero", "given": ["Marisol"]}], "gender": "female", "birthDate": "1984-02-29"}


async def opened(site, **settings):
    """A destination that has read the server's CapabilityStatement."""
    site.open(**settings)
    await site.destination.check()
    return site


def numbers(server, logical_id):
    """What a record carries: number, use, end of its period."""
    return [
        (item["value"], item.get("use", ""), item.get("period", {}).get("end", ""))
        for item in server.patients[logical_id]["identifier"]
    ]


async def test_the_new_number_is_added_and_the_old_one_kept_as_old(site, server, identifier, renaming):
    """One versioned write; the demographics of the message are no part of it, and it is verified by reading."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    verdict = await (await opened(site)).send(renaming("1", "2", family="Osei"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "renamed")
    assert numbers(server, "a") == [("1", "old", ENDED), ("2", "", "")]
    assert server.patients["a"]["name"] == PERSON["name"]
    assert server.effects == ["update a"]
    assert server.requests[-1] == "GET Patient/a"
    assert {(item.identity.value, item.status) for item in verdict.known} == {("1", "old"), ("2", "current")}


async def test_a_change_twice_is_one_change(site, server, identifier, renaming):
    """The same change again is known and makes no call that writes."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    await (await opened(site)).send(renaming("1", "2"))
    assert (await site.send(renaming("1", "2"))).reason == "already-renamed"
    assert server.effects == ["update a"]


async def test_a_late_message_under_the_old_number_finds_the_record(site, server, identifier, renaming, patient):
    """The old number still leads to the record and does not come back into use."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    await (await opened(site)).send(renaming("1", "2"))
    verdict = await site.send(Upsert(patient("1", telecom=[{"value": "7"}])))
    assert verdict.reason == "updated"
    assert numbers(server, "a") == [("1", "old", ENDED), ("2", "", "")]


async def test_a_change_back_takes_the_number_into_use_again(site, server, identifier, renaming):
    """1 to 2 and then 2 to 1: what was old is current again."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    await (await opened(site)).send(renaming("1", "2"))
    assert (await site.send(renaming("2", "1"))).reason == "renamed"
    assert numbers(server, "a") == [("1", "", ""), ("2", "old", ENDED)]
    assert (await site.send(renaming("2", "1"))).reason == "already-renamed"


async def test_a_chain_of_changes(site, server, identifier, renaming):
    """1 to 2, 2 to 3: every number leads to the one record, the last is in use."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    await (await opened(site)).send(renaming("1", "2"))
    assert (await site.send(renaming("2", "3"))).reason == "renamed"
    assert [(value, use) for value, use, _ in numbers(server, "a")] == [("1", "old"), ("2", "old"), ("3", "")]


async def test_a_number_that_belongs_to_another_record_is_held(site, server, identifier, renaming):
    """That would be a merge, and nobody asked for one."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    server.add("b", identifier=[identifier("2")], **PERSON)
    server.unique_mrn = False  # few servers but our own refuse a second record with the number
    verdict = await (await opened(site)).send(renaming("1", "2"))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "would-merge", [])


async def test_a_number_that_the_server_says_is_taken_is_held(site, server, identifier, renaming):
    """What the search did not show and the write does is the same."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    refusal = b'{"resourceType": "OperationOutcome", "issue": [{"severity": "error", "code": "duplicate"}]}'
    server.script.append(Step("PUT", 409, body=refusal))
    assert (await (await opened(site)).send(renaming("1", "2"))).reason == "would-merge"


async def test_an_unknown_old_number_is_kept_on_the_record_with_the_new_one(site, server, identifier, renaming):
    """Nobody has the old number: it becomes an old one of the record that has the new one."""
    server.add("a", identifier=[identifier("2")], **PERSON)
    verdict = await (await opened(site)).send(renaming("1", "2"))
    assert (verdict.reason, "source-absent" in verdict.notes) == ("renamed", True)
    assert numbers(server, "a") == [("2", "", ""), ("1", "old", ENDED)]


async def test_nobody_known_makes_the_patient(site, server, renaming):
    """Neither number known: the patient is made with both, the old one as such."""
    said = {"family": "Quintero", "given": "Marisol", "gender": "female", "birthDate": "1984-02-29"}
    verdict = await (await opened(site)).send(renaming("1", "2", **said))
    assert (verdict.reason, "source-absent" in verdict.notes) == ("created", True)
    assert numbers(server, "p1") == [("2", "", ""), ("1", "old", ENDED)]
    assert (await site.send(renaming("1", "2", **said))).reason == "already-renamed"


async def test_nobody_known_and_too_little_said_is_nothing(site, server, renaming):
    """Neither number known and no demographics: nothing is written."""
    verdict = await (await opened(site)).send(renaming("1", "2"))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.DELIVERED, "nothing-to-rename", [])


async def test_a_merged_number_is_not_renamed(site, server, identifier, renaming, merging):
    """1 was merged into 2; 1 to 3 names a record that is gone: held. 1 to 2 is true already; 2 to 1 a cycle."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    server.add("b", identifier=[identifier("2")], **PERSON)
    await (await opened(site)).send(merging("1", "2"))
    assert (await site.send(renaming("1", "3"))).reason == "source-merged-elsewhere"
    assert (await site.send(renaming("1", "2"))).reason == "already-renamed"
    assert (await site.send(renaming("2", "1"))).reason == "merge-cycle"
    assert server.effects == ["merge a into b", "update b"]


async def test_a_number_renamed_before_is_not_renamed_elsewhere(site, server, identifier, renaming):
    """1 became 2; that it now becomes 3 leaves 2 in use beside it: held."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    await (await opened(site)).send(renaming("1", "2"))
    assert (await site.send(renaming("1", "3"))).reason == "identity-conflict"


async def test_a_number_renamed_before_is_not_merged_elsewhere(site, server, identifier, renaming, merging):
    """1 became 2; a merge of 1 into 3 would take 2 along, which nobody named: held."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    server.add("b", identifier=[identifier("3")], **PERSON)
    await (await opened(site)).send(renaming("1", "2"))
    assert (await site.send(merging("1", "3"))).reason == "source-merged-elsewhere"
    assert (await site.send(merging("1", "2"))).reason == "already-merged"


async def test_a_merge_into_a_renamed_number_goes_to_the_record(site, server, identifier, renaming, merging):
    """1 became 2; a merge of 3 into 1 goes where 1 leads."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    server.add("b", identifier=[identifier("3")], **PERSON)
    await (await opened(site)).send(renaming("1", "2"))
    assert (await site.send(merging("3", "1"))).reason == "merged"
    assert server.effects[-2:] == ["merge b into a", "update a"]


async def test_a_number_of_somebody_else_beside_the_pair_is_held(site, server, identifier, renaming, patient):
    """The PID lists another authority's number that leads elsewhere."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    server.add("b", identifier=[identifier("E1", ENT)], **PERSON)
    plain = renaming("1", "2")
    other = plain.patient._replace(identities=(*plain.patient.identities, Identity(ENT, "E1")))
    verdict = await (await opened(site)).send(plain._replace(patient=other))
    assert (verdict.reason, server.effects) == ("identity-conflict", [])


async def test_a_number_that_stands_for_nobody_changes_too(site, server, identifier, renaming, patient):
    """An alternate id gives way on the record that the other numbers find (A46, A48)."""
    alternate = {"system": "urn:x:PID-4", "value": "ALT-1"}
    server.add("a", identifier=[identifier("1"), alternate], **PERSON)
    issued = {"system": "urn:x:PID-4", "value": "ALT-2"}
    who = patient("1", **THIN)
    whole = who._replace(identifiers=(*who.identifiers, issued))
    change = Rename((), (), (alternate | {"use": "old"},), (issued,), whole)
    assert (await (await opened(site)).send(change)).reason == "renamed"
    assert [(value, use) for value, use, _ in numbers(server, "a")] == [("1", ""), ("ALT-1", "old"), ("ALT-2", "")]
    assert (await site.send(change)).reason == "already-renamed"


async def test_a_change_under_the_name_of_somebody_else_is_flagged_or_held(site, server, identifier, renaming):
    """Other names and another birth date than the record has: as for any update of a record found by number."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    said = {"family": "Osei", "given": "Kwame", "gender": "male", "birthDate": "1950-01-01"}
    held = await (await opened(site, another_person="hold")).send(renaming("1", "2", **said))
    assert (held.kind, held.reason) == (VerdictKind.HELD, "overlay-suspected")
    await site.close()
    verdict = await (await opened(site)).send(renaming("1", "2", **said))
    assert (verdict.reason, "overlay-suspected" in verdict.notes) == ("renamed", True)


async def test_a_lost_answer_makes_no_second_change(site, server, identifier, renaming):
    """The write took effect and its answer was lost: the next attempt reads and finds it done."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    await opened(site, timeout_seconds=1)
    server.script.append(Step("PUT", commit=True, hang=True))
    assert (await site.send(renaming("1", "2"))).failure is Failure.AMBIGUOUS
    assert (await site.send(renaming("1", "2"), ambiguous=True)).reason == "already-renamed"
    assert server.effects == ["update a"]


async def test_somebody_quicker_is_read_again(site, server, identifier, renaming):
    """A record that changed meanwhile keeps what the other wrote."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    await opened(site)
    server.script.append(Step("PUT", 412, body=b"{}"))
    assert (await site.send(renaming("1", "2"))).reason == "renamed"
    assert server.effects == ["update a"]


async def test_a_server_that_drops_the_number_is_not_believed(site, server, identifier, renaming):
    """200 to the write and no new number afterwards: ambiguous, never delivered."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    await opened(site)
    body = b'{"resourceType": "Patient", "id": "a", "meta": {"versionId": "2"}}'
    server.script.append(Step("PUT", 200, body=body))
    verdict = await site.send(renaming("1", "2"))
    assert (verdict.failure, verdict.reason) == (Failure.AMBIGUOUS, "rename-unverified")


async def test_a_patient_made_before_a_kill_is_owned_after_it(site, server, renaming, patient):
    """A life that made the patient and died left no record of it; the next one still knows what is its own."""
    said = {"family": "Quintero", "given": "Marisol", "gender": "female", "birthDate": "1984-02-29"}
    said |= {"telecom": [{"value": "5"}]}
    await (await opened(site)).send(renaming("1", "2", **said))
    await site.close()
    site.memory = type(site.memory)()
    verdict = await (await opened(site)).send(renaming("1", "2", **said), ambiguous=True, attempts_made=2)
    assert verdict.reason == "already-renamed"
    await site.send(Upsert(patient("2", telecom=[{"value": "6"}])))
    assert server.patients["p1"]["telecom"] == [{"value": "6"}]
