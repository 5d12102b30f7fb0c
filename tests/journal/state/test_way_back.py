"""What was sent of a resource, what the engine has written, and the message of an earlier try, as they are kept."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from engine.http.request import HttpRequest
from engine.journal.entry import SENT, OwnWrite, SentResource, State
from engine.journal.file.sealing import KEY_FILE_VARIABLE, new_key
from engine.journal.state import way_back
from tests.journal.desk import NOW, Desk, Opener, intent, settlement

PATIENT = "Patient/1"
OWN = OwnWrite("d", PATIENT, "3", "adt", NOW)


async def written(desk: Desk, version: str = "3") -> OwnWrite | None:
    """Return what is known of a version."""
    return await desk.journal.read(partial(way_back.written, server="d", resource=PATIENT, version=version))


async def settled(desk: Desk, name: str, *own: OwnWrite, sent: SentResource | None = None, at: datetime = NOW) -> None:
    """Settle a delivery."""
    seq = await desk.record(name, ("s|1",))
    await desk.claim(now=at)
    await desk.deliver(seq, own_writes=own, sent=sent, at=at)


async def test_what_was_sent_and_written_outlives_the_journal(opened: Opener) -> None:
    """The last of each; a version that is given once more is the later one's."""
    again = replace(OWN, channel="other", moment=NOW + timedelta(hours=1))
    async with opened() as desk:
        await settled(desk, "1", OWN, sent=SentResource(PATIENT, "1", "{}"))
        await settled(desk, "2", again, replace(OWN, version="", moment=None), sent=SentResource(PATIENT, "2", "{}"))
    async with opened() as desk:
        found = await desk.journal.read(partial(way_back.sent, destination="d", resource=PATIENT))
        assert found == SentResource(PATIENT, "2", "{}")
        assert await written(desk) == again
        assert await written(desk, "") == replace(OWN, version="", moment=None)
        assert await written(desk, "4") is None


async def test_versions_written_long_ago_are_forgotten(desk: Desk) -> None:
    """And no others."""
    await settled(desk, "1", OWN)
    await settled(desk, "2", replace(OWN, version="4"), at=NOW + timedelta(days=1))
    later = NOW + way_back.KEPT + timedelta(hours=1)
    assert await desk.journal.write(partial(way_back.forget, now=later)) == 1
    assert [one is None for one in (await written(desk), await written(desk, "4"))] == [True, False]


async def message(desk: Desk, seq: int) -> bytes:
    """Return the message that was made before."""
    return await desk.journal.look(lambda one: way_back.last_message(one.connection, one.sealing, seq, "d"))


async def test_the_message_of_an_earlier_try_is_there_until_somebody_lets_the_entry_go_on(desk: Desk) -> None:
    """The newest one; not what a FHIR server was sent, and not what was made before a replay."""
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    assert await message(desk, seq) == b""
    await desk.journal.intend(seq, "d", intent(1))
    assert await message(desk, seq) == b""
    for number in (2, 3):
        await desk.journal.intend(seq, "d", HttpRequest(number, SENT, "ehr:1", (), b"MSH|%d" % number, NOW))
    assert await message(desk, seq) == b"MSH|3"
    await desk.journal.settle(settlement(seq, State.HELD))
    assert await message(desk, seq) == b"MSH|3"
    await desk.release(seq, by="nina", at=NOW + timedelta(seconds=1))
    assert await message(desk, seq) == b""
    await desk.claim()
    later = NOW + timedelta(seconds=2)
    await desk.journal.intend(seq, "d", HttpRequest(4, SENT, "ehr:1", (), b"MSH|4", later))
    assert await message(desk, seq) == b"MSH|4"


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
async def test_the_message_of_a_sealed_journal_is_the_same(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is unsealed as it was sealed."""
    key = tmp_path / "key"
    key.write_text(new_key())
    key.chmod(0o600)
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(key))
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        await desk.claim()
        await desk.journal.intend(seq, "d", HttpRequest(1, SENT, "ehr:1", (), b"MSH|1", NOW))
    async with opened() as desk:
        assert await message(desk, seq) == b"MSH|1"
