"""The body of a resource other than the Patient: new from a message, or the server's with the message applied."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from engine.deliver.patient.ownership import applied
from engine.deliver.resources.found import owner_of
from engine.deliver.stored import Body, ServerResource, Slices, involved
from engine.deliver.wire.exchange import Exchange
from engine.fhir.changes import alone, created, grow
from engine.fhir.json import digest
from engine.fhir.patient import number_of
from engine.fhir.patient_compartment import held_by, holding
from engine.fhir.period import REVERSED, keep_forward
from engine.fhir.places import begun, traced
from engine.fhir.plan import ElementChange, Keep, ResourceRecord, StatusMove, resolved
from engine.fhir.status_transitions import Moved, moved, remember_former, restate, settle, settled

NOT_REPEATED: Final = "results-not-repeated"


class ResourceBody:
    """What a message says of one resource; `at` is the time of the event."""

    def __init__(self, exchange: Exchange, interaction: Keep, at: datetime | None) -> None:
        self._exchange = exchange
        self._interaction = interaction
        self._record = interaction.record
        self._at = at

    @property
    def created_status(self) -> str:
        """The status of a resource that the message makes; empty where it has none."""
        return self._interaction.status.created if self._interaction.status else ""

    def _changes(self, status: str) -> tuple[ElementChange, ...]:
        changes, unfound = self._record.changes, self._exchange.unfound
        if unfound:
            changes = tuple([change for change in changes if unfound.isdisjoint(change.refers)])
        changes = resolved(changes, self._exchange.references)
        move = self._interaction.status
        return settled(changes, move, status) if move else changes

    def _first(self) -> Sequence[ElementChange]:
        """Return what the message says of a resource that it makes."""
        move, changes = self._interaction.status, self._changes(self.created_status)
        return begun(changes, move.trail, self._at) if move and move.trail else changes

    def new(self) -> tuple[Body, dict[str, tuple[str, ...]]]:
        """Return a resource that the message makes, and what the source owns of it."""
        record, move = self._record, self._interaction.status
        body: Body = {"resourceType": record.type, "identifier": list(record.identifiers)}
        if move:
            body[move.element] = self.created_status
        said = created(self._first())
        body |= created(resolved(self._interaction.defaults, self._exchange.references)).body | said.body
        if keep_forward(body, {}, {}, {}):
            self._exchange.note(REVERSED)
        if record.holder:
            body |= holding(record.type, record.holder, self._exchange.references[record.patient])
        return body, said.owned

    def _step(self, found: ServerResource, *, kept_out: bool) -> Moved:
        """Return what the event makes of the stored status; nothing where the source is kept out of it."""
        move = self._interaction.status
        if move is None or kept_out:
            return Moved(_status(found.body, move))
        step = moved(found.body, move, self._at)
        if step.reopened and self._exchange.channel.visit_reuse == "hold":
            self._exchange.hold("visit-reused", involved=(involved("is over", found),))
        return step

    async def revised(self, found: ServerResource) -> tuple[Body, dict[str, tuple[str, ...]], tuple[str, ...]]:
        """Return the stored resource as it is to be, what the source then owns of it, and flags."""
        interaction, record, move = self._interaction, self._record, self._interaction.status
        mine = await self._exchange.owned_slices(found)
        fill = self._exchange.channel.demographics == "fill"
        kept_out = fill and move is not None and not _is_ours(found.body, move.element, mine)
        step = self._step(found, kept_out=kept_out)
        if step.idle:
            await owner_of(self._exchange, interaction, found)
            return found.body, dict(mine), (step.note,)
        gone = () if kept_out else (*interaction.clears, *(move.forgets if move and step.reopened else ()))
        left = move.forgets if move and kept_out and step.status not in move.ended else ()
        spoken = alone(self._changes(step.status), mine)
        changes: Sequence[ElementChange] = [one for one in spoken if one.element not in (*interaction.clears, *left)]
        if move and move.trail and not fill:
            changes = traced(found.body, changes, mine, move.trail, self._at, tried=self._exchange.tried)
        changes = self._completed(changes, found.body, mine)
        required = frozenset(one.element for one in interaction.defaults)
        result = await applied(self._exchange, found, changes, fill=fill, required=required)
        body, owned = dict(result.body), dict(result.owned)
        if not fill:
            restate(body, changes)
        kept = {change.element for change in changes if change.items}
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
            remember_former(body, found.body, move, self._at)
        turned = (REVERSED,) if keep_forward(body, found.body, owned, mine) else ()
        body["identifier"] = _numbers(body.get("identifier") or [], record)
        if not body["identifier"]:
            del body["identifier"]
        if record.holder:
            await owner_of(self._exchange, interaction, found)
            reference = self._exchange.references[record.patient]
            if held_by(body, record.holder) != reference:
                body |= holding(record.type, record.holder, reference)
        return body, owned, (*result.flags, *turned, *((step.note,) if step.note else ()))

    def _completed(self, changes: Sequence[ElementChange], body: Body, mine: Slices) -> Sequence[ElementChange]:
        """Return changes with what growing lists keep, and without what a retirement wrote and nothing fills."""
        given = {change.element for change in changes}
        revived = [name for name in self._interaction.revives if name in mine and name not in given]
        said = self._grown(changes, body, mine) if self._interaction.grows else changes
        return [*said, *(ElementChange(name, name, (), many=False) for name in revived)] if revived else said

    def _grown(self, changes: Sequence[ElementChange], body: Body, mine: Slices) -> list[ElementChange]:
        """Return changes in which lists that grow keep what this source said before, noted where there is such."""
        spoken_of = set(self._exchange.references.values())
        grown = []
        for change in changes:
            before = body.get(change.element) if change.element in self._interaction.grows and change.items else None
            owned = mine.get(change.slice, ())
            kept = [one for one in before or () if digest(one) in owned and one.get("reference") not in spoken_of]
            grown.append(change._replace(items=(*change.items, *kept)))
            if kept:
                self._exchange.note(NOT_REPEATED)
        return grown


def _status(body: Body, move: StatusMove | None) -> str:
    return str(body.get(move.element) or "") if move else ""


def _is_ours(body: Body, element: str, mine: Slices) -> bool:
    """Say whether a status is what this source wrote last, or nothing: what `fill` may move."""
    return element not in body or digest(body[element]) in mine.get(element, ())


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
