"""The shelf between intake and dispatch is bounded."""

from engine.hl7.message import parse
from engine.pipeline.inbound.handover import Handover


def test_what_is_taken_is_gone_and_the_oldest_falls_off() -> None:
    """A message is handed over once; beyond the bound the oldest is forgotten."""
    message = parse(b"MSH|^~\\&|A|B|C|D|20250701||ADT^A01|1|P|2.5.1\r")
    shelf = Handover(most=2)
    for seq in (1, 2, 3):
        shelf.put(seq, message)
    assert shelf.take(1) is None
    assert shelf.take(2) is message
    assert shelf.take(2) is None
