"""The plan of a Bundle's step: its interaction, admitted by scope and role; and its row in the access log."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl

from engine.fhir.schema import FhirVersion
from engine.interchange.core.audit.entry import ENTRY, entry, named_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, Prefer
from engine.interchange.core.service import Service
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.rest.access import AdmittedInteraction, admit
from engine.interchange.store.access import AccessRow, joined, touching
from engine.interchange.store.transaction import milliseconds
from engine.interchange.tokens.vault import Principal
from engine.interchange.web.bundles.step import BundleStep, placed
from engine.interchange.web.http.recording import reached
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


REFUSED: Final = 400


@dataclass(frozen=True, slots=True)
class EntryLog:
    """Makes the rows of one Bundle's entries.

    `base` is the FHIR version that was called, `origin` where the Bundle came from, and its request id. `rows` are
    those that are not on disk yet: the Bundle's answer waits for them.
    """

    service: Service
    sender: BundleSender
    base: str
    origin: tuple[str, str]
    rows: list[AccessRow]

    def row(
        self,
        step: BundleStep,
        interaction: Interaction,
        resource_id: str,
        answer: HttpAnswer | None = None,
        *,
        within: Service | None = None,
        touched: Iterable[str] = (),
    ) -> AccessRow:
        """Return the row of an entry, with its answer if there is one yet.

        `within` is the service in the transaction under way, `touched` are those whose records the entry has written.
        """
        service = within or self.service
        refused = answer is not None and answer.status >= REFUSED
        query = tuple(parse_qsl(step.query.replace("%00", ""), keep_blank_values=True))
        text = write_json(step.body) if refused and step.body is not None else b""
        named = named_in(interaction, resource_id, query, text, self.sender.base)
        address, request = self.origin
        origin = (address, f"{request}{ENTRY}{step.number}")
        at_ms = milliseconds(service.clock())
        made = entry(at_ms, self.base, self.sender.principal, interaction, resource_id, named, answer, origin)
        made = touching(made, touched)
        if answer is None or (made.patients and not refused):
            return made
        patients = reached(service, self.sender.principal.tenant, interaction, resource_id, query, text)
        return made._replace(patients=joined((*made.patients.split(), *patients)))

    def refuse(self, steps: Sequence[BundleStep], refusal: RefusedError) -> None:
        """Add the rows of a refused transaction: only the entry at fault has its own status."""
        place = refusal.issues[0].location
        for step in steps:
            try:
                route = routed(self.service, self.sender, step)
            except RefusedError:
                continue
            row = self.row(step, route.interaction, route.id, HttpAnswer(refusal.category.status))
            at_fault = place.startswith(f"Bundle.entry[{step.number}]")
            self.rows.append(row if at_fault else row._replace(status=0))
