"""Another person under a number that is out of use: nothing of theirs reaches the chart that had it before."""

from types import SimpleNamespace

import pytest

from engine.deliver.verdict import KnownIdentifier, VerdictKind
from engine.fhir.plan import Identity, Link, Move, Upsert
from tests.deliver.conftest import MRN, THIN, Site
from tests.deliver.resources.test_resource_upsert import plan
from tests.flow.hapi_like import HapiLike

KIM = {"family": "Kim", "given": "Ada", "gender": "female", "birthDate": "1954-03-03"}
WALLY = {"family": "Wrong", "given": "Wally", "gender": "male", "birthDate": "2003-01-01"}
OLD = Identity(MRN, "2")
REUSED = (VerdictKind.HELD, "merged-identifier-reused")


@pytest.fixture
async def hapi():
    """A server that finds records by their old numbers."""
    server = HapiLike()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def feed(hapi):
    """A destination for it that has read the CapabilityStatement."""
    site = Site(hapi.base).open(if_none_exist="identifier")
    await site.destination.check()
    yield site
    await site.close()


async def absent(site, patient, merging, **_others):
    """A merge of a number that nobody knew: it is kept as an old one."""
    await site.send(Upsert(patient("1", **KIM)))
    assert (await site.send(merging("2", "1"))).reason == "source-absent"


async def made(site, merging, **_others):
    """The same, where the merge itself made the survivor."""
    assert (await site.send(merging("2", "1", **KIM))).reason == "source-absent"


async def merged(site, patient, merging, **_others):
    """A merge of two records, at a server that gives the survivor the other's numbers as old ones."""
    await site.send(Upsert(patient("1", **KIM)))
    await site.send(Upsert(patient("2", **KIM)))
    assert (await site.send(merging("2", "1"))).reason == "merged"


async def renamed(site, patient, renaming, **_others):
    """A change of number (A47)."""
    await site.send(Upsert(patient("2", **KIM)))
    assert (await site.send(renaming("2", "1"))).reason == "renamed"


async def thin(site, patient, merging, **_others):
    """A merge into a number that nobody knew, by a PID too thin for a record: a change of number."""
    await site.send(Upsert(patient("2", **KIM)))
    site.open(if_none_exist="identifier", unknown_survivor="rename")
    assert (await site.send(merging("2", "1"))).reason == "renamed"


async def elsewhere(site, hapi, patient, identifier, **_others):
    """The record came about without the engine."""
    await site.send(Upsert(patient("1", **KIM)))
    hapi.touch("1000", identifier=[identifier("1"), identifier("2", use="old")])
    site.memory = type(site.memory)()


WAYS = (absent, made, merged, renamed, thin, elsewhere)


async def warm(site, patient):
    """Kim's own message under the old number goes on as ever, and is cached under that number."""
    verdict = await site.send(Upsert(patient("2", **KIM, telecom=[{"value": "7"}])))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "updated")


async def cold(site, patient):
    """A restart: only the journal remembers."""
    await site.close()
    site.open(if_none_exist="identifier")
    await site.destination.check()


async def forgotten(site, patient):
    """A restart with a new journal."""
    site.memory = type(site.memory)()
    await cold(site, patient)


async def chosen(site, patient):
    """An operator chose this record for the number once."""
    known = await site.memory.known([OLD])
    logical_id = known[OLD].survivor or known[OLD].logical_id if known else "1000"
    site.memory.identities[OLD] = KnownIdentifier(OLD, logical_id, "chosen")
    await cold(site, patient)


@pytest.fixture
def make(hapi, patient, merging, renaming, identifier):
    """What makes messages, and the server, by name."""
    return SimpleNamespace(hapi=hapi, patient=patient, merging=merging, renaming=renaming, identifier=identifier)


@pytest.fixture
def kim(hapi):
    """Kim's chart as it stands, and that it carries the number 2 as an old one."""

    def chart():
        (body,) = [one for one in hapi.numbered("1") if one["active"]]
        uses = {item["value"]: item.get("use") for item in body["identifier"]}
        assert (uses["1"], uses["2"]) == (None, "old")
        return body

    return chart


@pytest.mark.parametrize("state", [warm, cold, forgotten, chosen])
@pytest.mark.parametrize("way", WAYS)
async def test_a_number_given_out_again_overwrites_nobody(feed, kim, patient, make, way, state):
    """However the number fell out of use, and whatever is remembered; then Kim's own message goes on as ever."""
    await way(feed, **vars(make))
    await state(feed, patient)
    before = kim()
    for options in ({}, {"replay": True}):
        verdict = await feed.send(Upsert(patient("2", **WALLY)), **options)
        assert (verdict.kind, verdict.reason) == REUSED
    assert kim() == before
    verdict = await feed.send(Upsert(patient("2", **KIM, telecom=[{"value": "9"}])))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "updated")
    assert kim()["telecom"] == [{"value": "9"}]


async def test_an_admission_of_somebody_else_puts_no_visit_on_the_chart(feed, hapi, kim, patient, merging):
    """The visit comes after the patient in the plan: nothing of it is written."""
    await absent(feed, patient, merging)
    done = list(hapi.effects)
    verdict = await feed.deliver(plan("A01", "2", "V1"))
    assert (verdict.kind, verdict.reason, hapi.effects) == (*REUSED, done)
    assert hapi.chart == {}


async def test_a_conditional_create_that_meets_the_old_number_is_held(feed, hapi, kim, patient, merging):
    """The search hides the chart and nothing is remembered: the create's condition finds it, by an old number."""
    await absent(feed, patient, merging)
    await forgotten(feed, patient)
    hapi.honours_no_cache = False
    hapi.cached(f"Patient?identifier={MRN}|2")
    before = kim()
    verdict = await feed.send(Upsert(patient("2", **WALLY)))
    assert (verdict.kind, verdict.reason) == REUSED
    assert (hapi.searches[-1][1], kim()) == (True, before)


def asks(patient, merging, identifier):
    """Every other message that would act on the chart of the old number, by what it is."""
    wally = patient("2", **WALLY)
    nine = Identity(MRN, "9")
    return {
        "survivor of a merge": merging("3", "2", **WALLY),
        "survivor of a merge of nobody": merging("8", "2", **WALLY),
        "one side of a link": Link(patient("3", **WALLY), wally),
        "the other side of a link": Link(wally, patient("3", **WALLY)),
        "a link undone": Link(wally, patient("3", **WALLY), undo=True),
        "whom a number moves to": Move((nine,), (identifier("9"),), (), wally),
    }


@pytest.mark.parametrize(
    "name",
    [
        *("survivor of a merge", "survivor of a merge of nobody", "one side of a link", "the other side of a link"),
        *("a link undone", "whom a number moves to"),
    ],
)
@pytest.mark.parametrize("way", [absent, merged])
async def test_nothing_else_reaches_the_chart_either(feed, hapi, kim, make, way, name):
    """A merge into it, a link, a move of a number to it: each names the old number and speaks of another person."""
    await way(feed, **vars(make))
    await feed.send(Upsert(make.patient("3", "9", **WALLY)))
    done = list(hapi.effects)
    verdict = await feed.send(asks(make.patient, make.merging, make.identifier)[name])
    assert (verdict.kind, verdict.reason, hapi.effects) == (*REUSED, done)


async def test_a_change_of_an_old_number_of_another_system_is_held(feed, hapi, patient, renaming, identifier):
    """A record that has no current number of the system: the change would be made, to a stranger's new number."""
    hapi.add(
        "k",
        identifier=[identifier("1", system="urn:other"), identifier("2", use="old")],
        name=[{"family": "Kim", "given": ["Ada"]}],
        birthDate="1954-03-03",
    )
    verdict = await feed.send(renaming("2", "7", **WALLY))
    assert (verdict.kind, verdict.reason, hapi.effects) == (*REUSED, [])


@pytest.mark.parametrize("sources", [("2",), ("8", "2"), ("2", "8")])
async def test_an_old_number_is_no_source_of_a_merge(feed, hapi, kim, patient, merging, identifier, sources):
    """MRG names a number that was given out again, alone or beside an unknown one: Kim is merged into nobody."""
    await absent(feed, patient, merging)
    await feed.send(Upsert(patient("3", **WALLY)))
    done = list(hapi.effects)
    asked = merging(sources[0], "3")
    numbers = tuple(Identity(MRN, source) for source in sources)
    verdict = await feed.send(asked._replace(sources=numbers, source_identifiers=tuple(map(identifier, sources))))
    assert verdict.kind is VerdictKind.HELD
    assert verdict.reason in {"source-merged-elsewhere", "merge-lists-several"}
    assert hapi.effects == done


async def test_an_old_number_beside_one_of_another_system_is_no_source_of_a_merge(feed, hapi, kim, patient, merging):
    """The pair to be merged has a number that nobody knows; what was found, was found by the old one alone."""
    await absent(feed, patient, merging)
    await feed.send(Upsert(patient("3", **KIM)))
    done = list(hapi.effects)
    other = Identity("urn:other", "8")
    verdict = await feed.send(merging("2", "3")._replace(source=other, sources=(other, OLD)))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "source-merged-elsewhere")
    assert hapi.effects == done


@pytest.mark.parametrize("way", [absent, merged])
async def test_a_channel_may_hold_every_message_of_an_old_number(feed, hapi, kim, patient, merging, way):
    """`merged_identifier: hold` holds Kim's own message, too; a message of her present number goes on."""
    await way(feed, patient=patient, merging=merging)
    await feed.close()
    feed.open(if_none_exist="identifier", merged_identifier="hold")
    await feed.destination.check()
    held = await feed.send(Upsert(patient("2", **KIM, telecom=[{"value": "7"}])))
    assert (held.kind, held.reason) == (VerdictKind.HELD, "merged-identifier")
    both = await feed.send(Upsert(patient("1", "2", **KIM, telecom=[{"value": "7"}])))
    assert (both.kind, both.reason) == (VerdictKind.DELIVERED, "updated")
    assert (await feed.send(merging("2", "1"))).reason == "already-merged"


async def test_a_current_number_beside_the_old_one_is_flagged_as_ever(feed, kim, patient, merging):
    """Found by a number in use, another name is `overlay-suspected`: the old number beside it decides nothing."""
    await absent(feed, patient, merging)
    verdict = await feed.send(Upsert(patient("1", "2", **WALLY)))
    assert (verdict.reason, "overlay-suspected" in verdict.notes) == ("updated", True)


async def test_who_says_nothing_of_the_person_goes_on(feed, kim, patient, merging):
    """A message without name and birth date under the old number decides nothing, and is Kim's."""
    await absent(feed, patient, merging)
    verdict = await feed.send(Upsert(patient("2", **THIN | {"telecom": [{"value": "7"}]})))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "updated")
