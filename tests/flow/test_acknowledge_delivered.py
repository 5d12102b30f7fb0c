"""`acknowledge: delivered`: the answer is the destination's outcome, within its bound."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.flow.operator import answered
from tests.flow.proxy import Fault
from tests.flow.rig import Rig, channel_file, destination, running

HEAD = "MSH|^~\\&|REG|RVB|X|Y|20250701101500||ADT^{event}|{id}|P|2.5.1{modes}\rEVN||20250701101500\r"
PERSON = "PID|1||{number}^^^RVB^MR||Quintero^Marisol||{born}|F\r"


def message(
    event: str, control_id: str, number: str, *, born: str = "19840229", modes: str = "", more: str = ""
) -> bytes:
    """Return one message about one person."""
    text = HEAD.format(event=event, id=control_id, modes=modes) + PERSON.format(number=number, born=born) + more
    return text.encode()


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A service, a proxy and an engine that acknowledges on delivery, with a bound of two seconds."""
    channel: dict[str, Any] = {"acknowledge": {"when": "delivered", "within_seconds": 2}}
    async with running(tmp_path, **channel) as opened:
        await opened.engine.start()
        yield opened


async def test_aa_means_that_the_server_has_it(rig: Rig) -> None:
    """When AA arrives, the patient can be found."""
    answer = await answered(rig, message("A28", "C1", "RB-1"))
    assert answer.code == "AA"
    assert len(await rig.numbered("RB-1")) == 1


async def test_a_held_message_is_ae(rig: Rig) -> None:
    """What the server requires and the message lacks is told to the sender."""
    assert (await answered(rig, message("A28", "C1", "RB-1", born=""))).code == "AE"
    assert [row.state for row in rig.rows()] == ["held"]


async def test_a_self_merge_found_by_look_up_is_ae_205_and_the_chart_is_unchanged(rig: Rig) -> None:
    """Two numbers of one record: nothing is merged, the sender hears of it."""
    both = message("A28", "C1", "RB-1").replace(b"RB-1^^^RVB^MR", b"RB-1^^^RVB^MR~RB-2^^^RVB^MR")
    assert (await answered(rig, both)).code == "AA"
    before = await rig.patients()
    answer = await answered(rig, message("A40", "C2", "RB-1", more="MRG|RB-2^^^RVB^MR\r"))
    assert (answer.code, [code for code, _ in answer.errors]) == ("AE", ["205"])
    assert await rig.patients() == before
    assert [row.state for row in rig.rows()] == ["delivered", "rejected"]


async def test_the_refused_pair_of_several_is_named(rig: Rig) -> None:
    """The second of three is of two numbers of one record: the ERR names it, also to who sends it again."""
    both = message("A28", "C1", "RB-1").replace(b"RB-1^^^RVB^MR", b"RB-1^^^RVB^MR~RB-2^^^RVB^MR")
    assert [(await answered(rig, one)).code for one in (both, message("A28", "C2", "RB-3"))] == ["AA", "AA"]
    pairs = (("RB-3", "RB-4"), ("RB-1", "RB-2"), ("RB-3", "RB-5"))
    more = "".join(f"{PERSON.format(number=to, born='19840229')}MRG|{gone}^^^RVB^MR\r" for to, gone in pairs)
    merges = HEAD.format(event="A40", id="C3", modes="") + more
    for _ in range(2):
        answer = await answered(rig, merges.encode())
        assert (answer.code, [code for code, _ in answer.errors]) == ("AE", ["205"])
        assert b"\rERR||PID^2^3~MRG^2^1|205^" in answer.reply


async def test_enhanced_mode_commits_first_and_tells_the_outcome_afterwards(rig: Rig) -> None:
    """CA at the commit, AA once it is delivered."""
    answer = await answered(rig, message("A28", "C1", "RB-1", modes="|||AL|AL"))
    assert [ack.code for ack in answer.acks] == ["CA", "AA"]


async def test_past_the_bound_the_answer_is_ae_and_a_repeat_tells_how_it_ended(rig: Rig) -> None:
    """The message stays stored; the same bytes again are answered from where the entry stands now."""
    await rig.service.kill()
    raw = message("A28", "C1", "RB-1")
    assert (await answered(rig, raw)).code == "AE"
    await rig.service.start()
    await rig.drained()
    assert (await answered(rig, raw)).code == "AA"
    assert [row.state for row in rig.rows()] == ["delivered"]


async def twice(rig: Rig, *, optional: bool) -> None:
    """Start the engine with a second destination behind a proxy of its own that is never up."""
    second = destination("http://127.0.0.1:9", name="second", required=not optional, auth={"type": "none"})
    channel = channel_file(rig.proxy.url) | {"destinations": [destination(rig.proxy.url), second]}
    channel["acknowledge"] = {"when": "delivered", "within_seconds": 2}
    (rig.folder / "channels" / "riverbend-adt.yaml").write_bytes(orjson.dumps(channel))
    assert "done" in await rig.ask("reload")


async def test_all_required_destinations_are_waited_for(rig: Rig) -> None:
    """One of two is down: AE past the bound, and again for a repeat; the other one has it all the same."""
    await rig.engine.line("started")
    await twice(rig, optional=False)
    raw = message("A28", "C1", "RB-1")
    assert (await answered(rig, raw)).code == "AE"
    assert (await answered(rig, raw)).code == "AE"
    assert len(await rig.numbered("RB-1")) == 1


async def test_an_optional_destination_is_not_waited_for(rig: Rig) -> None:
    """AA once the required ones have it; a repeat hears the same, and so does what came before there were two."""
    await rig.engine.line("started")
    before = message("A28", "C0", "RB-0")
    assert (await answered(rig, before)).code == "AA"
    await twice(rig, optional=True)
    raw = message("A28", "C1", "RB-1")
    assert (await answered(rig, raw)).code == "AA"
    assert (await answered(rig, raw)).code == "AA"
    await twice(rig, optional=False)
    assert (await answered(rig, before)).code == "AA"


async def test_a_channel_that_is_stopped_answers_what_it_has_taken(rig: Rig) -> None:
    """Stop waits for the outcome of what is in flight, within the channel's bound."""
    await rig.engine.line("started")
    rig.proxy.script = lambda call: Fault(wait_seconds=1.0) if call.writes else None
    sending = asyncio.create_task(answered(rig, message("A28", "C1", "RB-1")))
    await rig.until(lambda rows: len(rows) == 1)
    assert (await rig.ask("channels.stop", channel="riverbend-adt"))["done"]["state"] == "stopped"
    assert (await sending).code == "AA"
