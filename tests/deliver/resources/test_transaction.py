"""What goes beside a patient as one transaction: the same ends as request by request, whatever the server does."""

import orjson
import pytest

from engine.config.settings import shipped
from engine.deliver.verdict import Failure, VerdictKind
from engine.deliver.wire.server import MOST_FAILURES
from engine.fhir.plan import ElementChange, Identity, Keep, ResourceRecord, Retire, Upsert
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.compile import compile_mapping, read
from tests.deliver.conftest import MRN, Site
from tests.deliver.fake_chart import FakeChart, Habit
from tests.deliver.fake_fhir import Step
from tests.deliver.resources.test_resource_upsert import asked, is_place, plan

LISTED = compile_mapping(
    sending(read([shipped("mappings")], "adt"), ("Patient", "Encounter", "Condition")),
    channel_of({"authorities": {"RVB": MRN}}),
)
BASE = "POST /fhir/R4"
UNCLEAR = {Habit.REVERSES, Habit.LEAVES_ONE_OUT, Habit.SHOWS_NOTHING}
# What an admission at a ward that is new makes beside the patient.
MADE = ["Practitioner", *["Location"] * 4, "Organization", "Encounter"]


@pytest.fixture
async def chart():
    """A scripted server with charts that takes transactions."""
    fake = FakeChart()
    fake.transactions = True
    fake.software = {"name": "Chart", "version": "1"}
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def feed(chart):
    """A destination for the server, its abilities read, which knows that it honours If-Match and trusts conditions."""
    site = Site(chart.base).open(if_none_exist="identifier")
    site.destination.proofs.known["Chart 1"] = True
    await site.destination.check()
    site.destination._server.creates_watched = 100
    yield site
    await site.close()


def listed(said):
    """A plan for an admission with what its segments list."""
    head = "MSH|^~\\&|REG|RVB|||20260302080000||ADT^A01|A01|P|2.5.1\rEVN|A01|20260302080000"
    visit = "PID|1||1^^^RVB^MR||SENTINEL^Amara||19600102|F\rPV1|1|I|||||||||||||||||V1^^^RVB"
    return LISTED.plan(parse(f"{head}\r{visit}\r{said}".encode()))


def bundles(chart):
    """The transactions that were sent."""
    return [orjson.loads(body) for name, body in zip(chart.requests, chart.bodies, strict=True) if name == BASE]


def state(chart):
    """Everything at the server, without ids and versions, each reference by what it leads to."""
    names = {name: f"{name.split('/')[0]} {body['identifier'][0]['value']}" for name, body in chart.chart.items()}
    text = orjson.dumps([body | {"id": "", "meta": {}} for body in chart.chart.values()]).decode()
    names |= {f"Patient/{name}": f"Patient {body['identifier'][0]['value']}" for name, body in chart.patients.items()}
    for name, known in names.items():
        text = text.replace(f'"{name}"', f'"{known}"')
    return sorted(orjson.dumps(one) for one in orjson.loads(text))


def once(chart):
    """Whether each thing stands once at the server."""
    numbers = [(name.split("/")[0], body["identifier"][0]["value"]) for name, body in chart.chart.items()]
    return len(numbers) == len(set(numbers))


def theirs(chart, type_, numbers, value):
    """Let another system have made a resource with a number like these, of the first patient."""
    body = {
        "resourceType": type_,
        "id": "x1",
        "meta": {"versionId": "1"},
        "identifier": [dict(numbers[0], value=value)],
    }
    if type_ == "Encounter":
        body |= {"status": "planned", "subject": {"reference": "Patient/p1"}, "priority": {"text": "theirs"}}
    chart.chart[f"{type_}/x1"] = body


async def test_an_admission_is_two_writes(chart, feed):
    """The patient, and all that the visit names with it: one intent and one attempt for the whole."""
    verdict = await feed.deliver(plan("A01", "1", "V1"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
    assert asked(chart) == ["GET metadata", "GET Patient", "POST Patient", "GET Patient", BASE]
    (bundle,) = bundles(chart)
    assert [one["request"]["url"] for one in bundle["entry"]] == MADE
    assert all(one["request"]["ifNoneExist"].startswith("identifier=") for one in bundle["entry"])
    assert [attempt.request.method for attempt in verdict.attempts] == ["POST", "POST"]
    assert chart.headers[-1]["Prefer"] == "return=representation"
    assert [effect.split()[1].split("/")[0] for effect in chart.effects] == ["p1", *MADE]


async def test_what_is_new_is_referred_to_by_urns_that_stay_the_same(chart, feed):
    """Every reference within is by a fullUrl of the Bundle, and the same message gives the same Bundle again."""
    chart.habits.add(Habit.REFUSES)
    await feed.deliver(plan("A01", "1", "V1"))
    chart.chart.clear()
    feed.memory.identities = {key: one for key, one in feed.memory.identities.items() if " " not in key.system}
    await feed.again()
    await feed.deliver(plan("A01", "1", "V1"))
    first, second = bundles(chart)
    assert first == second
    urls = {one["fullUrl"] for one in first["entry"]}
    visit = first["entry"][-1]["resource"]
    assert {one["location"]["reference"] for one in visit["location"]} <= urls
    assert visit["subject"] == {"reference": "Patient/p1"}
    assert len(urls) == len(MADE)


async def test_the_same_as_request_by_request(chart, feed):
    """A stay ends at the same state, verdict for verdict, with what is remembered the same."""
    stay = [("A01", "3W^312^A^RVB"), ("A02", "4W^1^B^RVB"), ("A02", "4W^1^B^RVB"), ("A03", "4W^1^B^RVB")]

    async def told():
        verdicts = [await feed.deliver(plan(event, "1", "V1", place=place)) for event, place in stay]
        return [(one.kind, one.reason, one.notes) for one in verdicts], state(chart), len(feed.memory.identities)

    together = await told()
    assert len(bundles(chart)) == 2
    chart.chart.clear()
    chart.patients.clear()
    feed.memory = type(feed.memory)()
    await feed.again(bundle="off")
    assert await told() == together
    assert len(bundles(chart)) == 2


async def test_one_write_is_one_plain_request(chart, feed):
    """A visit alone needs no Bundle, nor does what changes nothing any write."""
    await feed.deliver(plan("A01", "1", "V1"))
    before = len(chart.requests)
    await feed.deliver(plan("A01", "2", "V2"))
    assert asked(chart, before) == ["GET Patient", "POST Patient", "GET Patient", "POST Encounter"]
    await feed.again()
    before = len(chart.requests)
    assert (await feed.deliver(plan("A01", "2", "V2"))).reason == "unchanged"
    assert not [request for request in chart.requests[before:] if request.startswith(("POST", "PUT"))]


async def test_one_write_among_much_that_is_read(chart, feed):
    """After a restart all has to be looked at; the one thing that changed is a plain PUT, and known as it then is."""
    await feed.deliver(plan("A01", "1", "V1"))
    await feed.again()
    before = len(chart.requests)
    verdict = await feed.deliver(plan("A03", "1", "V1"))
    assert verdict.reason == "updated"
    read = [one for one in asked(chart, before) if not is_place(one)]
    assert read == ["GET Patient/p1", "GET Encounter/r7", "PUT Encounter/r7"]
    before = len(chart.requests)
    assert (await feed.deliver(plan("A13", "1", "V1"))).reason == "updated"
    assert asked(chart, before) == ["GET Patient/p1", "PUT Encounter/r7"]
    assert chart.headers[-1]["If-Match"] == 'W/"2"'


@pytest.mark.parametrize("bundle", ["auto", "off"])
async def test_one_write_that_is_refused_tells_nothing(chart, feed, bundle):
    """What the draft took for written is remembered by nobody where the write itself was refused."""
    await feed.deliver(plan("A01", "1", "V1"))
    await feed.again(bundle=bundle)
    # A draft has read the references, which are remembered then: they are looked up, and the visit is tried once more.
    chart.script.extend([Step("PUT", 422, path="Encounter")] * (2 if bundle == "auto" else 1))
    before = dict(feed.memory.slices)
    verdict = await feed.deliver(plan("A03", "1", "V1"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "http-422")
    assert feed.memory.slices == before
    assert not [one for one in verdict.owned if one.resource.startswith("Encounter")]
    assert (await feed.deliver(plan("A03", "1", "V1"))).reason == "updated"


@pytest.mark.parametrize("bundle", ["auto", "off"])
async def test_one_write_that_is_stale_is_made_anew(chart, feed, bundle):
    """412 to a single write: read again, applied again, as without a draft."""
    await feed.deliver(plan("A01", "1", "V1"))
    await feed.again(bundle=bundle)
    chart.script.append(Step("PUT", 412, path="Encounter"))
    before = len(chart.requests)
    assert (await feed.deliver(plan("A03", "1", "V1"))).reason == "updated"
    read = [one for one in asked(chart, before + 1) if not is_place(one)]
    assert read == ["GET Encounter/r7", "PUT Encounter/r7"] * 2
    assert chart.chart["Encounter/r7"]["status"] == "finished"


@pytest.mark.parametrize("lapse", ["doubt", "clear"])
async def test_what_lapses_meanwhile_is_not_written_again(chart, feed, lapse):
    """Caches that are doubted or emptied while a transaction is under way: it is not applied to its own outcome.

    The rooms of a visit were made of those of before and of what it had just written: the first one was lost.
    """
    await feed.deliver(plan("A01", "1", "V1"))
    await feed.deliver(plan("A02", "1", "V1", place="4W^1^B^RVB"))
    transaction, caches = chart._transaction, feed.destination._server._caches

    def lapsing(bundle):
        getattr(caches, lapse)()
        return transaction(bundle)

    chart._transaction = lapsing
    before = len(chart.requests)
    assert (await feed.deliver(plan("A02", "1", "V1", place="5W^1^B^RVB"))).reason == "updated"
    assert [one for one in asked(chart, before) if one.startswith(("PUT", BASE))] == [BASE]
    assert len(chart.chart["Encounter/r7"]["location"]) == 3


async def test_an_update_goes_with_what_is_new(chart, feed):
    """A transfer to a ward that is new: its places by POST, the visit by PUT with ifMatch, in one."""
    await feed.deliver(plan("A01", "1", "V1"))
    await feed.deliver(plan("A02", "1", "V1", place="4W^1^B^RVB"))
    *_, visit = bundles(chart)[-1]["entry"]
    assert visit["request"] == {"method": "PUT", "url": "Encounter/r7", "ifMatch": 'W/"1"'}
    assert visit["fullUrl"] == f"{chart.base}/Encounter/r7"
    assert chart.chart["Encounter/r7"]["meta"]["versionId"] == "2"


async def test_other_writer_is_respected(chart, feed):
    """Who wrote the visit meanwhile makes the transaction fail as a whole: read again, applied anew, nothing lost."""
    await feed.deliver(plan("A01", "1", "V1"))
    chart.write("Encounter/r7", priority={"text": "theirs"})
    verdict = await feed.deliver(plan("A02", "1", "V1", place="4W^1^B^RVB"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "updated")
    assert verdict.attempts[0].status == 412
    assert chart.chart["Encounter/r7"]["priority"] == {"text": "theirs"}
    assert once(chart)
    assert feed.destination._server.transactions_failed == 0


async def test_what_another_system_made_is_taken(chart, feed):
    """A visit that is there already is matched by its condition and updated; a place is referred to."""
    await feed.deliver(plan("A01", "1", "V1"))
    numbers = chart.chart["Encounter/r7"]["identifier"]
    theirs(chart, "Encounter", numbers, "V2")
    verdict = await feed.deliver(plan("A01", "1", "V2", place="4W^1^B^RVB"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "updated")
    assert (chart.chart["Encounter/x1"]["status"], chart.chart["Encounter/x1"]["priority"]["text"]) == (
        "in-progress",
        "theirs",
    )
    assert once(chart)


async def test_a_place_made_within_one_that_is_there_is_mended_too(chart, feed):
    """What is never overwritten later, such as the ward of a bed, names what is there from the start."""
    await feed.deliver(plan("A01", "1", "V1"))
    numbers = next(one["identifier"] for one in chart.of("Location") if one["name"] == "3W")
    theirs(chart, "Location", numbers, "5W")
    chart.habits.add(Habit.LEAVES_REFERENCES)
    verdict = await feed.deliver(plan("A01", "2", "V2", place="5W^1^B"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
    parents = {one["partOf"]["reference"] for one in chart.of("Location") if "partOf" in one}
    assert "Location/x1" in parents
    assert parents <= chart.chart.keys()
    assert feed.destination.missing() == ("dangling-references",)


async def test_a_reference_that_cannot_be_mended_is_left_to_the_requests(chart, feed):
    """Somebody else writes the visit in between: everything is read anew, and the place that is there is named."""
    await feed.deliver(plan("A01", "1", "V1"))
    numbers = next(one["identifier"] for one in chart.of("Location") if one["name"] == "3W")
    theirs(chart, "Location", numbers, "5W")
    chart.habits.add(Habit.LEAVES_REFERENCES)
    chart.script.append(Step("PUT", 412))
    verdict = await feed.deliver(plan("A01", "2", "V2", place="5W"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
    visit = next(one for one in chart.of("Encounter") if one["subject"]["reference"] == "Patient/p2")
    assert "Location/x1" in {one["location"]["reference"] for one in visit["location"]}
    assert once(chart)


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("checked", [True, False])
async def test_a_reference_to_what_was_never_made_is_mended(chart, feed, checked, shown):
    """A place that another made meanwhile: the visit names it, whether the server checks what it refers to or not."""
    await feed.deliver(plan("A01", "1", "V1"))
    numbers = next(one["identifier"] for one in chart.of("Location") if one["name"] == "3W")
    theirs(chart, "Location", numbers, "5W")
    chart.habits |= {Habit.REFUSES} if checked else {Habit.LEAVES_REFERENCES}
    chart.habits |= set() if shown else {Habit.SHOWS_NO_RESOURCES}
    verdict = await feed.deliver(plan("A01", "2", "V2", place="5W"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
    visit = next(one for one in chart.of("Encounter") if one["subject"]["reference"] == "Patient/p2")
    assert {one["location"]["reference"] for one in visit["location"]} <= chart.chart.keys()
    assert "Location/x1" in {one["location"]["reference"] for one in visit["location"]}
    assert once(chart)
    assert ("dangling-references" in verdict.notes) is not checked
    assert feed.destination.missing() == (() if checked else ("dangling-references",))


@pytest.mark.parametrize("step", [Step("POST", path=BASE[6:], commit=True, drop=True),
                                  Step("POST", path=BASE[6:], drop=True),
                                  Step("POST", 504, path=BASE[6:], commit=True)])  # fmt: skip
async def test_a_lost_answer_is_read_first(chart, feed, step):
    """Whether or not it was applied: nothing is sent together again, and everything stands once."""
    chart.script.append(step)
    verdict = await feed.deliver(plan("A01", "1", "V1"))
    assert (verdict.kind, verdict.failure) == (VerdictKind.RETRY, Failure.AMBIGUOUS)
    before = len(chart.requests)
    again = await feed.deliver(plan("A01", "1", "V1"), ambiguous=True, attempts_made=len(verdict.attempts))
    assert again.kind is VerdictKind.DELIVERED
    sent = chart.requests[before:]
    assert BASE not in sent
    assert sent[0].startswith("GET ")
    assert all(one.startswith("GET") for one in sent) is step.commit
    assert sorted(name.split("/")[0] for name in chart.chart) == sorted(MADE)
    assert once(chart)


@pytest.mark.parametrize("habit", [habit for habit in Habit if habit not in {Habit.FAILS, Habit.IGNORES_CONDITIONS}])
async def test_a_servers_habits_change_no_end(chart, feed, habit):
    """Whatever is answered to a transaction, the delivery ends at once as its requests would have, each thing once."""
    chart.habits.add(habit)
    for number in ("1", "2"):
        place = f"{number}W^312^A^RVB"
        verdict = await feed.deliver(plan("A01", number, f"V{number}", place=place))
        assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
        assert ("transaction-unclear" in verdict.notes) is (habit in UNCLEAR)
    assert once(chart)
    assert len(chart.of("Encounter")) == 2
    for visit in chart.of("Encounter"):
        ward = {one["location"]["display"][0] for one in visit["location"]}
        assert ward == {visit["identifier"][0]["value"][1]}
        for one in visit["location"]:
            assert chart.chart[one["location"]["reference"]]["name"] == one["location"]["display"]
    (practitioner,) = chart.of("Practitioner")
    assert practitioner["identifier"][0]["value"] == "1187"
    known = {(key.system.split(" ")[0], key.value): one.logical_id for key, one in feed.memory.identities.items()}
    for (type_, value), logical_id in known.items():
        if f"{type_}/{logical_id}" in chart.chart:
            assert value in {one["value"] for one in chart.chart[f"{type_}/{logical_id}"]["identifier"]}


async def test_after_a_refusal_everything_is_read_first(chart, feed):
    """Nobody knows what a server did that refused: each thing is searched for before it is written by itself."""
    await feed.deliver(plan("A01", "1", "V1"))
    chart.habits.add(Habit.REFUSES)
    before = len(chart.requests)
    await feed.deliver(plan("A02", "1", "V1", place="4W^1^B^RVB"))
    sent = asked(chart, before)
    assert sent[: sent.index(BASE) + 1] == ["GET Patient/p1", *["GET Location"] * 3, BASE]
    assert sent[sent.index(BASE) + 1] == "GET Encounter"
    made = [at for at, one in enumerate(sent) if one == "POST Location"]
    assert made
    assert all(sent[at - 1] == "GET Location" for at in made)


@pytest.mark.parametrize("proven", [True, False])
async def test_a_visit_that_names_what_names_it(chart, feed, proven):
    """A diagnosis of a new visit: the visit is written once, with it, and all is remembered as request by request."""
    said = "DG1|1||I20.9^Angina^I10\rDG1|2||E11.9^Diabetes^I10"
    remembered = []
    for bundle in ("auto", "off"):
        chart.chart.clear()
        chart.patients.clear()
        feed.memory = type(feed.memory)()
        feed.destination.proofs.known = {"Chart 1": True} if proven else {}
        await feed.again(bundle=bundle)
        feed.destination._server.creates_watched = 100
        before = len(chart.requests)
        verdict = await feed.deliver(listed(said))
        assert verdict.reason == "created"
        (visit,) = chart.of("Encounter")
        assert {one["condition"]["reference"] for one in visit["diagnosis"]} == {
            f"Condition/{one['id']}" for one in chart.of("Condition")
        }
        remembered.append(sorted((place.split("/")[0], *slices) for (place, _), slices in feed.memory.slices.items()))
        assert visit["meta"]["versionId"] == {"auto": "1", "off": "2"}[bundle]
        if bundle == "auto" and proven:
            assert asked(chart, before)[3:] == [BASE]
    assert remembered[0] == remembered[1]


async def test_a_list_within_a_new_visit_is_kept_under_the_visits_own_id(chart, feed, patient):
    """Where the visit alone is written, what is listed within it is remembered by its id, not by the draft's."""
    who = Upsert(patient("1"))
    condition = Identity("https://c.example", "C1")
    numbers = ({"system": "https://c.example", "value": "C1"},)
    code = ElementChange("code", "code", ({"text": "Angina"},), many=False)
    kept = Keep(ResourceRecord("Condition", "condition", (condition,), numbers, (code,), "subject"))
    await feed.send(who, kept)
    visit = ResourceRecord(
        "Encounter", "encounter", (Identity("https://v.example", "V1"),),
        ({"system": "https://v.example", "value": "V1"},), (), "subject",
    )  # fmt: skip
    listing = Retire("Condition", "DG1", "encounter", (condition,), (), complete=True, changes=(), marks=("1",))
    verdict = await feed.send(who, Keep(visit), listing, kept)
    assert [attempt.request.url.rpartition("/")[2] for attempt in verdict.attempts] == ["Encounter"]
    places = {place.split(" ")[0] for place, _ in feed.memory.slices}
    assert places <= {*chart.chart, "Patient/p1"}
    assert f"Encounter/{chart.of('Encounter')[0]['id']}" in places


@pytest.mark.parametrize("habit", [Habit.KEEPS_A_PART, Habit.TELLS_BY_ENTRY, None])
async def test_a_refused_entry_holds_as_its_request_would(chart, feed, habit):
    """422 for the visit: held with that reason; what it names is there, as request by request, once."""
    chart.habits |= {habit} if habit else set()
    chart._dangling = lambda content, _promised: ["Encounter"] if content["resourceType"] == "Encounter" else []
    verdict = await feed.deliver(plan("A01", "1", "V1"))
    assert (verdict.kind, verdict.reason, verdict.failure) == (VerdictKind.HELD, "http-422", Failure.PERMANENT)
    assert sorted(name.split("/")[0] for name in chart.chart) == sorted(MADE[:-1])
    assert once(chart)
    assert ("transaction-unclear" in verdict.notes) is (habit is Habit.TELLS_BY_ENTRY)
    assert "transactions-fail" not in feed.destination.abilities.missing()


async def test_a_server_that_always_fails_gets_none_any_more(chart, feed):
    """500 for each: the retry goes request by request; after some in a row none is tried, and the page says so."""
    chart.habits.add(Habit.FAILS)
    for number in range(1, MOST_FAILURES + 1):
        message = plan("A01", str(number), f"V{number}", place=f"W{number}^1^A^RVB")
        verdict = await feed.deliver(message)
        assert (verdict.kind, verdict.failure) == (VerdictKind.RETRY, Failure.AMBIGUOUS)
        assert (await feed.deliver(message, attempts_made=2)).kind is VerdictKind.DELIVERED
    assert feed.destination.abilities.missing() == ("transactions-fail",)
    before = len(bundles(chart))
    assert (await feed.deliver(plan("A01", "x", "VX", place="9W^1^A^RVB"))).reason == "created"
    assert len(bundles(chart)) == before == MOST_FAILURES
    assert once(chart)
    await feed.destination.check()
    assert feed.destination.abilities.transaction


async def test_a_server_that_refuses_them_gets_none_any_more(chart, feed):
    """400 for each, while its requests are taken: bounded in the same way, without a retry."""
    chart.habits.add(Habit.REFUSES)
    for number in range(1, MOST_FAILURES + 3):
        verdict = await feed.deliver(plan("A01", str(number), f"V{number}", place=f"W{number}^1^A^RVB"))
        assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "created")
    assert len(bundles(chart)) == MOST_FAILURES


async def test_one_that_succeeds_forgives(chart, feed):
    """Failures count in a row only."""
    for number in range(1, 2 * MOST_FAILURES + 1):
        chart.habits ^= {Habit.REFUSES}
        await feed.deliver(plan("A01", str(number), f"V{number}", place=f"W{number}^1^A^RVB"))
    assert len(bundles(chart)) == 2 * MOST_FAILURES


async def test_a_server_that_is_down_is_not_blamed(chart, feed):
    """429 and 503 say nothing of transactions, and are tried again as ever."""
    for status in (429, 503, 503, 503):
        chart.script.append(Step("POST", status, path=BASE[6:]))
        assert (await feed.deliver(plan("A01", "1", "V1"))).kind is VerdictKind.RETRY
    assert feed.destination._server.transactions_failed == 0


async def test_conditions_that_are_ignored_are_found_out(chart, feed):
    """Of the first creates each is searched for: a second visit of one number is held, and none is sent together."""
    feed.destination._server.creates_watched = 0
    await feed.deliver(plan("A01", "1", "V1"))
    chart.habits.add(Habit.IGNORES_CONDITIONS)
    numbers = chart.of("Encounter")[0]["identifier"]
    theirs(chart, "Encounter", numbers, "V2")
    feed.destination._server.creates_watched = 0
    verdict = await feed.deliver(plan("A01", "1", "V2", place="4W^1^B^RVB"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.HELD, "duplicate-after-create")
    assert "if-none-exist-ignored" in verdict.notes
    assert feed.destination.abilities.missing() == ("if-none-exist-ignored",)


async def test_conditions_that_are_honoured_are_watched_no_longer(chart, feed):
    """Once a match was answered, creates are believed; until then each costs one search."""
    feed.destination._server.creates_watched = 0
    await feed.deliver(plan("A01", "1", "V1"))
    assert len([one for one in asked(chart) if one.startswith("GET") and "Patient" not in one]) == 1 + len(MADE)
    (numbers,) = (one["identifier"] for one in chart.of("Location") if one["name"] == "3W")
    theirs(chart, "Location", numbers, "5W")
    await feed.again()
    assert (await feed.deliver(plan("A01", "2", "V2", place="5W"))).reason == "created"
    assert feed.destination._server.creates_watched > len(MADE)
    assert feed.destination.abilities.missing() == ()


async def test_without_the_statement_or_the_setting_each_goes_alone(chart, feed):
    """No transaction is sent to a server that states none, and none with `bundle: off`."""
    await feed.again(bundle="off")
    await feed.deliver(plan("A01", "1", "V1"))
    chart.transactions = False
    await feed.again(bundle="auto")
    await feed.deliver(plan("A01", "2", "V2", place="4W^1^B^RVB"))
    assert bundles(chart) == []
    assert feed.destination.abilities.missing() == ()


async def test_a_dry_run_tells_each_write(chart, feed):
    """What would be sent together is told one by one, with what each resource would be."""
    message = plan("A01", "1", "V1")
    told = await feed.destination.dry_run(message, feed.memory, at=message.event_at)
    assert [call.path for call in told.calls] == ["Patient", *MADE]
    assert bundles(chart) == []


async def test_a_draft_leaves_nothing_behind(chart, feed):
    """While a transaction is under way, and where it fails, no cache holds what is not there."""
    chart.script.append(Step("POST", path=BASE[6:], drop=True))
    await feed.deliver(plan("A01", "1", "V1"))
    caches = feed.destination._server._caches._by_type
    assert all(not len(cache) for type_, cache in caches.items() if type_ != "Patient")
    assert not [identity for identity in feed.memory.identities if " " in identity.system]


async def test_a_place_that_nobody_remembers_is_no_second_one_of_the_visit(chart, feed):
    """After a kill, say: what a list of the visit names is asked for first, as its parts are told apart by it.

    Named by a provisional id it stood there twice, once without its start.
    """
    await feed.deliver(plan("A01", "1", "V1"))
    places = {key: one for key, one in feed.memory.identities.items() if key.system.startswith("Location ")}
    assert places
    feed.memory.identities = {key: one for key, one in feed.memory.identities.items() if key not in places}
    await feed.again()
    await feed.deliver(plan("A03", "1", "V1", end="20260302180000"))
    (visit,) = [body for name, body in chart.chart.items() if name.startswith("Encounter/")]
    (place,) = visit["location"]
    assert (place["status"], sorted(place["period"])) == ("completed", ["end", "start"])
    assert once(chart)
