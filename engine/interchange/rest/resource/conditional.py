"""Conditional update: the one resource that search parameters match is replaced, or made where there is none."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest, HttpAnswer
from engine.interchange.core.reply import written_answer
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.rest.patient.index import CONDITIONAL
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.precondition import match_condition, parse_criteria
from engine.interchange.rest.resource.update import Replacement
from engine.interchange.store.search.criterion import Parameter
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod
from engine.interchange.tokens.oauth.rights import may_see

# Parameters of a Patient in the condition of an update or delete: those of a create, and its identifiers.
PATIENT: Final = frozenset({*CONDITIONAL, "identifier"})


def conditional(request: FhirRequest) -> Mapping[str, Parameter]:
    """Return the search parameters that the condition of an update or delete may name."""
    parameters = KEPT[request.type].search_parameters(request.version)
    if request.type != "Patient":
        return parameters
    return {name: one for name, one in parameters.items() if name in PATIENT}


def updating_matching(replacement: Replacement) -> Callable[[Service, FhirRequest], Awaitable[HttpAnswer]]:
    """Return what answers PUT /{type}?{criteria}, for a type whose replacement is given."""

    async def update(service: Service, request: FhirRequest) -> HttpAnswer:
        """201 where none matches, 200 for one, 412 for several; 400 for a body of another id than the match."""
        wanted = parse_criteria(request, conditional(request), service.configuration.base_url)
        if not isinstance(request.body, dict):
            raise refuse(Category.STRUCTURE, "The body is no JSON object.", location="http.body")
        new_id = service.new_id()

        def work(transaction: Transaction) -> tuple[int, StoredVersion]:
            match = match_condition(transaction, wanted, "http.query")
            target = _target(transaction, request, match) or new_id
            meant = replace(request, id=target, query=(), body={**request.body, "id": target})
            return replacement(service, meant, VersionMethod.PUT)(transaction)

        status, stored = await service.store.write(request.principal.tenant, work)
        # Parts of the former version may be kept, such as an order's status.
        seen = status == 201 or may_see(
            service.configuration, request.principal, request.type, own=bool(request.within)
        )
        return written_answer(status, stored, request, location=status == 201, seen=seen)

    return update


def _target(transaction: Transaction, request: FhirRequest, match: StoredVersion | None) -> str:
    """Return the id that is written, '' for a new one; RefusedError where the body says another one."""
    given = request.body.get("id")
    if given is not None and not isinstance(given, str):
        location = f"{name_in(request.version, request.type)}.id"
        raise refuse(Category.STRUCTURE, "The id is no text.", location=location)
    if match is not None and given not in {None, match.id}:
        location = f"{name_in(request.version, request.type)}.id"
        raise refuse(Category.BAD_VALUE, f"The condition matches another resource, {match.id}.", location=location)
    if match is not None:
        return match.id
    stored = transaction.get(request.type, given) if given is not None else None
    if stored is not None and stored.survivor is None:
        text = "The resource of the body's id does not meet the condition."
        raise refuse(Category.CONFLICT, text, location="http.query")
    return given or ""
