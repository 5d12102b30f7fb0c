"""Where the API offers each operation: one table, and one rule for the operations that it does not name."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from engine.ops.access.actor import may
from engine.ops.access.administration import OF_TOKENS
from engine.ops.operations.operation import AnyOperation

ROOT: Final = "/api/v1"
_NAMED: Final = re.compile(r"{(\w+)}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation at one address; a GET takes what the path does not name as parameters, a POST in its body."""

    method: Literal["GET", "POST"]
    path: str
    operation: AnyOperation

    @property
    def in_path(self) -> tuple[str, ...]:
        """The fields that the path names."""
        return tuple(_NAMED.findall(self.path))

    @property
    def others(self) -> tuple[str, ...]:
        """The fields that it does not name."""
        return tuple(name for name in self.operation.names() if name not in self.in_path)


# Reads stand at addresses of their own; what names a patient is asked for in a body, never in an address.
TABLE: Final[Mapping[str, tuple[Literal["GET", "POST"], str]]] = {
    "messages.list": ("GET", "/messages"),
    "messages.search": ("POST", "/messages/search"),
    "messages.counts": ("GET", "/messages/counts"),
    "messages.throughput": ("GET", "/messages/throughput"),
    "charts.show": ("GET", "/charts"),
    "messages.show": ("GET", "/messages/{entry}"),
    "messages.raw": ("GET", "/messages/{entry}/raw"),
    "messages.facts": ("GET", "/messages/{entry}/facts"),
    "messages.explain": ("GET", "/messages/{entry}/explain"),
    "messages.named": ("POST", "/messages/named"),
    "patients.find": ("POST", "/patients/find"),
    "patients.show": ("GET", "/messages/{entry}/patient"),
    "duplicates.list": ("GET", "/duplicates"),
    "duplicates.show": ("GET", "/duplicates/{entry}"),
    "duplicates.decide": ("POST", "/duplicates/{entry}/decide"),
    "messages.matches": ("GET", "/messages/{entry}/matches"),
    "messages.replay": ("POST", "/messages/{entry}/replay"),
    "messages.release": ("POST", "/messages/{entry}/release"),
    "messages.retry": ("POST", "/messages/{entry}/retry"),
    "messages.discard": ("POST", "/messages/{entry}/discard"),
    "messages.rehearse": ("POST", "/messages/{entry}/rehearse"),
    "messages.edit": ("POST", "/messages/{entry}/edit"),
    "messages.resolve": ("POST", "/messages/{entry}/resolve"),
    "lanes.list": ("GET", "/lanes"),
    "lanes.show": ("GET", "/lanes/{entry}"),
    "replays.list": ("GET", "/replays"),
    "replays.progress": ("GET", "/replays/{run}"),
    "replays.stop": ("POST", "/replays/{run}/stop"),
    "replays.resume": ("POST", "/replays/{run}/resume"),
    "channels.list": ("GET", "/channels"),
    "destinations.list": ("GET", "/destinations"),
    "codes.unmapped": ("GET", "/codes/unmapped"),
    "mappings.files": ("GET", "/mappings/files"),
    "mappings.file": ("GET", "/mappings/file"),
    "alerts.list": ("GET", "/alerts"),
    "reasons": ("GET", "/reasons"),
    "stats": ("GET", "/stats"),
    "alive": ("GET", "/alive"),
    "metrics": ("GET", "/metrics"),
}


def endpoints(operations: Iterable[AnyOperation]) -> Iterator[Endpoint]:
    """Yield each operation that a token may do, with its address; one that the table does not name is a POST.

    `replays.start` is at /replays/start. Accounts, tokens and the care of the journal are for no token: a person does
    that, at a page or at the terminal.
    """
    for operation in operations:
        if any(may(role, operation.permission) for role in OF_TOKENS):
            method, path = TABLE.get(operation.name, ("POST", "/" + operation.name.replace(".", "/")))
            yield Endpoint(method, path, operation)
