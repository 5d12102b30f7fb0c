"""What follows from a receiver's answers, in the whole engine: what is held holds the feed, and what was lost is sent
again in its place."""

import asyncio
import json
from pathlib import Path

import pytest

from engine.journal.file.sealing import KEY_FILE_VARIABLE, new_key
from tests.relay.rig import Delivery, RelayRig, adt, series

KEEP = 30


def states(found: list[Delivery], name: str = "") -> list[tuple[str, str, str]]:
    """Return where deliveries stand, by control id."""
    return [(one.control_id, one.state, one.reason) for one in found if name in {"", one.destination}]


async def settled_but(hub: RelayRig, held: str) -> list[Delivery]:
    """Wait until a message is held and return the deliveries."""
    return await hub.when(lambda all_: any(one.control_id == held and one.state == "held" for one in all_))


@pytest.mark.parametrize("act", ["release", "discard"])
async def test_what_is_held_holds_the_feed_until_a_person_decides(hub: RelayRig, act: str) -> None:
    """AR: nothing behind it is sent, whomever it is about; other relays go on. Then all goes on in order."""
    receiver, other = await hub.receiver(), await hub.receiver("other")
    receiver.on("K3", ("AR",))
    await hub.begin()
    raws = series(KEEP)
    await asyncio.gather(hub.taken(*raws), other.until(KEEP))
    found = [one for one in await settled_but(hub, "K3") if one.destination == "ris"]
    assert states(found)[:5] == [
        ("K0", "delivered", "acknowledged"), ("K1", "delivered", "acknowledged"), ("K2", "delivered", "acknowledged"),
        ("K3", "held", "receiver-refused"), ("K4", "waiting", ""),
    ]  # fmt: skip
    assert receiver.ids() == ["K0", "K1", "K2", "K3"]
    given = {"reason": "wrong"} if act == "discard" else {}
    await hub.done(f"messages.{act}", entry=found[3].seq, **given)
    await hub.settled(2 * KEEP)
    assert receiver.raws == [*raws[:4], *(raws[3:4] if act == "release" else ()), *raws[4:]]


async def test_on_held_continue_lets_the_feed_go_on(hub: RelayRig) -> None:
    """What is held waits for a person beside it."""
    receiver = await hub.receiver(on_held="continue")
    receiver.on("K3", ("AE",))
    await hub.begin()
    raws = series(KEEP)
    await hub.taken(*raws)
    await hub.settled(KEEP)
    assert receiver.raws == raws
    assert [one for one in states(hub.deliveries()) if one[1] != "delivered"] == [("K3", "held", "receiver-error")]


@pytest.mark.parametrize("policy", ["retry", "continue"])
async def test_errors_as_the_relay_says(hub: RelayRig, policy: str) -> None:
    """AE and CE: tried again before anything else is sent, or delivered with its reason."""
    receiver = await hub.receiver(acknowledgement={"on_error": policy})
    receiver.on("K2", ("AE",), ("CE",))
    receiver.on("K5", ("CE",))
    await hub.begin()
    await hub.taken(*series(10))
    found = await hub.settled(10)
    order = [f"K{number}" for number in range(10)]
    if policy == "retry":
        assert receiver.ids() == ["K0", "K1", "K2", "K2", "K2", "K3", "K4", "K5", "K5", *order[6:]]
        assert {one.reason for one in found} == {"acknowledged"}
    else:
        assert receiver.ids() == order
        assert [one.control_id for one in found if one.reason == "receiver-error"] == ["K2", "K5"]
    assert {one.state for one in found} == {"delivered"}


@pytest.mark.parametrize("step", ["close", "abort", "garbage", "nonsense", "AA:other"])
async def test_a_lost_answer_in_the_midst_of_a_feed(hub: RelayRig, step: str) -> None:
    """The same bytes are sent again, before anything behind them; the repeat is noted and counted."""
    receiver = await hub.receiver(acknowledgement={"wait_seconds": 0.5 if ":" in step else 20})
    for name in ("K0", "K7", "K8", "K29"):
        receiver.on(name, (step,), (step,))
    await hub.begin()
    raws = series(KEEP)
    await asyncio.gather(*(hub.taken(*raws[at::5]) for at in range(5)))
    found = await hub.settled(KEEP)
    order = [row.raw for row in hub.rows()]
    assert list(dict.fromkeys(receiver.raws)) == order
    repeated = [raw for raw in order for _ in range(3 if raw.split(b"|")[9] in {b"K0", b"K7", b"K8", b"K29"} else 1)]
    assert receiver.raws == repeated
    assert {one.control_id for one in found if "sent-again" in json.loads(one.notes)} == {"K0", "K7", "K8", "K29"}
    assert 'adt_relay_repeats_total{destination="ris"} 8.0' in await hub.done("metrics")


async def test_on_unknown_hold(hub: RelayRig) -> None:
    """Held, not sent again; released it is sent once more, discarded not at all; the feed goes on after each."""
    receiver = await hub.receiver(acknowledgement={"on_unknown": "hold"})
    receiver.on("K2", ("close",))
    receiver.on("K4", ("close",))
    await hub.begin()
    raws = series(8)
    await hub.taken(*raws)
    first = next(one for one in await settled_but(hub, "K2") if one.control_id == "K2")
    assert (first.reason, json.loads(first.notes)) == ("outcome-unknown", ["connection-lost"])
    await hub.done("messages.release", entry=first.seq)
    second = next(one for one in await settled_but(hub, "K4") if one.control_id == "K4")
    await hub.done("messages.discard", entry=second.seq, reason="the receiver has it")
    await hub.settled(8)
    assert receiver.ids() == ["K0", "K1", "K2", "K2", "K3", "K4", "K5", "K6", "K7"]


@pytest.mark.parametrize("point", ["F52", "F53", "F54"])
async def test_on_unknown_hold_after_a_kill(hub: RelayRig, point: str) -> None:
    """Killed around a send it may have been sent: that is held; released it is sent once, and nothing twice besides."""
    receiver = await hub.receiver(acknowledgement={"on_unknown": "hold"})
    await hub.begin(ENGINE_FAULT=f"{point}:kill:3")
    raws = series(6)
    sending = asyncio.create_task(hub.sender_of(raws).run())
    assert await hub.engine.ended() == -9
    await hub.begin()
    await sending
    [held] = [one for one in await hub.when(lambda all_: any(each.state == "held" for each in all_))
              if one.state == "held"]  # fmt: skip
    assert held.reason == "outcome-unknown"
    came = receiver.ids()
    await hub.done("messages.release", entry=held.seq)
    await hub.settled(6)
    assert list(dict.fromkeys(receiver.raws)) == [row.raw for row in hub.rows()]
    assert receiver.ids().count(held.control_id) == 1 + (held.control_id in came)
    assert len(receiver.received) == 6 + (held.control_id in came)


async def test_a_receiver_that_never_acknowledges(hub: RelayRig) -> None:
    """It gets the same message again and again, nothing behind it, ever more rarely; nobody else waits."""
    silent = await hub.receiver("silent", acknowledgement={"wait_seconds": 0.2})
    other = await hub.receiver("other")
    silent.usual = ()
    await hub.begin()
    raws = series(KEEP)
    await hub.taken(*raws)
    await other.until(KEEP)
    await silent.until(4)
    assert set(silent.ids()) == {"K0"}
    [view] = [one for one in await hub.done("destinations.list") if one["destination"] == "silent"]
    assert (view["reason"], view["since"] is not None) == ("timeout", True)
    assert {one.state for one in hub.deliveries("other")} == {"delivered"}
    tries = [one.tries for one in hub.deliveries("silent")]
    assert tries[0] >= 2
    assert set(tries[1:]) == {0}
    silent.usual = ("AA",)
    await hub.settled(2 * KEEP)
    assert list(dict.fromkeys(silent.raws)) == raws
    assert silent.ids()[-KEEP + 1 :] == [f"K{number}" for number in range(1, KEEP)]


async def test_an_application_acknowledgement_is_kept_with_the_entry(hub: RelayRig) -> None:
    """A commit accept ends the delivery; what the application says of it, at once or later, is an attempt `ACK`."""
    receiver = await hub.receiver()
    gate = asyncio.Event()
    receiver.on("K0", ("CA", "AE:K0"))
    receiver.on("K1", ("CA",))
    receiver.on("K2", ("AA:K1", "CA", gate, "AE:K2"))
    await hub.begin()
    await hub.taken(*series(3))
    found = await hub.settled(3)
    assert [one.reason for one in found] == ["accepted"] * 3
    gate.set()
    await hub.until(lambda _rows: len([one for one in hub.attempts() if one.method == "ACK"]) == 3)
    assert [(one.seq, one.method, one.status) for one in hub.attempts()] == [
        (1, "MLLP", 202), (1, "ACK", 500), (2, "MLLP", 202), (2, "ACK", 200), (3, "MLLP", 202), (3, "ACK", 500),
    ]  # fmt: skip
    assert [one.state for one in hub.deliveries()] == ["delivered"] * 3
    assert len([line for line in hub.engine.lines if line["event"] == "refused by the application"]) == 2
    metrics = (await hub.done("metrics")).splitlines()
    for code, count in (("AA", 1), ("AE", 2)):
        assert f'adt_relay_application_acks_total{{code="{code}",destination="ris"}} {count}.0' in metrics


@pytest.mark.parametrize("required", [True, False])
async def test_a_sender_that_waits_for_the_delivery(hub: RelayRig, required: bool) -> None:
    """`acknowledge: delivered`: a relay that refuses is said to the sender where it is required."""
    receiver = await hub.receiver("ris", required=required)
    await hub.receiver("other")
    receiver.usual = ("AR",)
    hub.describe(acknowledge={"when": "delivered", "within_seconds": 20})
    await hub.begin()
    [answer] = await hub.send(adt("K0", "100"))
    assert answer.code == ("AE" if required else "AA"), answer.reply


async def test_a_receiver_that_closes_after_each_message(hub: RelayRig) -> None:
    """Nothing is in doubt and nothing is sent twice, also where repeats are not recognised."""
    receiver = await hub.receiver(acknowledgement={"on_unknown": "hold"})
    receiver.usual = ("AA", 0.005, "close")
    await hub.begin()
    raws = series(40)
    await hub.taken(*raws)
    found = await hub.settled(40)
    assert {(one.state, one.notes) for one in found} == {("delivered", "[]")}
    assert receiver.raws == raws


async def test_a_receiver_that_is_away_and_comes_again(hub: RelayRig) -> None:
    """What came meanwhile follows in order, once it is back."""
    receiver = await hub.receiver()
    await hub.begin()
    raws = series(60)
    await hub.taken(*raws[:20])
    await receiver.until(20)
    await receiver.stop()
    await hub.taken(*raws[20:40])
    await receiver.start()
    await hub.taken(*raws[40:])
    await hub.settled(60)
    assert receiver.raws == raws


async def test_a_sealed_journal(hub: RelayRig, tmp_path: Path) -> None:
    """The bytes leave as they came, also after a restart, and late acknowledgements are kept as everything is."""
    key = tmp_path / "journal.key"
    key.write_text(new_key())
    key.chmod(0o600)
    receiver = await hub.receiver()
    receiver.on("K1", ("CA", "AE:K1"))
    await hub.begin(**{KEY_FILE_VARIABLE: str(key)})
    raws = series(12)
    await hub.taken(*raws[:4])
    await receiver.until(4)
    await hub.done("destinations.pause", destination="ris", reason="a restart")
    await hub.taken(*raws[4:])
    assert await hub.engine.stop() == 0
    await hub.begin(**{KEY_FILE_VARIABLE: str(key)})
    await hub.done("destinations.resume", destination="ris")
    await hub.settled(12)
    assert receiver.raws == raws
    view = await hub.done("messages.show", entry=2)
    assert "MSA|AE|K1" in str(view)
    assert b"MSA|AE" not in b"".join(path.read_bytes() for path in (hub.folder / "data").glob("*.db*"))
