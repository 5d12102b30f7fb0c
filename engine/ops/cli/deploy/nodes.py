"""`adt-engine deploy compose` and `kubernetes`: several nodes behind one address, and a site's files for them."""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import parse_qs

import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from engine import __version__
from engine.config.channel import Channel
from engine.config.channels import OTHERS, channel_files, load_channels
from engine.config.network import is_loopback
from engine.errors import UsageError
from engine.terminal.options import CHANNELS, Channels, Mappings
from engine.terminal.table import errors

# A ConfigMap holds 1 MiB at most, its names and our indentation included.
MOST_BYTES: Final = 900_000
# Of a key in a ConfigMap: no folders in it.
KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
BETWEEN_FOLDERS: Final = "__"
# Where a container has its secrets, and the keys of a channel file that name files of them.
SECRETS: Final = "/run/secrets/"
FILES: Final = frozenset({"file", "certificate", "key", "client_ca", "ca_file", "client_certificate", "client_key"})


@dataclass(frozen=True, slots=True)
class ConfigMapFile:
    """One file of a ConfigMap: its key there, its path below the folder, and its bytes."""

    key: str
    path: str
    content: bytes

    @property
    def text(self) -> str | None:
        """The content as text; None where it is none, which a ConfigMap keeps apart."""
        try:
            return self.content.decode("utf-8")
        except UnicodeDecodeError:
            return None

    @property
    def base64(self) -> str:
        """The content of a file that is no text."""
        return base64.b64encode(self.content).decode("ascii")


def ports(channels: Sequence[Channel], pages: int) -> tuple[int, ...]:
    """Return the MLLP ports of channels, ascending.

    UsageError: a port that the system would choose, or that of the `pages`.
    """
    found = {channel.listen.mllp.port: channel.channel for channel in channels if channel.listen.mllp is not None}
    if 0 in found:
        raise UsageError(f"{found[0]} listens on port 0, which is another one on each node: give it a fixed port")
    if pages in found:
        raise UsageError(f"{found[pages]} listens on port {pages}, which the pages have: give it another one")
    return tuple(sorted(found))


def doubts(channels: Sequence[Channel], *, one_address: bool) -> Iterator[str]:
    """Yield what keeps senders from channels behind a load balancer, one line each.

    `one_address`: the load balancer is the only address that a channel sees.
    """
    for one in channels:
        mllp = one.listen.mllp
        if mllp is not None and is_loopback(mllp.host):
            yield f"{one.channel} listens on {mllp.host}, where nobody outside reaches it: host 0.0.0.0, tls and allow"
        if one_address and mllp is not None and one.limits.connections_per_address < one.limits.connections:
            yield (
                f"{one.channel} takes {one.limits.connections_per_address} connections from one address, and the load"
                " balancer is the only one that it sees: raise limits.connections_per_address"
            )
        for named in sorted(set(_elsewhere(one.model_dump(mode="json")))):
            yield f"{one.channel} names {named}, which a container does not have: put it into a file below {SECRETS}"


def channel_config(folder: Path) -> tuple[ConfigMapFile, ...]:
    """Return the channel files of a folder, its limits for alerts and its other sites."""
    others = [folder / name for name in OTHERS if (folder / name).is_file()]
    return _bounded(folder, [*channel_files(folder), *others])


def mapping_config(folder: Path | None) -> tuple[ConfigMapFile, ...]:
    """Return all files of a folder of mappings, hidden ones aside; none without a folder."""
    if folder is None:
        return ()
    if not folder.is_dir():
        raise UsageError(f"--mappings {folder}: there is no such folder")
    found = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return _bounded(folder, [file for file in found if not _hidden(file.relative_to(folder))])


def mark(files: Sequence[ConfigMapFile]) -> str:
    """Return a mark of files, another one once a name or a byte differs: a change of it restarts the nodes in turn."""
    return sha256(repr([(file.path, file.content) for file in files]).encode()).hexdigest()[:16]


def block(text: str, indent: int) -> str:
    """Return a text as a YAML scalar for a key that is indented so far: a literal block where that holds every byte."""
    lines = text.split("\n")
    if not text.strip() or not all(line.replace("\t", "").isprintable() for line in lines):
        return json.dumps(text)
    ended = len(text) - len(text.rstrip("\n"))
    keep = {0: "-", 1: ""}.get(ended, "+")
    body = "\n".join(f"{' ' * (indent + 2)}{line}" if line else "" for line in (lines[:-1] if ended else lines))
    return f"|2{keep}\n{body}"


def _elsewhere(value: Any) -> Iterator[str]:
    """Yield variables and files that a channel takes secrets and certificates from, and a container has not."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "env" and inner:
                yield f"the variable {inner}"
            elif key in FILES and isinstance(inner, str) and not inner.startswith(SECRETS):
                yield inner
            else:
                yield from _elsewhere(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _elsewhere(inner)


def _bounded(folder: Path, files: Sequence[Path]) -> tuple[ConfigMapFile, ...]:
    found = tuple(_file(folder, file) for file in files)
    size = sum(len(one.content) for one in found)
    if size > MOST_BYTES:
        raise UsageError(f"{folder} holds {size} bytes, more than a ConfigMap takes: put it into the image instead")
    return found


def _file(folder: Path, file: Path) -> ConfigMapFile:
    path = file.relative_to(folder).as_posix()
    key = path.replace("/", BETWEEN_FOLDERS)
    if not KEY.fullmatch(key):
        raise UsageError(f"{file}: a ConfigMap takes names of letters, digits, -, _ and . only: rename it")
    return ConfigMapFile(key, path, file.read_bytes())


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


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
