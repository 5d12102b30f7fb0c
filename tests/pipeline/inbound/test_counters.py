"""What a channel's counters count, and what they notice for the first time."""

from engine.journal.entry import Recorded, State
from engine.pipeline.inbound.counters import MOST_NAMES, Counters, Sight
from tests.journal.desk import NOW, entry

BASE = "urn:adt-engine:authority:"
MINE = ("https://mrn.riverbend.example|1",)


def recorded(seq: int, *flags: str, duplicate: bool = False) -> Recorded:
    """Return what the journal made of a message."""
    return Recorded(seq, duplicate, b"", "AA", State.RECEIVED, flags)


def test_messages_refusals_and_repeats_are_counted() -> None:
    """A repeat is a message that came, and no refusal."""
    counters = Counters()
    counters.count(entry("A", MINE), recorded(1), BASE)
    counters.count(entry("A", MINE), recorded(1, duplicate=True), BASE)
    counters.count(entry("B", state=State.REJECTED), recorded(2), BASE)
    assert (counters.messages, counters.duplicates, counters.refused, counters.last_at) == (3, 1, 1, NOW)


def test_strangers_are_seen_once() -> None:
    """A source, an authority that is not listed, and a lane with too many numbers, each with its entry."""
    counters = Counters()
    stranger = (f"{BASE}EAST|7",)
    counters.count(entry("A", MINE), recorded(1), BASE)
    counters.count(entry("B", MINE, stranger), recorded(2, "unknown-authority PID-3(2).4"), BASE)
    counters.count(entry("C", stranger, source="LAB|RVB"), recorded(3, "unknown-authority PID-3(1).4"), BASE)
    counters.count(entry("D", MINE), recorded(4, "lane-crowded"), BASE)
    assert counters.sights == [
        Sight("source", "ADT|RVB", 1),
        Sight("authority", f"{BASE}EAST", 2),
        Sight("source", "LAB|RVB", 3),
        Sight("lane", "4", 4),
    ]


def test_what_is_remembered_is_bounded() -> None:
    """A sender that calls itself another name each time costs no memory."""
    counters = Counters()
    for seq in range(2 * MOST_NAMES):
        counters.count(entry("A", MINE, source=f"S{seq}|X"), recorded(seq), BASE)
    assert len(counters.names) == len(counters.sights) == MOST_NAMES
