"""The interactions of a plan: what carries out each, and whose resources it touches; one row a type."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from itertools import groupby
from typing import Any, Final, NamedTuple

from engine.deliver.merge.link import link
from engine.deliver.merge.merge import merge
from engine.deliver.merge.move import move
from engine.deliver.merge.rename import rename
from engine.deliver.patient.upsert import upsert
from engine.deliver.resources.follow import follow
from engine.deliver.resources.found import find
from engine.deliver.resources.resource_upsert import attest, upsert_resource
from engine.deliver.resources.retire import retire
from engine.deliver.resources.transaction import carry_out_bundled
from engine.deliver.verdict import Failure
from engine.deliver.wire.creating import NOT_WRITTEN, leave, only_creates
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.failure import class_of
from engine.errors import DeliveryError, HeldDeliveryError, PermanentDeliveryError, RejectedDeliveryError
from engine.fhir.plan import (
    Attest,
    Find,
    Follow,
    Identity,
    Interaction,
    Keep,
    Link,
    Merge,
    Move,
    Plan,
    Rename,
    Retire,
    Upsert,
)

# How telling an ending is, the first one that occurred names the delivery.
_TELLING = (
    "merged",
    "linked",
    "unlinked",
    "renamed",
    "moved",
    "deleted",
    "created",
    "updated",
    "already-merged",
    "already-linked",
    "already-renamed",
    "already-moved",
    "source-absent",
    "nothing-to-merge",
    "nothing-to-rename",
    "nothing-to-move",
    "nothing-to-unlink",
    "nothing-to-delete",
    "notify-only",
    NOT_WRITTEN,
    "unchanged",
)
_CANCELS = ("nothing-to-cancel",)
_RANKS: Final = {ending: rank for rank, ending in enumerate((*_CANCELS, *_TELLING))}
_QUIET = (NOT_WRITTEN, "unchanged", "nothing-to-do")
# Types to which nothing else refers: a server that does not list them goes without.
LEFT_OUT: Final = frozenset({"PractitionerRole", "Provenance"})
# How a server answers a request for a type that it does not have.
_NO_SUCH_TYPE = frozenset({404, 405, 501})
NOT_KEPT: Final = "type-not-kept"


class InteractionRow(NamedTuple):
    """How interactions of one type are carried out, and what they are about.

    `carry_out` is called with exchange, interaction, the time of the event and `remembered`; it returns the ending.
    `patients`: identities of the Patients touched. `other_type`: type of a resource other than the Patient. `tells`:
    whether its ending may name the delivery where nothing came of the Patient. `changes`: what it does to records that
    are there, where it does nothing else; a destination that only gets creates is spared it.
    """

    carry_out: Callable[[Exchange, Any, datetime | None, bool], Awaitable[str]]
    patients: Callable[[Any], Iterable[Identity]] = lambda _one: ()
    other_type: Callable[[Any], str] | None = None
    tells: Callable[[Any], bool] = lambda _one: True
    changes: str = ""


def _type(one: Any) -> str:
    return str(one.record.type)


TABLE: Final[Mapping[type, InteractionRow]] = {
    Upsert: InteractionRow(
        lambda exchange, one, _at, remembered: upsert(exchange, one, remembered=remembered),
        lambda one: one.patient.identities,
    ),
    Merge: InteractionRow(
        lambda exchange, one, _at, _remembered: merge(exchange, one),
        lambda one: (*one.sources, one.source, one.target, *one.survivor.identities),
        changes="merge",
    ),
    Rename: InteractionRow(
        lambda exchange, one, _at, _remembered: rename(exchange, one),
        lambda one: (*one.old, *one.new, *one.patient.identities),
        changes="change-of-number",
    ),
    Link: InteractionRow(
        lambda exchange, one, _at, _remembered: link(exchange, one),
        lambda one: (*one.one.identities, *one.other.identities),
        changes="link",
    ),
    Move: InteractionRow(
        lambda exchange, one, _at, _remembered: move(exchange, one),
        lambda one: (*one.moving, *one.source, *one.target.identities),
        changes="move-of-number",
    ),
    Find: InteractionRow(
        lambda exchange, one, _at, _remembered: find(exchange, one),
        other_type=_type,
        tells=lambda _one: False,
    ),
    Keep: InteractionRow(
        lambda exchange, one, at, remembered: upsert_resource(exchange, one, at, remembered=remembered),
        other_type=_type,
        tells=lambda one: one.overwrite,
    ),
    Retire: InteractionRow(
        lambda exchange, one, at, remembered: retire(exchange, one, at, remembered=remembered),
        other_type=lambda one: one.type,
    ),
    Follow: InteractionRow(lambda exchange, one, _at, _remembered: follow(exchange, one), other_type=_type),
    Attest: InteractionRow(
        lambda exchange, one, _at, remembered: attest(exchange, one, remembered=remembered),
        other_type=_type,
        tells=lambda _one: False,
    ),
}


async def carry_out(exchange: Exchange, plan: Plan, *, remembered: bool) -> list[str]:
    """Carry out a plan and return the ending of each interaction.

    The merges of one message are independent: one that is refused keeps none of the others from being made, but
    everything else. Raises then what waits for a person, before what is refused for good.
    """
    if len(plan.interactions) == 1 and isinstance(plan.interactions[0], Upsert):
        return [await _one(exchange, plan.interactions[0], plan.event_at, remembered=remembered)]
    endings: list[str] = []
    refused: list[DeliveryError] = []

    places = _places(plan)

    async def each(exchange: Exchange, steps: Iterable[Interaction], *, remembered: bool) -> list[str]:
        made = []
        for step in steps:
            exchange.place = places.get(id(step), "")
            made.append(await _one(exchange, step, plan.event_at, remembered=remembered))
        return made

    for has_other_type, steps in groupby(plan.interactions, lambda one: isinstance(one, Find | Keep | Retire)):
        if has_other_type and refused:
            break
        if has_other_type:
            endings += await carry_out_bundled(exchange, tuple(steps), each, remembered=remembered)
            continue
        for one in steps:
            if refused and not isinstance(one, Merge):
                break
            try:
                endings += await each(exchange, (one,), remembered=remembered)
            except DeliveryError as error:
                if not isinstance(one, Merge) or class_of(error) is not Failure.PERMANENT:
                    raise
                exchange.note(*_refusal(error, exchange.place))
                refused.append(error)
    if refused:
        raise next((error for error in refused if not isinstance(error, RejectedDeliveryError)), refused[0])
    return endings


def _refusal(error: DeliveryError, place: str) -> tuple[str, ...]:
    """Return what is noted of a merge that is refused: which of several it was (`self-merge 2`)."""
    if place and isinstance(error, HeldDeliveryError | RejectedDeliveryError):
        return (f"{error.reason} {place}",)
    return error.codes


def _places(plan: Plan) -> dict[int, str]:
    """Return the place of each interaction among those of its kind, where there are several."""
    kinds: dict[object, list[int]] = {}
    for interaction in plan.interactions:
        kind = (type(interaction), interaction.record.type) if isinstance(interaction, Keep) else type(interaction)
        kinds.setdefault(kind, []).append(id(interaction))
    return {each: str(at) for some in kinds.values() if len(some) > 1 for at, each in enumerate(some, 1)}


async def _one(exchange: Exchange, interaction: Interaction, at: datetime | None, *, remembered: bool) -> str:
    """Carry out one interaction; `not-kept` and its type where the server has no such resource.

    HeldDeliveryError `type-not-kept` and its type where something else would be lost with it.
    """
    row = TABLE[type(interaction)]
    if row.changes and only_creates(exchange):
        return leave(exchange, row.changes)
    type_ = row.other_type(interaction) if row.other_type else ""
    if type_ in LEFT_OUT and not exchange.server.abilities.keeps(type_):
        exchange.note(f"not-kept {type_}")
        return "unchanged"
    if type_ and exchange.server.lacks(type_):
        raise HeldDeliveryError(f"{NOT_KEPT} {type_}")
    try:
        return await row.carry_out(exchange, interaction, at, remembered)
    except PermanentDeliveryError as error:
        if error.status in _NO_SUCH_TYPE and not exchange.server.keeps(type_):
            raise HeldDeliveryError(f"{NOT_KEPT} {type_}", status=error.status, codes=error.codes) from error
        raise


def ending(plan: Plan, endings: list[str]) -> str:
    """Return the ending that tells most: that of the patient, or where nothing came of it, of what belongs to it."""
    rows = [(TABLE[type(one)], one, end) for one, end in zip(plan.interactions, endings, strict=True)]
    first = _telling([end for row, _, end in rows if not row.other_type])
    others = _telling([end for row, one, end in rows if row.other_type and row.tells(one)])
    telling = others == NOT_WRITTEN or others not in _QUIET
    return others if others in _CANCELS or (first in _QUIET and telling) else first


def _telling(endings: list[str]) -> str:
    return min([ending for ending in endings if ending in _RANKS], key=_RANKS.__getitem__, default="nothing-to-do")


def patients_of(plan: Plan) -> tuple[Identity, ...]:
    """Return the identities of every Patient that a plan speaks of."""
    return tuple(identity for one in plan.interactions for identity in TABLE[type(one)].patients(one))
