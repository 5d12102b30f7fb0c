"""What leaves a relay: the bytes that came in, in the order of the feed or of each patient, and nothing refused."""

import asyncio
from pathlib import Path

import pytest

from engine.ops.sender.line import send_messages
from tests.flow.rig import channel_file, write
from tests.relay.receiver import firsts
from tests.relay.rig import RelayRig, adt, merge, of_patient, other, series

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
LINES = (b"\r", b"\n", b"\r\n")


def spelled(raw: bytes, end: bytes) -> bytes:
    """Return a message with other ends of lines."""
    return raw.replace(b"\r", end)


async def test_bytes_are_those_that_came(hub: RelayRig) -> None:
    """Line ends, character sets, what follows the last segment, empty lines: all leave as they came."""
    receiver = await hub.receiver()
    await hub.begin()
    latin = adt("L1", "7", rest="||||||8859/1").replace(b"Quintero", "Müßig".encode("iso-8859-1"))
    japanese = adt("J1", "8", rest="||||||~ISO IR87").replace(b"Quintero", "山田".encode("iso2022_jp"))
    raws = [
        *(spelled(adt(f"E{at}", f"10{at}"), end) for at, end in enumerate(LINES)),
        latin,
        japanese,
        adt("T1", "9") + b"ZZZ|trailing  |||",
        adt("T2", "9") + b"\r\r",
        adt("U1", "10", rest="||||||UNICODE UTF-8").replace(b"Quintero", "Łęcka".encode()),
    ]
    await hub.taken(*raws)
    await hub.settled(len(raws))
    assert receiver.raws == raws


async def test_each_message_of_a_batch_is_sent_alone(hub: RelayRig) -> None:
    """The envelope is the sender's: each message leaves as its own block, byte for byte."""
    receiver = await hub.receiver()
    await hub.begin()
    raws = [adt("B1", "1"), adt("B2", "2")]
    await hub.send(b"FHS|^~\\&|REG|RVB\rBHS|^~\\&|REG|RVB\r" + b"".join(raws) + b"BTS|2\rFTS|1\r")
    await hub.settled(2)
    assert receiver.raws == raws


async def test_every_sample_leaves_as_it_came(hub: RelayRig) -> None:
    """Whatever of the samples is taken in is passed on, in order; what is refused is not."""
    receiver = await hub.receiver(relay="all")
    hub.describe(unhandled_messages="relay")
    await hub.begin()
    raws = [path.read_bytes().replace(b"\n", b"\r") for path in sorted(SAMPLES.glob("*.hl7"))]
    await hub.send(*raws)
    await hub.drained()
    assert receiver.raws == hub.raws()
    refused = {row.raw for row in hub.rows() if row.state in {"rejected", "held"}}
    assert receiver.raws
    assert not refused & set(receiver.raws)


@pytest.mark.smoke
async def test_the_order_of_the_feed(hub: RelayRig) -> None:
    """Over many connections in, one goes out: in the order of the journal, one at a time."""
    receiver = await hub.receiver()
    await hub.begin()
    raws = series(240, patients=12)
    await asyncio.gather(*(hub.taken(*raws[at::8]) for at in range(8)))
    await hub.settled(len(raws))
    assert receiver.raws == [row.raw for row in hub.rows()]
    assert {one.connection for one in receiver.received} == {1}
    assert receiver.most_unanswered == 1


async def test_the_order_of_each_patient(hub: RelayRig) -> None:
    """With `order: patient` several connections carry messages at once, and each patient's stay in order."""
    receiver = await hub.receiver(order="patient", connections=4)
    await hub.begin()
    gate = asyncio.Event()
    receiver.usual = (gate, "AA")
    raws = series(60, patients=6)
    sending = asyncio.create_task(hub.taken(*raws))
    await receiver.until(4)
    assert len({one.connection for one in receiver.received}) == 4
    gate.set()
    await sending
    await hub.settled(len(raws))
    for number in map(str, range(100, 106)):
        assert of_patient(receiver.raws, number) == of_patient(raws, number)
    assert receiver.most_unanswered == 4


async def test_a_merge_joins_the_lanes_of_two_patients(hub: RelayRig) -> None:
    """An A40 leaves after all of both, and what comes of either afterwards leaves after it."""
    receiver = await hub.receiver(order="patient", connections=4)
    await hub.begin()
    gate = asyncio.Event()
    receiver.on("S1", (gate, "AA"))
    raws = [adt("S1", "1"), adt("S2", "2"), merge("M1", "2", "1"), adt("S3", "1"), adt("S4", "2"), adt("X1", "3")]
    await hub.taken(*raws)
    await hub.when(lambda all_: [one.control_id for one in all_ if one.state == "delivered"] == ["S2", "X1"])
    gate.set()
    await hub.settled(len(raws))
    order = [name for name in receiver.ids() if name not in {"S2", "X1"}]
    assert order == ["S1", "M1", "S3", "S4"]


@pytest.mark.parametrize("order", ["feed", "patient"])
async def test_types_that_the_mapping_is_not_for(hub: RelayRig, order: str) -> None:
    """With `relay: all` and `unhandled_messages: relay` results and orders go through; other relays get ADT only."""
    all_ = await hub.receiver("all", relay="all", order=order)
    adts = await hub.receiver("adts", order=order)
    hub.describe(unhandled_messages="relay")
    await hub.begin()
    raws = [adt("A1", "1"), other("R1", "1"), other("O1", "2", "ORM^O01"), adt("A2", "1")]
    await hub.taken(*raws)
    await hub.settled(6)
    if order == "feed":
        assert all_.raws == raws
    assert sorted(all_.raws) == sorted(raws)
    assert adts.raws == [raws[0], raws[3]]
    # Messages of no patient have an order among themselves at every relay.
    assert [one for one in all_.ids() if one[0] != "A"] == ["R1", "O1"]


async def test_what_is_refused_is_not_sent(hub: RelayRig) -> None:
    """Not HL7, no message type, a type that is refused, a version that nobody has: none leaves, also with `all`."""
    receiver = await hub.receiver(relay="all")
    await hub.begin()
    answers = await hub.send(b"MSH|garbage", other("R1", "1"), adt("A0", "").replace(b"PID|", b"XXX|"), adt("A1", "1"))
    assert [one.code for one in answers][-1] == "AA"
    await hub.settled(1)
    assert receiver.ids() == ["A1"]
    assert {row.state for row in hub.rows()} == {"rejected", "delivered"}


async def test_filters_say_where_a_message_goes(hub: RelayRig) -> None:
    """`send_to` names relays; a merge goes where it is said, and to relays that have one of its patients."""
    one, two = await hub.receiver("one"), await hub.receiver("two")
    hub.describe(filters=[{"rule": ward, "when": f"PV1-3.1 = {ward}", "send_to": [name]}
                          for name, ward in (("one", "W1"), ("two", "W2"))])  # fmt: skip
    await hub.begin()
    ward = "PV1|1|I|W{}^1^1\r"
    raws = [adt("A1", "1", "A01", more=ward.format(1)), adt("A2", "2", "A01", more=ward.format(2))]
    await hub.taken(*raws)
    await hub.settled(2)
    await hub.taken(adt("A3", "1", "A40", more="MRG|9^^^RVB^MR\r" + ward.format(1)))
    await hub.settled(3)
    await hub.taken(adt("A4", "1", "A40", more="MRG|2^^^RVB^MR\r" + ward.format(1)))
    await hub.settled(5)
    assert (one.ids(), two.ids()) == (["A1", "A3", "A4"], ["A2", "A4"])


async def test_what_is_filtered_goes_to_relays_that_take_all(hub: RelayRig) -> None:
    """An event without a rule is filtered: it is relayed where the relay takes all, and flagged."""
    all_, usual = await hub.receiver("all", relay="all"), await hub.receiver("usual")
    await hub.begin()
    await hub.taken(adt("A1", "1"), adt("Q1", "1", "A20"), adt("A2", "1"))
    await hub.settled(5)
    assert (all_.ids(), usual.ids()) == (["A1", "Q1", "A2"], ["A1", "A2"])
    assert hub.journal_rows("SELECT flags FROM entry WHERE control_id = 'Q1'")[0][0].count("relayed") == 1


async def test_a_repeat_is_not_sent_again(hub: RelayRig) -> None:
    """What the sender sends twice came in once."""
    receiver = await hub.receiver()
    await hub.begin()
    await hub.taken(adt("A1", "1"), adt("A1", "1"), adt("A2", "1"))
    await hub.settled(2)
    assert receiver.ids() == ["A1", "A2"]
    assert firsts(receiver.received) == receiver.raws


async def test_a_sender_that_waits_for_what_only_relays_get(hub: RelayRig) -> None:
    """`acknowledge: delivered`: a result that goes to relays alone is answered once these have it."""
    all_ = await hub.receiver("all", relay="all")
    await hub.receiver("adts")
    gate = asyncio.Event()
    all_.on("R1", (gate, "AA"))
    hub.describe(unhandled_messages="relay", acknowledge={"when": "delivered", "within_seconds": 40})
    await hub.begin()
    sending = asyncio.create_task(hub.taken(other("R1", "1")))
    await all_.until(1)
    assert not sending.done()
    gate.set()
    await sending


async def test_two_channels_with_one_relay(hub: RelayRig) -> None:
    """What comes by either leaves in the order of the journal, over one connection."""
    receiver = await hub.receiver()
    hub.describe()
    second = channel_file(hub.proxy.url) | {"channel": "second", "destinations": hub.destinations}
    write(hub.folder / "channels" / "second.yaml", second)
    await hub.begin()
    await hub.engine.wait_for(lambda: sum(line["event"] == "listening" for line in hub.engine.lines) == 2, 30)
    ports = [int(line["port"]) for line in hub.engine.lines if line["event"] == "listening"]
    raws = series(60)
    await asyncio.gather(*(send_messages("127.0.0.1", port, raws[at::2]) for at, port in enumerate(ports)))
    await hub.settled(60)
    assert receiver.raws == [row.raw for row in hub.rows()]
    assert receiver.most_unanswered == 1
