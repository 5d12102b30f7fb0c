"""The row of a call in the access log: principal, interaction, and the patients that it names or reaches.

For the access log only: it never changes an answer.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from engine.fhir.json import Json
from engine.fhir.primitives import ID
from engine.fhir.schema import FhirVersion
from engine.interchange.core.audit.entry import OWNERS, Pairs, entry, named_in
from engine.interchange.core.exchange import HttpAnswer, Interaction
from engine.interchange.core.service import Service
from engine.interchange.jobs import handle
from engine.interchange.kernel.exact import NO_JSON, read_strictly
from engine.interchange.kernel.outcome import Category, RefusedError
from engine.interchange.rest.binary.content import FHIR_JSON, owners
from engine.interchange.rest.patient.index import IDENTIFIER
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.definition import SUBSCRIPTION
from engine.interchange.store import temporary
from engine.interchange.store.access import AccessRow, joined, patients_in
from engine.interchange.store.history import former_version
from engine.interchange.store.job import patient_of_job
from engine.interchange.store.transaction import Transaction, milliseconds
from engine.interchange.tokens.vault import Principal
from engine.interchange.web.http.call import BUNDLES, WITH_BODY, HttpCall, read_body

# Operations whose body may name patients by identifiers, and the elements that do.
BY_NUMBER: Final = frozenset({"merge", "merge-document"})
NUMBERS: Final = frozenset({"valueIdentifier", "identifier"})
NUMBER: Final = "identifier"
# Limits: identifiers of one request that are looked up, and values of a body that are searched for them.
MOST: Final = 10
MOST_VALUES: Final = 1_000

Number = tuple[str, str]


def reached(
    service: Service, tenant: str, interaction: Interaction, resource_id: str, query: Pairs, text: bytes
) -> tuple[str, ...]:
    """Return the ids of the patients that a request concerns, by a resource's id or a patient's identifier."""
    numbers = tuple(_numbers(interaction, query, text))[:MOST]
    leads = bool(resource_id) and ID.fullmatch(resource_id) is not None and _leads(interaction)
    if not leads and not numbers:
        return ()

    def look(transaction: Transaction) -> tuple[str, ...]:
        found = list(_whose(transaction, interaction, resource_id)) if leads else []
        for system, value in numbers:
            keys = transaction.holders(IDENTIFIER, system, value)
            found += [transaction.by_key(key).id for key in keys]
        return tuple(dict.fromkeys(found))

    return service.store.read(tenant, look)


def _leads(interaction: Interaction) -> bool:
    """Say whether the resource of an id may belong to a patient that the id does not name."""
    name = interaction.type
    return name in {"Binary", SUBSCRIPTION, handle.NAME} or (name in KEPT and bool(KEPT[name].patient))


def _whose(transaction: Transaction, interaction: Interaction, resource_id: str) -> Iterator[str]:
    if interaction.type == handle.NAME:
        yield from filter(None, (patient_of_job(transaction, resource_id),))
        return
    if interaction.code == "read-temporary":
        document = temporary.find(transaction, resource_id)
        if document is not None:
            yield document.patient
        return
    stored = transaction.get(interaction.type, resource_id)
    if stored is None:
        return
    if stored.deleted:
        # The last version before the deletion names the patient.
        former = former_version(transaction, stored, stored.version - 1, 0)
        yield from patients_in(former.body) if former is not None else ()
    elif interaction.type == "Binary":
        yield from sorted(owners(transaction, stored.id, stored.resource()))
    else:
        yield from patients_in(stored.body)


def _numbers(interaction: Interaction, query: Pairs, text: bytes) -> Iterator[Number]:
    """Yield the patient identifiers (system, value) in a request."""
    for name, value in query:
        if _asks_number(interaction, name):
            for one in value.split(","):
                system, mark, number = one.partition("|")
                if mark and number:
                    yield system, number
    if interaction.code in BY_NUMBER and text:
        try:
            yield from _numbers_in(read_strictly(text))
        except NO_JSON:
            return


def _asks_number(interaction: Interaction, name: str) -> bool:
    """Say whether a search parameter selects patients by identifier: `identifier`, or `patient.identifier`."""
    owner, dot, rest = name.partition(".")
    if dot:
        return owner.partition(":")[0] in OWNERS and rest == NUMBER
    if interaction.type == "Patient":
        return name == NUMBER
    return owner.partition(":")[0] in OWNERS and owner.endswith(f":{NUMBER}")


def _numbers_in(body: Json) -> Iterator[Number]:
    waiting, left = [body], MOST_VALUES
    while waiting and left:
        one, left = waiting.pop(), left - 1
        if isinstance(one, list):
            waiting.extend(one)
        if not isinstance(one, dict):
            continue
        for name, value in one.items():
            waiting.append(value)
            if name in NUMBERS and isinstance(value, dict):
                system, number = value.get("system"), value.get("value")
                if isinstance(system, str) and isinstance(number, str):
                    yield system, number


# Timeout for reading the body of a refused request, to see which patients it names.
REFUSED_BODY_SECONDS: Final = 5
# Statuses of answers whose content the client has already.
NOT_MODIFIED: Final = 304


def access_of(
    service: Service, call: HttpCall, principal: Principal, interaction: Interaction, answer: HttpAnswer | None
) -> AccessRow:
    """Return the access log's row of a call, and of its answer if there is one.

    The patients are looked up where the answer does not name them.
    """
    at_ms = milliseconds(service.clock())
    row = entry(at_ms, call.base, principal, interaction, call.id, call.named, answer, call.origin)
    if answer is None or answer.status >= Category.FAULT.status or interaction in BUNDLES.values():
        return row
    if row.patients and answer.status < Category.STRUCTURE.status and answer.status != NOT_MODIFIED:
        return row
    found = reached(service, principal.tenant, interaction, call.id, call.pairs(), call.text or b"")
    return row._replace(patients=joined((*row.patients.split(), *found)))


async def name_refused(service: Service, call: HttpCall, version: FhirVersion) -> None:
    """Find the patients that a refused request names, for the access log; the answer does not change.

    Reads the body too, with a short timeout, unless the client waits for '100 Continue'.
    """
    if call.interaction is None or (call.principal or call.former) is None or call.refusal is not None:
        return
    if call.text is None and call.method in WITH_BODY and "expect" not in call.headers:
        with suppress(RefusedError, ConnectionError, TimeoutError):
            async with asyncio.timeout(REFUSED_BODY_SECONDS):
                call.text = await read_body(service, call)
    # A raw body may mention other patients; the X-Security-Context header names the one it belongs to.
    raw = call.interaction.raw and not call.headers.get("content-type", "").startswith(FHIR_JSON)
    context = f'"{call.headers.get("x-security-context", "")}"'.encode("latin-1", "replace")
    text = (b"" if raw else call.text or b"") + context
    call.named = named_in(call.interaction, call.id, call.pairs(), text, service.base(version))
