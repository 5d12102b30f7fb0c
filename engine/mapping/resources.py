"""All resource files beside the Patient's, compiled; and what an event asks of these resources."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from engine.fhir.plan import ElementChange, Keep, ResourceRecord
from engine.fhir.references import local_names
from engine.mapping.act import Act, Verb
from engine.mapping.document import Document, Problems
from engine.mapping.events import EventTable
from engine.mapping.expression import FIELD
from engine.mapping.getter import Step
from engine.mapping.identifier import Identifiers
from engine.mapping.reading import Reading
from engine.mapping.reference import data_types, elements, nearest
from engine.mapping.referred import FROM, body_changes, referred
from engine.mapping.resource import Number, Numbers, ResourceMapping
from engine.mapping.scope import Scope
from engine.mapping.slices import Slices
from engine.mapping.status import status_table
from engine.mapping.table import Table
from engine.mapping.template import Compiler

FILE_KEYS: Final = frozenset(
    {"resource", "extends", "patient", "identity", "status", "elements", "missing", "late", "new"}
)
IDENTITY_KEYS: Final = frozenset({"keys", "else", "also", "merged", "type", "types"})
TYPES_TABLE: Final = "identifier-type"


def compile_resources(
    compiler: Compiler, documents: Mapping[str, Document], identifiers: Identifiers, tables: Mapping[str, Table]
) -> dict[str, "Resource"]:
    """Compile every resource file but the Patient's; those that a repetition names first, so that others may refer."""
    ordered = sorted(documents, key=lambda name: (FROM not in documents[name].value, name != "Organization", name))
    found: dict[str, Resource] = {}
    for name in ordered:
        document = documents[name]
        if name not in elements():
            compiler.problem(Scope(document).at("resource"), f"unknown resource {name!r}", nearest(name, elements()))
        elif FROM in document.value:
            source = str(document.value[FROM])
            if source not in data_types():
                compiler.problem(
                    Scope(document).at(FROM), f"unknown data type {source!r}", nearest(source, data_types())
                )
            compiler.makers[name] = referred(compiler, Scope(document, type_=source), identifiers)
        elif name != "Patient":
            found[name] = _resource(compiler, document, name, identifiers, tables)
    return found


def check_acts(table: EventTable, resources: Mapping[str, "Resource"], events: Document, problems: Problems) -> None:
    """Note acts of the event table with resources that have no file."""
    for event, rule in table.rules.items():
        for act in rule.acts:
            if act.type_ not in resources:
                found = f"{act.verb.value} {act.type_.lower()}"
                problems.add(events, ("events", event, "do"), found, f"no resources/{act.type_.lower()}.yaml")


class Resource:
    """One resource file, and what the verbs of the event table do with it."""

    def __init__(self, mapping: ResourceMapping, missing: str, late: str, new: Step) -> None:
        self._mapping = mapping
        self._new = new
        self._defaults: tuple[ElementChange, ...] | None = None
        self._missing = missing
        self._late = late

    def keeps(self, act: Act, clears: tuple[str, ...], reading: Reading, suffix: str, patient: str) -> list[Keep]:
        """Return what an act asks of the resource, after what it refers to; without a number a warning and nothing."""
        reading.made = {}
        record = self._mapping.record(reading, act.type_.lower() + suffix, patient)
        if record is None:
            if self._missing and self._mapping.speaks_of(reading):
                reading.warnings.append(self._missing)
            return []
        move = self._mapping.judge(reading)
        keep = Keep(
            _cleared(record, clears),
            create=act.verb is not Verb.CANCEL,
            status=move,
            clears=tuple(one for one in clears if "(" not in one),
            late=self._late if act.verb is Verb.UPDATE else "",
            defaults=self._given(reading),
        )
        return [*_needed(record, reading.made), keep]

    def _given(self, reading: Reading) -> tuple[ElementChange, ...]:
        """Return the elements of a new resource, which are the same for every message."""
        if self._defaults is None:
            body = self._new(None, reading)
            self._defaults = body_changes(body if isinstance(body, dict) else {}, self._mapping.type_)
        return self._defaults


def _cleared(record: ResourceRecord, clears: Iterable[str]) -> ResourceRecord:
    """Return a record that deletes the slices which the event clears and the message does not fill."""
    given = {(one.element, one.slice) for one in record.changes if one.items}
    gone = []
    for text in clears:
        element, _, rest = text.partition("(")
        slice_ = rest.removesuffix(")")
        if slice_ and (element, slice_) not in given:
            gone.append(ElementChange(element, slice_, (), many=True))
    if not gone:
        return record
    return ResourceRecord(
        record.type,
        record.local,
        record.identities,
        record.identifiers,
        (*record.changes, *gone),
        record.holder,
        record.patient,
        record.retired,
    )


def _needed(record: ResourceRecord, made: Mapping[str, Keep]) -> list[Keep]:
    """Return the resources that a record refers to, each once and after those that it refers to itself."""
    wanted: dict[str, Keep] = {}

    def add(name: str) -> None:
        if name in wanted or name not in made:
            return
        for change in made[name].record.changes:
            for other in local_names(change.items):
                add(other)
        wanted[name] = made[name]

    for change in record.changes:
        for name in local_names(change.items):
            add(name)
    return list(wanted.values())


def _resource(
    compiler: Compiler, document: Document, name: str, identifiers: Identifiers, tables: Mapping[str, Table]
) -> Resource:
    scope = Scope(document)
    value = document.value
    for key in value:
        if key not in FILE_KEYS:
            compiler.problem(scope.at(key), f"unknown key {key!r}", nearest(key, FILE_KEYS))
    holder = str(value.get("patient") or "")
    if holder and holder not in elements()[name]:
        compiler.problem(scope.at("patient"), f"{name} has no element {holder!r}", nearest(holder, elements()[name]))
    slices = Slices(compiler, document, name)
    mapping = ResourceMapping(
        name,
        holder,
        _numbers(compiler, scope.at("identity"), value.get("identity"), tables),
        slices.writers(),
        status_table(compiler, scope, name),
        identifiers,
    )
    new = compiler.object(value.get("new") or {}, scope.at("new"), name).step
    return Resource(mapping, str(value.get("missing") or ""), str(value.get("late") or ""), new)


def _numbers(compiler: Compiler, scope: Scope, value: Any, tables: Mapping[str, Table]) -> Numbers:
    if not isinstance(value, dict):
        compiler.problem(scope, "no identity", "write {keys: [PV1-19], type: VN}")
        return Numbers((), (), (), ())
    for key in value:
        if key not in IDENTITY_KEYS:
            compiler.problem(scope.at(key), f"unknown key {key!r}", nearest(key, IDENTITY_KEYS))
    table = tables.get(TYPES_TABLE)

    def numbers(key: str) -> tuple[Number, ...]:
        found = []
        given = value.get(key) or []
        for text in given if isinstance(given, list) else [given]:
            field = FIELD.fullmatch(str(text))
            if field is None:
                compiler.problem(scope.at(key), f"found {text!r}", "expected a field such as PV1-19")
                continue
            type_ = str((value.get("types") or {}).get(text) or value.get("type") or "")
            target = table.codes.get(type_) if table else None
            found.append(Number(field[1], int(field[2]), type_, target.display if target else ""))
        return tuple(found)

    return Numbers(numbers("keys"), numbers("else"), numbers("also"), numbers("merged"))
