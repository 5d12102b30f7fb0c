"""Accounts at the interchange service itself: merged, moved and renumbered, and the visits that go along."""

import pytest

from engine.config.settings import shipped
from engine.deliver.verdict import VerdictKind
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.compile import compile_mapping, load
from tests.deliver.conftest import MRN

VISITS = "https://visits.riverbend.example"
ACCOUNTS = f"{MRN}#AN"
CHANNEL = channel_of({"authorities": {"RVB": MRN, "RVB^VN": VISITS}})
SOURCE = load([shipped("mappings")], "adt")
WITH_ACCOUNTS = compile_mapping(sending(SOURCE, ("Encounter", "Account")), CHANNEL)
WITHOUT = compile_mapping(SOURCE, CHANNEL)


class Desk:
    """What a billing desk says of one patient and her accounts, and what the service has of it."""

    def __init__(self, site, service, name):
        self.site, self.service, self.name, self.day = site, service, name, 2

    async def say(self, event, account, *, mrg="", visit="", number="", sender="REG", mapping=WITH_ACCOUNTS, **options):
        """Deliver an event; `mrg` is the account of MRG-3, and of whom: `AC-1 of X`."""
        self.day += 1
        at = f"202603{self.day:02d}080000"
        head = f"MSH|^~\\&|{sender}|RIVERBEND|||{at}||ADT^{event}|{event}{at}|P|2.5.1\rEVN|{event}|{at}"
        number = number or self.name
        pid = f"PID|1||{number}^^^RVB^MR||{number}^Amara||19600102|F||||||||||{self.name}{account}^^^RVB"
        old, _, whose = mrg.partition(" of ")
        lines = [head, pid, *([f"MRG|{whose or number}^^^RVB||{self.name}{old}^^^RVB"] if mrg else [])]
        lines += [f"PV1|1|I|||||||||||||||||{self.name}{visit}^^^RVB"] if visit else []
        return await self.site.deliver(mapping.plan(parse("\r".join(lines).encode())), **options)

    def find(self, type_, system, value):
        """Resources of a type with a number of the test's, of whomever."""
        found = {}
        for patient in self._entries("Patient", f"identifier={MRN}|{self.name},{MRN}|{self.name}X"):
            more = f"patient=Patient/{patient['id']}&identifier={system.replace('#', '%23')}|{self.name}{value}"
            found |= {entry["id"]: entry for entry in self._entries(type_, more)}
        return list(found.values())

    def account(self, value):
        """The one Account in use under a number."""
        (one,) = [one for one in self.find("Account", ACCOUNTS, value) if one["status"] == "active"]
        return one

    def visit(self, value):
        """The one Encounter of a visit number."""
        (one,) = self.find("Encounter", VISITS, value)
        return one

    def patient(self, number):
        """The reference of a patient by number."""
        return f"Patient/{self._entries('Patient', f'identifier={MRN}|{number}')[0]['id']}"

    def _entries(self, type_, query):
        answer = self.service.ask("GET", f"/fhir/R4/{type_}?{query}", client="physician")
        return [entry["resource"] for entry in answer.json().get("entry", ())]


@pytest.fixture
def desk(request, service_site, interchange):
    """A desk whose patient no other test uses, in each FHIR version."""
    return Desk(service_site, interchange, "".join(letter for letter in request.node.name if letter.isalnum()))


def uses(resource):
    """The numbers of a resource without the test's name, with their use."""
    return {one["value"][-1]: one.get("use", "") for one in resource["identifier"]}


async def test_a_visit_names_its_account(desk):
    """Where both are sent, an admission says in the visit which account it is billed to; again it changes nothing."""
    await desk.say("A01", "1", visit="V")
    assert desk.visit("V")["account"] == [{"reference": f"Account/{desk.account('1')['id']}"}]
    desk.day -= 1
    assert (await desk.say("A01", "1", visit="V")).attempts == ()


async def test_merge_of_accounts(desk):
    """An A41: the old number stays on the survivor as such, the other account is over, and its visits go along."""
    await desk.say("A01", "1", visit="V")
    await desk.say("A01", "2", visit="W")
    gone, kept = desk.account("1"), desk.account("2")
    assert (await desk.say("A41", "2", mrg="1")).reason == "updated"
    assert uses(desk.account("2")) == {"2": "", "1": "old"}
    (old,) = [one for one in desk.find("Account", ACCOUNTS, "1") if one["id"] == gone["id"]]
    assert (old["status"], old.get("partOf")) == ("inactive", {"reference": f"Account/{kept['id']}"})
    for visit in ("V", "W"):
        assert desk.visit(visit)["account"] == [{"reference": f"Account/{kept['id']}"}]
    desk.day -= 1
    again = await desk.say("A41", "2", mrg="1")
    assert (again.reason, again.attempts) == ("already-merged", ())
    late = await desk.say("A08", "1", visit="V")
    assert late.kind is VerdictKind.DELIVERED
    assert desk.visit("V")["account"] == [{"reference": f"Account/{kept['id']}"}]
    assert len([one for one in desk.find("Account", ACCOUNTS, "1") if one["status"] == "active"]) == 1


async def test_merge_of_accounts_of_which_one_is_unknown(desk):
    """Without a survivor the account gets its number; without a source the number is kept as an old one."""
    await desk.say("A01", "1", visit="V")
    first = desk.account("1")["id"]
    assert (await desk.say("A35", "2", mrg="1")).reason == "updated"
    assert (desk.account("2")["id"], uses(desk.account("2"))) == (first, {"1": "old", "2": ""})
    assert (await desk.say("A41", "2", mrg="3")).reason in {"updated", "source-absent"}
    assert uses(desk.account("2")) == {"1": "old", "2": "", "3": "old"}
    neither = await desk.say("A41", "4", mrg="5")
    assert (neither.kind, "unknown-account" in neither.notes) == (VerdictKind.DELIVERED, True)
    assert uses(desk.account("4")) == {"4": "", "5": "old"}


async def test_merge_with_an_account_of_somebody_else_is_held(desk):
    """Whose account it is, a merge of accounts does not say; a move does (A44)."""
    await desk.say("A01", "1", visit="V", number=f"{desk.name}X")
    await desk.say("A01", "2", visit="W")
    verdict = await desk.say("A41", "2", mrg=f"1 of {desk.name}X")
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "resource-of-another-patient")
    assert (uses(desk.account("1")), uses(desk.account("2"))) == ({"1": ""}, {"2": ""})
    assert desk.visit("V")["account"] == [{"reference": f"Account/{desk.account('1')['id']}"}]


async def test_visits_that_are_known_by_their_account_are_merged_with_it(desk):
    """A feed without visit numbers, and without accounts of its own: its visits go by PID-18, and so does the merge."""
    for account in ("1", "2"):
        await desk.say("A01", account, mapping=WITHOUT)
    ((gone,), (kept,)) = (desk.find("Encounter", ACCOUNTS, account) for account in ("1", "2"))
    verdict = await desk.say("A41", "2", mrg="1", mapping=WITHOUT)
    assert (verdict.reason, "not-sent Account" in verdict.notes) == ("updated", True)
    found = {one["id"]: one for one in desk.find("Encounter", ACCOUNTS, "1")}
    assert found[gone["id"]]["status"] == "entered-in-error"
    assert found[gone["id"]]["partOf"] == {"reference": f"Encounter/{kept['id']}"}
    assert uses(found[kept["id"]]) == {"2": "", "1": "old"}
    desk.day -= 1
    assert (await desk.say("A41", "2", mrg="1", mapping=WITHOUT)).attempts == ()
    await desk.say("A49", "3", mrg="2", mapping=WITHOUT)
    assert uses(desk.find("Encounter", ACCOUNTS, "3")[0]) == {"1": "old", "2": "old", "3": ""}


async def test_move_of_an_account(desk):
    """An A44 gives the account to another patient, and the visits that refer to it; sent again it changes nothing."""
    other = f"{desk.name}X"
    await desk.say("A01", "1", visit="V", number=other)
    await desk.say("A01", "2", visit="W", number=other)
    await desk.say("A28", "9")
    assert (await desk.say("A44", "1", mrg=f"1 of {other}")).reason == "updated"
    assert desk.account("1")["subject"][0]["reference"] == desk.patient(desk.name)
    assert desk.visit("V")["subject"]["reference"] == desk.patient(desk.name)
    assert desk.visit("W")["subject"]["reference"] == desk.patient(other)
    desk.day -= 1
    again = await desk.say("A44", "1", mrg=f"1 of {other}")
    assert (again.kind, again.attempts) == (VerdictKind.DELIVERED, ())


async def test_change_of_an_account_number(desk):
    """An A49: the account has the new number and keeps the old one as such; a number that another has is held."""
    await desk.say("A01", "1", visit="V")
    await desk.say("A01", "3", visit="W")
    first = desk.account("1")["id"]
    assert (await desk.say("A49", "2", mrg="1")).reason == "updated"
    assert (desk.account("2")["id"], uses(desk.account("1"))) == (first, {"1": "old", "2": ""})
    again = await desk.say("A49", "2", mrg="1")
    assert (again.kind, again.attempts) == (VerdictKind.DELIVERED, ())
    verdict = await desk.say("A49", "3", mrg="2")
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "would-merge")


async def test_another_feeds_word_of_an_account_stays(desk):
    """A visit whose account another feed told of is not this feed's to point elsewhere: noted, and left."""
    await desk.say("A01", "1", visit="V", sender="WARD")
    await desk.say("A28", "2")
    await desk.say("A01", "2", visit="W")
    gone = desk.account("1")["id"]
    verdict = await desk.say("A41", "2", mrg="1")
    assert "not-shown-to-be-ours" in verdict.notes
    assert desk.visit("V")["account"] == [{"reference": f"Account/{gone}"}]
