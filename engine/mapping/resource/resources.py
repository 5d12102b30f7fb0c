"""Checks and compiles all resource files but the Patient's."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final

from engine.mapping.files.document import Document, Problems
from engine.mapping.files.overlay import FIELD
from engine.mapping.files.reference import elements, kind_of, nearest
from engine.mapping.files.table import MappingTable
from engine.mapping.language.check import path_fault
from engine.mapping.language.dependence import references_of
from engine.mapping.language.expression import SegmentPath
from engine.mapping.language.identifier import Identifiers
from engine.mapping.language.node import Step
from engine.mapping.language.references import SAME, WHOLE
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler
from engine.mapping.resource.lists import SEGMENTS
from engine.mapping.resource.provenance import TARGET
from engine.mapping.resource.referred import FROM, IDENTIFIER, NUMBER, TEXT, makers
from engine.mapping.resource.resource import (
    ADMITTED,
    NUMBER_TYPE,
    VISIT,
    IdentityField,
    Numbers,
    ResourceMapping,
    admission_time,
)
from engine.mapping.resource.resource_file import Resource, ResourceRules
from engine.mapping.resource.slice_cache import Memo, SliceReader
from engine.mapping.resource.slice_writer import ResourceWriter, SliceWriter
from engine.mapping.resource.slices import Slices
from engine.mapping.resource.status import status_table
from engine.mapping.resource.type_rules import check_holder, check_required, filled, known_type, written
from engine.mapping.subject.events import EventTable

FILE_KEYS: Final = frozenset({
    "resource", "extends", "patient", "identity", "status", "elements", "missing", "late", "new", "merge",
    "along", "visit", "when",
})  # fmt: skip
NUMBERS: Final = ("keys", "else", "also", "merged")
IDENTITY_KEYS: Final = frozenset({*NUMBERS, "type", "types", ADMITTED, NUMBER})
JOIN: Final = "join"
JOIN_KEYS: Final = frozenset({JOIN, "type"})
MERGE_KEYS: Final = frozenset({"to", "part"})
MISSING_KEYS: Final = frozenset({"flag", "unless"})
FILES: Final = "the files in resources/"
TYPES_TABLE: Final = "identifier-type"
CX: Final = "CX"


def compile_resources(
    compiler: Compiler, documents: Mapping[str, Document], identifiers: Identifiers, tables: Mapping[str, MappingTable]
) -> dict[str, Resource]:
    """Compile every resource file but the Patient's; referred types first, so that others may refer to them."""
    ordered = sorted(documents, key=lambda name: (FROM not in documents[name].value, name != "Organization", name))
    resources: dict[str, Resource] = {}
    for name in ordered:
        document = documents[name]
        if TARGET in document.value or not known_type(compiler, Scope(document), name):
            continue
        if FROM in document.value:
            for maker, authored, made in makers(compiler, document, identifiers):
                compiler.makers[maker], compiler.named[maker] = made, references_of(authored)
                compiler.makes[maker] = name
        elif name != "Patient" and SEGMENTS not in document.value:
            resources[name] = _resource(compiler, document, name, identifiers, tables)
    return resources


def check_acts(
    table: EventTable,
    resources: Mapping[str, Resource],
    lists: Set[str],
    along: Set[str],
    events: Document,
    documents: Mapping[str, Document],
    problems: Problems,
) -> None:
    """Note acts of the event table and types to be sent without a resource file.

    `along`: types that come with every event without an act.
    """
    known = {"Patient", *resources, *lists, *along}
    for type_ in sorted(table.sent - known):
        problems.add(events, ("resources",), f"found {type_!r}", nearest(type_, known, FILES))
    for event, rule in table.rules.items():
        for act in rule.acts:
            if act.type_ not in resources and act.type_ not in lists:
                found = f"{act.verb.value} {act.type_.lower()}"
                problems.add(
                    events, ("events", event, "do"), found, f"write resources/{act.type_.lower()}.yaml, or take it out"
                )
        parts = {part for act in rule.acts if act.type_ in resources for part in resources[act.type_].parts}
        own = [documents[act.type_] for act in rule.acts if act.type_ in resources]
        for one in rule.clears if parts else ():
            if one not in parts:
                _uncleared(event, one, nearest(one, parts, "resources/"), events, own, problems)


def _uncleared(event: str, part: str, hint: str, events: Document, own: Sequence[Document], problems: Problems) -> None:
    """Note a cleared part that no file maps: in the event file, or if that ships, in the site's own file."""
    path = ("events", event, "clears")
    sites = next((one for one in own if not one.ships), None)
    if sites is None or not events.is_shipped(path):
        problems.add(events, path, f"found {part!r}", hint)
        return
    expected = f"map it, or say in an event file of your own what {event} clears"
    problems.add(sites, ("elements",), f"no {part!r}, which {event} clears ({events.shown(path)})", expected)


def new_writer(compiler: Compiler, scope: Scope, name: str) -> SliceWriter:
    """Return the writer of what a new resource needs where the message does not say it (`new`)."""
    template = scope.document.value.get("new") or {}
    body = ResourceWriter(compiler.object(template, scope.at("new"), name, whole=False).step, name)
    return SliceWriter(body, compiler.dependence(template), always=True)


def _resource(
    compiler: Compiler, document: Document, name: str, identifiers: Identifiers, tables: Mapping[str, MappingTable]
) -> Resource:
    scope = Scope(document)
    value = document.value
    compiler.keys(value, FILE_KEYS, scope)
    holder = str(value.get("patient") or "")
    check_holder(compiler, scope, name, holder)
    slices = Slices(compiler, document, name)
    mapping = ResourceMapping(
        name,
        holder,
        _numbers(compiler, scope.at("identity"), value.get("identity"), tables),
        SliceReader(slices.writers()),
        status_table(compiler, scope, name),
        identifiers,
    )
    template = value.get("new") or {}
    status = _status(value.get("status"), name)
    check_required(
        compiler, scope.at("elements"), name, {*written(holder), *status, *slices.filled(), *filled(template)}
    )
    new = new_writer(compiler, scope, name)
    if value.get("along") not in {None, "yes", "no"}:
        compiler.problem(scope.at("along"), f"found {value['along']!r}", "expected yes or no")
    tests = compiler.guards({"when": value["when"]}, scope) if "when" in value else []
    when = tests[0][0].test if tests else None
    rules = replace(_rules(compiler, scope, value, name), parts=slices.parts())
    refers = any(mark in repr(value.get("elements")) for mark in (SAME, *WHOLE))
    first = Memo(new.depends, lambda reading: new.read(reading.apart()))
    return Resource(mapping, first, rules, when, along=value.get("along") == "yes", refers=refers)


def _status(value: Any, name: str) -> set[str]:
    """Return the element that a status table fills: `status`, unless it names another known one."""
    own = str((value.get("element") if isinstance(value, dict) else None) or "status")
    return {own if own in elements()[name] else "status"} if value else set()


def _rules(compiler: Compiler, scope: Scope, value: dict[str, Any], name: str) -> ResourceRules:
    missing, merged = value.get("missing") or {}, value.get("merge") or {}
    if isinstance(missing, str):
        missing = {"flag": missing}
    for given, keys, key in ((missing, MISSING_KEYS, "missing"), (merged, MERGE_KEYS, "merge")):
        compiler.keys(given, keys, scope.at(key))
    part = str(merged.get("part") or "")
    if part:
        compiler.has(name, part, scope.at("merge", "part"))
    guards = compiler.guards({"unless": missing["unless"]}, scope.at("missing")) if "unless" in missing else []
    tests = tuple(check.test for check, _ in guards)
    flag, late, to = (str(one or "") for one in (missing.get("flag"), value.get("late"), merged.get("to")))
    visit = str(value.get("visit") or "")
    if visit:
        compiler.has(VISIT, visit, scope.at("visit"), many=True)
    return ResourceRules(flag, tests, late, to, part, visit=visit)


def _numbers(compiler: Compiler, scope: Scope, value: Any, tables: Mapping[str, MappingTable]) -> Numbers:
    if not isinstance(value, dict):
        compiler.problem(scope, "no identity", "write {keys: [PV1-19], type: VN}")
        return Numbers((), (), (), ())
    compiler.keys(value, IDENTITY_KEYS, scope)
    table = tables.get(TYPES_TABLE)

    named_types = value.get("types") or {}

    def number(given: Any, at: Scope) -> IdentityField | None:
        """Return a field's number, or the `join` of several; None if neither is named."""
        join = given.get(JOIN) if isinstance(given, dict) else None
        steps, text = _steps(compiler, given, at) if isinstance(given, dict) else (), str(join[0] if join else given)
        field = FIELD.match(text) if steps else FIELD.fullmatch(text)
        if field is None:
            compiler.problem(at, f"found {text!r}", "expected a field such as PV1-19, or {join: [PV1-19.1, PV1-3.4]}")
            return None
        if fault := path_fault(SegmentPath(field[1], int(field[2])), scope):
            compiler.problem(at, *fault)
        own = given.get("type") if isinstance(given, dict) else named_types.get(text)
        type_ = str(own or value.get("type") or "")
        target = table.codes.get(type_) if table else None
        coding = {"system": NUMBER_TYPE, "code": type_, "display": target.display if target else ""}
        return IdentityField(field[1], int(field[2]), type_, {"coding": [coding]}, steps)

    def numbers(key: str) -> tuple[IdentityField, ...]:
        given = value.get(key) or []
        places = enumerate(given) if isinstance(given, list) else [(None, given)]
        at = scope.at(key)
        found = [number(one, at if index is None else at.at(index)) for index, one in places]
        return tuple(one for one in found if one is not None)

    within = Scope(scope.document, (*scope.path, NUMBER), type_=CX)
    more = compiler.object(value[NUMBER], within, IDENTIFIER).step if value.get(NUMBER) else None
    keys, others, also, merged = map(numbers, NUMBERS)
    types = tuple(dict.fromkeys(one.type_ for one in (*keys, *others)))
    return Numbers(keys, others, also, merged, more, admission_time(compiler, scope, value, types))


def _steps(compiler: Compiler, given: dict[str, Any], at: Scope) -> tuple[Step, ...]:
    """Compile the parts of a number made of several fields; empty if they are invalid."""
    compiler.keys(given, JOIN_KEYS, at)
    parts = given.get(JOIN)
    if not isinstance(parts, list) or len(parts) < 2:
        found = "one field" if isinstance(parts, list) and parts else kind_of(parts)
        compiler.problem(at, f"found {found}", "join two fields or more: {join: [PV1-19.1, PV1-3.4], type: VN}")
        return ()
    return tuple(compiler.expression(one, at.at(JOIN, index), TEXT).step for index, one in enumerate(parts))
