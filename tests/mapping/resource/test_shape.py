"""Shapes: only writers that have something to read are asked, in their order."""

from collections.abc import Callable

from engine.hl7.message import Message
from engine.mapping.language.reading import Reading
from engine.mapping.resource.shape import MAX_SHAPES, Shapes

Make = Callable[..., Message]
SOURCES = ((("PID", 5),), (), (("PID", 7), ("PV1", 3)), (("NK1", 0),), (("PID", 9),))


def _asked(shapes: Shapes, message: Message) -> tuple[int, ...]:
    return shapes.asked(Reading(message, message.groups, None, ""))


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
    assert len(shapes._asked) <= MAX_SHAPES
