"""Patient create, and conditional create: look-up and insert are one step that no other write comes between."""

from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.reply import written_answer
from engine.interchange.core.service import Service
from engine.interchange.rest.patient.index import CONDITIONAL
from engine.interchange.rest.patient.rules import check_patient
from engine.interchange.rest.patient.write import creator
from engine.interchange.rest.resource.draft import read_draft
from engine.interchange.rest.resource.precondition import match_condition, parse_condition
from engine.interchange.store.transaction import StoredVersion, Transaction
from engine.interchange.tokens.oauth.rights import may_see


async def create(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST /Patient: 201; with If-None-Exist 200 for one match and 412 for several."""
    condition = parse_condition(request, CONDITIONAL, service.configuration.base_url)
    draft = await read_draft(service, request, check_patient)
    insert = creator(service, request, draft, service.new_id())

    def work(transaction: Transaction) -> tuple[int, StoredVersion]:
        match = match_condition(transaction, condition)
        return (200, match) if match else (201, insert(transaction, None))

    status, stored = await service.store.write(request.principal.tenant, work)
    # Whom a condition matches is shown to those only who may read.
    seen = status == 201 or may_see(service.configuration, request.principal, request.type, own=bool(request.within))
    return written_answer(status, stored, request, location=True, seen=seen)
