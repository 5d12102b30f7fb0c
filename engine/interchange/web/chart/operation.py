"""The Chart API: its addresses and parameters; patients found, a patient's demographics, and a category as a list."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeVar

from engine.fhir.json import Json, JsonObject
from engine.fhir.primitives import ID
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.kernel.outcome import Category, RefusedError, refuse, unsupported
from engine.interchange.network.patient360.record import Words
from engine.interchange.rest.everything import SCOPES
from engine.interchange.rest.resource.read import absent, deleted
from engine.interchange.rest.resource.search import search
from engine.interchange.store.search.page import Pairs
from engine.interchange.store.transaction import StoredVersion, Transaction
from engine.interchange.tokens.role import RoleRule, may_see
from engine.interchange.tokens.scope import PATIENT360
from engine.interchange.web.chart.category import CATEGORIES, ChartCategory
from engine.interchange.web.chart.field import ChartReader
from engine.interchange.web.chart.items import RowRange, item
from engine.interchange.web.chart.people import FOUND, PATIENT

LIMIT: Final = "limit"
OFFSET: Final = "offset"
USUAL: Final = 20
MOST: Final = 100
# Maximum offset.
FARTHEST: Final = 999_999_999
# The search parameters of patients, FHIR's, with a description of each.
SEARCHED: Final = {
    "name": "Any part of the name, by its beginning",
    "family": "The family name, by its beginning",
    "given": "A given name, by its beginning",
    "birthdate": "The day of birth, YYYY-MM-DD, or with a prefix: ge1984, le1990-01",
    "gender": "male, female, other or unknown",
    "identifier": "A number, or system|number",
    "phone": "A telephone number",
    "email": "An e-mail address",
}
# The order of patients found, and the keys of FHIR's search for it.
SORT: Final = "sort"
SORTED: Final = {"name": "family,given,birthdate"}


def take_part(query: Pairs) -> tuple[RowRange, Pairs]:
    """Return the requested range of a list and the other parameters; RefusedError (400) for an invalid value."""
    given = dict(query)
    for name in given:
        if [other for other, _ in query].count(name) > 1:
            raise refuse(Category.BAD_VALUE, "A parameter is given more than once.", location="http.query")
    limit = _whole(given.get(LIMIT, str(USUAL)), LIMIT, 1, MOST)
    offset = _whole(given.get(OFFSET, "0"), OFFSET, 0, FARTHEST)
    return RowRange(limit, offset), tuple(pair for pair in query if pair[0] not in {LIMIT, OFFSET})


def as_search(query: Pairs) -> Pairs:
    """Return a query for patients as a FHIR query; RefusedError (400) for a parameter that is not supported."""
    part, rest = take_part(query)
    criteria = tuple(pair for pair in rest if pair[0] != SORT)
    for name, _ in criteria:
        if name not in SEARCHED:
            raise unsupported(name)
    return (*criteria, *_order(dict(rest)), ("_count", str(part.limit)), ("_offset", str(part.offset)))


def _order(given: Mapping[str, str]) -> Pairs:
    if SORT not in given:
        return ()
    if given[SORT] not in SORTED:
        raise refuse(Category.BAD_VALUE, f"{SORT} is one of {', '.join(SORTED)}.", location=f"http.{SORT}")
    return (("_sort", SORTED[given[SORT]]),)


def _whole(text: str, name: str, least: int, most: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(FARTHEST)) else -1
    if not least <= number <= most:
        raise _wrong(name, least, most)
    return number


def _wrong(name: str, least: int, most: int) -> RefusedError:
    return refuse(Category.BAD_VALUE, f"{name} is a whole number from {least} to {most}.", location=f"http.{name}")


T = TypeVar("T")

JSON: Final = "application/json"


async def list_items(category: ChartCategory, service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /patients/{id}/{category}: 200, 404 if unknown, 410 if deleted; after a merge the survivor's list.

    A thread reads the chart, so that a large one does not block the loop.
    """
    part, rest = take_part(request.query)
    _take_nothing(rest)

    def look(transaction: Transaction) -> tuple[str, Json]:
        patient = _find(transaction, request)

        patient_id = patient.survivor or patient.id
        total, items = category.listing(_reader_of(service, request, transaction, patient_id, whole=True), part)
        return patient_id, {"total": total, "items": items}

    patient_id, made = await _read(service, request, look)
    return _answer(made, patient_id)


async def read_patient(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /patients/{id}: the demographics, of a merged record its own; 404 if unknown, 410 if deleted."""
    _take_nothing(request.query)

    def look(transaction: Transaction) -> Json:
        patient = _find(transaction, request)
        return item(PATIENT, _reader_of(service, request, transaction, patient.id), patient)

    return _answer(await _read(service, request, look), request.id)


async def find_patients(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /patients: the matches of FHIR's search of Patient, in its order; the query is already FHIR's."""
    bundle = read_resource((await search(service, request)).body)
    ids = [entry["resource"]["id"] for entry in bundle["entry"]]

    def look(transaction: Transaction) -> list[JsonObject]:
        patients = (transaction.get("Patient", one) for one in ids)
        live = (patient for patient in patients if patient is not None and not patient.deleted)
        return [item(FOUND, _reader_of(service, request, transaction, one.id), one) for one in live]

    items = await _read(service, request, look)
    return _answer({"total": bundle["total"], "items": items}, *(one["id"] for one in items))


async def _read(service: Service, request: FhirRequest, look: Callable[[Transaction], T]) -> T:
    return await asyncio.to_thread(service.store.read, request.principal.tenant, look)


def _answer(made: Json, *patients: str) -> HttpAnswer:
    return HttpAnswer(200, write_json(made), (), JSON, patients)


def _take_nothing(query: tuple[tuple[str, str], ...]) -> None:
    for name, _ in query:
        raise unsupported(name)


def _find(transaction: Transaction, request: FhirRequest) -> StoredVersion:
    """Return a patient's record, merged or not; RefusedError: 404 if unknown, 410 if deleted."""
    stored = transaction.get("Patient", request.id)
    if stored is None:
        raise absent(request)
    if stored.deleted:
        raise deleted(request, stored)
    return stored


def _reader_of(
    service: Service, request: FhirRequest, transaction: Transaction, patient_id: str, *, whole: bool = False
) -> ChartReader:
    """Return the reader of one patient's chart for this request."""
    words = Words(service.configuration.service_identifier_system)
    seeing = partial(may_see, service.configuration, request.principal)
    return ChartReader(transaction, patient_id, words, seeing, service.configuration.base_url, whole)


CHART: Final = "chart"
PATIENTS: Final = "patients"
R4: Final = (FhirVersion.R4,)

# Needs the same rights as FHIR's search of Patient.
SEARCH: Final = Interaction(
    "Patient",
    "search-type",
    InteractionLevel.TYPE,
    "GET",
    RequiredAccess.READ,
    RoleRule.PATIENT,
    find_patients,
    versions=R4,
)
# Needs what FHIR's read of Patient needs.
READ: Final = Interaction(
    "Patient",
    "read",
    InteractionLevel.INSTANCE,
    "GET",
    RequiredAccess.READ,
    RoleRule.PATIENT,
    read_patient,
    versions=R4,
    also=frozenset({PATIENT360}),
)


class ChartRoute(NamedTuple):
    """An interaction of the Chart API, and its patient, '' for none."""

    interaction: Interaction
    id: str = ""


def _listing(category: ChartCategory) -> Interaction:
    """Return the interaction of a category: it needs the right to read the whole chart."""
    run = partial(list_items, category)
    return Interaction(
        category.type,
        CHART,
        InteractionLevel.INSTANCE,
        "GET",
        RequiredAccess.READ,
        RoleRule.CHART,
        run,
        category.path,
        R4,
        flags=SCOPES,
    )


# By the segments after the patient's id.
LISTINGS: Final = {one.path: _listing(one) for one in CATEGORIES}


def find_chart_route(path: str) -> ChartRoute:
    """Return the route of a path below /chart/v1/; RefusedError 404."""
    if path == PATIENTS:
        return ChartRoute(SEARCH)
    head, _, rest = path.partition("/")
    patient_id, within, category = rest.partition("/")
    if head != PATIENTS or (within and category not in LISTINGS) or not patient_id:
        raise refuse(Category.UNKNOWN_ROUTE, "The Chart API has nothing at this address.", location="http.path")
    if ID.fullmatch(patient_id) is None or set(patient_id) == {"."}:
        raise refuse(Category.NOT_FOUND, "This is not a valid id of a patient.", location="http.id")
    return ChartRoute(LISTINGS[category] if within else READ, patient_id)
