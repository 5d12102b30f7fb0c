"""Every kind of interaction at a destination that only gets what it has not got: mapped, carried out, and left."""

from collections.abc import AsyncIterator

import pytest

from engine.config.settings import shipped
from engine.deliver.verdict import Verdict, VerdictKind
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.compile import compile_mapping, load
from tests.deliver.conftest import MRN, Site
from tests.destinations.azure_like import AzureLike

TYPES = ("Encounter", "Coverage", "AllergyIntolerance", "Condition", "Account")
SOURCE = sending(load([shipped("mappings")], "adt"), TYPES)
MAPPING = compile_mapping(SOURCE, channel_of({"authorities": {"RVB": MRN}}))
DIAGNOSES = ("DG1|1||I20.9^Angina^I10", "DG1|2||E11.9^Diabetes^I10")
LEFT = {
    "the patient and the visit": ("A02", "K1", "PV1|1|I|5E||||||||||||||||V1^^^RVB", ("Patient", "Encounter")),
    "a list that gets shorter": ("A01", "K1", f"PV1|1|I|3W||||||||||||||||V1^^^RVB\r{DIAGNOSES[0]}", ("Condition",)),
    "a cancellation": ("A11", "K1", "PV1|1|I|3W||||||||||||||||V1^^^RVB", ("Encounter",)),
    "a deletion": ("A29", "K1", "", ("Patient",)),
    "a merge": ("A40", "K1", "MRG|K2^^^RVB^MR", ("merge",)),
    "a change of number": ("A47", "K9", "MRG|K1^^^RVB^MR", ("change-of-number",)),
    "a link": ("A24", "K1", "PID|2||K2^^^RVB^MR||Kim^Bea||19550101|F", ("link",)),
    "a move of a number": ("A43", "K1", "MRG|K3^^^RVB^MR", ("move-of-number",)),
}


@pytest.fixture
async def server() -> AsyncIterator[AzureLike]:
    """A double that takes transactions, too."""
    double = AzureLike()
    await double.start()
    yield double
    await double.stop()


async def say(site: Site, event: str, number: str, *segments: str, who: str = "Kim^Ada||19540303|F") -> Verdict:
    """Deliver an event of one patient as the shipped mapping plans it."""
    site.ticks += 1
    at = f"2026030208{int(site.ticks):02d}00"
    head = f"MSH|^~\\&|REG|RIVERBEND|||{at}||ADT^{event}|{at}|P|2.5.1\rEVN|{event}|{at}"
    pid = f"PID|1||{number}||{who}||||||||||AC1^^^RVB^AN"
    parts = (head, pid, *(segment for segment in segments if segment))
    return await site.deliver(MAPPING.plan(parse("\r".join(parts).encode())), entry=int(site.ticks))


@pytest.mark.parametrize("create", ["conditional", "client-id"])
@pytest.mark.parametrize(("event", "number", "segments", "left"), LEFT.values(), ids=LEFT)
async def test_what_is_there_is_left(site, server, create, event, number, segments, left) -> None:
    """It is noted what was left, the entry is delivered, and no version of anything is a second one."""
    site.open(create=create, writes="create-only", if_none_exist="identifier", retire="delete", deleted_person="delete")
    await site.destination.check()
    await say(site, "A01", "K1^^^RVB^MR", "PV1|1|I|3W||||||||||||||||V1^^^RVB", *DIAGNOSES)
    await say(site, "A28", "K2^^^RVB^MR~K3^^^RVB^MR", who="Kim^Bea||19550101|F")
    before = dict(server.patients), dict(server.chart)
    who = "Kim^Ada^Cleo||19540303|F" if "Patient" in left and event != "A29" else "Kim^Ada||19540303|F"
    verdict = await say(site, event, f"{number}^^^RVB^MR", segments, who=who)
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "not-written")
    noted = {note.partition(" ")[2] for note in verdict.notes if note.startswith("not-written")}
    assert set(left) <= noted
    assert (server.patients, {name: server.chart.get(name) for name in before[1]}) == before  # a new ward is made
    assert {effect.partition(" ")[0] for effect in server.effects} == {"create"}
