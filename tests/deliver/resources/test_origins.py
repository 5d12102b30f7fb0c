"""Where things come from, roles, guarantors and payors: at the interchange service, and at servers without them."""

import pytest

from engine.deliver.verdict import VerdictKind
from engine.deliver.wire.abilities import abilities_of
from engine.fhir.plan import Attest
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.compile import compile_mapping
from tests.deliver.conftest import AT, MRN
from tests.deliver.fake_fhir import Step
from tests.deliver.resources.test_lists import ALL, EAST, SOURCE, TYPES, Feed, states

MAPPING = compile_mapping(
    sending(SOURCE, (*TYPES, "PractitionerRole", "Provenance")), channel_of({"authorities": {"RVB": MRN, "EAST": EAST}})
)
BARE = compile_mapping(sending(SOURCE, ("Patient", "Provenance")), channel_of({"authorities": {"RVB": MRN}}))
ROLES = (
    "ROL|R-1|AD|AT|1187^Osei^Ada|20260301080000||||310^Surgeon^L||||3W|Surgery^^^^^^^^^S1",
    "ROL|R-2|AD|OP|1188^Brandt^Cem",
)
PAYING = "GT1|1|G-1|Silva^Carla|||||||||MTH"


@pytest.fixture
def feed(request, service_site, interchange):
    """A feed whose patient no other test uses, of a site that sends everything."""
    name = "".join(letter for letter in request.node.name if letter.isalnum())
    return Feed(service_site, interchange, name, mapping=MAPPING)


def origins(feed):
    """What the Provenances of a patient name, newest last."""
    found = feed.listed("Provenance")
    return [{one["reference"] for one in body["target"]} for body in found]


def attested(plan):
    """The step of a plan that says where all of it comes from."""
    (found,) = (interaction for interaction in plan.interactions if isinstance(interaction, Attest))
    return found


async def test_what_was_written_comes_from_the_message(feed):
    """A Provenance names everything that a message wrote; sent again nothing is written, and none is made."""
    await feed.say(*ALL)
    (origin,) = feed.listed("Provenance")
    assert origin["id"] == attested(feed.plan).id
    types = {one["reference"].split("/")[0] for one in origin["target"]}
    assert {"Patient", "Encounter", "Condition", "Coverage", "Account"} <= types
    assert f"Patient/{feed.patient()}" in {one["reference"] for one in origin["target"]}
    assert origin["entity"][0]["what"]["identifier"]["value"].startswith("A01")  # MSH-10
    (agent,) = origin["agent"]
    assert agent["who"]["reference"].startswith("Organization/")  # MSH-4
    feed.day -= 1
    await feed.say(*ALL)
    assert feed.writes == []
    await feed.say(*ALL)
    assert feed.writes == []  # another message, which changes nothing
    assert len(feed.listed("Provenance")) == 1


async def test_each_message_tells_of_what_it_wrote_alone(feed):
    """A message that changes one thing tells of that thing."""
    await feed.say(*ALL)
    await feed.say("AL1|1|FA|^Peanut", event="A08")
    peanut = next(one for one in feed.listed("AllergyIntolerance") if one["code"]["text"] == "Peanut")
    found = feed.entries("Provenance", f"target=Patient/{feed.patient()}")
    assert len(found) == 1
    answer = feed.service.ask("GET", f"/fhir/R4/Provenance/{attested(feed.plan).id}", client="physician").json()
    assert [one["reference"] for one in answer["target"]] == [f"AllergyIntolerance/{peanut['id']}"]


async def test_a_further_try_tells_of_all_that_an_earlier_one_may_have_written(feed):
    """Where an earlier try broke off before it, the Provenance names all that the plan keeps; a replay adds nothing."""
    await feed.say(*ALL)
    whole = attested(feed.plan)
    written = next(iter(origins(feed)))
    feed.name += "B"
    feed.numbers = feed.numbers.replace("^^^RVB", "B^^^RVB")
    plan = feed.mapping.plan
    feed.mapping = compile_mapping(SOURCE, channel_of({"authorities": {"RVB": MRN, "EAST": EAST}}))
    await feed.say(*ALL)  # all of it, but no Provenance
    feed.mapping, feed.day = type("Same", (), {"plan": staticmethod(plan)}), feed.day - 1
    await feed.say(*ALL, attempts_made=3, ambiguous=True)
    assert [write.url.split("/")[-2] for write in feed.writes] == ["Provenance"]
    (named,) = origins(feed)
    assert attested(feed.plan).id != whole.id
    shared = {"Practitioner", "Organization", "Location"}  # of the site: a test before this one may have made them
    assert {one.split("/")[0] for one in named} == {one.split("/")[0] for one in written} - shared
    feed.day -= 1
    await feed.say(*ALL, attempts_made=9, replay=True)
    assert feed.writes == []
    assert origins(feed) == [named]


async def test_a_rehearsal_tells_of_it(feed):
    """What a delivery would do now has the Provenance among its writes, and makes none."""
    await feed.say(event="A28")
    message = f"MSH|^~\\&|REG|RIVERBEND|||20260309080000||ADT^A31|R{feed.name}|P|2.5.1\rEVN||20260309080000\r"
    plan = MAPPING.plan(parse(f"{message}PID|1||{feed.numbers}||{feed.name}^Other||19600102|F\r".encode()))
    rehearsal = await feed.site.destination.dry_run(plan, feed.site.memory, at=AT)
    calls = [(call.method, call.path.split("/")[0]) for call in rehearsal.calls]
    assert calls == [("PUT", "Patient"), ("PUT", "Provenance")]
    assert len(origins(feed)) == 1


async def test_a_merge_is_told_of(feed):
    """An A40 tells of the survivor; what was told of the merged record is then told of the survivor."""
    await feed.say(*ALL)
    source, old = feed.patient(), feed.numbers
    feed.name += "S"
    feed.numbers = f"{feed.name}^^^RVB^MR"
    await feed.say()
    await feed.say(f"MRG|{old}", event="A40")
    answer = feed.service.ask("GET", f"/fhir/R4/Provenance/{attested(feed.plan).id}", client="physician").json()
    assert [one["reference"] for one in answer["target"]] == [f"Patient/{feed.patient()}"]
    assert not any(f"Patient/{source}" in origin for origin in origins(feed))
    assert len(origins(feed)) == 3


async def test_roles_have_action_codes(feed):
    """ROL: each role is made once, DE ends it, and what has no segment stays; another feed's are left alone."""
    await feed.say(*ROLES)

    def roles():
        found = feed.entries("PractitionerRole", "_count=100")
        mine = [one for one in found if one["id"] in {ref.split("/")[1] for told in origins_all(feed) for ref in told}]
        return {one["code"][0]["coding"][0]["code"]: one.get("active", True) for one in mine}

    assert roles() == {"ATND": True, "OP": True}
    (visit,) = feed.listed("Encounter")
    assert [one["individual"]["display"] for one in visit["participant"]] == ["Ada Osei", "Cem Brandt"]
    await feed.say(*ROLES)
    assert feed.writes == []
    lab = Feed(feed.site, feed.service, feed.name, sender="LAB", mapping=MAPPING)
    await lab.say("ROL|R-1|DE|AT|1187^Osei^Ada")
    assert roles() == {"ATND": True, "OP": True}
    await feed.say("ROL|R-1|DE|AT|1187^Osei^Ada", "ROL|R-2|UC|OP|1188^Brandt^Cem")
    assert roles() == {"ATND": False, "OP": True}


def origins_all(feed):
    """What all Provenances name of a patient's chart and beside it."""
    found = feed.entries("Provenance", "_count=100")
    return [{one["reference"] for one in body["target"]} for body in found]


async def test_who_pays(feed):
    """GT1: a person is made and referred to, the patient is the patient, a body is made; what goes is inactive."""
    await feed.say(PAYING)
    (account,) = feed.listed("Account")
    (person,) = feed.listed("RelatedPerson")
    assert account["guarantor"][0]["party"]["reference"] == f"RelatedPerson/{person['id']}"
    await feed.say(PAYING)
    assert feed.writes == []
    await feed.say("GT1|1||Silva^Amara||||||||SEL", "GT1|2||||||||||||||||||||Acme Ltd^^^^^^^^^88")
    (account,) = feed.listed("Account")
    parties = [one["party"] for one in account["guarantor"]]
    assert parties[0]["reference"] == f"Patient/{feed.patient()}"
    assert parties[1]["reference"].startswith("Organization/")
    assert states(feed, "RelatedPerson") == {"Carla": "False"}
    await feed.say('GT1|""', event="A08")
    assert "guarantor" not in feed.listed("Account")[0]


async def test_payors_are_made_once_and_never_overwritten(feed):
    """IN1-3 identifies the payor: made with what IN1 says, found again, and left as it is under another name."""
    number = f"P{feed.name}"
    await feed.say(f"IN1|1|PPO|{number}^^^NAIC|Riverbend Mutual|9 SIDE^^KESWICK")
    (coverage,) = feed.listed("Coverage")
    reference = coverage["payor"][0]["reference"]
    payor = feed.service.ask("GET", f"/fhir/R4/{reference}", client="physician").json()
    assert (payor["name"], payor["address"][0]["city"]) == ("Riverbend Mutual", "KESWICK")
    await feed.say(f"IN1|1|PPO|{number}^^^NAIC|Riverbend Mutual of Keswick|9 SIDE^^KESWICK")
    (coverage,) = feed.listed("Coverage")
    assert coverage["payor"] == [{"reference": reference, "display": "Riverbend Mutual of Keswick"}]
    assert feed.service.ask("GET", f"/fhir/R4/{reference}", client="physician").json() == payor


async def test_the_living_will(feed):
    """PD1-7: one observation, whatever it says; `""` takes it back."""
    await feed.say("PD1|||||||Y")
    await feed.say("PD1|||||||N")
    (will,) = feed.listed("Observation")
    assert will["valueCodeableConcept"]["coding"][0]["code"] == "N"
    await feed.say('PD1|||||||""')
    assert states(feed, "Observation") == {"Living will": "entered-in-error"}


def admitted(number):
    """The plan of an admission that says where it comes from."""
    head = f"MSH|^~\\&|REG|RVB|||20260301080000||ADT^A28|{number}|P|2.5.1\rEVN||20260301080000"
    return BARE.plan(parse(f"{head}\rPID|1||{number}^^^RVB^MR||Silva^Amara||19600102|F\r".encode()))


async def test_a_server_that_keeps_no_provenance(site, server):
    """A server whose CapabilityStatement does not list the type goes without; the delivery says so and succeeds."""
    site.open()
    await site.destination.check()
    verdict = await site.deliver(admitted("P1"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
    assert "not-kept Provenance" in verdict.notes
    assert all("Provenance" not in intent.url for intent in site.intents)


async def test_a_server_that_refuses_provenance(site, server):
    """A server that lists nothing and refuses it leaves it at a note."""
    server.script += [Step("GET", 200, body=b'{"resourceType":"Bundle"}', path="Organization")]
    server.script += [Step("POST", 201, body=b'{"resourceType":"Organization","id":"o1"}', path="Organization")]
    server.script += [Step("PUT", 422, path="Provenance")]
    site.open()
    verdict = await site.deliver(admitted("P2"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
    assert "provenance-refused" in verdict.notes


def test_types_of_a_statement():
    """What a CapabilityStatement lists is kept; one that lists nothing, or is none, rules nothing out."""
    listed = {"resourceType": "CapabilityStatement", "rest": [{"resource": [{"type": "Patient"}]}]}
    assert not abilities_of(listed).keeps("Provenance")
    assert abilities_of(listed).keeps("Patient")
    assert abilities_of({"resourceType": "CapabilityStatement"}).keeps("Provenance")
    assert abilities_of(None).keeps("Provenance")
