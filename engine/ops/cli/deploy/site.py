"""A site's channel files and mappings, as a deployment of several nodes needs them: ports, and files by name."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from engine.config.alerting import FILE as ALERTS
from engine.config.channel import Channel
from engine.config.channels import channel_files
from engine.config.network import is_loopback
from engine.errors import UsageError

# A ConfigMap holds 1 MiB at most, its names and our indentation included.
MOST_BYTES: Final = 900_000
# Of a key in a ConfigMap: no folders in it.
KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
BETWEEN_FOLDERS: Final = "__"
# Where a container has its secrets, and the keys of a channel file that name files of them.
SECRETS: Final = "/run/secrets/"
FILES: Final = frozenset({"file", "certificate", "key", "client_ca", "ca_file"})


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
    found = {one.listen.mllp.port: one.channel for one in channels if one.listen.mllp is not None}
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
    """Return the channel files of a folder, and its limits for alerts."""
    alerts = [folder / ALERTS] if (folder / ALERTS).is_file() else []
    return _bounded(folder, [*channel_files(folder), *alerts])


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
    return sha256(repr([(one.path, one.content) for one in files]).encode()).hexdigest()[:16]


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
