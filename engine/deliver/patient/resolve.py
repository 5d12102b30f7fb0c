"""Resolving: which record of the server a message's identifiers stand for, never by choosing; and whom a hold names."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.deliver.patient.absorbed import Absorbed, head_of, replaced_with
from engine.deliver.patient.remember import recall
from engine.deliver.patient.unseen import Facts, Looked, search_patients
from engine.deliver.stored import PATIENT, ServerResource, involved
from engine.deliver.verdict import CHOSEN, CONFIRMED, OUT_OF_USE, KnownIdentifier
from engine.deliver.wire.exchange import Exchange
from engine.errors import HeldDeliveryError, InvolvedRecord
from engine.fhir.patient import bears_current, carries, carries_any, current_numbers, overlays, replaced_by
from engine.fhir.plan import Identity, PatientRecord


def merged_elsewhere(
    patient: ServerResource,
    tombstone: ServerResource | None,
    target: ServerResource | None,
    *,
    role: str = "named survivor",
) -> HeldDeliveryError:
    """Return the hold of a record that was merged into another one than the message names, with all that is known.

    `patient` is whom the number leads to now, `tombstone` the record that was merged away, `target` the other side.
    """
    found: list[InvolvedRecord] = []
    if tombstone is not None:
        found.append(involved("merged away", tombstone))
        found.append(involved("its survivor", patient))
    else:
        gone = replaced_by(patient.body)
        found.append(involved("merged away" if gone else "has the number out of use", patient))
        found += [(f"Patient/{gone}", "its survivor", (), "")] if gone else []
    if target is not None and target.logical_id != patient.logical_id:
        found.append(involved(role, target))
    return HeldDeliveryError("source-merged-elsewhere", involved=tuple(found))


@dataclass(frozen=True, slots=True)
class Resolution:
    """A record and how it was found.

    `redirected`: the identifiers stand for a record that was merged away; `patient` is the head of that chain.
    `tombstone` is the merged-away record itself, where the server shows it.
    """

    patient: ServerResource
    redirected: bool = False
    tombstone: ServerResource | None = None


async def resolve(exchange: Exchange, identities: Sequence[Identity], *, remembered: bool = True) -> Resolution | None:
    """Return the record that the identifiers stand for, None where the server has none.

    The preferred identity comes first. `remembered` False: ask the server, whatever the cache and the journal know;
    what the engine wrote and a search does not show is read by id all the same.
    Where it would be held, the record counts that an operator chose for the identifiers, if any.
    Raises HeldDeliveryError: `ambiguous-identity`, `identity-conflict`, `identity-unproven`, `merge-loop`,
    `survivor-missing`.
    """
    cached = exchange.recall(PATIENT, identities) if remembered else None
    if cached is not None:
        return Resolution(cached)
    looked: Looked = {}
    known = await recall(exchange, identities)
    found = await _remembered(exchange, identities, known, looked) if remembered else None
    if found is not None:
        return found
    resolutions = await _resolutions(exchange, identities, known, looked)
    if not resolutions:
        return None if remembered else await _chosen(exchange, known)
    chosen = await _chosen(exchange, known) if len(resolutions) > 1 else None
    found = chosen or _only(resolutions, identities)
    whose = (involved("has another number there", found.patient),)
    if (
        not chosen
        and _another_registration(found, identities[0])
        and not await replaced_with(exchange, found.patient, identities[:1])
    ):
        found = await _chosen(exchange, known)
        if found is None:
            raise HeldDeliveryError("identity-conflict", involved=whose)
    return found


async def _remembered(
    exchange: Exchange, identities: Sequence[Identity], known: Facts, looked: Looked
) -> Resolution | None:
    """Return the record that all of the identifiers are known to stand for; `looked` gets what was read."""
    records = {known[identity].logical_id for identity in identities if identity in known}
    if len(records) != 1 or not all(_certain(known.get(identity)) for identity in identities):
        return None
    logical_id = records.pop()
    patient = looked[logical_id] = await exchange.read(logical_id)
    if patient is None or not carries_any(patient.body, identities):
        exchange.server.forget()  # what the journal knows is there no more
    if patient is None or replaced_by(patient.body):
        return None
    if not all(known[item].status == CHOSEN or carries(patient.body, item) for item in identities):
        return None
    return Resolution(patient)


async def _resolutions(
    exchange: Exchange, identities: Sequence[Identity], known: Facts, looked: Looked
) -> tuple[Resolution, ...]:
    """Return what the identifiers lead to at the server, each record once.

    A match that nothing shows to have one of them is held, unless records that the search hides have them all: it is
    one of a while ago then, and shows who had them.
    """
    matches = await search_patients(exchange, identities, known, looked)
    had = all(any(carries(match.body, identity) for match in matches.hidden) for identity in identities)
    found: dict[str, Resolution] = {}
    for match in (*matches.shown, *matches.hidden):
        resolution = await _followed(exchange, match, identities)
        if resolution is None and not had and not replaced_by(match.body):
            raise HeldDeliveryError("identity-unproven", involved=(involved("was answered", match),))
        if resolution is None:
            continue
        held = found.get(resolution.patient.logical_id)
        if held is None or _rank(held, identities) < _rank(resolution, identities):
            found[resolution.patient.logical_id] = resolution
    return tuple(found.values())


async def _chosen(exchange: Exchange, known: Facts) -> Resolution | None:
    """Return the record that an operator chose, while it is there, was not merged away, and bears what it bore."""
    chosen = {item: one for item, one in known.items() if one.status in {CHOSEN, CONFIRMED}}
    records = {one.logical_id for one in chosen.values()}
    patient = await exchange.read(records.pop()) if len(records) == 1 else None
    if patient is None or replaced_by(patient.body):
        return None
    bore = [item for item, one in chosen.items() if one.status == CONFIRMED]
    return None if bore and not carries_any(patient.body, bore) else Resolution(patient)


def _certain(known: KnownIdentifier | None) -> bool:
    """Say whether an identifier need not be searched: one that is out of use may have been given out again."""
    return known is not None and known.status not in OUT_OF_USE


async def _followed(exchange: Exchange, match: ServerResource, identities: Sequence[Identity]) -> Resolution | None:
    """Return whom a match leads to, None where nothing shows that it has to do with the identifiers.

    One that bears them as old ones only is redirected to, where it has them of a record that it replaced.
    """
    if replaced_by(match.body):
        if not carries_any(match.body, identities):
            return None
        return Resolution(await head_of(exchange, match), redirected=True, tombstone=match)
    if bears_current(match.body, identities):
        return Resolution(match)
    bears_old = carries_any(match.body, identities)
    absorbed = await _absorbed(exchange, match, identities, proven=bears_old)
    if absorbed is None or (bears_old and absorbed.logical_id == match.logical_id):
        return Resolution(match) if bears_old else None
    return Resolution(match, redirected=True, tombstone=await _tombstone(exchange, absorbed, match, identities))


async def _absorbed(
    exchange: Exchange, match: ServerResource, identities: Sequence[Identity], *, proven: bool
) -> Absorbed | None:
    """Return the record that a match replaced; `proven`: it need not be found, as the match bears a number itself."""
    try:
        return await replaced_with(exchange, match, identities)
    except HeldDeliveryError as error:
        if not proven or error.reason != "identity-unproven":
            raise
        return None


async def _tombstone(
    exchange: Exchange, absorbed: Absorbed, survivor: ServerResource, identities: Sequence[Identity]
) -> ServerResource | None:
    """Return the merged-away record itself, None where the server does not show it."""
    if absorbed.record is not None or absorbed.logical_id in {"", survivor.logical_id}:
        return absorbed.record
    record = await exchange.read(absorbed.logical_id)
    return record if record is not None and carries_any(record.body, identities) else None


def _rank(found: Resolution, identities: Sequence[Identity]) -> int:
    """Say which of two ways to one record counts: its number in use, a record that it replaced, its old number."""
    if found.redirected:
        return 1
    return 2 if bears_current(found.patient.body, identities) else 0


def _only(resolutions: tuple[Resolution, ...], identities: Sequence[Identity]) -> Resolution:
    active = tuple(item for item in resolutions if item.patient.body.get("active") is not False)
    candidates = active or resolutions
    if len(candidates) == 1:
        return candidates[0]
    whose = tuple(involved("has a number", item.patient) for item in candidates)
    for identity in identities:
        if sum(bool(carries(item.patient.body, identity)) for item in candidates) > 1:
            raise HeldDeliveryError("ambiguous-identity", involved=whose)
    raise HeldDeliveryError("identity-conflict", involved=whose)


def _another_registration(found: Resolution, preferred: Identity) -> bool:
    if found.redirected or carries(found.patient.body, preferred):
        return False
    numbers = current_numbers(found.patient.body)
    return any(number.system == preferred.system and number.value != preferred.value for number in numbers)


def check_found(exchange: Exchange, record: PatientRecord, found: Resolution, named: Iterable[Identity] = ()) -> None:
    """Note, or hold, a message that speaks of another person than the record that its numbers lead to.

    A number that is out of use may have been given out again, so what is found by such numbers alone (`named`: beside
    those of the record) is held: `merged-identifier-reused`; and whoever it is where the channel's `merged_identifier`
    says so.
    """
    if not (found.redirected or out_of_use(found.patient, (*record.identities, *named))):
        check_person(exchange, record, found.patient, "overlay-suspected", exchange.channel.another_person == "hold")
        return
    if exchange.channel.merged_identifier == "hold":
        raise HeldDeliveryError("merged-identifier", involved=_out_of_use(found))
    check_person(exchange, record, found.patient, "merged-identifier-reused", hold=True, about=_out_of_use(found))
    if found.redirected:
        exchange.note("redirected-to-survivor")


def _out_of_use(found: Resolution) -> tuple[InvolvedRecord, ...]:
    """Return the merged-away record and its survivor, or the record that has the number as an old one."""
    if found.tombstone is not None:
        return involved("merged away", found.tombstone), involved("its survivor", found.patient)
    return (involved("survivor" if found.redirected else "has the number out of use", found.patient),)


def out_of_use(patient: ServerResource, identities: Iterable[Identity]) -> bool:
    """Say whether all of the identifiers that a record carries are old ones."""
    return {carries(patient.body, identity) for identity in identities} - {""} == {"old"}


def check_person(
    exchange: Exchange,
    record: PatientRecord,
    patient: ServerResource,
    code: str,
    hold: bool,
    about: tuple[InvolvedRecord, ...] = (),
) -> None:
    """Note `code`, or hold for it until somebody decides, where a message speaks of another person than a record.

    `about`: the records that such a hold names, where that is not the record alone.
    """
    if not overlays(record, patient.body):
        return
    if hold:
        exchange.hold(code, involved=about or (involved("has the number", patient),))
    exchange.note(code)
