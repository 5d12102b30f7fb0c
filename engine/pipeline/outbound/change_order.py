"""Whether an event is newer than what a relay was sent of its resource, older, the same, or of a server that went back.

What was sent is a memory of a server, and may outlive it: one that is restored from a backup gives the same versions
once more. So where the number of a version says that it is old and its moment that it is not, the server is asked.
"""

from datetime import datetime
from enum import Enum, auto
from typing import Final

from engine.deliver.fhir_reader import FhirReader
from engine.fhir.event import FhirEvent, moment_of
from engine.fhir.json import JsonObject
from engine.journal.entry import SentResource
from engine.mapping.outgoing.detection import ResourceState, resource_state

GONE: Final = frozenset({404, 410})


class Standing(Enum):
    """How an event stands to what was sent of its resource."""

    NEWER = auto()
    SAME = auto()
    OLDER = auto()
    WENT_BACK = auto()


async def standing(event: FhirEvent, now: ResourceState, last: SentResource, reader: FhirReader) -> Standing:
    """Return how an event, whose state is `now`, stands to what was last sent of its resource."""
    before = ResourceState.read(last.state)
    if event.version and event.version == last.version:
        return _of_same_version(now, before)
    if event.version.isdecimal() and last.version.isdecimal():
        higher = int(event.version) > int(last.version)
        return Standing.NEWER if higher else await _of_lower_number(event, now, last, reader)
    if await _is_newer(event, now, last, reader):
        return Standing.NEWER
    return Standing.OLDER


async def is_another(last: ResourceState, reference: str, reader: FhirReader) -> bool:
    """Say whether a server that went back has since given the id of a resource to another one."""
    first = await reader.read(reference, "1")
    made_at = updated_at(first) if first is not None else None
    return made_at is not None and last.moment is not None and made_at > last.moment


def meta_of(resource: JsonObject) -> JsonObject:
    """Return what a server says of a resource."""
    meta = resource.get("meta")
    return meta if isinstance(meta, dict) else {}


def updated_at(resource: JsonObject) -> datetime | None:
    """Return when a version was written; None where it does not say."""
    return moment_of(meta_of(resource).get("lastUpdated"))


def _of_same_version(now: ResourceState, before: ResourceState) -> Standing:
    same_moment = now.moment is not None and now.moment == before.moment
    return Standing.SAME if same_moment or now.says_same(before) else Standing.WENT_BACK


async def _of_lower_number(event: FhirEvent, now: ResourceState, last: SentResource, reader: FhirReader) -> Standing:
    sent_at = ResourceState.read(last.state).moment
    if event.at is None or sent_at is None:
        # A server whose newest version is older than one that it had went back.
        went_back = await _is_current(event, now, reader)
    elif event.at <= sent_at:
        went_back = False
    else:
        # Or the clock was set back between the two: then the server still has what was sent.
        found = await reader.read(event.reference, last.version)
        went_back = found is None or updated_at(found) != sent_at
    return Standing.WENT_BACK if went_back else Standing.OLDER


async def _is_newer(event: FhirEvent, now: ResourceState, last: SentResource, reader: FhirReader) -> bool:
    """Say whether an event is newer than what was sent, where no numbers say it: by their moments, or by the server."""
    before = ResourceState.read(last.state)
    if not event.version and event.at is None:
        return await _is_current(event, now, reader)
    if before.deleted and not last.version and before.moment is None:
        return event.deleted or (await reader.get(event.reference)).status not in GONE
    if event.at is None or before.moment is None or event.at >= before.moment:
        return True
    # Or the server's clock was set back.
    return await _is_current(event, now, reader)


async def _is_current(event: FhirEvent, now: ResourceState, reader: FhirReader) -> bool:
    """Say whether an event is of what the server has now; one without a version, by its content."""
    if event.deleted:
        return (await reader.get(event.reference)).status in GONE
    found = await reader.read(event.reference)
    if found is None:
        return False
    return (
        meta_of(found).get("versionId") == event.version
        if event.version
        else resource_state(found, reader.base).says_same(now)
    )
