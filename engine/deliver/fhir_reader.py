"""Reads from the FHIR server whose events a channel takes: what an event refers to, former versions, and histories."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from engine.deliver.destination import FhirDestination
from engine.deliver.wire.client import ServerResponse
from engine.deliver.wire.failure import error_of, failure_of
from engine.errors import DeliveryError
from engine.fhir.event import local, references
from engine.fhir.json import JsonObject
from engine.fhir.outcome import codes

# What a message says of others: who treats and refers, where, and for whom.
REFERRED: Final = frozenset(
    {"Patient", "Practitioner", "PractitionerRole", "Organization", "Location", "RelatedPerson"}
)
# A role names its practitioner and organization, a bed its room and ward.
DEPTH: Final = 4
MOST_READ: Final = 60
# Answers that say that a resource, or a version of it, is not to be had.
ABSENT: Final = frozenset({400, 403, 404, 410, 501})


class FhirReader:
    """One server, as its channel describes it; DeliveryError where it cannot be read now."""

    def __init__(self, server: FhirDestination) -> None:
        self.server = server
        self.base = server.settings.base_url.rstrip("/")

    async def read(self, reference: str, version: str = "") -> JsonObject | None:
        """Return a resource (`Patient/1`) in R4 as it is now, or in a version; None where it is not to be had."""
        answer = await self.get(f"{reference}/_history/{version}" if version else reference)
        found: Any = None if answer.status in ABSENT else self.server.inward(answer.json)
        return found if isinstance(found, dict) and found.get("resourceType") == reference.partition("/")[0] else None

    async def referred(self, resources: Iterable[JsonObject], known: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
        """Return what resources refer to, directly and through others, by the reference as it is written.

        `known` is not read again. What is not to be had is left out.
        """
        found: dict[str, JsonObject] = {}
        heads = list(resources)
        for _ in range(DEPTH):
            wanted = [name for one in heads for name in references(one) if name not in found]
            wanted = [name for name in dict.fromkeys(wanted) if self._place(name).partition("/")[0] in REFERRED]
            at_hand = {name: known.get(name) or known.get(self._place(name)) for name in wanted}
            missing = [name for name, one in at_hand.items() if one is None][: max(MOST_READ - len(found), 0)]
            read = await asyncio.gather(*(self.read(self._place(name)) for name in missing))
            fresh = at_hand | dict(zip(missing, read, strict=True))
            found |= {name: one for name, one in fresh.items() if one is not None}
            heads = [one for one in fresh.values() if one is not None]
        return found

    async def get(self, path: str) -> ServerResponse:
        """Return the answer to a read; of the server's refusals those of ABSENT, others are raised."""
        return self._checked(await self.server.request("GET", path))

    async def send(self, method: str, path: str, body: bytes) -> ServerResponse:
        """Return the answer to a request that changes something; refusals are raised."""
        return self._checked(await self.server.request(method, path, body), absent=False)

    async def close(self) -> None:
        """Close the connections."""
        await self.server.close()

    def _place(self, reference: str) -> str:
        """Return where a resource is here; '' for one of another server, which may be another person's."""
        return local(reference, self.base)

    def _checked(self, answer: ServerResponse, *, absent: bool = True) -> ServerResponse:
        failure = failure_of(answer.status, write=False)
        if failure and not (absent and answer.status in ABSENT):
            raise _refused(answer)
        return answer


def _refused(answer: ServerResponse) -> DeliveryError:
    reason = f"http-{answer.status}"
    return error_of(failure_of(answer.status, write=False), reason, answer.status, (reason, *codes(answer.json)))
