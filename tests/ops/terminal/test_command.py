from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from engine.errors import MalformedRequestError, UnreachableError, UsageError
from engine.ops.operations.alerts import AlertView, ListAlerts
from engine.ops.operations.entries import ReleaseMessage
from engine.ops.operations.filters import SearchFilter
from engine.ops.operations.messages import SearchMessages
from engine.ops.operations.table import ALL
from engine.ops.terminal.command import ask, asks, takes, takes_entries


def run(command: object, *arguments: object, error: type[Exception] | None = None) -> str:
    """Run one command and return what it printed, or what it failed with."""
    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if error is None:
        assert done.exception is None, done.output
        return done.output
    assert isinstance(done.exception, error), done.output
    return str(done.exception)


@takes(SearchFilter, reason="--why", text=None)
def search(request: SearchFilter, loud: bool = False) -> None:
    """Search."""
    typer.echo(f"{request.given()} {loud}")


def test_an_option_is_a_field() -> None:
    """What is typed is read as the field is read on every surface; what is not typed is not asked for."""
    assert run(search, "--state", "held", "--control-id", " 7 ", "--loud") == (
        "{'state': 'held', 'control_id': '7'} True\n"
    )
    assert run(search, "--since", "2025-07-01T09:30+02:00") == "{'since': '2025-07-01T07:30:00Z'} False\n"
    assert run(search, "--why", "http-422") == "{'reason': 'http-422'} False\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["--since", "noon"], "--since is not a time", id="a time"),
        pytest.param(["--until", "noon"], "--until is not a time", id="another time"),
        pytest.param(["--state", "gone"], "--state gone is none of", id="a state"),
    ],
)
def test_a_wrong_value_names_its_option(arguments: list[str], text: str) -> None:
    """Before anything is asked of an engine."""
    assert text in run(search, *arguments, error=UsageError)


def test_a_field_may_be_left_out_or_called_otherwise() -> None:
    """Its help stands on the field."""
    shown = run(search, "--help")
    assert "Only of this trigger event, such as A40." in " ".join(shown.split())
    assert "--why" in shown
    assert "--reason" not in shown
    assert "--text" not in shown


@takes_entries(ReleaseMessage)
def release(requests: Sequence[ReleaseMessage]) -> None:
    """Release."""
    typer.echo([request.given() for request in requests])


def test_several_entries_are_a_request_each() -> None:
    """In their order, each once."""
    assert run(release, 41, 37, 41, "--force") == ("[{'entry': 37, 'force': True}, {'entry': 41, 'force': True}]\n")
    assert "name an entry by its number" in run(release, "7.5", error=UsageError)


@asks(ListAlerts)
def alerts(rows: list[AlertView]) -> None:
    """List."""
    typer.echo(len(rows))


def test_without_an_engine_one_line_says_how_to_start_it(tmp_path: Path) -> None:
    """Bounds are told before that."""
    assert f"adt-engine run --data {tmp_path}" in run(alerts, "--data", tmp_path, error=UnreachableError)
    with pytest.raises(UnreachableError, match="no engine runs"):
        ask(tmp_path, ListAlerts())
    app = typer.Typer()
    app.command()(alerts)
    done = CliRunner().invoke(app, ["--limit", "1001"])
    assert done.exit_code == 2
    assert "--limit" in done.output


@pytest.mark.parametrize("operation", ALL, ids=lambda one: one.name)
def test_what_was_named_is_read_again(operation: type[SearchMessages]) -> None:
    """What the terminal sends of a request is what the engine takes; no more is."""
    named = {
        "entry": 1,
        "entries": [1],
        "run": 1,
        "alert": 1,
        "name": "ann",
        "role": "operator",
        "decision": "same",
        "publication": 1,
        "shared": 1,
        "since": "2025-07-01T00:00:00Z",
    }
    given = {name: value for name, value in named.items() if name in operation.names()}
    assert operation.parse(given).given() == given
    with pytest.raises(MalformedRequestError):
        operation.parse({**given, "nothing_such": 1})
