"""Which kept document of a patient another one is: by its numbers, else by what it has attached."""

from collections.abc import Iterable, Iterator
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.rest.resource.elements import values
from engine.interchange.store.transaction import StoredVersion, Transaction

ROWS: Final = "DocumentReference.identifier"
Number = tuple[str, str]


def find_document(transaction: Transaction, document: JsonObject) -> StoredVersion | None:
    """Return the document of the same patient that a document is, None for none; RefusedError (422) for several.

    By its masterIdentifier, else by any identifier, else by the address of an attachment.
    """
    master = list(_numbers(document, "masterIdentifier"))
    every = [*master, *_numbers(document, "identifier")]
    patient = document["subject"]["reference"]
    for found in (
        (one for one in _numbered(transaction, patient, master) if _shares(one, master, ("masterIdentifier",))),
        _numbered(transaction, patient, every),
        _attached(transaction, patient, document),
    ):
        known = {one.key: one for one in found}
        if len(known) > 1:
            text = "Several documents of the patient match; give each its own masterIdentifier."
            raise refuse(Category.AMBIGUOUS, text, location="DocumentReference")
        if known:
            return next(iter(known.values()))
    return None


def _numbered(transaction: Transaction, patient: str, numbers: Iterable[Number]) -> Iterator[StoredVersion]:
    for system, value in numbers:
        yield from _of(patient, map(transaction.by_key, transaction.holders(ROWS, system, value)))


def _attached(transaction: Transaction, patient: str, document: JsonObject) -> Iterator[StoredVersion]:
    for url in sorted(set(_urls(document))):
        same = (one for one in transaction.referrers(url) if one.type == "DocumentReference")
        yield from (one for one in _of(patient, same) if url in set(_urls(one.resource())))


def _of(patient: str, documents: Iterable[StoredVersion]) -> Iterator[StoredVersion]:
    return (one for one in documents if one.resource().get("subject", {}).get("reference") == patient)


def _shares(stored: StoredVersion, numbers: list[Number], elements: tuple[str, ...]) -> bool:
    return any(one in numbers for one in _numbers(stored.resource(), *elements))


def _numbers(document: JsonObject, *elements: str) -> Iterator[Number]:
    for element in elements:
        for one in values(document, element):
            if one.get("value"):
                yield one.get("system", ""), one["value"]


def _urls(document: JsonObject) -> list[str]:
    return values(document, "content.attachment.url")
