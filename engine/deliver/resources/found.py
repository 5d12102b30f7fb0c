"""Which resource of the server a message means, other than the Patient; whose it is; or none, where only named."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from engine.config.destination import CONDITIONAL
from engine.deliver.patient.absorbed import head_of
from engine.deliver.patient.unseen import hidden
from engine.deliver.stored import ServerResource, involved
from engine.deliver.verdict import KnownIdentifier
from engine.deliver.wire.client import escaped
from engine.deliver.wire.creating import there_under
from engine.deliver.wire.exchange import Exchange
from engine.errors import HeldDeliveryError, InvolvedRecord
from engine.fhir.patient import carries
from engine.fhir.patient_compartment import PATIENT, asked_of, held_by
from engine.fhir.plan import Find, Identity, Keep
from engine.fhir.versions.names import stu3_name

ENTERED_IN_ERROR: Final = "entered-in-error"
# What a merge leaves behind: an account that is no longer used, whose number leads to the other one.
OVER: Final = {"Account": frozenset({ENTERED_IN_ERROR, "inactive"})}
# Why a resource of somebody else is held, where that has a name of its own.
OF_ANOTHER: Final = {"Encounter": "visit-of-another-patient", "ServiceRequest": "order-of-another-patient"}


async def found_by(
    exchange: Exchange, interaction: Keep, *, remembered: bool, searched: bool = False
) -> ServerResource | None:
    """Return the resource with the identities of a record, None where none is known.

    A server that creates on condition is not asked about one that may be created, unless `searched`: the create finds
    it.
    HeldDeliveryError: `would-merge` where the old and the new number belong to two; `multiple-matches` where one
    belongs to several, which only what is never overwritten may.
    """
    record = interaction.record
    identities = (*record.identities, *record.retired)
    if remembered and not record.retired:
        found = await _remembered(exchange, interaction, identities)
        if found is not None:
            return found
        conditional = exchange.server.settings.create == CONDITIONAL and exchange.server.abilities.conditional_create
        if interaction.create and len(identities) == 1 and conditional and not searched:
            return None
    return await _searched(exchange, interaction, identities)


async def owner_of(exchange: Exchange, interaction: Keep, found: ServerResource) -> None:
    """Refuse a resource that belongs to another patient than the message's: HeldDeliveryError.

    One that was merged into the message's patient is the same; so is the one that the resource is moved from.
    """
    record = interaction.record
    reference = held_by(found.body, record.holder)
    ours = exchange.references[record.patient]
    if not reference or reference == ours:
        return
    if interaction.moved_from and reference == exchange.references.get(interaction.moved_from):
        return
    other = None
    if reference.startswith(PATIENT):
        other = await exchange.read(reference.removeprefix(PATIENT))
        if other is not None and (await head_of(exchange, other)).reference == ours:
            return
    theirs = involved("its patient", other) if other is not None else (reference, "its patient", (), "")
    whose = (involved("named by the message", found), theirs, await _ours(exchange, ours))
    raise HeldDeliveryError(OF_ANOTHER.get(record.type, "resource-of-another-patient"), involved=whose)


async def _ours(exchange: Exchange, reference: str) -> InvolvedRecord:
    """Return the message's own patient as a hold names it: as read, where it is at the server."""
    role = "patient of the message"
    patient = await exchange.read(reference.removeprefix(PATIENT)) if reference.startswith(PATIENT) else None
    return involved(role, patient) if patient is not None else (reference, role, (), "")


def remembered_as(type_: str, identity: Identity, logical_id: str) -> tuple[Identity, KnownIdentifier]:
    """Return the remembered identity of a resource other than the Patient: its type keeps it apart."""
    (key,) = _keys(type_, (identity,))
    return key, KnownIdentifier(key, logical_id)


def _keys(type_: str, identities: Sequence[Identity]) -> dict[Identity, Identity]:
    """Return identities by what they are remembered as."""
    return {Identity(f"{type_} {identity.system}", identity.value): identity for identity in identities}


def search_kept(identities: Sequence[Identity]) -> str:
    """Return the query for resources with any of the identifiers."""
    tokens = ",".join(f"{escaped(system)}|{escaped(value)}" for system, value in identities)
    return f"identifier={quote(tokens, safe='')}"


async def _remembered(exchange: Exchange, interaction: Keep, identities: Sequence[Identity]) -> ServerResource | None:
    type_ = interaction.record.type
    cache = exchange.server.cache_of(type_)
    for identity in identities:
        cached = exchange.recall(type_, (identity,))
        if cached is not None and standing(cached):
            return cached
    keys = _keys(type_, identities)
    known = await exchange.memory.known(tuple(keys))
    for key, identity in keys.items():
        if key not in known:
            continue
        found = await exchange.read(known[key].logical_id, type_)
        if found is None or not carries(found.body, identity):
            exchange.server.forget()  # what the journal knows is there no more
        elif standing(found):
            if not interaction.overwrite:
                cache.put(replace(found, body={}), (identity,), exchange.source, {})
            return found
    return None


def standing(found: ServerResource) -> bool:
    """Say whether a resource is one that messages may mean: not one in error, nor an account that is over."""
    return found.body.get("status") not in OVER.get(found.type_, (ENTERED_IN_ERROR,))


async def _searched(exchange: Exchange, interaction: Keep, identities: Sequence[Identity]) -> ServerResource | None:
    record = interaction.record
    matches: tuple[ServerResource, ...] = ()
    for holder in _holders(exchange, interaction):
        if not matches or interaction.merges:
            matches += await exchange.search(f"{holder}{search_kept(identities)}", record.type)
    matches += await hidden(exchange, record.type, _keys(record.type, identities), matches)
    under = None if matches else await there_under(exchange, record.identities[0], record.type)
    if under is not None and any(carries(under.body, identity) for identity in identities):
        matches = (under,)
    meant = [match for match in matches if standing(match)] or list(matches)
    by_new = [one for one in meant if any(carries(one.body, item) for item in record.identities)]
    by_old = [one for one in meant if any(carries(one.body, item) for item in record.retired)]
    if interaction.merges:
        for one in by_old:
            await owner_of(exchange, interaction, one)
    apart = any(one.logical_id != other.logical_id for one in by_new for other in by_old)
    if record.retired and apart and not interaction.merges:
        whose = (
            *(involved("has the old number", one) for one in by_old),
            *(involved("has the new number", one) for one in by_new),
        )
        raise HeldDeliveryError("would-merge", involved=whose)
    for identity in identities:
        for how in ("current", "old"):
            found = [one for one in meant if carries(one.body, identity) == how]
            if len(found) > 1 and interaction.overwrite:
                raise HeldDeliveryError("multiple-matches", involved=tuple(involved("matches", one) for one in found))
            if found:
                return min(found, key=lambda one: one.logical_id)
    return None


def _holders(exchange: Exchange, interaction: Keep) -> list[str]:
    """Return the beginnings of the queries to try: the patients whom the resource may belong to."""
    record = interaction.record
    if not record.holder:
        return [""]
    names = (interaction.moved_from, record.patient, interaction.also_of)
    patients = dict.fromkeys(exchange.references[name] for name in names if name in exchange.references)
    return [asked_of(record.type, patient) for patient in patients]


SEVERAL: Final = "multiple-matches"


async def find(exchange: Exchange, interaction: Find) -> str:
    """Carry out a Find: what refers to it does so from then on, or is left out with a note. Always `unchanged`.

    The server is asked each time, for what is found today may be somebody else's tomorrow. Raises HeldDeliveryError
    (`order-of-another-patient`) and those of a delivery.
    """
    record = interaction.record
    named = stu3_name(record.type) if exchange.server.settings.fhir == "STU3" else ""
    found = await exchange.search(search_kept(record.identities), record.type, named)
    found = tuple(one for one in found if standing(one))
    if record.holder and len(found) > 1:
        ours = exchange.references.get(record.patient)
        found = tuple(one for one in found if held_by(one.body, record.holder) == ours) or found
    if len(found) != 1:
        exchange.note(SEVERAL if found else interaction.absent)
        exchange.unfound.add(record.local)
        return "unchanged"
    if record.holder:
        await owner_of(exchange, Keep(record), found[0])
    exchange.references[record.local] = found[0].reference
    exchange.pointed.add(record.local)
    return "unchanged"
