"""Revising one record by a rule of ours, with If-Match, as often as somebody else is quicker, within bounds."""

from collections.abc import Callable
from typing import Final

from engine.deliver.stored import Body, Stored
from engine.deliver.wire.exchange import Exchange
from engine.errors import HeldDeliveryError

MOST_ROUNDS: Final = 4
_STALE: Final = frozenset({409, 412})
_REFUSED: Final = frozenset({400, 422})


async def revise(
    exchange: Exchange, patient: Stored, change: Callable[[Body], Body], *, tolerant: bool = False
) -> Stored | None:
    """Write a record as `change` makes it; nothing is written where that is what it is already.

    Returns the record as it now stands. A refusal raises HeldDeliveryError, or returns None where `tolerant`.
    """
    for _ in range(MOST_ROUNDS):
        body = change(patient.body)
        if body == patient.body:
            return patient
        headers = (("If-Match", patient.tag),) if patient.tag else ()
        answer = await exchange.write_patient("PUT", patient.reference, body, headers, _STALE | _REFUSED)
        exchange.server.cache.drop(patient.logical_id)
        if answer.status < 300:
            return exchange.patient_of(answer)
        codes = exchange.attempts[-1].codes
        if answer.status in _REFUSED or "duplicate" in codes:
            if tolerant:
                return None
            raise HeldDeliveryError(f"http-{answer.status}", status=answer.status, codes=codes)
        fresh = await exchange.read(patient.logical_id)
        if fresh is None:
            raise HeldDeliveryError("deleted-at-server")
        patient = fresh
    raise HeldDeliveryError("version-conflict")
