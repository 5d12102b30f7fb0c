"""What servers refuse in their own way though nothing is wrong with it, and what the engine makes of that."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from engine.deliver.verdict import Failure, Verdict, VerdictKind
from engine.fhir.plan import Plan
from engine.hl7.message import parse
from tests.deliver.conftest import Site
from tests.deliver.fake_fhir import FakeFhir, Step
from tests.destinations.aidbox_like import AidboxLike
from tests.destinations.blaze_like import BlazeLike
from tests.destinations.firely_like import FirelyLike
from tests.destinations.medplum_like import MedplumLike
from tests.destinations.server_like import ServerLike
from tests.destinations.test_create_only import MAPPING

VISIT = "PV1|1|I|3W^1^A^RVB||||||||||||||||V1^^^RVB"
DOUBLES = [AidboxLike, BlazeLike, FirelyLike, MedplumLike]


@pytest.fixture
async def server(request: pytest.FixtureRequest) -> AsyncIterator[FakeFhir]:
    """The double that the test names."""
    double = request.param()
    await double.start()
    yield double
    await double.stop()


def on(*kinds: type[FakeFhir]) -> pytest.MarkDecorator:
    """Give a test some doubles, one after the other."""
    return pytest.mark.parametrize("server", kinds, indirect=True, ids=lambda kind: kind.__name__)


def said(event: str, *segments: str, number: str = "K1", minute: int = 0) -> Plan:
    """Return the plan of an event of one patient, by the shipped mapping."""
    at = f"202603020800{minute:02d}"
    head = f"MSH|^~\\&|REG|RIVERBEND|||{at}||ADT^{event}|{at}|P|2.5.1\rEVN|{event}|{at}"
    pid = f"PID|1||{number}^^^RVB^MR||Kim^Ada||19540303|F"
    return MAPPING.plan(parse("\r".join((head, pid, *segments)).encode()))


async def opened(site: Site, **settings: Any) -> Site:
    """Open the destination and ask what the server can do."""
    await site.open(**{"if_none_exist": "identifier"} | settings).destination.check()
    return site


async def twice(site: Site, plan: Plan) -> list[Verdict]:
    """Deliver a plan, and once more as the engine does after a try of which nobody knows what it did."""
    first = await site.deliver(plan, entry=1)
    return [first, await site.deliver(plan, entry=1, ambiguous=True, attempts_made=1)]


@on(*DOUBLES)
@pytest.mark.parametrize("status", [409, 412])
async def test_a_create_that_met_another_write_is_tried_again(site, server, status) -> None:
    """Nobody is found by its condition, so it was no match: nothing is created without it, and nobody is held."""
    server.script.append(Step("POST", status=status, path="Patient"))
    first, second = await twice(await opened(site, bundle="off"), said("A28"))
    assert (first.kind, first.reason, first.failure) == (VerdictKind.RETRY, "create-unclear", Failure.AMBIGUOUS)
    assert (second.kind, second.reason, len(server.patients)) == (VerdictKind.DELIVERED, "created", 1)
    assert not any("possible-duplicate" in note for verdict in (first, second) for note in verdict.notes)


@on(*DOUBLES)
@pytest.mark.parametrize("status", [409, 412])
async def test_a_create_that_met_that_of_another_engine_goes_on_with_its_record(site, server, status) -> None:
    """The one record with the number is this patient's, whatever the refusal meant."""

    def between(method: str, path: str) -> None:
        if method == "POST" and path == "Patient" and not server.patients:
            server.add("theirs", identifier=[{"system": "https://mrn.riverbend.example", "value": "K1"}])

    server.before = between
    server.script.append(Step("POST", status=status, path="Patient"))
    verdict = await (await opened(site)).deliver(said("A28"), entry=1)
    assert (verdict.kind, verdict.reason, list(server.patients)) == (VerdictKind.DELIVERED, "updated", ["theirs"])


@on(*DOUBLES)
@pytest.mark.parametrize("status", [409, 412])
async def test_a_visit_that_met_another_write_is_tried_again(site, server, status) -> None:
    """The same of each thing beside the patient; in the end each stands once."""
    server.script.append(Step("POST", status=status, path="Encounter"))
    first, second = await twice(await opened(site, bundle="off"), said("A01", VISIT))
    assert (first.kind, first.reason, second.kind) == (VerdictKind.RETRY, "create-unclear", VerdictKind.DELIVERED)
    assert [len(server.of(type_)) for type_ in ("Encounter", "Organization")] == [1, 1]


@on(*DOUBLES)
async def test_a_place_that_was_deleted_there_is_made_again(site, server) -> None:
    """What is referred to from memory is asked about when the reference is refused, as 409 or as 422."""
    await (await opened(site, bundle="off")).deliver(said("A01", VISIT), entry=1)
    gone = [name for name in server.chart if name.startswith("Location")]
    for name in gone:
        server.delete(name)
    verdict = await site.deliver(said("A01", VISIT.replace("V1^", "V2^"), minute=1), entry=2)
    assert verdict.kind is VerdictKind.DELIVERED
    places = {name for name in server.chart if name.startswith("Location")}
    (visit,) = [one for one in server.of("Encounter") if one["identifier"][0]["value"] == "V2"]
    assert places.isdisjoint(gone)
    assert {each["location"]["reference"] for each in visit["location"]} <= places


@on(MedplumLike)
async def test_a_retry_that_meets_its_first_try_is_held(site, server) -> None:
    """Where conditional creates race, the first try is under way still when the second is sent: a person looks."""
    server.race(2)
    first, second = await twice(await opened(site, timeout_seconds=1), said("A28"))
    assert (first.kind, first.failure) == (VerdictKind.RETRY, Failure.AMBIGUOUS)
    assert (second.kind, second.reason, len(server.patients)) == (VerdictKind.HELD, "duplicate-after-create", 2)


@on(FirelyLike)
async def test_a_retry_under_the_id_of_the_number_makes_nobody_twice(site, server) -> None:
    """`create: client-id` rules the race out: a first try that hangs is met as what is there."""
    server.script.append(Step("PUT", commit=True, hang=True, path="Patient"))
    first, second = await twice(await opened(site, create="client-id", timeout_seconds=1), said("A28"))
    assert (first.failure, second.kind, len(server.patients)) == (Failure.AMBIGUOUS, VerdictKind.DELIVERED, 1)


class SlowToAnswer(ServerLike):
    """A server whose answer to the first new place waits for `gate`; `made` is set once the place is there."""

    def __init__(self) -> None:
        super().__init__(transactions=False)
        self.made, self.gate = asyncio.Event(), asyncio.Event()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        answer = await super()._handle(request)
        if request.method == "POST" and request.path.endswith("Location") and not self.made.is_set():
            self.made.set()
            await self.gate.wait()
        return answer


@on(SlowToAnswer)
async def test_a_place_that_another_delivery_met_first_is_no_sign_of_a_restore(site, server) -> None:
    """Two admissions name a new place: the second finds it before the first hears that it made it."""
    await opened(site)
    first = asyncio.create_task(site.deliver(said("A01", VISIT), entry=1))
    await server.made.wait()
    second = await site.deliver(said("A01", VISIT.replace("V1^", "V2^"), number="K2"), entry=2)
    server.gate.set()
    verdicts = [await first, second]
    assert [verdict.kind for verdict in verdicts] == [VerdictKind.DELIVERED] * 2
    assert not any("server-went-back" in verdict.notes for verdict in verdicts)


@on(FirelyLike)
@pytest.mark.parametrize("shown", [2, 50])
async def test_every_visit_goes_to_the_survivor_however_small_the_pages_are(site, server, shown) -> None:
    """A server that shows fewer visits than it was asked for says that there are more: none stays behind unnoticed."""
    server.most_on_a_page = shown
    await opened(site, allow_merge=True)
    await site.deliver(said("A28", number="K2"), entry=1)
    for visit in range(5):
        await site.deliver(said("A01", VISIT.replace("V1^", f"V{visit}^"), minute=visit), entry=2 + visit)
    verdict = await site.deliver(said("A40", "MRG|K1^^^RVB^MR", number="K2", minute=9), entry=9)
    assert (verdict.kind, verdict.reason) == (VerdictKind.DELIVERED, "linked")
    (survivor,) = [name for name, body in server.patients.items() if body["identifier"][0]["value"] == "K2"]
    assert {visit["subject"]["reference"] for visit in server.of("Encounter")} == {f"Patient/{survivor}"}
