"""Saying where things come from: the Provenance of what a message wrote, made once and never overwritten."""

from typing import Final

from engine.deliver.resources.resource_upsert import distrust, refer
from engine.deliver.stored import Body
from engine.deliver.wire.exchange import GONE, Exchange
from engine.fhir.changes import created
from engine.fhir.plan import Attest
from engine.fhir.references import resolved

THERE: Final = 412
REFUSED: Final = frozenset({400, 403, 404, 405, 409, 410, THERE, 422})
ROUNDS: Final = 2


async def attest(exchange: Exchange, interaction: Attest, *, remembered: bool = True) -> str:
    """Carry out an Attest and return how it ended: `created`, or `unchanged` where nothing was written or it is there.

    A further try of a delivery names all that the plan keeps, for an earlier one may have written it. A server that
    refuses it leaves it at the note `provenance-refused`.
    """
    targets = _targets(exchange)
    if not targets:
        return "unchanged"
    record = interaction.record
    if exchange.tried or not remembered:
        answer = await exchange.look(interaction.id, record.type)
        if answer.status not in GONE:
            return "unchanged"
    await refer(exchange, record.changes, remembered=remembered)
    path = f"{record.type}/{interaction.id}"
    for _ in range(ROUNDS):
        body = _body(exchange, interaction, targets)
        answer = await exchange.write_patient("PUT", path, body, (("If-None-Match", "*"),), REFUSED)
        if answer.status < 300:
            return "created"
        if answer.status == THERE or not exchange.trusted:
            break
        await distrust(exchange, record.changes)
    if answer.status != THERE:
        exchange.note("provenance-refused")
    return "unchanged"


def _targets(exchange: Exchange) -> tuple[str, ...]:
    written = exchange.written()
    if not exchange.again:
        return written
    unwritten = exchange.waiting.keys() | exchange.pointed
    kept = (reference for name, reference in exchange.references.items() if name not in unwritten)
    return tuple(dict.fromkeys((*written, *kept)))


def _body(exchange: Exchange, interaction: Attest, targets: tuple[str, ...]) -> Body:
    record = interaction.record
    elements = created(resolved(record.changes, exchange.references)).body
    return {
        "resourceType": record.type,
        "id": interaction.id,
        interaction.target: [{"reference": one} for one in targets],
        **elements,
    }
