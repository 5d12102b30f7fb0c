"""The command `simulate`: files that can be sent, and a stream over sockets, counted."""

import json
import re
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
import typer

from engine.errors import UnreachableError, UsageError
from engine.ops.cli.sending.simulate import simulate
from engine.ops.sender.feed import read_messages
from engine.simulation.world import simulate as stream
from tests.ops.cli.sending.test_send import ack, engine
from tests.ops.command import invoked

app = typer.Typer()
app.command()(simulate)


run = partial(invoked, app)
SIX = ("--patients", "6", "--seed", "1")


def test_files_are_the_stream(tmp_path: Path) -> None:
    """One message a file, names in order; `send` reads them as they were made."""
    folder = tmp_path / "days"
    code, said = run("--patients", "5", "--events", "40", "--seed", "9", "--out", str(folder))
    made = list(islice(stream(9, 5), 40))
    assert (code, "seed 9: 40 messages" in said) == (0, True)
    assert min(file.name for file in folder.iterdir()) == f"000001-{made[0].trigger.lower()}.hl7"
    assert read_messages([folder]) == tuple(one.raw for one in made)


def test_one_file_holds_all(tmp_path: Path) -> None:
    """A name that ends in .hl7 is one file, which `send` cuts at each MSH."""
    file = tmp_path / "days.hl7"
    assert run("--patients", "5", "--events", "40", "--seed", "1", "--out", str(file))[0] == 0
    assert read_messages([file]) == tuple(one.raw for one in islice(stream(1, 5), 40))


def test_without_a_seed_a_new_one_is_drawn_and_named(tmp_path: Path) -> None:
    """Two runs differ, and what the report names makes the same bytes again."""
    said = [run("--events", "20", "--out", str(tmp_path / name))[1] for name in ("one", "other")]
    seeds = [re.search(r"^seed (\d{6}): 20 messages", text, re.MULTILINE)[1] for text in said]
    assert seeds[0] != seeds[1]
    _, report = run("--events", "20", "--seed", seeds[0], "--out", str(tmp_path / "again"), "--json")
    assert json.loads(report)["seed"] == int(seeds[0])
    assert read_messages([tmp_path / "again"]) == read_messages([tmp_path / "one"])


def test_days_bound_the_stream_too(tmp_path: Path) -> None:
    """Two days are fewer messages than ten, and none is of the third."""
    counts = []
    for days in ("2", "10"):
        _, said = run("--days", days, "--seed", "1", "--out", str(tmp_path / days), "--from", "2027-01-04", "--json")
        counts.append(json.loads(said)["messages"])
    assert 0 < counts[0] < counts[1]
    last = read_messages([tmp_path / "2"])[-1]
    assert last.split(b"|")[6][:8] in {b"20270104", b"20270105", b"20270106"}  # MSH-7


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """A folder that holds something is refused before anything is written."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="name a new folder"):
        run("--out", str(tmp_path))
    with pytest.raises(UsageError, match="name a new file"):
        run("--out", str(tmp_path / "mine.txt"))
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say where"),
        (("--to", "127.0.0.1:1", "--out", "x"), "say where"),
        (("--to", "nowhere"), "HOST:PORT"),
        (("--out", "x", "--from", "tomorrow"), "--from"),
    ],
)
def test_wrong_use_is_named(arguments: tuple[str, ...], said: str) -> None:
    """Neither or both ends, a place that is none, a day that is none."""
    with pytest.raises(UsageError, match=said):
        run(*arguments)


def test_over_sockets_each_family_keeps_its_order() -> None:
    """All messages arrive over several connections; those of one family in the order they were made."""
    with engine() as peer:
        code, said = run(*SIX, "--events", "120", "--connections", "3", "--to", f"127.0.0.1:{peer.port}")
    made = list(islice(stream(1, 6), 120))
    assert code == 0
    assert "120 AA" in said
    assert sorted(peer.blocks) == sorted(one.raw for one in made)
    whose = {one.raw: one.family for one in made}
    for family in range(6):
        assert [raw for raw in peer.blocks if whose[raw] == family] == [one.raw for one in made if one.family == family]


def test_refusals_are_counted_and_end_with_1() -> None:
    """The first refusals are listed with control ID and code, never with a name."""
    with engine(lambda block: [ack(block, "AE" if b"ADT^A04" in block else "AA")]) as peer:
        code, said = run(*SIX, "--events", "60", "--json", "--to", f"127.0.0.1:{peer.port}")
    report = json.loads(said)
    assert code == 1
    assert report["totals"]["AE"] == report["events"]["A04"] == len(report["refused"])
    assert sum(report["totals"].values()) == report["messages"] == 60


def test_nobody_listening_is_said_at_once() -> None:
    """The stream is not begun where no engine listens."""
    with engine() as peer:
        port = peer.port
    with pytest.raises(UnreachableError, match="nothing is listening"):
        run("--to", f"127.0.0.1:{port}", "--events", "5")
