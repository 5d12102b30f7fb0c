"""The plan of a Bundle's step: its interaction, admitted by scope and role, and the FHIR request to carry out."""

from dataclasses import dataclass, replace
from typing import Final

from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, Prefer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.rest.access import AdmittedInteraction, admit
from engine.interchange.tokens.vault import Principal
from engine.interchange.web.bundles.step import BundleStep, placed
from engine.interchange.web.http.route import FhirRoute, RequestTarget, find_route

# The order in which a Bundle is carried out (FHIR, "Transaction Processing Rules").
PHASES: Final = {"DELETE": 0, "POST": 1, "PUT": 2, "PATCH": 2}
READING: Final = 3
# Entries of a Bundle are resources, so reads answer with resources.
ACCEPT: Final = {"accept": "application/fhir+json"}


@dataclass(frozen=True, slots=True)
class BundlePlan:
    """One step, its admission, and its FHIR request."""

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
    """The principal who sends a Bundle, the base, and the preferences."""

    principal: Principal
    version: FhirVersion
    base: str
    prefer: Prefer


def routed(service: Service, sender: BundleSender, step: BundleStep) -> FhirRoute:
    """Return the interaction of a step; RefusedError if it is not served."""
    method = "GET" if step.method == "HEAD" else step.method
    try:
        return find_route(
            RequestTarget(sender.version, tuple(step.path.split("/"))), method, service.configuration.features
        )
    except RefusedError as refusal:
        raise placed(refusal, step.number) from refusal


def planned(service: Service, sender: BundleSender, step: BundleStep) -> BundlePlan:
    """Return the plan of a step; RefusedError if it is not served, not allowed, or not possible in a Bundle."""
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
