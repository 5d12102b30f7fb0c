"""Create-or-update of a resource beside the Patient: found or made by its identifiers, idempotent.

What is never overwritten (Practitioner, Location, Organization) is only found or made; once known it costs no request.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from engine.deliver.patient.ownership import applied
from engine.deliver.resources.found import (
    HELD_BY_SEVERAL,
    found_by,
    held_by,
    owner_of,
    remembered_as,
    search_kept,
    standing,
)
from engine.deliver.stored import Body, Slices, Stored, id_of, stored
from engine.deliver.verdict import Owned
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.failure import unclear
from engine.errors import HeldDeliveryError
from engine.fhir.changes import alone, created, grow
from engine.fhir.digest import digest
from engine.fhir.moves import Moved, moved, remember_former, restate, settle, settled
from engine.fhir.patient import carries, number_of
from engine.fhir.period import REVERSED, keep_forward
from engine.fhir.places import begun, traced
from engine.fhir.plan import ElementChange, Keep, ResourceRecord, StatusMove
from engine.fhir.references import local_names, resolved

MOST_ROUNDS: Final = 4
_STALE: Final = frozenset({409, 412})
_LOST: Final = frozenset({404, 410})
_REFUSED: Final = frozenset({400, 422})


async def upsert_resource(
    exchange: Exchange, interaction: Keep, at: datetime | None, *, remembered: bool = True
) -> str:
    """Carry out a Keep and return how it ended: `created`, `updated`, `unchanged`, or why nothing was done.

    `at` is the time of the event. `remembered` False: start from what the server says now. What is never overwritten
    waits until something refers to it. Raises HeldDeliveryError (`visit-of-another-patient`, `would-merge`,
    `multiple-matches`, `version-conflict` ...) and those of a delivery.
    """
    interaction = _with_former(exchange, interaction)
    record = interaction.record
    if not interaction.overwrite:
        exchange.waiting[record.local] = interaction
        return "unchanged"
    if record.holder and record.patient not in exchange.references:
        return interaction.absent
    upsert = _ResourceUpsert(exchange, interaction, at)
    exchange.deleted = False
    found = await found_by(exchange, interaction, remembered=remembered)
    if found is None and not interaction.create:
        return interaction.absent
    if found is not None and not interaction.more and found.reference in exchange.references.values():
        return "already-merged"
    await refer(exchange, record.changes, remembered=remembered)
    for _ in range(MOST_ROUNDS):
        if found is None and not interaction.create:
            return interaction.absent
        ending, found = await (upsert.make() if found is None else upsert.update(found))
        if ending:
            return ending
    raise HeldDeliveryError("version-conflict")


def _with_former(exchange: Exchange, interaction: Keep) -> Keep:
    """Return what is asked of a resource with the identity that it had under its patient's number before."""
    record = interaction.record
    former = exchange.formerly.get(record.identities[0]) if record.identities else None
    if former is None:
        return interaction
    return interaction._replace(record=record._replace(retired=(*record.retired, former)))


async def refer(exchange: Exchange, changes: Iterable[ElementChange], *, remembered: bool = True) -> None:
    """Resolve what changes refer to and what that refers to itself, each once; what is unknown is made."""
    for name in (name for change in changes for name in local_names(change.items)):
        interaction = exchange.waiting.get(name)
        if interaction is None or name in exchange.references:
            continue
        await refer(exchange, interaction.record.changes, remembered=remembered)
        deleted = exchange.deleted
        found = await found_by(exchange, interaction, remembered=remembered)
        exchange.deleted = deleted  # a place that was deleted is made again
        if found is None:
            await _ResourceUpsert(exchange, interaction, None).make()
            continue
        exchange.references[name] = found.reference
        if not found.fresh:
            exchange.trusted.add(name)


async def distrust(exchange: Exchange, changes: Iterable[ElementChange]) -> None:
    """Ask the server for every reference that was remembered: it may have been deleted there."""
    doubted, exchange.trusted = exchange.trusted, set()
    for name in doubted:
        record = exchange.waiting[name].record
        exchange.server.cache_of(record.type).forget(record.identities)
        exchange.references.pop(name, None)
    await refer(exchange, changes, remembered=False)


class _ResourceUpsert:
    """One create-or-update under way; each step says how it ended, or with which stored resource to go on."""

    def __init__(self, exchange: Exchange, interaction: Keep, at: datetime | None) -> None:
        self.exchange = exchange
        self.interaction = interaction
        self.record = interaction.record
        self.at = at
        self.cache = exchange.server.cache_of(self.record.type)

    async def make(self) -> tuple[str, Stored | None]:
        exchange, record, interaction = self.exchange, self.record, self.interaction
        if exchange.deleted and interaction.overwrite and exchange.channel.retire != "delete":
            raise HeldDeliveryError("deleted-at-server", status=410)
        condition = search_kept(record.identities[:1])
        await refer(exchange, interaction.defaults)
        body = self._new()
        headers = (("If-None-Exist", condition),)
        answer = await exchange.write_patient("POST", record.type, body, headers, self._spoken(_STALE))
        if answer.status in _REFUSED:
            await self._distrust()
            return "", None
        if answer.status in _STALE:
            exchange.server.cache_of(record.type).forget(record.identities)
            match = await found_by(exchange, interaction, remembered=False)
            if match is None:
                raise HeldDeliveryError("multiple-matches", status=answer.status)
            return self._matched(match)
        made = stored(exchange.server.inward(answer.json), answer.headers, record.type)
        if made is None:
            logical_id = id_of(answer.headers.get("location", ""), record.type)
            made = await exchange.read(logical_id, record.type) if logical_id else None
        if made is None:
            raise unclear("no-resource-in-answer", answer.status)
        if answer.status == 200:
            return self._matched(made)
        if interaction.late:
            exchange.note(interaction.late)
        owned = created(self._first()).owned if interaction.overwrite else {}
        if interaction.status and exchange.channel.demographics == "fill":
            owned[interaction.status.element] = (digest(self._created()),)
        self._remember(made, owned)
        return "created", None

    async def update(self, found: Stored) -> tuple[str, Stored | None]:
        exchange, interaction = self.exchange, self.interaction
        try:
            body, owned, flags = await self._revised(found)
        except HeldDeliveryError:
            if found.fresh:
                raise
            return "", await self._again(found)  # what holds is the resource as it is now
        if body == found.body:
            if not found.fresh:
                return "", await self._again(found)
            exchange.note(*flags)
            self._remember(found, owned)
            return interaction.absent if interaction.absent in flags else "unchanged", None
        spoken = self._spoken(_STALE | _LOST if found.fresh else _STALE | _LOST | _REFUSED)
        answer = await exchange.write_patient("PUT", found.reference, body, found.if_match, spoken)
        if answer.status < 300:
            written = exchange.patient_of(answer, self.record.type)
            exchange.note(*flags)
            self._remember(written, owned)
            return "updated", None
        self.cache.drop(found.logical_id)
        if answer.status in _REFUSED:
            await self._distrust()
        if answer.status == 410 and found.fresh:
            raise HeldDeliveryError("deleted-at-server", status=410)
        return "", await self._again(found)

    def _spoken(self, statuses: frozenset[int]) -> frozenset[int]:
        """Return the refusals to deal with: while references were not asked about, they may be what is refused."""
        return statuses | _REFUSED if self.exchange.trusted else statuses

    async def _distrust(self) -> None:
        await distrust(self.exchange, self.record.changes)

    def _matched(self, match: Stored) -> tuple[str, Stored | None]:
        if self.interaction.overwrite:
            return "", match
        self._remember(match, {})
        return "unchanged", None

    async def _again(self, found: Stored) -> Stored | None:
        self.cache.drop(found.logical_id)
        fresh = await self.exchange.read(found.logical_id, self.record.type)
        if fresh is not None and any(carries(fresh.body, item) for item in self.record.identities):
            return fresh
        return await found_by(self.exchange, self.interaction, remembered=False)

    def _created(self) -> str:
        return self.interaction.status.created if self.interaction.status else ""

    def _changes(self, status: str) -> tuple[ElementChange, ...]:
        changes = resolved(self.record.changes, self.exchange.references)
        move = self.interaction.status
        return settled(changes, move, status) if move else changes

    def _first(self) -> Sequence[ElementChange]:
        """Return what the message says of a resource that it makes."""
        move, changes = self.interaction.status, self._changes(self._created())
        return begun(changes, move.trail, self.at) if move and move.trail else changes

    def _new(self) -> Body:
        record, move = self.record, self.interaction.status
        body: Body = {"resourceType": record.type, "identifier": list(record.identifiers)}
        if move:
            body[move.element] = self._created()
        elements = created(self._first()).body
        body |= created(resolved(self.interaction.defaults, self.exchange.references)).body | elements
        if keep_forward(body, {}, {}, {}):
            self.exchange.note(REVERSED)
        if record.holder:
            body[record.holder] = _holding(record, self.exchange.references[record.patient])
        return body

    def _step(self, found: Stored, *, kept_out: bool) -> Moved:
        """Return what the event makes of the stored status; nothing where the source is kept out of it."""
        move = self.interaction.status
        if move is None or kept_out:
            return Moved(_status(found.body, move))
        step = moved(found.body, move, self.at)
        if step.reopened and self.exchange.channel.visit_reuse == "hold":
            raise HeldDeliveryError("visit-reused")
        return step

    async def _revised(self, found: Stored) -> tuple[Body, dict[str, tuple[str, ...]], tuple[str, ...]]:
        """Return the stored resource as it is to be, what the source then owns of it, and flags."""
        interaction, record, move = self.interaction, self.record, self.interaction.status
        mine = await self.exchange.owned_slices(found)
        fill = self.exchange.channel.demographics == "fill"
        kept_out = fill and move is not None and not _is_ours(found.body, move.element, mine)
        step = self._step(found, kept_out=kept_out)
        if step.idle:
            await owner_of(self.exchange, interaction, found)
            return found.body, dict(mine), (step.note,)
        gone = () if kept_out else (*interaction.clears, *(move.forgets if move and step.reopened else ()))
        left = move.forgets if move and kept_out and step.status not in move.ended else ()
        spoken = alone(self._changes(step.status), mine)
        changes = [one for one in spoken if one.element not in (*interaction.clears, *left)]
        if move and move.trail and not fill:
            changes = traced(found.body, changes, mine, move.trail, self.at)
        changes += _revived(interaction.revives, changes, mine)
        required = frozenset(one.element for one in interaction.defaults)
        result = await applied(self.exchange, found, changes, fill=fill, required=required)
        body, owned = dict(result.body), dict(result.owned)
        if not fill:
            restate(body, changes)
        kept = {one.element for one in changes if one.items}
        for element in gone:
            if element not in kept:
                body = _without(body, element)
                owned.pop(element, None)
        if move:
            body[move.element] = step.status
            if step.status in move.ended and not kept_out:
                settle(body, owned)
            if fill and not kept_out:
                owned[move.element] = (digest(step.status),)
            remember_former(body, found.body, move, self.at)
        turned = (REVERSED,) if keep_forward(body, found.body, owned, mine) else ()
        body["identifier"] = _numbers(body.get("identifier") or [], record)
        if not body["identifier"]:
            del body["identifier"]
        if record.holder:
            await owner_of(self.exchange, interaction, found)
            reference = self.exchange.references[record.patient]
            if held_by(body, record.holder) != reference:
                body[record.holder] = _holding(record, reference)
        return body, owned, (*result.flags, *turned, *((step.note,) if step.note else ()))

    def _remember(self, resource: Stored, owned: dict[str, tuple[str, ...]]) -> None:
        exchange, record = self.exchange, self.record
        exchange.references[record.local] = resource.reference
        if not standing(resource):
            self.cache.drop(resource.logical_id)
            exchange.owned[resource.reference] = Owned(resource.reference, exchange.source, owned)
            return
        old = tuple(number_of(item) for item in record.identifiers if item.get("use") == "old")
        listed = (*record.identities, *record.retired, *old)
        carried = tuple(item for item in dict.fromkeys(listed) if carries(resource.body, item))
        if self.cache.find(carried) is None:
            exchange.known.update(remembered_as(record.type, item, resource.logical_id) for item in carried)
        if self.interaction.overwrite and self.cache.owned(resource.logical_id, exchange.source) != owned:
            exchange.owned[resource.reference] = Owned(resource.reference, exchange.source, owned)
        kept = resource if self.interaction.overwrite else replace(resource, body={})
        if not self.interaction.overwrite or (resource.tag and exchange.server.abilities.if_match):
            self.cache.put(kept, carried, exchange.source, owned)
        else:
            self.cache.drop(resource.logical_id)


def _holding(record: ResourceRecord, reference: str) -> Any:
    """Return what says whose a resource is; an Account may be that of several, and has a list."""
    return [{"reference": reference}] if record.type in HELD_BY_SEVERAL else {"reference": reference}


def _status(body: Body, move: StatusMove | None) -> str:
    return str(body.get(move.element) or "") if move else ""


def _is_ours(body: Body, element: str, mine: Slices) -> bool:
    """Say whether a status is what this source wrote last, or nothing: what `fill` may move."""
    return element not in body or digest(body[element]) in mine.get(element, ())


def _revived(names: Sequence[str], changes: Sequence[ElementChange], mine: Slices) -> list[ElementChange]:
    """Return the deletion of what a retirement wrote, where the message has nothing in its place."""
    given = {one.element for one in changes}
    return [ElementChange(name, name, (), many=False) for name in names if name in mine and name not in given]


def _numbers(current: list[Any], record: ResourceRecord) -> list[Any]:
    """Return the identifiers as they are to be: the message's added, those that are retired of `use` old."""
    retired = set(record.retired)
    grown = [
        {**item, "use": "old"} if number_of(item) in retired and item.get("use") != "old" else item for item in current
    ]
    return grow(grown, record.identifiers)


def _without(body: Body, element: str) -> Body:
    root, _, part = element.partition(".")
    if not part:
        return {name: value for name, value in body.items() if name != root}
    left = {name: value for name, value in (body.get(root) or {}).items() if name != part}
    return {**{name: value for name, value in body.items() if name != root}, **({root: left} if left else {})}
