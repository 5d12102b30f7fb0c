"""`adt-engine nodes list`, and what the doctor says of a journal that nodes share."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from engine.database.postgresql import PostgresqlConnection, connect
from engine.errors import JournalUnusableError, UsageError
from engine.journal.nodes.database import open_writer
from engine.journal.nodes.lease import begin, end
from engine.journal.opening import keep_address
from engine.journal.write.backend import SharedJournal
from engine.ops.cli.examine.check import Check, CheckStatus
from engine.ops.cli.examine.shared_journal import shared_journal
from engine.ops.cli.operating import journal as journal_commands
from engine.ops.cli.operating import nodes
from tests.ops.command import invoked
from tests.postgresql import new_database


@pytest.fixture
def empty(postgres: str) -> Iterator[str]:
    """A database that no engine has used."""
    with new_database(postgres) as address:
        yield address


@pytest.fixture
def address(empty: str) -> str:
    """A journal's database whose nodes are none yet."""
    open_writer(empty, "test").close()
    return empty


@pytest.fixture
def journal(address: str) -> Iterator[PostgresqlConnection]:
    """A connection to the journal."""
    with closing(connect(address)) as connection:
        yield connection


def node(address: str, name: str, configuration: str = "0123456789ab") -> SharedJournal:
    """Return a node that runs from a folder of its own."""
    return SharedJournal(address, name, f"home of {name}", "9.8.7", configuration, lambda *_: None, lambda: None)


def listed(*arguments: str) -> list[list[str]]:
    """Return the words of each line that `nodes list` prints."""
    code, shown = invoked(nodes.app, "list", *arguments)
    assert code == 0
    return [line.split() for line in shown.splitlines() if line.strip()]


def found(address: str) -> dict[str, Check]:
    """Return what the doctor finds, by what it looked at."""
    return {one.what: one for one in shared_journal(address)}


def test_nodes_are_listed_with_how_they_are(address: str, journal: PostgresqlConnection) -> None:
    """One that lives with its lease, one whose lease has ended, and one that was stopped in good order."""
    begin(journal, node(address, "n1"))
    begin(journal, node(address, "n2"))
    stopped = begin(journal, node(address, "n3"))
    assert end(journal, stopped, "stopped")
    journal.execute("UPDATE node SET until = moment() - 3000000 WHERE name = 'n2'")
    by_name = {row[0]: row for row in listed("--journal", address) if row[0] in {"n1", "n2", "n3"}}
    assert by_name["n1"][1] == "live"
    assert 5 <= int(by_name["n1"][2]) <= 10
    assert by_name["n2"][1:3] == ["lease", "ended"]
    assert by_name["n3"][1] == "stopped"
    assert [{"9.8.7", "01234567"} < set(row) for row in by_name.values()] == [True] * 3


def test_the_data_folder_says_which_database(tmp_path: Path, address: str, journal: PostgresqlConnection) -> None:
    """Whoever is on a node's machine names its data folder and nothing else; the same is told as JSON."""
    keep_address(tmp_path, address)
    begin(journal, node(address, "n1"))
    code, shown = invoked(nodes.app, "list", "--data", str(tmp_path), "--json")
    (one,) = orjson.loads(shown)
    assert (code, one["name"], one["state"], one["claimed"]) == (0, "n1", "live", 0)
    assert one["started_at"].endswith("+00:00")


def test_different_files_are_told_by_both(address: str, journal: PostgresqlConnection) -> None:
    """Nodes that decide differently are named by the list and by the doctor; one that has ended does not count."""
    begin(journal, node(address, "n1"))
    other = begin(journal, node(address, "n2", "ffff"))
    assert "different files" in CliRunner().invoke(nodes.app, ["list", "--journal", address]).stderr
    assert (found(address)["nodes"].standing, found(address)["nodes"].found) == (
        CheckStatus.LOOK,
        "2 live, different files",
    )
    assert end(journal, other, "stopped")
    assert "different" not in CliRunner().invoke(nodes.app, ["list", "--journal", address]).output
    assert (found(address)["nodes"].standing, found(address)["nodes"].found) == (
        CheckStatus.GOOD,
        "1 live, the same files",
    )


def test_a_journal_without_nodes_says_so(address: str) -> None:
    """Nothing to list is a sentence."""
    assert listed("--journal", address) == [["no", "node", "has", "ever", "used", "this", "journal"]]


def test_an_empty_database_is_no_fault_for_the_doctor(empty: str) -> None:
    """The first engine makes the tables; the list has none to read and says what is there."""
    assert found(empty)["nodes"].standing is CheckStatus.GOOD
    assert found(empty)["nodes"].found.startswith("none yet")
    with pytest.raises(JournalUnusableError):
        invoked(nodes.app, "list", "--journal", empty)


def test_the_doctor_names_a_database_that_is_away(empty: str) -> None:
    """It is the one line there is, with the next step, and no password in it."""
    away = empty.replace("/d", "/no_such_database_d")
    (one,) = shared_journal(away)
    assert one.standing is CheckStatus.FIX
    assert one.do == "bring the database up, then try again"


def test_the_doctor_refuses_commits_that_are_not_kept(empty: str, journal: PostgresqlConnection) -> None:
    """`synchronous_commit = off` would lose what was acknowledged: it is to be fixed."""
    name = journal.execute("SELECT current_database()").fetchall()[0][0]
    journal.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    (one,) = shared_journal(empty)
    assert one.standing is CheckStatus.FIX
    assert "synchronous_commit" in one.found


def test_a_folder_of_a_file_is_told_what_to_name(tmp_path: Path) -> None:
    """A journal in a file has no nodes; the error says how a database is named."""
    with pytest.raises(UsageError, match="--journal postgresql://"):
        invoked(nodes.app, "list", "--data", str(tmp_path))


def test_a_password_on_the_command_line_is_refused() -> None:
    """Others on the machine could read it; it is not repeated."""
    with pytest.raises(UsageError, match="PGPASSWORD") as refused:
        invoked(nodes.app, "list", "--journal", "postgresql://engine:tell-nobody@db/adt")
    assert "tell-nobody" not in str(refused.value)


def test_what_reads_a_journal_reads_it_where_it_is(tmp_path: Path, address: str) -> None:
    """`journal verify` and `journal stats` of a node's folder ask the database; sizes of files are not told."""
    keep_address(tmp_path, address)
    code, shown = invoked(journal_commands.app, "verify", "--json", "--data", str(tmp_path))
    none = {"attempt": 0, "delivery": 0, "known": 0, "owned": 0}
    assert (code, orjson.loads(shown)) == (0, {"sound": True, "entries": 0, "faults": [], "unchecked": none})
    code, shown = invoked(journal_commands.app, "stats", "--json", "--data", str(tmp_path))
    assert code == 0
    assert orjson.loads(shown)["entries"] == 0
    assert "journal_bytes" not in orjson.loads(shown)


@pytest.mark.parametrize("arguments", [("backup", "--to", "{0}/copy.db"), ("reseal", "--new-key", "{0}/key")])
def test_what_works_on_files_says_what_to_do_instead(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Nothing is made in the folder of a node, whose journal is elsewhere."""
    keep_address(tmp_path, "postgresql://engine@db.example/adt")
    given = [argument.format(tmp_path) for argument in arguments]
    with pytest.raises(UsageError, match=r"is in postgresql://engine@db\.example/adt") as refused:
        invoked(journal_commands.app, *given, "--data", str(tmp_path))
    assert "adt-engine help postgresql" in str(refused.value)
    assert [one.name for one in tmp_path.iterdir()] == ["journal.address"]
