"""What is said is kept, by its texts; and only writers that have something to read are asked, in their order."""

from collections.abc import Callable

from engine.fhir.plan import ElementChange, Keep
from engine.hl7.message import Message
from engine.mapping.compile import Mapping
from engine.mapping.files.setting import Setting
from engine.mapping.files.table import MappingTable, UnmappedPolicy
from engine.mapping.language.dependence import dependence_of, references_of
from engine.mapping.language.function_context import FunctionContext
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.language.identifier import Identifiers, IdentityRules
from engine.mapping.language.moment import Stamps
from engine.mapping.language.reading import MessageReading
from engine.mapping.resource.slice_cache import MAX_SHAPES, Shapes

SEGMENTS = ("PID|1||100001^^^RVB^MR||ROSSI^ANNA||19840229|F", "PV1|1|I|3W^301^A|||||||MED|||||||||V1^^^RVB^VN")
Make = Callable[..., Message]
SOURCES = ((("PID", 5),), (), (("PID", 7), ("PV1", 3)), (("NK1", 0),), (("PID", 9),))


def _visit(mapping: Mapping, message: Message) -> dict[str, ElementChange]:
    kept = (interaction.record for interaction in mapping.plan(message).interactions if isinstance(interaction, Keep))
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


def _asked(shapes: Shapes, message: Message) -> tuple[int, ...]:
    return shapes.to_read(MessageReading(message, message.groups, None, ""))


def test_writers_without_anything_to_read_are_not_asked(message: Make) -> None:
    """One field of several is enough, a whole segment counts even when bare, and who reads nothing is always asked."""
    shapes = Shapes(SOURCES)
    assert _asked(shapes, message("A01", "PID|1||1||ROSSI^A")) == (0, 1)
    assert _asked(shapes, message("A01", "PID|1||1||||19840229", "NK1")) == (1, 2, 3)
    assert _asked(shapes, message("A01", "PID|1||1", "PV1|1|I|3W")) == (1, 2)


def test_shapes_are_bounded(message: Make) -> None:
    """A feed of ever other shapes forgets the old ones."""
    shapes = Shapes([(("PID", number),) for number in range(1, 12)])
    for number in range(2 * MAX_SHAPES):
        fields = "|".join("X" if number >> bit & 1 else "" for bit in range(10))
        assert _asked(shapes, message("A01", f"PID|{fields}")) == tuple(b for b in range(10) if number >> b & 1)
    assert len(shapes._known) <= MAX_SHAPES


def test_one_field_is_its_own_key(message: Make) -> None:
    """What depends on one field alone is kept by its text as it stands; what asks for more names no field."""
    found = message("A08", "PID|1||1||ROSSI^ANNA||19840229")
    reading = MessageReading(found, found.groups, None, "")
    name = dependence_of("PID-5", {})
    assert name.field == ("PID", 5)
    assert name.key(reading) == "ROSSI^ANNA"
    named = {"Place": references_of({"line": "PV1-3"})}
    for template in (["PID-5", "PID-7"], {"each": "NK1", "text": "NK1-2"}, {"a": "PID-5", "b": "Place"}, "constant"):
        assert dependence_of(template, named).field is None
    assert name._replace(event=True).field is None
    assert name._replace(today=True).field is None
    assert name._replace(source=True).field is None


def test_a_reading_has_first_segments_of_its_own(message: Make) -> None:
    """What one reading is given as the first segment of a name is so for no other reading of the message."""
    found = message("A08", "PID|1||1", "PID|2||2", "NK1|1")
    one, other = (MessageReading(found, found.groups, None, "") for _ in range(2))
    assert one.first == {name: group[0] for name, group in found.groups.items()}
    one.first["PID"] = found.named("PID")[1]
    assert other.first["PID"] is found.first("PID")


def test_what_is_warned_of_belongs_to_what_was_read(mapping: Mapping, message: Make) -> None:
    """A birth date that is none is warned of with it alone, and not with whatever else was read of that message."""
    for _ in range(2):
        assert "bad-value PID-7" in mapping.plan(message("A08", "PID|1||1^^^RVB||||1984XX|||||||||M")).warnings
    assert mapping.plan(message("A08", "PID|1||1^^^RVB||||19840229|||||||||M")).warnings == ()  # PID-16


def test_a_code_is_read_once_for_all_functions_of_it(message: Make) -> None:
    """The first code of a CWE is that of its concept; read by another table, it is another one."""
    setting, table = Setting(), MappingTable("colours", "", UnmappedPolicy.KEEP, None, {"R": None}, {"R": "Red"})
    context = FunctionContext(setting, {"colours": table}, Identifiers(IdentityRules(), setting), Stamps(setting.zone))
    found = message("A08", "DG1|1||R^Red^L^SC^Scarlet^L")
    reading, (cells,) = MessageReading(found, found.groups, None, ""), found.named("DG1")[0].cells(3)
    whole, first, other, tabled = (
        FUNCTIONS[name].make(context, tables)(cells, reading)
        for name, tables in (("coded", ()), ("first-coding", ()), ("other-coding", ()), ("first-coding", ("colours",)))
    )
    assert (first, other) == tuple(whole["coding"])
    assert first is whole["coding"][0]
    assert other is whole["coding"][1]
    assert tabled is not first
