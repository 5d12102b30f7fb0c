"""What a source owns of a record: applied next to others' values, passed on by a merge, adopted after a lost answer."""

from collections.abc import Iterable

from engine.deliver.stored import ServerResource
from engine.deliver.verdict import Owned
from engine.deliver.wire.exchange import Exchange
from engine.fhir.changes import ChangedResource, apply
from engine.fhir.plan import ElementChange, Merge, PatientRecord


async def applied(
    exchange: Exchange,
    found: ServerResource,
    changes: Iterable[ElementChange],
    *,
    fill: bool = False,
    required: frozenset[str] = frozenset(),
) -> ChangedResource:
    """Return a stored resource after the changes of the plan's source; `fill` and `required` as of `apply`.

    An item that this source says no more stays as long as another one says it. The others are asked about only where
    something is to go.
    """
    changes, mine = tuple(changes), await exchange.owned_slices(found)
    result = apply(found.body, changes, mine, fill=fill, required=required, marks=found.marks)
    if not result.dropped or found.reference in exchange.made:
        return result
    claimed = await exchange.memory.claimed(found.reference, exchange.source)
    if claimed.isdisjoint(result.dropped):
        return result
    return apply(found.body, changes, mine, fill=fill, required=required, claimed=claimed, marks=found.marks)


async def inherit(exchange: Exchange, interaction: Merge, source: ServerResource, survivor: ServerResource) -> None:
    """Pass on what this feed owned of the source, for the elements that the new survivor has taken over."""
    stated = {change.slice for change in interaction.survivor.changes if change.items}
    elements = {change.element for change in interaction.survivor.changes if change.items}
    slices = dict(await exchange.owned_slices(source))
    taken = {name: marks for name, marks in slices.items() if name not in stated and name not in elements}
    own = await exchange.owned_slices(survivor)
    exchange.owned[survivor.reference] = Owned(survivor.reference, exchange.source, {**taken, **own})
    exchange.server.cache.drop(survivor.logical_id)


async def adopt(exchange: Exchange, record: PatientRecord, patient: ServerResource) -> bool:
    """Own a record that an earlier try of this delivery made and did not live to journal, and say whether it is such.

    Nothing is owned where the record is journaled as ours in part already, or says anything else than the PID.
    """
    if not exchange.tried or await exchange.owned_slices(patient):
        return False
    made = apply(patient.body, (change for change in record.changes if change.items), {})
    if made.changed or not made.owned:
        return False
    exchange.owned[patient.reference] = Owned(patient.reference, exchange.source, made.owned)
    return True
