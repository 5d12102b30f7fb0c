"""Visits at the interchange service itself: what messages become of them, through the shipped mapping."""

import pytest

from engine.config.settings import shipped
from engine.deliver.verdict import VerdictKind
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, load
from tests.deliver.conftest import MRN

VISITS = "https://visits.riverbend.example"
SOURCE = load([shipped("mappings")], "adt")
MAPPING = compile_mapping(SOURCE, channel_of({"authorities": {"RVB": MRN, "RVB^VN": VISITS}}))


class Ward:
    """One destination for the service; `say` delivers a message of an event and segments."""

    def __init__(self, site, service, name):
        self.site, self.service, self.name, self.mapping = site, service, name, MAPPING
        self.day, self.sent = 2, []

    async def say(self, event, pv1, *, more=(), at="", number="", sender="REG", **options):
        """Deliver an event about the test's patient; `pv1` is PV1 from its second field on."""
        self.day += 1
        at = at or f"202603{self.day:02d}080000"
        pid = f"PID|1||{number or self.name}^^^RVB^MR||{self.name}^Amara||19600102|F"
        head = f"MSH|^~\\&|{sender}|RIVERBEND|||{at}||ADT^{event}|{event}{at}|P|2.5.1\rEVN|{event}|{at}"
        visit = (f"PV1|1|{pv1}",) if pv1 else ()
        plan = self.mapping.plan(parse("\r".join((head, pid, *visit, *more)).encode()))
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


@pytest.fixture
def ward(request, service_site, interchange):
    """A ward whose patient and visits no other test uses, in each FHIR version."""
    return Ward(service_site, interchange, "".join(letter for letter in request.node.name if letter.isalnum()))


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


async def test_a_new_visit_refers_to_what_only_its_file_requires(ward, tmp_path):
    """A provider that stands in `new` alone is made before the visit, and named in it; later messages leave it be."""
    (tmp_path / "resources").mkdir()
    site = "resource: Encounter\nextends: shipped/encounter\nnew:\n  serviceProvider: PV1-3.4 | Organization\n"
    (tmp_path / "resources/encounter.yaml").write_text(site + "elements:\n  serviceProvider:\n", "utf-8")
    source = load([tmp_path, shipped("mappings")], "adt")
    ward.mapping = compile_mapping(source, channel_of({"authorities": {"RVB": MRN, "RVB^VN": VISITS}}))
    for number in ("V1", "V2"):
        visit = f"{ward.name}-{number}"
        assert (await ward.say("A01", pv1(visit))).kind is VerdictKind.DELIVERED
        provider = ward.visit(visit)["serviceProvider"]
        assert provider["display"] == "RIVERBEND"  # PV1-3.4
        assert provider["reference"].startswith("Organization/")
        assert (await ward.say("A08", pv1(visit, place="3W^312^A^LAKESIDE"))).kind is VerdictKind.DELIVERED
        assert ward.visit(visit)["serviceProvider"] == provider


async def test_a_stay_from_admission_to_its_end_and_back(ward):
    """Transfer, discharge and its cancel: places, status, period and disposition follow, and what was is kept."""
    visit = f"{ward.name}-V"
    await ward.say("A01", pv1(visit, begin="20260303075500", more={14: "7", 13: "R"}))
    moved = await ward.say("A02", pv1(visit, place="5E^512^B^RIVERBEND", prior="3W^312^A^RIVERBEND"))
    assert moved.reason == "updated"
    places = {one["location"]["display"]: one["status"] for one in ward.visit(visit)["location"]}
    assert places == {"5E 512 B": "active", "3W 312 A": "completed"}  # PV1-3, PV1-6
    await ward.say("A03", pv1(visit, place="5E^512^B^RIVERBEND", end="20260305101500", more={36: "01"}))
    body = ward.visit(visit)
    assert body["status"] == "finished"
    assert body["period"] == {"start": "2026-03-03T07:55:00+00:00", "end": "2026-03-05T10:15:00+00:00"}
    assert {one["status"] for one in body["location"]} == {"completed"}
    assert body["hospitalization"]["dischargeDisposition"]["coding"][0]["code"] == "home"  # PV1-36
    assert body["hospitalization"]["admitSource"]["coding"][0]["code"] == "7"  # PV1-14, said by the A01 alone
    undone = await ward.say("A13", pv1(visit, place="5E^512^B^RIVERBEND"))
    assert undone.reason == "updated"
    body = ward.visit(visit)
    assert (body["status"], body["period"]) == ("in-progress", {"start": "2026-03-03T07:55:00+00:00"})
    assert "dischargeDisposition" not in body["hospitalization"]
    assert [one["status"] for one in body["statusHistory"]] == ["in-progress", "finished"]
    places = {one["location"]["display"]: one["status"] for one in body["location"]}
    assert places == {"5E 512 B": "active", "3W 312 A": "completed"}


def places(body):
    """Where a visit is and was: place, status, and the days of March from and to, in order of the place."""
    found = []
    for one in body["location"]:
        days = [int(one.get("period", {}).get(name, "2026-03-00")[8:10]) for name in ("start", "end")]
        found.append((one["location"]["display"], one["status"], *days))
    return sorted(found)


async def test_each_place_stays_with_its_time(ward):
    """Transfers there, elsewhere and back: every place that was left stays, completed; a resend changes nothing."""
    visit = f"{ward.name}-V"
    stay = [("A01", "3W", ""), ("A02", "5E", "3W"), ("A08", "5E", ""), ("A02", "4N", "5E"), ("A02", "3W", "4N")]
    for event, place, prior in stay:
        await ward.say(event, pv1(visit, place=place, prior=prior))
    was = [("3W", "completed", 3, 4), ("4N", "completed", 6, 7), ("5E", "completed", 4, 6)]
    assert places(ward.visit(visit)) == [("3W", "active", 7, 0), *was]
    ward.day -= 1
    assert (await ward.say("A02", pv1(visit, place="3W", prior="4N"))).attempts == ()
    late = await ward.say("A02", pv1(visit, place="5E", prior="3W"), at="20260304080000")
    assert late.kind is VerdictKind.DELIVERED
    assert places(ward.visit(visit)) == [("3W", "active", 7, 0), *was]
    await ward.say("A03", pv1(visit, place="3W", end="20260309101500"))
    assert places(ward.visit(visit)) == [was[0], ("3W", "completed", 7, 9), *was[1:]]
    await ward.say("A13", pv1(visit, place="3W"))
    assert places(ward.visit(visit)) == [("3W", "active", 7, 0), *was]


async def test_a_place_that_was_told_by_mistake_leaves_no_trace(ward):
    """A cancelled transfer, and a place corrected by an update: the visit is where it was, since it was there."""
    visit = f"{ward.name}-V"
    await ward.say("A01", pv1(visit, place="3W"))
    for event in ("A12", "A08"):
        await ward.say("A02", pv1(visit, place="5E", prior="3W"))
        assert [place[:2] for place in places(ward.visit(visit))] == [("3W", "completed"), ("5E", "active")]
        await ward.say(event, pv1(visit, place="3W", prior="3W" if event == "A12" else ""))
        assert places(ward.visit(visit))[0] == ("3W", "active", 3, 0)
    assert len(places(ward.visit(visit))) == 1


async def test_places_of_two_systems(ward):
    """The emergency department tells of its chair, the ward of its beds: each place once, with its time."""
    visit, chair = f"E-{ward.name}", "ED^7^^RIVERBEND"
    await ward.say("A04", pv1(visit, kind="E", place=chair), sender="EMERG")
    await ward.say("A06", pv1(visit, place="3W", prior=chair))
    await ward.say("A02", pv1(visit, place="5E", prior="3W"))
    found = [("3W", "completed", 4, 5), ("5E", "active", 5, 0), ("ED 7", "completed", 3, 4)]
    assert places(ward.visit(visit)) == found
    await ward.say("A08", pv1(visit, kind="E", place=chair), sender="EMERG", at="20260303090000")
    assert ("5E", "active", 5, 0) in places(ward.visit(visit))


async def test_a_place_that_another_system_told_of_is_left_once(ward):
    """Who is admitted from the emergency department, by another system than that department's, has left it."""
    chair, number = "ED^7^^RIVERBEND", f"E-{ward.name}"
    await ward.say("A04", pv1(number, kind="E", place=chair), sender="EMERG")
    await ward.say("A06", pv1(number, prior=chair))
    places = [(one["location"]["display"], one["status"]) for one in ward.visit(number)["location"]]
    assert sorted(places) == [("3W 312 A", "active"), ("ED 7", "completed")]
    await ward.say("A03", pv1(number, end="20260320120000"))
    places = [(one["location"]["display"], one["status"]) for one in ward.visit(number)["location"]]
    assert sorted(places) == [("3W 312 A", "completed"), ("ED 7", "completed")]


async def test_the_whole_stay_again_changes_nothing(ward):
    """Every message of a stay replayed in order leaves the visit as it was."""
    visit = f"{ward.name}-V"
    stay = [
        ("A05", {"kind": "P"}),
        ("A01", {"begin": "20260304075500"}),
        ("A21", {}),
        ("A22", {}),
        ("A06", {"kind": "I"}),
        ("A02", {"place": "5E^512^B^RIVERBEND", "prior": "3W^312^A^RIVERBEND"}),
        ("A12", {"place": "3W^312^A^RIVERBEND"}),
        ("A03", {"end": "20260310101500"}),
        ("A13", {}),
        ("A03", {"end": "20260312101500"}),
    ]
    for event, said in stay:
        await ward.say(event, pv1(visit, **said))
    before = ward.visit(visit)
    ward.day = 2
    for event, said in stay:
        assert (await ward.say(event, pv1(visit, **said), replay=True)).kind is VerdictKind.DELIVERED
    after = ward.visit(visit)
    assert {**after, "meta": None} == {**before, "meta": None}


@pytest.mark.parametrize(
    ("events", "status"),
    [
        pytest.param(["A04"], "in-progress", id="register"),
        pytest.param(["A05", "A38"], "cancelled", id="cancel-pre-admit"),
        pytest.param(["A14", "A27"], "cancelled", id="cancel-pending-admit"),
        pytest.param(["A01", "A38"], "in-progress", id="no-pre-admission-to-cancel"),
        pytest.param(["A01", "A11"], "cancelled", id="cancel-admit"),
        pytest.param(["A01", "A11", "A08"], "cancelled", id="an-update-reopens-nothing"),
        pytest.param(["A01", "A21"], "onleave", id="leave"),
        pytest.param(["A01", "A21", "A08"], "onleave", id="an-update-ends-no-leave"),
        pytest.param(["A01", "A21", "A22"], "in-progress", id="return"),
        pytest.param(["A01", "A21", "A52"], "in-progress", id="cancel-leave"),
        pytest.param(["A01", "A21", "A22", "A53"], "onleave", id="cancel-return"),
        pytest.param(["A01", "A03", "A08"], "finished", id="an-update-after-the-discharge"),
        pytest.param(["A01", "A03", "A02"], "finished", id="a-transfer-after-the-discharge"),
        pytest.param(["A01", "A03", "A21"], "finished", id="a-leave-after-the-discharge"),
        pytest.param(["A01", "A05"], "in-progress", id="a-late-pre-admission"),
        pytest.param(["A01", "A23"], "entered-in-error", id="delete-visit"),
        pytest.param(["A01", "A11", "A01"], "in-progress", id="admitted-after-all"),
        pytest.param(["A01", "A03", "A01"], "in-progress", id="number-used-again"),
        pytest.param(["A05", "A02"], "in-progress", id="transferred-so-there"),
        pytest.param(["A01", "A07"], "in-progress", id="class-change"),
        pytest.param(["A01", "A16", "A25"], "in-progress", id="pending-discharge"),
    ],
)
async def test_status_after_events(ward, events, status):
    """What each event makes of the status that is stored."""
    visit = f"{ward.name}-V"
    for event in events:
        assert (await ward.say(event, pv1(visit, kind="P" if event in {"A05", "A14"} else "I"))).applied
    assert ward.visit(visit)["status"] == status


async def test_a_deleted_person_s_visit_is_in_error(ward):
    """An A29 that names a visit enters it in error; one that is unknown says nothing of it."""
    visit = f"{ward.name}-V"
    await ward.say("A01", pv1(visit))
    verdict = await ward.say("A29", pv1(visit))
    assert (verdict.reason, "inactivated" in verdict.notes) == ("updated", True)
    assert ward.visit(visit)["status"] == "entered-in-error"
    assert (await ward.say("A29", pv1(f"{visit}2"))).reason == "unchanged"


async def test_an_ancillary_system_writes_only_what_is_empty(ward):
    """`demographics: fill`: of another system's visit, status, class and places stay, and what is empty is filled.

    What it wrote itself it may change, and a visit of its own it moves.
    """
    visit, own = f"{ward.name}-V", f"{ward.name}-L"
    filling = {"channel": ward.site.channel.model_copy(update={"demographics": "fill"}), "sender": "LAB"}
    await ward.say("A01", pv1(visit, begin="20260303075500"))
    before = ward.visit(visit)
    await ward.say("A08", pv1(visit, kind="O", place="LAB^1", doctor="3301^Finch^Ida", more={14: "7"}), **filling)
    after = ward.visit(visit)
    assert after["hospitalization"]["admitSource"]["coding"][0]["code"] == "7"  # PV1-14
    kept = ("status", "class", "location", "participant", "period")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    await ward.say("A08", pv1(visit, more={14: "8"}), **filling)
    assert ward.visit(visit)["hospitalization"]["admitSource"]["coding"][0]["code"] == "8"
    await ward.say("A03", pv1(visit, end="20260309080000"), **filling)
    assert (ward.visit(visit)["status"], "end" in ward.visit(visit)["period"]) == ("in-progress", False)
    await ward.say("A04", pv1(own, kind="O"), **filling)
    await ward.say("A03", pv1(own, kind="O", end="20260312080000"), **filling)
    assert ward.visit(own)["status"] == "finished"


async def test_a_deleted_visit_leaves_the_patient_untouched(ward):
    """An A23 says whose visit is deleted, and nothing else of the patient, whatever its PID holds."""
    visit = f"{ward.name}-V"
    await ward.say("A01", pv1(visit))
    patient = ward.find("Patient", MRN, ward.name)
    ward.name, number = f"{ward.name}-Other", ward.name
    verdict = await ward.say("A23", pv1(visit), number=number, more=["NK1|1|Vale^Ann|SPO"])
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "updated")
    assert ward.find("Patient", MRN, number) == patient
    found = ward.find("Encounter", VISITS, visit, f"&patient={patient['id']}")
    assert found["status"] == "entered-in-error"


async def test_nothing_to_cancel(ward):
    """A cancel for a visit that nobody knows writes nothing, and makes no patient either."""
    for event in ("A11", "A12", "A13", "A23", "A25", "A26", "A27", "A32", "A33", "A38", "A52", "A53", "A55"):
        verdict = await ward.say(event, pv1("V-OF-NOBODY"))
        assert (verdict.kind, verdict.reason, verdict.attempts) == (VerdictKind.DELIVERED, "nothing-to-cancel", ())
    await ward.say("A28", pv1("", kind="N"))
    verdict = await ward.say("A11", pv1(f"{ward.name}-V"))
    assert (verdict.reason, verdict.attempts) == ("nothing-to-cancel", ())
    await ward.say("A01", pv1(f"{ward.name}-V"))
    verdict = await ward.say("A13", pv1(f"{ward.name}-V"))
    assert "nothing-to-cancel" in verdict.notes
    assert ward.visit(f"{ward.name}-V")["status"] == "in-progress"


@pytest.mark.parametrize(
    ("events", "late", "note"),
    [
        pytest.param(["A01"], "A38", "nothing-to-cancel", id="cancel-pre-admit"),
        pytest.param(["A01"], "A27", "nothing-to-cancel", id="cancel-pending-admit"),
        pytest.param(["A01"], "A13", "nothing-to-cancel", id="cancel-discharge"),
        pytest.param(["A01", "A03", "A11"], "A13", "nothing-to-cancel", id="cancel-discharge-of-a-cancelled-visit"),
        pytest.param(["A01", "A03", "A01"], "A13", "nothing-to-cancel", id="cancel-discharge-of-a-number-used-again"),
        pytest.param(["A01", "A03"], "A52", "nothing-to-cancel", id="cancel-leave"),
        pytest.param(["A01"], "A05", "visit-under-way", id="pre-admit"),
        pytest.param(["A01", "A21"], "A14", "visit-under-way", id="pending-admit"),
    ],
)
async def test_a_late_word_leaves_the_visit_as_it_is(ward, events, late, note):
    """Where there is nothing to cancel, or a visit to be expected has begun, class, place and times stay, too."""
    visit = f"{ward.name}-V"
    for event in events:
        await ward.say(event, pv1(visit, end=f"202603{ward.day + 1:02d}080000" if event == "A03" else ""))
    before = ward.visit(visit)
    end = "20260305101500" if note == "nothing-to-cancel" else ""
    verdict = await ward.say(late, pv1(visit, kind="P", place="9Z^1", end=end, more={36: "01"}))
    assert (verdict.kind, note in (verdict.reason, *verdict.notes)) == (VerdictKind.DELIVERED, True)
    assert ward.visit(visit) == before


async def test_a_time_of_discharge_that_is_not_meant_ends_nothing(ward):
    """PV1-45 of an expected discharge (A16), or of one that is cancelled (A13): the patient is where they were."""
    visit = f"{ward.name}-V"
    await ward.say("A01", pv1(visit, begin="20260303075500"))
    await ward.say("A16", pv1(visit, end="20260309101500"))
    body = ward.visit(visit)
    assert body["period"] == {"start": "2026-03-03T07:55:00+00:00"}
    assert places(body) == [("3W 312 A", "active", 3, 0)]
    assert [one["valueDateTime"] for one in body["extension"]] == ["2026-03-09T10:15:00+00:00"]  # planned end
    await ward.say("A03", pv1(visit, end="20260305101500"))
    assert places(ward.visit(visit)) == [("3W 312 A", "completed", 3, 5)]
    await ward.say("A13", pv1(visit, end="20260305101500"))
    body = ward.visit(visit)
    assert (body["status"], body["period"]) == ("in-progress", {"start": "2026-03-03T07:55:00+00:00"})
    assert places(body) == [("3W 312 A", "active", 3, 0)]


async def test_pre_admission_number(ward):
    """An admission under a new number finds the pre-admission by PV1-5, which stays as a second identifier."""
    early, visit = f"{ward.name}-P", f"{ward.name}-V"
    await ward.say("A05", pv1(early, kind="P"))
    assert (await ward.say("A01", pv1(visit, more={5: f"{early}^^^RVB"}))).reason == "updated"
    body = ward.visit(early)
    assert (body["id"], body["status"]) == (ward.visit(visit)["id"], "in-progress")
    assert [one["value"] for one in body["identifier"]] == [early, visit]
    assert body["hospitalization"]["preAdmissionIdentifier"]["value"] == early


async def test_unknown_visit_is_made_in_the_state_that_the_event_leaves(ward):
    """A transfer of a visit that nobody knows makes it, flagged; so does a discharge, but not an admission."""
    for event, status in (("A02", "in-progress"), ("A03", "finished"), ("A21", "onleave"), ("A08", "in-progress")):
        verdict = await ward.say(event, pv1(f"{ward.name}-{event}"))
        assert "unknown-visit" in verdict.notes
        assert ward.visit(f"{ward.name}-{event}")["status"] == status
    assert "unknown-visit" not in (await ward.say("A01", pv1(f"{ward.name}-A01"))).notes


async def test_visit_without_a_number(ward):
    """Without a number there is no visit; the patient is done, with a warning."""
    verdict = await ward.say("A01", "I|3W^312^A")
    assert (verdict.reason, "no-visit-number" in verdict.notes) == ("created", True)


async def test_visit_of_another_patient_is_held(ward):
    """A visit number that belongs to somebody else holds the entry, whichever way it was found."""
    visit = f"{ward.name}-V"
    await ward.say("A01", pv1(visit))
    other = f"{ward.name}X"
    for event in ("A01", "A08", "A03"):
        verdict = await ward.say(event, pv1(visit), number=other)
        assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "visit-of-another-patient")
    assert ward.visit(visit)["status"] == "in-progress"


async def test_visit_of_a_merged_patient(ward):
    """After a merge the visits of the old number are the survivor's, whichever of the numbers a message names."""
    visit, gone = f"{ward.name}-V", f"{ward.name}X"
    await ward.say("A01", pv1(visit), number=gone)
    await ward.say("A28", "N")
    assert (await ward.say("A40", "", more=(f"MRG|{gone}^^^RVB^MR",))).reason == "merged"
    for number, place in ((ward.name, "5E"), (gone, "ED")):
        verdict = await ward.say("A02", pv1(visit, place=place), number=number)
        assert verdict.kind is VerdictKind.DELIVERED, verdict.reason
        body = ward.visit(visit)
        assert [one["location"]["display"] for one in body["location"] if one["status"] == "active"] == [place]


async def test_reuse_of_a_number_may_be_held(ward):
    """An admission on a visit that is over is held where the channel says so; one from before its end moves nothing."""
    visit = f"{ward.name}-V"
    await ward.say("A01", pv1(visit), at="20260303080000")
    await ward.say("A03", pv1(visit, end="20260309080000"), at="20260309080000")
    late = await ward.say("A01", pv1(visit), at="20260304080000")
    assert (late.kind, "visit-reused" in late.notes) == (VerdictKind.DELIVERED, False)
    assert ward.visit(visit)["status"] == "finished"
    holding = ward.site.channel.model_copy(update={"visit_reuse": "hold"})
    verdict = await ward.say("A01", pv1(visit), at="20260310080000", channel=holding)
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "visit-reused")
    verdict = await ward.say("A01", pv1(visit, begin="20260310070000"), at="20260310080000")
    assert "visit-reused" in verdict.notes
    body = ward.visit(visit)
    assert (body["status"], body["period"]) == ("in-progress", {"start": "2026-03-10T07:00:00+00:00"})


async def test_change_of_a_visit_number(ward):
    """An A50 adds the new number and keeps the old one as such; sent again it changes nothing."""
    old, new = f"{ward.name}-O", f"{ward.name}-N"
    await ward.say("A01", pv1(old))
    for reason in ("updated", "unchanged"):
        verdict = await ward.say("A50", pv1(new), more=(f"MRG|{ward.name}^^^RVB||||{old}^^^RVB",))
        assert verdict.reason == reason
    body = ward.visit(new)
    assert ward.visit(old)["id"] == body["id"]
    await ward.say("A01", pv1(f"{ward.name}-M"))
    verdict = await ward.say("A50", pv1(f"{ward.name}-M"), more=(f"MRG|{ward.name}^^^RVB||||{old}^^^RVB",))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "would-merge")


async def test_merge_of_visits(ward):
    """An A42 enters the one visit in error, as part of the other, which later messages of the old number reach."""
    gone, kept = f"{ward.name}-G", f"{ward.name}-K"
    await ward.say("A01", pv1(gone))
    await ward.say("A01", pv1(kept))
    source = ward.visit(gone)["id"]
    await ward.say("A42", pv1(kept), more=(f"MRG|{ward.name}^^^RVB||||{gone}^^^RVB",))
    target = ward.visit(kept)
    body = ward.service.ask("GET", f"/fhir/R4/Encounter/{source}", client="physician").json()
    assert (body["status"], body["partOf"]) == ("entered-in-error", {"reference": f"Encounter/{target['id']}"})
    late = await ward.say("A08", pv1(gone, doctor="3301^Finch^Ida"))
    assert late.reason == "updated"
    assert (
        ward.service.ask("GET", f"/fhir/R4/Encounter/{target['id']}", client="physician").json()["participant"][0][
            "individual"
        ]["display"]
        == "Ida Finch"
    )  # PV1-7
    again = await ward.say("A42", pv1(kept, doctor="3301^Finch^Ida"), more=(f"MRG|{ward.name}^^^RVB||||{gone}^^^RVB",))
    assert again.reason == "already-merged"
    assert again.attempts == ()
    unknown = await ward.say("A42", pv1(kept, doctor="3301^Finch^Ida"), more=(f"MRG|{ward.name}^^^RVB||||NO^^^RVB",))
    assert unknown.reason in {"updated", "source-absent"}


def moving(source, visit, *, old=""):
    """The MRG of a move from a patient, with the PV1 of the visit after it."""
    return (f"MRG|{source}^^^RVB||||{old or visit}^^^RVB\rPV1|1|{pv1(visit)}",)


async def test_move_of_a_visit(ward):
    """An A45 gives a visit to another patient, made from its PID if unknown; sent again it changes nothing."""
    visit, other = f"{ward.name}-V", f"{ward.name}X"
    await ward.say("A01", pv1(visit), number=other)
    assert (await ward.say("A45", "", more=moving(other, visit))).reason == "created"
    patient = ward.find("Patient", MRN, ward.name)
    assert ward.visit(visit)["subject"]["reference"] == f"Patient/{patient['id']}"
    again = await ward.say("A45", "", more=moving(other, visit), ambiguous=True)
    assert (again.reason, again.attempts) == ("unchanged", ())


async def test_move_under_a_new_number(ward):
    """A move may change the visit's number, too: the old one stays as such."""
    old, new, other = f"{ward.name}-O", f"{ward.name}-N", f"{ward.name}X"
    await ward.say("A01", pv1(old), number=other)
    await ward.say("A45", "", more=moving(other, new, old=old))
    assert ward.visit(new)["id"] == ward.visit(old)["id"]


async def test_move_from_the_wrong_patient_is_held(ward):
    """A visit that belongs to a third patient is not moved, and neither is one whose patient nobody knows."""
    visit, other, third = f"{ward.name}-V", f"{ward.name}X", f"{ward.name}Y"
    await ward.say("A01", pv1(visit), number=third)
    await ward.say("A28", "N", number=other)
    for source in (other, f"{ward.name}Z"):
        verdict = await ward.say("A45", "", more=moving(source, visit))
        assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "visit-of-another-patient")


async def test_move_of_what_nobody_knows(ward):
    """A visit that nobody knows is made for its new patient, flagged; an account without one moves nothing."""
    visit, other = f"{ward.name}-V", f"{ward.name}X"
    await ward.say("A28", "N")
    verdict = await ward.say("A45", "", more=moving(other, visit))
    assert (verdict.reason, "unknown-visit" in verdict.notes) == ("created", True)
    assert (await ward.say("A44", "", more=(f"MRG|{other}^^^RVB||AC1^^^RVB",))).attempts == ()


async def test_swap_of_beds(ward):
    """An A17 moves both patients, each to the place of its own PV1."""
    one, two = f"{ward.name}-1", f"{ward.name}-2"
    other = f"{ward.name}X"
    await ward.say("A01", pv1(one, place="3W^312^A^RIVERBEND"))
    await ward.say("A01", pv1(two, place="3W^312^B^RIVERBEND"), number=other)
    second = f"PID|2||{other}^^^RVB^MR||{ward.name}^Amara||19600102|F\rPV1|2|{pv1(two, place='3W^312^A^RIVERBEND')}"
    verdict = await ward.say("A17", pv1(one, place="3W^312^B^RIVERBEND"), more=(second,))
    assert verdict.kind is VerdictKind.DELIVERED
    assert ward.visit(one)["location"][0]["location"]["display"] == "3W 312 B"
    patient = ward.find("Patient", MRN, other)
    body = ward.find("Encounter", VISITS, two, f"&patient={patient['id']}")
    assert body["location"][0]["location"]["display"] == "3W 312 A"


async def test_no_period_ends_before_it_begins(ward):
    """A discharge before the stored admission leaves the period as it was, and no place with a reversed one."""
    visit = f"{ward.name}-V"
    await ward.say("A01", pv1(visit, begin="20260305080000"), at="20260305080000")
    before = ward.visit(visit)["period"]
    verdict = await ward.say("A03", pv1(visit, end="20260302080000"), at="20260306080000")
    assert "period-reversed" in verdict.notes
    body = ward.visit(visit)
    assert (body["status"], body["period"]) == ("finished", before)
    assert all(
        one.get("period", {}).get("end", "9") > one.get("period", {}).get("start", "") for one in body["location"]
    )
    await ward.say("A03", pv1(visit, end="20260309080000"), at="20260309080000")
    assert ward.visit(visit)["period"]["end"] == "2026-03-09T08:00:00+00:00"
