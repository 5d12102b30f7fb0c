"""What is recorded of a request: who asked, from where, for what, whose record it touched, and how it ended."""

from collections.abc import Iterator
from typing import Final

from engine.fhir.primitives import ID
from engine.interchange.exchange import Answer, Interaction, Request
from engine.interchange.oauth.vault import Principal
from engine.interchange.store.access import Access, joined, patients_in

# Search parameters that name whose record is searched.
OWNERS: Final = frozenset({"patient", "subject", "beneficiary", "target"})
REFUSED: Final = 400
FAILED: Final = 500


def named_in(request: Request, interaction: Interaction, text: bytes) -> tuple[str, ...]:
    """Return the ids of the patients whom a request names: in its address, its parameters and its body."""
    return tuple(one for one in (*_addressed(request, interaction), *patients_in(text)) if ID.fullmatch(one))


def _addressed(request: Request, interaction: Interaction) -> Iterator[str]:
    if request.type == "Patient" or interaction.code == "search-type":
        yield request.id
    for name, value in request.query:
        key = name.partition(":")[0]
        if key in OWNERS or (key == "_id" and request.type == "Patient"):
            yield from (one.rpartition("/")[2] for one in value.split(","))


def entry(
    at_ms: int,
    base: str,
    principal: Principal,
    interaction: Interaction,
    resource_id: str,
    named: tuple[str, ...],
    answer: Answer | None,
    origin: tuple[str, str],
) -> Access:
    """Return the row of a request; without an answer it is that of a write which is just being done.

    `origin`: the address it came from, and its request id.
    """
    status = answer.status if answer is not None else 0
    shown: tuple[str, ...] = ()
    if answer is not None and status < REFUSED:
        # What is no FHIR may name patients of others.
        shown = (*answer.patients, *(() if answer.media_type else patients_in(answer.body)))
    return Access(
        at_ms,
        principal.tenant,
        principal.client,
        principal.user,
        principal.role,
        *origin,
        base,
        interaction.code,
        interaction.type,
        # What a client writes in the place of an id may be anything.
        resource_id if ID.fullmatch(resource_id) else "",
        joined((*named, *shown)),
        "failed" if status >= FAILED else "refused" if status >= REFUSED else "done",
        status,
    )
