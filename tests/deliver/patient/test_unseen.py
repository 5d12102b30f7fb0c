"""What the engine wrote and a search hides, at a server whose searches are as old as can be, whatever is asked."""

import pytest

from engine.deliver.verdict import KnownIdentifier, VerdictKind
from engine.fhir.plan import Identity, Move, Plan, Upsert
from tests.deliver.conftest import AT, MRN, Site
from tests.deliver.fake_fhir import Step
from tests.deliver.resources.test_resource_upsert import plan
from tests.flow.hapi_like import FOR_EVER, HapiLike


@pytest.fixture
async def hapi():
    """A server that answers every search as it answered it first, and creates without a condition."""
    server = HapiLike()
    server.honours_no_cache, server.conditional, server.cache_seconds = False, False, FOR_EVER
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def blind(hapi):
    """A destination for it that has read the CapabilityStatement."""
    site = Site(hapi.base).open(if_none_exist="identifier")
    await site.destination.check()
    yield site
    await site.close()


async def test_a_replay_makes_no_second_record(blind, hapi, patient):
    """A replay asks the server anew, which shows nobody: the record is read by its id, and is as it should be."""
    told = Upsert(patient("1"))
    assert (await blind.send(told)).reason == "created"
    assert (await blind.send(told, replay=True)).reason == "unchanged"
    assert hapi.effects == ["create 1000"]


async def test_a_record_without_its_number_is_not_the_one(blind, hapi, patient, identifier):
    """Somebody took the number off the record at the server: both search and record say that nobody has it."""
    await blind.send(Upsert(patient("1")))
    hapi.touch("1000", identifier=[identifier("7")])
    assert (await blind.send(Upsert(patient("1")), replay=True)).reason == "created"
    assert [item["value"] for item in hapi.patients["1000"]["identifier"]] == ["7"]


async def test_a_record_that_was_deleted_is_not_made_again(blind, hapi, patient):
    """Deleted is not hidden: held, as nobody but a person knows why."""
    await blind.send(Upsert(patient("1")))
    hapi.deletes = True
    hapi._delete("1000")
    verdict = await blind.send(Upsert(patient("1")), replay=True)
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "deleted-at-server")


async def test_a_record_that_another_one_replaced_elsewhere_is_followed(blind, hapi, patient, identifier):
    """Another system merged it and took its numbers along: the survivor has it now."""
    await blind.send(Upsert(patient("1")))
    hapi.add("s", identifier=[identifier("1"), identifier("2")])
    link = {"other": {"reference": "Patient/s"}, "type": "replaced-by"}
    hapi.touch("1000", identifier=[], active=False, link=[link])
    assert (await blind.send(Upsert(patient("1", telecom=[{"value": "7"}])), replay=True)).reason == "updated"
    assert hapi.patients["s"]["telecom"] == [{"value": "7"}]


async def test_a_stale_match_gives_way_to_the_record_that_has_the_number(blind, hapi, patient, identifier):
    """A search still shows whom the number has left (A43); the one who has it now is read."""
    await blind.send(Upsert(patient("1", "9")))
    await blind.send(Upsert(patient("2")))
    nine = Identity(MRN, "9")
    hapi.touch("1000", telecom=[{"value": "0"}])
    await blind.send(Move((nine,), (identifier("9"),), (), patient("2")))
    told = Upsert(patient("9", telecom=[{"value": "7"}]))
    assert (await blind.send(told, replay=True)).reason == "updated"
    assert (hapi.patients["1001"]["telecom"], hapi.patients["1000"]["telecom"]) == ([{"value": "7"}], [{"value": "0"}])


async def test_two_records_of_two_numbers_are_a_conflict_though_one_is_hidden(blind, hapi, patient):
    """A message that names two known numbers of two records: the search of a while ago shows one of them."""
    await blind.send(Upsert(patient("1")))
    hapi.cached(f"Patient?identifier={MRN}|1,{MRN}|2", "1000")
    both = Upsert(patient("1", "2", family="Osei", birthDate="1950-01-01"))
    await blind.send(Upsert(patient("2", family="Osei", birthDate="1950-01-01")))
    verdict = await blind.send(both)
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "identity-conflict")
    assert hapi.searches[-1][1]


async def test_a_merge_into_a_record_that_is_gone_is_held(blind, hapi, patient, merging):
    """All that is known of a number is a merge into a record that is not there: never a new record for it."""
    await blind.send(Upsert(patient("1")))
    await blind.send(Upsert(patient("2")))
    assert (await blind.send(merging("2", "1"))).reason == "merged"
    for logical_id in ("1000", "1001"):
        hapi.lose(f"Patient/{logical_id}")
    verdict = await blind.send(Upsert(patient("2")))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "survivor-missing")


async def test_a_survivor_whose_answer_was_lost_is_not_made_twice(blind, hapi, patient, merging):
    """A merge that had to make its survivor: the next try finds it by the condition, however blind the search is."""
    hapi.conditional = True
    await blind.send(Upsert(patient("1")))
    whole = {"family": "Quintero", "given": "Marisol", "gender": "female", "birthDate": "1984-02-29"}
    hapi.script.append(Step("POST", commit=True, drop=True))
    assert (await blind.send(merging("1", "2", **whole))).kind is VerdictKind.RETRY
    verdict = await blind.send(merging("1", "2", **whole), ambiguous=True, attempts_made=1)
    assert (verdict.reason, hapi.effects) == ("merged", ["create 1000", "create 1001", "merge 1000 into 1001"])


async def test_a_condition_that_meets_a_merged_away_record_makes_none(blind, hapi, patient, identifier):
    """A number that nobody here ever heard of belongs to a tombstone that the search hides: held, not given again."""
    hapi.conditional = True
    link = {"other": {"reference": "Patient/s"}, "type": "replaced-by"}
    hapi.add("s", identifier=[identifier("1")])
    hapi.add("t", identifier=[identifier("2")], active=False, link=[link])
    hapi.cached(f"Patient?identifier={MRN}|2")
    verdict = await blind.send(Upsert(patient("2")))
    assert (verdict.kind, verdict.reason, hapi.effects) == (VerdictKind.HELD, "duplicate-identifier", [])


async def test_a_cancel_of_a_hidden_visit_cancels_it(blind, hapi):
    """A replayed cancel asks the server anew, which shows no visit: it is read by its id."""
    await blind.deliver(plan("A01", "1", "V1"))
    assert (await blind.deliver(plan("A11", "1", "V1"), replay=True)).reason == "updated"
    assert [one["status"] for one in hapi.of("Encounter")] == ["cancelled"]
    assert len(hapi.of("Location")) == 4


async def test_a_cancel_makes_no_visit_that_the_server_lost(blind, hapi):
    """A visit that is remembered and not there any more: nothing to cancel, and none is made."""
    await blind.deliver(plan("A01", "1", "V1"))
    for reference in [name for name in hapi.chart if name.startswith("Encounter/")]:
        hapi.lose(reference)
    assert (await blind.deliver(plan("A11", "1", "V1"))).reason == "nothing-to-cancel"
    assert hapi.of("Encounter") == []


async def test_an_operator_is_shown_what_the_search_hides(blind, patient):
    """The question behind a hold names the record that the engine wrote."""
    await blind.send(Upsert(patient("1")))
    asked = await blind.destination.question(Plan("A08", "s", AT, 14, (Upsert(patient("1")),)), blind.memory, at=AT)
    assert [match.logical_id for match in asked.matches] == ["1000"]


async def test_first_sight_costs_no_further_request(blind, hapi, patient):
    """Nobody is known: a search, a create, and its check; a known one costs a look at its record and the update."""
    await blind.send(Upsert(patient("1")))
    assert [one.partition("?")[0] for one in hapi.requests[1:]] == ["GET Patient", "POST Patient", "GET Patient"]
    await blind.close()
    blind.open(if_none_exist="identifier")
    del hapi.requests[:]
    await blind.send(Upsert(patient("1", telecom=[{"value": "7"}])))
    assert hapi.requests == ["GET Patient/1000", "PUT Patient/1000"]


async def test_what_an_operator_chose_counts_though_the_search_hides_it(blind, hapi, patient, identifier):
    """The chosen one of two is hidden by a search of before: it is the one all the same."""
    hapi.add("a", identifier=[identifier("1")])
    hapi.add("b", identifier=[identifier("1")])
    one = Identity(MRN, "1")
    blind.memory.identities[one] = KnownIdentifier(one, "b", "chosen")
    hapi.cached(f"Patient?identifier={MRN}|1", "a")
    assert (await blind.send(Upsert(patient("1")), replay=True)).reason == "updated"
    assert "name" in hapi.patients["b"]
