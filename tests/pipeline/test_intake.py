"""One block in, one reply out, over a real journal: what a sender is told when it matters most."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from functools import partial
from pathlib import Path

import orjson
import pytest

from engine.config.channel import Acknowledge, Channel, Filter
from engine.config.destination import Destination
from engine.config.settings import shipped
from engine.database.connection import Connection
from engine.hl7.message import parse
from engine.journal.entry import State
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, read
from engine.pipeline.feed import Handover, PipelineContext, feeds_of
from engine.pipeline.inbound.counters import Counters
from engine.pipeline.inbound.merge_limit import MergeRateLimiter
from engine.pipeline.inbound.outcomes import Outcomes
from engine.pipeline.intake import Intake
from engine.pipeline.outbound.change_messages import ChangeMessages
from engine.pipeline.outbound.pauses import Pauses
from engine.pipeline.outbound.timekeeping import Timekeeper
from engine.receive.block import Block, BlockKind
from engine.receive.reply import BlockReply, Peer
from tests.journal.desk import NOW, Desk, open_desk

# More than any disk has: nothing new is accepted.
NO_ROOM = 2**60


def raw(control_id: str = "M1", asked: str = "", kind: str = "ADT^A08", name: str = "Mustermann") -> bytes:
    """Return a message; `asked` are MSH-15 and MSH-16."""
    return (
        f"MSH|^~\\&|HIS|RVB|||20260301120000||{kind}|{control_id}|P|2.5.1|||{asked}\rEVN||20260301120000\r"
        f"PID|1||4711^^^RVB^MR||{name}^Max||19700101|M\r"
    ).encode()


def clock() -> datetime:
    """Return the same moment each time."""
    return NOW


class Door:
    """An intake over a journal, with the destinations that it woke."""

    def __init__(self, desk: Desk, **policies: object) -> None:
        self.desk = desk
        self.woken: list[tuple[str, ...]] = []
        channel: Channel = channel_of({"authorities": {"RVB": "https://mrn.riverbend.example"}}).model_copy(
            update=policies
        )
        mapping = compile_mapping(read([shipped("mappings")], "adt"), channel)
        feeds = feeds_of({channel.channel: channel}, {channel.channel: mapping}, {})
        journal = desk.journal
        shared = PipelineContext(
            feeds, Handover(), Outcomes(), Pauses(journal), MergeRateLimiter(journal), clock,
            Timekeeper(journal, clock), ChangeMessages(journal, {}),
        )  # fmt: skip
        self.counters = Counters()
        self.intake = Intake(channel.channel, journal, shared, self.woken.append, "B", self.counters)

    async def ask(self, content: bytes, kind: BlockKind = BlockKind.COMPLETE) -> BlockReply:
        """Answer one block."""
        return await self.intake.answer(Block(content, kind, 0.0, 0.0), Peer("127.0.0.1", 40_000))


@pytest.fixture
async def door(desk: Desk) -> Door:
    """Give an intake over an open journal."""
    return Door(desk)


@pytest.fixture
async def full(tmp_path: Path) -> AsyncIterator[Door]:
    """Give an intake over a journal whose disk has no room."""
    async with open_desk(tmp_path, reserve_bytes=NO_ROOM) as desk:
        yield Door(desk)


def code_of(reply: BlockReply) -> str:
    """Return MSA-1 of a reply."""
    assert isinstance(reply.now, bytes)
    code = parse(reply.now).leaf("MSA", 1)
    assert isinstance(code, str)
    return code


@pytest.mark.parametrize(
    ("asked", "code"), [pytest.param("", "AR", id="original"), pytest.param("AL|NE", "CE", id="enhanced")]
)
async def test_what_could_not_be_stored_is_refused(full: Door, asked: str, code: str) -> None:
    """A full disk: the sender is told to send again, and nothing is woken."""
    reply = await full.ask(raw(asked=asked))
    assert code_of(reply) == code
    assert (reply.stored, full.woken) == (False, [])


async def test_what_could_not_be_stored_and_may_not_be_answered_ends_the_line(full: Door) -> None:
    """MSH-15 NE: silence would say that it was stored."""
    reply = await full.ask(raw(asked="NE|NE"))
    assert (reply.now, reply.close, reply.stored) == (None, True, False)


async def test_a_resend_is_answered_with_the_bytes_of_the_first_time(door: Door) -> None:
    """Its MSH-10 too; nothing is delivered a second time."""
    first, second = await door.ask(raw()), await door.ask(raw())
    assert code_of(first) == "AA"
    assert second.now == first.now
    assert door.woken == [("nowhere",)]
    assert await door.desk.claimed(destination="nowhere") == [1]


async def test_other_bytes_under_the_same_control_id_are_a_message(door: Door) -> None:
    """At once in one commit, or one after the other: each is answered for itself, and each is delivered."""
    replies = await asyncio.gather(door.ask(raw()), door.ask(raw(name="Musterfrau")))
    replies += [await door.ask(raw(name="Muster"))]
    assert [code_of(reply) for reply in replies] == ["AA", "AA", "AA"]
    assert len({reply.now for reply in replies}) == 3
    assert door.woken == [("nowhere",)] * 3


async def test_an_acknowledgement_is_never_answered(door: Door) -> None:
    """Two engines that face each other would go on for ever; it is kept, and routed nowhere."""
    reply = await door.ask(raw(kind="ACK^A08"))
    assert (reply.now, reply.close, door.woken) == (None, False, [])
    rows = await door.desk.journal.read(lambda connection: connection.execute("SELECT state FROM entry").fetchall())
    assert rows == [(State.FILTERED.value,)]


async def test_a_block_over_the_limit_is_refused_and_the_line_ends(door: Door) -> None:
    """What follows on it could be the rest of the same message."""
    reply = await door.ask(raw(), BlockKind.OVERSIZE)
    assert (code_of(reply), reply.close, reply.stored) == ("AR", True, False)


async def test_a_block_with_an_end_byte_within_is_refused_whole(door: Door) -> None:
    """Nothing of it is taken for a message, all of its bytes are kept, and the sender hears AE."""
    content = raw(name="Muster\x1cmann")
    reply = await door.ask(content, BlockKind.END_WITHIN)
    assert (code_of(reply), reply.close, reply.stored) == ("AE", False, False)
    without_header = await door.ask(b"PID|\x1c1", BlockKind.END_WITHIN)
    assert (without_header.now, without_header.close) == (None, True)
    rows = await door.desk.journal.read(lambda one: one.execute("SELECT state, reason FROM entry").fetchall())
    assert rows == [(State.REJECTED.value, "end-within-block")] * 2
    assert door.woken == []


async def test_zeros_before_a_message_are_passed_over(door: Door) -> None:
    """A sender that pads the start of its blocks is answered as any other; its line was closed without a word."""
    reply = await door.ask(b"\x00" + raw())
    assert (code_of(reply), reply.close, reply.stored) == ("AA", False, True)


async def test_a_mixed_feed_is_accepted_and_filtered_by_name(desk: Desk) -> None:
    """AA, and nothing is delivered; refused with AR where the channel does not say so."""
    door = Door(desk, unhandled_messages="filter")
    reply = await door.ask(raw("R1", kind="ORU^R01"))
    assert code_of(reply) == "AA"
    assert code_of(await Door(desk).ask(raw("R2", kind="ORU^R01"))) == "AR"
    filtered, refused = [await desk.journal.read(partial(told, seq=seq)) for seq in (1, 2)]
    assert filtered == ("filtered", "unhandled-message", "R01")
    assert refused == ("rejected", "unsupported-message", "R01")
    assert door.woken == []


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_an_old_sender_says_its_event_in_evn(desk: Desk, version: str) -> None:
    """`ADT` alone in MSH-9 and A08 in EVN-1: taken, told and mapped as A08."""
    old = raw("V1", kind="ADT").replace(b"|2.5.1|", b"|%s|" % version.encode()).replace(b"EVN||", b"EVN|A08|")
    door = Door(desk)
    assert code_of(await door.ask(old)) == "AA"
    assert (await desk.journal.read(partial(told, seq=1))) == ("received", "", "A08")
    assert parse(old).trigger == "A08"
    assert len(door.woken) == 1


async def test_a_later_sender_may_say_its_event_in_evn(desk: Desk) -> None:
    """On a channel with `event_from_evn`; on another it is refused, and what EVN-1 says is no event of the journal."""
    late = raw("V1", kind="ADT").replace(b"EVN||", b"EVN|A08|")
    assert code_of(await Door(desk).ask(late)) == "AE"
    assert code_of(await Door(desk, event_from_evn=True).ask(late.replace(b"|V1|", b"|V2|"))) == "AA"
    assert (await desk.journal.read(partial(told, seq=1))) == ("rejected", "no-trigger-event", "")
    assert (await desk.journal.read(partial(told, seq=2))) == ("received", "", "A08")


async def test_the_set_of_the_channel_holds_in_the_header_too(desk: Desk) -> None:
    """A sender without MSH-18 whose name holds the byte of a delimiter is answered under its own control ID."""
    big5 = raw("V1", name="\u8a31").decode().replace("|HIS|", "|\u80b2|").encode("big5")
    reply = await Door(desk, charset="BIG-5").ask(big5)
    assert isinstance(reply.now, bytes)
    assert b"\rMSA|AA|V1\r" in reply.now
    assert (await desk.journal.read(partial(told, seq=1))) == ("received", "", "A08")


def told(connection: Connection, seq: int) -> tuple[str, ...]:
    """Return how an entry stands, why, and its event."""
    found: tuple[str, ...] = connection.execute(
        "SELECT state, reason, event FROM entry WHERE seq = ?", (seq,)
    ).fetchone()
    return found


WARDS = Filter(rule="wards", when="PID-5.1 starts-with Must", send_to=("wards",))
MERGES = Filter(rule="merges", when="event in (A40, A24)", send_to=("wards",))
BOTH = tuple(Destination(name=name, base_url="http://127.0.0.1:1") for name in ("archive", "wards"))


def merge(control_id: str, number: str, old: str) -> bytes:
    """Return an A40."""
    return raw(control_id, kind="ADT^A40").replace(b"4711", number.encode()) + f"MRG|{old}^^^RVB^MR\r".encode()


async def test_it_wakes_only_where_a_message_is_sent(desk: Desk) -> None:
    """By a filter of the channel; all others go everywhere. The rule stays with the entry, and is counted."""
    door = Door(desk, destinations=BOTH, filters=(WARDS,))
    assert code_of(await door.ask(raw("M1"))) == "AA"
    assert code_of(await door.ask(raw("M2", name="Okafor").replace(b"4711", b"4712"))) == "AA"
    assert door.woken == [("wards",), ("archive", "wards")]
    assert await desk.claimed(destination="wards") == [1, 2]
    assert await desk.claimed(destination="archive") == [2]
    flags = await desk.journal.read(lambda one: one.execute("SELECT flags FROM entry ORDER BY seq").fetchall())
    assert [orjson.loads(found) for (found,) in flags] == [["by-rule wards"], []]
    assert door.counters.rules == {"wards": 1}


@pytest.mark.parametrize("together", [False, True])
async def test_a_merge_also_goes_where_one_of_its_patients_went(desk: Desk, *, together: bool) -> None:
    """Also where that came in the same commit, or is not delivered yet; and nowhere else."""
    door = Door(desk, destinations=BOTH, filters=(WARDS, MERGES))
    asked = [
        door.ask(raw("M1")),
        door.ask(raw("M2", name="Okafor").replace(b"4711", b"4712")),
        door.ask(merge("M3", "4711", "4712")),
        door.ask(raw("M4").replace(b"4711", b"4713")),
        door.ask(merge("M5", "4713", "4714").replace(b"Mustermann", b"Okafor")),
    ]
    replies = await asyncio.gather(*asked) if together else [await one for one in asked]
    assert {code_of(reply) for reply in replies} == {"AA"}
    rows = await desk.journal.read(lambda one: one.execute("SELECT seq, destination FROM delivery").fetchall())
    where = {seq: sorted(name for number, name in rows if number == seq) for seq in range(1, 6)}
    assert where == {1: ["wards"], 2: ["archive", "wards"], 3: ["archive", "wards"], 4: ["wards"], 5: ["wards"]}
    assert ("archive", "wards") in [tuple(sorted(one)) for one in door.woken[2:3]]


async def test_nothing_required_is_answered_at_once(desk: Desk) -> None:
    """`acknowledge: delivered`, and a filter that sends only to what nobody waits for: AA, and not after the bound."""
    archive = BOTH[0].model_copy(update={"required": False})
    sends = Filter(rule="archive", when="PID-3", send_to=("archive",))
    acknowledge = Acknowledge(when="delivered", within_seconds=60)
    door = Door(desk, destinations=(archive, BOTH[1]), filters=(sends,), acknowledge=acknowledge)
    async with asyncio.timeout(30):
        assert code_of(await door.ask(raw())) == "AA"
        assert code_of(await door.ask(raw())) == "AA"
    assert await desk.claimed(destination="archive") == [1]


async def test_a_filter_refuses_with_its_name_and_filters_with_its_name(desk: Desk) -> None:
    """AR 207, or AA; neither goes anywhere."""
    filters = (
        Filter(rule="test-patients", when="PID-5.1 = Mustermann", do="filter"),
        Filter(rule="nobody", when="PID-5.1 = Musterfrau", do="refuse"),
    )
    door = Door(desk, filters=filters)
    codes = [
        code_of(await door.ask(raw(f"M{number}", name=f"Muster{end}"))) for number, end in enumerate(("mann", "frau"))
    ]
    assert (codes, door.woken, door.counters.filtered) == (["AA", "AR"], [], 1)
    found = [await desk.journal.read(partial(told, seq=seq)) for seq in (1, 2)]
    assert found == [("filtered", "test-patients", "A08"), ("rejected", "nobody", "A08")]
    assert door.counters.rules == {"test-patients": 1, "nobody": 1}
