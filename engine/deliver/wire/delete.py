"""Deleting a resource where a channel says so; a server that does not allow it is told by status instead."""

from typing import Final

from engine.deliver.stored import PATIENT, Stored
from engine.deliver.wire.exchange import GONE, Exchange

# Not understood, forbidden, not there, not allowed, still referred to, changed meanwhile, gone, refused by a rule.
REFUSED: Final = frozenset({400, 403, 404, 405, 409, 410, 412, 422})


async def delete(exchange: Exchange, found: Stored) -> bool:
    """Delete a resource; False, noted `delete-refused`, where the server does not do it."""
    headers = (("If-Match", found.tag),) if found.tag and found.fresh else ()
    answer = await exchange.write("DELETE", found.reference, b"", headers, REFUSED)
    cache = exchange.server.cache if found.type_ == PATIENT else exchange.server.cache_of(found.type_)
    cache.drop(found.logical_id)
    if answer.status >= 300 and answer.status not in GONE:
        exchange.note("delete-refused")
        return False
    return True
