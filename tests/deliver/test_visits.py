"""Visits at the interchange service itself: what messages become of them, through the shipped mapping."""

import pytest

from engine.config.shipped import shipped
from engine.deliver.verdict import VerdictKind
from engine.hl7.message import parse
from engine.mapping.case import channel_of
from engine.mapping.compile import compile_mapping, load
from tests.deliver.conftest import MRN, Site
from tests.interchange.kit import BASES, SECRET, running

VISITS = "https://visits.riverbend.example"
SOURCE = load([shipped("mappings")], "adt")
MAPPING = compile_mapping(SOURCE, channel_of({"authorities": {"RVB": MRN, "RVB^VN": VISITS}}))


@pytest.fixture(scope="module")
def interchange(tmp_path_factory):
    """A running interchange service."""
    with running(tmp_path_factory.mktemp("visits")) as service:
        yield service


class Ward:
    """One destination for the service; `say` delivers a message of an event and segments."""

    def __init__(self, site, service, name):
        self.site, self.service, self.name = site, service, name
        self.day, self.sent = 2, []

    async def say(self, event, pv1, *, more=(), at="", number="", **options):
        """Deliver an event about the test's patient; `pv1` is PV1 from its second field on."""
        self.day += 1
        at = at or f"202603{self.day:02d}080000"
        pid = f"PID|1||{number or self.name}^^^RVB^MR||{self.name}^Amara||19600102|F"
        head = f"MSH|^~\\&|REG|RIVERBEND|||{at}||ADT^{event}|{event}{at}|P|2.5.1\rEVN|{event}|{at}"
        plan = MAPPING.plan(parse("\r".join((head, pid, f"PV1|1|{pv1}", *more)).encode()))
        return await self.site.deliver(plan, **options)

    def visit(self, number):
        """The Encounter of a visit number as the service has it."""
        patient = self.find("Patient", MRN, self.name)
        return self.find("Encounter", VISITS, number, f"&patient={patient['id']}")

    def find(self, type_, system, value, more=""):
        """The one resource of a type with an identifier."""
        url = f"/fhir/R4/{type_}?identifier={system.replace('#', '%23')}|{value}{more}"
        bundle = self.service.ask("GET", url, client="physician").json()
        (entry,) = bundle["entry"]
        return entry["resource"]


@pytest.fixture(params=["R4", "STU3"])
async def ward(request, interchange, monkeypatch):
    """A ward whose patient and visits no other test uses, in each FHIR version."""
    monkeypatch.setenv("ENGINE_SECRET", SECRET)
    auth = {
        "type": "client_credentials",
        "token_url": f"{interchange.url}/oauth/token",
        "client_id": "system",
        "client_secret": {"env": "ENGINE_SECRET"},
        "scope": "system/*.*",
    }
    site = Site(f"{interchange.url}{BASES[request.param]}").open(fhir=request.param, auth=auth)
    await site.destination.check()
    yield Ward(site, interchange, "".join(letter for letter in request.node.name if letter.isalnum()))
    await site.close()


def pv1(number, *, kind="I", place="3W^312^A^RIVERBEND", prior="", doctor="1187^Osei^Ada", begin="", end="", more=None):
    """PV1 from its second field on."""
    fields = {2: kind, 3: place, 6: prior, 7: doctor, 19: f"{number}^^^RVB", 44: begin, 45: end} | (more or {})
    return "|".join(fields.get(index, "") for index in range(2, 51)).rstrip("|")


async def test_admission_creates_patient_and_visit(ward):
    """An A01 makes the patient, the visit and what it refers to; sent again it changes nothing."""
    visit = f"{ward.name}-V"
    verdict = await ward.say("A01", pv1(visit, begin="20260303075500"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
    body = ward.visit(visit)
    patient = ward.find("Patient", MRN, ward.name)
    assert body["status"] == "in-progress"
    assert body["class"]["code"] == "IMP"  # PV1-2
    assert body["subject"] == {"reference": f"Patient/{patient['id']}"}
    assert body["period"] == {"start": "2026-03-03T07:55:00+00:00"}  # PV1-44
    (place,) = body["location"]
    assert place["status"] == "active"
    assert place["location"]["display"] == "3W 312 A"  # PV1-3
    ward.day -= 1
    again = await ward.say("A01", pv1(visit, begin="20260303075500"))
    assert (again.reason, len(again.attempts)) == ("unchanged", 0)
