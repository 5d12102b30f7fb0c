"""One entry on the terminal: what an operator reads, and nothing that a terminal would obey."""

from functools import partial
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from engine.errors import UnknownEntryError, UsageError
from engine.http.request import HttpRequest
from engine.journal.entry import FollowUpKind, FollowUpRequest, RequestOutcome, State
from engine.journal.state import follow_ups
from engine.journal.state.follow_ups import FollowUpEnd, FollowUpState
from tests.journal.desk import NOW, Desk, open_desk, settlement
from tests.ops.command import group, invoked

app = group("messages")
HOSTILE = "MSH|^~\\&|REG|RVB|||1||ADT^A08|c1|P|2.5.1\rPID|1||1^^^RVB^MR||<script>^[red]\x1b[31m\u202egnp\r"
OUTCOME = {
    "resourceType": "OperationOutcome",
    "issue": [{"severity": "error", "code": "invalid", "details": {"text": "no"}, "expression": ["Patient.birthDate"]}],
}
PLAN = (
    b'{"interactions": [{"patient": {}}, {"record": {"type": "Location"}}, {"record": {"type": "Location"}},'
    b' {"record": {"type": "Encounter"}}]}'
)


@pytest.fixture
async def desk(tmp_path: Path) -> Desk:
    """A journal with one entry whose delivery was refused, with something hostile in it."""
    async with open_desk(tmp_path) as desk:
        await desk.record("c1", ("s|1",), raw=HOSTILE.encode())
        await desk.record("c2", ("s|1",))
        await desk.claim()
        await desk.journal.intend(1, "d", HttpRequest(1, "PUT", "http://x/Patient/1", (), b'{"id":"1"}', NOW))
        answer = RequestOutcome(1, 422, ("invalid",), "permanent", 12.5, orjson.dumps(OUTCOME))
        end = settlement(
            1,
            State.HELD,
            reason="http-422",
            notes=("stale", "lost Patient.identifier[0]"),
            outcomes=(answer,),
            plan=PLAN,
        )
        await desk.journal.settle(end)
    return desk


def printed(desk: Desk, *options: str) -> str:
    """Return what `messages show 1` prints of the file."""
    done = CliRunner().invoke(app, ["show", "1", "--data", str(desk.folder), *options], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(("codec", "named"), [("latin-1", "8859/1"), ("utf-8", "UTF-8"), ("ascii", "")])
async def test_without_its_channel_a_message_says_how_it_was_read(tmp_path: Path, codec: str, named: str) -> None:
    """No engine runs that knows the channel's character set, and MSH-18 is empty: nothing is lost, and it is said."""
    name = "Muller" if codec == "ascii" else "Müller"
    async with open_desk(tmp_path) as desk:
        await desk.record("c1", ("s|1",), raw=HOSTILE.replace("\u202egnp", name).encode(codec, "replace"))
    told = printed(desk)
    assert name in told
    assert (
        f"MSH-18 is empty, and no engine runs that knows the channel's character set: read as {named}\n" in told
    ) is (bool(named))
    assert ("read as" in told) is bool(named)


async def test_a_transaction_is_told_by_its_requests(tmp_path: Path) -> None:
    """What went in one Bundle is listed, so that nobody has to read the Bundle."""
    asked = [{"request": {"method": "POST", "url": "Location"}}, {"request": {"method": "PUT", "url": "Encounter/1"}}]
    async with open_desk(tmp_path) as desk:
        await desk.record("c1", ("s|1",), raw=HOSTILE.encode())
        await desk.claim()
        body = orjson.dumps({"resourceType": "Bundle", "type": "transaction", "entry": asked})
        await desk.journal.intend(1, "d", HttpRequest(1, "POST", "http://x", (), body, NOW))
        await desk.journal.settle(settlement(1, State.DELIVERED, outcomes=(RequestOutcome(1, 200, (), "", 12.5),)))
    assert "one transaction: POST Location, PUT Encounter/1" in printed(desk)


@pytest.mark.parametrize(("kind", "name"), [(FollowUpKind.LOOKUP, "look-up"), (FollowUpKind.NOTICE, "notice")])
async def test_a_follow_up_is_printed_with_its_delivery(tmp_path: Path, kind: FollowUpKind, name: str) -> None:
    """Of whom, how it stands, after how many requests; and where the server tells how a look-up ended."""
    async with open_desk(tmp_path) as desk:
        await desk.record("c1", ("s|1",), raw=HOSTILE.encode())
        await desk.claim()
        await desk.journal.settle(settlement(1, State.DELIVERED, follow_ups=(FollowUpRequest(kind, "Patient/7"),)))
        first = f"{name} of Patient/7: no answer yet, asked 0 times, next try 2026-03-01T12:00:00.000+00:00"
        assert first in printed(desk)
        again = FollowUpEnd(FollowUpState.WAITING, "x-failed", NOW, ("http-503",), retry_at=NOW)
        await desk.journal.write(partial(follow_ups.settle, destination="d", kind=kind, seq=1, end=again))
        assert "Patient/7: no answer yet x-failed http-503, asked once, next try" in printed(desk)
        end = FollowUpEnd(FollowUpState.ACCEPTED, "", NOW, handle="http://h/RequestResult/1")
        await desk.journal.write(partial(follow_ups.settle, destination="d", kind=kind, seq=1, end=end))
    said = printed(desk)
    assert f"{name} of Patient/7: accepted by the server, asked 2 times, at 2026-03-01T12:00:00.000+00:00" in said
    assert "its end is at http://h/RequestResult/1" in said
    shown = orjson.loads(printed(desk, "--json"))
    assert shown["deliveries"][0][kind]["state"] == "accepted"


async def test_an_entry_is_printed_in_sections(desk: Desk) -> None:
    """State, times, requests with what the server said, plan, and the patient's messages around it."""
    said = printed(desk)
    for text in (
        "Entry 1: held http-422",
        "1. PUT http://x/Patient/1  422 invalid (refused for good) 12.5 ms  at 12:00:00.000",
        "  the merge leaves out a number (Patient.identifier[0]) of the merged record",
        'sent {"id":"1"}',
        "error invalid no",
        "Patient.birthDate",
        "planned Patient, Location (2), Encounter (--json shows the plan)",
        "The same patient's entries around it",
    ):
        assert text in said


@pytest.mark.parametrize("options", [(), ("--fields",)])
async def test_what_a_message_holds_is_inert(desk: Desk, options: tuple[str, ...]) -> None:
    """No control character reaches the terminal, no right-to-left mark, and markup stays text."""
    said = printed(desk, *options)
    assert "<script>" in said
    assert "[red]" in said
    assert not {"\x1b", "\u202e"} & set(said)


RAW = b"\x00MSH|^~\\&|REG|RVB|||1||ADT^A08|c1|P|2.5.1\r\nPID|1||1^^^RVB^MR||Qu\xefn\x1b[31mtero\x00\n\n\r"


async def test_the_exact_bytes_are_written_and_nothing_else(tmp_path: Path) -> None:
    """Whatever they are: no line end, no character and no escape is changed."""
    async with open_desk(tmp_path) as desk:
        await desk.record("c1", ("s|1",), raw=RAW)
    done = CliRunner().invoke(app, ["show", "1", "--raw", "--data", str(tmp_path)])
    assert (done.exit_code, done.stdout_bytes) == (0, RAW)
    with pytest.raises(UsageError, match="--raw writes bytes"):
        invoked(app, "show", "1", "--raw", "--json", "--data", str(tmp_path))
    with pytest.raises(UnknownEntryError, match="there is no entry 9"):
        invoked(app, "show", "9", "--raw", "--data", str(tmp_path))
