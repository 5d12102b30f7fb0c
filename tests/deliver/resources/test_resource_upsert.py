"""Keeping visits and what they refer to, at a real HTTP server that is told how to behave."""

import pytest

from engine.config.settings import shipped
from engine.deliver.verdict import Failure, VerdictKind
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, read
from tests.deliver.conftest import MRN, Site
from tests.deliver.fake_fhir import Step

MAPPING = compile_mapping(read([shipped("mappings")], "adt"), channel_of({"authorities": {"RVB": MRN}}))


@pytest.fixture
async def feed(chart):
    """A destination for the server."""
    site = Site(chart.base).open(if_none_exist="identifier")
    yield site
    await site.close()


def plan(event, number, visit, *, place="3W^312^A^RVB", sender="REG", end="", mrg=""):
    """A plan for an event of a patient's visit."""
    head = f"MSH|^~\\&|{sender}|RVB|||20260302080000||ADT^{event}|{event}|P|2.5.1\rEVN|{event}|20260302080000"
    pid = f"PID|1||{number}^^^RVB^MR||SENTINEL^Amara||19600102|F"
    pv1 = f"PV1|1|I|{place}||||1187^Osei^Ada||||||||||||{visit}^^^RVB" + "|" * 26 + end
    return MAPPING.plan(parse("\r".join(filter(None, (head, pid, mrg, pv1))).encode()))


def asked(chart, since=0):
    """The requests from one on, without their queries."""
    return [request.partition("?")[0] for request in chart.requests[since:]]


async def test_first_admission_of_a_ward_makes_everything_once(chart, feed):
    """The patient is looked up and made; each thing that the visit refers to is made on condition, without a look."""
    assert (await feed.deliver(plan("A01", "1", "V1"))).reason == "created"
    assert asked(chart) == [
        *("GET Patient", "POST Patient", "GET Patient"),
        *("POST Practitioner", *["POST Location"] * 4, "POST Organization", "POST Encounter"),
    ]
    conditions = [headers.get("If-None-Exist", "") for headers in chart.headers[3:]]
    assert all(condition.startswith("identifier=") for condition in conditions)
    bed, room, ward, site = reversed(chart.of("Location"))
    assert [one["partOf"]["reference"] for one in (bed, room, ward)] == [
        f"Location/{one['id']}" for one in (room, ward, site)
    ]


async def test_second_admission_of_a_ward_asks_for_nothing_that_is_known(chart, feed):
    """Once places and people are known, an admission costs what the patient costs, and one request for the visit."""
    await feed.deliver(plan("A01", "1", "V1"))
    before = len(chart.requests)
    await feed.deliver(plan("A01", "2", "V2"))
    assert asked(chart, before) == ["GET Patient", "POST Patient", "GET Patient", "POST Encounter"]


async def test_update_of_a_known_visit_costs_one_put(chart, feed):
    """A transfer of a visit met before is one PUT with If-Match; what changes nothing is concluded from fresh reads."""
    await feed.deliver(plan("A01", "1", "V1"))
    before = len(chart.requests)
    await feed.deliver(plan("A02", "1", "V1", place="3W"))
    assert asked(chart, before) == ["GET Patient/p1", "PUT Encounter/r7"]
    assert chart.headers[-1]["If-Match"] == 'W/"1"'
    before = len(chart.requests)
    assert (await feed.deliver(plan("A02", "1", "V1", place="3W"))).reason == "unchanged"
    assert asked(chart, before) == ["GET Patient/p1", "GET Encounter/r7"]


async def test_known_after_a_restart(chart, feed):
    """After a restart the journal's memory leads to each resource by one read, and each has to bear its number."""
    await feed.deliver(plan("A01", "1", "V1"))
    await feed.close()
    feed.open(if_none_exist="identifier")
    before = len(chart.requests)
    assert (await feed.deliver(plan("A03", "1", "V1"))).reason == "updated"
    assert [one for one in asked(chart, before) if not is_place(one)] == [
        "GET Patient/p1",
        "GET Encounter/r7",
        "PUT Encounter/r7",
    ]
    assert sum(is_place(one) for one in asked(chart, before)) == 6
    assert chart.chart["Encounter/r7"]["status"] == "finished"
    before = len(chart.requests)
    assert (await feed.deliver(plan("A13", "1", "V1"))).reason == "updated"
    assert not any(is_place(one) for one in asked(chart, before))


def is_place(request):
    """Say whether a request reads, by its id, what a visit only refers to."""
    return request.startswith(("GET Practitioner/", "GET Location/", "GET Organization/"))


@pytest.mark.parametrize("bundle", ["auto", "off"])
@pytest.mark.parametrize("known", ["remembered", "read"])
async def test_a_merge_of_visits_ends_the_one(chart, feed, bundle, known):
    """A42, with all remembered or nothing: MRG's visit is entered in error and part of the other, which goes on."""
    chart.transactions = bundle == "auto"
    await feed.again(bundle=bundle)
    feed.destination._server.prove(if_match=True)
    for visit in ("V1", "V2"):
        await feed.deliver(plan("A01", "1", visit))
    if known == "read":
        await feed.again()
    merged = plan("A42", "1", "V2", mrg="MRG|1^^^RVB^MR||||V1^^^RVB")
    assert (await feed.deliver(merged)).reason == "updated"
    gone, kept = chart.of("Encounter")
    assert (gone["status"], gone["partOf"]) == ("entered-in-error", {"reference": f"Encounter/{kept['id']}"})
    assert (kept["status"], [one["value"] for one in kept["identifier"]]) == ("in-progress", ["V2", "V1"])
    before = [dict(one) for one in chart.of("Encounter")]
    await feed.deliver(merged)
    assert chart.of("Encounter") == before


async def test_other_writer_is_respected(chart, feed):
    """What another client wrote meanwhile stays: the stale PUT is refused, read again and re-applied."""
    await feed.deliver(plan("A01", "1", "V1"))
    chart.write("Encounter/r7", priority={"text": "theirs"})
    assert (await feed.deliver(plan("A03", "1", "V1"))).reason == "updated"
    body = chart.chart["Encounter/r7"]
    assert (body["priority"], body["status"]) == ({"text": "theirs"}, "finished")


async def test_two_feeds_do_not_fight(chart, feed):
    """What one sender says of a place is not taken away by another that says nothing of it."""
    await feed.deliver(plan("A01", "1", "V1"))
    await feed.deliver(plan("A08", "1", "V1", place='""', sender="LAB"))
    (place,) = chart.chart["Encounter/r7"]["location"]
    assert place["location"]["display"] == "3W 312 A"
    await feed.deliver(plan("A08", "1", "V1", place='""'))
    assert "location" not in chart.chart["Encounter/r7"]


async def test_lost_answer_of_a_create_makes_no_second_visit(chart, feed):
    """After a create without an answer the server is asked before anything is written."""
    chart.script.append(Step("POST", path="Encounter", commit=True, drop=True))
    verdict = await feed.deliver(plan("A01", "1", "V1"))
    assert (verdict.kind, verdict.failure) == (VerdictKind.RETRY, Failure.AMBIGUOUS)
    before = len(chart.requests)
    verdict = await feed.deliver(plan("A01", "1", "V1"), ambiguous=True, attempts_made=len(verdict.attempts))
    assert verdict.kind is VerdictKind.DELIVERED
    assert not [request for request in chart.requests[before:] if request.startswith(("POST", "PUT"))]
    assert len(chart.of("Encounter")) == 1


async def test_lost_answer_of_an_update_is_read_first(chart, feed):
    """After an update without an answer the visit is read, and not written where it is as it should be."""
    await feed.deliver(plan("A01", "1", "V1"))
    chart.script.append(Step("PUT", path="Encounter", commit=True, drop=True))
    assert (await feed.deliver(plan("A03", "1", "V1"))).failure is Failure.AMBIGUOUS
    before = len(chart.requests)
    verdict = await feed.deliver(plan("A03", "1", "V1"), ambiguous=True, attempts_made=2)
    assert verdict.reason == "unchanged"
    assert all(request.startswith("GET") for request in chart.requests[before:])


async def test_place_that_was_deleted_is_made_again(chart, feed):
    """A remembered place that is gone at the server makes it refuse the visit; then everything is asked about."""
    await feed.deliver(plan("A01", "1", "V1"))
    gone = next(name for name, body in chart.chart.items() if body.get("name") == "3W 312 A")
    chart.delete(gone)
    verdict = await feed.deliver(plan("A01", "2", "V2"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
    (place,) = next(one for one in chart.of("Encounter") if one["identifier"][0]["value"] == "V2")["location"]
    assert place["location"]["reference"] in chart.chart


async def test_visit_that_was_deleted_is_held(chart, feed):
    """A visit that somebody deleted at the server does not come back by itself."""
    await feed.deliver(plan("A01", "1", "V1"))
    chart.delete("Encounter/r7")
    verdict = await feed.deliver(plan("A03", "1", "V1"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "deleted-at-server")


async def test_refusal_is_permanent_and_names_its_codes(chart, feed):
    """What the server refuses of a visit holds the entry with its codes; the patient is done."""
    chart.script.append(Step("POST", path="Encounter", status=422, body=b'{"resourceType":"OperationOutcome"}'))
    verdict = await feed.deliver(plan("A01", "1", "V1"))
    assert (verdict.kind, verdict.reason, verdict.failure) == (VerdictKind.HELD, "http-422", Failure.PERMANENT)
    assert len(chart.patients) == 1
    assert (await feed.deliver(plan("A01", "1", "V1"))).kind is VerdictKind.DELIVERED


async def test_server_without_conditional_create_is_asked_first(chart, feed):
    """Where a condition cannot be relied on, each thing is looked up before it is made."""
    await feed.deliver(plan("A01", "1", "V1"))
    other = Site(chart.base).open(if_none_exist="identifier")
    await other.destination.check()
    abilities = other.destination.abilities
    other.destination._server.abilities = type(abilities)(conditional_create=False)
    before = len(chart.requests)
    await other.deliver(plan("A01", "2", "V2"))
    assert "GET Encounter" in asked(chart, before)
    assert "GET Location" in asked(chart, before)
    assert [one for one in asked(chart, before) if one.startswith("POST")] == ["POST Patient", "POST Encounter"]
    await other.close()


async def test_visit_of_a_linked_record_goes_to_the_survivor(chart, feed):
    """Where a server only links records, the visits of the merged one follow as messages speak of them."""
    chart.merges = False
    await feed.deliver(plan("A01", "1", "V1"))
    await feed.deliver(plan("A28", "2", ""))
    head = "MSH|^~\\&|REG|RVB|||20260302080000||ADT^A40|A40|P|2.5.1\rEVN|A40|20260302080000"
    merged = MAPPING.plan(parse(f"{head}\rPID|1||2^^^RVB^MR\rMRG|1^^^RVB^MR".encode()))
    assert (await feed.deliver(merged)).reason == "linked"
    assert chart.chart["Encounter/r7"]["subject"] == {"reference": "Patient/p1"}
    assert (await feed.deliver(plan("A02", "2", "V1"))).kind is VerdictKind.DELIVERED
    assert chart.chart["Encounter/r7"]["subject"] == {"reference": "Patient/p2"}
    assert len(chart.of("Encounter")) == 1


async def test_two_visits_of_one_number_hold_the_entry(chart, feed):
    """Where a server has two visits under one number, the engine does not choose."""
    await feed.deliver(plan("A01", "1", "V1"))
    chart.chart["Encounter/other"] = chart.chart["Encounter/r7"] | {"id": "other"}
    verdict = await feed.deliver(plan("A03", "1", "V1"), replay=True)
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "multiple-matches")
