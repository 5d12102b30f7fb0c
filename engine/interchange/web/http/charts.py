"""The Chart API's endpoint: the guard of the FHIR endpoint, then plain JSON; refusals are OperationOutcomes."""

from functools import partial
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.negotiation import prefer
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import RefusedError
from engine.interchange.rest.access import check_plain, read_query
from engine.interchange.web.chart.openapi import openapi
from engine.interchange.web.chart.operation import JSON, READ, SEARCH, as_search, find_chart_route
from engine.interchange.web.http.admission import admit_call, negotiate
from engine.interchange.web.http.call import HttpCall
from engine.interchange.web.http.fhir_endpoint import refused
from engine.interchange.web.http.route import FhirRoute, wrong_method

VERSION: Final = FhirVersion.R4
TYPE: Final = "Patient"
# The API's description, served to everybody.
DOCUMENT: Final = "openapi.json"


async def answer_chart(service: Service, call: HttpCall) -> HttpAnswer:
    """Return the answer to a call below /chart/v1/; the caller turns other errors than refusals to 500."""
    try:
        if call.path == DOCUMENT:
            return _document(service, call)
        return await _interact(service, call)
    except RefusedError as refusal:
        call.refusal = refusal.category
        return refused(service, refusal, VERSION)


async def _interact(service: Service, call: HttpCall) -> HttpAnswer:
    route, admission = admit_call(service, call, partial(_route, call.path))
    request = FhirRequest(
        version=VERSION,
        base=service.base(VERSION),
        type=TYPE,
        id="".join(route.named),
        query=as_search(admission.query) if route.interaction is SEARCH else admission.query,
        headers=call.headers,
        prefer=prefer(""),
        principal=admission.principal,
        body=None,
    )
    return await admission.answer(service, request)


def _route(path: str) -> FhirRoute:
    interaction, patient_id = find_chart_route(path)
    return FhirRoute(interaction, patient_id if interaction is READ else "", named=(patient_id,) if patient_id else ())


def _document(service: Service, call: HttpCall) -> HttpAnswer:
    if call.method != "GET":
        raise wrong_method({"GET"})
    negotiate(call)
    check_plain(read_query(call.query))
    document = openapi(service.configuration.base_url, service.configuration.token_url)
    return HttpAnswer(200, write_json(document), (), JSON)
