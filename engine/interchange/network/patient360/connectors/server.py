"""Another FHIR server as a connector asks it: resources in, by address or by search, page after page."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode, urljoin, urlsplit

from engine.fhir.json import Json, JsonObject
from engine.interchange.kernel.exact import NO_JSON, read_json, write_json
from engine.interchange.kernel.outbound import OutboundError, OutboundPeer, OutboundReply

FHIR_JSON: Final = "application/fhir+json"
# A record, all pages together; and how many these may be.
MOST_BYTES: Final = 50 * 1024 * 1024
# More is read in a thread, so that it keeps nobody waiting.
LARGE_BYTES: Final = 262_144
MOST_PAGES: Final = 1000
# What a server says to an interaction that it does not have, or not for this client.
NOT_OFFERED: Final = frozenset({400, 403, 404, 405, 406, 410, 415, 422, 501})
ASKED: Final = {"accept": FHIR_JSON, "cache-control": "no-cache"}


@dataclass(slots=True)
class ServerSession:
    """One server while one patient is asked for: its base, what lets the service in, and what may still be read."""

    peer: OutboundPeer
    base: str
    authorization: Mapping[str, str] = field(default_factory=dict, repr=False)
    left: int = MOST_BYTES

    async def get(self, address: str) -> tuple[int, Json]:
        """Return status and resource at an address below the base, or at a whole one; OutboundError."""
        url = address if ":" in address.partition("/")[0] else f"{self.base}/{address}"
        return await self._ask("GET", url, {}, b"")

    async def post(self, address: str, resource: JsonObject) -> tuple[int, Json]:
        """Return what a server answers to a resource; OutboundError."""
        kind = {"content-type": FHIR_JSON}
        return await self._ask("POST", f"{self.base}/{address}", kind, write_json(resource))

    async def search(self, type_name: str, parameters: Mapping[str, str]) -> tuple[int, Json]:
        """Return the first page of a search, asked so that no log of an address has it, where the server takes that."""
        query = urlencode(parameters)
        kind = {"content-type": "application/x-www-form-urlencoded"}
        status, found = await self._ask("POST", f"{self.base}/{type_name}/_search", kind, query.encode())
        return await self.get(f"{type_name}?{query}") if status in NOT_OFFERED else (status, found)

    async def pages(self, address: str) -> AsyncIterator[tuple[int, Json]]:
        """Yield status and Bundle of an address and of all that its `next` links lead to; OutboundError."""
        seen: set[str] = set()
        while address and address not in seen:
            seen.add(address)
            if len(seen) > MOST_PAGES:
                raise OutboundError("has more pages than are read")
            status, bundle = await self.get(address)
            yield status, bundle
            address = self._next(bundle)

    def _next(self, bundle: Json) -> str:
        found = next((one.get("url") for one in objects(bundle, "link") if one.get("relation") == "next"), None)
        if not isinstance(found, str):
            return ""
        try:
            url = urljoin(f"{self.base}/", found)
            same = _origin(url) == _origin(self.base)
        except ValueError:
            same = False
        if not same:
            raise OutboundError("links to another server, which is not followed")
        return url

    async def _ask(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        reply = await self.send(method, url, {**ASKED, **headers, **self.authorization}, body)
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
        """Send a request, whose answer counts for what may still be read; OutboundError."""
        reply = await self.peer.send(method, url, headers, body, self.left)
        self.left -= len(reply.body)
        return reply


def objects(resource: Json, element: str) -> list[JsonObject]:
    """Return the objects in a list of a stranger's resource, whatever that is."""
    found = resource.get(element) if isinstance(resource, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)
