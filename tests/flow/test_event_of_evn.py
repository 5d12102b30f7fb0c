"""A sender that says its event in EVN-1 alone: refused with the next step, taken in by a setting, and never lost."""

from typing import Any

import orjson
import pytest

from engine.config.channel import Channel
from engine.config.channels import load_channels
from engine.ops.cli.mapping.traffic import MessageSelection, each_message
from engine.ops.operations.filters import SearchFilter
from tests.flow.operator import configured, done, ended, message, refused, sent, started
from tests.flow.rig import Rig, channel_file, write

TOLD = "SELECT control_id, event, state FROM entry ORDER BY seq"


def alone(control_id: str, number: str, event: str = "A28", **more: Any) -> bytes:
    """Return a message with `ADT` alone in MSH-9 and its event in EVN-1."""
    raw = message(control_id, number, event=event, **more)
    return raw.replace(f"|ADT^{event}|".encode(), b"|ADT|").replace(b"EVN||", f"EVN|{event}|".encode())


def mapped(rig: Rig, channel: Channel) -> list[str]:
    """Return the events that `mappings diff` and `coverage` read in the journal, oldest first."""
    found: list[str] = []
    choice = MessageSelection(None, rig.folder / "data", SearchFilter(), 100)
    assert each_message(choice, channel, lambda _, one: found.append(one.trigger)) == 0
    return found[::-1]


async def test_refused_until_the_channel_says_so(rig: Rig) -> None:
    """AE 101 that names the setting; once it is set, a replay takes the entry in, and the next message is taken."""
    await started(rig)
    (answer,) = await sent(rig, alone("C1", "RB-1"))
    text = "The trigger event is missing; it is read from EVN-1 on a channel with event_from_evn: true"
    assert (answer.code, answer.errors) == ("AE", (("101", text),))
    assert "no-trigger-event" in await refused(rig, "messages.replay", entry=1)
    assert (await done(rig, "messages.rehearse", entry=1))["refused"]["reason"] == "no-trigger-event"
    await configured(rig, event_from_evn=True)
    assert (await done(rig, "messages.explain", entry=1))["event"] == "A28"
    rehearsed = await done(rig, "messages.rehearse", entry=1)
    assert (rehearsed["refused"], len(rehearsed["destinations"])) == (None, 1)
    await done(rig, "messages.replay", entry=1)
    both = message("C3", "RB-3", event="A28").replace(b"EVN||", b"EVN|A19|")
    answers = await sent(rig, alone("C2", "RB-2"), both)
    assert [one.code for one in answers] == ["AA", "AA"]
    await rig.until(ended("delivered", "delivered", "delivered"))
    assert rig._query(TOLD) == [("C1", "A28", "received"), ("C2", "A28", "received"), ("C3", "A28", "received")]
    assert all([len(await rig.numbered(f"RB-{number}")) == 1 for number in (1, 2, 3)])


async def test_what_was_taken_in_stays_what_it_was(rig: Rig) -> None:
    """The setting goes while entries wait, over a restart: each is delivered, shown and replayed as its event."""
    file = rig.folder / "channels" / "riverbend-adt.yaml"
    write(file, channel_file(rig.proxy.url) | {"event_from_evn": True})
    await started(rig)
    await done(rig, "destinations.pause", destination="interchange")
    answers = await sent(rig, alone("C1", "RB-1"), alone("C2", "RB-1", "A31", family="Changed"))
    assert [answer.code for answer in answers] == ["AA", "AA"]
    await rig.engine.kill()
    write(file, channel_file(rig.proxy.url))
    await started(rig)
    await done(rig, "destinations.resume", destination="interchange")
    await rig.until(ended("delivered", "delivered", reasons=("created", "updated")))
    (found,) = await rig.numbered("RB-1")
    assert found["name"][0]["family"] == "Changed"
    explained = await done(rig, "messages.explain", entry=2)
    assert (explained["event"], explained["action"]) == ("A31", "deliver")
    rehearsed = await done(rig, "messages.rehearse", entry=2)
    assert (rehearsed["refused"], len(rehearsed["destinations"])) == (None, 1)
    (channel,) = load_channels(rig.folder / "channels")
    assert mapped(rig, channel) == ["A28", "A31"]
    await done(rig, "messages.replay", entry=2)
    rows = await rig.until(lambda rows: [row.state for row in rows] == ["delivered", "delivered"])
    assert rows[1].reason in {"updated", "unchanged"}


@pytest.mark.parametrize("setting", [True, False])
async def test_an_edit_is_a_message_of_its_own(rig: Rig, setting: bool) -> None:
    """Its event is read as the channel says now; without the setting MSH-9 is to be edited, too."""
    await started(rig)
    await sent(rig, alone("C1", "RB-1"))
    await configured(rig, event_from_evn=setting)
    change = {"PID-5.1": "Edited"}
    if setting:
        await done(rig, "messages.edit", entry=1, set=change)
    else:
        assert "no-trigger-event" in await refused(rig, "messages.edit", entry=1, set=change)
        await done(rig, "messages.edit", entry=1, set=change | {"MSH-9": "ADT^A28"})
    await rig.drained()
    (found,) = await rig.numbered("RB-1")
    assert found["name"][0]["family"] == "Edited"


async def test_the_playground_reads_as_the_channel_does(rig: Rig) -> None:
    """A message pasted, and a comparison over the journal."""
    await started(rig)
    await sent(rig, alone("C1", "RB-1"))
    pasted = alone("C2", "RB-2").decode()
    assert (await done(rig, "mappings.try", message=pasted))["event"] == ""
    await configured(rig, event_from_evn=True)
    tried = await done(rig, "mappings.try", message=pasted)
    assert (tried["event"], tried["rule"]) == ("A28", "add-person")
    assert orjson.dumps(tried["plan"]).count(b"RB-2")
