"""What is recorded of a request: who asked, from where, for what, whose record it touched, and how it ended."""

import re
from collections.abc import Iterator
from typing import Final

from engine.fhir.primitives import ID
from engine.interchange.core.exchange import HttpAnswer, Interaction
from engine.interchange.store.access import AccessRow, joined, patients_in
from engine.interchange.tokens.oauth.vault import Principal

# Search parameters that name whose record is searched.
OWNERS: Final = frozenset({"patient", "subject", "beneficiary", "target"})
REFERENCE: Final = "Patient/"
REFUSED: Final = 400
FAILED: Final = 500
# What a client's own request id may hold; no table that reads the log takes its start for a formula.
FOREIGN: Final = re.compile(r"^[^A-Za-z0-9]|[^A-Za-z0-9._:/=|+~@-]")
# What stands between the id of a request and the number of an entry in its Bundle.
ENTRY: Final = "#"

Pairs = tuple[tuple[str, str], ...]


def clean(request_id: str) -> str:
    """Return a request id as the access log keeps it: as it was sent, with `_` for what does not belong in an id."""
    return FOREIGN.sub("_", request_id)


def named_in(interaction: Interaction, resource_id: str, query: Pairs, text: bytes, base: str) -> tuple[str, ...]:
    """Return the ids of the patients whom a request names: in its address, its parameters and its body.

    `base` is the address of the base that was called: the body may refer by it.
    """
    # Some write every slash of a text as `\/`, and some refer by the whole address.
    plain = text.replace(b"\\/", b"/").replace(f'"{base}/'.encode(), b'"')
    named = (*_addressed(interaction, resource_id, query), *patients_in(plain))
    return tuple(dict.fromkeys(one for one in named if ID.fullmatch(one)))


def _addressed(interaction: Interaction, resource_id: str, query: Pairs) -> Iterator[str]:
    if interaction.type == "Patient" or interaction.code == "search-type":
        yield resource_id
    for name, value in query:
        key = name.partition(":")[0]
        for one in value.split(","):
            if key in OWNERS or REFERENCE in one or (key == "_id" and interaction.type == "Patient"):
                yield one.rpartition("/")[2]


def entry(
    at_ms: int,
    base: str,
    principal: Principal,
    interaction: Interaction,
    resource_id: str,
    named: tuple[str, ...],
    answer: HttpAnswer | None,
    origin: tuple[str, str],
) -> AccessRow:
    """Return the row of a request; without an answer it is that of a write which is just being done.

    `origin`: the address it came from, and its request id.
    """
    status = answer.status if answer is not None else 0
    shown: tuple[str, ...] = ()
    if answer is not None and status < REFUSED:
        # What is no FHIR may name patients of others.
        shown = (*answer.patients, *(() if answer.media_type else patients_in(answer.body)))
    return AccessRow(
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
