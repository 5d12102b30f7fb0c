"""The answers of the Chart API: patients found, one patient's demographics, and a category of a chart as a list."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from engine.fhir.json import Json, JsonObject
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.kernel.outcome import unsupported
from engine.interchange.network.patient360.record import Words
from engine.interchange.rest.resource.read import absent, deleted
from engine.interchange.rest.resource.search import search
from engine.interchange.store.transaction import StoredVersion, Transaction
from engine.interchange.tokens.oauth.rights import may_see
from engine.interchange.web.chart.category import ChartCategory
from engine.interchange.web.chart.chart_reader import ChartReader
from engine.interchange.web.chart.items import item
from engine.interchange.web.chart.parameters import take_part
from engine.interchange.web.chart.people import FOUND, PATIENT

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
        live = (one for one in patients if one is not None and not one.deleted)
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
