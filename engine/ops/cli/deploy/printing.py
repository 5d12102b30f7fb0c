"""`adt-engine deploy`: prints a systemd unit, a file to build a container from, several nodes of it, a dashboard."""

import shutil
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from engine import __version__
from engine.config.settings import DATA_VARIABLE
from engine.errors import UsageError
from engine.ops.cli.deploy import nodes
from engine.ops.cli.deploy.grafana import grafana
from engine.terminal.table import errors

app = typer.Typer(
    help="Print files that run the engine as a service: a systemd unit, a container, several nodes, a dashboard.",
    no_args_is_help=True,
)
app.command()(nodes.compose)
app.command()(nodes.kubernetes)
app.command()(grafana)

HERE: Final = Path(__file__).parent
STATE: Final = Path("/var/lib")
UNSEEN: Final = ("/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/")  # noqa: S108 - none of them is written


@app.command()
def unit(
    user: Annotated[str, typer.Option(help="The user to run it as; use a dedicated one.")] = "adt-engine",
    channels: Annotated[Path, typer.Option(help="The folder of channel files.")] = Path("/etc/adt-engine/channels"),
    data: Annotated[
        Path, typer.Option(envvar=DATA_VARIABLE, help="The data folder, on a local ext4 or xfs disk.")
    ] = STATE / "adt-engine",
    mappings: Annotated[
        Path | None, typer.Option(help="A folder of mapping files that add to the shipped ones.")
    ] = None,
    journal: Annotated[
        str, typer.Option(help="The PostgreSQL database of several nodes, as a URL without password; default: SQLite.")
    ] = "",
    node: Annotated[str, typer.Option(help="With --journal: this machine's name among the nodes.")] = "",
) -> None:
    """Print a systemd unit: its own user, nothing writable but the data folder, no privileges, no core dumps.

    Example: adt-engine deploy unit > /etc/systemd/system/adt-engine.service
    """
    command = _command()
    if command.startswith(UNSEEN):
        errors().print(
            f"{command} is where the unit may not look (ProtectHome, PrivateTmp): install adt-engine under /opt",
            soft_wrap=True,
        )
    for path in (channels, data, mappings):
        if path is not None and not path.is_absolute():
            raise UsageError(f"{path} is relative: a service needs absolute paths, such as /etc/adt-engine/channels")
    if journal:
        nodes.user_of(journal)
    several = [f" --{name} {value}" for name, value in (("journal", journal), ("node", node)) if value]
    _print(
        "adt-engine.service",
        user=user,
        command=command,
        channels=channels,
        data=data,
        mappings=f" --mappings {mappings}" if mappings else "",
        several="".join(several).replace("%", "%%"),
        state=data.relative_to(STATE) if data.is_relative_to(STATE) else "adt-engine",
    )


@app.command()
def container() -> None:
    """Print a file to build a container from: two stages, locked packages, no root, read-only.

    Example: adt-engine deploy container > Containerfile
    """
    _print("Containerfile")


def _print(name: str, **values: object) -> None:
    text = (HERE / name).read_text(encoding="utf-8")
    typer.echo(text.format(version=__version__, **values), nl=False)


def _command() -> str:
    """Return the whole path of this command, as systemd looks for none."""
    sibling = Path(sys.executable).with_name("adt-engine")
    found = str(sibling) if sibling.exists() else shutil.which("adt-engine")
    return found or f"{sys.executable} -m engine"
