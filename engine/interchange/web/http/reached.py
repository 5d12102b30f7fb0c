"""The patients of a request whose answer does not name them: a refused one, or one with an anonymous answer.

For the access log only: it never changes an answer.
"""

from collections.abc import Iterator
from typing import Final

from engine.fhir.json import Json
from engine.fhir.primitives import ID
from engine.interchange.core.audit.entry import OWNERS, Pairs
from engine.interchange.core.exchange import Interaction
from engine.interchange.core.service import Service
from engine.interchange.jobs import handle
from engine.interchange.kernel.exact import NO_JSON, read_strictly
from engine.interchange.rest.binary.patient_compartment import owners
from engine.interchange.rest.patient.index import IDENTIFIER
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.subscription import SUBSCRIPTION
from engine.interchange.store import temporary
from engine.interchange.store.access import patients_in
from engine.interchange.store.history import former_version
from engine.interchange.store.job import patient_of_job
from engine.interchange.store.transaction import Transaction

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
