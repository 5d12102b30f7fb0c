"""The access log's row of a request: principal, address, interaction, patients, and outcome."""

import re
from collections.abc import Iterator
from typing import Final

from engine.fhir.primitives import ID
from engine.interchange.core.exchange import HttpAnswer, Interaction
from engine.interchange.store.access import AccessRow, joined, patients_in
from engine.interchange.tokens.vault import Principal

# Search parameters whose value names a patient.
OWNERS: Final = frozenset({"patient", "subject", "beneficiary", "target"})
REFERENCE: Final = "Patient/"
REFUSED: Final = 400
FAILED: Final = 500
# Characters of a client's request id; a spreadsheet does not read its start as a formula.
FOREIGN: Final = re.compile(r"^[^A-Za-z0-9]|[^A-Za-z0-9._:/=|+~@-]")
# The separator of a request id and the number of an entry in its Bundle.
ENTRY: Final = "#"

Pairs = tuple[tuple[str, str], ...]


def clean(request_id: str) -> str:
    """Return a request id for the access log: as sent, with `_` for each character that is not allowed."""
    return FOREIGN.sub("_", request_id)


def named_in(interaction: Interaction, resource_id: str, query: Pairs, text: bytes, base: str) -> tuple[str, ...]:
    """Return the ids of the patients in a request's address, parameters and body.

    `base` is the address of the called base, for absolute references in the body.
    """
    # Some clients escape slashes as `\/`, and some send absolute references.
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
    """Return the row of a request; without an answer that of a write in progress.

    `origin`: the client's address and the request id.
    """
    status = answer.status if answer is not None else 0
    shown: tuple[str, ...] = ()
    if answer is not None and status < REFUSED:
        # A raw body may mention other patients.
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
        # The id in an address may be any text.
        resource_id if ID.fullmatch(resource_id) else "",
        joined((*named, *shown)),
        "failed" if status >= FAILED else "refused" if status >= REFUSED else "done",
        status,
    )
