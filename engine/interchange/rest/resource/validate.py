"""`$validate` of any kept type, a feature on trial in sandboxes: what a create would say of a body, without one.

A body without fault gets a second opinion, from fhir.resources: its findings are warnings, as a create would not mind.
"""

import asyncio
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Final

from engine.fhir.json import Json
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Issue, RefusedError, outcome, success
from engine.interchange.rest.patient.write import check_patient
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.draft import Check, check_chart, check_status, read_draft
from engine.interchange.rest.resource.links import check_links
from engine.interchange.rest.resource.rules import check_resource
from engine.interchange.store.parameters import carried
from engine.interchange.store.transaction import Transaction

SECONDARY_VALIDATOR: Final = "engine.fhir.secondary_validator"
OWN_CHECK: Final[dict[str, Check]] = {"Patient": check_patient}


async def validate(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST /{type}/$validate: 200 with an OperationOutcome, of faults or of none; nothing is written.

    The body is the resource, or `Parameters` that carry it. What depends on other records (duplicates, record numbers)
    is left to the create.
    """
    request = replace(request, body=carried(request.body))
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
        answer = outcome(refusal, request.version, service.configuration.service_identifier_system)
    else:
        warnings = await asyncio.to_thread(_second_opinion, request.body, request.version)
        answer = success(f"The {request.type} can be kept.", warnings)
    return HttpAnswer(200, write_json(answer))


def _second_opinion(body: Json, version: FhirVersion) -> tuple[Issue, ...]:
    """Return the faults found by fhir.resources, which is imported at the first call: it takes a second and 25 MB."""
    found = import_module(SECONDARY_VALIDATOR).second_opinion(body, version)
    return tuple(Issue(f"{one.path}: {one.text} (fhir.resources).", one.path) for one in found)
