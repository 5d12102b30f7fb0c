"""The way back end to end: what changes at the real service, an old system learns by one ADT message each."""

from typing import Any

from engine.ops.sender.line import send_messages
from tests.flow.feed import SYSTEM
from tests.relay.rig import adt, merge
from tests.way_back.rig import BACK, MessageFacts, WayBackRig, facts_of, patient, visit


async def test_each_change_is_sent_once(registry: WayBackRig) -> None:
    """Created, updated, moved through a stay, merged, deleted: the right event each, with the number and the place."""
    await registry.begin()
    ward = await registry.make(
        {"resourceType": "Location", "name": "4W", "identifier": [{"system": SYSTEM, "value": "4W"}]}
    )
    icu = await registry.make(
        {"resourceType": "Location", "name": "ICU", "identifier": [{"system": SYSTEM, "value": "ICU"}]}
    )
    one = await registry.make(patient("100"))
    two = await registry.make(patient("200", birthDate="1970-01-01"))
    here = f"Patient/{one['id']}"
    await registry.ehr.until(2)
    await registry.change(here, maritalStatus={"text": "married"}, gender="male")
    await registry.ehr.until(3)
    stay = await registry.make(visit(here, "planned"))
    await registry.ehr.until(4)
    place = f"Encounter/{stay['id']}"
    steps: list[dict[str, Any]] = [
        {"status": "in-progress", "location": visit(here, "", f"Location/{ward['id']}")["location"]},
        {"location": visit(here, "", f"Location/{icu['id']}")["location"]},
        {"priority": {"text": "urgent"}},
        {"status": "finished"},
    ]
    for count, step in enumerate(steps, 5):
        await registry.change(place, **step)
        await registry.ehr.until(count)
    await registry.merge(f"Patient/{two['id']}", here)
    await registry.ehr.until(9)
    await registry.remove(place)
    await registry.ehr.until(10)
    await registry.change(here, active=False)
    await registry.ehr.until(11)
    assert [facts_of(raw)[:2] for raw in registry.ehr.raws] == [
        ("A28", "100"), ("A28", "200"), ("A31", "100"), ("A05", "100"), ("A01", "100"), ("A02", "100"), ("A08", "100"),
        ("A03", "100"), ("A40", "100"), ("A23", "100"), ("A31", "100"),
    ]  # fmt: skip
    assert len(set(registry.ehr.ids())) == 11


async def test_what_a_feed_says_does_not_come_back(registry: WayBackRig) -> None:
    """The engine's own creates, updates and merges are no news to the feed; a clinician's change after them is."""
    await registry.begin()
    host, port = await registry.address()
    feed = [adt(f"K{number}", str(100 + number % 7)) for number in range(40)]
    feed += [merge("M1", "100", "101"), adt("K99", "100", "A31")]
    answers = await send_messages(host, port, feed)
    assert {one.code for one in answers} == {"AA"}
    await registry.drained()
    found = await registry.numbered("102")
    await registry.change(f"Patient/{found[0]['id']}", telecom=[{"system": "phone", "value": "555-0100"}])
    await registry.ehr.until(1)
    await registry.drained()
    assert [facts_of(raw) for raw in registry.ehr.raws] == [MessageFacts("A31", "102", "")]


async def test_a_replay_is_the_same_message_again(registry: WayBackRig) -> None:
    """Of a patient who is new since the channel began, a change that is replayed is a change, and no second A28."""
    await registry.begin()
    one = await registry.make(patient("100"))
    await registry.change(f"Patient/{one['id']}", gender="male")
    await registry.ehr.until(2)
    await registry.drained()
    for row in registry.rows():
        assert await registry.ask("messages.replay", entry=row.seq, force=True) == {"done": {"destinations": 1}}
        await registry.drained()
    created, changed = registry.ehr.raws[:2]
    assert [facts_of(raw)[:2] for raw in (created, changed)] == [("A28", "100"), ("A31", "100")]
    assert registry.ehr.raws[2:] == [created, changed]


async def test_a_history_that_is_not_read_is_seen_at_the_channel(registry: WayBackRig) -> None:
    """At once, with its code, long before the alert; and no more once it is read again."""
    await registry.begin()
    await registry.service.stop()

    async def channel() -> Any:
        found = (await registry.ask("channels.list"))["done"]
        return next(one for one in found if one["channel"] == BACK)

    while not (row := await channel())["unread"]:
        assert registry.engine.alive
    assert (row["events"], row["outgoing"]) == ("history", {"ehr": "adt"})
    await registry.service.start()
    while (await channel())["unread"]:
        assert registry.engine.alive
