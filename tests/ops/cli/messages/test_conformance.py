"""The command `messages check`: files and entries of the journal, by place, without values."""

import json
from functools import partial
from pathlib import Path

import pytest
import typer

from engine.errors import UnknownEntryError, UsageError
from engine.ops.cli.messages.conformance import check
from engine.ops.sender.line import send_messages
from tests.flow.rig import running
from tests.ops.command import invoked

GOOD = (
    b"MSH|^~\\&|REG|RVB|ENG|HUB|20260302061604||ADT^A04^ADT_A01|C1|P|2.5.1\rEVN||20260302061604\r"
    b"PID|1||RB1^^^RVB^MR||Quillfeather^Marisol||19840229|F\rPV1|1|O\r"
)
BAD = GOOD.replace(b"RVB^MR", b"RVB^MR~RB2^^^RVB^SECRET").replace(b"|F\r", b"|SECRET\r").replace(b"|C1|", b"|C2|")

app = typer.Typer()
app.command()(check)


run = partial(invoked, app)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a good message, a bad one, and a batch of both and of what cannot be read."""
    made = tmp_path / "feed"
    made.mkdir()
    (made / "1.hl7").write_bytes(GOOD)
    (made / "2.hl7").write_bytes(BAD)
    (made / "3.hl7").write_bytes(b"BHS|^~\\&|REG\r" + GOOD + BAD.replace(b"Marisol", b"\xff") + b"BTS|2\r")
    return made


def test_findings_stand_under_their_message(folder: Path) -> None:
    """Place, the standard's name, what is expected; never what stands there."""
    code, said = run(str(folder))
    assert code == 0
    assert "2.hl7: ADT^A04 C2 (2.5.1): 1 errors, 1 warnings" in said.replace("\n", "")
    assert "PID-3(2).5" in said
    assert "SECRET" not in said
    assert "3.hl7 message 2: ADT^A04 C2 (2.5.1): The message holds bytes" in said.replace("\n", "")
    assert "4 messages: 2 break a rule, 0 have warnings, 2 neither" in said


def test_json_holds_the_same(folder: Path) -> None:
    """Each message with its findings; severity and table 0357 code beside each."""
    rows = json.loads(run(str(folder), "--json")[1])
    assert [(row["control_id"], row["errors"], bool(row["unreadable"])) for row in rows] == [
        ("C1", 0, False),
        ("C2", 1, False),
        ("C1", 0, False),
        ("C2", 0, True),
    ]
    assert {(one["place"], one["rule"], one["severity"], one["code"]) for one in rows[1]["findings"]} == {
        ("PID-3(2).5", "table-value", "E", 103),
        ("PID-8", "table-value", "W", 103),
    }
    rows = json.loads(run(str(folder), "--json", "--errors-only")[1])
    assert [one["place"] for one in rows[1]["findings"]] == ["PID-3(2).5"]


def test_strict_ends_with_1_where_a_rule_is_broken(folder: Path) -> None:
    """A report ends well whatever it finds, unless asked."""
    assert run(str(folder / "1.hl7"), "--strict")[0] == 0
    assert run(str(folder / "2.hl7"))[0] == 0
    assert run(str(folder / "2.hl7"), "--strict")[0] == 1
    assert run(str(folder / "3.hl7"), "--strict")[0] == 1


def test_the_defaults_of_a_channel_can_be_given(tmp_path: Path) -> None:
    """Version and character set where the message names none."""
    file = tmp_path / "old.hl7"
    file.write_bytes(GOOD.replace(b"|P|2.5.1", b"|P|").replace(b"Marisol", b"Zo\xeb"))
    (row,) = json.loads(run(str(file), "--json", "--version", "2.3", "--charset", "8859/1")[1])
    assert (row["version"], row["unreadable"]) == ("2.3", "")
    assert {one["place"] for one in row["findings"]} == {"MSH-9", "MSH-12", "EVN-1"}


def test_it_must_be_said_what_to_check() -> None:
    """Neither files nor entries is wrong use."""
    with pytest.raises(UsageError, match="--id"):
        run()


async def test_entries_of_the_journal_are_checked(tmp_path: Path) -> None:
    """`--id` reads the bytes that came, beside the running engine; each as the event that its channel read."""
    async with running(tmp_path, event_from_evn=True) as rig:
        await rig.engine.start()
        host, port = await rig.address()
        alone = GOOD.replace(b"ADT^A04^ADT_A01", b"ADT").replace(b"EVN||", b"EVN|A04|")
        await send_messages(host, port, [GOOD, BAD, alone])
        data = str(tmp_path / "data")
        (row,) = json.loads(run("--id", "2", "--data", data, "--json")[1])
        assert (row["source"], row["errors"]) == ("entry 2", 1)
        (row,) = json.loads(run("--id", "3", "--data", data, "--json")[1])
        assert row["event"] == "ADT^A04"
        with pytest.raises(UnknownEntryError):
            run("--id", "9", "--data", data)
