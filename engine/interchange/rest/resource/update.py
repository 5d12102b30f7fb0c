"""Create and update of types without rules of their own, also conditional (If-None-Exist, search parameters)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, written_answer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.rest.patient.index import CONDITIONAL
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.draft import Settle, check_chart, check_status, make_draft, read_draft, unchanged
from engine.interchange.rest.resource.links import check_links
from engine.interchange.rest.resource.precondition import (
    check_id,
    check_same_id,
    match_condition,
    parse_condition,
    parse_criteria,
    parse_expected,
)
from engine.interchange.rest.resource.rules import check_resource
from engine.interchange.store.search.criterion import Parameter
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod
from engine.interchange.tokens.role import demand, may_see


async def create(service: Service, request: FhirRequest, settle: Settle = unchanged) -> HttpAnswer:
    """Answer POST /{type}: 201; with If-None-Exist 200 for one match and 412 for several.

    `settle` says as what it is kept.
    """
    definition = KEPT[request.type]
    parameters = definition.search_parameters(request.version)
    condition = parse_condition(request, parameters, service.configuration.base_url)
    draft = await read_draft(service, request, partial(check_resource, definition))
    new_id = service.new_id()

    def work(transaction: Transaction) -> tuple[int, StoredVersion]:
        match = match_condition(transaction, condition)
        if match is not None:
            return 200, match
        draft.judge(transaction)
        check_chart(definition, draft.resource, request.version)
        check_status(definition, draft.resource, request.version)
        check_links(transaction, request, draft.resource)
        resource = settle(service, transaction, replace(request, id=new_id), draft.resource, None)
        return 201, transaction.create(request.type, new_id, resource)

    status, stored = await service.store.write(request.principal.tenant, work)
    # Whom a condition matches is shown to those only who may read.
    seen = status == 201 or may_see(service.configuration, request.principal, request.type, own=bool(request.within))
    return written_answer(status, stored, request, location=True, seen=seen)


Work = Callable[[Transaction], tuple[int, StoredVersion]]
# Makes of a request the work that replaces a resource by its body, once what needs no store has been checked.
Replacement = Callable[[Service, FhirRequest, VersionMethod], Work]


def updating(replacement: Replacement) -> Callable[[Service, FhirRequest], Awaitable[HttpAnswer]]:
    """Return what answers PUT /{type}/{id}, for a type whose replacement is given."""

    async def update(service: Service, request: FhirRequest) -> HttpAnswer:
        """200, 201 where it did not exist, 412 (STU3: 409) for a stale If-Match."""
        if request.large:
            work = await asyncio.to_thread(replacement, service, request, VersionMethod.PUT)
        else:
            work = replacement(service, request, VersionMethod.PUT)
        status, stored = await service.store.write(request.principal.tenant, work)
        # Parts of the former version may be kept, such as an order's status.
        seen = status == 201 or may_see(
            service.configuration, request.principal, request.type, own=bool(request.within)
        )
        return written_answer(status, stored, request, location=status == 201, seen=seen)

    return update


def replacing(service: Service, request: FhirRequest, change: VersionMethod, settle: Settle = unchanged) -> Work:
    """Return the work that replaces a resource of a type without rules of its own, or creates it; RefusedError (400).

    `settle` says as what it is kept.
    """
    definition = KEPT[request.type]
    expected = parse_expected(request)
    check_id(request.id)
    draft = make_draft(service, request, partial(check_resource, definition))
    check_same_id(request)

    def work(transaction: Transaction) -> tuple[int, StoredVersion]:
        stored = transaction.get(request.type, request.id)
        live = None if stored is None or stored.deleted else stored
        if live is None:
            demand(request.principal.role, definition.creating)
        expected.check(stored, request.version)
        draft.judge(transaction, stored)
        check_chart(definition, draft.resource, request.version)
        check_links(transaction, request, draft.resource, live)
        resource = settle(service, transaction, request, draft.resource, live)
        if live is not None:
            return 200, transaction.update(live, resource, change)
        check_status(definition, resource, request.version)
        if stored is not None:
            return 201, transaction.bring_back(stored, resource)
        return 201, transaction.create(request.type, request.id, resource, VersionMethod.NEW)

    return work


# Parameters of a Patient in the condition of an update or delete: those of a create, and its identifiers.
PATIENT: Final = frozenset({*CONDITIONAL, "identifier"})


def conditional(request: FhirRequest) -> Mapping[str, Parameter]:
    """Return the search parameters that the condition of an update or delete may name."""
    parameters = KEPT[request.type].search_parameters(request.version)
    if request.type != "Patient":
        return parameters
    return {name: one for name, one in parameters.items() if name in PATIENT}


def updating_matching(replacement: Replacement) -> Callable[[Service, FhirRequest], Awaitable[HttpAnswer]]:
    """Return what answers PUT /{type}?{criteria}, for a type whose replacement is given."""

    async def update(service: Service, request: FhirRequest) -> HttpAnswer:
        """201 where none matches, 200 for one, 412 for several; 400 for a body of another id than the match."""
        wanted = parse_criteria(request, conditional(request), service.configuration.base_url)
        if not isinstance(request.body, dict):
            raise refuse(Category.STRUCTURE, "The body is no JSON object.", location="http.body")
        new_id = service.new_id()

        def work(transaction: Transaction) -> tuple[int, StoredVersion]:
            match = match_condition(transaction, wanted, "http.query")
            target = _target(transaction, request, match) or new_id
            meant = replace(request, id=target, query=(), body={**request.body, "id": target})
            return replacement(service, meant, VersionMethod.PUT)(transaction)

        status, stored = await service.store.write(request.principal.tenant, work)
        # Parts of the former version may be kept, such as an order's status.
        seen = status == 201 or may_see(
            service.configuration, request.principal, request.type, own=bool(request.within)
        )
        return written_answer(status, stored, request, location=status == 201, seen=seen)

    return update


def _target(transaction: Transaction, request: FhirRequest, match: StoredVersion | None) -> str:
    """Return the id that is written, '' for a new one; RefusedError where the body says another one."""
    given = request.body.get("id")
    if given is not None and not isinstance(given, str):
        location = f"{name_in(request.version, request.type)}.id"
        raise refuse(Category.STRUCTURE, "The id is no text.", location=location)
    if match is not None and given not in {None, match.id}:
        location = f"{name_in(request.version, request.type)}.id"
        raise refuse(Category.BAD_VALUE, f"The condition matches another resource, {match.id}.", location=location)
    if match is not None:
        return match.id
    stored = transaction.get(request.type, given) if given is not None else None
    if stored is not None and stored.survivor is None:
        text = "The resource of the body's id does not meet the condition."
        raise refuse(Category.CONFLICT, text, location="http.query")
    return given or ""
