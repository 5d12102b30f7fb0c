"""Visits without a number, at the interchange service itself and at a server whose requests are counted."""

import pytest

from engine.config.settings import shipped
from engine.deliver.verdict import VerdictKind
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.compile import compile_mapping, load
from tests.deliver.conftest import AT, MRN, Remembered, Site
from tests.deliver.fake_fhir import Step, outcome_of

VISITS = "https://visits.riverbend.example"
ADMISSIONS = f"{MRN}#admission"
CHANNEL = channel_of({"authorities": {"RVB": MRN, "RVB^VN": VISITS}})
SOURCE = load([shipped("mappings")], "adt")
MAPPING = compile_mapping(SOURCE, CHANNEL)
WITH_DIAGNOSES = compile_mapping(sending(SOURCE, ("Encounter", "Condition")), CHANNEL)
MORNING, NOON = "202603030755", "202603031210"


class Desk:
    """A feed about one patient: `say` delivers an event, with a visit number or without."""

    def __init__(self, site, name):
        self.site, self.name, self.mapping, self.day = site, name, MAPPING, 2

    def plan(self, event, number="", begin=MORNING, *, kind="I", pid3="", more=(), at=""):
        """The plan of an event; without a number, PV1-19 is empty."""
        self.day += not at
        at = at or f"202603{self.day:02d}080000"
        head = f"MSH|^~\\&|REG|RIVERBEND|||{at}||ADT^{event}|{event}{at}|P|2.5.1\rEVN|{event}|{at}"
        pid = f"PID|1||{pid3 or self.name}^^^RVB^MR||{self.name}^Amara||19600102|F"
        visit = f"{number}-AAA{self.name}^^^RVB" if number else ""
        pv1 = f"PV1|1|{kind}|3W^312^A^RIVERBEND" + "|" * 16 + visit + "|" * 25 + begin
        return self.mapping.plan(parse("\r".join((head, pid, pv1, *more)).encode()))

    async def say(self, event, number="", begin=MORNING, *, options=None, **how):
        """Deliver an event, which must come to its end."""
        verdict = await self.site.deliver(self.plan(event, number, begin, **how), **(options or {}))
        assert verdict.kind is VerdictKind.DELIVERED, verdict
        return verdict


class Service(Desk):
    """The same at the service, with what it has of the patient."""

    def __init__(self, site, service, name):
        super().__init__(site, name)
        self.service = service

    def of(self, type_, pid3=""):
        """The patient's resources of a type, oldest first."""
        (patient,) = self._found("Patient", f"identifier={MRN}|{pid3 or self.name}")
        found = self._found(type_, f"patient={patient['id']}")
        return sorted(found, key=lambda one: one["meta"]["lastUpdated"])

    def visit(self, pid3=""):
        """The patient's one visit."""
        (visit,) = self.of("Encounter", pid3)
        return visit

    def _found(self, type_, query):
        bundle = self.service.ask("GET", f"/fhir/R4/{type_}?{query}", client="physician").json()
        return [entry["resource"] for entry in bundle.get("entry") or ()]


@pytest.fixture
def ward(request, service_site, interchange):
    """A feed about a patient whom no other test uses, in each FHIR version."""
    return Service(service_site, interchange, "".join(letter for letter in request.node.name if letter.isalnum()))


@pytest.fixture
async def desk(chart):
    """A feed to that server, whose patient and places are known."""
    site = Site(chart.base).open(if_none_exist="identifier")
    desk = Desk(site, "SILVA")
    await desk.say("A01", "V0", "202601010800")
    yield desk
    await site.close()


def numbers(visit):
    """A visit's numbers, each with its use, without the patient's name: `V1`, or the time of a temporary one."""
    return [(one["value"].rpartition("@")[2].partition("-AAA")[0], one.get("use", "")) for one in visit["identifier"]]


def asked(chart, since):
    """The requests from one on, without their queries."""
    return [request.partition("?")[0] for request in chart.requests[since:]]


WAITING = ("2026-03-03T07:55Z", "temp")


async def test_a_visit_without_a_number_is_made_once(ward):
    """An A01 without a number makes the visit under a temporary one; what follows finds it by patient and time."""
    verdict = await ward.say("A01")
    assert "temporary-visit" in verdict.notes
    body = ward.visit()
    assert body["identifier"] == [{"use": "temp", "system": ADMISSIONS, "value": f"{ward.name}@2026-03-03T07:55Z"}]
    assert (body["status"], body["period"]) == ("in-progress", {"start": "2026-03-03T07:55:00+00:00"})
    assert "temporary-visit" not in (await ward.say("A02", begin=f"{MORNING}00")).notes  # with seconds
    await ward.say("A03", begin=MORNING)
    assert ward.visit()["status"] == "finished"
    await ward.say("A11")
    assert (ward.visit()["status"], numbers(ward.visit())) == ("cancelled", [WAITING])


@pytest.mark.parametrize("event", ["A05", "A14", "A01", "A04"])
async def test_a_number_joins_the_visit_that_waited_for_it(ward, event):
    """The first message with a number gives it to the visit made without one, and is noted; the temporary one stays."""
    await ward.say(event, kind="P")
    made = ward.visit()["id"]
    assert "visit-numbered" in (await ward.say("A01", "V1")).notes
    body = ward.visit()
    assert (body["id"], body["status"]) == (made, "in-progress")
    assert numbers(body) == [WAITING, ("V1", "")]
    assert body["identifier"][1]["type"]["coding"][0]["code"] == "VN"
    assert "visit-numbered" not in (await ward.say("A08", "V1")).notes
    await ward.say("A02")
    assert numbers(ward.visit()) == [WAITING, ("V1", "")]


async def test_a_message_without_a_number_finds_the_numbered_visit(ward):
    """What comes after a numbered message without a number is of that visit, which gets no other number."""
    await ward.say("A01", "V1")
    for event, status in (("A08", "in-progress"), ("A03", "finished"), ("A13", "in-progress"), ("A27", "in-progress")):
        assert "temporary-visit" not in (await ward.say(event)).notes
        assert (ward.visit()["status"], numbers(ward.visit())) == (status, [("V1", "")])
    await ward.say("A02", "V1")
    await ward.say("A23")
    assert (ward.visit()["status"], numbers(ward.visit())) == ("entered-in-error", [("V1", "")])


async def test_a_visit_from_before_the_journal_is_found(ward):
    """Nothing but the server's own visits has to be known: not the time's number, nor who made the visit."""
    await ward.say("A01", "V1")
    ward.site.memory = Remembered()
    ward.site = await ward.site.again()
    await ward.say("A08")
    await ward.say("A01", "V1")
    assert numbers(ward.visit()) == [("V1", "")]


async def test_a_corrected_time_is_that_by_which_the_visit_is_found(ward):
    """An A08 with another time changes it by number; without one, it is a new visit, and that is told."""
    await ward.say("A01", "V1")
    await ward.say("A08", "V1", NOON)
    assert "temporary-visit" not in (await ward.say("A02", begin=NOON)).notes
    assert numbers(ward.visit()) == [("V1", "")]
    assert {"temporary-visit", "unknown-visit"} <= set((await ward.say("A08", begin="202603031400")).notes)
    assert len(ward.of("Encounter")) == 2


async def test_of_two_visits_at_one_time_none_is_chosen(ward):
    """Two numbers at one minute are two visits, noted; a message without a number then changes none of them."""
    assert "visits-at-one-time" not in (await ward.say("A01", "V1")).notes
    assert "visits-at-one-time" in (await ward.say("A01", "V2", kind="O")).notes
    verdict = await ward.say("A03")
    assert "visits-at-one-time" in verdict.notes
    found = ward.of("Encounter")
    assert sorted((*numbers(one)[0], one["status"]) for one in found) == [
        ("V1", "", "in-progress"),
        ("V2", "", "in-progress"),
    ]


async def test_a_number_does_not_join_a_visit_that_has_another(ward):
    """A visit made without a number that got one keeps it: a second number at that time is a second visit."""
    await ward.say("A01")
    await ward.say("A01", "V1")
    await ward.say("A01", "V2")
    found = ward.of("Encounter")
    assert sorted(numbers(one) for one in found) == [
        [WAITING, ("V1", "")],
        [("V2", "")],
    ]


async def test_a_visit_that_was_merged_away(ward):
    """What comes without a number goes where what has the old number goes: to the visit that keeps it."""
    await ward.say("A01", "V1")
    await ward.say("A01", "V2", NOON)
    mrg = f"MRG|{ward.name}^^^RVB^MR||||V1-AAA{ward.name}^^^RVB"
    await ward.say("A42", "V2", NOON, more=(mrg,))
    for event, status in (("A01", "in-progress"), ("A08", "in-progress"), ("A03", "finished")):
        await ward.say(event)
        assert {one["status"] for one in ward.of("Encounter")} == {"entered-in-error", status}
    assert len(ward.of("Encounter")) == 2


async def test_a_visit_in_error_that_was_a_part_of_another(ward):
    """It was not merged, as the other does not keep its number: the other one is not meant."""
    await ward.say("A01", "V1")
    await ward.say("A01", "V2", NOON)
    part, whole = sorted(ward.of("Encounter"), key=numbers)
    changed = part | {"status": "entered-in-error", "partOf": {"reference": f"Encounter/{whole['id']}"}}
    answer = ward.service.ask("PUT", f"/fhir/R4/Encounter/{part['id']}", json=changed)
    assert answer.status_code == 200, answer.text
    await ward.say("A03")
    (kept,) = [one for one in ward.of("Encounter") if one["id"] == whole["id"]]
    assert (kept["status"], kept["period"]["start"]) == ("in-progress", whole["period"]["start"])


async def test_visits_of_a_merged_patient(ward):
    """After an A40 the visits of the number that is gone are found under the survivor's, numbered or not."""
    gone = f"{ward.name}X"
    await ward.say("A01", pid3=gone)
    await ward.say("A01", "V2", NOON, pid3=gone)
    await ward.say("A28", begin="", kind="N")
    merge = ward.plan("A40", begin="", more=(f"MRG|{gone}^^^RVB^MR",))
    assert (await ward.site.deliver(merge)).reason == "merged"
    assert "temporary-visit" not in (await ward.say("A02")).notes
    assert "visit-numbered" in (await ward.say("A02", "V1")).notes
    assert "temporary-visit" not in (await ward.say("A03", begin=NOON)).notes
    found = {numbers(one)[-1][0]: one["status"] for one in ward.of("Encounter")}
    assert found == {"V1": "in-progress", "V2": "finished"}


async def test_visits_of_a_patient_whose_number_changed(ward):
    """After an A47 the visit made under the old number is found, and joined, under the new one."""
    new = f"{ward.name}N"
    await ward.say("A01")
    rename = ward.plan("A47", begin="", pid3=new, more=(f"MRG|{ward.name}^^^RVB^MR",))
    assert (await ward.site.deliver(rename)).reason == "renamed"
    assert "visit-numbered" in (await ward.say("A02", "V1", pid3=new)).notes
    assert numbers(ward.visit(new))[-1] == ("V1", "")


async def test_a_message_is_repeated(ward):
    """A second delivery of the same message, read first as after a lost answer, changes nothing."""
    for number in ("", "V1"):
        at = "20260304080000"
        await ward.say("A01", number, at=at)
        was = ward.visit()
        assert (await ward.say("A01", number, at=at, options={"ambiguous": True})).reason == "unchanged"
        assert ward.visit() == was


async def test_diagnoses_stay_one_whichever_way_the_visit_is_told(ward):
    """A diagnosis listed within a visit is one Condition, with a number, without, and with it again."""
    ward.mapping = WITH_DIAGNOSES
    for number in ("", "V1", "", "V1"):
        await ward.say("A08", number, more=("DG1|1||I20.9^Angina^I10",))
        (condition,) = ward.of("Condition")
        assert condition["encounter"] == {"reference": f"Encounter/{ward.visit()['id']}"}
        assert "verificationStatus" not in condition  # nor was it entered in error between


@pytest.mark.parametrize("begin", ["20260303", "202603030000", "20260303000000", "2026030307", "", '""', "20269903"])
async def test_without_a_time_there_is_no_visit(ward, begin):
    """A date is no time, nor is midnight, which fills a date up: no visit, with the warning as before."""
    verdict = await ward.say("A01", begin=begin)
    assert "no-visit-number" in verdict.notes
    assert ward.of("Encounter") == []


async def test_class_n_is_no_visit(ward):
    """PV1-2 N says that there is no visit, whatever time stands beside it."""
    await ward.say("A01", kind="N")
    assert ward.of("Encounter") == []


async def test_a_dry_run_tells_what_would_join(ward):
    """What a number would do to the visit that waits for it is shown, and nothing is written."""
    await ward.say("A01")
    was = ward.visit()
    run = await ward.site.destination.dry_run(ward.plan("A01", "V1"), ward.site.memory, at=AT)
    assert "visit-numbered" in run.verdict.notes
    assert [(call.method, call.path) for call in run.calls if call.changes] == [("PUT", f"Encounter/{was['id']}")]
    assert ward.visit() == was


async def test_what_a_number_costs(chart, desk):
    """Once a visit is known by its number, its time costs nothing; a new number of a known patient, one search."""
    before = len(chart.requests)
    await desk.say("A01", "V1")
    assert asked(chart, before) == ["GET Patient/p1", "GET Encounter", "POST Encounter"]
    before = len(chart.requests)
    await desk.say("A02", "V1", kind="O")
    assert asked(chart, before) == ["GET Patient/p1", "PUT Encounter/r7"]
    before = len(chart.requests)
    desk.name = "OSEI"
    await desk.say("A01", "V2")
    assert asked(chart, before) == ["GET Patient", "POST Patient", "GET Patient", "POST Encounter"]


async def test_what_no_number_costs(chart, desk):
    """A visit without a number costs one search more than one with it."""
    for made in ("POST Encounter", "PUT Encounter/r7"):
        before = len(chart.requests)
        await desk.say("A01" if made.startswith("POST") else "A03")
        assert asked(chart, before) == ["GET Patient/p1", "GET Encounter", made]


async def test_a_search_that_is_behind_makes_no_second_visit(chart, desk):
    """A visit that a server does not show yet is read by what is remembered of its time."""
    await desk.say("A01", "V1")
    shown, chart._look = chart._look, lambda *_: []
    await desk.say("A08")
    chart._look = shown
    assert len(chart.of("Encounter")) == 2


async def test_an_answer_that_was_lost(chart, desk):
    """A create of a visit without a number whose answer is lost is found again, and not made twice."""
    chart.script.append(Step("POST", status=500, commit=True, path="Encounter"))
    plan = desk.plan("A01")
    assert (await desk.site.deliver(plan)).kind is VerdictKind.RETRY
    verdict = await desk.site.deliver(plan, ambiguous=True, attempts_made=1)
    assert (verdict.kind, len(chart.of("Encounter"))) == (VerdictKind.DELIVERED, 2)


async def test_a_visit_of_others_is_not_taken(chart, desk):
    """A visit that goes by no number of a visit was made by somebody else: it is left alone."""
    patient = chart.of("Encounter")[0]["subject"]
    period, number = {"start": "2026-03-03T07:55:00Z"}, {"system": "https://desk.example", "value": "7"}
    visit = {"resourceType": "Encounter", "status": "planned", "subject": patient, "period": period}
    chart._keep("Encounter/x", visit | {"identifier": [number]})
    assert "temporary-visit" in (await desk.say("A03")).notes
    assert chart.chart["Encounter/x"]["status"] == "planned"


async def test_a_server_that_does_not_search_by_time(chart, desk):
    """Numbers go on as before, and visits without one by what is remembered of them; either is noted."""
    look = chart._answer

    def answer(request, path, body):
        return outcome_of(400, "not-supported") if "date" in request.query else look(request, path, body)

    chart._answer = answer
    for number, event, notes in (
        ("", "A01", {"temporary-visit"}),
        ("", "A02", set()),
        ("V1", "A02", {"visit-numbered"}),
    ):
        verdict = await desk.say(event, number)
        assert set(verdict.notes) & {"temporary-visit", "visit-numbered"} == notes
        assert "visits-not-searched" in verdict.notes
    assert len(chart.of("Encounter")) == 2


async def test_a_pre_admission_is_cancelled_without_a_number(ward):
    """An A27 without a number cancels what an A14 without one planned, and an unknown one is left alone."""
    assert (await ward.say("A27", begin=NOON)).reason == "nothing-to-cancel"
    await ward.say("A14", kind="P")
    await ward.say("A27", kind="P")
    assert ward.visit()["status"] == "cancelled"


async def test_a_diagnosis_of_a_visit_that_is_not_known(ward):
    """Where several visits began in the minute, a diagnosis is the patient's, and of none of the visits."""
    ward.mapping = WITH_DIAGNOSES
    await ward.say("A01", "V1")
    await ward.say("A01", "V2")
    await ward.say("A08", more=("DG1|1||I20.9^Angina^I10",))
    (condition,) = ward.of("Condition")
    assert "encounter" not in condition
