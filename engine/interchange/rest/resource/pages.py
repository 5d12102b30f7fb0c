"""Links of a search's pages: its parameters, or for a search by POST only a sealed continuation.

Proxies log addresses, not bodies. The service therefore keeps the parameters of a search by POST while its pages are
followed, and the link to the next page only identifies them.
"""

import zlib
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple

import orjson

from engine.interchange.core.exchange import FhirRequest
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.kernel.seal import Payload, seal, unseal
from engine.interchange.store.continuation import DIGEST_BYTES, Snapshot, find_snapshot, keep_snapshot, kept_until
from engine.interchange.store.search.bundle import address_with, page_pairs
from engine.interchange.store.search.page import FORM, Pairs, ResultPage
from engine.interchange.store.transaction import milliseconds

PAGE: Final = "_page"
LOCATION: Final = f"http.{PAGE}"


class PageRequest(NamedTuple):
    """A request for a page: its parameters, and whether its pages are linked by sealed continuations."""

    query: Pairs
    sealed: bool


def read_page_request(service: Service, request: FhirRequest) -> PageRequest:
    """Return what a search asks for; RefusedError 400 for a changed continuation, 410 for an expired one."""
    given = [value for name, value in request.query if name == PAGE]
    if not given:
        return PageRequest(request.query, request.form)
    if len(given) > 1 or any(name not in {PAGE, *FORM} for name, _ in request.query):
        text = "The link to the next page takes no further parameters; follow it as it was given."
        raise refuse(Category.BAD_VALUE, text, location=LOCATION)
    payload = unseal(service.seal_secret, _bound(request), given[0], milliseconds(service.clock()), LOCATION)
    digest, count, offset, cursor = payload
    tenant = request.principal.tenant
    kept = service.store.read(tenant, lambda transaction: find_snapshot(transaction, bytes.fromhex(str(digest))))
    if kept is None:
        text = "The search that the link belongs to is no longer kept; start it again."
        raise refuse(Category.GONE, text, location=LOCATION)
    pairs: Pairs = tuple((name, value) for name, value in orjson.loads(zlib.decompress(kept.packed)))
    place = (("_cursor", str(cursor)),) if cursor else (("_offset", str(offset)),)
    return PageRequest((*pairs, ("_count", str(count)), *place), sealed=True)


async def links(
    service: Service,
    request: FhirRequest,
    address: str,
    criteria: Pairs,
    pages: tuple[ResultPage, ResultPage | None],
    *,
    sealed: bool,
) -> list[tuple[str, str]]:
    """Return the links to a page, to the one that follows it, None after the last, and to the one before it.

    A walk by cursor leads forward only: a page of it has none before.
    """
    page, following = pages
    found = [("self", address_with(address, page_pairs(criteria, page)))]
    for relation, one in (("previous", _before(page)), ("next", following)):
        if one is not None:
            # The pages of a form have no other address than that of the type.
            pairs = ((PAGE, await _sealed(service, request, criteria, one)),) if sealed else page_pairs(criteria, one)
            found.append((relation, address_with(address, pairs)))
    return found


def _before(page: ResultPage) -> ResultPage | None:
    if page.cursored or not page.offset or not page.count:
        return None
    return replace(page, offset=max(page.offset - page.count, 0))


async def _sealed(service: Service, request: FhirRequest, criteria: Pairs, following: ResultPage) -> str:
    """Keep what a search asks for and return the continuation that leads to its next page."""
    tenant, now_ms = request.principal.tenant, milliseconds(service.clock())
    validity_ms = service.configuration.cursor_validity_s * 1000
    asked = orjson.dumps([*criteria, *following.form])
    snapshot = Snapshot(
        sha256(f"{tenant} {request.type} ".encode() + asked).digest()[:DIGEST_BYTES], zlib.compress(asked)
    )
    until_ms = service.store.read(tenant, lambda transaction: kept_until(transaction, snapshot))
    if until_ms < now_ms + validity_ms:
        # For twice the time of a link, so that following a search seldom writes.
        await service.store.write(tenant, partial(keep_snapshot, snapshot, now_ms, now_ms + 2 * validity_ms))
    place = (snapshot.digest.hex(), following.count, following.offset, following.cursor or "")
    return seal(service.seal_secret, _bound(request), place, now_ms + validity_ms)


def _bound(request: FhirRequest) -> Payload:
    return ("search", request.principal.tenant, request.version, request.type)
