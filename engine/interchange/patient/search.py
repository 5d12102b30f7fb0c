"""Patient search."""

import asyncio

from engine.interchange.exchange import Access, Answer, Interaction, Level, Request
from engine.interchange.oauth.role import Action
from engine.interchange.patient.index import PARAMETERS
from engine.interchange.search.bundle import searchset
from engine.interchange.search.page import take_page
from engine.interchange.search.parse import parse_search
from engine.interchange.service import Service
from engine.interchange.store.query import Found, find
from engine.interchange.versions.view import shown


async def search(service: Service, request: Request) -> Answer:
    """Answer GET /Patient: a searchset Bundle in order of creation."""
    page, criteria = take_page(request.query)
    wanted = parse_search("Patient", PARAMETERS, criteria)

    def work() -> Found:
        return service.store.read(
            request.principal.tenant,
            lambda transaction: find(transaction, wanted, count=page.count, offset=page.offset),
        )

    found = work() if wanted.selective else await asyncio.to_thread(work)
    address = f"{request.base}/Patient"
    resources = [(f"{address}/{record.id}", shown(record.body, "Patient", request.version)) for record in found.records]
    return Answer(200, searchset(service.new_id(), address, criteria, page, found.total, resources))


INTERACTION = Interaction("Patient", "search-type", Level.TYPE, "GET", Access.READ, Action.PATIENT, search)
