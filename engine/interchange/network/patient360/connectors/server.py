"""The client of another FHIR server: reads, searches, pages, and the one sure match of a patient, or none."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode, urljoin, urlsplit

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.conversion import convert
from engine.fhir.versions.direction import Direction
from engine.interchange.clinical.facts import DocumentIdentity
from engine.interchange.kernel.exact import NO_JSON, read_json, write_json
from engine.interchange.kernel.outbound import OutboundError, OutboundPeer, OutboundReply
from engine.interchange.network.patient360.connectors.connector import RequestedPatient
from engine.interchange.network.patient360.match import matches

FHIR_JSON: Final = "application/fhir+json"
# The most bytes and pages of one record.
MOST_BYTES: Final = 50 * 1024 * 1024
# Larger bodies are parsed in a thread.
LARGE_BYTES: Final = 262_144
MOST_PAGES: Final = 1000
# The status of an interaction that a server does not offer, or not to this client.
NOT_OFFERED: Final = frozenset({400, 403, 404, 405, 406, 410, 415, 422, 501})
HEADERS: Final = {"accept": FHIR_JSON, "cache-control": "no-cache"}


@dataclass(slots=True)
class ServerSession:
    """The requests to one server for one patient; `left` is the number of bytes that may still be read."""

    peer: OutboundPeer
    base: str
    authorization: Mapping[str, str] = field(default_factory=dict, repr=False)
    left: int = MOST_BYTES

    async def get(self, address: str) -> tuple[int, Json]:
        """Return status and resource of a path below the base, or of an absolute URL; OutboundError."""
        url = address if ":" in address.partition("/")[0] else f"{self.base}/{address}"
        return await self._ask("GET", url, {}, b"")

    async def post(self, address: str, resource: JsonObject) -> tuple[int, Json]:
        """Post a resource; OutboundError."""
        kind = {"content-type": FHIR_JSON}
        return await self._ask("POST", f"{self.base}/{address}", kind, write_json(resource))

    async def search(self, type_name: str, parameters: Mapping[str, str]) -> tuple[int, Json]:
        """Return the first page of a search: by POST, which keeps the query out of URL logs, else by GET."""
        query = urlencode(parameters)
        kind = {"content-type": "application/x-www-form-urlencoded"}
        status, bundle = await self._ask("POST", f"{self.base}/{type_name}/_search", kind, query.encode())
        return await self.get(f"{type_name}?{query}") if status in NOT_OFFERED else (status, bundle)

    async def pages(self, address: str) -> AsyncIterator[tuple[int, Json]]:
        """Yield status and Bundle of an address and of its `next` links; OutboundError."""
        seen: set[str] = set()
        while address and address not in seen:
            seen.add(address)
            if len(seen) > MOST_PAGES:
                raise OutboundError("has more pages than are read")
            status, bundle = await self.get(address)
            yield status, bundle
            address = self._next(bundle)

    def _next(self, bundle: Json) -> str:
        link = next((one.get("url") for one in objects(bundle, "link") if one.get("relation") == "next"), None)
        if not isinstance(link, str):
            return ""
        try:
            url = urljoin(f"{self.base}/", link)
            same = _origin(url) == _origin(self.base)
        except ValueError:
            same = False
        if not same:
            raise OutboundError("links to another server, which is not followed")
        return url

    async def _ask(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        reply = await self.send(method, url, {**HEADERS, **headers, **self.authorization}, body)
        if reply.status == 401:
            raise OutboundError("does not know the service (401); check auth")
        if reply.status >= 500 and reply.status not in NOT_OFFERED:
            raise OutboundError(f"failed ({reply.status}); try again later")
        if 300 <= reply.status < 400:
            raise OutboundError(f"redirects ({reply.status}), which is not followed; mend url")
        try:
            large = len(reply.body) > LARGE_BYTES
            resource = await asyncio.to_thread(read_json, reply.body) if large else read_json(reply.body)
        except NO_JSON as error:
            if reply.status == 200:
                raise OutboundError("sent an answer that is no JSON") from error
            resource = {}
        return reply.status, resource

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> OutboundReply:
        """Send a request; the body of the reply counts towards `left`; OutboundError."""
        reply = await self.peer.send(method, url, headers, body, self.left)
        self.left -= len(reply.body)
        return reply


def objects(resource: Json, element: str) -> list[JsonObject]:
    """Return the objects in a list of an untrusted resource; [] for any other value."""
    parts = resource.get(element) if isinstance(resource, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


# The elements that are sent for a match: the person's demographics, nothing of the care.
DEMOGRAPHICS: Final = ("name", "gender", "birthDate", "identifier", "address", "telecom")
MOST_CANDIDATES: Final = 20


async def find_patient(server: ServerSession, subject: RequestedPatient, version: FhirVersion) -> JsonObject | None:
    """Return the one patient of a server who is the subject; None for none or several; OutboundError.

    By `Patient/$match` if the server has it, else by each identifier, else by name, birth date and sex. Each candidate
    must match by the same rule as the patient of a document.
    """
    async for candidates in _candidates(server, subject, version):
        sure = {one["id"]: one for one in candidates if isinstance(one.get("id"), str) and _is(one, subject)}
        if sure:
            return next(iter(sure.values())) if len(sure) == 1 else None
    return None


async def _candidates(
    server: ServerSession, subject: RequestedPatient, version: FhirVersion
) -> AsyncIterator[list[JsonObject]]:
    """Yield the candidates of each search in turn."""
    person: JsonObject = {
        "resourceType": "Patient",
        **{name: subject.patient[name] for name in DEMOGRAPHICS if name in subject.patient},
    }
    parameters = [
        {"name": "resource", "resource": convert(person, Direction.TO_STU3) if version is FhirVersion.STU3 else person},
        {"name": "onlyCertainMatches", "valueBoolean": True},
        {"name": "count", "valueInteger": MOST_CANDIDATES},
    ]
    status, bundle = await server.post("Patient/$match", {"resourceType": "Parameters", "parameter": parameters})
    if status == 200:
        yield patients_of(bundle)
        return
    _check(status)
    for system, value in subject.identifiers:
        yield await _searched(server, {"identifier": f"{_plain(system)}|{_plain(value)}"})
    given = subject.given[0] if subject.given else ""
    criteria = {"family": subject.family, "given": given, "birthdate": subject.birth_date, "gender": subject.gender}
    yield await _searched(server, {name: _plain(value) for name, value in criteria.items() if value})


async def _searched(server: ServerSession, criteria: dict[str, str]) -> list[JsonObject]:
    status, bundle = await server.search("Patient", {**criteria, "_count": str(MOST_CANDIDATES)})
    if status == 200:
        return patients_of(bundle)
    _check(status)
    return []


def _check(status: int) -> None:
    if status not in NOT_OFFERED:
        raise OutboundError(f"answered the question for a patient with {status}")


def patients_of(bundle: Json) -> list[JsonObject]:
    """Return the Patients of an untrusted Bundle."""
    resources = [entry.get("resource") for entry in objects(bundle, "entry")]
    return [one for one in resources if isinstance(one, dict) and one.get("resourceType") == "Patient"]


def _is(candidate: JsonObject, subject: RequestedPatient) -> bool:
    return any(matches(identity, subject.patient) for identity in identities(candidate))


def identities(candidate: JsonObject) -> tuple[DocumentIdentity, ...]:
    """Return the identities of an untrusted Patient, one for each name."""
    numbers = ((identifier.get("system"), identifier.get("value")) for identifier in objects(candidate, "identifier"))
    identifiers = tuple((str(system or ""), str(value)) for system, value in numbers if value)
    born, sex = str(candidate.get("birthDate", "")), str(candidate.get("gender", ""))
    names = ((_texts(name.get("given")), str(name.get("family", ""))) for name in objects(candidate, "name"))
    return tuple(DocumentIdentity(given, family, born, sex, identifiers) for given, family in names)


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _plain(value: str) -> str:
    """Return a value with the special characters of a search escaped."""
    for character in "\\|,$":
        value = value.replace(character, f"\\{character}")
    return value
