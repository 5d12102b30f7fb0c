"""Search of any type: criteria of its own and on linked resources, order, included resources, and pages.

The token must be allowed to search the other type: the matches disclose it, even where it is not shown.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in, r4_name
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, left_out, refuse, repeatable
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.definition import Definition
from engine.interchange.rest.resource.includes import Include, included, read_includes
from engine.interchange.rest.resource.pages import links, read_page_request
from engine.interchange.rest.resource.projection import Projection, read_projection
from engine.interchange.store.query import SearchPage, find, is_kept
from engine.interchange.store.search.bundle import write_searchset
from engine.interchange.store.search.criterion import (
    Criterion,
    Linked,
    Parameter,
    ParameterKind,
    Rank,
    SearchQuery,
    SortKey,
    parse_sort,
)
from engine.interchange.store.search.page import TOTALS, CursorWalk, Pairs, ResultPage, take_page, walk_of
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.transaction import StoredVersion, Transaction, milliseconds
from engine.interchange.tokens.role import may


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """The shape of an answer: `part` None for whole resources, `order` empty for that of creation.

    `counted`: with a total; `count_only`: with nothing else.
    """

    part: Projection | None = None
    order: tuple[SortKey, ...] = ()
    includes: tuple[Include, ...] = ()
    counted: bool = True
    count_only: bool = False


PLAIN: Final = AnswerShape()


def read_shape(page: ResultPage, type_name: str, version: FhirVersion) -> AnswerShape:
    """Return the shape that a page's parameters ask for; RefusedError for what is not there."""
    if not page.form:
        return PLAIN
    given = dict(page.form)
    total = given.get("_total", "accurate")
    if total not in TOTALS:
        raise refuse(Category.BAD_VALUE, f"_total is one of {', '.join(TOTALS)}.", location="http._total")
    if "_sort" in given and page.cursored:
        text = "_sort goes with paging by _offset: a walk by cursor has the order of creation."
        raise refuse(Category.BAD_VALUE, text, location="http._sort")
    count_only = given.get("_summary") == "count"
    return AnswerShape(
        part=read_projection(page.form, type_name, version),
        order=parse_sort(given["_sort"], KEPT[type_name].search_parameters(version)) if "_sort" in given else (),
        includes=read_includes(page.form, type_name, version),
        counted=total != "none" or count_only or not page.count,
        count_only=count_only,
    )


HAS: Final = "_has:"
# A criterion on the ids of the resources themselves, for which what refers to them decides.
REFERRED: Final = Parameter("_has", ParameterKind.ID, "", Rank.MOST)

May = Callable[[str, str], bool]


def is_known(name: str, parameters: Mapping[str, Parameter]) -> bool:
    """Say whether a parameter of a query is one of a type's, or begins as a chain of one; `_has` is."""
    return name.startswith(HAS) or name.partition(".")[0].partition(":")[0] in parameters


def linked_criteria(
    pairs: Iterable[tuple[str, str]],
    parameters: Mapping[str, Parameter],
    base_url: str,
    version: FhirVersion,
    may: May,
) -> tuple[Criterion, ...]:
    """Return the criteria of chains and of `_has`; RefusedError for what is unknown, repeated, or not allowed."""
    chains: set[str] = set()
    criteria: list[Criterion] = []
    for name, value in pairs:
        if name.startswith(HAS):
            criteria.append(_has(name, value, base_url, version, may))
            continue
        if name in chains:
            raise _refuse(Category.BAD_VALUE, name, f"The search parameter {repeatable(name)} is given more than once.")
        chains.add(name)
        criteria.append(_chain(name, value, parameters, base_url, version, may))
    return tuple(criteria)


def names_a_patient(criterion: Criterion) -> bool:
    """Say whether a chain limits a search to patients: only by their identifiers."""
    linked = criterion.linked
    if linked is None or linked.rows:
        return False
    inner = [one for search in linked.searches for one in search.criteria]
    return all(one.parameter.name == "identifier" and one.missing is None for one in inner)


def _chain(
    name: str, value: str, parameters: Mapping[str, Parameter], base_url: str, version: FhirVersion, may: May
) -> Criterion:
    head, _, inner = name.partition(".")
    link, _, type_name = head.partition(":")
    parameter = parameters.get(link)
    if (
        parameter is None
        or parameter.kind is not ParameterKind.REFERENCE
        or (type_name and r4_name(type_name) not in KEPT)
    ):
        raise _refuse(Category.UNSUPPORTED, name, f"The chain {repeatable(name)} does not begin with a reference.")
    targets = (r4_name(type_name),) if type_name else tuple(target for target in parameter.targets if target in KEPT)
    wanted = inner.partition(":")[0]
    asked = [target for target in targets if wanted in KEPT[target].search_parameters(version)] or targets[:1]
    searches = tuple(_search(name, one, ((inner, value),), base_url, version, may) for one in asked)
    return Criterion(parameter, (), _rank(searches), linked=Linked(searches))


def _has(name: str, value: str, base_url: str, version: FhirVersion, may: May) -> Criterion:
    parts = name.split(":", 3)
    source = r4_name(parts[1])
    definition = KEPT.get(source)
    link = definition.search_parameters(version).get(parts[2]) if definition and len(parts) == 4 else None
    if link is None or link.kind is not ParameterKind.REFERENCE:
        text = "_has names a type, one of its search parameters that is a reference, and another one."
        raise _refuse(Category.UNSUPPORTED, name, text)
    searches = (_search(name, source, ((parts[3], value),), base_url, version, may),)
    return Criterion(REFERRED, (), _rank(searches), linked=Linked(searches, link.rows))


def _search(name: str, type_name: str, pairs: Pairs, base_url: str, version: FhirVersion, may: May) -> SearchQuery:
    found = parse_search(type_name, KEPT[type_name].search_parameters(version), pairs, base_url, version)
    if not may(type_name, "s"):
        text = f"The token does not allow to search {type_name}, as {repeatable(name)} asks."
        raise _refuse(Category.FORBIDDEN, name, text)
    return found


def _rank(searches: tuple[SearchQuery, ...]) -> Rank:
    return min(Rank.MOST, max(criterion.rank for search in searches for criterion in search.criteria))


def _refuse(category: Category, name: str, text: str) -> RefusedError:
    return refuse(category, text, location=f"http.{repeatable(name)}")


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
    addresses = {name: f"{request.base}/{name_in(version, name)}/" for name in {record.type for record in records}}
    return [(addresses[record.type] + record.id, show(record.body, record.type, version)) for record in records]


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
    return SearchQuery(wanted.type, tuple(_followed(transaction, criterion) for criterion in wanted.criteria))


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
    plain = (criterion for criterion in wanted.criteria if criterion.missing is None)
    given = {one.parameter.name for one in plain if one.linked is None or names_a_patient(one)}
    if definition.scoped and not given & LIMITING:
        text = f"A search of {name_in(version, definition.name)} needs the parameter patient."
        raise refuse(Category.REQUIRED, text, location="http.patient")
