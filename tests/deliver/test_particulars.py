"""What a hold names: for each reason that has two sides the records that it is about, by role, number and person."""

import re
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace

import orjson
import pytest

from engine.deliver.verdict import Verdict, VerdictKind
from engine.fhir.plan import Identity, Move, Upsert
from engine.ops.views.handbook import FOLDER
from engine.ops.views.reasons import lines
from tests.deliver.conftest import MRN, THIN
from tests.deliver.fake_fhir import Step
from tests.deliver.resources.test_visits import Ward, pv1

QUINTERO = {"name": [{"family": "Quintero", "given": ["Marisol"]}], "gender": "female", "birthDate": "1984-02-29"}
OSEI = {"name": [{"family": "Osei", "given": ["Kwame"]}], "gender": "male", "birthDate": "1950-01-01"}
WHOLE = {"family": "Quintero", "given": "Marisol", "gender": "female", "birthDate": "1984-02-29"}
MARISOL = "Quintero, Marisol, born 1984-02-29"
KWAME = "Osei, Kwame, born 1950-01-01"

# Reason -> what is shown: each record's role, the numbers that it has, and whose it is.
Shown = tuple[tuple[str, str, str], ...]
TABLE: Mapping[str, Shown] = {
    "ambiguous-identity": (("has a number", "1", MARISOL), ("has a number", "1", KWAME)),
    "identity-conflict": (("has a number", "1", MARISOL), ("has a number", "2", KWAME)),
    "merge-lists-several": (("has a number", "1", MARISOL), ("has a number", "2", KWAME)),
    "identity-unproven": (("was answered", "7", KWAME),),
    "merge-conflict": (("to be merged", "1", MARISOL), ("named survivor", "2", KWAME)),
    "merge-cycle": (("merged away", "1", MARISOL), ("survived an earlier merge", "2", MARISOL)),
    "merge-loop": (("replaced by b", "1", MARISOL), ("replaced by a", "2", MARISOL)),
    "survivor-missing": (("merged away", "1", MARISOL), ("survivor that is not there", "", "")),
    "survivor-inactive": (("to be merged", "1", MARISOL), ("inactive survivor", "2", MARISOL)),
    "death-on-merged-record": (("says that the patient died", "1", MARISOL), ("named survivor", "2", MARISOL)),
    "source-merged-elsewhere": (
        ("merged away", "1", MARISOL), ("its survivor", "3", MARISOL), ("named survivor", "2", MARISOL),
    ),
    "self-merge": (("has both numbers already", "1 2", MARISOL),),
    "self-link": (("has both numbers already", "1 2", MARISOL),),
    "unknown-source": (("named survivor", "2", MARISOL),),
    "unknown-survivor": (("to be merged", "1", MARISOL),),
    "would-merge": (("has the number to be changed", "1", MARISOL), ("has the new number", "2", KWAME)),
    "last-number": (("has no other number", "1", MARISOL), ("record that is to get the number", "2", KWAME)),
    "number-of-another-patient": (("has the number", "1 9", MARISOL), ("named to have it", "2", KWAME)),
    "merged-identifier": (("merged away", "1", MARISOL), ("its survivor", "2", MARISOL)),
    "merged-identifier-reused": (("merged away", "1", MARISOL), ("its survivor", "2", MARISOL)),
    "overlay-suspected": (("has the number", "1", MARISOL),),
    "demographic-match": (("has the same demographics", "77", MARISOL),),
    "multiple-matches": (("matches", "", MARISOL), ("matches", "78", MARISOL)),
    "duplicate-after-create": (("was created", "1", MARISOL), ("has the same number", "1", KWAME)),
    "duplicate-identifier": (("was to be written", "1", MARISOL),),
    "visit-of-another-patient": (
        ("named by the message", "V", ""), ("its patient", "ours", "ours"), ("patient of the message", "other", "ours"),
    ),
    "visit-reused": (("is over", "V", ""),),
}  # fmt: skip
# Held by the code of the visit's, for the other types.
CODES = re.compile(r"\[`([a-z-]+)`\]")
BY = re.compile(r"(?<=replaced by) \w")
SAME_CODE = ("order-of-another-patient", "resource-of-another-patient")

TAKEN = orjson.dumps(
    {
        "resourceType": "OperationOutcome",
        "issue": [
            {"severity": "error", "code": "duplicate", "details": {"coding": [{"code": "duplicate-mrn"}]}},
        ],
    }
)
Scene = SimpleNamespace
SCENES: dict[str, Callable[[Scene], Awaitable[Verdict]]] = {}


def scene(reason: str) -> Callable[[Callable[[Scene], Awaitable[Verdict]]], None]:
    """Keep what makes a hold for a reason."""

    def keep(function: Callable[[Scene], Awaitable[Verdict]]) -> None:
        SCENES[reason] = function

    return keep


@pytest.fixture
def made(site, server, patient, merging, renaming, linking, identifier):
    """What the scenes need; `opened` opens the destination with settings once it has read what the server can do."""

    async def opened(**settings):
        site.open(**settings)
        await site.destination.check()
        return site

    def add(logical_id, *numbers, who=QUINTERO, **more):
        server.add(logical_id, identifier=[identifier(number) for number in numbers], **who, **more)

    return Scene(
        site=site, server=server, patient=patient, merging=merging, renaming=renaming, linking=linking,
        identifier=identifier, opened=opened, add=add,
    )  # fmt: skip


@scene("ambiguous-identity")
async def _(s):
    s.server.unique_mrn = False
    s.add("a", "1")
    s.add("b", "1", who=OSEI)
    return await (await s.opened()).send(Upsert(s.patient("1")))


@scene("identity-conflict")
async def _(s):
    s.add("a", "1")
    s.add("b", "2", who=OSEI)
    return await (await s.opened()).send(Upsert(s.patient("1", "2")))


@scene("merge-lists-several")
async def _(s):
    s.add("a", "1")
    s.add("b", "2", who=OSEI)
    s.add("c", "3")
    both = (Identity(MRN, "1"), Identity(MRN, "2"))
    return await (await s.opened()).send(s.merging("1", "3")._replace(sources=both))


@scene("identity-unproven")
async def _(s):
    s.add("a", "7", who=OSEI)
    await s.opened()
    s.server.script.append(_search_shows(s, "a"))
    return await s.site.send(Upsert(s.patient("1")))


@scene("merge-conflict")
async def _(s):
    s.add("a", "1")
    s.add("b", "2", who=OSEI)
    return await (await s.opened()).send(s.merging("1", "2"))


@scene("merge-cycle")
async def _(s):
    s.add("a", "1")
    s.add("b", "2")
    await (await s.opened()).send(s.merging("1", "2"))
    return await s.site.send(s.merging("2", "1"))


@scene("merge-loop")
async def _(s):
    s.server.survivor_for_old_numbers = False
    s.add("a", "1", link=[{"other": {"reference": "Patient/b"}, "type": "replaced-by"}])
    s.add("b", "2", link=[{"other": {"reference": "Patient/a"}, "type": "replaced-by"}])
    return await (await s.opened()).send(Upsert(s.patient("1")))


@scene("survivor-missing")
async def _(s):
    s.server.survivor_for_old_numbers = False
    s.add("a", "1", link=[{"other": {"reference": "Patient/gone"}, "type": "replaced-by"}])
    return await (await s.opened()).send(Upsert(s.patient("1")))


@scene("survivor-inactive")
async def _(s):
    s.add("a", "1")
    s.add("b", "2", active=False)
    return await (await s.opened()).send(s.merging("1", "2"))


@scene("death-on-merged-record")
async def _(s):
    s.add("a", "1", deceasedBoolean=True)
    s.add("b", "2")
    return await (await s.opened()).send(s.merging("1", "2"))


@scene("source-merged-elsewhere")
async def _(s):
    for logical_id, number in (("a", "1"), ("b", "2"), ("c", "3")):
        s.add(logical_id, number)
    await (await s.opened()).send(s.merging("1", "3"))
    return await s.site.send(s.merging("1", "2"))


@scene("self-merge")
async def _(s):
    s.add("a", "1", "2")
    return await (await s.opened()).send(s.merging("1", "2"))


@scene("self-link")
async def _(s):
    s.add("a", "1", "2")
    return await (await s.opened()).send(s.linking("1", "2"))


@scene("unknown-source")
async def _(s):
    s.add("b", "2")
    return await (await s.opened(unknown_source="hold")).send(s.merging("1", "2"))


@scene("unknown-survivor")
async def _(s):
    s.add("a", "1")
    return await (await s.opened(unknown_survivor="hold")).send(s.merging("1", "2", **WHOLE))


@scene("would-merge")
async def _(s):
    s.server.unique_mrn = False
    s.add("a", "1")
    s.add("b", "2", who=OSEI)
    return await (await s.opened()).send(s.renaming("1", "2"))


@scene("last-number")
async def _(s):
    s.add("a", "1")
    s.add("b", "2", who=OSEI)
    return await (await s.opened()).send(_moving(s, "1", "2"))


@scene("number-of-another-patient")
async def _(s):
    s.add("a", "1", "9")
    s.add("b", "2", who=OSEI)
    s.add("c", "3")
    return await (await s.opened()).send(_moving(s, "9", "3", source="2"))


@scene("merged-identifier")
async def _(s):
    s.add("a", "1")
    s.add("b", "2")
    await (await s.opened(merged_identifier="hold")).send(s.merging("1", "2"))
    return await s.site.send(Upsert(s.patient("1")))


@scene("merged-identifier-reused")
async def _(s):
    s.add("a", "1")
    s.add("b", "2")
    await (await s.opened()).send(s.merging("1", "2"))
    return await s.site.send(Upsert(s.patient("1", family="Osei", given="Kwame", birthDate="1950-01-01")))


@scene("overlay-suspected")
async def _(s):
    s.add("a", "1")
    other = s.patient("1", family="Osei", given="Kwame", birthDate="1950-01-01")
    return await (await s.opened(another_person="hold")).send(Upsert(other))


@scene("demographic-match")
async def _(s):
    elsewhere = s.identifier("77") | {"system": "https://elsewhere.example"}
    s.server.add("a", identifier=[elsewhere], **QUINTERO)
    return await (await s.opened(on_demographic_match="hold")).send(Upsert(s.patient("1")))


@scene("multiple-matches")
async def _(s):
    s.server.add("a", **QUINTERO)
    s.add("b", "78")
    return await (await s.opened()).send(Upsert(s.patient("1")))


@scene("duplicate-after-create")
async def _(s):
    s.server.unique_mrn = False
    await s.opened()
    s.server.script.append(_search_shows(s))
    s.add("a", "1", who=OSEI)
    return await s.site.send(Upsert(s.patient("1")))


@scene("duplicate-identifier")
async def _(s):
    s.add("a", "1")
    s.server.script.append(Step("PUT", 409, body=TAKEN))
    return await (await s.opened()).send(Upsert(s.patient("1", telecom=[{"value": "7"}])))


def _search_shows(s, *ids):
    """The next search is answered with these records."""
    found = [{"resource": s.server.patients[one] | {"resourceType": "Patient", "id": one}} for one in ids]
    return Step("GET", 200, body=orjson.dumps({"resourceType": "Bundle", "type": "searchset", "entry": found}))


def _moving(s, number, to, source=""):
    named = (Identity(MRN, source),) if source else ()
    return Move((Identity(MRN, number),), (s.identifier(number),), named, s.patient(to, **THIN))


def shown(verdict):
    """The records of a hold: role, the values of the numbers, whose."""
    return tuple(
        (role, " ".join(number.rpartition("|")[2] for number in numbers), who)
        for _, role, numbers, who in verdict.involved
    )


@pytest.mark.parametrize("reason", SCENES)
async def test_each_side_is_named_by_role_number_and_person(made, reason):
    """The reason's records as the table has them, each with its reference; nothing of them in the verdict's text."""
    verdict = await SCENES[reason](made)
    assert verdict.kind in {VerdictKind.HELD, VerdictKind.REJECTED}
    assert (verdict.reason, shown(verdict)) == (reason, TABLE[reason])
    assert all(record.startswith("Patient/") for record, *_ in verdict.involved)
    assert "Quintero" not in repr(verdict)


@pytest.fixture
def ward(request, service_site, interchange):
    """A ward whose patient and visits no other test uses, in each FHIR version."""
    return Ward(service_site, interchange, "".join(letter for letter in request.node.name if letter.isalnum()))


async def test_a_visit_of_another_patient_names_both_patients(ward):
    """The visit that the message names, the patient whose it is, and the message's own, who was found or made."""
    visit, other = f"{ward.name}-V", f"{ward.name}X"
    await ward.say("A01", pv1(visit))
    verdict = await ward.say("A01", pv1(visit), number=other)
    assert verdict.reason == "visit-of-another-patient"
    whose = f"{ward.name}, Amara, born 1960-01-02"
    named = {"V": visit, "ours": ward.name, "other": other, "": ""}
    expected = [
        (role, named[numbers], whose if who else "") for role, numbers, who in TABLE["visit-of-another-patient"]
    ]
    assert list(shown(verdict)) == expected
    assert [record.partition("/")[0] for record, *_ in verdict.involved] == ["Encounter", "Patient", "Patient"]


async def test_a_visit_that_is_over_is_named(ward):
    """An admission under the number of a visit that has ended: the Encounter, with its number."""
    visit = f"{ward.name}-V"
    await ward.say("A01", pv1(visit), at="20260303080000")
    await ward.say("A03", pv1(visit, end="20260309080000"), at="20260309080000")
    holding = ward.site.channel.model_copy(update={"visit_reuse": "hold"})
    verdict = await ward.say("A01", pv1(visit), at="20260310080000", channel=holding)
    assert (verdict.reason, shown(verdict)) == ("visit-reused", (("is over", visit, ""),))


def test_the_guide_says_what_each_of_these_holds_names():
    """The table of the guide has the same reasons and roles as this one; each reason is one of the engine's."""
    text = (FOLDER / "repair.md").read_text(encoding="utf-8").partition("## What a hold names")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| [`")]
    guide = {row[0].strip(): row[1] for row in rows}
    for reason, records in TABLE.items():
        row = next(cells for names, cells in guide.items() if f"`{reason}`" in names)
        for role, *_ in records:
            assert BY.sub("", role) in row, (reason, role)
    for reason in SAME_CODE:
        assert any(f"`{reason}`" in names for names in guide), reason
    known = {code for names in guide for code in CODES.findall(names)}
    assert known == {*TABLE, *SAME_CODE}
    assert known <= {reason.code for reason in lines()}
