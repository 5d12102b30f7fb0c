"""`adt-engine channels`: what the channel files say, checked without an engine that runs."""

from typing import Any

import orjson
import typer

from engine.config.channel import Channel
from engine.config.channels import load_channels
from engine.ops.options import CHANNELS, Channels, Json
from engine.ops.table import output, table

app = typer.Typer(help="Check and list the channel files.", no_args_is_help=True)


@app.command()
def check(channels: Channels = CHANNELS) -> None:
    """Check every channel file of a folder; every problem is listed, and exit is 2 if there is one.

    Example: adt-engine channels check --channels channels
    """
    found = load_channels(channels)
    output().print(f"{len(found)} channel{'s' if len(found) > 1 else ''} in {channels}: no problems", soft_wrap=True)


@app.command(name="list")
def list_channels(channels: Channels = CHANNELS, as_json: Json = False) -> None:
    """List the channels of a folder: name, door, mapping, destinations.

    Example: adt-engine channels list --json
    """
    rows = [_row(channel) for channel in load_channels(channels)]
    if as_json:
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        return
    headings = ("Channel", "Listens on", "Mode", "Mapping", "Merges", "Destinations")
    output().print(
        table(
            headings,
            (
                (
                    row["channel"],
                    row["listens_on"],
                    row["mode"],
                    row["mapping"],
                    "allowed" if row["allow_merge"] else "refused",
                    ", ".join(row["destinations"]),
                )
                for row in rows
            ),
        )
    )


def _row(channel: Channel) -> dict[str, Any]:
    mllp = channel.listen.mllp
    return {
        "channel": channel.channel,
        "listens_on": f"{mllp.host}:{mllp.port}",
        "tls": mllp.tls is not None,
        "mode": str(channel.mode),
        "mapping": channel.mapping,
        "allow_merge": channel.allow_merge,
        "destinations": [destination.name for destination in channel.destinations],
        "contact": channel.contact,
    }
