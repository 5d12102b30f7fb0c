"""What a source owns of a record that a merge, a link or a change of number has made, and of what it took over."""

from engine.deliver.stored import Stored
from engine.deliver.verdict import Owned
from engine.deliver.wire.exchange import Exchange
from engine.fhir.changes import apply
from engine.fhir.plan import Merge, PatientRecord


async def inherit(exchange: Exchange, interaction: Merge, source: Stored, survivor: Stored) -> None:
    """Pass on what this feed owned of the source, for the elements that the new survivor has taken over."""
    said = {change.slice for change in interaction.survivor.changes if change.items}
    elements = {change.element for change in interaction.survivor.changes if change.items}
    slices = dict(await exchange.owned_slices(source))
    taken = {name: marks for name, marks in slices.items() if name not in said and name not in elements}
    own = await exchange.owned_slices(survivor)
    exchange.owned[survivor.reference] = Owned(survivor.reference, exchange.source, {**taken, **own})
    exchange.server.cache.drop(survivor.logical_id)


async def adopt(exchange: Exchange, record: PatientRecord, patient: Stored) -> bool:
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
