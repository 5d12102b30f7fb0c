"""`adt-engine deploy compose` and `kubernetes`: several nodes behind one address, as files to be read and kept."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import parse_qs

import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from engine import __version__
from engine.config.channels import load_channels
from engine.errors import UsageError
from engine.ops.cli.deploy.site import block, channel_config, doubts, mapping_config, mark, ports
from engine.terminal.options import CHANNELS, Channels, Mappings
from engine.terminal.table import errors

HERE: Final = Path(__file__).parent
OWN_DATABASE: Final = "postgresql://engine@postgres/adt"
PAGES_PORT: Final = 8081
# What a stop takes at most, as in the systemd unit; and how long a load balancer may still send connections before it.
GRACE_SECONDS: Final = 30
SETTLE_SECONDS: Final = 10
LABEL: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?")
IMAGE: Final = re.compile(r"[a-zA-Z0-9][\w./:@-]*")
# Without a password: what is printed here is kept in repositories.
JOURNAL: Final = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^:@/?#\s]+)@)?[^@/?#\s]+/[^/?#\s]+(?:\?(?P<query>(?!.*password=)[^#\s]*))?"
)

Name = Annotated[str, typer.Option(help="What the deployment is called, and each part of it after that.")]
Image = Annotated[
    str, typer.Option(help="The engine's image; default: adt-engine of this version.", show_default=False)
]
Replicas = Annotated[int, typer.Option(min=1, max=32, help="How many nodes.")]


def compose(
    channels: Channels = CHANNELS,
    mappings: Mappings = None,
    journal: Annotated[
        str,
        typer.Option(help="PostgreSQL that runs elsewhere, as a URL without password; default: one next to the nodes."),
    ] = "",
    replicas: Replicas = 3,
    image: Image = "",
    name: Name = "adt-engine",
) -> None:
    """Print a Compose file: nodes with the same channels behind a TCP load balancer, and PostgreSQL with them.

    The channel files are read for the ports that they listen on; their folder is mounted, so a later change needs only
    `channels reload` on each node. All on one machine: it outlives a node, not the machine.

    Example: adt-engine deploy compose --channels channels > compose.yaml
    """
    found = load_channels(channels)
    _warn(doubts(found, one_address=True))
    if journal:
        user_of(journal)
    _check(name, image)
    _print(
        "compose.yaml.jinja",
        name=name,
        image=_escaped(image or f"adt-engine:{__version__}"),
        nodes=[f"node-{number}" for number in range(1, replicas + 1)],
        ports=ports(found, PAGES_PORT),
        journal=_escaped(journal or OWN_DATABASE),
        beside=not journal,
        channels=_escaped(_beside(channels)),
        mappings=_escaped(_beside(mappings)) if mappings else "",
    )


def kubernetes(
    journal: Annotated[
        str,
        typer.Option(help="The PostgreSQL database, as a URL without password: postgresql://engine@db.example/adt."),
    ],
    channels: Channels = CHANNELS,
    mappings: Mappings = None,
    replicas: Replicas = 3,
    image: Image = "",
    name: Name = "adt-engine",
    namespace: Annotated[str, typer.Option(help="The namespace of all objects; default: kubectl's own.")] = "",
) -> None:
    """Print Kubernetes objects: nodes as a StatefulSet, Services for senders and for the pages, a disruption budget.

    Channel and mapping files go into ConfigMaps; print and apply again after a change of them, and the nodes restart
    one after another. Passwords and keys come from a Secret, which the first lines show how to make.

    Example: adt-engine deploy kubernetes --journal postgresql://engine@db.example/adt > adt-engine.yaml
    """
    found = load_channels(channels)
    _warn(doubts(found, one_address=False))
    user = user_of(journal)
    _check(name, image, namespace)
    files, mapped = channel_config(channels), mapping_config(mappings)
    _print(
        "kubernetes.yaml.jinja",
        name=name,
        namespace=namespace,
        image=image or f"adt-engine:{__version__}",
        replicas=replicas,
        ports=ports(found, PAGES_PORT),
        journal=journal,
        user=user,
        channels=files,
        mappings=mapped,
        mark=mark([*files, *mapped]),
        settle=SETTLE_SECONDS,
    )


def _print(template: str, **values: object) -> None:
    environment = Environment(  # noqa: S701 - it writes YAML, and quotes what it is given
        loader=FileSystemLoader(HERE),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"quoted": json.dumps, "block": block}
    text = environment.get_template(template).render(
        version=__version__, pages=PAGES_PORT, grace=GRACE_SECONDS, **values
    )
    typer.echo(text, nl=False)


def user_of(journal: str) -> str:
    """Return who connects by a journal's URL, `*` where it does not say; a note where the server is not verified.

    UsageError: it is no URL of a PostgreSQL database, or holds a password.
    """
    found = JOURNAL.fullmatch(journal)
    if found is None:
        raise UsageError("--journal: expected postgresql://USER@HOST/DATABASE, without a password: pgpass holds that")
    if parse_qs(found["query"] or "").get("sslmode") != ["verify-full"]:
        _warn(["--journal does not ask for TLS with a verified server: add ?sslmode=verify-full&sslrootcert=FILE"])
    return found["user"] or "*"


def _check(name: str, image: str, namespace: str = "") -> None:
    """UsageError for a name or an image that a deployment could not use."""
    if not LABEL.fullmatch(name):
        raise UsageError(f"--name {name}: expected up to 40 lower-case letters, digits and -, such as adt-engine")
    if namespace and not LABEL.fullmatch(namespace):
        raise UsageError(f"--namespace {namespace}: expected lower-case letters, digits and -, such as interfaces")
    if image and not IMAGE.fullmatch(image):
        raise UsageError(f"--image {image}: expected an image such as registry.example/adt-engine:{__version__}")


def _warn(lines: Iterable[str]) -> None:
    for line in lines:
        errors().print(line, markup=False, soft_wrap=True)


def _beside(folder: Path) -> str:
    """Return a folder as Compose takes it for one: a bare name would be a volume."""
    return str(folder) if folder.is_absolute() else f"./{folder.as_posix()}"


def _escaped(text: str) -> str:
    """Return a text in which Compose sees no variable."""
    return text.replace("$", "$$")
