"""Two nodes of one journal: each sees what the other wrote, and neither takes what the other has."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from engine.database.postgresql import connect
from engine.errors import JournalUnusableError, LeaseLostError
from engine.journal.nodes import lease
from engine.journal.nodes.backend import NodeBackend
from engine.journal.nodes.schema import TURN_LOCK
from engine.journal.state import memory
from tests.journal.conftest import node
from tests.journal.desk import LATE, NOW, Desk, open_desk, settlement
from tests.postgresql import new_database


@pytest.fixture
def address(postgres: str) -> Iterator[str]:
    """Give the address of an empty database."""
    with new_database(postgres) as made:
        yield made


@contextlib.asynccontextmanager
async def opened(folder: Path, address: str) -> AsyncIterator[Desk]:
    """Open a folder's node until the block ends."""
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    async with open_desk(folder, shared=node(address, folder)) as desk:
        yield desk


@pytest.fixture
async def both(tmp_path: Path, address: str) -> AsyncIterator[tuple[Desk, Desk]]:
    """Give two nodes."""
    async with opened(tmp_path / "a", address) as one, opened(tmp_path / "b", address) as other:
        yield one, other


def told(address: str, sql: str, *values: object) -> list[tuple[object, ...]]:
    """Ask the database, or tell it something."""
    with contextlib.closing(connect(address)) as connection:
        cursor = connection.execute(sql, values)
        return cursor.fetchall() if cursor.description else []


async def take_over(desk: Desk, dead: Desk) -> None:
    """Let a node do what it does once it sees that the lease of another one has ended."""
    place, gone = desk.journal._backend, [dead.journal.incarnation]
    assert isinstance(place, NodeBackend)
    await desk.journal.act(lambda context: place._take_over(context, gone))


async def test_what_one_has_the_other_does_not_get(both: tuple[Desk, Desk]) -> None:
    """A delivery is claimed once, and the next of its patient runs wherever after it is settled."""
    one, other = both
    first = await one.record("1", ("s|1",))
    second = await other.record("2", ("s|1",))
    assert await other.claimed() == [first]
    assert await one.claimed() == []
    await other.deliver(first)
    assert await one.claimed(now=LATE) == [second]


async def test_who_had_a_lane_last_goes_first(both: tuple[Desk, Desk], address: str) -> None:
    """That node knows what the server holds: another one, though it waits for work, leaves it the next."""
    one, other = both
    first = await one.record("1", ("s|1",))
    assert await one.claimed() == [first]
    await one.deliver(first)
    await other.journal.ask("d", 5, NOW, lambda _claims, _left: None)
    second = await other.record("2", ("s|1",))
    strange = await other.record("3", ("s|3",))
    out = told(address, "SELECT seq, holder FROM delivery WHERE state = 'claimed'")
    assert out == [(strange, other.journal.incarnation)]
    assert await one.claimed() == [second]


async def test_what_is_left_to_another_node_is_not_left_for_ever(both: tuple[Desk, Desk]) -> None:
    """Where that one does not take it within a second, or is no more, whoever has time does."""
    one, other = both
    first = await one.record("1", ("s|1",))
    assert await one.claimed() == [first]
    await one.deliver(first)
    second = await other.record("2", ("s|1",))
    assert await other.claimed() == []
    assert await other.claimed(now=NOW + timedelta(seconds=2)) == [second]


async def test_numbers_go_on_across_nodes(both: tuple[Desk, Desk]) -> None:
    """Entries, identities, lanes and attempts of two nodes never share a number."""
    one, other = both
    names = [(desk, f"{number}-{at}") for number in range(6) for at, desk in enumerate(both)]
    seqs = [await desk.record(name, (f"s|{name}",)) for desk, name in names]
    assert seqs == sorted(set(seqs))
    for desk in both:
        for seq in await desk.claimed(limit=6):
            await desk.deliver(seq)
    assert await one.claimed() == await other.claimed() == []


async def test_reading_needs_no_turn(both: tuple[Desk, Desk], address: str) -> None:
    """What delivery asks to be reminded of is answered while somebody else writes, and writes nothing itself."""
    one, _other = both
    asked = "SELECT turn FROM node ORDER BY incarnation"
    before = told(address, asked)
    with contextlib.closing(connect(address)) as writer:
        writer.execute("BEGIN")
        writer.execute("SELECT pg_advisory_xact_lock(?)", (TURN_LOCK,))
        async with asyncio.timeout(5):
            assert await one.remembered(memory.known, "d", [("s", "1")]) == {}
    assert told(address, asked) == before


async def test_a_resend_through_another_node_is_recognised(both: tuple[Desk, Desk]) -> None:
    """It is answered with the acknowledgement that was stored."""
    one, other = both
    first = await one.journal.record(one.entry("1", ("s|1",)))
    again = await other.journal.record(other.entry("1", ("s|1",), acknowledgement=b"another"))
    assert (again.seq, again.duplicate, again.acknowledgement) == (first.seq, True, first.acknowledgement)


async def test_lanes_that_another_node_united_are_one_lane_here(both: tuple[Desk, Desk]) -> None:
    """What is out, what waits and what is remembered: nothing overtakes across the union."""
    one, other = both
    first = await one.record("1", ("s|1",))
    second = await one.record("2", ("s|2",))
    assert await one.claimed() == [first, second]
    merge = await other.record("3", ("s|1",), ("s|2",), unite=True)
    third = await one.record("4", ("s|2",))
    assert await other.claimed() == []
    await one.deliver(second)
    assert await other.claimed() == await one.claimed() == []
    await one.deliver(first)
    assert await other.claimed() == [merge]
    assert await one.claimed(now=LATE) == []
    await other.deliver(merge)
    assert await one.claimed(now=LATE) == [third]


async def test_a_later_delivery_that_is_out_elsewhere_is_waited_for(both: tuple[Desk, Desk]) -> None:
    """A replay of something older does not run beside what another node delivers for its patient."""
    one, other = both
    first = await one.record("1", ("s|1",))
    await one.claimed()
    await one.deliver(first)
    second = await one.record("2", ("s|1",))
    assert await one.claimed() == [second]
    with pytest.raises(Exception, match=r"being delivered|newer"):
        await other.replay(first)


async def test_who_did_not_have_a_lane_last_is_told(both: tuple[Desk, Desk]) -> None:
    """Its cache may be old; the node that had it goes on with what it remembers."""
    one, other = both
    seqs = [await one.record(str(number), ("s|1",)) for number in range(4)]
    foreign = []
    for desk, seq in zip((one, one, other, one), seqs, strict=True):
        (claimed,) = await desk.claim(limit=1, now=LATE)
        foreign.append(claimed.foreign)
        await desk.deliver(seq)
    assert foreign == [False, False, True, True]


async def test_what_a_stopped_node_leaves_is_there_at_once(
    tmp_path: Path, address: str, both: tuple[Desk, Desk]
) -> None:
    """A clean stop gives back what was claimed."""
    one, _other = both
    async with opened(tmp_path / "c", address) as third:
        seq = await third.record("1", ("s|1",))
        assert await third.claimed() == [seq]
        assert await one.claimed() == []
        await third.deliver(seq)
        left = await third.record("2", ("s|1",))
        assert await one.claimed() == []
    assert await one.claimed() == [left]


async def test_who_was_taken_for_dead_settles_nothing(address: str, both: tuple[Desk, Desk]) -> None:
    """Its settlement is refused, and the journal ends for it; another node delivers."""
    one, other = both
    seq = await one.record("1", ("s|1",))
    assert await one.claimed() == [seq]
    told(address, "UPDATE node SET until = 0 WHERE incarnation = ?", one.journal.incarnation)
    await take_over(other, one)
    with pytest.raises(LeaseLostError):
        await one.journal.settle(settlement(seq))
    assert one.journal.lost
    assert await other.claimed() == [seq]


async def test_a_node_that_renewed_in_time_keeps_what_it_has(both: tuple[Desk, Desk]) -> None:
    """Between the look and the turn it may have said that it lives."""
    one, other = both
    seq = await one.record("1", ("s|1",))
    assert await one.claimed() == [seq]
    await take_over(other, one)
    await one.deliver(seq)
    assert await other.claimed() == []


async def test_what_nobody_lived_to_take_back_is_taken_back(tmp_path: Path, address: str) -> None:
    """A start that was killed after it ended its earlier process, and before it took back what that had."""
    async with opened(tmp_path / "a", address) as one:
        seq = await one.record("1", ("s|1",))
        assert await one.claimed() == [seq]
        told(address, "UPDATE node SET state = 'expired' WHERE incarnation = ?", one.journal.incarnation)
        async with opened(tmp_path / "b", address) as other:
            assert await other.claimed() == [seq]


async def test_a_name_is_one_nodes(tmp_path: Path, address: str) -> None:
    """Another folder's node is refused while the first one lives; the same folder's takes its place."""
    async with opened(tmp_path / "a", address) as one:
        taken = node(address, tmp_path / "a")._replace(home="another")
        (tmp_path / "b").mkdir()
        with pytest.raises(JournalUnusableError, match="another node has the name"):
            async with open_desk(tmp_path / "b", shared=taken):
                pass
        first = one.journal.incarnation
    async with opened(tmp_path / "a", address) as one:
        assert one.journal.incarnation > first
        states = {each.incarnation: each.state for each in lease.nodes(address)}
        assert states == {first: "stopped", one.journal.incarnation: "live"}


async def test_a_database_that_would_lose_a_commit_is_refused(tmp_path: Path, postgres: str, address: str) -> None:
    """No node starts on it; the text names the setting and what to set."""
    name = address.partition("?")[0].rpartition("/")[2]
    told(postgres, f"ALTER DATABASE {name} SET synchronous_commit = off")
    with pytest.raises(
        JournalUnusableError, match="synchronous_commit is off, so that a crash loses what was answered"
    ):
        async with opened(tmp_path / "a", address):
            pass


async def test_tables_of_another_program_are_left_alone(tmp_path: Path, address: str) -> None:
    """A journal is made in an empty database, or where it is already."""
    told(address, "CREATE TABLE theirs (id BIGINT)")
    with pytest.raises(JournalUnusableError, match="tables of another program"):
        async with opened(tmp_path / "a", address):
            pass
    assert told(address, "SELECT COUNT(*) FROM theirs") == [(0,)]


async def test_a_folder_goes_with_one_journal(tmp_path: Path, postgres: str, address: str) -> None:
    """A data folder that was another database's, or holds a file of its own, is refused with what to do."""
    async with opened(tmp_path / "a", address):
        pass
    with pytest.raises(JournalUnusableError, match=r"the journal of .* is in"):
        node(postgres, tmp_path / "a")
    (tmp_path / "b").mkdir()
    async with open_desk(tmp_path / "b"):
        pass
    with pytest.raises(JournalUnusableError, match="journal copy"):
        node(address, tmp_path / "b")


async def test_one_node_at_a_time_sends_in_the_order_of_the_feed(both: tuple[Desk, Desk]) -> None:
    """What is replayed at the head is not another node's while one has something of the feed out."""
    one, other = both
    feed = frozenset({"d"})
    seqs = [await one.record(str(at), (f"s|{at}",), in_feed_order=feed) for at in range(3)]
    assert [claim.seq for claim in await one.journal.claim("d", 3, NOW, run=True)] == seqs
    await one.journal.settle(settlement(seqs[0]))
    assert await other.replay(seqs[0]) == 1
    assert await other.journal.claim("d", 3, LATE, run=True) == ()
    assert [claim.seq for claim in await one.journal.claim("d", 3, LATE, run=True)] == seqs[:1]
    for seq in seqs:
        await one.journal.settle(settlement(seq))
    last = await one.record("last", ("s|1",), in_feed_order=feed)
    assert [claim.seq for claim in await other.journal.claim("d", 3, LATE, run=True)] == [last]
