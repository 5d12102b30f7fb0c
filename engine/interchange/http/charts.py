"""The door of the Chart API: the checks of the FHIR door, then plain JSON; refusals are OperationOutcomes."""

from typing import Final

from engine.fhir.schema import FhirVersion
from engine.interchange.chart.route import find_chart_route
from engine.interchange.exchange import Answer, Request
from engine.interchange.http.access import authorise, needed, read_query
from engine.interchange.http.door import Call, authenticate, negotiate, refused, throttle
from engine.interchange.http.negotiation import prefer
from engine.interchange.http.route import wrong_method
from engine.interchange.outcome import RefusedError
from engine.interchange.resource.context import confine
from engine.interchange.service import Service

VERSION: Final = FhirVersion.R4
TYPE: Final = "Patient"


async def answer_chart(service: Service, call: Call) -> Answer:
    """Return the answer to a call below /chart/v1/; errors that are no refusals are the caller's to turn to 500."""
    try:
        return await _interact(service, call)
    except RefusedError as refusal:
        call.refusal = refusal.category
        return refused(service, refusal, VERSION)


async def _interact(service: Service, call: Call) -> Answer:
    principal = call.principal = authenticate(service, call.headers.get("authorization", ""))
    throttle(service, principal)
    interaction, patient_id = find_chart_route(call.path)
    if call.method != interaction.method:
        raise wrong_method({interaction.method})
    call.interaction = interaction
    call.named = (patient_id,) if patient_id else ()
    negotiate(call, interaction)
    authorise(service, principal, interaction)
    request = Request(
        version=VERSION,
        base=service.base(VERSION),
        type=TYPE,
        id=patient_id,
        query=tuple(read_query(call.query)),
        headers=call.headers,
        prefer=prefer(""),
        principal=principal,
        body=None,
    )
    return await interaction.run(service, confine(service, request, interaction, needed(interaction)))
