"""The history of a FHIR server: each version once, the oldest first, and none lost, whatever the server does."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import AdtEngineError, DeliveryError, EventError, JournalError
from engine.journal.state import event_cursors
from engine.pipeline.inbound.history import EventHistory
from tests.journal.desk import Desk, open_desk
from tests.pipeline.inbound.history_server import NOON, HistoryServer, channel_of, reader_of
from tests.pipeline.inbound.taking import Door


class Polled:
    """One engine's history of a server, with its journal; `restart` forgets what is in memory."""

    def __init__(self, desk: Desk, server: HistoryServer, **given: Any) -> None:
        self.desk = desk
        self.server = server
        self.door = Door(desk.journal)
        self.channel = channel_of(server.base, **given.pop("channel", {}))
        self.given = given
        self.reader = reader_of(self.channel)
        self.restart()

    def restart(self) -> None:
        """Begin anew with what the journal knows."""
        assert self.channel.listen.fhir is not None
        self.history = EventHistory(
            "back", self.channel.listen.fhir, self.reader, self.desk.journal, self.door.take,
            lambda: self.server.now, **self.given,
        )  # fmt: skip

    async def all(self) -> list[str]:
        """Ask until there is no more; return what was handed over."""
        before = len(self.door.handed)
        while await self.history.round():
            pass
        return self.door.handed[before:]

    async def cursors(self) -> dict[str, str]:
        """Return how far the journal says that the channel has come."""
        return await self.desk.journal.read(lambda connection: event_cursors.read(connection, "back"))

    async def cursor(self) -> str:
        """Return how far Patients have come, as the server writes it."""
        at = datetime.fromisoformat((await self.cursors())["Patient"])
        return at.isoformat(timespec="milliseconds")


@pytest.fixture
async def server() -> AsyncIterator[HistoryServer]:
    """A server without any version."""
    found = await HistoryServer().start()
    yield found
    await found.stop()


@pytest.fixture
async def polled(desk: Desk, server: HistoryServer) -> AsyncIterator[Polled]:
    """A history that has begun."""
    found = Polled(desk, server)
    await found.all()
    server.tick(6)
    yield found
    await found.reader.close()


async def test_it_begins_now(desk: Desk, server: HistoryServer, capsys: pytest.CaptureFixture[str]) -> None:
    """By the server's clock: what was there before the first start is not sent, however little before."""
    server.write("Patient/1", late=0.5)
    found = Polled(desk, server)
    assert await found.all() == []
    assert "events begin" in capsys.readouterr().out
    server.tick(0.001)
    name = server.write("Patient/1")
    assert await found.all() == [name]
    found.restart()
    assert await found.all() in ([name], [])
    assert await found.door.names() == [name]
    await found.reader.close()


async def test_a_server_that_tells_no_time_begins_by_ours(desk: Desk, server: HistoryServer) -> None:
    """Its Date header is none that can be read."""
    server.dated = False
    found = Polled(desk, server)
    await found.all()
    assert await found.cursors() == dict.fromkeys(("Patient", "Encounter"), (NOON + timedelta(seconds=5)).isoformat())
    await found.reader.close()


async def test_versions_and_deletions_come_oldest_first(polled: Polled) -> None:
    """Over both types; visits are asked for first, and of one moment the patient comes before the visit."""
    server = polled.server
    names = [server.write("Patient/1"), server.write("Encounter/e")]
    for reference, deleted in (("Patient/1", False), ("Encounter/e", True), ("Patient/2", False), ("Patient/1", True)):
        server.tick(0.01)
        names.append(server.write(reference, deleted=deleted))
    server.asked.clear()
    assert await polled.all() == names
    # Where patients have something new, visits may have had so before it.
    assert server.asked == ["GET Encounter/_history", "GET Patient/_history", "GET Encounter/_history"]
    assert await polled.cursor() == server.versions["Patient"][-1]["at"]
    assert await polled.all() == []
    (peer,) = polled.door.peers
    assert (peer.address, f":{peer.port}/" in server.base) == ("127.0.0.1", True)


async def test_a_clock_that_is_set_back_hides_nothing(polled: Polled) -> None:
    """What the server writes then has moments before the cursor; it is asked for again, and taken once."""
    server = polled.server
    server.tick(3600)
    first = server.write("Patient/1")
    assert await polled.all() == [first]
    server.tick(-3600)
    second = server.write("Patient/2")
    # The first answer says the time.
    assert [*await polled.all(), *await polled.all()] == [second]
    server.tick(1)
    third = server.write("Patient/1")
    await polled.all()
    polled.restart()
    await polled.all()
    await polled.all()
    assert sorted(await polled.door.names()) == sorted([first, second, third])


async def test_what_comes_between_two_answers_keeps_its_place(polled: Polled) -> None:
    """A visit and a patient between the answers of visits and of patients; a visit after them waits for its round."""
    server = polled.server
    names: list[str] = []

    def write(*references: str) -> None:
        for reference in references:
            server.tick(0.01)
            names.append(server.write(reference))

    write("Encounter/e")
    answered = iter((lambda: write("Encounter/e", "Patient/1"), lambda: write("Encounter/f", "Patient/2")))

    def go_on() -> None:
        if step := next(answered, None):
            step()

    server.answered = go_on
    assert await polled.all() == names
    assert len(names) == 5


@pytest.mark.parametrize("says", ["", "http://inside.example:8080"])
@pytest.mark.parametrize("at_base", [True, False])
async def test_pages_are_followed_whatever_host_their_links_name(polled: Polled, says: str, at_base: bool) -> None:
    """A server behind a proxy names itself otherwise; what is asked is the server that the channel names."""
    server = polled.server
    server.page, server.says, server.pages_at_base = 2, says, at_base
    names = []
    for number in range(7):
        server.tick(0.01)
        names.append(server.write(f"Patient/{number}"))
    assert await polled.all() == names


@pytest.mark.parametrize("url", ["https://evil.example/other/Patient/_history", "/fhir/R4x/Patient/_history"])
async def test_no_link_leads_elsewhere(polled: Polled, url: str) -> None:
    """Nothing of the round is taken."""
    link = {"relation": "next", "url": url}
    polled.server.bodies.append(orjson.dumps({"resourceType": "Bundle", "type": "history", "link": [link]}))
    polled.server.write("Patient/1")
    with pytest.raises(EventError, match="history-elsewhere"):
        await polled.all()
    assert await polled.all() == ["Patient/1/1"]


async def test_links_that_go_round_end(polled: Polled) -> None:
    """A page that names one that was asked for is not read for ever."""
    path = f"{polled.server.base}/Encounter/_history?again"
    page = {"resourceType": "Bundle", "type": "history", "link": [{"relation": "next", "url": path}]}
    polled.server.bodies += [orjson.dumps(page)] * 2
    with pytest.raises(EventError, match="history-unreadable"):
        await polled.all()


@pytest.mark.parametrize("at", [0, 1, 2, 3])
@pytest.mark.parametrize(("status", "reason"), [(500, "http-500"), (401, "http-401"), (410, "http-410")])
async def test_a_page_that_fails_takes_nothing(polled: Polled, status: int, reason: str, at: int) -> None:
    """Whichever of the pages it is, the cursor stays, and all of it comes later."""
    server = polled.server
    server.page = 1
    names = [server.write("Encounter/e")]
    for reference in ("Encounter/f", "Patient/1", "Patient/2"):
        server.tick(0.01)
        names.append(server.write(reference))
    before = await polled.cursors()
    server.answers += [*[0] * at, status]
    with pytest.raises((DeliveryError, EventError), match=reason):
        await polled.all()
    assert (polled.door.handed, await polled.cursors()) == ([], before)
    assert await polled.all() == names


@pytest.mark.parametrize(
    "body",
    [
        b"<html>", b"[]", b'{"resourceType":"OperationOutcome"}', b'{"resourceType":"Bundle","entry":{}}',
        b'{"resourceType":"Bundle","entry":[7]}',
        b'{"resourceType":"Bundle","type":"history","entry":[{"request":{"method":"PUT","url":"Patient/1"}}]}',
    ],
)  # fmt: skip
async def test_what_cannot_be_read_is_not_skipped(polled: Polled, body: bytes) -> None:
    """Neither what is no Bundle nor an entry that does not say what changed."""
    polled.server.write("Patient/1")
    polled.server.bodies += [body]
    with pytest.raises(EventError, match="history-unreadable"):
        await polled.all()
    assert await polled.all() == ["Patient/1/1"]


async def test_what_is_no_event_is_handed_over_to_be_refused(polled: Polled) -> None:
    """It holds up nothing, and comes once."""
    entry = {"resource": {"resourceType": "Patient"}, "request": {"method": "PUT", "url": "Patient"}}
    polled.server.versions["Patient"].append({"at": polled.server.now.isoformat(), "entry": entry})
    polled.server.tick(0.01)
    polled.server.write("Patient/1")
    assert await polled.all() == ["none", "Patient/1/1"]
    assert await polled.all() == []


@pytest.mark.parametrize("status", [400, 404, 405, 501])
async def test_a_server_without_a_history(polled: Polled, status: int) -> None:
    """Says so."""
    polled.server.unsupported = status
    with pytest.raises(EventError, match="history-unsupported"):
        await polled.all()


async def test_what_is_committed_out_of_order_is_seen(polled: Polled) -> None:
    """A version that appears up to five seconds behind the newest."""
    server = polled.server
    server.tick(10)
    names = [server.write("Patient/1")]
    assert await polled.all() == names
    late = server.write("Patient/2", late=4.9)
    assert await polled.all() == [late]
    assert await polled.all() == []


async def test_a_server_in_no_order(polled: Polled) -> None:
    """Whose pages repeat and mix what they hold, and that does not know `_since`: the order is that of the moments."""
    server = polled.server
    server.forgets_since = True
    names = []
    for number in range(20):
        server.tick(0.01)
        names.append(server.write(f"Patient/{number % 3}"))
    server.shuffled = random.Random(7)
    assert await polled.all() == names
    server.tick(60)
    names = [server.write("Patient/9")]
    assert await polled.all() == names
    polled.restart()
    server.tick(60)
    assert await polled.all() in (names, [])
    assert len(await polled.door.names()) == 21


async def test_deletions_without_a_moment(polled: Polled) -> None:
    """Have that of the version before them."""
    server = polled.server
    names = [server.write("Patient/1")]
    server.tick(0.01)
    names += [server.write("Patient/1", deleted=True, told=False), server.write("Patient/2")]
    assert sorted(await polled.all()) == sorted(names)
    assert await polled.all() == []


async def test_a_version_of_the_far_future_hides_nothing(polled: Polled) -> None:
    """The cursor goes no further than the server's own time."""
    server = polled.server
    ahead = server.write("Patient/1", late=-1e9)
    assert await polled.all() == [ahead]
    server.tick(30)
    name = server.write("Patient/2")
    assert await polled.all() == [name]
    polled.restart()
    server.tick(30)
    later = server.write("Patient/3")
    assert later in await polled.all()
    assert await polled.door.names() == [ahead, name, later]


async def test_after_a_long_outage_the_oldest_come_first(desk: Desk, server: HistoryServer) -> None:
    """A round holds no more than its bound, and is repeated until all is there; many of one moment, too."""
    found = Polled(desk, server, most=7)
    await found.all()
    server.page = 5
    names = []
    for number in range(40):
        server.tick(0 if 10 < number < 30 else 20)
        names.append(server.write(f"{'Encounter' if number % 3 else 'Patient'}/{number}"))
    assert await found.history.round()
    assert found.door.handed == names[:7]
    await found.all()
    assert [name for name in found.door.handed if int(name.split("/")[1]) <= 10] == names[:11]
    assert sorted(found.door.handed) == sorted(names)
    assert len(await found.door.names()) == 40
    await found.reader.close()


async def test_what_is_not_stored_comes_again(polled: Polled, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor stands behind what is in the journal, and no further."""
    monkeypatch.setattr("engine.pipeline.inbound.history.TAKEN_AT_ONCE", 2)
    names = []
    for number in range(6):
        polled.server.tick(10)
        names.append(polled.server.write(f"Patient/{number}"))
    polled.door.fails_after = 1
    with pytest.raises(JournalError):
        await polled.all()
    assert polled.door.handed == names[:2]
    assert await polled.cursor() == polled.server.versions["Patient"][1]["at"]
    polled.door.fails_after = None
    assert await polled.all() == names[2:]


async def test_a_page_that_is_too_large_is_asked_for_in_parts(polled: Polled) -> None:
    """Until what comes can be read."""
    polled.server.bodies.append(b" " * (10 * 1024 * 1024 + 1))
    names = [polled.server.write("Patient/1")]
    with pytest.raises(DeliveryError, match="answer-too-large"):
        await polled.all()
    assert await polled.all() == names
    assert polled.history._count == 100


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(("Patient/1", "Patient/2", "Encounter/1")), st.booleans()),
        st.tuples(st.just("late"), st.floats(0, 4.9)),
        st.tuples(st.just("tick"), st.sampled_from((0.001, 0.5, 3.0, 20.0))),
        st.tuples(st.just("poll")),
        st.tuples(st.just("fail"), st.integers(0, 4)),
        st.tuples(st.just("refuse"), st.integers(0, 2)),
        st.tuples(st.just("restart")),
    ),
    max_size=40,
)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, page=st.integers(1, 4), most=st.integers(1, 9))
def test_nothing_is_lost_and_nothing_is_there_twice(steps: list[tuple[Any, ...]], page: int, most: int) -> None:
    """Whatever is written, late, between polls, answers that fail, stores that fail and restarts."""

    async def carry(folder: Path) -> None:
        server = await HistoryServer().start()
        server.page = page
        async with open_desk(folder) as desk:
            found = Polled(desk, server, most=most)
            await found.all()
            # Later than what may be committed late, so that nothing is from before the beginning.
            server.tick(6)
            written = []
            for step in steps:
                match step:
                    case ("write", reference, deleted):
                        written.append(server.write(reference, deleted=deleted))
                    case ("late", seconds):
                        written.append(server.write("Patient/3", late=seconds))
                    case ("tick", seconds):
                        server.tick(seconds)
                    case ("fail", at):
                        server.answers += [*[0] * at, 503]
                    case ("refuse", calls):
                        found.door.fails_after = calls
                    case ("restart",):
                        found.restart()
                    case ("poll",):
                        try:
                            await found.all()
                        except AdtEngineError:
                            server.answers.clear()
                            found.door.fails_after = None
                if step[0] in {"write", "late"}:
                    server.tick(0.001)
            server.answers.clear()
            found.door.fails_after = None
            await found.all()
            assert sorted(await found.door.names()) == sorted(written)
            assert await found.all() == []
            await found.reader.close()
        await server.stop()

    with TemporaryDirectory() as folder:
        asyncio.run(carry(Path(folder)))
