"""Which visit a message speaks of that gives it no number, and which one without a number it numbers.

A visit is known by its patient and by the minute in which it began, as the server has it now: so it is found whoever
made it, whatever its patient was called then, and after its time was corrected. Of several the engine never chooses.
"""

from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from engine.deliver.patient.remember import recall
from engine.deliver.resources.found import found_by, remembered_as, standing
from engine.deliver.stored import Body, ServerResource
from engine.deliver.wire.exchange import Exchange
from engine.errors import PermanentDeliveryError
from engine.fhir.patient import carries, number_of
from engine.fhir.patient_compartment import held_by
from engine.fhir.plan import Admission, Identity, Keep, ResourceRecord

TEMPORARY: Final = "temporary-visit"
NUMBERED: Final = "visit-numbered"
AT_ONE_TIME: Final = "visits-at-one-time"
UNSEARCHED: Final = "visits-not-searched"
MOST_VISITS: Final = 50


async def met(exchange: Exchange, interaction: Keep, *, remembered: bool) -> tuple[Keep, ServerResource | None]:
    """Return the resource that a record speaks of (None where none is known), and what is then asked of it.

    Where a message without a number may mean several visits, none is returned and none is to be made; what would refer
    to it goes without (`exchange.unfound`). `remembered` is as of `upsert_resource`; which visits began at a time is
    asked of the server each time. Raises what `found_by` raises.
    """
    record = interaction.record
    if record.admission is None:
        return interaction, await found_by(exchange, interaction, remembered=remembered)
    found = None if is_temporary(record) else await found_by(exchange, interaction, remembered=remembered)
    if found is not None or exchange.references[record.patient] in exchange.made:
        return interaction, found
    then = await _began_then(exchange, record, record.admission)
    if not then:
        return interaction, None
    if is_temporary(record):
        return _without_number(exchange, interaction, record.admission, then)
    return interaction, await _to_number(exchange, interaction, then)


def is_temporary(record: ResourceRecord) -> bool:
    """Say whether a message gives a visit no number but that which patient and time make."""
    return record.admission is not None and record.identities == (record.admission.number,)


def is_unnumbered(body: Body, record: ResourceRecord) -> bool:
    """Say whether a visit as it is stored goes by a temporary number alone, and the record may number it."""
    numbers = [identifier for identifier in body.get("identifier") or () if isinstance(identifier, dict)]
    return bool(numbers) and all(number.get("use") == "temp" for number in numbers) and record.admission is not None


def _without_number(
    exchange: Exchange, interaction: Keep, admission: Admission, then: tuple[ServerResource, ...]
) -> tuple[Keep, ServerResource | None]:
    """Return the one visit that is meant without a number; under the numbers that it has by now, where it has any."""
    record = interaction.record
    if len(then) > 1:
        exchange.note(AT_ONE_TIME)
        exchange.unfound.add(record.local)
        return interaction._replace(create=False, absent="unchanged"), None
    (found,) = then
    numbers = tuple(number_of(number) for number in _numbers(found.body, admission))
    if not numbers:
        return interaction, found
    exchange.server.cache_of(record.type).drop(found.logical_id)
    return interaction._replace(record=record._replace(identities=numbers, identifiers=())), found


async def _to_number(exchange: Exchange, interaction: Keep, then: tuple[ServerResource, ...]) -> ServerResource | None:
    """Return the visit without a number that is meant by one which nothing goes by yet."""
    known = await found_by(exchange, interaction._replace(create=False), remembered=False)
    waiting = [one for one in then if is_unnumbered(one.body, interaction.record)]
    if known is not None or len(waiting) != 1:
        exchange.note(*(() if known else (AT_ONE_TIME,)))
        return known
    exchange.note(NUMBERED)
    return waiting[0]


async def _began_then(exchange: Exchange, record: ResourceRecord, admission: Admission) -> tuple[ServerResource, ...]:
    """Return the visits of a patient that began in a minute, and that go by a number of a visit or a temporary one.

    Of those that were not over by then the server is asked for the first to begin. Where it does not answer such a
    search, what is remembered of the minute is all there is. A message without a number means what one with it would:
    where all of them were merged away, the visits that they went into.
    """
    ours = exchange.references[record.patient]
    since = quote(f"ge{admission.at}:00Z", safe="")
    query = f"patient={quote(ours, safe='')}&date={since}&_sort=date&_count={MOST_VISITS}"
    try:
        found = {one.logical_id: one for one in await exchange.search(query, record.type)}
    except PermanentDeliveryError:
        exchange.note(UNSEARCHED)
        found = {}
    key, _ = remembered_as(record.type, admission.number, "")
    for known in (await recall(exchange, (key,))).values():
        if known.logical_id in found:
            continue
        deleted = exchange.deleted
        hidden = await exchange.read(known.logical_id, record.type)
        exchange.deleted = exchange.deleted if is_temporary(record) else deleted
        if hidden is not None and held_by(hidden.body, record.holder) == ours:
            found[hidden.logical_id] = hidden
    meant = [one for one in found.values() if _is_meant(one.body, admission)]
    then = tuple(one for one in meant if standing(one))
    if then or not is_temporary(record):
        return then
    heads = [await _merged_into(exchange, one, admission) for one in meant]
    ours_too = {one.logical_id: one for one in heads if one is not None and held_by(one.body, record.holder) == ours}
    return tuple(ours_too.values())


async def _merged_into(exchange: Exchange, gone: ServerResource, admission: Admission) -> ServerResource | None:
    """Return the visit that one in error was merged into, over several merges; None where it was in error otherwise."""
    seen: set[str] = set()
    while not standing(gone) and gone.logical_id not in seen:
        seen.add(gone.logical_id)
        reference = str((gone.body.get("partOf") or {}).get("reference") or "")
        logical_id = reference.removeprefix(f"{gone.type_}/")
        other = await exchange.read(logical_id, gone.type_) if logical_id != reference else None
        kept = other is not None and any(
            carries(other.body, number_of(number)) == "old" for number in _numbers(gone.body, admission)
        )
        if other is None or not kept:
            return None
        gone = other
    return gone if standing(gone) else None


def _is_meant(body: Body, admission: Admission) -> bool:
    begin = (body.get("period") or {}).get("start")
    temporary = any(identifier.get("use") == "temp" for identifier in body.get("identifier") or ())
    return _minute(begin) == admission.at and (temporary or bool(_numbers(body, admission)))


def _minute(begin: Any) -> str:
    """Return the minute of a dateTime in UTC; empty where it tells none."""
    try:
        moment = datetime.fromisoformat(begin)
    except (TypeError, ValueError):
        return ""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M") if moment.tzinfo else ""


def _numbers(body: Body, admission: Admission) -> list[dict[str, Any]]:
    """Return the current numbers of a visit that are of the types by which visits go."""
    return [
        one for one in body.get("identifier") or () if one.get("use") not in {"old", "temp"} and _is_of(one, admission)
    ]


def _is_of(number: dict[str, Any], admission: Admission) -> bool:
    codings = (number.get("type") or {}).get("coding") or ()
    return any(coding.get("code") in admission.types for coding in codings) and number_of(number) != Identity("", "")
