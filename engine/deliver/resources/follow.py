"""The visits of an account, when it is merged into another one or goes to another patient: they go with it."""

from typing import Any, Final
from urllib.parse import quote

from engine.deliver.resources.found import found_by, standing
from engine.deliver.stored import Body, ServerResource
from engine.deliver.verdict import Owned
from engine.deliver.wire.creating import leave, only_creates
from engine.deliver.wire.exchange import Exchange
from engine.errors import HeldDeliveryError
from engine.fhir.changes import NOT_SHOWN_TO_BE_OURS
from engine.fhir.json import digest
from engine.fhir.plan import Follow, Keep

VISIT: Final = "Encounter"
HOLDER: Final = "subject"
MOST_ROUNDS: Final = 4
MOST_VISITS: Final = 50
_STALE: Final = frozenset({409, 412})


async def follow(exchange: Exchange, interaction: Follow) -> str:
    """Carry out a Follow and return how it ended: `updated`, or `unchanged` where no visit has to go anywhere.

    Raises HeldDeliveryError `too-many-visits` where the patient has more than one answer shows, and
    `version-conflict`.
    """
    account = exchange.references.get(interaction.record.local)
    whose = exchange.references.get(interaction.moved_from or interaction.record.patient)
    former = await _former(exchange, interaction)
    if account is None or whose is None or former is None or (interaction.gone and former == account):
        return "unchanged"
    found = await exchange.search(f"patient={quote(whose, safe='')}&_count={MOST_VISITS}", VISIT)
    if len(found) >= MOST_VISITS or exchange.more:
        raise HeldDeliveryError("too-many-visits")
    visits = [one for one in found if standing(one) and former in _references(one.body, interaction.element)]
    if visits and only_creates(exchange):
        return leave(exchange, VISIT)
    for visit in visits:
        await _revise(exchange, interaction, visit, former, account)
    return "updated" if visits else "unchanged"


async def _former(exchange: Exchange, interaction: Follow) -> str | None:
    """Return the account that the visits refer to until now; None where nobody has it."""
    if interaction.gone is None:
        return exchange.references.get(interaction.record.local)
    found = await found_by(exchange, Keep(interaction.gone, create=False), remembered=False)
    return found.reference if found else None


async def _revise(exchange: Exchange, interaction: Follow, visit: ServerResource, former: str, account: str) -> None:
    for _ in range(MOST_ROUNDS):
        slices = dict(await exchange.owned_slices(visit))
        body = _moved(exchange, interaction, visit.body, slices, former, account)
        if body == visit.body:
            return
        answer = await exchange.write_patient("PUT", visit.reference, body, visit.if_match, _STALE)
        if answer.status < 300:
            exchange.server.cache_of(VISIT).drop(visit.logical_id)
            exchange.owned[visit.reference] = Owned(visit.reference, exchange.source, slices)
            return
        fresh = await exchange.read_again(visit)
        if fresh is None:
            return
        if not fresh.same_as(visit):
            raise exchange.interrupt()
        visit = fresh
    raise HeldDeliveryError("version-conflict")


def _moved(
    exchange: Exchange, interaction: Follow, body: Body, slices: dict[str, Any], former: str, account: str
) -> Body:
    """Return a visit as it is to be; `slices`, what this source owns of it, follow."""
    if interaction.gone is None:
        return {**body, HOLDER: {"reference": exchange.references[interaction.record.patient]}}
    name, slice_ = interaction.element, interaction.record.type
    mine = slices.get(slice_, ())
    items = []
    for item in body.get(name) or ():
        ours = item.get("reference") == former and digest(item) in mine
        if item.get("reference") == former and not ours:
            exchange.note(NOT_SHOWN_TO_BE_OURS)
        items.append({"reference": account} if ours else item)
    once = [item for at, item in enumerate(items) if item not in items[:at]]
    if once == body.get(name):
        return body
    slices[slice_] = (digest({"reference": account}),)
    return {**body, name: once}


def _references(body: Body, name: str) -> list[str]:
    return [str(item.get("reference")) for item in body.get(name) or () if isinstance(item, dict)]
