"""A chart as the sections of a document ask for it: by type, by reference, without what was entered in error."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5
from zoneinfo import ZoneInfo

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import OID, derived_oid, has_code, system_by_uri
from engine.interchange.clinical.ccda.element import Element, add
from engine.interchange.clinical.ccda.times import readable, readable_span, span_of

ERROR: Final = "entered-in-error"
URN: Final = "urn:ietf:rfc:3986"


@dataclass(frozen=True, slots=True)
class Custodian:
    """The organization that keeps the charts: `address` is that of its service, by which ids are made.

    `identifiers`, `telecom` and `postal` are as those of a FHIR Organization.
    """

    name: str
    address: str
    identifiers: Sequence[JsonObject] = ()
    telecom: Sequence[JsonObject] = ()
    postal: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """The chart that a document is made from, the zone of its times, and the moment at which it is made."""

    patient: JsonObject
    custodian: Custodian
    zone: ZoneInfo
    at: datetime
    types: dict[str, list[JsonObject]] = field(repr=False)
    targets: JsonObject = field(repr=False)
    space: UUID

    @classmethod
    def of(
        cls, patient: JsonObject, resources: Sequence[JsonObject], custodian: Custodian, zone: ZoneInfo, at: datetime
    ) -> "DocumentRecord":
        """Sort a chart; what was entered in error is in no part of it."""
        types: dict[str, list[JsonObject]] = {}
        targets: JsonObject = {}
        for resource in resources:
            if not in_error(resource):
                types.setdefault(resource["resourceType"], []).append(resource)
                targets[f"{resource['resourceType']}/{resource.get('id', '')}"] = resource
        return cls(patient, custodian, zone, at, types, targets, uuid5(NAMESPACE_URL, custodian.address))

    def of_type(self, name: str) -> list[JsonObject]:
        """Return the resources of a type, in the order of the chart."""
        return self.types.get(name, [])

    def find(self, reference: JsonObject | None, within: JsonObject) -> JsonObject | None:
        """Return what a Reference of a resource leads to, in the chart or contained; None if it is not there."""
        target = (reference or {}).get("reference", "")
        if target.startswith("#"):
            return next((one for one in within.get("contained", ()) if one.get("id") == target[1:]), None)
        return self.targets.get(target.partition("/_history/")[0])

    def root(self, name: str) -> str:
        """Return the UUID of something of this custodian: always the same for the same name."""
        return str(uuid5(self.space, name))

    def add_ids(self, parent: Element, resource: JsonObject, part: str = "") -> None:
        """Append the ids of an entry: one that is made of the resource's, and those by which others know it.

        `part` distinguishes several entries of one resource.
        """
        name = f"{resource['resourceType']}/{resource.get('id', '')}"
        add(parent, "id", root=self.root(f"{name}#{part}" if part else name))
        if not part:
            add_identifiers(parent, resource.get("identifier"))

    def when(self, resource: JsonObject, name: str) -> str:
        """Return a choice of times (`onset`) as people read it."""
        return readable_span(span_of(resource, name), self.zone)

    def readable(self, text: str | None) -> str:
        """Return a time as people read it; '' for none."""
        return readable(text or "", self.zone)


def in_error(resource: JsonObject) -> bool:
    """Say whether a resource was entered in error, by its status or by how it was verified."""
    return (
        resource.get("status") == ERROR
        or resource.get("lifecycleStatus") == ERROR
        or has_code(resource.get("verificationStatus"), ERROR)
    )


def add_identifiers(parent: Element, identifiers: list[JsonObject] | None) -> int:
    """Append FHIR identifiers that have a value as ids, and return their number."""
    found = 0
    for identifier in identifiers or ():
        value, uri = identifier.get("value"), identifier.get("system", "")
        if not value:
            continue
        if uri == URN and (root := _root(value)):
            add(parent, "id", root=root)
        elif system := system_by_uri(uri):
            add(parent, "id", root=system.oid, extension=value)
        elif uri:
            add(parent, "id", root=derived_oid(uri), extension=value, assigningAuthorityName=uri)
        else:
            continue
        found += 1
    return found


def _root(value: str) -> str:
    """Return what a urn of an OID or of a UUID is as the root of an id; '' for another one."""
    if OID.fullmatch(oid := value.removeprefix("urn:oid:")):
        return oid
    try:
        return str(UUID(value)) if value.startswith("urn:uuid:") else ""
    except ValueError:
        return ""
