"""What a profile says that a server does its own way: each value is one that delivery asks for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.config.destination import Destination
from engine.deliver.throttling import MOST_LOCK_REFUSALS
from engine.deliver.verdict import Failure, VerdictKind
from engine.fhir.plan import Identity, Keep, ResourceRecord, Upsert
from tests.deliver.conftest import Site
from tests.deliver.fake_chart import FakeChart
from tests.destinations.azure_like import AzureLike
from tests.destinations.double_rig import ProfilesRig
from tests.destinations.google_like import GoogleLike
from tests.destinations.healthlake_like import CONSISTENCY, KEY, HealthLakeLike
from tests.flow.feed import FeedMessage
from tests.flow.operator import done

ADMISSION = (
    "MSH|^~\\&|REG|RIVERBEND|ADTENGINE|HUB|20260302060000||ADT^A01^ADT_A01|A1|P|2.5.1\rEVN|A01|20260302060000\r"
    "PID|1||4711^^^RVB^MR||Kim^Ada||19540301|F\rPV1|1|I|3W^312^A^RVB||||||||||||||||V1^^^RVB\r"
)


@pytest.fixture
async def server(request: pytest.FixtureRequest) -> AsyncIterator[FakeChart]:
    """The double that the test names."""
    double: FakeChart = request.param()
    await double.start()
    yield double
    await double.stop()


def on(kind: type[FakeChart]) -> pytest.MarkDecorator:
    """Give a test a double."""
    return pytest.mark.parametrize("server", [kind], indirect=True, ids=[kind.__name__])


def places(*numbers: str) -> list[Keep]:
    """Return places that a message names."""
    system = "https://places.riverbend.example"
    return [
        Keep(ResourceRecord("Location", one, (Identity(system, one),), ({"system": system, "value": one},), ()))
        for one in numbers
    ]


async def opened(site: Site, profile: str, **settings: object) -> Site:
    """Open a destination of a profile, its abilities read."""
    site.open(profile=profile, if_none_exist="identifier", **settings)
    assert site.destination is not None
    await site.destination.check()
    return site


@pytest.mark.parametrize(("profile", "double"), [("azure", AzureLike), ("google", GoogleLike)])
def test_the_most_entries_of_a_bundle_are_the_servers(profile: str, double: type[FakeChart]) -> None:
    """The documented limit, which the double has too."""
    settings = Destination(name="x", base_url="https://fhir.example", profile=profile)  # type: ignore[arg-type]
    assert settings.behaviour.bundle_entries == double().most_entries  # type: ignore[attr-defined]


@on(GoogleLike)
@pytest.mark.parametrize(("most", "bundles"), [(3, 1), (2, 0)])
async def test_no_bundle_has_more_entries_than_the_server_takes(server, site, patient, most, bundles):
    """What does not go into one transaction is sent request by request."""
    await opened(site, "google", behaviour={"bundle_entries": most})
    verdict = await site.send(Upsert(patient("1")), *places("A", "B", "C"))
    assert (verdict.kind, server.bundles, len(server.chart)) == (VerdictKind.DELIVERED, bundles, 3)


@on(HealthLakeLike)
@pytest.mark.parametrize("create", ["conditional", "client-id", "idempotency-key"])
async def test_reads_are_strong_in_every_way_of_creating(server, site, patient, create):
    """A search that is behind shows nobody; so each read asks for what was written last, whatever `create` says."""
    await opened(site, "healthlake", create=create)
    await site.send(Upsert(patient("1")), entry=1)
    reads = [headers for request, headers in zip(server.requests, server.headers, strict=True) if request[:3] == "GET"]
    assert {headers.get(CONSISTENCY) for headers in reads} == {"strong"}


@on(HealthLakeLike)
async def test_a_key_of_the_file_wins_over_the_profile(server, site, patient):
    """Other headers of reads, and another one for the key of a create."""
    own = {"idempotency_header": "Idempotency-Key", "read_headers": {CONSISTENCY: "eventual"}}
    await opened(site, "healthlake", behaviour=own)
    await site.send(Upsert(patient("1")), entry=1)
    sent = dict(zip(server.requests, server.headers, strict=True))
    create = next(headers for request, headers in sent.items() if request.startswith("POST Patient"))
    assert ("Idempotency-Key" in create, KEY in create) == (True, False)
    assert {headers.get(CONSISTENCY) for request, headers in sent.items() if request[:3] == "GET"} == {"eventual"}


@on(GoogleLike)
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "OperationOutcome"])
async def test_a_bundle_that_is_refused_for_a_lock_comes_again_as_a_bundle(server, site, patient, plain):
    """Nothing is written one by one meanwhile; the next try sends the same bundle, and is done."""
    server.plain_errors, server.refused_bundles = plain, 2
    await opened(site, "google")
    plan = (Upsert(patient("1")), *places("A", "B"))
    for refusals in range(2):
        verdict = await site.send(*plan, attempts_made=len(site.intents), lock_refusals=refusals)
        assert (verdict.kind, verdict.reason, verdict.failure) == (VerdictKind.RETRY, "lock-refused", Failure.TRANSIENT)
        assert (server.chart, server.bundles) == ({}, refusals + 1)
    verdict = await site.send(*plan, attempts_made=len(site.intents), lock_refusals=2)
    assert (verdict.kind, server.bundles, len(server.chart)) == (VerdictKind.DELIVERED, 3, 2)
    assert [effect for effect in server.effects if effect.startswith("create p")] == ["create p1"]


@on(GoogleLike)
async def test_after_too_many_refusals_it_goes_as_any_failure(server, site, patient):
    """The last try sends request by request, and a refusal is then what its status says."""
    server.refused_bundles = 99
    await opened(site, "google")
    plan = (Upsert(patient("1")), *places("A", "B"))
    verdict = await site.send(*plan, lock_refusals=MOST_LOCK_REFUSALS)
    assert (verdict.reason, server.bundles) == ("http-429", 1)
    verdict = await site.send(*plan, attempts_made=len(site.intents), lock_refusals=MOST_LOCK_REFUSALS)
    assert (verdict.kind, server.bundles, len(server.chart)) == (VerdictKind.DELIVERED, 1, 2)


@on(GoogleLike)
@pytest.mark.parametrize(("profile", "names_locks"), [("google", False), ("generic", True)])
async def test_only_what_the_profile_says_is_a_refusal_for_a_lock(server, site, patient, profile, names_locks):
    """A quota is none, and at another server the same words mean nothing."""
    server.refused_bundles, server.names_locks = 1, names_locks
    await opened(site, profile)
    verdict = await site.send(Upsert(patient("1")), *places("A", "B"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.RETRY, "http-429")


@on(GoogleLike)
async def test_a_conflict_may_be_a_lock_where_the_file_says_so(server, site, patient):
    """409 is what a write that is stale is answered, too: the texts tell them apart."""
    server.refusal, server.refused_bundles = 409, 1
    await opened(site, "google", behaviour={"lock_refusal": {"statuses": [409]}})
    verdict = await site.send(Upsert(patient("1")), *places("A", "B"))
    assert (verdict.kind, verdict.reason, server.chart) == (VerdictKind.RETRY, "lock-refused", {})
    server.refused_bundles, server.names_locks = 1, False
    verdict = await site.send(Upsert(patient("1")), *places("A", "B"), attempts_made=9, lock_refusals=1)
    assert (verdict.kind, len(server.chart)) == (VerdictKind.DELIVERED, 2)


@pytest.mark.process
async def test_the_engine_waits_and_sends_the_same_again(tmp_path: Path) -> None:
    """The whole engine: a refusal, a pause, the same bundle; the destination was never taken for down."""
    server = GoogleLike()
    server.refused_bundles = 1
    rig = await ProfilesRig(tmp_path / "google", {"google": server}).open()
    try:
        await rig.engine.start()
        await rig.sender([FeedMessage("A1", 1, ADMISSION.encode(), "")], 1).run()
        rows = await rig.until(lambda rows: [row.state for row in rows] == ["delivered"], 30.0)
        assert [row.control_id for row in rows] == ["A1"]
        assert (server.bundles, server.refusals) == (2, 1)
        assert "adt_breaker_open{" not in str(await done(rig, "metrics"))
    finally:
        await rig.close()
