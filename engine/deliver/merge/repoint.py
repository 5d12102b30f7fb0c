"""Visits after a merge by links: a server that only links leaves them on the retired record, so they are re-pointed.

Only visits of which a feed of this engine has written are touched; that others were left is noted.
"""

from typing import Final
from urllib.parse import quote

from engine import fault
from engine.deliver.stored import ServerResource
from engine.deliver.wire.exchange import Exchange
from engine.errors import PermanentDeliveryError
from engine.fhir.patient_compartment import held_by

VISIT: Final = "Encounter"
HOLDER: Final = "subject"
MOVED: Final = "visits-repointed"
LEFT: Final = "visits-left-behind"
MOST_VISITS: Final = 50
MOST_ROUNDS: Final = 20
_STALE: Final = frozenset({409, 412})
_REFUSED: Final = frozenset({400, 403, 404, 405, 410, 422})


async def repoint(exchange: Exchange, gone: ServerResource, survivor: ServerResource) -> None:
    """Give the visits of a record that was linked away to its survivor; note `visits-repointed`, `visits-left-behind`.

    At most 1,000 of them; a server without visits is asked nothing.
    """
    if not exchange.server.abilities.keeps(VISIT):
        return
    left: set[str] = set()
    for _ in range(MOST_ROUNDS):
        visits = await _of(exchange, gone)
        if visits is None:
            left.add("")
            break
        tried = [one for one in visits if one.reference not in left]
        for visit in tried:
            if not (await _is_ours(exchange, visit) and await _moved(exchange, visit, gone, survivor)):
                left.add(visit.reference)
        if len(visits) < MOST_VISITS or not tried:
            break
    else:
        left.add("")
    if left:
        exchange.note(LEFT)


async def _of(exchange: Exchange, gone: ServerResource) -> list[ServerResource] | None:
    """Return the first visits of a record; None where the server does not say."""
    try:
        found = await exchange.search(f"patient={quote(gone.reference, safe='')}&_count={MOST_VISITS}", VISIT)
    except PermanentDeliveryError:
        return None
    return [one for one in found if held_by(one.body, HOLDER) == gone.reference]


async def _is_ours(exchange: Exchange, visit: ServerResource) -> bool:
    own = await exchange.owned_slices(visit)
    return bool(own or await exchange.memory.claimed(visit.reference, exchange.source))


async def _moved(exchange: Exchange, visit: ServerResource, gone: ServerResource, survivor: ServerResource) -> bool:
    """Write a visit with its new subject, once more where somebody else was quicker; False where it stays."""
    fault.point("F18")
    for _ in range(2):
        body = {**visit.body, HOLDER: {"reference": survivor.reference}}
        answer = await exchange.write_patient("PUT", visit.reference, body, visit.if_match, _STALE | _REFUSED)
        if answer.status < 300:
            exchange.server.cache_of(VISIT).drop(visit.logical_id)
            exchange.note(MOVED)
            return True
        fresh = await exchange.read_again(visit) if answer.status in _STALE else None
        if fresh is not None and not fresh.same_as(visit):
            raise exchange.interrupt()
        if fresh is None or held_by(fresh.body, HOLDER) != gone.reference:
            return fresh is not None
        visit = fresh
    return False
