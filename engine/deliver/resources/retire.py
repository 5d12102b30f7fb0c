"""Taking back what a source listed before and lists no more: by status, or deleted where channel and server allow it.

The journal remembers by source what was listed within a patient or a visit (`Patient/1 AllergyIntolerance AL1`);
nothing else is ever taken back by a list that is shorter than before, of any author and under any identifier.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from engine.deliver.resources.found import found_by, owner_of
from engine.deliver.resources.resource_upsert import upsert_resource
from engine.deliver.verdict import Owned
from engine.deliver.wire.creating import NOT_WRITTEN, only_creates
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.revise import delete
from engine.fhir.plan import Identity, Keep, ResourceRecord, Retire

ABSENT: Final = "nothing-to-retire"
BAR: Final = "|"

Roster = Mapping[str, tuple[str, ...]]


async def retire(exchange: Exchange, interaction: Retire, at: datetime | None, *, remembered: bool = True) -> str:
    """Carry out a Retire and return how it ended: `updated`, or `unchanged` where there is nothing to take back.

    `not-written` where it is left, as only creates are; then it stays listed.

    `at` and `remembered` are as of `upsert_resource`. Raises HeldDeliveryError and the errors of a delivery.
    """
    whose = exchange.references.get(interaction.within)
    if whose is None:
        return ABSENT
    place = f"{interaction.group or whose} {interaction.type} {interaction.segment}"
    kept = await _roster(exchange, place)
    before = {} if whose in exchange.made else kept  # a roster of an id that was just given is another one's
    listed = {_text(identity): mark for identity, mark in zip(interaction.listed, interaction.marks, strict=True)}
    renamed = _renamed(listed, before)
    exchange.formerly |= {_identity(new): _identity(old) for new, old in renamed.items()}
    deleted = _deleted_of(interaction, before)
    former = set(renamed.values())
    missing = [text for text in before if text not in listed and text not in former]
    gone = {text: _identity(text) for text in missing} if interaction.complete else {}
    if interaction.shortened:
        still = set(interaction.marks)
        gone |= {text: _identity(text) for text in missing if not still.isdisjoint(before[text])}
    gone |= deleted
    endings = {
        text: await _take_back(exchange, interaction, identity, at, remembered) for text, identity in gone.items()
    }
    done = {text for text, ending in endings.items() if ending != NOT_WRITTEN}
    left = {text: marks for text, marks in before.items() if text not in done and text not in former}
    left |= {text: (mark,) for text, mark in listed.items()}
    if left != dict(kept):
        exchange.owned[place] = Owned(place, exchange.source, left)
    if "updated" not in endings.values():
        return "unchanged" if done == gone.keys() else NOT_WRITTEN
    exchange.note("retired")
    return "updated"


def _renamed(listed: Mapping[str, str], before: Roster) -> dict[str, str]:
    """Return what is listed under a new number, and under which it was before: the same thing, by its mark."""
    marked = {mark: text for text, marks in before.items() if text not in listed for mark in marks}
    return {text: marked[mark] for text, mark in listed.items() if text not in before and mark in marked}


def _deleted_of(interaction: Retire, before: Roster) -> dict[str, Identity]:
    """Return what is deleted by an action code, under the identity by which it was listed."""
    marks = {_text(one): mark for one, mark in zip(interaction.deleted, interaction.deleted_marks, strict=True)}
    named = {text: text for text in marks} | _renamed(marks, before)
    return {text: _identity(text) for text in named.values()}


async def _take_back(
    exchange: Exchange, interaction: Retire, identity: Identity, at: datetime | None, remembered: bool
) -> str:
    record = ResourceRecord(
        interaction.type,
        f"{interaction.segment} {_text(identity)}",
        (identity,),
        (),
        interaction.changes,
        interaction.holder,
        interaction.patient,
    )
    step = Keep(record, create=False, clears=interaction.clears, absent=ABSENT)
    deletes = exchange.channel.retire == "delete" and not only_creates(exchange)
    if deletes and await _deleted(exchange, step, remembered):
        return "updated"
    return await upsert_resource(exchange, step, at, remembered=remembered)


async def _deleted(exchange: Exchange, step: Keep, remembered: bool) -> bool:
    """Delete a resource; False where the server does not allow that, so that its status has to tell it."""
    found = await found_by(exchange, step, remembered=remembered)
    if found is None:
        return False
    if step.record.holder:
        await owner_of(exchange, step, found)
    return await delete(exchange, found)


async def _roster(exchange: Exchange, place: str) -> Roster:
    held = exchange.owned.get(place)
    return held.slices if held is not None else await exchange.memory.owned(place, exchange.source)


def _text(identity: Identity) -> str:
    return f"{identity.system}{BAR}{identity.value}"


def _identity(text: str) -> Identity:
    system, _, value = text.rpartition(BAR)
    return Identity(system, value)
