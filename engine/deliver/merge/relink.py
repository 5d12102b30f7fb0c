"""Links after a merge: whom the merged record was linked with (`seealso`), the survivor is from then on, both ways.

A server's `$merge` may re-point what referred to the source, and never gives the survivor the source's own links. The
merged record keeps its links: they are its history.
"""

from typing import Any

from engine import fault
from engine.deliver.patient.absorbed import head_of
from engine.deliver.stored import Body, ServerResource
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.revise import revise
from engine.fhir.patient import links, parted, seen_also

SEE_ALSO = "seealso"


async def relink(exchange: Exchange, gone: ServerResource, survivor: ServerResource) -> None:
    """Let the links of a record that was merged away be its survivor's; nothing is written where they are.

    The two themselves are one record now, and no longer linked. A record that says nothing of the one that is gone is
    left as it is.
    """
    named = [one for one in links(gone.body, SEE_ALSO) if one != survivor.logical_id]
    if not named and gone.logical_id not in links(survivor.body, SEE_ALSO):
        return
    others = [other for one in named if (other := await _head(exchange, one, survivor)) is not None]
    fresh = await exchange.read(survivor.logical_id)
    if fresh is not None:
        heads = tuple(other.logical_id for other in others)
        await revise(exchange, fresh, lambda body: _linked(parted(body, gone.logical_id), *heads))
    for other in others:
        fault.point("F18")
        await revise(exchange, other, lambda body: _pointed(body, gone.logical_id, survivor.logical_id))


async def _head(exchange: Exchange, logical_id: str, survivor: ServerResource) -> ServerResource | None:
    """Return the record that a link leads to by now; None where it is gone, or is the survivor."""
    record = await exchange.read(logical_id)
    head = await head_of(exchange, record) if record is not None else None
    return None if head is None or head.logical_id == survivor.logical_id else head


def _linked(body: Body, *others: str) -> Body:
    for other in others:
        body = seen_also(body, other)
    return body


def _pointed(body: Body, gone: str, survivor: str) -> Body:
    """Return a record whose links to the one that is gone lead to its survivor, each link once."""
    found = links(body, SEE_ALSO)
    if gone in found:
        body = seen_also(parted(body, gone), survivor)
    elif found.count(survivor) < 2:
        return body
    kept: list[Any] = []
    for link in body.get("link") or ():
        if link not in kept:
            kept.append(link)
    return body | {"link": kept}
