"""What a request for $everything asks: types, days of care, changes since a moment, page size, or the next page."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine.fhir.schema import FhirVersion, resource_types
from engine.fhir.versions.names import r4_name
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.rest.resource.catalogue import CHART, SUPPORTING
from engine.interchange.store.search.date import EVER, NEVER, Span, read_since, span
from engine.interchange.store.search.page import FORMAT, Paging, Pairs, take_page

PAGES: Final = Paging(most=500, usual=100)
FILTERS: Final = ("_type", "start", "end", "_since", "_count")
CURSOR: Final = "_cursor"
REPEATABLE: Final = frozenset({"_type", *FORMAT})

RETURNED: Final = ("Patient", *(one.name for one in (*CHART, *SUPPORTING)))
DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Given = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class ChartPart:
    """The part of a chart that is asked for.

    `types` by their names in R4; `first_ms` and `last_ms` bound the care, inclusive; only what was changed after
    `since_ms` is wanted. Milliseconds since 1970, UTC.
    """

    types: frozenset[str] = frozenset(RETURNED)
    first_ms: int = NEVER
    last_ms: int = EVER
    since_ms: int = NEVER


@dataclass(frozen=True, slots=True)
class EverythingRequest:
    """A request for $everything: a first page of `count` resources, or the page that `cursor` leads to (None: none).

    `form` are the parameters that the link to the next page keeps.
    """

    wanted: ChartPart
    count: int
    cursor: str | None
    form: Pairs


def read_question(query: Pairs, version: FhirVersion) -> EverythingRequest:
    """Return what a query asks for; RefusedError (400) for what is unknown, repeated or malformed."""
    given = {name: [value for other, value in query if other == name] for name, _ in query}
    _check_names(given)
    page, _ = take_page(tuple(pair for pair in query if pair[0] == "_count"), PAGES)
    first_ms, _ = _day(given, "start")
    _, last_ms = _day(given, "end")
    if first_ms > last_ms:
        raise _bad("start", "start is after end.")
    since = given["_since"][0] if "_since" in given else None
    wanted = ChartPart(_types(given.get("_type"), version), first_ms, last_ms, read_since(since))
    form = tuple(pair for pair in query if pair[0] in FORMAT)
    return EverythingRequest(wanted, page.count, given[CURSOR][0] if CURSOR in given else None, form)


def _check_names(given: Given) -> None:
    if not given.keys() <= {*FILTERS, CURSOR, *FORMAT}:
        text = f"$everything takes the parameters {', '.join(FILTERS)} and _format."
        raise refuse(Category.UNSUPPORTED, text, location="http.query")
    for name, values in given.items():
        if len(values) > 1 and name not in REPEATABLE:
            raise _bad(name, f"{name} is given more than once.")
    if CURSOR in given and not given.keys() <= {CURSOR, *FORMAT}:
        raise _bad(CURSOR, "The link to the next page takes no further parameters; follow it as it was given.")


def _types(given: list[str] | None, version: FhirVersion) -> frozenset[str]:
    if given is None:
        return frozenset(RETURNED)
    named = {name for value in given for name in value.split(",")}
    # Those that are returned go by R4's names too: the specification lists them so for both versions.
    if not named <= resource_types(version) | {*RETURNED}:
        raise _bad("_type", f"_type is a list of resource types of {version}.")
    return frozenset(r4_name(name) for name in named) & frozenset(RETURNED)


def _day(given: Given, name: str) -> Span:
    """Return first and last millisecond of a day, UTC; without bounds where none is given."""
    if name not in given:
        return NEVER, EVER
    text = given[name][0]
    at = span(text) if DAY.fullmatch(text) else None
    if at is None:
        raise _bad(name, f"{name} must be a day, YYYY-MM-DD.")
    return at


def _bad(name: str, text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, text, location=f"http.{name}")
