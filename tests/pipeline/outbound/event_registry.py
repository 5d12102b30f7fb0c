"""A FHIR server in memory whose changes are sent to a relay: versions, deletions, a backup, and what reads it."""

import copy
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson

from engine.config.channel import Channel
from engine.deliver.destination import FhirDestination
from engine.deliver.fhir_reader import FhirReader
from engine.deliver.wire.client import ServerResponse
from engine.errors import DeliveryError
from engine.fhir.event import deletion
from engine.fhir.json import JsonObject

BASE: Final = "https://fhir.example/R4"
NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Version(NamedTuple):
    """One version of a resource; `resource` is None for a deletion."""

    number: str
    at: datetime
    resource: JsonObject | None


class Registry:
    """Versions of resources by reference; each write is a second after the one before it.

    `numbered` false: versions are marks without an order. `dated` false: it does not say when something was written.
    `keeps` false: former versions are not to be had. `down`: it does not answer.
    """

    def __init__(self, *, numbered: bool = True) -> None:
        self.numbered = numbered
        self.dated = True
        self.keeps = True
        self.down = False
        self.now = NOON
        self.versions: dict[str, list[Version]] = {}
        self.asked: list[str] = []

    def write(self, reference: str, **elements: Any) -> bytes:
        """Write a version and return its event, as a webhook has it."""
        type_, _, logical_id = reference.partition("/")
        version = self._next(reference)
        meta = {"versionId": version} | ({"lastUpdated": self.now.isoformat()} if self.dated else {})
        resource = {"resourceType": type_, "id": logical_id, "meta": meta} | elements
        self.versions.setdefault(reference, []).append(Version(version, self.now, resource))
        return orjson.dumps(resource)

    def delete(self, reference: str, *, dated: bool = True) -> bytes:
        """Delete a resource and return its event, as a history has it; or as a webhook, which tells no version."""
        version = self._next(reference)
        self.versions.setdefault(reference, []).append(Version(version, self.now, None))
        return self.deleted(reference) if dated else deletion(*reference.split("/"))

    def deleted(self, reference: str) -> bytes:
        """Return the event of the newest version, a deletion, as a history has it."""
        newest = self.versions[reference][-1]
        response = {"etag": f'W/"{newest.number}"'} | ({"lastModified": newest.at.isoformat()} if self.dated else {})
        entry = {"request": {"method": "DELETE", "url": reference}, "response": response}
        return orjson.dumps({"resourceType": "Bundle", "type": "collection", "entry": [entry]})

    def backup(self) -> dict[str, list[Version]]:
        """Return what a backup would hold now."""
        return copy.deepcopy(self.versions)

    def restore(self, backup: dict[str, list[Version]]) -> None:
        """Go back to a backup, an hour later; ids and versions that came since are given once more."""
        self.versions = copy.deepcopy(backup)
        self.now += timedelta(hours=1)

    def _next(self, reference: str) -> str:
        self.now += timedelta(seconds=1)
        number = len(self.versions.get(reference, ())) + 1
        return str(number) if self.numbered else f"x{sha256(f'{reference} {number}'.encode()).hexdigest()[:10]}"

    def answer(self, path: str) -> tuple[int, Any]:
        """Return status and body of a read."""
        self.asked.append(path)
        if self.down:
            raise DeliveryError("connect-failed")
        reference, _, rest = path.partition("/_history")
        versions = self.versions.get(reference, [])
        if rest.startswith("/"):
            found = next((one for one in versions if one.number == rest[1:]), None) if self.keeps else None
            return _read(found)
        if rest or path.endswith("/_history"):
            entries = [_entry(reference, one) for one in reversed(versions)]
            return (200, {"resourceType": "Bundle", "type": "history", "entry": entries}) if self.keeps else (404, None)
        return _read(versions[-1] if versions else None)


class RegistryReader(FhirReader):
    """Reads from a registry."""

    def __init__(self, registry: Registry, channel: Channel) -> None:
        assert channel.listen.fhir is not None
        super().__init__(FhirDestination(channel.listen.fhir.server, channel, clock=lambda: NOON, new_id=lambda: "1"))
        self.registry = registry

    async def get(self, path: str) -> ServerResponse:
        """Return what the registry has."""
        status, value = self.registry.answer(path)
        return ServerResponse(status, {}, orjson.dumps(value), value, 0.0)


def _read(version: Version | None) -> tuple[int, Any]:
    if version is None:
        return 404, None
    return (200, version.resource) if version.resource is not None else (410, None)


def _entry(reference: str, version: Version) -> JsonObject:
    if version.resource is not None:
        return {"resource": version.resource}
    response = {"etag": f'W/"{version.number}"', "lastModified": version.at.isoformat()}
    return {"request": {"method": "DELETE", "url": reference}, "response": response}
