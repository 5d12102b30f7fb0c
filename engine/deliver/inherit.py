"""What a source owns of a survivor that a merge has made: what the PID said, and what came from the merged record."""

from engine.deliver.exchange import Exchange
from engine.deliver.stored import Stored
from engine.deliver.verdict import Owned
from engine.fhir.changes import apply
from engine.fhir.plan import Merge


async def inherit(exchange: Exchange, interaction: Merge, source: Stored, survivor: Stored) -> None:
    """Pass on what this feed owned of the source, for the elements that the new survivor has taken over."""
    said = {change.slice for change in interaction.survivor.changes if change.items}
    elements = {change.element for change in interaction.survivor.changes if change.items}
    slices = dict(await exchange.owned_slices(source))
    taken = {name: marks for name, marks in slices.items() if name not in said and name not in elements}
    own = await exchange.owned_slices(survivor)
    exchange.owned[survivor.reference] = Owned(survivor.reference, exchange.source, {**taken, **own})
    exchange.server.cache.drop(survivor.logical_id)


async def adopt(exchange: Exchange, interaction: Merge, source: Stored | None, survivor: Stored) -> None:
    """Own what an earlier try of this delivery made of the survivor and did not live to journal.

    Nothing is owned where the record is journaled as ours in part already, or says anything else than the PID.
    """
    if not exchange.tried or await exchange.owned_slices(survivor):
        return
    made = apply(survivor.body, (change for change in interaction.survivor.changes if change.items), {})
    if made.changed or not made.owned:
        return
    exchange.owned[survivor.reference] = Owned(survivor.reference, exchange.source, made.owned)
    if source is not None:
        await inherit(exchange, interaction, source, survivor)
