"""Patient/$merge, with its preview."""

from dataclasses import replace
from functools import partial

from engine.fhir.json import JsonObject
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel, RequiredAccess
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.kernel.outcome import Category, Issue, RefusedError
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.merge.effect import merge
from engine.interchange.rest.merge.order import MergeOrder, parse_order
from engine.interchange.rest.merge.pair import find_pair
from engine.interchange.rest.merge.preview import preview
from engine.interchange.store.transaction import Transaction
from engine.interchange.tokens.oauth.rights import may_see
from engine.interchange.tokens.oauth.role import RoleRule


async def merge_patients(service: Service, request: FhirRequest) -> HttpAnswer:
    """Answer POST /Patient/$merge: 200 with the differences, or with `info: merged` once it is done."""
    order = parse_order(request.body, service.configuration.base_url)
    tenant = request.principal.tenant
    if order.preview:
        _demand_reading(service, request)
        return service.store.read(tenant, partial(_preview, service, request, order))

    def work(transaction: Transaction) -> None:
        merge(transaction, find_pair(transaction, order))

    await service.store.write(tenant, work)
    return _parameters([{"name": "info", "valueString": "merged"}])


def _demand_reading(service: Service, request: FhirRequest) -> None:
    """Refuse (403) to show what differs to a token that may not read patients."""
    if not may_see(service.configuration, request.principal, "Patient"):
        text = "The token has no scope for read access to Patient; a preview shows the contents of both records."
        challenge = (("www-authenticate", 'Bearer error="insufficient_scope"'),)
        raise RefusedError(Category.FORBIDDEN, (Issue(text, "http.Authorization"),), challenge)


def _preview(service: Service, request: FhirRequest, order: MergeOrder, transaction: Transaction) -> HttpAnswer:
    found = find_pair(transaction, order)
    pair = (found.source, found.target)
    source, target = (shown_value(stored.body, request) for stored in pair)
    differences = preview(source, target, service.configuration.service_identifier_system)
    return replace(_parameters(differences), patients=tuple(one.id for one in pair))


def shown_value(body: bytes, request: FhirRequest) -> JsonObject:
    """Return a kept Patient as a value in the version of the request."""
    value: JsonObject = read_resource(to_version(body, "Patient", request.version))
    return value


def _parameters(parameters: list[JsonObject]) -> HttpAnswer:
    resource: JsonObject = {"resourceType": "Parameters"}
    return HttpAnswer(200, write_json({**resource, "parameter": parameters} if parameters else resource))


INTERACTION = Interaction(
    "Patient",
    "merge",
    InteractionLevel.TYPE,
    "POST",
    RequiredAccess.WRITE,
    RoleRule.MERGE,
    merge_patients,
    operation="$merge",
)
