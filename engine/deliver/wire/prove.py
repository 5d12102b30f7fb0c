"""Proving that a server honours If-Match: a record sent as it is, with a version that it never had."""

from dataclasses import replace
from typing import Final

from engine.deliver.stored import Stored
from engine.deliver.wire.exchange import Exchange
from engine.errors import DeliveryError

NEVER_A_VERSION: Final = 'W/"0"'
_REFUSED: Final = frozenset({409, 412})
_UNSURE: Final = frozenset({400, 422, 428})


async def prove(exchange: Exchange, patient: Stored) -> bool:
    """Try once whether the server refuses a stale version, and keep what came of it in its abilities.

    A server that does not refuse has written what was there already. Returns whether the record is as it was read;
    it has to be read again where not.
    """
    server = exchange.server
    abilities = server.abilities
    server.abilities = replace(abilities, provable=False)  # not tried twice while the answer is on its way
    headers = (("If-Match", NEVER_A_VERSION),)
    try:
        answer = await exchange.write_patient("PUT", patient.reference, patient.body, headers, _REFUSED | _UNSURE)
    except DeliveryError:
        server.abilities = abilities
        raise
    if answer.status not in _UNSURE:
        honoured = answer.status in _REFUSED
        server.prove(honoured)
        exchange.note("if-match-proven" if honoured else "if-match-ignored")
    return answer.status >= 300
