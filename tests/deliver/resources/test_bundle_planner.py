"""One transaction or request by request: the same messages leave the service with the same charts, in both versions."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import orjson
import pytest

from engine.config.account import Client, Role
from engine.config.samples import load_samples
from engine.config.secret import Secret
from engine.config.service import Tenant
from engine.config.settings import shipped
from engine.deliver.verdict import VerdictKind
from engine.errors import MappingError, MessageError
from engine.fhir.plan import Plan
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.compile import compile_mapping, read
from engine.simulation.world import simulate
from tests.deliver.conftest import Site
from tests.deliver.resources.test_lists import TYPES
from tests.interchange.kit import BASES, SECRET, SYSTEM, running, secret_file

AUTHORITIES: Final = {name: f"https://mrn.{name.lower()}.example" for name in ("RVB", "LKS", "EAST")}
ALL: Final = (*TYPES, "PractitionerRole", "Provenance")
MAPPING: Final = compile_mapping(
    sending(read([shipped("mappings")], "adt"), ALL), channel_of({"authorities": AUTHORITIES, "allow_merge": True})
)
KEPT: Final = ("Patient", "Practitioner", "Location", "Organization", *ALL)
DAYS: Final = 120
SCOPE: Final = "system/*.*"
TENANTS: Final = tuple(f"{version}-{bundle}".lower() for version in BASES for bundle in ("auto", "off"))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service with a tenant for each version and setting."""
    folder = tmp_path_factory.mktemp("together")
    secret = Secret(file=str(secret_file(folder)))
    clients = {
        name: Client(tenant=name, secret=secret, name=name, scopes=(SCOPE,), role=Role.SYSTEM_INTEGRATION)
        for name in TENANTS
    }
    with running(folder, tenants={name: Tenant() for name in TENANTS}, clients=clients) as found:
        yield found


def plans() -> Iterator[Plan]:
    """The plans of all samples that can be mapped, and of simulated hospital days."""
    raws = [sample.raw for sample in load_samples(shipped("samples"))]
    for raw in (*raws, *(one.raw for one in islice(simulate(7, 20), DAYS))):
        try:
            yield MAPPING.plan(parse(raw))
        except (MappingError, MessageError):
            continue


class Told:
    """What became of the plans at one tenant: verdicts, resources and versions, each named by what it is."""

    def __init__(self, service: Any, version: str, bundle: str) -> None:
        self.service, self.version, self.bundle = service, version, bundle
        self.client = f"{version}-{bundle}".lower()
        self.sent: list[str] = []

    async def tell(self, given: Iterable[Plan]) -> "Told":
        """Deliver the plans, one by one, and look what is there."""
        auth = {
            "type": "client_credentials", "token_url": f"{self.service.url}/oauth/token", "client_id": self.client,
            "client_secret": {"env": "ENGINE_SECRET"}, "scope": SCOPE,
        }  # fmt: skip
        self.base = f"{self.service.url}{BASES[self.version]}"
        site = Site(self.base).open(fhir=self.version, auth=auth, bundle=self.bundle)
        await site.destination.check()
        self.ends = []
        for plan in given:
            verdict = await site.deliver(plan)
            assert verdict.kind is not VerdictKind.RETRY, (plan.event, verdict.reason)
            self.ends.append((plan.event, verdict.kind, verdict.reason, sorted(map(self._plain, verdict.notes))))
            self.sent += [attempt.request.url.removeprefix(self.base) for attempt in verdict.attempts]
        await site.close()
        self.memory = site.memory
        self._look()
        return self

    def _plain(self, note: str) -> str:
        return note.partition(" ")[0]

    def _look(self) -> None:
        """Read all resources, and name each by type, number and whose it is."""
        bodies = [body for type_ in KEPT for body in self._all(type_)]
        self.names = {f"{one['resourceType']}/{one['id']}": self._name(one) for one in bodies}
        for _ in range(3):  # names that hold references to others
            self.names = {key: self._named(name) for key, name in self.names.items()}
        self.versions = {self.names[f"{one['resourceType']}/{one['id']}"]: _version(one) for one in bodies}
        self.charts = sorted(self._named(orjson.dumps(_bare(one)).decode()) for one in bodies)
        self.known = sorted(
            (*key, one.status, self._of(key.system, one.logical_id)) for key, one in self.memory.identities.items()
        )
        self.owned = sorted(
            (self._named(f'"{place.split(" ")[0]}"'), place.partition(" ")[2], source, *sorted(slices))
            for (place, source), slices in self.memory.slices.items()
        )

    def _of(self, system: str, logical_id: str) -> str:
        type_ = system.partition(" ")[0] if " " in system else "Patient"
        return self.names.get(f"{type_}/{logical_id}", "?")

    def _name(self, body: dict[str, Any]) -> str:
        if body["resourceType"] == "Provenance":
            return f"Provenance {body['id']}"
        numbers = sorted(f"{one.get('system')}|{one.get('value')}|{one.get('use')}" for one in _numbers(body))
        holder = next((body[name] for name in ("subject", "patient", "beneficiary") if name in body), None)
        return f"{body['resourceType']} {numbers} {orjson.dumps(holder).decode()}"

    def _named(self, text: str) -> str:
        for reference, name in self.names.items():
            text = text.replace(f'"{reference}"', orjson.dumps(name).decode())
        return text

    def _all(self, type_: str) -> Iterator[dict[str, Any]]:
        """Yield the newest version of each resource of a type."""
        newest: dict[str, dict[str, Any]] = {}
        path = f"{BASES[self.version]}/{type_}/_history?_count=100"
        while path:
            bundle = self.service.ask("GET", path, client=self.client, scope=SCOPE).json()
            for entry in bundle.get("entry", ()):
                body = entry["resource"]
                if body["id"] not in newest or _version(newest[body["id"]]) < _version(body):
                    newest[body["id"]] = body
            links = {link["relation"]: link["url"] for link in bundle.get("link", ())}
            path = links.get("next", "").removeprefix(self.service.url)
        yield from newest.values()


def _version(body: dict[str, Any]) -> int:
    return int(body["meta"]["versionId"])


def _numbers(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the identifiers of a resource but the service's own, which is its id."""
    return [one for one in body["identifier"] if one.get("system") != SYSTEM]


def _bare(body: dict[str, Any]) -> dict[str, Any]:
    """Return a resource without what only the server says, what it lists within in one order."""
    kept = {name: value for name, value in body.items() if name not in {"id", "meta"}}
    if "identifier" in body:
        kept["identifier"] = _numbers(body)
    if body["resourceType"] == "Provenance":
        kept["target"] = sorted(kept["target"], key=lambda one: str(one["reference"]).split("/")[0])
    return kept


@pytest.mark.matrix
@pytest.mark.parametrize("version", BASES)
async def test_together_or_one_by_one_is_the_same(service, version, monkeypatch):
    """Ends, notes, charts, references and what is remembered are equal; together there are no more versions."""
    monkeypatch.setenv("ENGINE_SECRET", SECRET)
    given = list(plans())
    together = await Told(service, version, "auto").tell(given)
    alone = await Told(service, version, "off").tell(given)
    assert together.ends == alone.ends
    assert together.known == alone.known
    assert together.owned == alone.owned
    assert together.versions.keys() == alone.versions.keys()
    assert [name for name, number in together.versions.items() if number > alone.versions[name]] == []
    assert together.charts == alone.charts
    assert together.sent.count("") > 50
    assert alone.sent.count("") == 0
    assert len(together.sent) < len(alone.sent)
