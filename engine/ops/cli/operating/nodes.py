"""`adt-engine nodes`: the engines that share a journal on PostgreSQL."""

from typing import Annotated

import typer

from engine.errors import UsageError
from engine.journal.moment import from_micros
from engine.journal.nodes.lease import JournalNode, nodes
from engine.journal.opening import address_of
from engine.ops.terminal.address import database_address
from engine.terminal.options import DATA, AsJson, Data
from engine.terminal.table import NEGATIVE, POSITIVE, cell, output, print_json, print_line, remark, table, utc

app = typer.Typer(help="List the nodes of a shared journal.", no_args_is_help=True)
STYLES = {"live": POSITIVE, "expired": NEGATIVE, "stopped": "dim"}


@app.callback()
def _group() -> None:
    pass


@app.command(name="list")
def list_(
    data: Data = DATA,
    journal: Annotated[
        str, typer.Option("--journal", metavar="URL", help="The database, where no data folder names it.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List nodes: which live, how long each lease lasts, what each runs and has under way, and which have ended.

    Reads the database itself, so that it answers where no engine runs on this machine. A node is taken for dead once
    its lease has ended. Nodes with different files decide differently: give all the same ones.

    Example: adt-engine nodes list --data /var/lib/adt-engine
    """
    address = database_address("--journal", journal) if journal else address_of(data)
    if not address:
        raise UsageError(
            f"the journal of {data} is not shared: name its database by --journal postgresql://USER@HOST/NAME"
        )
    found = nodes(address)
    if as_json:
        print_json([{**one._asdict(), "started_at": from_micros(one.started_at).isoformat()} for one in found])
        return
    if not found:
        print_line("no node has ever used this journal")
        return
    titles = ("Node", "State", "Lease", "Under way", "Version", "Files", "Host", "Since (UTC)")
    output().print(table(titles, map(_row, found)))
    running = {one.configuration for one in found if one.state == "live"}
    if len(running) > 1:
        remark("The nodes that live run different files: give all the same channels and mappings.", NEGATIVE)


def _row(one: JournalNode) -> tuple[object, ...]:
    lives = one.state == "live"
    lease = f"{max(one.seconds_left, 0):.0f} s" if lives else ""
    since = utc(from_micros(one.started_at).isoformat())[:16]
    state = "lease ended" if lives and one.seconds_left < 0 else one.state
    style = NEGATIVE if state == "lease ended" else STYLES[one.state]
    return one.name, cell(state, style), lease, one.claimed, one.version, one.configuration[:8], one.host, since
