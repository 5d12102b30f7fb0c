"""The answers of the Chart API: a category of a patient's chart as a list."""

import asyncio
from functools import partial
from typing import Any, Final

from engine.interchange.chart.category import ChartCategory
from engine.interchange.chart.look import Look
from engine.interchange.chart.origin import channel_of
from engine.interchange.chart.parameters import take_part
from engine.interchange.chart.rows import keys_of
from engine.interchange.exact import write_json
from engine.interchange.exchange import Answer, Request
from engine.interchange.oauth.rights import may_see
from engine.interchange.outcome import Category, refuse, unsupported
from engine.interchange.patient360.record import Words
from engine.interchange.service import Service
from engine.interchange.store.transaction import Stored, Transaction

Json = Any

JSON: Final = "application/json"
CHANNEL: Final = "resourceChannelType"


async def list_items(category: ChartCategory, service: Service, request: Request) -> Answer:
    """Answer GET /patients/{id}/{category}: 200, 404 for nobody, 410 once deleted; once merged the survivor's.

    A thread reads the chart, so that a large one keeps nobody waiting.
    """
    part, rest = take_part(request.query)
    for name, _ in rest:
        raise unsupported(name)

    def look(transaction: Transaction) -> tuple[str, bytes]:
        patient_id = survivor(transaction, request.id)
        seen = look_of(service, request, transaction, patient_id)
        total, keys = keys_of(transaction, patient_id, category.types, part)
        # One at a time: a document may be megabytes, and is not shown.
        items = [_item(category, seen, transaction.by_key(key)) for key in keys]
        return patient_id, write_json({"total": total, "items": items})

    patient_id, body = await asyncio.to_thread(service.store.read, request.principal.tenant, look)
    return Answer(200, body, (), JSON, (patient_id,))


def look_of(service: Service, request: Request, transaction: Transaction, patient_id: str) -> Look:
    """Return what the making of an answer sees of one patient's chart."""
    words = Words(service.configuration.service_identifier_system)
    seeing = partial(may_see, service.configuration, request.principal)
    return Look(transaction, patient_id, words, seeing, service.configuration.base_url)


def survivor(transaction: Transaction, patient_id: str) -> str:
    """Return whose chart is read: of a merged-away patient the survivor's, as searches have it.

    RefusedError: 404 for nobody, 410 once deleted.
    """
    standing = transaction.standing("Patient", patient_id)
    if standing is None:
        raise refuse(Category.NOT_FOUND, f"Patient/{patient_id[:64]} does not exist.", location="http.id")
    if standing.survivor == "":
        raise refuse(Category.DELETED, f"Patient/{patient_id} was deleted.", location="http.id")
    return standing.survivor or patient_id


def _item(category: ChartCategory, look: Look, stored: Stored) -> dict[str, Json]:
    resource = stored.resource()
    made = category.shape_of(stored.type).of(resource, look)
    return {"id": stored.id, **made, CHANNEL: channel_of(look, stored, resource)}
