"""Search of any type."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, Issue, left_out, refuse, repeatable
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.chain import HAS, is_known, linked_criteria, names_a_patient
from engine.interchange.rest.resource.definition import Definition
from engine.interchange.rest.resource.includes import included
from engine.interchange.rest.resource.pages import links, read_page_request
from engine.interchange.rest.resource.shape import AnswerShape, read_shape
from engine.interchange.store.query import SearchPage, find, is_kept
from engine.interchange.store.search.bundle import write_searchset
from engine.interchange.store.search.criterion import Criterion, Parameter, ParameterKind, SearchQuery
from engine.interchange.store.search.cursor import CursorWalk, walk_of
from engine.interchange.store.search.page import Pairs, ResultPage, take_page
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.transaction import StoredVersion, Transaction, milliseconds
from engine.interchange.tokens.oauth.rights import may

# Parameters that limit a search of a chart's type to patients, or name the resources themselves.
LIMITING: Final = frozenset({"patient", "subject", "beneficiary", "_id", "identifier"})

# The most records that may be skipped before a page that is read in order.
NEAR: Final = 200


async def search(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer GET /{type}, POST /{type}/_search, GET /Patient/{id}/{type}: a searchset Bundle in order of creation."""
    definition = KEPT[request.type]
    asked = read_page_request(service, request)
    page, criteria = take_page(asked.query, definition.paging)
    shape = read_shape(page, request.type, request.version)
    parameters = definition.search_parameters(request.version)
    criteria, unknown = _known(criteria, parameters) if request.prefer.lenient else (criteria, ())
    within = (("patient", request.id), *criteria) if request.id else criteria
    wanted = _wanted(service, request, parameters, within)
    _check_scope(definition, wanted, request.version)
    walk = _walk(service, request, page, criteria)
    found, along = await _found(service, request, wanted, page, shape, walk)
    name = name_in(request.version, request.type)
    pages = (page, _following(walk, page, found))
    place = f"{request.base}/Patient/{request.id}/{name}" if request.id else f"{request.base}/{name}"
    relations = await links(service, request, place, criteria, pages, sealed=asked.sealed)
    unknown += _last_by_offset(definition, pages[1])
    warning = left_out(unknown, request.version) if unknown else None
    entries = (_entries(request, shape, found.records), _entries(request, shape, along) if along else ())
    total = found.total if shape.counted else None
    return HttpAnswer(200, write_searchset(service.new_id(), relations, total, *entries, warning))


def _wanted(service: Service, request: FhirRequest, parameters: Mapping[str, Parameter], pairs: Pairs) -> SearchQuery:
    """Return the search that parameters ask for, of the type's own resources and of those linked to them."""
    base_url = service.configuration.base_url
    linked = [pair for pair in pairs if "." in pair[0] or pair[0].startswith(HAS)]
    if not linked:
        return parse_search(request.type, parameters, pairs, base_url, request.version)
    own = [pair for pair in pairs if pair not in linked]
    wanted = parse_search(request.type, parameters, own, base_url, request.version)
    readable = partial(_may, service, request)
    criteria = linked_criteria(linked, parameters, base_url, request.version, readable)
    return replace(wanted, criteria=(*wanted.criteria, *criteria))


async def _found(
    service: Service,
    request: FhirRequest,
    wanted: SearchQuery,
    page: ResultPage,
    shape: AnswerShape,
    walk: CursorWalk | None,
) -> tuple[SearchPage, list[StoredVersion]]:
    """Return the matches of a page, and the resources included with them."""
    tenant = request.principal.tenant
    after = walk.start(page) if walk else 0
    count = 0 if shape.count_only else page.count

    def look(transaction: Transaction) -> tuple[SearchPage, list[StoredVersion]]:
        followed = follow_merges(transaction, wanted)
        found = find(
            transaction,
            followed,
            count=count,
            offset=page.offset,
            after=after,
            order=shape.order,
            counted=shape.counted,
        )
        if not shape.includes:
            return found, []
        return found, included(transaction, found.records, shape.includes, partial(_may, service, request))

    def work() -> tuple[SearchPage, list[StoredVersion]]:
        return service.store.read(tenant, look)

    # A long search runs in a thread, off the event loop; the switch costs as much as a short search.
    quick = wanted.selective or (is_kept(wanted) and not shape.order and page.offset <= NEAR)
    return work() if quick and not shape.includes else await asyncio.to_thread(work)


def _entries(request: FhirRequest, shape: AnswerShape, records: Sequence[StoredVersion]) -> list[tuple[str, bytes]]:
    """Return addresses and bodies of some resources, as the client's version shows them."""
    show = shape.part.shown if shape.part is not None else to_version
    version = request.version
    addresses = {name: f"{request.base}/{name_in(version, name)}/" for name in {one.type for one in records}}
    return [(addresses[one.type] + one.id, show(one.body, one.type, version)) for one in records]


def _may(service: Service, request: FhirRequest, type_name: str, access: str) -> bool:
    return may(service.configuration, request.principal, type_name, access, KEPT[type_name].reading)


def _known(criteria: Pairs, parameters: Mapping[str, Parameter]) -> tuple[Pairs, tuple[Issue, ...]]:
    """Return the criteria whose parameters are known, and the issues of the others (`Prefer: handling=lenient`)."""
    known = tuple(pair for pair in criteria if is_known(pair[0], parameters))
    unknown = dict.fromkeys(repeatable(name) for name, value in criteria if (name, value) not in known)
    return known, tuple(
        Issue(f"The search parameter {name} is not supported and was left out.", f"http.{name}") for name in unknown
    )


def _walk(service: Service, request: FhirRequest, page: ResultPage, criteria: Pairs) -> CursorWalk | None:
    """Return the walk that a page by cursor belongs to, None for a page by offset."""
    if not page.cursored:
        return None
    bound = walk_of(request.principal.tenant, request.version, request.type, page, criteria)
    now_ms = milliseconds(service.clock())
    return CursorWalk(service.seal_secret, bound, now_ms, service.configuration.cursor_validity_s)


def _following(walk: CursorWalk | None, page: ResultPage, found: SearchPage) -> ResultPage | None:
    if not found.more:
        return None
    if walk is not None:
        return walk.following(page, found.records[-1].key)
    return replace(page, offset=page.offset + len(found.records))


def _last_by_offset(definition: Definition, following: ResultPage | None) -> tuple[Issue, ...]:
    """Return the issue of the last page that offsets reach: its next link leads to a refusal, not to the end."""
    depth = definition.paging.depth
    if depth is None or following is None or following.cursored or following.offset + following.count < depth:
        return ()
    text = f"More matches follow, and by _offset no page reaches {depth}: the link next will be refused."
    return (Issue(f"{text} Search again with _paging=cursor, which has no limit.", "http._offset"),)


def follow_merges(transaction: Transaction, wanted: SearchQuery) -> SearchQuery:
    """Return a search whose references to merged-away patients name their survivors: no chart looks empty."""
    if not any(one.parameter.kind is ParameterKind.REFERENCE or one.linked for one in wanted.criteria):
        return wanted
    return SearchQuery(wanted.type, tuple(_followed(transaction, one) for one in wanted.criteria))


def _followed(transaction: Transaction, criterion: Criterion) -> Criterion:
    if criterion.linked is not None:
        searches = tuple(follow_merges(transaction, one) for one in criterion.linked.searches)
        return replace(criterion, linked=replace(criterion.linked, searches=searches))
    if criterion.parameter.kind is not ParameterKind.REFERENCE or criterion.parameter.merged:
        return criterion
    tests = tuple((test, tuple(_survivor(transaction, str(one)) for one in values)) for test, values in criterion.tests)
    return replace(criterion, tests=tests)


def _survivor(transaction: Transaction, target: str) -> str:
    type_name, _, resource_id = target.partition("/")
    standing = transaction.standing(type_name, resource_id) if type_name == "Patient" else None
    return f"Patient/{standing.survivor}" if standing is not None and standing.survivor else target


def _check_scope(definition: Definition, wanted: SearchQuery, version: FhirVersion) -> None:
    plain = (one for one in wanted.criteria if one.missing is None)
    given = {one.parameter.name for one in plain if one.linked is None or names_a_patient(one)}
    if definition.scoped and not given & LIMITING:
        text = f"A search of {name_in(version, definition.name)} needs the parameter patient."
        raise refuse(Category.REQUIRED, text, location="http.patient")
