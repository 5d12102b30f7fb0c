"""The door of the Chart API: the checks of the FHIR door, then plain JSON; refusals are OperationOutcomes."""

from contextlib import suppress
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import Answer, Request
from engine.interchange.core.http.negotiation import prefer
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.rest.http.access import authorise, check_plain, needed, read_query
from engine.interchange.rest.resource.context import restrict_to_patient
from engine.interchange.web.chart.openapi import openapi
from engine.interchange.web.chart.operation import JSON
from engine.interchange.web.chart.parameters import as_search
from engine.interchange.web.chart.route import READ, SEARCH, find_chart_route
from engine.interchange.web.http.call import Call
from engine.interchange.web.http.fhir_endpoint import identify, negotiate, refused, throttle
from engine.interchange.web.http.route import wrong_method

VERSION: Final = FhirVersion.R4
TYPE: Final = "Patient"
# What this API is, for whoever asks.
DOCUMENT: Final = "openapi.json"


async def answer_chart(service: Service, call: Call) -> Answer:
    """Return the answer to a call below /chart/v1/; errors that are no refusals are the caller's to turn to 500."""
    try:
        if call.path == DOCUMENT:
            return _document(service, call)
        return await _interact(service, call)
    except RefusedError as refusal:
        call.refusal = refusal.category
        return refused(service, refusal, VERSION)


async def _interact(service: Service, call: Call) -> Answer:
    try:
        principal = identify(service, call)
    except RefusedError:
        with suppress(RefusedError):
            asked, patient_id = find_chart_route(call.path)
            if call.former is not None:
                call.interaction, call.id, call.named = asked, patient_id, (patient_id,)
        raise
    throttle(service, principal)
    interaction, patient_id = find_chart_route(call.path)
    if call.method != interaction.method:
        raise wrong_method({interaction.method})
    call.interaction = interaction
    call.id = patient_id if interaction is READ else ""
    call.named = (patient_id,) if patient_id else ()
    negotiate(call, interaction)
    authorise(service, principal, interaction)
    query = tuple(read_query(call.query))
    request = Request(
        version=VERSION,
        base=service.base(VERSION),
        type=TYPE,
        id=patient_id,
        query=as_search(query) if interaction is SEARCH else query,
        headers=call.headers,
        prefer=prefer(""),
        principal=principal,
        body=None,
    )
    return await interaction.run(service, restrict_to_patient(service, request, interaction, needed(interaction)))


def _document(service: Service, call: Call) -> Answer:
    if call.method != "GET":
        raise wrong_method({"GET"})
    negotiate(call)
    check_plain(read_query(call.query))
    made = openapi(service.configuration.base_url, service.configuration.token_url)
    return Answer(200, write_json(made), (), JSON)
