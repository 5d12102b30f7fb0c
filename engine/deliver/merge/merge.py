"""Patient merge, step by step, from two identifiers to one record, or to a refusal.

A merge cannot be undone, so both sides are read from the server each time, and nothing is sent before it is certain
that the merge has not been carried out already.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from engine import fault
from engine.deliver.merge.rename import renumbered
from engine.deliver.merge.union import by_links, relink, repoint, unite
from engine.deliver.patient.absorbed import head_of, replaced_with
from engine.deliver.patient.create import How, create, resource_of
from engine.deliver.patient.ownership import adopt, inherit
from engine.deliver.patient.resolve import Resolution, check_found, check_person, merged_elsewhere, out_of_use, resolve
from engine.deliver.stored import Body, ServerResource, involved
from engine.deliver.verdict import MERGED_AWAY, Inherited, KnownIdentifier, Merged
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.revise import revise
from engine.errors import HeldDeliveryError, InvolvedRecord, RejectedDeliveryError
from engine.fhir.changes import OTHER_CHOICE, created, grow
from engine.fhir.patient import another_person, carries, died, number_of, person, replaced_by
from engine.fhir.plan import Merge

DEATH: Final = "death-on-merged-record"
DECEASED: Final = frozenset({"deceasedBoolean", "deceasedDateTime"})
# Elements that a survivor never takes over: the server's own, and what tells one record from another.
NEVER_CARRIED: Final = frozenset({"resourceType", "id", "meta", "text", "identifier", "link", "active", "contained"})


@dataclass(frozen=True, slots=True)
class MergeRecords:
    """Both records of a merge, both read just now."""

    source: ServerResource
    survivor: ServerResource

    def named(self, source: str = "to be merged", survivor: str = "named survivor") -> tuple[InvolvedRecord, ...]:
        """Return both as a hold names them."""
        return involved(source, self.source), involved(survivor, self.survivor)


async def merge(exchange: Exchange, interaction: Merge) -> str:
    """Carry out a merge and return how it ended.

    `merged`, `linked`, `already-merged`, `source-absent`, `renamed`, `nothing-to-merge` or `notify-only`. Raises
    RejectedDeliveryError (`self-merge`, `unknown-source`) and HeldDeliveryError: `merge-cycle`, `merge-conflict`,
    `death-on-merged-record`, `merge-lists-several`, `source-merged-elsewhere`, `survivor-inactive`, `unknown-source`,
    `unknown-survivor`, and those of resolving.
    """
    exchange.server.cache.forget((*interaction.sources, *interaction.survivor.identities))
    target = await resolve(exchange, interaction.survivor.identities, remembered=False)
    source = await _merged_side(exchange, interaction)
    if target is not None:
        merged = None if source is None else source.tombstone or source.patient
        if await adopt(exchange, interaction.survivor, target.patient) and merged is not None:
            await inherit(exchange, interaction, merged, target.patient)
    if source is None:
        return await _without_source(exchange, interaction, target)
    if target is None:
        return await _without_survivor(exchange, interaction, source)
    return await _both_known(exchange, interaction, source, target)


async def _both_known(exchange: Exchange, interaction: Merge, source: Resolution, target: Resolution) -> str:
    if source.patient.logical_id == target.patient.logical_id:
        return await _one_record(exchange, interaction, source, target)
    if _retired(interaction, source):
        raise merged_elsewhere(source.patient, source.tombstone, target.patient)
    check_found(exchange, interaction.survivor, target)
    return await _two_records(exchange, interaction, MergeRecords(source.patient, target.patient))


async def _merged_side(exchange: Exchange, interaction: Merge) -> Resolution | None:
    """Return the record that MRG names; held by a reason of its own where its list names several patients."""
    try:
        return await resolve(exchange, interaction.sources, remembered=False)
    except HeldDeliveryError as error:
        if error.reason != "identity-conflict":
            raise
        raise HeldDeliveryError("merge-lists-several", involved=error.involved) from error


async def _one_record(exchange: Exchange, interaction: Merge, source: Resolution, target: Resolution) -> str:
    """Tell a merge that is done, a rename that is done, a cycle and a self-merge from one another."""
    patient = source.patient
    how = carries(patient.body, interaction.source)
    if how == "current":
        if target.redirected or carries(patient.body, interaction.target) == "old":
            gone = () if target.tombstone is None else (involved("merged away", target.tombstone),)
            raise HeldDeliveryError("merge-cycle", involved=(*gone, involved("survived an earlier merge", patient)))
        raise RejectedDeliveryError("self-merge", involved=(involved("has both numbers already", patient),))
    if how == "old" or source.redirected or await replaced_with(exchange, patient, (interaction.source,)):
        if source.tombstone is not None and not await exchange.memory.merged(interaction.source, interaction.target):
            await relink(exchange, source.tombstone, patient)
            if by_links(exchange):
                await repoint(exchange, source.tombstone, patient)
        patient = await _bearing(exchange, interaction, patient)
        _remember(exchange, interaction, source.tombstone, patient)
        return "already-merged"
    raise HeldDeliveryError("identity-unproven", involved=(involved("was answered for both numbers", patient),))


async def _without_source(exchange: Exchange, interaction: Merge, target: Resolution | None) -> str:
    policy = exchange.channel.unknown_source
    whose = () if target is None else (involved("named survivor", target.patient),)
    if policy == "hold":
        raise HeldDeliveryError("unknown-source", involved=whose)
    if policy == "reject":
        raise RejectedDeliveryError("unknown-source", involved=whose)
    if target is None:
        return await _neither(exchange, interaction)
    check_found(exchange, interaction.survivor, target)
    await _keep_old(exchange, interaction, target.patient)
    return "source-absent"


async def _neither(exchange: Exchange, interaction: Merge) -> str:
    """Create the survivor where the PID is enough for a record, with the old number retired on it."""
    who = person(created(interaction.survivor.changes).body)
    if exchange.channel.unknown_survivor == "hold":
        raise HeldDeliveryError("unknown-survivor")
    if not (who.family and who.given and who.birth_date):
        return "nothing-to-merge"
    creation = await create(exchange, interaction.survivor)
    if creation.patient is None:
        raise HeldDeliveryError("duplicate-identifier", status=409)
    fault.point("F18")
    await _keep_old(exchange, interaction, creation.patient, interaction.survivor.identifiers)
    return "source-absent"


async def _keep_old(
    exchange: Exchange, interaction: Merge, survivor: ServerResource, current: tuple[Body, ...] = ()
) -> None:
    """Let the survivor bear all of MRG's numbers, as no record has them; `current` as of `_with_old`."""
    if await _with_old(exchange, survivor, interaction.source_identifiers, current) is None:
        return
    for identity in interaction.sources:
        exchange.known[identity] = KnownIdentifier(identity, survivor.logical_id, "old")


async def _with_old(
    exchange: Exchange, survivor: ServerResource, numbers: Iterable[Body], current: tuple[Body, ...] = ()
) -> ServerResource | None:
    """Keep merged numbers on the survivor with `use` old; None, and a note, where the server refuses.

    `current`: numbers that a survivor which a create has matched is to carry, too.
    """
    retired = [item | {"use": "old"} for item in numbers]

    def change(body: Body) -> Body:
        kept = body.get("identifier") or []
        grown = kept if replaced_by(body) else grow(kept, (*current, *retired))
        return body if grown is kept else body | {"identifier": grown}

    revised = await revise(exchange, survivor, change, tolerant=True)
    if revised is None:
        exchange.note("old-number-not-kept")
    return revised


async def _bearing(exchange: Exchange, interaction: Merge, survivor: ServerResource) -> ServerResource:
    """Return the survivor of a merge that is done, which bears the merged numbers as that of an absent record does.

    Those by which the merged side is known: others, such as a social security number, no merge takes out of use.
    It is read anew, as the merge has written it; one that is another's by now, or gone, begins the delivery anew.
    """
    numbers = [item for item in interaction.source_identifiers if number_of(item) in interaction.sources]
    if all(carries(survivor.body, number_of(item)) for item in numbers):
        return survivor
    fresh = await exchange.read(survivor.logical_id)
    if fresh is None or not fresh.same_as(survivor):
        raise exchange.interrupt()
    fault.point("F18")
    return await _with_old(exchange, fresh, numbers) or fresh


async def _without_survivor(exchange: Exchange, interaction: Merge, source: Resolution) -> str:
    policy = exchange.channel.unknown_survivor
    if _retired(interaction, source):
        raise merged_elsewhere(source.patient, source.tombstone, None)
    if policy == "hold":
        raise HeldDeliveryError("unknown-survivor", involved=(involved("to be merged", source.patient),))
    inherited = {name: value for name, value in source.patient.body.items() if name not in NEVER_CARRIED}
    if policy == "rename" or _too_thin(exchange, interaction):
        return await _rename(exchange, interaction, source.patient)
    creation = await create(exchange, interaction.survivor, base=inherited)
    if creation.how is How.FOUND and creation.patient is not None:
        return await _both_known(exchange, interaction, source, Resolution(creation.patient))
    if creation.patient is None:
        raise HeldDeliveryError("duplicate-identifier", status=409)
    await inherit(exchange, interaction, source.patient, creation.patient)
    fault.point("F18")
    return await _two_records(exchange, interaction, MergeRecords(source.patient, creation.patient))


def _too_thin(exchange: Exchange, interaction: Merge) -> bool:
    try:
        resource_of(exchange, interaction.survivor)
    except HeldDeliveryError:
        return True
    return False


async def _rename(exchange: Exchange, interaction: Merge, source: ServerResource) -> str:
    """Change the source's identifier to the survivor's, as an A47 does (IHE ITI-30)."""
    retired = [
        item | {"use": "old"} for item in interaction.source_identifiers if number_of(item) == interaction.source
    ]
    hold = exchange.channel.another_person == "hold"
    check_person(exchange, interaction.survivor, source, "overlay-suspected", hold)

    def change(body: Body) -> Body:
        return renumbered(body, retired, interaction.survivor.identifiers)

    await revise(exchange, source, change)
    exchange.known[interaction.source] = KnownIdentifier(interaction.source, source.logical_id, "old")
    for identity in interaction.survivor.identities:
        exchange.known[identity] = KnownIdentifier(identity, source.logical_id)
    return "renamed"


async def _two_records(exchange: Exchange, interaction: Merge, sides: MergeRecords) -> str:
    if another_person(person(sides.source.body), person(sides.survivor.body)):
        if exchange.channel.merge_conflict == "hold":
            exchange.hold("merge-conflict", involved=sides.named())
        exchange.note("merge-conflict")
    if exchange.server.settings.merge_strategy == "notify-only":
        return "notify-only"
    if sides.survivor.body.get("active") is False:
        raise HeldDeliveryError("survivor-inactive", involved=sides.named(survivor="inactive survivor"))
    _check_death(exchange, sides)
    survivor = await _carry_over(exchange, sides)
    ending = await unite(exchange, sides.source, survivor)
    await relink(exchange, sides.source, survivor)
    survivor = await _bearing(exchange, interaction, survivor)
    _remember(exchange, interaction, sides.source, survivor)
    return ending


async def _carry_over(exchange: Exchange, sides: MergeRecords) -> ServerResource:
    """Give the survivor first what the destination's `carry_over` names and it lacks."""
    if not _carried(exchange):
        return sides.survivor
    survivor = await revise(exchange, sides.survivor, lambda body: _with_carried(exchange, body, sides.source.body))
    fault.point("F18")
    return replace(survivor) if survivor is not None else await head_of(exchange, sides.survivor)


def _carried(exchange: Exchange) -> list[str]:
    return [name for name in exchange.server.settings.carry_over if name not in NEVER_CARRIED]


def _with_carried(exchange: Exchange, body: Body, source: Body) -> Body:
    for name in _carried(exchange):
        body = _given(body, name, source[name]) if name in source else body
    return body


def _check_death(exchange: Exchange, sides: MergeRecords) -> None:
    """Name a death that only the merged record tells of; hold the merge where `carry_over` says nothing of it."""
    source = sides.source.body
    if not died(source) or died(sides.survivor.body):
        return
    if not any(name in source for name in _carried(exchange) if name in DECEASED):
        exchange.hold(DEATH, involved=sides.named("says that the patient died"))
    exchange.note(DEATH)


def _given(body: Body, name: str, offered: object) -> Body:
    """Return a record with an element of another one; its value of the other choice type stays, unless `true`."""
    other = OTHER_CHOICE.get(name, "")
    if body.get(other, True) is not True:
        return body
    return {key: value for key, value in body.items() if key != other} | {name: _joined(body.get(name), offered)}


def _joined(kept: object, offered: object) -> object:
    if isinstance(offered, list) and isinstance(kept, list):
        return [*kept, *(item for item in offered if item not in kept)]
    return offered if kept is None else kept


def _remember(
    exchange: Exchange, interaction: Merge, tombstone: ServerResource | None, survivor: ServerResource
) -> None:
    exchange.server.cache.forget((*interaction.sources, *interaction.survivor.identities))
    exchange.merges.append(Merged(interaction.source, interaction.target))
    if tombstone is not None:
        exchange.inherited.append(Inherited(tombstone.reference, survivor.reference))
    exchange.references.setdefault(interaction.survivor.local, survivor.reference)
    for identity in interaction.sources:
        if carries(survivor.body, identity) != "current":
            logical_id = tombstone.logical_id if tombstone else survivor.logical_id
            exchange.known[identity] = KnownIdentifier(identity, logical_id, MERGED_AWAY, survivor.logical_id)
    for identity in interaction.survivor.identities:
        if carries(survivor.body, identity):
            exchange.known[identity] = KnownIdentifier(identity, survivor.logical_id)


def _retired(interaction: Merge, source: Resolution) -> bool:
    """True if the MRG identifier is retired: a record with it as `old` is not the one that MRG names."""
    old = carries(source.patient.body, interaction.source) == "old"
    return old or source.redirected or out_of_use(source.patient, interaction.sources)
