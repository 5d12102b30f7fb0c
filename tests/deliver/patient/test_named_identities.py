"""Patients found by PID-19, where a site says that it stands for them: never a second one, never another's chart."""

from engine.config.settings import shipped
from engine.deliver.verdict import VerdictKind
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, load
from tests.deliver.conftest import MRN

SITE = """mapping: adt
extends: shipped/adt
identity:
  from: [PID-3, {field: PID-19, type: SS}, {field: ZID-3, type: PI, system: https://eid.example}]
  not_identity: [DL, PPN, AN, VN, SN, MA, MC]
"""


class Feed:
    """A feed whose numbers may stand in PID-3, PID-19 and ZID-3."""

    def __init__(self, site, folder):
        (folder / "adt.yaml").write_text(SITE, "utf-8")
        source = load([folder, shipped("mappings")], "adt")
        self.site, self.sent = site.open(if_none_exist="identifier"), 0
        self.mapping = compile_mapping(source, channel_of({"authorities": {"RVB": MRN}}))

    async def say(self, mrn="", ssn="", eid=""):
        """Deliver an A31 that names the patient by these."""
        self.sent += 1
        at = f"2026030208{self.sent:02d}"
        head = f"MSH|^~\\&|REG|RVB|||{at}||ADT^A31|{self.sent}|P|2.5.1\rEVN||{at}"
        pid = f"PID|1||{mrn}{'^^^RVB^MR' if mrn else ''}||Silva^Amara||19600102|F" + "|" * 11 + ssn
        verdict = await self.site.deliver(self.mapping.plan(parse("\r".join((head, pid, f"ZID|1||{eid}")).encode())))
        return verdict.kind, verdict.reason


async def test_a_patient_is_found_by_any_of_them(server, site, tmp_path):
    """Whichever of the numbers a message has, it is the one record, which carries all that were told."""
    feed = Feed(site, tmp_path)
    assert await feed.say("1", "123-45-6789") == (VerdictKind.DELIVERED, "created")
    assert (await feed.say(ssn="123-45-6789", eid="E-7"))[0] is VerdictKind.DELIVERED
    assert (await feed.say(eid="E-7"))[0] is VerdictKind.DELIVERED
    (patient,) = server.patients.values()
    assert [one["value"] for one in patient["identifier"]] == ["1", "123-45-6789", "E-7"]


async def test_somebody_else_with_the_same_number_is_held(server, site, tmp_path):
    """An SSN that is on the chart of another medical record number attaches nobody to it."""
    feed = Feed(site, tmp_path)
    await feed.say("1", "123-45-6789")
    assert await feed.say("2", "123-45-6789") == (VerdictKind.HELD, "identity-conflict")
    await feed.say("3", "987-65-4321")
    assert await feed.say("1", "987-65-4321") == (VerdictKind.HELD, "identity-conflict")
    assert len(server.patients) == 2
