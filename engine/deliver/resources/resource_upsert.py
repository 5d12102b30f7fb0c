"""Create-or-update of a resource other than the Patient, found or made by its identifiers; and its Provenance.

What is never overwritten (Practitioner, Location, Organization) is only found or made; once known it costs no request.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from engine.deliver.resources.admitted import TEMPORARY, is_temporary, is_unnumbered, met
from engine.deliver.resources.body import ResourceBody
from engine.deliver.resources.found import found_by, remembered_as, search_kept, standing
from engine.deliver.stored import Body, ServerResource, involved, stored
from engine.deliver.verdict import Owned
from engine.deliver.wire.client import ServerResponse
from engine.deliver.wire.creating import (
    DUPLICATE,
    IDS_REFUSED,
    IGNORED,
    NO_IDS,
    ONCE,
    THERE,
    UNCLEAR,
    check_number,
    check_taken,
    client_id,
    has_client_ids,
    has_keys,
    id_in,
    key_header,
    leave,
    only_creates,
    original_of,
    there_under,
)
from engine.deliver.wire.exchange import GONE, Exchange
from engine.deliver.wire.failure import unclear
from engine.errors import HeldDeliveryError
from engine.fhir.changes import created
from engine.fhir.json import digest
from engine.fhir.patient import carries, number_of
from engine.fhir.plan import Attest, ElementChange, Keep, resolved

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
    exchange.deleted = False
    # What a step before has merged into another one is remembered as that one: the server says which it was.
    known = remembered and exchange.retired.isdisjoint(record.identities)
    interaction, found = await met(exchange, interaction, remembered=known)
    exchange.retired.update(record.retired if interaction.merges else ())
    upsert = _ResourceUpsert(exchange, interaction, at)
    if found is None and not interaction.create:
        return interaction.absent
    if found is not None and not interaction.more and found.reference in exchange.references.values():
        return "already-merged"
    # Parts of a list are told apart by what they refer to, so what is there must not be named by a provisional id.
    searched = found is not None and exchange.server.is_draft
    await refer(exchange, record.changes, remembered=remembered, searched=searched)
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


async def refer(
    exchange: Exchange, changes: Iterable[ElementChange], *, remembered: bool = True, searched: bool = False
) -> None:
    """Resolve what changes refer to and what that refers to itself, each once; what is unknown is made.

    `searched` as of `found_by`.
    """
    for name in (name for change in changes for name in change.refers):
        interaction = exchange.waiting.get(name)
        if interaction is None or name in exchange.references:
            continue
        await refer(exchange, interaction.record.changes, remembered=remembered, searched=searched)
        deleted = exchange.deleted
        found = await found_by(exchange, interaction, remembered=remembered, searched=searched)
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


def _deletes(exchange: Exchange) -> bool:
    """True if this channel deletes resources of a patient, alone or with the patient."""
    with_patient = exchange.channel.deleted_person == "delete" and exchange.server.abilities.cascade
    return exchange.channel.retire == "delete" or with_patient


class _ResourceUpsert:
    """One create-or-update under way; each step says how it ended, or with which stored resource to go on."""

    def __init__(self, exchange: Exchange, interaction: Keep, at: datetime | None) -> None:
        self.exchange = exchange
        self.interaction = interaction
        self.record = interaction.record
        self.body = ResourceBody(exchange, interaction, at)
        self.cache = exchange.server.cache_of(self.record.type)

    async def make(self) -> tuple[str, ServerResource | None]:
        exchange, record, interaction = self.exchange, self.record, self.interaction
        if exchange.deleted and interaction.overwrite and not _deletes(exchange):
            raise HeldDeliveryError("deleted-at-server", status=410)
        await refer(exchange, interaction.defaults)
        under = await there_under(exchange, record.identities[0], record.type)
        if under is not None:
            check_number(under, *record.identities)
            return self._matched(under)
        body, said = self.body.new()
        answer = await self._create(body)
        if answer.status in _REFUSED or self._may_dangle(answer):
            await self._distrust()
            return "", None
        if answer.status in THERE:
            return self._matched(await self._there(answer))
        made = await self._answered(answer)
        if answer.status == 200 and not has_client_ids(exchange):
            return self._matched(made)
        exchange.new(made)
        if interaction.late:
            exchange.note(interaction.late)
        if is_temporary(record):
            exchange.note(TEMPORARY)
        owned = said if interaction.overwrite else {}
        if interaction.status and exchange.channel.demographics == "fill":
            owned[interaction.status.element] = (digest(self.body.created_status),)
        self._remember(made, owned)
        return "created", None

    async def _create(self, body: Body) -> ServerResponse:
        """Send the create, in the way that the destination's `create` says."""
        exchange, record = self.exchange, self.record
        number = record.identities[0]
        if has_keys(exchange):
            headers = key_header(exchange, record.type, number, shared=not self.interaction.overwrite)
            return await exchange.write_patient("POST", record.type, body, headers, self._spoken(_STALE))
        if not has_client_ids(exchange):
            headers = (("If-None-Exist", search_kept((number,))),)
            return await exchange.write_patient("POST", record.type, body, headers, self._spoken(_STALE))
        spoken = self._spoken(THERE | NO_IDS if exchange.server.keeps(record.type) else THERE)
        if exchange.server.abilities.update_create is False:
            spoken |= _REFUSED
        path = f"{record.type}/{client_id(number)}"
        body = {**body, "id": client_id(number)}
        answer = await exchange.write_patient("PUT", path, body, ONCE, spoken)
        check_taken(exchange, answer)
        return answer

    async def _there(self, answer: ServerResponse) -> ServerResource:
        """Return what a create met: what its repeated key made, what is under its id, or what a search finds."""
        exchange, record = self.exchange, self.record
        taken = DUPLICATE in exchange.attempts[-1].codes
        exchange.server.cache_of(record.type).forget(record.identities)
        exchange.vacant.clear()
        if has_keys(exchange) and answer.status == 409:
            original = await original_of(exchange, answer, record.type)
            if original is not None and any(carries(original.body, item) for item in record.identities):
                return original
        under = await there_under(exchange, record.identities[0], record.type)
        if under is not None:
            check_number(under, *record.identities)
            return under
        match = await found_by(exchange, self.interaction, remembered=False)
        if match is None and taken and not (has_keys(exchange) or has_client_ids(exchange)):
            raise HeldDeliveryError("multiple-matches", status=answer.status)
        if match is None:
            raise unclear(UNCLEAR, answer.status)
        return match

    async def _answered(self, answer: ServerResponse) -> ServerResource:
        """Return what a create made or matched: as it is shown, as it is read, or as a search finds it."""
        exchange, type_ = self.exchange, self.record.type
        made = stored(exchange.server.inward(answer.json), answer.headers, type_)
        if made is None and (logical_id := id_in(exchange, answer, type_)):
            made = await exchange.read(logical_id, type_)
        if made is None and (answer.status == 200 or has_client_ids(exchange)):
            exchange.vacant.clear()
            made = await found_by(exchange, self.interaction, remembered=False)
        if made is None:
            raise unclear("no-resource-in-answer", answer.status)
        if has_client_ids(exchange):
            self._check_id(made, answer)
        return made

    def _check_id(self, made: ServerResource, answer: ServerResponse) -> None:
        """Hold where the server gave another id than it was asked for; note where it may have overwritten."""
        if made.logical_id != client_id(self.record.identities[0]):
            whose = (involved("was created", made),)
            raise HeldDeliveryError(IDS_REFUSED, status=answer.status, involved=whose)
        if answer.status == 200:
            self.exchange.note(IGNORED)

    async def update(self, found: ServerResource) -> tuple[str, ServerResource | None]:
        exchange = self.exchange
        try:
            body, owned, flags = await self.body.revised(found)
        except HeldDeliveryError:
            if found.fresh:
                raise
            return "", await self._again(found)  # what holds is the resource as it is now
        if body == found.body or only_creates(exchange):
            return await self._left(found, owned, flags, changed=body != found.body)
        if not exchange.still(found):
            return "", await self._again(found)
        spoken = self._spoken(_STALE | _LOST if found.fresh else _STALE | _LOST | _REFUSED)
        answer = await exchange.write_patient("PUT", found.reference, body, found.if_match, spoken)
        if answer.status < 300:
            written = exchange.patient_of(answer, self.record.type)
            if written.logical_id != found.logical_id:
                raise unclear("wrong-record-answered", answer.status)
            exchange.note(*flags)
            self._remember(written, owned)
            return "updated", None
        if answer.status in _REFUSED or self._may_dangle(answer):
            await self._distrust()
        if answer.status == 410 and found.fresh:
            raise HeldDeliveryError("deleted-at-server", status=410)
        return "", await self._again(found)

    async def _left(
        self, found: ServerResource, owned: dict[str, tuple[str, ...]], flags: Iterable[str], *, changed: bool
    ) -> tuple[str, ServerResource | None]:
        """Leave a resource as it is, once it was read in this delivery, or written."""
        exchange, absent = self.exchange, self.interaction.absent
        if not found.fresh and found.reference not in exchange.written():
            return "", await self._again(found)
        if changed:
            self._remember(found, dict(await exchange.owned_slices(found)))
            return leave(exchange, self.record.type), None
        exchange.note(*flags)
        self._remember(found, owned)
        return absent if absent in flags else "unchanged", None

    def _spoken(self, statuses: frozenset[int]) -> frozenset[int]:
        """Return the refusals to deal with: while references were not asked about, they may be what is refused."""
        return statuses | _REFUSED if self.exchange.trusted else statuses

    def _may_dangle(self, answer: ServerResponse) -> bool:
        """Say whether a conflict may be said of references that were not asked about (Blaze), not of the record."""
        return answer.status == 409 and bool(self.exchange.trusted) and not has_keys(self.exchange)

    async def _distrust(self) -> None:
        await distrust(self.exchange, self.record.changes)

    def _matched(self, match: ServerResource) -> tuple[str, ServerResource | None]:
        if self.interaction.overwrite:
            return "", match
        self._remember(match, {})
        return "unchanged", None

    async def _again(self, found: ServerResource) -> ServerResource | None:
        fresh = await self.exchange.read_again(found)
        record = self.record
        if fresh is not None and (
            any(carries(fresh.body, item) for item in record.identities)
            or (is_unnumbered(fresh.body, record) and fresh.same_as(found))
        ):
            return fresh
        return await found_by(self.exchange, self.interaction, remembered=False)

    def _remember(self, resource: ServerResource, owned: dict[str, tuple[str, ...]]) -> None:
        exchange, record = self.exchange, self.record
        exchange.references[record.local] = resource.reference
        if not standing(resource):
            self.cache.drop(resource.logical_id)
            exchange.owned[resource.reference] = Owned(resource.reference, exchange.source, owned)
            return
        old = tuple(number_of(item) for item in record.identifiers if item.get("use") == "old")
        listed = (*record.identities, *record.retired, *old)
        carried = tuple(item for item in dict.fromkeys(listed) if carries(resource.body, item))
        if self.cache.stands_for(carried) is None:
            then = (record.admission.number,) if record.admission else ()
            remembered = (remembered_as(record.type, item, resource.logical_id) for item in (*carried, *then))
            exchange.known.update(remembered)
        if self.interaction.overwrite and self.cache.owned(resource.logical_id, exchange.source) != owned:
            exchange.owned[resource.reference] = Owned(resource.reference, exchange.source, owned)
        kept = resource if self.interaction.overwrite else replace(resource, body={})
        if not self.interaction.overwrite or (resource.tag and exchange.server.abilities.if_match):
            self.cache.put(kept, carried, exchange.source, owned)
        else:
            self.cache.drop(resource.logical_id)


ALREADY: Final = 412
REFUSED: Final = frozenset({400, 403, 404, 405, 409, 410, ALREADY, 422})
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
        if answer.status == ALREADY or not exchange.trusted:
            break
        await distrust(exchange, record.changes)
    if answer.status != ALREADY:
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
        interaction.target: [{"reference": target} for target in targets],
        **elements,
    }
