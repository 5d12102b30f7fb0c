"""Writes of one record: revised with If-Match, deleted, and sent as it is to try whether If-Match is honoured."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from engine.deliver.stored import Body, ServerResource
from engine.deliver.wire.exchange import GONE, Exchange
from engine.errors import HeldDeliveryError

MOST_ROUNDS: Final = 4
CASCADE: Final = "_cascade=delete"
NEVER_A_VERSION: Final = 'W/"0"'
# Not understood, forbidden, not there, not allowed, still referred to, changed meanwhile, gone, refused by a rule.
NOT_DELETED: Final = frozenset({400, 403, 404, 405, 409, 410, 412, 422})
_STALE: Final = frozenset({409, 412})
_REFUSED: Final = frozenset({400, 422})
_UNSURE: Final = _REFUSED | {428}


async def revise(
    exchange: Exchange, patient: ServerResource, change: Callable[[Body], Body], *, tolerant: bool = False
) -> ServerResource | None:
    """Write a record as `change` makes it; nothing is written where that is what it is already.

    Returns the record as it is now. A refusal raises HeldDeliveryError, or returns None where `tolerant`.
    """
    for _ in range(MOST_ROUNDS):
        body = change(patient.body)
        if body == patient.body:
            return patient
        answer = await exchange.write_patient("PUT", patient.reference, body, patient.if_match, _STALE | _REFUSED)
        if answer.status < 300:
            exchange.server.cache.drop(patient.logical_id)
            return exchange.patient_of(answer)
        codes = exchange.attempts[-1].codes
        if answer.status in _REFUSED or "duplicate" in codes:
            if tolerant:
                return None
            raise HeldDeliveryError(f"http-{answer.status}", status=answer.status, codes=codes)
        fresh = await exchange.read_again(patient)
        if fresh is None:
            raise HeldDeliveryError("deleted-at-server")
        if not fresh.same_as(patient):
            raise exchange.interrupt()
        patient = fresh
    raise HeldDeliveryError("version-conflict")


async def delete(exchange: Exchange, found: ServerResource, *, cascade: bool = False) -> bool:
    """Delete a resource; False, noted `delete-refused`, where the server does not do it, or has another one by now.

    What is only remembered is read first.

    `cascade`: a patient goes with all that the server has of the chart, where it says that it takes that.
    """
    if not found.fresh:
        now = await exchange.read_again(found)
        if now is None or not now.same_as(found):
            return now is None
        found = now
    path = f"{found.reference}?{CASCADE}" if cascade and exchange.server.abilities.cascade else found.reference
    answer = await exchange.write("DELETE", path, b"", found.if_match, NOT_DELETED)
    exchange.server.cache_of(found.type_).drop(found.logical_id)
    if answer.status >= 300 and answer.status not in GONE:
        exchange.note("delete-refused")
        return False
    return True


async def prove(exchange: Exchange, patient: ServerResource) -> bool:
    """Try once whether the server refuses a stale version, and keep what came of it in its abilities.

    A server that does not refuse has written what was there already. Returns whether the record is as it was read;
    it has to be read again where not.
    """
    server = exchange.server
    server.proving = True
    headers = (("If-Match", NEVER_A_VERSION),)
    try:
        answer = await exchange.write_patient("PUT", patient.reference, patient.body, headers, _STALE | _UNSURE)
    finally:
        server.proving = False
    if answer.status in _UNSURE:
        server.abilities = replace(server.abilities, provable=False)
    else:
        honoured = answer.status in _STALE
        server.prove(honoured)
        exchange.note("if-match-proven" if honoured else "if-match-ignored")
    return answer.status >= 300
