"""How a record is created at a server: on condition, under an id derived from its number, or with an idempotency key.

`create` and `writes` of a destination decide (`engine/config/destination.py`); nothing here knows a server by its name.
"""

from base64 import b32encode
from hashlib import sha256
from typing import Final
from uuid import UUID

from engine.config.destination import CLIENT_ID, CREATE_ONLY, IDEMPOTENCY_KEY
from engine.deliver.stored import PATIENT, ServerResource, id_of, involved, stored
from engine.deliver.verdict import Failure
from engine.deliver.wire.client import ServerResponse
from engine.deliver.wire.exchange import Exchange
from engine.deliver.wire.failure import error_of
from engine.errors import HeldDeliveryError
from engine.fhir.patient import carries_any
from engine.fhir.plan import Identity

ID_OF_ANOTHER: Final = "id-of-another-record"
IDS_REFUSED: Final = "client-ids-refused"
IGNORED: Final = "if-none-match-ignored"
UNCLEAR: Final = "create-unclear"
# What a server calls a number that another record has; a conflict without it may be a write that it met, and passes.
DUPLICATE: Final = "duplicate"
NOT_WRITTEN: Final = "not-written"
ONCE: Final = (("If-None-Match", "*"),)
# A record is there already: 304 is how some servers answer If-None-Match (LinuxForHealth/FHIR#2050).
THERE: Final = frozenset({304, 409, 412})
# What a server answers to an id of a client that takes none.
NO_IDS: Final = frozenset({404, 405})
_PREFIX: Final = "adt-"


def client_id(identity: Identity) -> str:
    """Return the id under which a record with this number is created: 56 characters of `[a-z0-9-]`.

    The same for a number in every engine and at every time; nothing of the number can be read in it.
    """
    digest = sha256(f"{identity.system}|{identity.value}".encode()).digest()
    return _PREFIX + b32encode(digest).decode("ascii").rstrip("=").lower()


def idempotency_key(entry: int, type_: str, identity: Identity) -> str:
    """Return the key of a create: a UUID that is the same for each try of one entry, and of no other create.

    An entry creates a number's record once, so that entry, type and number are the step and what it intends. Nothing
    of the number can be read in it.
    """
    intent = "\n".join((str(entry), type_, identity.system, identity.value))
    return str(UUID(bytes=sha256(intent.encode()).digest()[:16], version=4))


def only_creates(exchange: Exchange) -> bool:
    """Say whether nothing that is at the server is changed."""
    return exchange.server.settings.writes == CREATE_ONLY


def leave(exchange: Exchange, what: str) -> str:
    """Note what is not written because the destination only gets what it has not got, and return that ending."""
    exchange.note(f"{NOT_WRITTEN} {what}")
    return NOT_WRITTEN


def has_client_ids(exchange: Exchange) -> bool:
    """Say whether records are created under ids derived from their numbers."""
    return exchange.server.settings.create == CLIENT_ID


def has_keys(exchange: Exchange) -> bool:
    """Say whether records are created with idempotency keys."""
    return exchange.server.settings.create == IDEMPOTENCY_KEY


def key_header(
    exchange: Exchange, type_: str, identity: Identity, *, shared: bool = False
) -> tuple[tuple[str, str], ...]:
    """Return the header by which a create takes effect once, whatever becomes of its answer.

    `shared`: for what messages of many patients name at once (a place, a person of the staff), one key for all of them.
    """
    entry = 0 if shared else exchange.entry
    return ((exchange.server.settings.behaviour.idempotency_header, idempotency_key(entry, type_, identity)),)


async def there_under(exchange: Exchange, identity: Identity, type_: str = PATIENT) -> ServerResource | None:
    """Return what is under the id that a number gives, None where that is free or no ids are derived.

    A search may be behind, a read by id is not. An id that was found free is not read again in this delivery.
    """
    reference = f"{type_}/{client_id(identity)}"
    if not has_client_ids(exchange) or reference in exchange.vacant:
        return None
    before, exchange.deleted = exchange.deleted, False
    found = await exchange.read(client_id(identity), type_)
    if found is None:
        exchange.vacant[reference] = exchange.deleted
    exchange.deleted = exchange.deleted or before
    return found


def check_number(found: ServerResource, *identities: Identity) -> None:
    """Hold for a record under a derived id that has none of the numbers, not even as an old one."""
    if not carries_any(found.body, identities):
        raise HeldDeliveryError(ID_OF_ANOTHER, involved=(involved("has the id that the number gives", found),))


def check_taken(exchange: Exchange, answer: ServerResponse) -> None:
    """Raise DestinationError where a server refuses ids of a client: no other patient would fare better."""
    refused = answer.status in NO_IDS
    if not refused and answer.status in {400, 422}:
        refused = exchange.server.abilities.update_create is False
    if refused:
        raise error_of(Failure.DESTINATION, IDS_REFUSED, answer.status, (IDS_REFUSED,))


def id_in(exchange: Exchange, answer: ServerResponse, type_: str) -> str:
    """Return the id of the resource that an answer shows or points to; empty where it does neither."""
    shown = stored(exchange.server.inward(answer.json), answer.headers, type_)
    return shown.logical_id if shown is not None else id_of(answer.headers.get("location", ""), type_)


async def original_of(exchange: Exchange, answer: ServerResponse, type_: str) -> ServerResource | None:
    """Return what a repeated key made the first time, read anew; None where the answer names nothing that is there.

    The answer itself is not believed: its body may be as old as the create.
    """
    logical_id = id_in(exchange, answer, type_)
    return await exchange.read(logical_id, type_) if logical_id else None
