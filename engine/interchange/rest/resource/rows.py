"""Index rows of a resource, made from its type's search parameters."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.fhir.versions.addresses import system_in_r4
from engine.interchange.rest.resource.definition import CARE, Definition
from engine.interchange.rest.resource.elements import start, values
from engine.interchange.store.index import DateRow, IdentifierRow, Index, ReferenceRow, StringRow, TokenIndexRow
from engine.interchange.store.references import local_target, references_in
from engine.interchange.store.search.criterion import Parameter, ParameterKind
from engine.interchange.store.search.date import EVER, NEVER, Span, span
from engine.interchange.store.search.text import LONGEST, contact, fold, short

# The kinds whose rows are those of codes.
TOKENS: Final = (ParameterKind.TOKEN, ParameterKind.CONTACT, ParameterKind.URI, ParameterKind.CANONICAL)
# Addresses of attachments, by type.
ATTACHED: Final = {"DocumentReference": "content.attachment.url"}


class IndexedParameter(NamedTuple):
    """A search parameter, what makes its rows of a value, and its paths, each behind the element that begins it."""

    parameter: Parameter
    rows: Callable[[Parameter, Json], Iterator[Any]]
    paths: tuple[tuple[str, str], ...]


def indexer(definition: Definition) -> Callable[[JsonObject], Index]:
    """Return what makes the index rows of a valid resource (R4) of a type."""
    sources = tuple(
        IndexedParameter(parameter, ROWS[parameter.kind], tuple((start(path), path) for path in parameter.elements))
        for parameter in definition.parameters
        if parameter.kind in ROWS
    )
    return partial(_index, definition, sources)


def _index(definition: Definition, sources: tuple[IndexedParameter, ...], resource: JsonObject) -> Index:
    made: dict[ParameterKind, set[Any]] = {kind: set() for kind in ROWS}
    # Several parameters read the same elements.
    seen: dict[str, list[Any]] = {}
    for parameter, rows, paths in sources:
        own = made[parameter.kind]
        for first, path in paths:
            if first and first not in resource:
                continue
            found = seen.get(path)
            if found is None:
                found = seen[path] = values(resource, path)
            for value in found:
                own.update(rows(parameter, value))
        if parameter.default and not any(row[0] == parameter.rows for row in own):
            own.update(rows(parameter, parameter.default))
    made[ParameterKind.DATE].update(DateRow(CARE, *period) for period in care_dates(definition, resource))
    named = {row.target for row in made[ParameterKind.REFERENCE]}
    others = {local_target(reference) for reference in references_in(resource)} - named
    # Documents are found by what they have attached, wherever that is.
    others |= {short(url) for url in values(resource, ATTACHED.get(definition.name, ""))}
    return Index(
        strings=frozenset(made[ParameterKind.STRING]),
        tokens=frozenset().union(*(made[kind] for kind in TOKENS)),
        dates=frozenset(made[ParameterKind.DATE]),
        identifiers=frozenset(made[ParameterKind.IDENTIFIER]),
        references=frozenset(made[ParameterKind.REFERENCE] | {ReferenceRow("", target) for target in others if target}),
    )


def care_dates(definition: Definition, resource: JsonObject) -> tuple[Span, ...]:
    """Return the spans of a resource's clinical date; empty for one that has none."""
    for path in definition.care:
        found = tuple(period for value in values(resource, path) for period in spans(value))
        if found:
            return found
    return ()


def spans(value: Json) -> Iterator[Span]:
    """Yield what a date, dateTime, instant, Period or Timing covers, in milliseconds; nothing for other values."""
    if isinstance(value, str):
        covered = span(value)
        if covered:
            yield covered
    elif isinstance(value, dict):
        low, high = span(value.get("start", "")), span(value.get("end", ""))
        if low or high:
            first, last = (low[0] if low else NEVER), (high[1] if high else EVER)
            # One that ends before it begins covers what lies between: nobody else would find it.
            yield min(first, last), max(first, last)
        for inner in (*value.get("event", ()), value.get("repeat", {}).get("boundsPeriod")):
            yield from spans(inner)


def _strings(parameter: Parameter, value: Json) -> Iterator[StringRow]:
    if isinstance(value, str) and value:
        yield StringRow(parameter.rows, fold(value)[:LONGEST], value[:LONGEST])


def _tokens(parameter: Parameter, value: Json) -> Iterator[TokenIndexRow]:
    if isinstance(value, bool):
        yield TokenIndexRow(parameter.rows, "true" if value else "false", parameter.system)
    elif isinstance(value, str):
        yield TokenIndexRow(parameter.rows, short(value), parameter.system)
    elif isinstance(value, dict):
        for coding in value.get("coding", (value,)):
            if coding.get("code"):
                # Found by either address: the row has R4's, whatever base the resource came by.
                system = system_in_r4(coding.get("system", ""))
                yield TokenIndexRow(parameter.rows, short(coding["code"]), short(system))


def _contacts(parameter: Parameter, value: Json) -> Iterator[TokenIndexRow]:
    if isinstance(value, dict) and contact(value.get("value", "")):
        yield TokenIndexRow(parameter.rows, short(contact(value["value"])), short(value.get("system", "")))


def _dates(parameter: Parameter, value: Json) -> Iterator[DateRow]:
    yield from (DateRow(parameter.rows, *covered) for covered in spans(value))


def _identifiers(parameter: Parameter, value: Json) -> Iterator[IdentifierRow]:
    if isinstance(value, dict) and value.get("value"):
        yield IdentifierRow(parameter.rows, short(value["value"]), short(value.get("system", "")), 0)


def _references(parameter: Parameter, value: Json) -> Iterator[ReferenceRow]:
    target = local_target(value.get("reference", "")) if isinstance(value, dict) else ""
    if target:
        yield ReferenceRow(parameter.rows, target)


def _uris(parameter: Parameter, value: Json) -> Iterator[TokenIndexRow]:
    if isinstance(value, str) and value:
        yield TokenIndexRow(parameter.rows, short(value), "")


def _canonicals(parameter: Parameter, value: Json) -> Iterator[TokenIndexRow]:
    """Yield the rows of an address of a definition, under which it is found with its version and without."""
    if isinstance(value, str) and value:
        yield from (TokenIndexRow(parameter.rows, short(one), "") for one in {value, value.partition("|")[0]})


ROWS: Final[dict[ParameterKind, Callable[[Parameter, Json], Iterator[Any]]]] = {
    ParameterKind.STRING: _strings,
    ParameterKind.TOKEN: _tokens,
    ParameterKind.CONTACT: _contacts,
    ParameterKind.URI: _uris,
    ParameterKind.CANONICAL: _canonicals,
    ParameterKind.DATE: _dates,
    ParameterKind.IDENTIFIER: _identifiers,
    ParameterKind.REFERENCE: _references,
}
