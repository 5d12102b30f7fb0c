"""`adt-engine messages`: entries of the journal, listed, shown, replayed; through the running engine where one runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.errors import AdtEngineError, UsageError
from engine.ops import admin
from engine.ops.conformance import check
from engine.ops.explain import explain_entry
from engine.ops.export import export
from engine.ops.listing import list_
from engine.ops.options import DATA, Data
from engine.ops.showing import show
from engine.ops.table import output

app = typer.Typer(
    help="List, show, explain, check, export and replay the entries of the journal.", no_args_is_help=True
)

app.command(name="list")(list_)
app.command()(show)
app.command(name="explain")(explain_entry)
app.command()(export)
app.command()(check)

Entries = Annotated[list[int], typer.Argument(help="Numbers of entries, as `messages list` shows them.", min=1)]


@app.command()
def replay(
    entries: Entries,
    force: Annotated[bool, typer.Option("--force", help="Even where something newer was applied since.")] = False,
    data: Data = DATA,
) -> None:
    """Deliver entries again, in journal order, each in its old place among its patient's messages.

    Needs the running engine. What is already true on the server changes nothing.

    Example: adt-engine messages replay 37 41 --data /var/lib/adt-engine
    """
    _act(data, "messages.replay", sorted(set(entries)), {"force": force}, "replayed")


@app.command()
def release(entries: Entries, data: Data = DATA) -> None:
    """Let held entries be tried again, after their cause was mended.

    Example: adt-engine messages release 37 --data /var/lib/adt-engine
    """
    _act(data, "messages.release", sorted(set(entries)), {}, "released")


@app.command()
def discard(
    entries: Entries,
    reason: Annotated[str, typer.Option(help="Why; kept with the entry.")],
    data: Data = DATA,
) -> None:
    """End unfinished entries for good; what waits behind them goes on.

    Example: adt-engine messages discard 37 --reason "sent by mistake, ticket 4711" --data /var/lib/adt-engine
    """
    _act(data, "messages.discard", sorted(set(entries)), {"reason": reason}, "discarded")


def _act(data: Path, act: str, entries: list[int], given: Mapping[str, Any], done: str) -> None:
    failures = []
    for entry in entries:
        try:
            admin.ask(data, act, {"entry": entry, **given})
        except ConnectionError as error:
            raise AdtEngineError(
                f"no engine runs on {data}, and only a running engine writes its journal: start it with "
                f"`adt-engine run --data {data}`, then try again"
            ) from error
        except UsageError:
            raise
        except AdtEngineError as error:
            failures.append(f"{entry}: {error}")
        else:
            output().print(f"{entry} {done}")
    if failures:
        raise AdtEngineError("\n".join(failures))
