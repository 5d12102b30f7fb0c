"""An order as a resource: its status, its laboratory and its tests."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.fhir.json import JsonObject
from engine.interchange.kernel.extension import url, value, with_value
from engine.interchange.orders.status import FHIR, OrderStatus
from engine.interchange.store.references import local_target

NAME: Final = "RequestGroup"
TEST: Final = "ServiceRequest"
STATUS: Final = "requestgroup-orderStatus"
PERFORMER: Final = "requestgroup-performer"
KNOWN: Final = frozenset(OrderStatus)


class OrderAction(NamedTuple):
    """One action of an order: its path, and the reference to its test, '' for none."""

    path: str
    element: JsonObject
    reference: str


def status_of(resource: JsonObject, sis: str) -> OrderStatus:
    """Return the status of an order; `sis` is the service's identifier system."""
    coding = value(resource, sis, STATUS)
    code = coding.get("code") if isinstance(coding, dict) else None
    return OrderStatus(code) if code in KNOWN else OrderStatus.DRAFT


def with_status(resource: JsonObject, sis: str, status: OrderStatus) -> JsonObject:
    """Return an order that has a status, in the service's words and in FHIR's."""
    coding = {"system": f"{sis}/order-status", "code": str(status), "display": status.capitalize()}
    made = {**with_value(resource, url(sis, STATUS), {"valueCoding": coding}), "status": FHIR[status]}
    # What a client of STU3 said in words of R4 (kernel/view.py); the service says it itself.
    made.pop("_status", None)
    return made


def performer_of(resource: JsonObject, sis: str) -> str:
    """Return the id of the Organization that is to do the tests, '' where none is named by a reference to one."""
    reference = value(resource, sis, PERFORMER)
    target = local_target(str(reference.get("reference", ""))) if isinstance(reference, dict) else ""
    type_name, _, organization_id = target.partition("/")
    return organization_id if type_name == "Organization" else ""


def tests_of(resource: JsonObject) -> tuple[str, ...]:
    """Return the ids of the ServiceRequests of an order, each once, in its order."""
    targets = (local_target(one.reference).partition("/") for one in actions_of(resource))
    return tuple(dict.fromkeys(test_id for type_name, _, test_id in targets if type_name == TEST))


def actions_of(resource: JsonObject, path: str = NAME) -> Iterator[OrderAction]:
    """Yield the actions of an order, those within others too."""
    for index, one in enumerate(resource.get("action", ())):
        place = f"{path}.action[{index}]"
        reference = one.get("resource", {}).get("reference", "")
        yield OrderAction(place, one, reference)
        yield from actions_of(one, place)


def of_patient(resource: JsonObject) -> str:
    """Return `Patient/id` of an order, a test or a result; '' for none."""
    holder = resource.get("subject")
    return local_target(str(holder.get("reference", ""))) if isinstance(holder, dict) else ""
