"""What is said is kept: the same texts are read once, whatever the event, but where a condition asks for it."""

from collections.abc import Callable

from engine.fhir.plan import ElementChange, Keep
from engine.hl7.message import Message
from engine.mapping.compile import Mapping

SEGMENTS = ("PID|1||100001^^^RVB^MR||ROSSI^ANNA||19840229|F", "PV1|1|I|3W^301^A|||||||MED|||||||||V1^^^RVB^VN")
Make = Callable[..., Message]


def _visit(mapping: Mapping, message: Message) -> dict[str, ElementChange]:
    kept = (one.record for one in mapping.plan(message).interactions if isinstance(one, Keep))
    record = next(record for record in kept if record.type == "Encounter")
    return {f"{change.element} {change.slice}": change for change in record.changes}


def test_what_is_said_is_kept_whatever_the_event(mapping: Mapping, message: Make) -> None:
    """A transfer and an update of the same visit share what they say, once it came again."""
    _visit(mapping, message("A01", *SEGMENTS))
    one, other = (_visit(mapping, message(event, *SEGMENTS)) for event in ("A02", "A08"))
    assert one["serviceType serviceType"] is other["serviceType serviceType"]  # PV1-10


def test_what_asks_for_the_event_is_kept_by_event(mapping: Mapping, message: Make) -> None:
    """The place of a visit is active until a discharge, with the same texts, says that it was completed."""
    for event, status in (("A08", "active"), ("A03", "completed"), ("A08", "active"), ("A03", "completed")):
        (place,) = _visit(mapping, message(event, *SEGMENTS))["location PV1-3"].items
        assert place["status"] == status
