"""Bugs in orders and laboratories: what is ordered, sent and completed."""

from typing import Final

from tests.seeded.bug import Bug
from tests.seeded.change import Add, Code, Drop, Invert, Swap, Unwrap, Value

BUGS: Final = (
    Bug(
        "a pending order is never sent",
        "engine.interchange.orders.writing:place",
        Drop("enqueue(...)"),
        ("interchange/laboratory/test_story.py",),
    ),
    Bug(
        "an order that was being sent when the process was killed is sent again",
        "engine.interchange.orders.laboratory.connectors.connector:CANNOT_BE_ASKED",
        Swap("UNKNOWN", "NEVER_HAD_IT"),
        ("interchange/laboratory/test_order_kills.py",),
    ),
    Bug(
        "an order that the laboratory may already have is sent again automatically",
        "engine.interchange.orders.laboratory.settling:_standing",
        Swap("HELD", "WAITING", of="(...).get(...)"),
        ("interchange/laboratory/test_transmitter.py",),
    ),
    Bug(
        "an order is cancelled here, and the laboratory works on it",
        "engine.interchange.orders.writing:judge",
        Code("not withdraw(transaction, stored.id)", "withdraw(transaction, stored.id) is None"),
        (
            "interchange/orders/test_changing.py",
            "interchange/orders/test_order_model.py",
        ),
    ),
    Bug(
        "an order is submitted twice",
        "engine.interchange.orders.order:OPEN",
        Add("OrderStatus.PENDING"),
        ("interchange/orders/test_submitting.py",),
    ),
    Bug(
        "a later rejection by the laboratory is ignored",
        "engine.interchange.orders.order:TRANSITIONS",
        Drop("(OrderStatus.SENT, OrderEvent.REFUSED)"),
        ("interchange/test_order_states.py",),
    ),
    Bug(
        "the order carries no record number of the patient",
        "engine.interchange.orders.laboratory.message.person:pid",
        Drop("numbers", of="numbers or [own]"),
        ("interchange/laboratory/test_message.py",),
    ),
    Bug(
        "the order carries a number that is no record number of the patient",
        "engine.interchange.orders.laboratory.order:read_order",
        Drop("is_record_number(one)"),
        (
            "interchange/laboratory/test_message.py",
            "interchange/laboratory/test_story.py",
        ),
    ),
    Bug(
        "the answer to another message counts as the answer to this one",
        "engine.interchange.orders.laboratory.connectors.line:read_acknowledgement",
        Code("answered != control_id", "not answered"),
        ("interchange/laboratory/test_line.py",),
    ),
    Bug(
        "a rejection counts as an acceptance",
        "engine.interchange.orders.laboratory.connectors.line:TAKEN",
        Add("'AE'"),
        (
            "interchange/laboratory/test_line.py",
            "interchange/laboratory/test_transmitter.py",
        ),
    ),
    Bug(
        "a question due at the collection of a specimen is not asked",
        "engine.interchange.orders.compendium.questionnaire_item:QuestionnaireItem.required",
        Invert("collected"),
        ("interchange/compendium/test_answers.py",),
    ),
    Bug(
        "an order with a specimen is checked as if none had been collected",
        "engine.interchange.orders.validation:_answers",
        Drop("bool(test.get('specimen'))"),
        ("interchange/orders/test_submitting.py",),
    ),
    Bug(
        "a test that the laboratory no longer offers is ordered",
        "engine.interchange.orders.compendium.lookup:find_test",
        Code("definition.get('status') == ACTIVE", "definition"),
        ("interchange/compendium/test_lookup.py",),
    ),
    Bug(
        "results that a patch links to an order do not complete it",
        "engine.interchange.orders.completion:followers.report",
        Drop("_orders(after)"),
        ("interchange/orders/test_completing.py",),
    ),
    Bug(
        "a result of another patient completes the order",
        "engine.interchange.orders.completion:_resulted",
        Unwrap("patient"),
        ("interchange/orders/test_completing.py",),
    ),
    Bug(
        "a preliminary result completes the order",
        "engine.interchange.orders.completion:FINAL",
        Add("'preliminary'"),
        ("interchange/orders/test_completing.py",),
    ),
    Bug(
        "one result of several completes the order",
        "engine.interchange.orders.completion:review",
        Code("done and all(done)", "any(done)"),
        ("interchange/orders/test_completing.py",),
    ),
    Bug(
        "a test of another patient hides in an order",
        "engine.interchange.orders.validation:_own",
        Value("of_patient(...) != of_patient(...)", "False"),
        ("interchange/orders/test_placing.py",),
    ),
)
