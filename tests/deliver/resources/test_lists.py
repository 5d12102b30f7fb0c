"""What segments list, at the interchange service itself: made, kept, taken back, and never another feed's."""

import pytest

from engine.config.settings import shipped
from engine.deliver.verdict import VerdictKind
from engine.deliver.wire.client import ServerResponse
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.compile import compile_mapping, load
from tests.deliver.conftest import MRN, Site

EAST = "https://mrn.east.example"
LISTED = ("RelatedPerson", "Coverage", "AllergyIntolerance", "Condition", "Procedure", "Observation")
TYPES = ("Encounter", *LISTED, "Account")
SOURCE = sending(load([shipped("mappings")], "adt"), TYPES)
MAPPING = compile_mapping(SOURCE, channel_of({"authorities": {"RVB": MRN, "EAST": EAST}}))
CODES = {"AllergyIntolerance": "verificationStatus", "Condition": "verificationStatus"}
ALL = (
    "NK1|1|Silva^Bruno|BRO^Brother^HL70063|||",
    "AL1|1|DA|70618^Penicillin^RXNORM|SV|Rash",
    "DG1|1||I20.9^Angina^I10",
    "DG1|2||E11.9^Diabetes^I10",
    "PR1|1||47562^Cholecystectomy^C4||20250301101500",
    "OBX|1|NM|8302-2^Height^LN||168|cm^^UCUM|||||F|||20260301080000",
    "GT1|1|G-1|Silva^Carla||||||||MTH",
    "IN1|1|PPO|7781|Riverbend Mutual||||||||20200101||||Silva^Carla|MTH|19400101",
)


class Feed:
    """What one sender says of one patient, and what the service has of it."""

    def __init__(self, site, service, name, *, sender="REG", authority="RVB", also="", mapping=MAPPING):
        self.mapping = mapping
        self.site, self.service, self.name, self.sender, self.authority = site, service, name, sender, authority
        self.numbers = f"{name}^^^{authority}^MR{also}"
        self.day = 2

    async def say(self, *segments, event="A01", **options):
        """Deliver an event with these segments after PID and PV1."""
        self.day += 1
        at = f"202603{self.day:02d}080000"
        head = f"MSH|^~\\&|{self.sender}|RIVERBEND|||{at}||ADT^{event}|{event}{at}{self.name}|P|2.5.1\rEVN|{event}|{at}"
        account = f"AC{self.name}^^^{self.authority}^AN"
        pid = f"PID|1||{self.numbers}||{self.name}^Amara||19600102|F||||||||||{account}"
        visit = f"PV1|1|I|3W||||||||||||||||{self.name}V^^^{self.authority}"
        self.plan = self.mapping.plan(parse("\r".join((head, pid, visit, *segments)).encode()))
        verdict = await self.site.deliver(self.plan, **options)
        assert verdict.kind is VerdictKind.DELIVERED, verdict
        self.writes = [attempt.request for attempt in verdict.attempts if attempt.request.method != "GET"]
        return verdict

    def patient(self):
        """The logical id of the patient."""
        system = MRN if self.authority == "RVB" else EAST
        return self.entries("Patient", f"identifier={system}|{self.name}")[0]["id"]

    def listed(self, type_):
        """What the service has of a type for the patient, oldest first, in R4."""
        found = self.entries(type_, f"patient=Patient/{self.patient()}")
        return sorted(found, key=lambda one: int(one["id"]) if one["id"].isdigit() else one["meta"]["lastUpdated"])

    def entries(self, type_, query):
        """What a search at the service finds, in R4."""
        answer = self.service.ask("GET", f"/fhir/R4/{type_}?{query.replace('#', '%23')}", client="physician")
        return [entry["resource"] for entry in answer.json().get("entry", ())]


def state(body):
    """How a resource stands: its status, verification or activity; empty where it says nothing of it."""
    coded = body.get(CODES.get(body["resourceType"], ""), {}).get("coding", [{}])[0].get("code", "")
    return coded or (body.get("status") if body["resourceType"] not in CODES else "") or str(body.get("active", ""))


def states(feed, type_):
    """How the resources of a type stand, by what they are called."""
    return {_called(body): state(body) for body in feed.listed(type_)}


def _called(body):
    concept = body.get("code") or {}
    plan = [one["value"] for one in body.get("class", ()) if isinstance(one, dict)]
    given = [part for name in body.get("name", ()) for part in name.get("given", ())]
    return concept.get("text") or "".join(plan) or "".join(given)


@pytest.fixture
def feed(request, service_site, interchange):
    """A feed whose patient no other test uses."""
    return Feed(service_site, interchange, "".join(letter for letter in request.node.name if letter.isalnum()))


async def test_all_of_a_message(feed):
    """An A01 makes all that its segments list, each once; sent again it writes nothing, with other set ids neither."""
    verdict = await feed.say(*ALL)
    assert verdict.reason == "created"
    found = {type_: len(feed.listed(type_)) for type_ in TYPES}
    assert found == {
        "Encounter": 1,
        "RelatedPerson": 3,  # NK1, the insured of IN1, the guarantor of GT1
        "Coverage": 1,
        "AllergyIntolerance": 1,
        "Condition": 2,
        "Procedure": 1,
        "Observation": 1,
        "Account": 1,
    }
    (coverage,) = feed.listed("Coverage")
    insured = next(one for one in feed.listed("RelatedPerson") if one["name"][0]["given"] == ["Carla"])
    assert coverage["subscriber"]["reference"] == f"RelatedPerson/{insured['id']}"
    (visit,) = feed.listed("Encounter")
    conditions = feed.listed("Condition")
    assert {condition["encounter"]["reference"] for condition in conditions} == {f"Encounter/{visit['id']}"}
    named = {one["condition"]["reference"] for one in visit["diagnosis"]}
    assert named == {f"Condition/{condition['id']}" for condition in conditions}
    feed.day -= 1
    await feed.say(*ALL)
    assert feed.writes == []
    feed.day -= 1
    await feed.say(*(segment.replace("|1|", "|9|", 1) for segment in ALL))
    assert [write.method for write in feed.writes] == ["PUT"]  # Coverage.order is IN1-1


async def test_a_visit_names_what_is_the_patients_own(service_site, interchange, tmp_path):
    """A list within the patient that says something of the visit: one resource, named by each visit that lists it."""
    (tmp_path / "resources").mkdir()
    site = "resource: Condition\nextends: shipped/condition\nwithin: patient\nlist: additive\n"
    (tmp_path / "resources/condition.yaml").write_text(site, "utf-8")
    source = sending(load([tmp_path, shipped("mappings")], "adt"), TYPES)
    mapping = compile_mapping(source, channel_of({"authorities": {"RVB": MRN}}))
    feed = Feed(service_site, interchange, "ofthepatient", mapping=mapping)
    await feed.say("DG1|1||E11.9^Diabetes^I10")
    first, feed.name = feed.name, "again"
    feed.numbers = f"{first}^^^RVB^MR"
    await feed.say("DG1|1||E11.9^Diabetes^I10", "DG1|2||I20.9^Angina^I10")
    feed.name = first
    found = {condition["code"]["text"]: f"Condition/{condition['id']}" for condition in feed.listed("Condition")}
    assert len(found) == len(feed.listed("Condition")) == 2
    named = [[one["condition"]["reference"] for one in visit["diagnosis"]] for visit in feed.listed("Encounter")]
    assert sorted(named, key=len) == [[found["Diabetes"]], [found["Diabetes"], found["Angina"]]]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        pytest.param("99999999999999999999", "99999999999999999999", id="20 digits"),
        pytest.param("123456789012345.123456789012345", "123456789012345.123456789012345", id="30 digits"),
        pytest.param("0.12345678901234567", "0.12345678901234567", id="more than a double has"),
        pytest.param("1E5", "1E5", id="an exponent"),
        pytest.param("-0", 0, id="minus zero"),
        pytest.param("+007.50", 7.5, id="leading zeros"),
        pytest.param("999999999999999", 999999999999999, id="15 digits"),
        pytest.param("-123456789.012345", -123456789.012345, id="15 digits with a point"),
    ],
)
async def test_numbers_of_observations(feed, sent, kept):
    """OBX-5 of type NM is a quantity with the digits that were sent, or where no number of JSON holds them, their text.

    All of the chart is read by both versions afterwards, and the same message writes nothing.
    """
    said = f"OBX|1|NM|2345-7^Glucose^LN||{sent}|mg/dL|||||F|||20260301080000"
    verdict = await feed.say(said)
    (found,) = feed.listed("Observation")
    assert found.get("valueString") == kept or found["valueQuantity"]["value"] == kept
    assert any(note.startswith("bad-value") for note in feed.plan.warnings) == isinstance(kept, str)
    assert verdict.reason == "created"
    for base in ("/fhir/R4", "/fhir"):
        for path in (f"Observation?patient={feed.patient()}", f"Patient/{feed.patient()}/$everything"):
            assert feed.service.ask("GET", f"{base}/{path}", client="physician").status_code == 200
    feed.day -= 1
    await feed.say(said)
    assert feed.writes == []


async def test_a_shorter_list_takes_back(feed):
    """What a new snapshot does not list is in error, cancelled or inactive; what is listed again is as before."""
    await feed.say(*ALL, "IN1|2|HMO|7782|Keswick Health", "NK1|2|Silva^Dora|SIS")
    verdict = await feed.say(*ALL[:3], ALL[-1])
    assert "retired" in verdict.notes
    assert states(feed, "Condition") == {"Angina": "", "Diabetes": "entered-in-error"}
    assert [one["condition"]["display"] for one in feed.listed("Encounter")[0]["diagnosis"]] == ["Angina"]
    assert states(feed, "Coverage") == {"PPO": "active", "HMO": "cancelled"}
    assert states(feed, "RelatedPerson") == {"Bruno": "", "Dora": "False", "Carla": ""}
    assert states(feed, "Procedure") == {"Cholecystectomy": "completed"}  # no PR1: no information
    assert states(feed, "Observation") == {"Height": "final"}
    await feed.say(*ALL[:3], ALL[-1])
    assert feed.writes == []
    await feed.say(*ALL, "IN1|2|HMO|7782|Keswick Health", "NK1|2|Silva^Dora|SIS")
    assert states(feed, "Condition") == {"Angina": "", "Diabetes": ""}
    assert states(feed, "Coverage") == {"PPO": "active", "HMO": "active"}
    assert states(feed, "RelatedPerson") == {"Bruno": "", "Dora": "", "Carla": ""}


async def test_allergies_add_up(feed):
    """An allergy stays until `""` or an action code takes it back; then it is active again when it is sent again."""
    await feed.say("AL1|1|DA|70618^Penicillin^RXNORM", "AL1|2|FA|^Peanut")
    await feed.say("AL1|1|FA|^Milk")
    assert states(feed, "AllergyIntolerance") == {"Penicillin": "", "Peanut": "", "Milk": ""}
    await feed.say('AL1|""')
    assert set(states(feed, "AllergyIntolerance").values()) == {"entered-in-error"}
    assert all("clinicalStatus" not in allergy_intolerance for allergy_intolerance in feed.listed("AllergyIntolerance"))
    await feed.say("AL1|1|FA|^Milk")
    assert states(feed, "AllergyIntolerance")["Milk"] == ""
    milk = next(one for one in feed.listed("AllergyIntolerance") if one["code"]["text"] == "Milk")
    assert milk["clinicalStatus"]["coding"][0]["code"] == "active"


async def test_action_codes(feed):
    """IAM-6: A adds, X leaves alone, D takes back, and what has no segment stays; again, nothing is written."""
    await feed.say("IAM|1|DA|^Penicillin|SV||A|P1", "IAM|2|FA|^Peanut|||A|P2", "IAM|3|FA|^Milk|||A|P3", event="A60")
    await feed.say("IAM|1|DA|^Penicillin|MI||X|P1", "IAM|2|FA|^Peanut|||D|P2", event="A60")
    assert states(feed, "AllergyIntolerance") == {"Penicillin": "", "Peanut": "entered-in-error", "Milk": ""}
    penicillin = next(one for one in feed.listed("AllergyIntolerance") if one["code"]["text"] == "Penicillin")
    assert penicillin["criticality"] == "high"  # X: not changed by MI
    await feed.say("IAM|1|DA|^Penicillin|MI||X|P1", "IAM|2|FA|^Peanut|||D|P2", event="A60")
    assert feed.writes == []


async def test_two_feeds_do_not_fight(feed, service_site, interchange):
    """Two feeds with authorities of their own list things of one patient: neither touches what the other listed."""
    await feed.say(*ALL)
    lab = Feed(service_site, interchange, feed.name, sender="LAB", authority="EAST", also=f"~{feed.name}^^^RVB^MR")
    ours = ("DG1|1||I20.9^Angina^I10", "AL1|1|FA|^Peanut", "IN1|1|PPO|7781|Riverbend Mutual", "NK1|1|Silva^Bruno|BRO")
    await lab.say(*ours)
    assert lab.patient() == feed.patient()
    before = {type_: {one["id"]: one["meta"]["versionId"] for one in feed.listed(type_)} for type_ in TYPES}
    for _ in range(2):
        await feed.say(*ALL)
        assert feed.writes == []
        await lab.say(*ours)
        assert lab.writes == []
    assert before == {type_: {one["id"]: one["meta"]["versionId"] for one in feed.listed(type_)} for type_ in TYPES}
    await lab.say('AL1|""', 'DG1|""', 'IN1|""', 'NK1|""')
    standing = [state(condition) for condition in feed.listed("Condition")]
    assert sorted(standing) == ["", "", "entered-in-error"]
    assert sorted(state(one) for one in feed.listed("AllergyIntolerance")) == ["", "entered-in-error"]
    assert sorted(state(coverage) for coverage in feed.listed("Coverage")) == ["active", "cancelled"]


@pytest.fixture
async def deleting(request, service_site, interchange):
    """A feed of a channel that says `retire: delete`."""
    settings = service_site.channel.destinations[0]
    opened = Site(service_site.base).open(retire="delete", fhir=settings.fhir, auth=settings.auth.model_dump())
    await opened.destination.check()
    yield Feed(opened, interchange, "".join(letter for letter in request.node.name if letter.isalnum()))
    await opened.close()


async def test_a_person_who_is_deleted_goes_with_the_chart(request, service_site, interchange):
    """A29 with `deleted_person: delete`: the service takes all of it at once; who comes back begins anew."""
    await service_site.again(deleted_person="delete")
    assert service_site.destination.abilities.cascade
    feed = Feed(service_site, interchange, "".join(letter for letter in request.node.name if letter.isalnum()))
    await feed.say(*ALL)
    patient, visit = feed.patient(), feed.listed("Encounter")[0]["id"]
    assert (await feed.say(event="A29")).reason == "deleted"
    assert [write.url.rpartition("/")[2] for write in feed.writes] == [f"{patient}?_cascade=delete"]
    for gone in (f"Patient/{patient}", f"Encounter/{visit}"):
        assert interchange.ask("GET", f"/fhir/R4/{gone}").status_code == 410
    assert (await feed.say(*ALL)).reason == "created"
    assert feed.patient() != patient
    assert len(feed.listed("Condition")) == 2
    assert [encounter["id"] for encounter in feed.listed("Encounter")] != [visit]


async def test_deleting_where_the_server_does_not_allow_it(deleting):
    """With `retire: delete` a server that answers 405 is told by status instead."""
    await deleting.say("DG1|1||I20.9^Angina^I10", "DG1|2||E11.9^Diabetes^I10")
    verdict = await deleting.say("DG1|1||I20.9^Angina^I10")
    assert "delete-refused" in verdict.notes
    assert states(deleting, "Condition") == {"Angina": "", "Diabetes": "entered-in-error"}


async def test_deleting_where_the_server_allows_it(deleting, monkeypatch):
    """With `retire: delete` a server that answers 204 is asked once, and nothing is said by status."""
    server, asked = deleting.site.destination._server, []
    ask = server.ask

    async def allowing(method, url, headers, body=b""):
        if method == "DELETE":
            asked.append(url)
            return ServerResponse(204, {}, b"", None, 1.0)
        return await ask(method, url, headers, body)

    monkeypatch.setattr(server, "ask", allowing)
    await deleting.say("DG1|1||I20.9^Angina^I10", "DG1|2||E11.9^Diabetes^I10")
    gone = next(condition for condition in deleting.listed("Condition") if condition["code"]["text"] == "Diabetes")
    verdict = await deleting.say("DG1|1||I20.9^Angina^I10")
    assert [url.endswith(f"/Condition/{gone['id']}") for url in asked] == [True]
    assert "retired" in verdict.notes
    assert states(deleting, "Condition") == {"Angina": "", "Diabetes": ""}
    await deleting.say("DG1|1||I20.9^Angina^I10")
    assert len(asked) == 1


async def test_a_merge_takes_the_lists_along(feed, service_site, interchange):
    """After an A40, by whichever system, what was listed under the number that went is taken back as if under this."""
    old = Feed(service_site, interchange, f"{feed.name}O")
    penicillin, mutual = "AL1|1|DA|70618^Penicillin^RXNORM", "IN1|1|PPO|7781|Riverbend Mutual"
    await old.say(penicillin, mutual, "NK1|1|Silva^Bruno|BRO", "IAM|1|FA|^Milk|||A|P3")
    await feed.say("NK1|1|Silva^Dora|SIS")
    before = {type_: {one["id"] for one in (*old.listed(type_), *feed.listed(type_))} for type_ in LISTED}
    index = Feed(service_site, interchange, feed.name, sender="MPI")
    verdict = await index.say(f"MRG|{old.numbers}", event="A40")
    assert verdict.reason == "merged"
    feed.day = 20
    await feed.say(penicillin, mutual, "NK1|1|Silva^Bruno|BRO", event="A31")
    assert {type_: {one["id"] for one in feed.listed(type_)} for type_ in LISTED} == before
    assert states(feed, "RelatedPerson") == {"Bruno": "", "Dora": "False"}
    await feed.say(penicillin, mutual, "NK1|1|Silva^Bruno|BRO", event="A31")
    assert feed.writes == []
    await feed.say('IN1|""', "IAM|1|FA|^Milk|||D|P3", event="A31")
    assert states(feed, "Coverage") == {"PPO": "cancelled"}
    assert states(feed, "AllergyIntolerance") == {"Penicillin": "", "Milk": "entered-in-error"}


async def test_a_change_of_number_makes_nothing_anew(feed):
    """After an A47 what is listed under the new number is what was listed before, and a shorter list takes it back."""
    segments = ("AL1|1|DA|70618^Penicillin^RXNORM", "IN1|1|PPO|7781|Riverbend Mutual")
    await feed.say(*segments, "NK1|1|Silva^Bruno|BRO")
    before = {type_: [one["id"] for one in feed.listed(type_)] for type_ in LISTED}
    old, feed.numbers = feed.numbers, f"{feed.name}N^^^RVB^MR"
    await feed.say(f"MRG|{old}", event="A47")
    feed.name += "N"
    await feed.say(*segments, "NK1|1|Silva^Bruno|BRO", event="A31")
    assert {type_: [one["id"] for one in feed.listed(type_)] for type_ in LISTED} == before
    (penicillin,) = feed.listed("AllergyIntolerance")
    assert [one.get("use") for one in penicillin["identifier"]] == ["old", None]
    await feed.say(*segments, "NK1|1|Silva^Bruno|BRO", event="A31")
    assert feed.writes == []
    await feed.say(*segments, 'NK1|""', event="A31")
    assert states(feed, "RelatedPerson") == {"Bruno": "False"}


async def test_a_diagnosis_by_action_code_stands_in_the_visit(feed):
    """With DG1-21 the visit names each diagnosis with use and rank, changed alone and taken away alone."""

    def dg1(key, rank, action):
        return f"DG1|{rank}||I20.{key}^D{key}^SCT|||A|||||||||{rank}|||||DX{key}^RVB|{action}"

    def ranks():
        (visit,) = feed.listed("Encounter")
        return {diagnosis["condition"]["display"]: diagnosis["rank"] for diagnosis in visit.get("diagnosis", ())}

    await feed.say(*ALL[:1], dg1(1, 1, "A"), dg1(2, 2, "A"))
    assert ranks() == {"D1": 1, "D2": 2}
    await feed.say(*ALL[:1], dg1(2, 1, "U"))
    assert ranks() == {"D1": 1, "D2": 1}
    await feed.say(*ALL[:1], dg1(1, 1, "D"))
    assert ranks() == {"D2": 1}
    await feed.say(*ALL[:1], dg1(3, 4, ""))  # a whole list: nobody else is named any more
    assert ranks() == {"D3": 4}
