"""Search of any type."""

import asyncio
from dataclasses import replace
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.exchange import Answer, Request
from engine.interchange.outcome import Category, refuse
from engine.interchange.resource.catalogue import KEPT
from engine.interchange.resource.definition import Definition
from engine.interchange.resource.pages import links, read_asked
from engine.interchange.search.bundle import write_searchset
from engine.interchange.search.criterion import Criterion, Kind, Search
from engine.interchange.search.cursor import Walk, walk_of
from engine.interchange.search.page import Page, Pairs, take_page
from engine.interchange.search.parse import parse_search
from engine.interchange.service import Service
from engine.interchange.store.query import Found, find
from engine.interchange.store.transaction import Transaction, milliseconds
from engine.interchange.view import shown

# What limits a search of a chart's type to patients, or names the resources themselves.
LIMITING: Final = frozenset({"patient", "subject", "beneficiary", "_id", "identifier"})


async def search(service: Service, request: Request) -> Answer:
    """Answer GET /{type}, POST /{type}/_search, GET /Patient/{id}/{type}: a searchset Bundle in order of creation."""
    definition, tenant = KEPT[request.type], request.principal.tenant
    asked = read_asked(service, request)
    page, criteria = take_page(asked.query, definition.paging)
    parameters = definition.search_parameters(request.version)
    within = (("patient", request.id), *criteria) if request.id else criteria
    wanted = parse_search(request.type, parameters, within, service.configuration.base_url, request.version)
    _check_scope(definition, wanted, request.version)
    walk = _walk(service, request, page, criteria)
    after = walk.start(page) if walk else 0

    def look(transaction: Transaction) -> Found:
        followed = follow_merges(transaction, wanted)
        return find(transaction, followed, count=page.count, offset=page.offset, after=after)

    def work() -> Found:
        return service.store.read(tenant, look)

    found = work() if wanted.selective else await asyncio.to_thread(work)
    name = name_in(request.version, request.type)
    address = f"{request.base}/{name}"
    resources = [
        (f"{address}/{record.id}", shown(record.body, request.type, request.version)) for record in found.records
    ]
    pages = (page, _following(walk, page, found))
    place = f"{request.base}/Patient/{request.id}/{name}" if request.id else address
    relations = await links(service, request, place, criteria, pages, sealed=asked.sealed)
    return Answer(200, write_searchset(service.new_id(), relations, found.total, resources))


def _walk(service: Service, request: Request, page: Page, criteria: Pairs) -> Walk | None:
    """Return the walk that a page by cursor belongs to, None for a page by offset."""
    if not page.cursored:
        return None
    bound = walk_of(request.principal.tenant, request.version, request.type, page, criteria)
    now_ms = milliseconds(service.clock())
    return Walk(service.seal_secret, bound, now_ms, service.configuration.cursor_validity_s)


def _following(walk: Walk | None, page: Page, found: Found) -> Page | None:
    if not found.more:
        return None
    if walk is not None:
        return walk.following(page, found.records[-1].key)
    return replace(page, offset=page.offset + len(found.records))


def follow_merges(transaction: Transaction, wanted: Search) -> Search:
    """Return a search whose references to merged-away patients name their survivors: no chart looks empty."""
    if not any(one.parameter.kind is Kind.REFERENCE for one in wanted.criteria):
        return wanted
    return Search(wanted.type, tuple(_followed(transaction, one) for one in wanted.criteria))


def _followed(transaction: Transaction, criterion: Criterion) -> Criterion:
    if criterion.parameter.kind is not Kind.REFERENCE or criterion.parameter.merged:
        return criterion
    tests = tuple((test, tuple(_survivor(transaction, str(one)) for one in values)) for test, values in criterion.tests)
    return replace(criterion, tests=tests)


def _survivor(transaction: Transaction, target: str) -> str:
    type_name, _, resource_id = target.partition("/")
    standing = transaction.standing(type_name, resource_id) if type_name == "Patient" else None
    return f"Patient/{standing.survivor}" if standing is not None and standing.survivor else target


def _check_scope(definition: Definition, wanted: Search, version: FhirVersion) -> None:
    given = {one.parameter.name for one in wanted.criteria if one.missing is None}
    if definition.scoped and not given & LIMITING:
        text = f"A search of {name_in(version, definition.name)} needs the parameter patient."
        raise refuse(Category.REQUIRED, text, location="http.patient")
