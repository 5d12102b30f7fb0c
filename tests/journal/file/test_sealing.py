"""What is sealed is read with its key in its place, and with nothing else."""

import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import JournalUnusableError, SealError
from engine.journal.entry import Ownership, State
from engine.journal.file.sealing import (
    KEY_FILE_VARIABLE,
    TEXTUAL,
    Sealing,
    _wrap,
    begun,
    key_of,
    new_key,
    owned_at,
    read_key,
    rewrap,
    shred,
)
from engine.journal.file.sealing import opened as opened_sealing
from engine.journal.read.lineage import lineage
from engine.journal.read.reading import Reader
from engine.journal.state import memory
from engine.journal.write.entry_lookup import OperationRequest
from engine.journal.write.job import WriterContext
from tests.journal.desk import Desk, Opener, entry, intent, settlement
from tests.postgresql import address_of

MASTER = bytes(range(32))
OTHER = bytes(32)


def plain_sealing() -> Sealing:
    """Return a sealing with one key, of no journal."""
    sealing = Sealing(MASTER, b"n" * 32, lambda _number: None)
    sealing.begin(7, 20_000, _wrap(MASTER, b"k" * 32, 20_000))
    return sealing


@given(content=st.binary(max_size=2000), place=st.text(max_size=20))
def test_what_is_sealed_comes_back_as_it_was(content: bytes, place: str) -> None:
    """Any bytes, at any place; never twice the same, and nothing of them shows."""
    sealing = plain_sealing()
    sealed = sealing.seal(content, place)
    assert sealing.unseal(sealed, place) == content
    if len(content) > 8:
        assert content not in sealed
        assert sealing.seal(content, place) != sealed


@given(content=st.binary(min_size=1, max_size=200), data=st.data())
def test_one_bit_or_another_place_is_refused(content: bytes, data: st.DataObject) -> None:
    """What was changed anywhere, cut, or moved to another place is never given out."""
    sealing = plain_sealing()
    sealed = bytearray(sealing.seal(content, "raw:1"))
    with pytest.raises(SealError):
        sealing.unseal(bytes(sealed), "raw:2")
    with pytest.raises(SealError):
        sealing.unseal(bytes(sealed[:-1]), "raw:1")
    position = data.draw(st.integers(0, len(sealed) - 1))
    sealed[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(SealError):
        sealing.unseal(bytes(sealed), "raw:1")


def test_a_patients_key_has_one_name_and_shows_nothing() -> None:
    """The same key is the same name, as it is looked up; a name stays a name, and nothing stays nothing."""
    sealing = plain_sealing()
    name = sealing.name("https://mrn.example|12345")
    assert name == sealing.name("https://mrn.example|12345") != sealing.name("https://mrn.example|12346")
    assert name.startswith("sealed:")
    assert "12345" not in name
    assert sealing.name(name) == name
    assert sealing.name("") == ""


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the address of an empty database; none for SQLite's file. What is sealed is so in both."""
    yield from address_of(request)


async def test_a_journal_is_sealed_from_its_first_message_or_never(desk: Desk) -> None:
    """A key for a journal that holds messages in clear is refused, and so is no key, or another, for a sealed one."""
    await desk.record("1", ("s|1",))
    with pytest.raises(JournalUnusableError, match="not sealed"):
        await desk.journal.read(lambda connection: opened_sealing(connection, MASTER))


async def test_only_the_key_file_that_it_began_with_opens_a_journal(desk: Desk) -> None:
    """Without it, or with another, the error says which variable names it."""
    await desk.journal.write(lambda connection: begun(connection, MASTER))
    with pytest.raises(JournalUnusableError, match="ADT_ENGINE_JOURNAL_KEY_FILE"):
        await desk.journal.read(lambda connection: opened_sealing(connection, None))
    with pytest.raises(JournalUnusableError, match="another key"):
        await desk.journal.read(lambda connection: opened_sealing(connection, OTHER))
    assert await desk.journal.read(lambda connection: opened_sealing(connection, MASTER)) is not None


async def test_each_day_has_a_key_and_a_clock_set_back_gets_a_new_one(desk: Desk) -> None:
    """The newest key serves its own day only: an older key may go with the entries that it served."""
    numbers = [
        (await desk.journal.write(lambda connection, day=day: key_of(connection, MASTER, day)))[0]
        for day in (100, 100, 101, 100, 100)
    ]
    assert numbers[0] == numbers[1]
    assert len(set(numbers)) == 3
    assert numbers[3] == numbers[4] > numbers[2]


async def test_a_key_goes_when_no_entry_that_it_served_has_a_body(desk: Desk) -> None:
    """As long as one old body stays, so do the keys since; the names' key stays for ever."""
    await desk.journal.write(lambda connection: begun(connection, MASTER))
    for number, day in enumerate((100, 101, 102)):
        await desk.journal.write(lambda connection, day=day: key_of(connection, MASTER, day))
        await desk.record(str(number), (f"s|{number}",))
    await desk.journal.write(lambda connection: key_of(connection, MASTER, 103))
    assert await desk.journal.write(shred) == 0
    await desk.journal.write(lambda connection: connection.execute("DELETE FROM payload WHERE seq = 2") and None)
    assert await desk.journal.write(shred) == 0
    await desk.journal.write(lambda connection: connection.execute("DELETE FROM payload WHERE seq = 1") and None)
    assert await desk.journal.write(shred) == 2
    left = await desk.journal.read(lambda connection: connection.execute("SELECT day FROM seal_key").fetchall())
    assert sorted(left) == [(-1,), (102,), (103,)]


async def test_a_new_key_file_opens_what_the_old_one_sealed(desk: Desk) -> None:
    """Rotation wraps the keys anew; bodies and names stay as they are."""
    await desk.journal.write(lambda connection: begun(connection, MASTER))
    key = await desk.journal.write(lambda connection: key_of(connection, MASTER, 100))
    before = await desk.journal.read(lambda connection: opened_sealing(connection, MASTER))
    assert before is not None
    before.begin(*key)
    sealed, name = before.seal(b"PID|1", "raw"), before.name("s|1")
    assert await desk.journal.write(lambda connection: rewrap(connection, MASTER, OTHER)) == 2
    after = await desk.journal.read(lambda connection: opened_sealing(connection, OTHER))
    assert after is not None
    assert after.name("s|1") == name
    assert await desk.journal.read(lambda _connection: after.unseal(sealed, "raw")) == b"PID|1"


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let journals of this test be sealed."""
    path = tmp_path / "key"
    path.write_text(new_key())
    path.chmod(0o600)
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(path))


@pytest.fixture
async def sealed(key: None, opened: Opener) -> AsyncIterator[Desk]:
    """Give an open journal that is sealed."""
    async with opened() as desk:
        yield desk


async def test_a_message_moved_to_another_entry_is_not_read_there(sealed: Desk) -> None:
    """Whoever can write the file cannot give one patient another one's message: each is bound to its entry."""
    one, other = await sealed.record("1", ("s|1",)), await sealed.record("2", ("s|2",))
    swap = "UPDATE payload SET raw = (SELECT raw FROM payload WHERE seq = ?) WHERE seq = ?"
    await sealed.journal.write(lambda connection: connection.execute(swap, (one, other)) and None)
    assert [bool(claimed.raw) for claimed in await sealed.claim()] == [True, False]


OWNED = {
    ("Patient/p1", "REG|RVB"): {"PID-7": ("b" * 43,)},
    ("Patient/p1", "LAB|RVB"): {"PID-8": ("c" * 43,)},
    ("Patient/p0 Encounter", "REG|RVB"): {"https://visit.example|V4711": ("d" * 43,)},
}


async def test_what_is_owned_is_sealed_as_well_and_older_journals_are_read(key: None, opened: Opener) -> None:
    """Digests of a birth date can be guessed, and slices name visits: neither stands in the file, nor is it lost."""
    slices = [Ownership("d", resource, source, marks) for (resource, source), marks in OWNED.items()]
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        await desk.claim()
        await desk.journal.settle(settlement(seq, owned=tuple(slices)))
        seq = await desk.record("2", ("s|1",))
        await desk.claim()
        await desk.journal.settle(settlement(seq, inherited=(("Patient/p0", "Patient/p1"),)))
    async with opened() as desk:
        kept = await desk.journal.read(lambda connection: connection.execute("SELECT slices FROM owned").fetchall())
        assert all(row[0].startswith(TEXTUAL) for row in kept)
        shown = [base64.b64decode(row[0].removeprefix(TEXTUAL)) for row in kept]
        assert not any(mark in one for one in shown for mark in (b"b" * 43, b"c" * 43, b"d" * 43, b"V4711"))
        for resource, source in (("Patient/p1", "REG|RVB"), ("Patient/p1", "LAB|RVB")):
            assert await desk.remembered(memory.owned, "d", resource, source) == OWNED[resource, source]
        inherited = await desk.remembered(memory.owned, "d", "Patient/p1 Encounter", "REG|RVB")
        assert inherited == OWNED["Patient/p0 Encounter", "REG|RVB"]
        assert await desk.remembered(memory.claimed, "d", "Patient/p1", "REG|RVB") == {"c" * 43}
        older = "UPDATE owned SET slices = '{\"PID-7\":[\"e\"]}' WHERE source = 'LAB|RVB'"
        await desk.journal.write(lambda connection: connection.execute(older) and None)
        assert await desk.remembered(memory.claimed, "d", "Patient/p1", "REG|RVB") == {"e"}
        assert await desk.remembered(memory.owned, "d", "Patient/p1", "LAB|RVB") == {"PID-7": ("e",)}


async def test_a_sealed_request_and_an_edit_are_read_back(key: None, opened: Opener) -> None:
    """Headers and changes are sealed in columns of text: none shows, each comes back as it was."""
    headers, changes = (("If-Match", 'W/"4711"'),), b'[{"path":"PID-5","now":"Quintero"}]'
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        await desk.claim()
        await desk.journal.intend(seq, "d", replace(intent(), headers=headers))
        await desk.journal.settle(settlement(seq, State.HELD))
        made = await desk.journal.act(
            lambda context: context.operations.edit(
                seq, entry("2", ("s|1",), parent=seq), changes, OperationRequest(by="nina")
            )
        )
        texts = "SELECT headers FROM attempt UNION ALL SELECT changes FROM edit"
        kept = await desk.journal.read(lambda connection: connection.execute(texts).fetchall())
        assert [row[0].startswith(TEXTUAL) for row in kept] == [True, True]
        with Reader(desk.folder) as reader:
            (delivery,) = reader.show(seq).deliveries
        assert delivery.attempts[0].intent.headers == headers
        _replays, edit = lineage(desk.folder, made.seq)
        assert edit is not None
        assert edit.changes == ({"path": "PID-5", "now": "Quintero"},)


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
async def test_what_an_older_version_sealed_as_bytes_is_read(key: None, opened: Opener) -> None:
    """Until PostgreSQL, columns of text held sealed bytes in SQLite's file."""
    older = "UPDATE owned SET slices = ? WHERE source = 'REG'"
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        await desk.claim()
        mine = Ownership("d", "Patient/p1", "REG", {"PID-7": ("b",)})
        await desk.journal.settle(settlement(seq, owned=(mine,)))

        def as_before(context: WriterContext) -> None:
            assert context.sealing is not None
            place = owned_at("d", "Patient/p1", "REG")
            text = context.sealing.seal_lasting(b'{"PID-7":["e"]}', place).removeprefix(TEXTUAL)
            context.connection.execute(older, (base64.b64decode(text),))

        await desk.journal.act(as_before)
        assert await desk.remembered(memory.owned, "d", "Patient/p1", "REG") == {"PID-7": ("e",)}


async def test_a_list_that_the_disk_changed_ends_no_settlement(key: None, opened: Opener) -> None:
    """After a merge the survivor inherits what can be read; what cannot is known no more, and the journal goes on."""
    places = ("Patient/1 Encounter", "Patient/1 Condition")
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        await desk.claim()
        owned = tuple(Ownership("d", place, "REG", {"PID-5": ("a",)}) for place in places)
        await desk.journal.settle(settlement(seq, owned=owned))
        damage = "UPDATE owned SET slices = substr(slices, 1, 40) WHERE resource = ?"
        await desk.journal.write(lambda connection: connection.execute(damage, places[:1]) and None)
        seq = await desk.record("2", ("s|1",))
        await desk.claim()
        await desk.journal.settle(settlement(seq, inherited=(("Patient/1", "Patient/2"),)))
        assert await desk.remembered(memory.owned, "d", "Patient/2 Condition", "REG") == {"PID-5": ("a",)}
        assert await desk.remembered(memory.owned, "d", "Patient/2 Encounter", "REG") == {}
    assert not desk.failures


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        pytest.param("", 0o600, "is no key file", id="empty"),
        pytest.param("not base64!", 0o600, "is no key file", id="no base64"),
        pytest.param("c2hvcnQ=", 0o600, "is no key file", id="too short"),
        pytest.param(new_key(), 0o644, "chmod 600", id="open to others"),
    ],
)
def test_a_key_file_that_cannot_be_used_is_told(content: str, mode: int, said: str, tmp_path: Path) -> None:
    """The error names the file and the next step, and nothing of the key."""
    path = tmp_path / "key"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(JournalUnusableError, match=said) as raised:
        read_key(path)
    assert not content or content not in str(raised.value)


def test_a_new_key_is_read_back(tmp_path: Path) -> None:
    """What `journal key` writes is what the engine reads."""
    path = tmp_path / "key"
    path.write_text(new_key() + "\n")
    path.chmod(0o600)
    assert len(read_key(path)) == 32
