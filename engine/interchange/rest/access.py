"""What every interaction asks before it runs, alone or in a Bundle: scope, role, its parameters, and the patient."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from engine.interchange.core.exchange import FhirRequest, HttpAnswer, Interaction, InteractionLevel
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse, unsupported
from engine.interchange.rest.resource.context import reached_by, restrict_to_patient
from engine.interchange.store.search.page import FORMAT
from engine.interchange.tokens.role import RoleRule, demand
from engine.interchange.tokens.scope import allows
from engine.interchange.tokens.vault import Principal

MAX_PARAMETERS: Final = 100
# Interactions that read their parameters themselves; every other one takes FORMAT only.
QUERIED: Final = frozenset(
    {
        "chart",
        "cq-search",
        "read",
        "read-temporary",
        "vread",
        "search-type",
        "create",
        "delete",
        "everything",
        "export-ccda",
        "history-instance",
        "history-type",
        "p360-retrieve",
    }
)
# The letters of `cruds` of an interaction that needs fewer than its access covers.
LETTERS: Final = {
    "read": "r",
    "read-temporary": "r",
    "vread": "r",
    "history-instance": "r",
    "history-type": "s",
    "search-type": "s",
    "create": "c",
    "update": "cu",
    "patch": "u",
    "delete": "d",
}


@dataclass(frozen=True, slots=True)
class AdmittedInteraction:
    """An interaction that a principal may carry out, and its parameters: only `admit` makes one, only this runs one."""

    principal: Principal
    interaction: Interaction
    query: tuple[tuple[str, str], ...]

    def restrict(self, service: Service, request: FhirRequest) -> FhirRequest:
        """Return the request restricted to the patient of the token; RefusedError (403) where it reaches further."""
        return restrict_to_patient(service, request, self.interaction, needed(self.interaction))

    async def answer(self, service: Service, request: FhirRequest) -> HttpAnswer:
        """Carry out the interaction, restricted to the patient of the token."""
        return await self.interaction.run(service, self.restrict(service, request))


def admit(service: Service, principal: Principal, interaction: Interaction, query: str) -> AdmittedInteraction:
    """Admit an interaction with the query of an address; RefusedError where it is not allowed, or not understood."""
    authorise(service, principal, interaction)
    pairs = read_query(query)
    if pairs and not queried(interaction):
        check_plain(pairs)
    return AdmittedInteraction(principal, interaction, tuple(pairs))


def authorise(service: Service, principal: Principal, interaction: Interaction) -> None:
    """Refuse (403) an interaction that the token's scopes or the account's role do not allow.

    One that says itself who may is let through.
    """
    if interaction.own_rights:
        return
    enforced = service.tenant(principal.tenant).scope_enforcement == "strict"
    strict = enforced or interaction.action is RoleRule.AUDIT
    alone = interaction.flags | interaction.also
    granted = allows(principal.scopes, reached_by(interaction), needed(interaction)) or not alone.isdisjoint(
        principal.scopes
    )
    if strict and not granted:
        issue = Issue(
            f"The token has no scope for {interaction.access} access to {interaction.type}.", "http.Authorization"
        )
        raise RefusedError(Category.FORBIDDEN, (issue,), (("www-authenticate", 'Bearer error="insufficient_scope"'),))
    demand(principal.role, interaction.action)


def needed(interaction: Interaction) -> str:
    """Return the access, or the letters of `cruds`, that a scope must grant for an interaction."""
    return LETTERS.get(interaction.code, interaction.access)


def read_query(text: str) -> list[tuple[str, str]]:
    """Return the parameters of a query; RefusedError (400) for one that cannot be read."""
    if not text:
        return []
    try:
        query = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError as error:
        raise refuse(Category.BAD_VALUE, "The query cannot be read.", location="http.query") from error
    if "%00" in text or "\0" in text:
        raise refuse(Category.BAD_VALUE, "The query contains a NUL character.", location="http.query")
    return query


def check_plain(query: list[tuple[str, str]]) -> None:
    """Refuse parameters of an interaction that takes none: to leave one out may answer another question."""
    unknown = next((name for name, _ in query if name not in FORMAT), None)
    if unknown is not None:
        raise unsupported(unknown)


def queried(interaction: Interaction) -> bool:
    """Say whether an interaction reads its parameters itself."""
    return (
        interaction.code in QUERIED
        or interaction.document
        or (interaction.code == "update" and interaction.level is InteractionLevel.TYPE)
    )
