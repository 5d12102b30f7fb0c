"""Create-or-update at a real HTTP server that is told how to behave."""

from datetime import UTC, datetime

import pytest

from engine.deliver.verdict import Failure, VerdictKind
from engine.fhir.plan import Attest, Identity, Plan, ResourceRecord, Upsert
from tests.deliver.fake_fhir import Step

MRN = "https://mrn.riverbend.example"
PERSON = {"name": [{"family": "Quintero", "given": ["Marisol"]}], "gender": "female", "birthDate": "1984-02-29"}


async def test_unknown_patient_is_created_on_condition(site, server, patient):
    """A patient nobody knows is created once, with the four demographics as condition, and verified by a search."""
    verdict = await site.open().send(Upsert(patient("1")))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
    assert server.effects == ["create p1"]
    post = server.requests.index("POST Patient")
    assert server.headers[post]["If-None-Exist"] == "given=Marisol&family=Quintero&gender=female&birthdate=1984-02-29"
    assert [known.logical_id for known in verdict.known] == ["p1"]
    assert len(site.intents) == 1


async def test_cached_patient_costs_one_put(site, server, patient):
    """The second message of a patient is exactly one PUT with If-Match, without a read."""
    await site.open().send(Upsert(patient("1")))
    before = len(server.requests)
    verdict = await site.send(Upsert(patient("1", gender="male")))
    assert verdict.reason == "updated"
    assert server.requests[before:] == ["PUT Patient/p1"]
    assert server.headers[-1]["If-Match"] == 'W/"1"'


async def test_an_update_with_a_version_is_journaled_with_its_answer(site, server, patient):
    """A server that honours If-Match refuses it a second time: no intent is written before, the request is kept."""
    await site.open().send(Upsert(patient("1")))
    verdict = await site.send(Upsert(patient("1", gender="male")))
    (attempt,) = verdict.attempts
    assert (attempt.request.method, attempt.journaled, len(site.intents)) == ("PUT", False, 1)
    assert b'"male"' in attempt.request.body


async def test_an_update_whose_version_counts_for_nothing_has_its_intent_first(site, server, patient):
    """Where If-Match is not honoured, as found or not yet known, each write is in the journal before it is sent."""
    server.honours_if_match = False
    await site.open().send(Upsert(patient("1")))
    await site.destination.check()
    verdict = await site.send(Upsert(patient("1", gender="male")))
    assert [(attempt.request.method, attempt.journaled) for attempt in verdict.attempts][-1] == ("PUT", True)
    assert [intent.method for intent in site.intents][-1] == "PUT"


async def test_beside_what_names_all_that_was_written_each_write_has_its_intent(site, server, patient):
    """A further try names in its Provenance what the try before wrote: that there was one has to be known."""
    await site.open().send(Upsert(patient("1")))
    origins = Attest(ResourceRecord("Provenance", "origins", (), (), ()), "po", "target")
    verdict = await site.send(Upsert(patient("1", gender="male")), origins)
    assert (verdict.attempts[0].request.method, verdict.attempts[0].journaled) == ("PUT", True)


async def test_unchanged_is_concluded_from_a_fresh_read(site, server, patient):
    """A message that changes nothing costs a read and no write."""
    await site.open().send(Upsert(patient("1")))
    before = len(server.requests)
    verdict = await site.send(Upsert(patient("1")))
    assert verdict.reason == "unchanged"
    assert server.requests[before:] == ["GET Patient/p1"]


async def test_known_after_a_restart(site, server, patient):
    """After a restart the journal's memory leads to the record by one read."""
    await site.open().send(Upsert(patient("1")))
    await site.close()
    before = len(server.requests)
    verdict = await site.open().send(Upsert(patient("1", gender="male")))
    assert verdict.reason == "updated"
    assert server.requests[before:] == ["GET Patient/p1", "PUT Patient/p1"]


async def test_other_writer_is_respected(site, server, patient):
    """What another client wrote meanwhile stays: the stale PUT is refused, read again and re-applied."""
    await site.open().send(Upsert(patient("1")))
    server.touch("p1", maritalStatus={"text": "married"})
    verdict = await site.send(Upsert(patient("1", gender="male")))
    assert verdict.reason == "updated"
    assert server.patients["p1"]["maritalStatus"] == {"text": "married"}
    assert server.patients["p1"]["gender"] == "male"  # PID-8


async def test_two_matches_are_held(site, server, patient, identifier):
    """Two records with the same number hold the entry; the engine never chooses."""
    server.add("a", identifier=[identifier("1")])
    server.add("b", identifier=[identifier("1")])
    verdict = await site.open().send(Upsert(patient("1")))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "ambiguous-identity")
    assert server.effects == []


async def test_two_numbers_of_two_records_are_held(site, server, patient, identifier):
    """A message that lists the numbers of two records is held."""
    server.add("a", identifier=[identifier("1")])
    server.add("b", identifier=[identifier("2")])
    verdict = await site.open().send(Upsert(patient("1", "2")))
    assert verdict.reason == "identity-conflict"


async def test_missing_birth_date_is_held(site, server, patient):
    """What the service requires is never made up; an absent gender alone becomes unknown."""
    verdict = await site.open().send(Upsert(patient("1", birthDate=None)))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "missing-required")
    assert (await site.send(Upsert(patient("2", gender=None)))).reason == "created"
    assert server.patients["p1"]["gender"] == "unknown"


async def test_newborn_is_created_plainly(site, server, patient):
    """A placeholder's demographics are never a criterion."""
    server.add("twin", identifier=[identifier_of("9")], **_demographics())
    verdict = await site.open().send(Upsert(patient("1", placeholder=True)))
    assert verdict.reason == "created"
    assert "If-None-Exist" not in server.headers[server.requests.index("POST Patient")]


async def test_same_person_without_number_is_attached(site, server, patient):
    """A record with the same four demographics and no number at all takes our number."""
    server.add("a", **_demographics())
    verdict = await site.open().send(Upsert(patient("1")))
    assert verdict.reason == "updated"
    assert "attached-by-demographics" in verdict.notes
    assert server.patients["a"]["identifier"][0]["value"] == "1"


async def test_longer_name_is_another_person(site, server, patient):
    """A match by the beginning of a name is no match: a record of our own is made."""
    server.add("a", **_demographics(given="Marisola"))
    verdict = await site.open().send(Upsert(patient("1")))
    assert (verdict.reason, "possible-duplicate" in verdict.notes) == ("created", True)


async def test_other_number_of_the_same_system_is_another_registration(site, server, patient):
    """Equal demographics under another number of our system are another registration."""
    server.add("a", identifier=[identifier_of("77")], **_demographics())
    verdict = await site.open().send(Upsert(patient("1")))
    assert (verdict.reason, "possible-duplicate" in verdict.notes) == ("created", True)
    assert "created-beside Patient/p1 Patient/a" in verdict.notes
    assert server.effects == ["create p1"]


async def test_other_number_of_the_same_system_is_never_attached(site, server, patient):
    """Nor where the site attaches what other systems registered: it is somebody's registration here."""
    server.add("a", identifier=[identifier_of("77")], **_demographics())
    verdict = await site.open(on_demographic_match="attach").send(Upsert(patient("1")))
    assert (verdict.reason, server.effects) == ("created", ["create p1"])


async def test_a_record_found_by_a_second_number_with_another_first_one_is_held(site, server, patient):
    """The enterprise number leads to a record that carries another current number of ours: whose is it?"""
    enterprise = "https://empi.riverbend.example"
    server.add("a", identifier=[identifier_of("77"), identifier_of("E1", enterprise)], **PERSON)
    record = patient("1")
    both = record._replace(
        identities=(*record.identities, Identity(enterprise, "E1")),
        identifiers=(*record.identifiers, identifier_of("E1", enterprise)),
    )
    verdict = await site.open().send(Upsert(both))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "identity-conflict", [])


async def test_match_of_another_system_follows_the_policy(site, server, patient):
    """A match that another system registered is created anew by default, held where the site says so."""
    server.add("a", identifier=[identifier_of("77", "https://elsewhere.example")], **_demographics())
    assert (await site.open(on_demographic_match="hold").send(Upsert(patient("1")))).reason == "demographic-match"
    await site.close()
    assert (await site.open().send(Upsert(patient("1")))).reason == "created"


async def test_several_registrations_do_not_stop_a_new_one(site, server, patient):
    """412 where all matches are other registrations of our system: created without the condition."""
    server.add("a", identifier=[identifier_of("77")], **_demographics())
    server.add("b", identifier=[identifier_of("78")], **_demographics())
    assert (await site.open().send(Upsert(patient("1")))).reason == "created"


async def test_several_unclear_matches_are_held(site, server, patient):
    """412 where a match has no number of our system: held."""
    server.add("a", **_demographics())
    server.add("b", identifier=[identifier_of("78")], **_demographics())
    assert (await site.open().send(Upsert(patient("1")))).reason == "multiple-matches"


async def test_duplicate_limit_asks_for_a_create_always(site, server, patient):
    """The server's duplicate limit is answered with Prefer: create-always."""
    server.script.append(Step("POST", 409, body=_outcome("duplicate", "duplicate-patient-limit")))
    verdict = await site.open().send(Upsert(patient("1")))
    assert verdict.reason == "created"
    assert server.headers[server.requests.index("POST Patient") + 1]["Prefer"] == "create-always"


async def test_lost_answer_of_a_create_makes_no_second_patient(site, server, patient):
    """A create that was committed and never answered is found by reading."""
    server.script.append(Step("POST", commit=True, hang=True))
    verdict = await site.open(timeout_seconds=1).send(Upsert(patient("1")))
    assert (verdict.kind, verdict.failure) == (VerdictKind.RETRY, Failure.AMBIGUOUS)
    verdict = await site.send(Upsert(patient("1")), ambiguous=True)
    assert verdict.reason == "unchanged"
    assert server.effects == ["create p1"]


async def test_gateway_timeout_after_the_commit_makes_no_second_write(site, server, patient):
    """504 after the commit: the next attempt reads and finds it done."""
    await site.open().send(Upsert(patient("1")))
    server.script.append(Step("PUT", 504, commit=True))
    verdict = await site.send(Upsert(patient("1", gender="male")))
    assert verdict.failure is Failure.AMBIGUOUS
    assert (await site.send(Upsert(patient("1", gender="male")))).reason == "unchanged"
    assert server.effects == ["create p1", "update p1"]


async def test_500_before_the_commit_is_written_again(site, server, patient):
    """500 without a commit: the next attempt reads, finds it absent and writes."""
    await site.open().send(Upsert(patient("1")))
    server.script.append(Step("PUT", 500))
    assert (await site.send(Upsert(patient("1", gender="male")))).failure is Failure.AMBIGUOUS
    assert (await site.send(Upsert(patient("1", gender="male")))).reason == "updated"


async def test_conflicts_are_bounded(site, server, patient):
    """A record that somebody else changes each time is held in the end."""
    await site.open().send(Upsert(patient("1")))
    server.script.extend(Step("PUT", 412) for _ in range(9))
    assert (await site.send(Upsert(patient("1", gender="male")))).reason == "version-conflict"


async def test_owned_items_go_and_foreign_items_stay(site, server, patient):
    """Null removes what this source wrote, and nothing of others."""
    ours, theirs = {"system": "phone", "value": "1"}, {"system": "phone", "value": "2"}
    await site.open().send(Upsert(patient("1", telecom=[ours])))
    server.touch("p1", telecom=[ours, theirs])
    await site.send(Upsert(patient("1", telecom=[])))
    assert server.patients["p1"]["telecom"] == [theirs]


async def test_what_two_sources_say_stays_until_neither_says_it(site, server, patient):
    """A number that two feeds told is taken away by the one that tells another only once the other does, too."""
    old, new = {"system": "phone", "value": "1"}, {"system": "phone", "value": "2"}
    await site.open().send(Upsert(patient("1", telecom=[old])), source="REG|RVB")
    await site.send(Upsert(patient("1", telecom=[old])), source="EMERG|RVB")
    await site.send(Upsert(patient("1", telecom=[new])), source="REG|RVB")
    assert server.patients["p1"]["telecom"] == [old, new]
    await site.send(Upsert(patient("1", telecom=[new])), source="EMERG|RVB")
    assert server.patients["p1"]["telecom"] == [new]


async def test_deleted_person_comes_back(site, server, patient):
    """A29 makes a record inactive; an update leaves it so, an admission sets it active again."""
    await site.open().send(Upsert(patient("1")))
    await site.send(Upsert(patient("1"), inactivate=True))
    assert server.patients["p1"]["active"] is False
    assert "inactive" in (await site.send(Upsert(patient("1", gender="male")))).notes
    assert "reactivated" in (await site.send(Upsert(patient("1"), reactivate=True))).notes
    assert server.patients["p1"]["active"] is True


async def test_another_person_under_the_number_is_flagged(site, server, patient):
    """Another name and birth date under the same number: flagged, or held where the channel says so."""
    other = patient("1", family="Osei", given="Kwame", birthDate="1950-01-01")
    await site.open().send(Upsert(patient("1")))
    assert "overlay-suspected" in (await site.send(Upsert(other))).notes
    await site.close()
    site.open(another_person="hold")
    assert (await site.send(Upsert(patient("1")))).reason == "overlay-suspected"


async def test_permanent_refusal_is_held_with_codes_only(site, server, patient):
    """422 holds the entry with the outcome's codes and nothing of its text."""
    await site.open().send(Upsert(patient("1")))
    refused = [Step("PUT", 422, body=_outcome("invalid")) for _ in range(2)]
    server.script.extend(refused)
    verdict = await site.send(Upsert(patient("1", gender="male")))
    assert (verdict.kind, verdict.reason, verdict.failure) == (VerdictKind.HELD, "http-422", Failure.PERMANENT)
    assert "invalid" in verdict.notes
    assert "SENTINEL" not in repr(verdict)


async def test_success_with_an_error_inside_is_ambiguous(site, server, patient):
    """200 with an OperationOutcome of severity error is no success."""
    await site.open().send(Upsert(patient("1")))
    server.script.append(Step("PUT", 200, body=_outcome("exception")))
    verdict = await site.send(Upsert(patient("1", gender="male")))
    assert (verdict.kind, verdict.reason) == (VerdictKind.RETRY, "success-with-error")


async def test_identities_are_told_only_once(site, server, patient):
    """A message about a patient known already tells the journal nothing new of identities and ownership."""
    await site.open().send(Upsert(patient("1")))
    verdict = await site.send(Upsert(patient("1", telecom=[{"value": "5"}])))
    assert verdict.known == ()
    assert verdict.owned[0].resource == "Patient/p1"
    assert Identity(MRN, "1") in site.memory.identities


async def test_retry_after_is_told(site, server, patient):
    """429 is transient; what Retry-After asks for is told to the spine, within five minutes."""
    site.open()
    server.script.append(Step("GET", 429, headers={"Retry-After": "7"}))
    verdict = await site.send(Upsert(patient("1")))
    assert (verdict.kind, verdict.failure, verdict.retry_after_seconds) == (VerdictKind.RETRY, Failure.TRANSIENT, 7)
    server.script.append(Step("POST", 429, headers={"Retry-After": "999999"}))
    assert (await site.send(Upsert(patient("1")))).retry_after_seconds == 300
    assert server.effects == []


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"resourceType":"Bundle"}', b'{"resourceType":"Patient","id":"other"}']
)
async def test_success_without_the_record_is_ambiguous(site, server, patient, body):
    """200 without the Patient that was sent is no proof of anything: read first, then done."""
    await site.open().send(Upsert(patient("1")))
    server.script.append(Step("PUT", 200, commit=True, body=body or b" "))
    verdict = await site.send(Upsert(patient("1", gender="male")))
    assert (verdict.kind, verdict.failure) == (VerdictKind.RETRY, Failure.AMBIGUOUS)
    assert (await site.send(Upsert(patient("1", gender="male")))).reason == "unchanged"
    assert server.effects == ["create p1", "update p1"]


async def test_redirect_holds(site, server, patient):
    """A server that points elsewhere is not followed: held."""
    server.script.append(Step("GET", 302, headers={"Location": "http://127.0.0.1:1/"}))
    verdict = await site.open().send(Upsert(patient("1")))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "http-302")


async def test_record_deleted_at_the_server_is_held(site, server, patient):
    """A record that somebody deleted is not made anew by a message."""
    await site.open().send(Upsert(patient("1")))
    del server.patients["p1"]
    server.script.extend([Step("PUT", 410), Step("GET", 410)])
    assert (await site.send(Upsert(patient("1", gender="male")))).reason == "deleted-at-server"


async def test_record_that_vanished_is_made_again(site, server, patient):
    """A record of which the server knows nothing (404) is resolved anew, and created where nobody has the number."""
    await site.open().send(Upsert(patient("1")))
    del server.patients["p1"]
    assert (await site.send(Upsert(patient("1", gender="male")))).reason == "created"


async def test_number_taken_meanwhile_is_resolved_once(site, server, patient, identifier):
    """409 for the number: somebody was quicker; his record is found and updated."""
    server.script.append(Step("GET", 200, body=b'{"resourceType":"Bundle","entry":[]}'))
    server.add("a", identifier=[identifier("1")], gender="male")
    verdict = await site.open().send(Upsert(patient("1")))
    assert (verdict.reason, list(server.patients)) == ("updated", ["a"])


async def test_server_that_made_two_is_held(site, server, patient, identifier):
    """A server that made a duplicate despite the condition is found out by the verification: held."""
    server.unique_mrn = False
    server.script.append(Step("GET", 200, body=b'{"resourceType":"Bundle","entry":[]}'))
    server.add("a", identifier=[identifier("1")])
    assert (await site.open().send(Upsert(patient("1")))).reason == "duplicate-after-create"


async def test_each_write_is_journaled_before_it_is_sent(site, server, patient):
    """An intent that cannot be journaled lets nothing go out."""
    site.open()

    async def broken(request):
        raise OSError("disk")

    plan = Plan("A08", "ADT|RVB", None, 0, (Upsert(patient("1")),))
    with pytest.raises(OSError, match="disk"):
        await site.destination.deliver(plan, site.memory, broken, at=datetime(2026, 3, 1, tzinfo=UTC))
    assert [request for request in server.requests if not request.startswith("GET")] == []


async def test_intents_hold_no_token(site, server, patient, monkeypatch):
    """What is journaled of a request has no Authorization header."""
    monkeypatch.setenv("TOKEN", "hush")
    await site.open(auth={"type": "bearer", "token": {"env": "TOKEN"}}).send(Upsert(patient("1")))
    assert server.headers[-1]["Authorization"] == "Bearer hush"
    assert "hush" not in str([request.headers for request in site.intents])


def identifier_of(number: str, system: str = MRN) -> dict[str, object]:
    """A medical record number as the server keeps it."""
    return {"type": {"coding": [{"code": "MR"}]}, "system": system, "value": number}


def _demographics(given: str = "Marisol") -> dict[str, object]:
    return {"name": [{"family": "Quintero", "given": [given]}], "gender": "female", "birthDate": "1984-02-29"}


def _outcome(code: str, detail: str = "") -> bytes:
    details = f',"details":{{"coding":[{{"code":"{detail}"}}]}}' if detail else ""
    return (
        '{"resourceType":"OperationOutcome","issue":[{"severity":"error",'
        f'"code":"{code}","diagnostics":"SENTINEL"{details}}}]}}'
    ).encode()


async def test_deletion_sets_the_record_inactive(site, server, identifier, patient):
    """A29: `active` false and nothing else; a second one changes nothing; a new registration wakes the record."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    site.open()
    verdict = await site.send(Upsert(patient("1", telecom=[{"value": "9"}]), inactivate=True))
    assert (verdict.reason, "inactivated" in verdict.notes) == ("updated", True)
    assert server.patients["a"]["active"] is False
    assert "telecom" not in server.patients["a"]
    assert (await site.send(Upsert(patient("1"), inactivate=True))).reason == "unchanged"
    late = await site.send(Upsert(patient("1", telecom=[{"value": "9"}])))
    assert ("inactive" in late.notes, server.patients["a"]["active"]) == (True, False)
    woken = await site.send(Upsert(patient("1"), reactivate=True))
    assert ("reactivated" in woken.notes, server.patients["a"]["active"]) == (True, True)


async def test_deletion_of_nobody_makes_nobody(site, server, patient):
    """A29 of an unknown person: there is nothing to delete."""
    verdict = await site.open().send(Upsert(patient("1"), inactivate=True))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.DELIVERED, "nothing-to-delete", [])


async def test_deletion_under_a_merged_or_renamed_number_spares_the_survivor(
    site, server, identifier, patient, merging
):
    """The person behind a number that is out of use was deleted by what took it out of use."""
    server.add("a", identifier=[identifier("1")], **PERSON)
    server.add("b", identifier=[identifier("2"), identifier("0", use="old")], **PERSON)
    site.open()
    await site.destination.check()
    await site.send(merging("1", "2"))
    for number in ("1", "0"):
        assert (await site.send(Upsert(patient(number), inactivate=True))).reason == "nothing-to-delete"
    assert server.patients["b"]["active"] is True


async def test_a_number_that_another_record_has_is_not_sent_again(site, server, patient, identifier):
    """A number that is data here and another patient's number at the server: held by its name after one refusal."""
    server.add("a", identifier=[identifier("1")])
    server.add("b", identifier=[identifier("2")])
    record = patient("1")
    site.open(if_none_exist="identifier")
    verdict = await site.send(Upsert(record._replace(identifiers=(*record.identifiers, identifier("2")))))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "duplicate-identifier")
    assert [request for request in server.requests if request.startswith("PUT")] == ["PUT Patient/a"]
    assert "duplicate-mrn" in verdict.notes
