"""The ids of what a transaction writes, before it is written, and the references between its entries."""

from collections.abc import Mapping
from typing import Any, Final

from engine.fhir.json import Json
from engine.fhir.versions.names import name_in, r4_name
from engine.interchange.core.exchange import FhirRequest, InteractionLevel
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.rest.access import read_query
from engine.interchange.rest.patient.index import CONDITIONAL
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.conditional import PATIENT, conditional
from engine.interchange.rest.resource.precondition import match_condition, parse_condition, parse_criteria
from engine.interchange.store.query import find
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.transaction import Transaction
from engine.interchange.tokens.oauth.scope import allows
from engine.interchange.web.bundles.plan import BundlePlan, BundleSender
from engine.interchange.web.bundles.step import placed

NESTED: Final = (dict, list)


def target_of(service: Service, transaction: Transaction, plan: BundlePlan) -> str:
    """Return the id that an entry writes: that of the resource its condition matches, the body's, or a new one."""
    request, base_url = plan.request, service.configuration.base_url
    try:
        # A condition must not reveal a match to a client without access to it.
        plan.admission.restrict(service, request)
        if plan.interaction.code == "create":
            parameters = CONDITIONAL if request.type == "Patient" else _parameters(request)
            match = match_condition(transaction, parse_condition(request, parameters, base_url))
            return match.id if match is not None else service.new_id()
        if plan.interaction.level is InteractionLevel.TYPE:
            wanted = parse_criteria(request, conditional(request), base_url)
            match = match_condition(transaction, wanted, "http.query")
            given = request.body.get("id") if isinstance(request.body, dict) else None
            return match.id if match is not None else str(given or service.new_id())
    except RefusedError as refusal:
        raise placed(refusal, plan.step.number) from refusal
    return request.id


def resolved(
    service: Service, transaction: Transaction, sender: BundleSender, plan: BundlePlan, targets: Mapping[str, str]
) -> Json:
    """Return the body of an entry with its references to other entries, and its conditional ones, as `Type/id`."""
    try:
        return _resolved(plan.request.body, service, transaction, sender, targets)
    except RefusedError as refusal:
        raise placed(refusal, plan.step.number) from refusal


def _resolved(
    part: Json, service: Service, transaction: Transaction, sender: BundleSender, targets: Mapping[str, str]
) -> Json:
    if isinstance(part, list):
        return [
            _resolved(one, service, transaction, sender, targets) if isinstance(one, NESTED) else one for one in part
        ]
    if not isinstance(part, dict):
        return part
    made = {
        name: _resolved(value, service, transaction, sender, targets) if isinstance(value, NESTED) else value
        for name, value in part.items()
    }
    reference = part.get("reference")
    if isinstance(reference, str):
        made["reference"] = targets.get(reference) or _one(service, transaction, sender, reference)
    url = part.get("url")
    if isinstance(url, str) and url in targets:
        made["url"] = targets[url]
    return made


def _one(service: Service, transaction: Transaction, sender: BundleSender, reference: str) -> str:
    """Return the one resource that a conditional reference (`Patient?identifier=…`) matches; others as they are."""
    name, mark, query = reference.removeprefix(f"{sender.base}/").partition("?")
    type_name = r4_name(name)
    if not mark or type_name not in KEPT or name_in(sender.version, type_name) != name:
        return reference
    strict = service.tenant(sender.principal.tenant).scope_enforcement == "strict"
    if sender.principal.patient or (strict and not allows(sender.principal.scopes, type_name, "s")):
        text = f"No scope of the token allows to search {name}."
        raise refuse(Category.FORBIDDEN, text, location="http.Authorization")
    known = KEPT[type_name].search_parameters(sender.version)
    parameters = {key: one for key, one in known.items() if type_name != "Patient" or key in PATIENT}
    wanted = parse_search(type_name, parameters, read_query(query), service.configuration.base_url, sender.version)
    if not wanted.criteria:
        raise refuse(Category.BAD_VALUE, "A conditional reference names no criterion.", location="http.reference")
    matches = find(transaction, wanted, count=2)
    if matches.total != 1:
        category = Category.AMBIGUOUS if matches.total else Category.UNRESOLVED
        text = "A conditional reference matches several resources." if matches.total else "It matches no resource."
        raise refuse(category, text, location="http.reference")
    return f"{name}/{matches.records[0].id}"


def _parameters(request: FhirRequest) -> Mapping[str, Any]:
    return KEPT[request.type].search_parameters(request.version)
