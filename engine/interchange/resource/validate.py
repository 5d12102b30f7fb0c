"""`$validate` of any kept type, a feature on trial in sandboxes: what a create would say of a body, without one."""

from functools import partial
from typing import Final

from engine.interchange.exact import write_json
from engine.interchange.exchange import Answer, Request
from engine.interchange.outcome import RefusedError, outcome, success
from engine.interchange.patient.rules import check_patient
from engine.interchange.resource.catalogue import KEPT
from engine.interchange.resource.draft import Check, check_chart, check_status, read_draft
from engine.interchange.resource.links import check_links
from engine.interchange.resource.rules import check_resource
from engine.interchange.service import Service
from engine.interchange.store.transaction import Transaction

OWN_CHECK: Final[dict[str, Check]] = {"Patient": check_patient}


async def validate(service: Service, request: Request) -> Answer:
    """Answer POST /{type}/$validate: 200 with an OperationOutcome, of faults or of none; nothing is written.

    What depends on other records (duplicates, record numbers) is left to the create.
    """
    definition = KEPT[request.type]
    check = OWN_CHECK.get(request.type, partial(check_resource, definition))

    def judge(transaction: Transaction) -> None:
        draft.judge(transaction)
        check_chart(definition, draft.resource, request.version)
        check_status(definition, draft.resource, request.version)
        check_links(transaction, request, draft.resource)

    try:
        draft = await read_draft(service, request, check)
        service.store.read(request.principal.tenant, judge)
    except RefusedError as refusal:
        told = outcome(refusal, request.version, service.configuration.service_identifier_system)
    else:
        told = success(f"The {request.type} can be kept.")
    return Answer(200, write_json(told))
