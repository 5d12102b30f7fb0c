"""`adt-engine messages`: entries of the journal, listed, shown, replayed; through the running engine where one runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from engine.errors import AdtEngineError, UsageError
from engine.ops import admin
from engine.ops.conformance import check
from engine.ops.options import DATA, Data, Json
from engine.ops.table import NEGATIVE, cell, output, table
from engine.ops.view import listed, shown

app = typer.Typer(help="List, show, check and replay the entries of the journal.", no_args_is_help=True)

app.command()(check)

Entries = Annotated[list[int], typer.Argument(help="Numbers of entries, as `messages list` shows them.", min=1)]
_BAD = {"held", "rejected"}


@app.command(name="list")
def list_(
    state: Annotated[str, typer.Option(help="received, waiting, delivered, filtered, held, rejected …")] = "",
    channel: Annotated[str, typer.Option(help="Of one channel.")] = "",
    event: Annotated[str, typer.Option(help="Of one trigger event, such as A40.")] = "",
    control_id: Annotated[str, typer.Option(help="With this MSH-10.")] = "",
    patient: Annotated[str, typer.Option(help="Naming this identifier: value, or system|value.")] = "",
    visit: Annotated[str, typer.Option(help="Naming this visit number.")] = "",
    since: Annotated[str, typer.Option(help="Received since, such as 2025-07-01T09:30.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 50,
    before: Annotated[int, typer.Option(min=0, help="Only entries with a smaller number: the next page.")] = 0,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """List entries, newest first.

    Example: adt-engine messages list --state held --data /var/lib/adt-engine
    """
    given = {
        "state": state,
        "channel": channel,
        "event": event,
        "control_id": control_id,
        "patient": patient,
        "visit": visit,
        "since": since,
        "limit": limit,
        "before": before,
    }
    rows = _asked_or_read(data, "messages.list", given)
    if as_json:
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        return
    channels = {row["channel"] for row in rows}
    headings = ["Entry #", "Received (UTC)", "Event", "Control ID", "ACK", "State", "Reason"]
    if len(channels) > 1:
        headings.append("Channel")
    output().print(table(headings, (_row(row)[: len(headings)] for row in rows)))
    if len(rows) == limit:
        output().print(f"older ones: --before {rows[-1]['entry']}")


@app.command()
def show(
    entry: Annotated[int, typer.Argument(help="The number of an entry.", min=1)],
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Show one entry in full: message, acknowledgement, where it stands, and every request made for it.

    Example: adt-engine messages show 37 --data /var/lib/adt-engine
    """
    found = _asked_or_read(data, "messages.show", {"entry": entry})
    if as_json:
        typer.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2))
        return
    _print_entry(found)


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


def _asked_or_read(data: Path, act: str, given: Mapping[str, Any]) -> Any:
    """Ask the running engine, or read the file where none runs; the file is never written here."""
    try:
        return admin.ask(data, act, given)
    except ConnectionError:
        return listed(data, given) if act == "messages.list" else shown(data, given)


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


def _row(row: Mapping[str, Any]) -> tuple[object, ...]:
    state = cell(row["state"], NEGATIVE) if row["state"] in _BAD else row["state"]
    flags = [flag for flag in row["flags"] if not flag.startswith(row["reason"] or "-")]
    reason = " ".join([row["reason"], *flags]).strip()
    return (
        row["entry"],
        row["received_at"][5:19].replace("T", " "),
        row["event"],
        row["control_id"],
        row["ack"] or "–",
        state,
        reason,
        row["channel"],
    )


def _print_entry(found: Mapping[str, Any]) -> None:
    console = output()

    def say(text: str, style: str = "") -> None:
        console.print(cell(text, style), soft_wrap=True)

    say(f"Entry {found['entry']}: {found['state']} {found['reason']}".rstrip(), "bold")
    say(f"{found['event']} {found['control_id']} from {found['source']} by {found['peer']} on {found['channel']}")
    say(f"received {found['received_at']}, {found['receipts']} time(s); {' '.join(found['flags'])}".rstrip("; "))
    if not found["sound"]:
        say("The bytes no longer have the digest they came with: the file is damaged.", NEGATIVE)
    say("")
    say("Message", "bold")
    for segment in found["message"].replace("\n", "\r").split("\r"):
        if segment:
            say(f"  {segment}")
    say("")
    say(f"Acknowledgement {found['ack'] or 'none'} ({found['ack_outcome']})", "bold")
    for delivery in found["deliveries"]:
        _print_delivery(delivery, say)


def _print_delivery(delivery: Mapping[str, Any], say: Any) -> None:
    say("")
    say(f"{delivery['destination']}: {delivery['state']} {delivery['reason']}".rstrip(), "bold")
    if delivery["waits_for"]:
        say(f"  waits for entry {delivery['waits_for']}")
    if delivery["due_at"] and delivery["state"] == "received":
        say(f"  tried {delivery['tries']} time(s), next {delivery['due_at']}")
    for note in delivery["notes"]:
        say(f"  {note}")
    for attempt in delivery["attempts"]:
        status = attempt["status"] or "no answer"
        codes = " ".join(attempt["codes"])
        ended = f"{status} {codes} {attempt['failure']}"
        say(f"  {attempt['number']}. {attempt['method']} {attempt['url']}  {ended}".rstrip())
