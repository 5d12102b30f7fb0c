"""The table of an order's states, held against a second copy; and what an order says of itself."""

import pytest

from engine.interchange.kernel.extension import url, value
from engine.interchange.orders import order as orders
from engine.interchange.orders.order import (
    FHIR,
    TRANSITIONS,
    OrderEvent,
    OrderStatus,
    performer_of,
    status_of,
    with_status,
)

SIS = "https://cdis.example"
# Written by hand: one line a state, and where each event leads from there.
SECOND_COPY = """
          submit   transmitted refused resulted   unresulted cancel
draft     pending  -           -       -          -          cancelled
pending   -        sent        failed  completed  -          cancelled
sent      -        -           failed  completed  -          -
completed -        -           -       -          sent       -
failed    pending  -           -       -          -          cancelled
cancelled -        -           -       -          -          -
"""


def second_copy() -> dict[tuple[str, str], str]:
    """Return the moves of the second copy, by state and event."""
    head, *lines = SECOND_COPY.strip().splitlines()
    cells = [line.split() for line in lines]
    return {
        (state, event): after
        for state, *moves in cells
        for event, after in zip(head.split(), moves, strict=True)
        if after != "-"
    }


def test_the_table_is_the_second_copy() -> None:
    """Each state and each event leads where the page says, and nowhere else."""
    assert {(str(state), str(event)): str(after) for (state, event), after in TRANSITIONS.items()} == second_copy()
    assert {str(state) for state in OrderStatus} == {line.split()[0] for line in SECOND_COPY.strip().splitlines()[1:]}
    assert {str(event) for event in OrderEvent} == set(SECOND_COPY.strip().splitlines()[0].split())


def test_every_state_has_a_status_of_fhir() -> None:
    """RequestGroup.status stays a code of FHIR."""
    assert {str(state): code for state, code in FHIR.items()} == {
        "draft": "draft",
        "pending": "active",
        "sent": "active",
        "completed": "completed",
        "failed": "on-hold",
        "cancelled": "revoked",
    }


@pytest.mark.parametrize("status", list(OrderStatus))
def test_an_order_says_its_status(status: OrderStatus) -> None:
    """The status that is written is read again; it stands once, beside other extensions."""
    other = {"url": url(SIS, "requestgroup-performer"), "valueReference": {"reference": "Organization/lab-1"}}
    order = with_status({"resourceType": "RequestGroup", "extension": [other]}, SIS, OrderStatus.DRAFT)
    order = with_status(order, SIS, status)
    assert status_of(order, SIS) is status
    assert value(order, SIS, "requestgroup-orderStatus") == {
        "system": "https://cdis.example/order-status",
        "code": str(status),
        "display": str(status).capitalize(),
    }
    assert order["extension"][0] == other
    assert len(order["extension"]) == 2
    assert performer_of(order, SIS) == "lab-1"


def test_what_has_no_status_yet_is_a_draft() -> None:
    """An order without the extension, or with a code that is none, waits to be submitted."""
    assert status_of({"resourceType": "RequestGroup"}, SIS) is OrderStatus.DRAFT
    strange = [{"url": url(SIS, "requestgroup-orderStatus"), "valueCoding": {"code": "active"}}]
    assert status_of({"resourceType": "RequestGroup", "extension": strange}, SIS) is OrderStatus.DRAFT
    assert performer_of({"resourceType": "RequestGroup"}, SIS) == ""


def test_tests_are_named_by_actions_at_every_depth() -> None:
    """Each test counts once, in the order of the actions; what is contained, or no test, does not."""
    inner = {"action": [{"resource": {"reference": "ServiceRequest/b"}}]}
    order = {
        "action": [
            {"resource": {"reference": "ServiceRequest/a/_history/3"}},
            inner,
            {"resource": {"reference": "#c"}},
            {"resource": {"reference": "Task/d"}},
            {"resource": {"reference": "ServiceRequest/a"}},
            {"title": "nothing"},
        ]
    }
    assert orders.tests_of(order) == ("a", "b")
