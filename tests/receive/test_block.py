"""Blocks out of streams: the same for every chunking, whatever the stream holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.receive.block import MAX_TORN, Block, BlockKind, BlockReader, EventKind, StreamEvent, Unframed, enclose

LIMIT = 40

COMPLETE, TORN, OVERSIZE = BlockKind.COMPLETE, BlockKind.TORN, BlockKind.OVERSIZE
WITHIN = BlockKind.END_WITHIN
PROBE, STRAY, BARE = EventKind.PROBE, EventKind.STRAY, EventKind.BARE_END


def read(*chunks: bytes, limit: int = LIMIT) -> list[tuple[object, object]]:
    """Return kind and content of everything that a stream yields."""
    reader = BlockReader(limit, 30)
    found = [item for chunk in chunks for item in reader.feed(chunk, 0.0)] + reader.close()
    return [(item.kind, item.raw if isinstance(item, Block) else item.size_bytes) for item in found]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"\x0bA\x1c\r", [(COMPLETE, b"A")], id="one"),
        pytest.param(b"\x0bA\x1c\r\x0bB\x1c\r", [(COMPLETE, b"A"), (COMPLETE, b"B")], id="two"),
        pytest.param(b"\x0b\x1c\r", [(PROBE, 0)], id="empty-block"),
        pytest.param(b"\x0b\r\n \x1c\r\x0b \x0bA\x1c\r", [(PROBE, 0), (PROBE, 0), (COMPLETE, b"A")], id="blanks"),
        pytest.param(b"\x0b\x0b\x1c\r", [(PROBE, 0), (PROBE, 0)], id="empty-torn"),
        pytest.param(b"xy\x0bA\x1c\r\n\n", [(STRAY, 2), (COMPLETE, b"A"), (STRAY, 2)], id="stray"),
        pytest.param(b"\x0bA\x0bB\x1c\r", [(TORN, b"A"), (COMPLETE, b"B")], id="restart"),
        pytest.param(b"\x0bA\x1c\x0bB\x1c\r", [(BARE, 0), (COMPLETE, b"A"), (COMPLETE, b"B")], id="bare-end"),
        pytest.param(b"\x0bA\x1cB", [(EventKind.CUT_OFF, 3)], id="end-byte-within-a-block-that-is-cut-off"),
        pytest.param(b"\x0bA\x1cB\x1c\r", [(WITHIN, b"A\x1cB")], id="end-byte-within"),
        pytest.param(
            b"\x0bA\x1c B\x1cC\x1c\x0bD\x1c\r",
            [(BARE, 0), (WITHIN, b"A\x1c B\x1cC"), (COMPLETE, b"D")],
            id="end-bytes-within-and-a-bare-end",
        ),
        pytest.param(b"\x0b\x1cA\x1c\r\x0bB\x1c\r", [(WITHIN, b"\x1cA"), (COMPLETE, b"B")], id="end-byte-first"),
        pytest.param(b"\x0bA\x1cB\x0bC\x1c\r", [(TORN, b"A\x1cB"), (COMPLETE, b"C")], id="end-byte-within-a-torn-one"),
        pytest.param(
            b"\x0bA\x1c\n\x0bB\x1c\n", [(BARE, 0), (COMPLETE, b"A"), (BARE, 0), (COMPLETE, b"B")], id="line-feed"
        ),
        pytest.param(b"\x0bA\x1c\x1c\r", [(COMPLETE, b"A")], id="two-ends"),
        pytest.param(b"\x0bA\x1c", [(EventKind.CUT_OFF, 1)], id="cut-off-before-CR"),
        pytest.param(b"\x0bABC", [(EventKind.CUT_OFF, 3)], id="cut-off"),
        pytest.param(b"", [], id="nothing"),
        pytest.param(enclose(b"A" * LIMIT), [(COMPLETE, b"A" * LIMIT)], id="at-the-limit"),
        pytest.param(enclose(b"A" * (LIMIT + 1)) + enclose(b"B"), [(OVERSIZE, b"A" * LIMIT)], id="over-the-limit"),
        pytest.param(b"z" * (LIMIT + 1) + enclose(b"B"), [(EventKind.NOISE, LIMIT)], id="noise"),
        pytest.param(b"\x0bA\rB\r\x1c\r", [(COMPLETE, b"A\rB\r")], id="CR-inside"),
    ],
)
def test_streams(stream: bytes, expected: list[tuple[object, object]]) -> None:
    """Each stream yields what the page of the protocol says, whole or byte by byte."""
    assert read(stream) == expected
    assert read(*[stream[i : i + 1] for i in range(len(stream))]) == expected


MARKS = st.sampled_from([b"\x0b", b"\x1c", b"\r", b"\x1c\r", b"\x0bMSH|", b"\n", b"A" * 15, b"\x0bX\x1c\r"])


@given(st.lists(st.one_of(MARKS, st.binary(max_size=12)), max_size=30).map(b"".join), st.data())
def test_chunking_changes_nothing(stream: bytes, data: st.DataObject) -> None:
    """However the stream is cut, the same blocks and events come out in the same order."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    chunks = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*chunks) == read(stream)


CONTENT = st.binary(min_size=1, max_size=20).filter(lambda raw: not {0x0B, 0x1C} & set(raw) and not raw.isspace())


@given(st.lists(CONTENT, max_size=8))
def test_whole_blocks_come_out_as_they_went_in(contents: list[bytes]) -> None:
    """Blocks that keep the protocol come out byte for byte, and nothing else does."""
    assert read(b"".join(map(enclose, contents))) == [(COMPLETE, raw) for raw in contents]


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_nothing_is_glued(first: bytes, second: bytes) -> None:
    """No block ever holds a start byte, so two messages are never glued into one; no whole one holds an end."""
    for kind, content in read(enclose(first) + enclose(second)):
        if isinstance(kind, BlockKind):
            assert 0x0B not in bytes(content)  # type: ignore[call-overload]
            assert kind is WITHIN or kind is TORN or 0x1C not in bytes(content)  # type: ignore[call-overload]


@given(st.lists(st.binary(max_size=20).filter(lambda raw: 0x0B not in raw), min_size=1, max_size=5), st.data())
def test_every_byte_of_a_block_is_in_it(contents: list[bytes], data: st.DataObject) -> None:
    """Whatever stands between a start byte and the next, nothing of a block that is answered is dropped unseen."""
    stream = b"".join(map(enclose, contents))
    found = read(*(stream[at : at + 3] for at in range(0, len(stream), 3)), limit=1000)
    blocks = [bytes(raw) for kind, raw in found if isinstance(kind, BlockKind)]  # type: ignore[call-overload]
    strays = sum(size for kind, size in found if kind is STRAY)  # type: ignore[misc]
    # Beside the content only ends are left: those of the blocks, and what a stray end was followed by.
    assert sum(map(len, blocks)) + strays <= len(stream)
    for raw in contents:
        whole = raw.rstrip(b"\x1c")
        # A block of blanks and line ends alone is a probe.
        if whole.strip() and b"\x1c\r" not in raw and b"\x1c\n" not in raw:
            assert whole in blocks


def test_torn_blocks_have_an_end() -> None:
    """A stream of nothing but torn blocks is given up; one whole block among them starts the count again."""
    found = read(b"\x0bA" * 1000)
    assert found == [(TORN, b"A")] * MAX_TORN + [(EventKind.NOISE, 1)]
    mixed = read((b"\x0bA" * (MAX_TORN - 1) + enclose(b"B")) * 3)
    assert mixed == ([(TORN, b"A")] * (MAX_TORN - 1) + [(COMPLETE, b"B")]) * 3


def test_oversize_stops_buffering() -> None:
    """Past the limit nothing more is kept, however much comes."""
    reader = BlockReader(LIMIT, 30)
    found = [item for _ in range(1000) for item in reader.feed(b"\x0b" + b"A" * 1000, 0.0)]
    assert [type(item) for item in found] == [Block]
    assert reader.dead
    assert reader.feed(enclose(b"B"), 0.0) == []


def test_a_block_has_its_time() -> None:
    """The deadline runs from the first byte of a block, and there is none between blocks."""
    reader = BlockReader(LIMIT, 30)
    assert reader.deadline is None
    reader.feed(b"\x0bA", 100.0)
    reader.feed(b"B", 120.0)
    assert reader.deadline == 130.0
    assert reader.expire(129.9) == []
    assert reader.expire(130.0) == [StreamEvent(EventKind.LATE, 2)]
    assert reader.dead


def test_silence_ends_a_block_that_lacks_its_last_byte() -> None:
    """A block that ended without CR, and after which nothing comes for a second, is complete."""
    reader = BlockReader(LIMIT, 30)
    reader.feed(b"\x0bA", 0.0)
    reader.feed(b"\x1c", 5.0)
    assert reader.deadline == 6.0
    assert reader.expire(5.9) == []
    assert reader.expire(6.0) == [StreamEvent(EventKind.BARE_END), Block(b"A", COMPLETE, 0.0, 6.0)]
    assert reader.feed(b"\r" + enclose(b"B"), 31.0) == [StreamEvent(STRAY, 1), Block(b"B", COMPLETE, 31.0, 31.0)]


def test_an_end_byte_within_a_block_is_no_end_while_bytes_come() -> None:
    """What follows within the second shows that it was none; each byte gives the block another second."""
    reader = BlockReader(LIMIT, 30)
    reader.feed(b"\x0bA\x1c", 0.0)
    reader.feed(b"B", 0.5)
    assert reader.deadline == 1.5
    assert reader.feed(b"C", 1.4) == []
    assert reader.expire(2.3) == []
    reader.feed(b"\x1c", 2.3)
    assert reader.expire(3.3) == [StreamEvent(EventKind.BARE_END), Block(b"A\x1cBC", WITHIN, 0.0, 3.3)]


@pytest.mark.parametrize("rest", [b"B", b"\x00\r\x00", b" ", b"B\x1cC"])
def test_silence_ends_a_block_with_an_end_byte_within(rest: bytes) -> None:
    """A sender that waits for its answer is refused after a second, whatever it takes for an end."""
    reader = BlockReader(LIMIT, 30)
    assert reader.feed(b"\x0bA\x1c" + rest, 5.0) == []
    assert reader.deadline == 6.0
    assert reader.expire(5.9) == []
    assert reader.expire(6.0) == [Block(b"A\x1c" + rest, WITHIN, 5.0, 6.0)]
    assert not reader.dead
    assert reader.feed(enclose(b"B"), 7.0) == [Block(b"B", COMPLETE, 7.0, 7.0)]


def test_the_time_of_a_block_with_an_end_byte_within_is_bounded() -> None:
    """Bytes that trickle in do not put off the end of its own time."""
    reader = BlockReader(LIMIT, 30)
    reader.feed(b"\x0bA\x1cB", 0.0)
    reader.feed(b"C", 29.8)
    assert reader.deadline == 30.0
    assert reader.expire(30.0) == [Block(b"A\x1cBC", WITHIN, 0.0, 30.0)]


def test_the_end_of_the_stream_ends_a_block_with_an_end_byte_within() -> None:
    """What was sent is kept and refused, not dropped with the connection."""
    reader = BlockReader(LIMIT, 30)
    reader.feed(b"\x0bA\x1cB", 0.0)
    assert reader.end(1.0) == [Block(b"A\x1cB", WITHIN, 0.0, 1.0)]
    assert reader.close() == []


def test_the_end_of_the_stream_ends_a_block_that_lacks_its_last_byte() -> None:
    """A sender that closes its side after the end byte has sent the whole block; one that stops before it has not."""
    reader = BlockReader(LIMIT, 30)
    reader.feed(b"\x0bA\x1c", 0.0)
    assert reader.end(1.0) == [StreamEvent(EventKind.BARE_END), Block(b"A", COMPLETE, 0.0, 1.0)]
    reader.feed(b"\x0bA", 2.0)
    assert reader.end(3.0) == []
    assert reader.close() == [StreamEvent(EventKind.CUT_OFF, 1)]


@pytest.mark.parametrize(
    ("stream", "looks_like"),
    [
        (b"", None),
        (b"\r\n\x00\x1c \n", None),
        (b"\r\nMSH|^~\\&|A", Unframed.HL7),
        (b"\x02MSH|^~\\&|A\x03", Unframed.STX),
        (b"GET / HTTP/1.1\r\n", Unframed.HTTP),
        (b"\x16\x03\x01\x02\x00", Unframed.TLS),
        (b"hello", Unframed.TEXT),
        (b"\xff\xfeM\x00", Unframed.BINARY),
        (b"?" + enclose(b"A"), None),
        (enclose(b"A") + b"BHS|", Unframed.HL7),
    ],
)
def test_what_bytes_without_a_frame_look_like(stream: bytes, looks_like: Unframed | None) -> None:
    """Their kind is told by the first of them, the same for every chunking; line ends and padding are nothing."""
    for size in (1, 2, 3, 100):
        reader = BlockReader(LIMIT, 30)
        for at in range(0, len(stream), size):
            reader.feed(stream[at : at + size], 0.0)
        assert reader.unframed is looks_like


def test_seconds_in_which_nobody_read_do_not_count() -> None:
    """A deadline moves by the time for which reading was stopped."""
    reader = BlockReader(LIMIT, 30)
    reader.feed(b"\x0bA", 0.0)
    reader.postpone(15)
    assert reader.deadline == 45.0
