"""Ways of creating a record (`create`), and a destination that only gets what it has not got (`writes`)."""

import asyncio
import re
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from engine.deliver.verdict import Failure, Verdict, VerdictKind
from engine.deliver.wire.creating import client_id, idempotency_key
from engine.fhir.plan import ElementChange, Identity, Keep, Plan, ResourceRecord, Upsert
from tests.deliver.conftest import AT, MRN, Remembered, Site
from tests.deliver.fake_fhir import FakeFhir, Step
from tests.destinations.aidbox_like import AidboxLike
from tests.destinations.azure_like import AzureLike
from tests.destinations.blaze_like import BlazeLike
from tests.destinations.firely_like import FirelyLike
from tests.destinations.google_like import GoogleLike
from tests.destinations.healthlake_like import CONSISTENCY, KEY, HealthLakeLike

CLIENT = {"create": "client-id", "if_none_exist": "identifier"}
KEYED = {"profile": "healthlake", "if_none_exist": "identifier"}
ONE = client_id(Identity(MRN, "1"))
VISIT = Identity("https://visits.riverbend.example", "V1")
DOUBLES = [AzureLike, GoogleLike, HealthLakeLike, AidboxLike, FirelyLike, BlazeLike]


@pytest.fixture(params=[AzureLike])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[FakeFhir]:
    """The double that the test names, that of Azure where it names none."""
    double = request.param()
    await double.start()
    yield double
    await double.stop()


def on(*kinds: type[FakeFhir]) -> pytest.MarkDecorator:
    """Give a test some doubles, one after the other."""
    return pytest.mark.parametrize("server", kinds, indirect=True, ids=lambda kind: kind.__name__)


def visit(status: str = "in-progress") -> Keep:
    """Return what a message says of a visit."""
    identifier = {"system": VISIT.system, "value": VISIT.value}
    elements = (ElementChange("status", "status", (status,), many=False),)
    return Keep(ResourceRecord("Encounter", "encounter", (VISIT,), (identifier,), elements, "subject"))


async def test_an_id_is_that_of_the_number_everywhere_and_says_nothing_of_it():
    """The same for each engine and process; of the characters that FHIR allows, and within its 64."""
    assert client_id(Identity(MRN, "4711")) == "adt-znotvgejkorvlwieiovtv26gsx62bfe4sknl2rc6rbg3pdr3jzla"
    assert re.fullmatch(r"[A-Za-z0-9.-]{1,64}", client_id(Identity(MRN, "4711")))
    assert client_id(Identity(MRN, "4711")) != client_id(Identity(f"{MRN}/", "4711"))


async def test_a_key_is_a_uuid_of_entry_type_and_number():
    """HealthLake refuses what is no UUID; each try of an entry has the same one, and no other create has it."""
    key = idempotency_key(7, "Patient", Identity(MRN, "4711"))
    assert str(UUID(key)) == key
    others = {
        idempotency_key(8, "Patient", Identity(MRN, "4711")),
        idempotency_key(7, "Encounter", Identity(MRN, "4711")),
        idempotency_key(7, "Patient", Identity(MRN, "4712")),
    }
    assert len(others | {key}) == 4


@on(*DOUBLES)
async def test_a_new_patient_and_visit_are_put_once(site, server, patient):
    """Both are put under the ids of their numbers, with If-None-Match; the next message updates them."""
    verdict = await site.open(**CLIENT).send(Upsert(patient("1")), visit())
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
    assert server.effects == [f"create {ONE}", f"create Encounter/{client_id(VISIT)}"]
    puts = [at for at, request in enumerate(server.requests) if request.startswith("PUT")]
    assert [server.headers[at].get("If-None-Match") for at in puts] == ["*", "*"]
    assert [intent.method for intent in site.intents] == ["PUT", "PUT"]
    verdict = await site.send(Upsert(patient("1", gender="male")), visit("finished"))
    assert (verdict.reason, server.patients[ONE]["gender"]) == ("updated", "male")


@on(*DOUBLES)
@pytest.mark.parametrize("committed", [True, False], ids=["taken", "not taken"])
async def test_a_lost_answer_to_a_put_makes_nobody_twice(site, server, patient, committed):
    """What became of it is read by the id, even where nothing is remembered and searches are behind."""
    server.script.append(Step("PUT", commit=committed, drop=True))
    site.open(**CLIENT)
    assert (await site.send(Upsert(patient("1")))).failure is Failure.AMBIGUOUS
    site.memory = Remembered()
    verdict = await site.send(Upsert(patient("1")), ambiguous=True, attempts_made=1)
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "unchanged" if committed else "created")
    assert (list(server.patients), server.effects) == ([ONE], [f"create {ONE}"])


@on(HealthLakeLike)
async def test_an_engine_that_forgot_all_finds_the_record_by_its_id(site, server, patient):
    """A search that is behind shows nobody; the record under the number's id is the patient's, and is updated."""
    await site.open(**CLIENT).send(Upsert(patient("1")))
    await site.close()
    site.memory = Remembered()
    verdict = await site.open(**CLIENT).send(Upsert(patient("1", gender="male")))
    assert (verdict.reason, list(server.patients)) == ("updated", [ONE])


@on(*DOUBLES)
@pytest.mark.parametrize("honours", [True, False], ids=["honours", "ignores"])
async def test_two_engines_at_once_make_one_record(server, patient, honours):
    """Both find nobody and put: the second one is refused, reads and goes on; or it is noted that it was not."""
    server.honours_if_none_match = honours
    sites = [Site(server.base).open(**CLIENT) for _ in range(2)]
    verdicts = await asyncio.gather(*(each.send(Upsert(patient("1"))) for each in sites))
    for each in sites:
        await each.close()
    assert ({verdict.kind for verdict in verdicts}, list(server.patients)) == ({VerdictKind.DELIVERED}, [ONE])


async def test_what_came_between_is_judged_as_a_found_record(site, server, patient, identifier):
    """Refused with 412, the record is read: this patient's is updated, not overwritten."""

    def between(method: str, path: str) -> None:
        if method == "PUT" and ONE not in server.patients:
            server.add(ONE, identifier=[identifier("1")], maritalStatus={"text": "married"})

    server.before = between
    verdict = await site.open(**CLIENT).send(Upsert(patient("1")))
    assert (verdict.reason, server.patients[ONE]["maritalStatus"]) == ("updated", {"text": "married"})
    assert server.patients[ONE]["gender"] == "female"


@pytest.mark.parametrize("status", [304, 409, 412])
async def test_each_way_of_saying_that_it_is_there_is_read(site, server, patient, identifier, status):
    """304, 409 and 412 say the same of a create that must not overwrite."""

    def between(method: str, path: str) -> None:
        if method == "PUT" and ONE not in server.patients:
            server.add(ONE, identifier=[identifier("1")])

    server.before = between
    server.script.append(Step("PUT", status=status))
    verdict = await site.open(**CLIENT).send(Upsert(patient("1")))
    assert (verdict.kind, verdict.reason, list(server.patients)) == (VerdictKind.DELIVERED, "updated", [ONE])


@pytest.mark.parametrize("status", [304, 409, 412])
async def test_what_is_said_to_be_there_and_is_not_is_tried_again(site, server, patient, status):
    """A lock passes (409 of Google, ABORTED), and nobody is held for it."""
    server.script.append(Step("PUT", status=status))
    verdict = await site.open(**CLIENT).send(Upsert(patient("1")))
    assert (verdict.kind, verdict.reason) == (VerdictKind.RETRY, "create-unclear")
    assert (await site.send(Upsert(patient("1")), ambiguous=True, attempts_made=1)).reason == "created"


async def test_a_number_that_another_record_has_by_the_servers_rule_is_held(site, server, patient, identifier):
    """The server refuses the number as a duplicate, and shows nobody who has it: a person looks."""
    server.unique_mrn, server.survivor_for_old_numbers = True, False
    server.add("theirs", identifier=[identifier("1")])
    server._found = lambda _request, _type: []
    verdict = await site.open(**CLIENT).send(Upsert(patient("1")))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "duplicate-identifier")
    assert server.effects == []


async def test_a_server_that_ignores_if_none_match_is_noted(site, server, patient, identifier):
    """What came between the read and the put was overwritten: there is still one record, and the entry says so."""
    server.honours_if_none_match = False

    def between(method: str, path: str) -> None:
        if method == "PUT" and ONE not in server.patients:
            server.add(ONE, identifier=[identifier("1")])

    server.before = between
    verdict = await site.open(**CLIENT).send(Upsert(patient("1")))
    assert (verdict.kind, "if-none-match-ignored" in verdict.notes) == (VerdictKind.DELIVERED, True)
    assert list(server.patients) == [ONE]


async def test_an_id_that_another_number_has_is_held(site, server, patient, identifier):
    """A record under the id that has not got the number is not this patient's, and is never overwritten."""
    server.add(ONE, identifier=[identifier("2")], gender="male")
    verdict = await site.open(**CLIENT).send(Upsert(patient("1")))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "id-of-another-record")
    assert [reference for reference, *_ in verdict.involved] == [f"Patient/{ONE}"]
    assert (server.effects, server.patients[ONE]["gender"]) == ([], "male")


@on(HealthLakeLike)
async def test_a_number_that_was_merged_away_leads_to_its_survivor(site, server, patient, identifier):
    """The record under the id was replaced: the message goes to its survivor, though searches show neither."""
    server.add("survivor", identifier=[identifier("2")], name=[{"family": "Quintero", "given": ["Marisol"]}])
    link = [{"type": "replaced-by", "other": {"reference": "Patient/survivor"}}]
    server.add(ONE, identifier=[identifier("1")], active=False, link=link)
    verdict = await site.open(**CLIENT).send(Upsert(patient("1")))
    assert (verdict.kind, "redirected-to-survivor" in verdict.notes) == (VerdictKind.DELIVERED, True)
    assert server.effects == ["update survivor"]


async def test_a_deleted_record_is_not_made_again_under_its_id(site, server, patient):
    """What somebody deleted stays deleted, unless this channel deletes itself."""
    server.gone.add(ONE)
    verdict = await site.open(**CLIENT).send(Upsert(patient("1")))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "deleted-at-server", [])
    await site.close()
    verdict = await site.open(**CLIENT, deleted_person="delete").send(Upsert(patient("1")))
    assert (verdict.reason, server.effects) == ("created", [f"create {ONE}"])


async def test_a_deleted_side_of_a_link_is_not_made_again(site, server, identifier, linking):
    """Neither by what else creates a patient than a message about it."""
    server.add("theirs", identifier=[identifier("2")])
    server.gone.add(ONE)
    verdict = await site.open(**CLIENT).send(linking("1", "2"))
    assert (verdict.kind, verdict.reason, server.effects) == (VerdictKind.HELD, "deleted-at-server", [])


async def test_a_stand_in_is_created_by_its_number(site, server, patient):
    """No demographics are asked, so that a newborn without a name is created as everybody is."""
    verdict = await site.open(**CLIENT).send(Upsert(patient("1", placeholder=True, given=None, family=None)))
    assert (verdict.reason, list(server.patients)) == ("created", [ONE])


@pytest.mark.parametrize("answered", [404, 405])
async def test_a_server_that_takes_no_ids_refuses_the_destination(site, server, patient, answered):
    """Nobody would fare better: the destination is down by that name, and no patient is held."""
    server.update_create = False
    if answered == 405:
        server.script.append(Step("PUT", status=405))
    site.open(**CLIENT)
    await site.destination.check()
    assert "no-client-ids" in site.destination.missing()
    verdict = await site.send(Upsert(patient("1")))
    assert (verdict.kind, verdict.reason) == (VerdictKind.RETRY, "client-ids-refused")
    assert (verdict.failure, server.effects) == (Failure.DESTINATION, [])


@pytest.mark.parametrize(("says", "kind"), [(False, VerdictKind.RETRY), (None, VerdictKind.HELD)])
async def test_a_400_is_the_servers_where_it_states_that_it_takes_no_ids(site, server, patient, says, kind):
    """Else it is of what this message says, and holds this patient only."""
    server.update_create = says
    server.script.append(Step("PUT", status=400))
    site.open(**CLIENT)
    await site.destination.check()
    verdict = await site.send(Upsert(patient("1")))
    assert (verdict.kind, verdict.reason) == (kind, "client-ids-refused" if says is False else "http-400")


async def test_a_server_that_gives_another_id_is_held(site, server, patient):
    """What was made is named: a retry would make another one."""
    other = b'{"resourceType": "Patient", "id": "7", "meta": {"versionId": "1"}}'
    server.script.append(Step("PUT", status=201, body=other))
    verdict = await site.open(**CLIENT).send(Upsert(patient("1")))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "client-ids-refused")
    assert [reference for reference, *_ in verdict.involved] == ["Patient/7"]


async def test_a_record_of_the_servers_own_id_is_found_by_its_number(site, server, patient, identifier):
    """What is there already is updated under the id that it has, whoever made it."""
    server.add("theirs", identifier=[identifier("1")])
    verdict = await site.open(**CLIENT).send(Upsert(patient("1")))
    assert (verdict.reason, server.effects) == ("updated", ["update theirs"])


@on(HealthLakeLike)
@pytest.mark.parametrize("shown", [True, False], ids=["body", "location"])
async def test_a_repeated_create_is_done_already(site, server, patient, shown):
    """A lost answer, and a search that is behind: the same key makes nothing, and what it made is read."""
    server.shows_original = shown
    server.script.append(Step("POST", commit=True, drop=True))
    site.open(**KEYED)
    assert (await site.send(Upsert(patient("1")), entry=7)).failure is Failure.AMBIGUOUS
    server.script.append(Step("GET", body=b'{"resourceType": "Bundle", "type": "searchset"}'))
    verdict = await site.send(Upsert(patient("1")), entry=7, ambiguous=True, attempts_made=1)
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "unchanged")
    assert (server.effects, server.repeats) == (["create p1"], 1)
    keys = {dict(intent.headers)[KEY] for intent in site.intents}
    assert keys == {idempotency_key(7, "Patient", Identity(MRN, "1"))}


@on(HealthLakeLike)
async def test_a_409_that_names_nothing_is_never_taken_for_done(site, server, patient):
    """Neither a record nor its place, and no search finds one: it is tried again."""
    server.script.append(Step("POST", status=409))
    verdict = await site.open(**KEYED).send(Upsert(patient("1")), entry=7)
    assert (verdict.kind, verdict.reason) == (VerdictKind.RETRY, "create-unclear")
    assert server.effects == []


@on(HealthLakeLike)
async def test_an_original_that_was_deleted_since_is_held(site, server, patient):
    """The key was used and its record is gone: nothing says that it may be made again."""
    await site.open(**KEYED).send(Upsert(patient("1")), entry=7)
    server.patients.clear()
    server.gone.add("p1")
    site.memory = Remembered()
    await site.close()
    verdict = await site.open(**KEYED).send(Upsert(patient("1")), entry=7)
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "deleted-at-server")


@on(HealthLakeLike)
async def test_reads_and_searches_ask_for_what_was_written_last(site, server, patient):
    """With keys every read and search is strong; without them none is."""
    await site.open(**KEYED).send(Upsert(patient("1")), visit(), entry=7)
    levels = {
        server.headers[at].get(CONSISTENCY) for at, request in enumerate(server.requests) if request.startswith("GET")
    }
    assert levels == {"strong"}
    assert [reference.partition("/")[0] for reference in server.chart] == ["Encounter"]
    assert len(server.keys) == 2


async def test_a_bare_match_is_found_by_the_condition(site, server, patient, identifier):
    """A conditional create that matched says neither what nor where: the same condition finds it."""

    body = {"identifier": [{"system": VISIT.system, "value": VISIT.value}], "subject": {"reference": "Patient/theirs"}}

    def between(method: str, path: str) -> None:
        if method == "POST" and not server.patients:
            server.add("theirs", identifier=[identifier("1")])
            server._keep("Encounter/v", {"resourceType": "Encounter", **body})

    server.before = between
    verdict = await site.open(if_none_exist="identifier").send(Upsert(patient("1")), visit())
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "updated")
    assert server.effects == ["update theirs", "update Encounter/v"]


async def test_a_bare_match_in_a_transaction_is_found_by_the_condition(site, server, patient):
    """What another engine made is found and updated, and transactions go on being sent."""
    place = Identity("https://places.riverbend.example", "W1")
    ward = Keep(ResourceRecord("Location", "ward", (place,), ({"system": place.system, "value": "W1"},), ()))

    async def tell() -> Verdict:
        site.memory = Remembered()
        site.open(if_none_exist="identifier")
        await site.destination.check()
        verdict = await site.send(Upsert(patient("1")), ward, visit())
        await site.close()
        return verdict

    verdicts = [await tell(), await tell()]
    assert [verdict.kind for verdict in verdicts] == [VerdictKind.DELIVERED] * 2
    assert server.requests.count("POST /fhir/R4") == 2
    assert not any("transaction" in note for verdict in verdicts for note in verdict.notes)
    assert len(server.chart) == 2


@on(*DOUBLES)
@pytest.mark.parametrize("create", ["conditional", "client-id", "idempotency-key"])
async def test_only_what_is_not_there_is_written(site, server, patient, identifier, merging, renaming, create):
    """A known patient, a merge and a change of number are notes; the new visit of a known patient is made."""
    server.add("a", identifier=[identifier("1")], gender="male")
    server.add("b", identifier=[identifier("2")])
    if isinstance(server, HealthLakeLike):
        server.index()
    site.open(writes="create-only", profile="healthlake", create=create, if_none_exist="identifier")
    verdicts = [
        await site.send(Upsert(patient("1")), visit(), entry=1),
        await site.send(Upsert(patient("1")), visit("finished"), entry=2),
        await site.send(merging("2", "1"), entry=3),
        await site.send(renaming("2", "9"), entry=4),
        await site.send(Upsert(patient("1"), inactivate=True), entry=5),
        await site.send(Upsert(patient("3")), entry=6),
    ]
    assert [verdict.kind for verdict in verdicts] == [VerdictKind.DELIVERED] * 6
    assert [verdict.reason for verdict in verdicts] == ["created", *["not-written"] * 4, "created"]
    assert [[note for note in verdict.notes if note.startswith("not-written")] for verdict in verdicts] == [
        ["not-written Patient"],
        ["not-written Patient", "not-written Encounter"],
        ["not-written merge"],
        ["not-written change-of-number"],
        ["not-written Patient"],
        [],
    ]
    assert [effect.partition(" ")[0] for effect in server.effects] == ["create", "create"]
    assert server.patients["a"]["gender"] == "male"


async def test_a_dry_run_shows_the_put(site, server, patient):
    """The create under the number's id is shown and nothing is sent."""
    site.open(**CLIENT)
    run = await site.destination.dry_run(Plan("A08", "ADT|RVB", AT, 14, (Upsert(patient("1")),)), site.memory, at=AT)
    assert [(call.method, call.path) for call in run.calls] == [("PUT", f"Patient/{ONE}")]
    assert (run.verdict.reason, server.effects) == ("created", [])
