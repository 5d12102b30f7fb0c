"""A type that does not ship, at the interchange service itself: delivered as shipped ones are, and moved by a merge."""

import pytest

from engine.config.settings import shipped
from engine.deliver.verdict import VerdictKind
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, read
from tests.deliver.conftest import MRN, Site
from tests.deliver.fake_fhir import Step
from tests.deliver.resources.test_lists import Feed
from tests.mapping.any_type import site as written

RXA = "RXA|0|1|20260227||08^HepB^CVX|999||||1234^Osei^Ama|||||LOT1"


@pytest.fixture(scope="module")
def mapping(tmp_path_factory):
    """The mapping of the guide's section on types that do not ship."""
    folder = written(tmp_path_factory.mktemp("site"))
    return compile_mapping(read([folder, shipped("mappings")], "adt"), channel_of({"authorities": {"RVB": MRN}}))


@pytest.fixture
def feed(request, service_site, interchange, mapping):
    """A feed whose patient no other test uses."""
    name = "".join(letter for letter in request.node.name if letter.isalnum())
    return Feed(service_site, interchange, name, mapping=mapping)


async def test_an_immunization_is_made_and_updated(feed):
    """Created on condition, the same again is nothing, a correction is an update by version, `""` takes it back."""
    await feed.say(RXA)
    (made,) = feed.listed("Immunization")
    assert made["vaccineCode"]["text"] == "HepB"
    assert made["performer"][0]["actor"]["reference"].startswith("Practitioner/")
    assert any(b"ifNoneExist" in write.body and b"Immunization" in write.body for write in feed.writes)
    feed.day -= 1
    await feed.say(RXA)
    assert feed.writes == []
    await feed.say(RXA.replace("LOT1", "LOT2"))
    assert [write.method for write in feed.writes] == ["PUT"]
    (now,) = feed.listed("Immunization")
    assert (now["id"], now["lotNumber"]) == (made["id"], "LOT2")
    await feed.say('RXA|""')
    assert feed.listed("Immunization")[0]["status"] == "entered-in-error"


async def test_a_merge_takes_it_along(feed):
    """After an A40 it is the survivor's, and what is told again of it updates it there."""
    await feed.say(RXA)
    (made,) = feed.listed("Immunization")
    gone, feed.name = feed.name, f"{feed.name}kept"
    feed.numbers = f"{feed.name}^^^RVB^MR"
    await feed.say()
    head = "MSH|^~\\&|REG|RIVERBEND|||20260320080000||ADT^A40|M1|P|2.5.1\rEVN|A40|20260320080000"
    merge = f"{head}\rPID|1||{feed.numbers}||{feed.name}^Amara\rMRG|{gone}^^^RVB^MR"
    verdict = await feed.site.deliver(feed.mapping.plan(parse(merge.encode())))
    assert verdict.kind is VerdictKind.DELIVERED
    assert [immunization["id"] for immunization in feed.listed("Immunization")] == [made["id"]]
    await feed.say(RXA.replace("LOT1", "LOT2"))
    (now,) = feed.listed("Immunization")
    assert (now["id"], now["lotNumber"]) == (made["id"], "LOT2")


async def test_a_type_that_the_service_does_not_keep(feed):
    """An appointment is held under a reason that names the type; what stands before it is delivered all the same."""
    verdict = await feed.site.deliver(_plan(feed.mapping, feed.name))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "type-not-kept Appointment")
    assert feed.entries("Patient", f"identifier={MRN}|{feed.name}")
    assert not feed.site.destination.keeps("Appointment")
    assert feed.site.destination.keeps("Immunization")


def _plan(mapping, name, *, day="20260401"):
    head = "MSH|^~\\&|REG|RIVERBEND|||20260320080000||ADT^A05|M1|P|2.5.1\rEVN|A05|20260320080000"
    pid = f"PID|1||{name}^^^RVB^MR||{name}^Amara||19600102|F"
    pv1 = f"PV1|1|P|3W||PRE{name}^^^RVB||||||||||||||{name}V^^^RVB"
    return mapping.plan(parse(f"{head}\r{pid}\r{pv1}\rPV2||||||||{day}120000".encode()))


@pytest.fixture
async def site(chart):
    """A destination for the scripted server."""
    opened = Site(chart.base).open(if_none_exist="identifier")
    yield opened
    await opened.close()


async def test_one_that_a_participant_says_whose_it_is(chart, site, mapping):
    """Made and left alone like any other; once it is somebody else's at the server it is held, and stays theirs."""
    assert (await site.deliver(_plan(mapping, "ONE"))).reason == "created"
    (made,) = chart.of("Appointment")
    assert made["participant"][0]["actor"]["reference"].startswith("Patient/")
    assert (await site.deliver(_plan(mapping, "ONE"))).reason == "unchanged"
    await site.deliver(_plan(mapping, "TWO"))
    other = next(one["participant"][0] for one in chart.of("Appointment") if one["id"] != made["id"])
    chart.write(f"Appointment/{made['id']}", participant=[other])
    verdict = await site.deliver(_plan(mapping, "ONE", day="20260402"), replay=True)
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "resource-of-another-patient")
    assert [one["participant"] for one in chart.of("Appointment")] == [[other], [other]]


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_a_refusal_of_a_listed_type_keeps_its_reason(chart, site, mapping, status):
    """A server that says nothing of its types, and refuses one resource, refuses that: the reason is its answer."""
    chart.script.append(Step("POST", status, path="Appointment"))
    verdict = await site.deliver(_plan(mapping, "ONE"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, f"http-{status}")
