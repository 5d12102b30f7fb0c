"""The engine killed around a transaction: it took effect or it did not, and either way everything is there once."""

from tests.crash.lives import DEATH_SECONDS, KILLED
from tests.flow.rig import Rig, channel_file, destination, write
from tests.flow.wards import BASE, admission, check_wards, transactions

# The patient is written first, then the transaction: it is the second request of its message.
AROUND = (("F11", 2), ("F12", 2), ("F13", 2), ("F14", 2), ("F15", 1), ("F17", 1))


async def test_killed_around_a_transaction(rig: Rig) -> None:
    """Killed at each point of a transaction and started again, the engine reads before it writes, and ends the work."""
    channel = channel_file(rig.proxy.url) | {"destinations": [destination(rig.proxy.url, concurrency=1)]}
    write(rig.folder / "channels" / "riverbend-adt.yaml", channel)
    for number, (point, nth) in enumerate(AROUND, 1):
        await rig.engine.spawn(ENGINE_FAULT=f"{point}:kill:{nth}")
        await rig.sender([admission(number)], 1).run()
        assert await rig.engine.ended(DEATH_SECONDS) == KILLED, (point, rig.engine.log())
        sent = len(transactions(rig))
        assert sent == len([one for one, _ in AROUND[:number] if one not in {"F11", "F12"}]), point
        before = len(rig.proxy.calls)
        await rig.engine.start()
        await rig.drained()
        assert await rig.engine.stop() == 0
        again = [call for call in rig.proxy.calls[before:] if f"{BASE}/" in call.path and "metadata" not in call.path]
        assert len(transactions(rig)) == sent, point  # it goes on one by one
        assert all(call.method == "GET" for call in again[:1]), point
        if point in {"F13", "F14", "F15"}:
            assert [call.path for call in again if call.method != "GET"] == [], point
    assert {row.state for row in rig.rows()} == {"delivered"}
    await check_wards(rig, range(1, len(AROUND) + 1))
