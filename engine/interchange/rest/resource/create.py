"""Create and conditional create of a type without rules of its own."""

from dataclasses import replace
from functools import partial

from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.reply import written_answer
from engine.interchange.core.service import Service
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.draft import Settle, check_chart, check_status, read_draft, unchanged
from engine.interchange.rest.resource.links import check_links
from engine.interchange.rest.resource.precondition import match_condition, parse_condition
from engine.interchange.rest.resource.rules import check_resource
from engine.interchange.store.transaction import StoredVersion, Transaction
from engine.interchange.tokens.oauth.rights import may_see


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
