"""A patient as people see one: who a message says it is, what the journal has, and what each destination holds now."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from engine.deliver.patient.chart import PatientChart
from engine.deliver.stored import ServerResource
from engine.fhir.patient import links, person, replaced_by
from engine.ops.views.answer import Answer, Count, EntrySeq, Time, known_as
from engine.ops.views.entry import Row
from engine.ops.views.segments import Named, full_name
from engine.ops.views.verdict import PatientVerdict

KINDS: Final = ("replaces", "replaced-by", "seealso", "refer")

Body = Mapping[str, Any]


class NumberAt(Answer):
    """What a number is to a record of a destination: current, old, chosen, confirmed, merged-away into `survivor`."""

    destination: str
    status: str
    patient: str
    survivor: str


class NumberView(Answer):
    """A number of the patient, with the first and the last entry that names it."""

    system: str
    value: str
    first: Count | None
    first_at: Time | None
    last: Count | None
    last_at: Time | None
    at: tuple[NumberAt, ...]


class MergeView(Answer):
    """A merge of one number into another that was carried out at a destination."""

    destination: str
    source: str
    survivor: str
    entry: EntrySeq
    at: Time | None


class HeldOf(Answer):
    """An entry of the patient that is held, why and since when, and how many entries wait behind it."""

    entry: EntrySeq
    destination: str
    event: str
    reason: str
    since: Time | None
    waiting: Annotated[Count, known_as("waiting", "entries")]
    particulars: tuple[str, ...]


class RecordNumber(Answer):
    """An Identifier of a record; `use` and the period where it says them."""

    system: str
    value: str
    use: str
    start: str
    end: str


class RecordLink(Answer):
    """A link of a record to another one, by its FHIR type."""

    kind: str
    patient: str


class Record(Answer):
    """A Patient of a destination, as it is now."""

    patient: str
    version: str
    updated: str
    active: bool
    merged: bool
    name: str
    former: tuple[str, ...]
    born: str
    gender: str
    died: str
    address: str
    phone: str
    numbers: tuple[RecordNumber, ...]
    links: tuple[RecordLink, ...]


class Visit(Answer):
    """An Encounter of the patient at a destination."""

    visit: str
    numbers: tuple[str, ...]
    status: str
    kind: str
    start: str
    end: str
    place: str


class AtDestination(Answer):
    """What a destination holds of the patient; `refused` says why it could not be read, '' where it was.

    `visits_refused`: why the visits alone could not be read. `more`: there are more records or visits than these.
    """

    destination: str
    refused: str
    records: tuple[Record, ...]
    visits: tuple[Visit, ...]
    visits_refused: str
    more: bool


class Other(Answer):
    """Another patient who is meant as well, by the lane and an entry that names that one."""

    lane: Count
    entry: Count
    name: str
    numbers: tuple[str, ...]


class PatientView(Answer):
    """Everything about a patient; `others` are those whom the same entry names, `before` is for the next page.

    `crowded`: more than 100 numbers are held to be this patient, of which the first are shown.
    """

    entry: Count
    lane: Count
    name: str
    born: str
    verdict: PatientVerdict
    numbers: tuple[NumberView, ...]
    crowded: bool
    merges: tuple[MergeView, ...]
    held: tuple[HeldOf, ...]
    destinations: tuple[AtDestination, ...]
    others: tuple[Other, ...]
    messages: tuple[Row, ...]
    before: Count | None


def held_at(destination: str, found: PatientChart) -> AtDestination:
    """Return what a destination holds."""
    return AtDestination(
        destination=destination,
        refused="",
        records=tuple(map(record, found.patients)),
        visits=tuple(map(_visit, found.visits)),
        visits_refused=found.refused,
        more=found.more,
    )


def refused_at(destination: str, why: str) -> AtDestination:
    """Return that a destination could not be read, and why."""
    return AtDestination(destination=destination, refused=why, records=(), visits=(), visits_refused="", more=False)


def record(stored: ServerResource) -> Record:
    """Return a Patient; elements that are not as FHIR has them are left out."""
    body = stored.body
    who, meta = person(body), _object(body.get("meta"))
    names = [_of_name(one) for one in _objects(body, "name") if one.get("use") == "old"]
    return Record(
        patient=stored.logical_id,
        version=_text(meta.get("versionId")),
        updated=_text(meta.get("lastUpdated")),
        active=body.get("active") is not False,
        merged=bool(replaced_by(body)),
        name=full_name(who.family, who.given),
        former=tuple(name for name in names if name),
        born=who.birth_date,
        gender=who.gender,
        died=_text(body.get("deceasedDateTime")) or ("yes" if body.get("deceasedBoolean") is True else ""),
        address=next(filter(None, map(_address, _objects(body, "address"))), ""),
        phone=next((_text(telecom.get("value")) for telecom in _objects(body, "telecom")), ""),
        numbers=tuple(_numbers(body)),
        links=tuple(links_of(body)),
    )


def links_of(body: Body) -> Iterator[RecordLink]:
    """Yield the links of a Patient to others."""
    for kind in KINDS:
        yield from (RecordLink(kind=kind, patient=link) for link in links(dict(body), kind))


def _visit(stored: ServerResource) -> Visit:
    body = stored.body
    period, kind = _object(body.get("period")), _object(body.get("class"))
    places = sorted(_objects(body, "location"), key=lambda one: one.get("status") != "active")
    return Visit(
        visit=stored.logical_id,
        numbers=tuple(number.value for number in _numbers(body)),
        status=_text(body.get("status")),
        kind=_text(kind.get("display")) or _text(kind.get("code")),
        start=_text(period.get("start")),
        end=_text(period.get("end")),
        place=next((_text(_object(place.get("location")).get("display")) for place in places), ""),
    )


def _numbers(body: Body) -> Iterator[RecordNumber]:
    for one in _objects(body, "identifier"):
        period = _object(one.get("period"))
        yield RecordNumber(
            system=_text(one.get("system")), value=_text(one.get("value")), use=_text(one.get("use")),
            start=_text(period.get("start")), end=_text(period.get("end")),
        )  # fmt: skip


def _of_name(one: Body) -> str:
    given = one.get("given")
    return full_name(_text(one.get("family")), _text(given[0]) if isinstance(given, list) and given else "")


def _address(one: Body) -> str:
    line = one.get("line")
    first = _text(line[0]) if isinstance(line, list) and line else ""
    return ", ".join(filter(None, (first, f"{_text(one.get('postalCode'))} {_text(one.get('city'))}".strip())))


def _objects(body: Body, name: str) -> list[Body]:
    value = body.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _object(value: object) -> Body:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


LEAST: Final = 3
PARTS: Final = f"parts (from {LEAST} characters) of names, patients' numbers and visit numbers"
FACTS: Final = "whole control IDs and entry numbers"
OF_PATIENTS: Final = f"{FACTS}, whole numbers of patients, {PARTS}, and whole words of messages"


class SearchedView(Answer, facts=True):
    """How many messages a search can find, and when the oldest of them was received."""

    messages: Count
    oldest_at: Time | None


class FoundPatient(Answer, facts=True):
    """A patient who was found: the lane, and the newest entry that was found of that one."""

    lane: Count
    entry: Count


class FoundPatients(Answer, facts=True):
    """Patients who were found by parts of names and numbers; `messages.named` names them. `more`: there are more.

    `messages`: how many messages were there to search, the oldest of `oldest_at`. `back_to`: how far back they were
    read when the time for one answer was over, null where all were searched.
    """

    patients: tuple[FoundPatient, ...]
    more: bool
    messages: Count
    oldest_at: Time | None
    back_to: Time | None


def sorted_by_name(found: Sequence[FoundPatient], named: Mapping[int, Named]) -> list[Other]:
    """Return patients by name and then by number; those without a name come last."""
    others = [
        Other(lane=one.lane, entry=one.entry, name=who.name if who else "", numbers=who.numbers if who else ())
        for one in found
        for who in (named.get(one.entry),)
    ]
    return sorted(others, key=lambda one: (not one.name, one.name.casefold(), one.numbers))


def limits_of(found: FoundPatients) -> str:
    """Return what a search did not look through, or did not list; '' where it did all."""
    if found.back_to:
        return f"Names and numbers were read back to {day_of(found.back_to)} in the time for one answer."
    return f"There are more than these {len(found.patients)}: type more of the name or number." if found.more else ""


def amount_of(messages: int, oldest_at: str | None) -> str:
    """Return how many messages were searched, and since when."""
    since = f", the oldest of {day_of(oldest_at)}" if oldest_at else ""
    return f"{messages:,} message{'' if messages == 1 else 's'}{since}"


def day_of(moment: str) -> str:
    """Return the day of a moment, as the engine's machine has it."""
    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d}"
