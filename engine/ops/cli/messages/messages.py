"""`adt-engine messages`: entries of the journal, listed, shown, replayed; through the running engine where one runs."""

from collections.abc import Sequence

import typer

from engine.ops.cli.mapping.explain import explain_entry
from engine.ops.cli.messages.conformance import check
from engine.ops.cli.messages.edits import edit, resolve, retry
from engine.ops.cli.messages.export import export
from engine.ops.cli.messages.listing import list_
from engine.ops.cli.messages.replays import ask_each, replay, replays
from engine.ops.cli.messages.showing import show
from engine.ops.operations.entries import DiscardMessage, ReleaseMessage
from engine.ops.terminal.command import takes_entries
from engine.terminal.options import DATA, Data, Json

app = typer.Typer(
    help="List, show, explain, check, export and replay the entries of the journal.", no_args_is_help=True
)

app.command(name="list")(list_)
app.command()(show)
app.command(name="explain")(explain_entry)
app.command()(export)
app.command()(check)
app.command()(replay)
app.command()(replays)
app.command()(edit)
app.command()(retry)
app.command()(resolve)


@app.command()
@takes_entries(ReleaseMessage)
def release(requests: Sequence[ReleaseMessage], data: Data = DATA, as_json: Json = False) -> None:
    """Release held entries once the cause is fixed; they are retried. `lanes release` does it in bulk.

    Example: adt-engine messages release 37 --data /var/lib/adt-engine
    """
    ask_each(data, requests, "released", as_json=as_json)


@app.command()
@takes_entries(DiscardMessage, reason=typer.Option(..., help="The reason; stored with the entry."))
def discard(requests: Sequence[DiscardMessage], data: Data = DATA, as_json: Json = False) -> None:
    """Discard unfinished entries permanently; what is waiting behind them continues.

    Example: adt-engine messages discard 37 --reason "sent by mistake, ticket 4711" --data /var/lib/adt-engine
    """
    ask_each(data, requests, "discarded", as_json=as_json)
