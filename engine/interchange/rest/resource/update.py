"""Update of a type without rules of its own: full replacement with optimistic locking; creates what is not there."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.reply import written_answer
from engine.interchange.core.service import Service
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.draft import Settle, check_chart, check_status, make_draft, unchanged
from engine.interchange.rest.resource.links import check_links
from engine.interchange.rest.resource.precondition import check_id, check_same_id, parse_expected
from engine.interchange.rest.resource.rules import check_resource
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod
from engine.interchange.tokens.oauth.rights import may_see
from engine.interchange.tokens.oauth.role import demand

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
