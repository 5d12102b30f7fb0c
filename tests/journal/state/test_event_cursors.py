"""How far a channel has taken the events of a FHIR server is so after the journal is opened again."""

from functools import partial

from engine.journal.state import event_cursors
from tests.journal.desk import Desk, Opener


async def test_a_cursor_outlives_the_journal(opened: Opener) -> None:
    """The last place of each type of a channel, and of no other channel."""
    async with opened() as desk:
        assert await desk.journal.read(partial(event_cursors.read, channel="back")) == {}
        for at in ("2026-03-01T12:00:00+00:00", "2026-03-01T12:00:01.500-05:00"):
            places = {"Patient": at, "Subscription/Patient": "s1"}
            await desk.journal.write(partial(event_cursors.move, channel="back", places=places))
        await desk.journal.write(partial(event_cursors.move, channel="other", places={"Patient": "x"}))
    async with opened() as desk:
        found = await desk.journal.read(partial(event_cursors.read, channel="back"))
        assert found == {"Patient": "2026-03-01T12:00:01.500-05:00", "Subscription/Patient": "s1"}


async def test_what_came_in_is_known_by_its_name(desk: Desk) -> None:
    """Of the channel and its server, whatever its bytes."""
    for number, (channel, source) in enumerate((("back", "record"), ("back", "other"), ("x", "record")), start=1):
        await desk.record(f"Patient/{number}/1", ("s|1",), channel=channel, source=source)
    names = [f"Patient/{number}/1" for number in range(1, 5)]
    known = partial(event_cursors.known, channel="back", source="record")
    assert await desk.journal.read(partial(known, names=names)) == {"Patient/1/1"}
    assert await desk.journal.read(partial(known, names=())) == frozenset()
