"""`adt-engine messages`: entries of the journal, listed, shown, replayed; through the running engine where one runs."""

from typing import Annotated

import typer

from engine.ops.cli.mapping.explain import explain_entry
from engine.ops.cli.messages.conformance import check
from engine.ops.cli.messages.edits import edit, resolve, retry
from engine.ops.cli.messages.export import export
from engine.ops.cli.messages.listing import list_
from engine.ops.cli.messages.replays import act_on, replay, replays
from engine.ops.cli.messages.showing import show
from engine.ops.operations.entries import DiscardMessage, ReleaseMessage
from engine.ops.terminal.options import DATA, Data, Entries

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
def release(
    entries: Entries,
    reason: Annotated[str, typer.Option(help="The reason; recorded in the audit trail.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Even if something newer has been applied since.")] = False,
    data: Data = DATA,
) -> None:
    """Release held entries once the cause is fixed; they are retried. `lanes release` does it in bulk.

    Example: adt-engine messages release 37 --data /var/lib/adt-engine
    """
    act_on(data, ReleaseMessage, entries, "released", force=force, reason=reason)


@app.command()
def discard(
    entries: Entries,
    reason: Annotated[str, typer.Option(help="The reason; stored with the entry.")],
    data: Data = DATA,
) -> None:
    """Discard unfinished entries permanently; what is waiting behind them continues.

    Example: adt-engine messages discard 37 --reason "sent by mistake, ticket 4711" --data /var/lib/adt-engine
    """
    act_on(data, DiscardMessage, entries, "discarded", reason=reason)
