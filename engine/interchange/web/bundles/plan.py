"""What a step of a Bundle comes to: an interaction, judged by scope and role, and the request that it carries out."""

from dataclasses import dataclass, replace
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, Prefer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.rest.access import AdmittedInteraction, admit
from engine.interchange.tokens.oauth.vault import Principal
from engine.interchange.web.bundles.step import BundleStep, placed
from engine.interchange.web.http.route import FhirRoute, RequestTarget, find_route

# The order in which a Bundle is carried out (FHIR, "Transaction Processing Rules").
PHASES: Final = {"DELETE": 0, "POST": 1, "PUT": 2, "PATCH": 2}
READING: Final = 3
# Whatever is read comes as a resource: a Bundle holds nothing else.
ACCEPT: Final = {"accept": "application/fhir+json"}


@dataclass(frozen=True, slots=True)
class BundlePlan:
    """One step, the admission to the interaction that it asks for, and the request for that."""

    step: BundleStep
    admission: AdmittedInteraction
    request: FhirRequest

    @property
    def interaction(self) -> Interaction:
        """The interaction."""
        return self.admission.interaction

    @property
    def phase(self) -> int:
        """When its turn comes: deletes first, reads last."""
        return phase_of(self.step.method)


def phase_of(method: str) -> int:
    """Return when the turn of a method comes."""
    return PHASES.get(method, READING)


@dataclass(frozen=True, slots=True)
class BundleSender:
    """Who sends a Bundle, to which base, and what he prefers."""

    principal: Principal
    version: FhirVersion
    base: str
    prefer: Prefer


def routed(service: Service, sender: BundleSender, step: BundleStep) -> FhirRoute:
    """Return the interaction that a step asks for; RefusedError for what is not served."""
    method = "GET" if step.method == "HEAD" else step.method
    try:
        return find_route(
            RequestTarget(sender.version, tuple(step.path.split("/"))), method, service.configuration.features
        )
    except RefusedError as refusal:
        raise placed(refusal, step.number) from refusal


def planned(service: Service, sender: BundleSender, step: BundleStep) -> BundlePlan:
    """Return the plan of a step; RefusedError for what is not served, not allowed, or no part of a Bundle."""
    interaction, resource_id, vid, _ = routed(service, sender, step)
    try:
        if interaction.operation.startswith("$") or interaction.form or interaction.own_rights:
            raise refuse(Category.UNSUPPORTED, "An operation cannot be part of a Bundle; call it by itself.")
        admission = admit(service, sender.principal, interaction, step.query)
    except RefusedError as refusal:
        raise placed(refusal, step.number) from refusal
    request = FhirRequest(
        version=sender.version,
        base=sender.base,
        type=interaction.type,
        id=resource_id,
        query=admission.query,
        headers={**step.headers, **ACCEPT},
        # An entry has its answer in that of the Bundle.
        prefer=replace(sender.prefer, respond_async=False),
        principal=sender.principal,
        body=step.body,
        vid=vid,
    )
    return BundlePlan(step, admission, request)


async def carried_out(service: Service, plan: BundlePlan) -> HttpAnswer:
    """Carry out one step and return its answer; RefusedError says in which entry it is refused."""
    try:
        return await plan.admission.answer(service, plan.request)
    except RefusedError as refusal:
        raise placed(refusal, plan.step.number) from refusal
