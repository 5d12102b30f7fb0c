"""The shelf between intake and dispatch is bounded."""

from engine.hl7.message import parse
from engine.pipeline.feed import Handover

MESSAGE = parse(b"MSH|^~\\&|A|B|C|D|20250701||ADT^A01|1|P|2.5.1\r")
SIZE = len(MESSAGE.raw)


def test_what_is_taken_is_gone_and_the_oldest_falls_off() -> None:
    """A message is handed over once; beyond the bound the oldest is forgotten."""
    shelf = Handover(2 * SIZE)
    for seq in (1, 2, 3):
        shelf.put(seq, MESSAGE)
    assert shelf.take(1) is None
    assert shelf.take(2) is MESSAGE
    assert shelf.take(2) is None


def test_what_is_taken_makes_room() -> None:
    """The bound is of bytes that are on the shelf now, and a message beyond all of it does not stay."""
    shelf = Handover(2 * SIZE)
    for seq in range(10):
        shelf.put(seq, MESSAGE)
        shelf.put(seq, MESSAGE)
        assert shelf.take(seq) is MESSAGE
    shelf.put(10, MESSAGE)
    large = parse(MESSAGE.raw + b"ZZZ|" + b"x" * 3 * SIZE)
    shelf.put(11, large)
    assert [shelf.take(seq) for seq in (10, 11)] == [None, None]
    shelf.put(12, MESSAGE)
    assert shelf.take(12) is MESSAGE
