"""Fixtures of delivery: a scripted server, a destination for it, a memory that learns from verdicts."""

import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from engine.config.channel import Channel
from engine.deliver.destination import FhirDestination
from engine.deliver.verdict import KnownIdentifier, Verdict
from engine.fhir.plan import ElementChange, Identity, Interaction, Link, Merge, PatientRecord, Plan, Rename
from engine.http.request import HttpRequest
from tests.deliver.fake_fhir import FakeFhir
from tests.interchange.kit import BASES, SECRET, running

MRN = "https://mrn.riverbend.example"
THIN = {"family": None, "given": None, "gender": None, "birthDate": None}
ENDED = "2026-03-01T07:00:00-05:00"
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Remembered:
    """What verdicts told, as the journal would keep it."""

    def __init__(self) -> None:
        self.identities: dict[Identity, KnownIdentifier] = {}
        self.slices: dict[tuple[str, str], Mapping[str, tuple[str, ...]]] = {}
        self.pairs: set[tuple[Identity, Identity]] = set()
        self.forms: dict[Identity, tuple[Identity, ...]] = {}

    def learn(self, verdict: Verdict) -> None:
        """Keep what a verdict told."""
        self.identities |= {known.identity: known for known in verdict.known}
        self.slices |= {(owned.resource, owned.source): owned.slices for owned in verdict.owned}
        self.pairs |= {(merged.source, merged.survivor) for merged in verdict.merges}
        for one in verdict.inherited:
            for place, source in [key for key in self.slices if key[0].startswith(f"{one.gone} ")]:
                there = (place.replace(one.gone, one.survivor, 1), source)
                self.slices[there] = {**self.slices.pop((place, source)), **self.slices.get(there, {})}

    async def known(self, identities: Sequence[Identity]) -> Mapping[Identity, KnownIdentifier]:
        """As Memory says."""
        return {item: self.identities[item] for item in identities if item in self.identities}

    async def owned(self, resource: str, source: str) -> Mapping[str, tuple[str, ...]]:
        """As Memory says."""
        return self.slices.get((resource, source), {})

    async def claimed(self, resource: str, source: str) -> frozenset[str]:
        """As Memory says."""
        others = (slices for (of, who), slices in self.slices.items() if of == resource and who != source)
        return frozenset(mark for slices in others for marks in slices.values() for mark in marks)

    async def merged(self, source: Identity, survivor: Identity) -> bool:
        """As Memory says."""
        return (source, survivor) in self.pairs

    async def leads(self, source: Identity, survivors: Sequence[Identity]) -> bool:
        """As Memory says."""
        reached, waiting = set(), [source]
        while waiting:
            one = waiting.pop()
            further = {survivor for gone, survivor in self.pairs if gone == one} - reached
            reached |= further
            waiting += further
        return not reached.isdisjoint(survivors)

    def other_forms(self, identity: Identity) -> tuple[Identity, ...]:
        """As Memory says."""
        return self.forms.get(identity, ())

    async def survivor(self, logical_id: str) -> str:
        """As Memory says."""
        gone = (identity for identity in self.identities.values() if identity.status == "merged-away")
        return next((one.survivor for one in gone if one.logical_id == logical_id != one.survivor), "")


class Site:
    """A destination, its server and what was journaled; `send` delivers interactions as one entry."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.memory = Remembered()
        self.intents: list[HttpRequest] = []
        self.destination: FhirDestination | None = None
        self.ticks = 0.0
        self._ids = itertools.count()

    def open(self, **settings: Any) -> "Site":
        """Open a destination; keywords are settings of the destination, policies of the channel, `observe`."""
        self.settings = dict(settings)
        observe = settings.pop("observe", lambda _kind: None)
        policies = {key: settings.pop(key) for key in list(settings) if key in Channel.model_fields}
        channel = Channel.model_validate(
            {
                "channel": "riverbend-adt",
                "listen": {"mllp": {"port": 0}},
                "destinations": [
                    {"name": "interchange", "base_url": self.base, "if_none_exist": "demographics"} | settings
                ],
            }
            | policies
        )
        self.channel = channel
        self.destination = FhirDestination(
            channel.destinations[0],
            channel,
            clock=lambda: AT,
            new_id=lambda: f"id{next(self._ids)}",
            ticks=lambda: self.ticks,
            observe=observe,
        )
        return self

    async def send(self, *interactions: Interaction, source: str = "ADT|RVB", **options: Any) -> Verdict:
        """Deliver interactions as one entry and learn from the verdict."""
        return await self.deliver(Plan("A08", source, AT, 14, interactions), **options)

    async def deliver(self, plan: Plan, **options: Any) -> Verdict:
        """Deliver a plan as one entry and learn from the verdict."""
        assert self.destination is not None

        mine: list[HttpRequest] = []

        async def intend(request: HttpRequest) -> None:
            self.intents.append(request)
            mine.append(request)

        verdict = await self.destination.deliver(plan, self.memory, intend, at=AT, **options)
        assert [attempt.request for attempt in verdict.attempts if attempt.journaled] == mine
        assert all(_needs_no_intent(attempt.request) for attempt in verdict.attempts if not attempt.journaled)
        assert not any(word in repr(verdict) for word in ("SENTINEL", MRN, "Quintero"))
        self.memory.learn(verdict)
        return verdict

    async def again(self, **settings: Any) -> "Site":
        """Close the destination and open it with more settings, its abilities read; what is remembered stays."""
        assert self.destination is not None
        proofs = self.destination.proofs.known
        await self.close()
        self.open(**self.settings | settings)
        self.destination.proofs.known |= proofs
        await self.destination.check()
        return self

    async def close(self) -> None:
        """Close the destination, as a restart would."""
        if self.destination is not None:
            await self.destination.close()


@pytest.fixture
async def server() -> AsyncIterator[FakeFhir]:
    """A scripted FHIR server on a free port."""
    fake = await FakeFhir().start()
    yield fake
    await fake.stop()


@pytest.fixture
async def site(server: FakeFhir) -> AsyncIterator[Site]:
    """A destination for the scripted server, opened with the settings of an interchange service."""
    opened = Site(server.base)
    yield opened
    await opened.close()


@pytest.fixture
async def ticking(site: Site) -> AsyncIterator[Callable[..., tuple[list[float], FhirDestination]]]:
    """Makes a destination with a monotonic clock that the test turns: a list of one number."""
    made: list[FhirDestination] = []

    def make(**settings: Any) -> tuple[list[float], FhirDestination]:
        ticks = [0.0]
        site.open(**settings)
        assert site.destination is not None
        channel = site.channel
        destination = FhirDestination(
            channel.destinations[0], channel, clock=lambda: AT, new_id=lambda: "id", ticks=lambda: ticks[0]
        )
        made.append(site.destination)
        return ticks, destination

    yield make
    for destination in made:
        await destination.close()


def _needs_no_intent(request: HttpRequest) -> bool:
    """Say whether a request is a read, or an update with a version."""
    return request.method == "GET" or (request.method == "PUT" and "If-Match" in dict(request.headers))


def _identifier(number: str, system: str = MRN, **more: Any) -> dict[str, Any]:
    return {"type": {"coding": [{"code": "MR"}]}, "system": system, "value": number} | more


@pytest.fixture
def identifier() -> Callable[..., dict[str, Any]]:
    """Makes a medical record number as a FHIR Identifier."""
    return _identifier


@pytest.fixture
def patient() -> Callable[..., PatientRecord]:
    """Makes what a message says of a patient; names of elements as keywords, None for what it does not say."""

    def make(*numbers: str, placeholder: bool = False, **elements: Any) -> PatientRecord:
        said: dict[str, Any] = {
            "family": "Quintero",
            "given": "Marisol",
            "gender": "female",
            "birthDate": "1984-02-29",
            "telecom": None,
        } | elements
        family, given = said.pop("family"), said.pop("given")
        changes = []
        if family:
            changes.append(ElementChange("name", "PID-5", ({"family": family, "given": [given]},), many=True))
        for name, value in said.items():
            if value is None:
                continue
            many = isinstance(value, list)
            items = tuple(value) if many else () if value == "" else (value,)
            changes.append(ElementChange(name, "PID-13" if name == "telecom" else name, items, many))
        identities = tuple(Identity(MRN, number) for number in numbers)
        return PatientRecord(identities, tuple(_identifier(number) for number in numbers), tuple(changes), placeholder)

    return make


@pytest.fixture
def merging(patient: Callable[..., PatientRecord]) -> Callable[..., Merge]:
    """Makes a merge of one number into another; elements describe the survivor as an A40's PID does."""

    def make(source: str, target: str, **elements: Any) -> Merge:
        survivor = patient(target, **THIN | elements)
        return Merge(
            Identity(MRN, source), Identity(MRN, target), (Identity(MRN, source),), (_identifier(source),), survivor
        )

    return make


@pytest.fixture
def renaming(patient: Callable[..., PatientRecord]) -> Callable[..., Rename]:
    """Makes a change of one number into another; elements describe the patient as the PID does."""

    def make(old: str, new: str, **elements: Any) -> Rename:
        gone = _identifier(old, use="old", period={"end": ENDED})
        who = patient(new, **THIN | elements)
        return Rename((Identity(MRN, old),), (Identity(MRN, new),), (gone,), (_identifier(new),), who)

    return make


@pytest.fixture
def linking(patient: Callable[..., PatientRecord]) -> Callable[..., Link]:
    """Makes a link of two numbers, or its undoing; elements describe both as the PIDs do."""

    def make(one: str, other: str, *, undo: bool = False, **elements: Any) -> Link:
        return Link(patient(one, **elements), patient(other, **elements), undo)

    return make


@pytest.fixture(scope="module")
def interchange(tmp_path_factory):
    """A running interchange service."""
    with running(tmp_path_factory.mktemp("interchange")) as service:
        yield service


@pytest.fixture(params=["R4", "STU3"])
async def service_site(request, interchange, monkeypatch):
    """A destination for the service in each FHIR version, its abilities read."""
    monkeypatch.setenv("ENGINE_SECRET", SECRET)
    auth = {
        "type": "client_credentials",
        "token_url": f"{interchange.url}/oauth/token",
        "client_id": "system",
        "client_secret": {"env": "ENGINE_SECRET"},
        "scope": "system/*.*",
    }
    site = Site(f"{interchange.url}{BASES[request.param]}").open(fhir=request.param, auth=auth)
    await site.destination.check()
    yield site
    await site.close()
