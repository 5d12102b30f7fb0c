"""The structure of every kept order: a RequestGroup with its required elements."""

from collections.abc import Iterator
from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.interchange.kernel.outcome import Category, Issue, RefusedError
from engine.interchange.orders.order import NAME
from engine.interchange.rest.resource.rules import check_shape, issues

REQUIRED: Final = ("status", "intent", "author", "action")


def check_order(body: JsonObject, version: FhirVersion) -> RefusedError | None:
    """Raise the RefusedError (400) of a malformed or incomplete order; return, not raise, that of a wrong one (422)."""
    missing, wrong = check_shape(body, NAME, version)
    absent = {one.location: one for one in (*issues(missing), *_absent(body))}
    if absent:
        raise RefusedError(Category.REQUIRED, tuple(absent.values()))
    return wrong


def _absent(body: JsonObject) -> Iterator[Issue]:
    for element in REQUIRED:
        if not body.get(element):
            path = f"{NAME}.{element}"
            yield Issue(f"{path}: an order needs it.", path, "missing-field")
    if not body.get("subject", {}).get("reference"):
        path = f"{NAME}.subject"
        yield Issue(f"{path}: a reference to the patient is missing.", path, "missing-field")
