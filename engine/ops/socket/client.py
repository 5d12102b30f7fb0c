"""How commands ask the running engine, over its admin socket."""

import contextlib
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from engine.errors import AdtEngineError, UsageError
from engine.ops.operations.operation import Operation

SOCKET_NAME: Final = "admin.sock"

A = TypeVar("A")


def ask(folder: Path, operation: type[Operation[A]], given: Mapping[str, object]) -> A:
    """Ask the running engine; ConnectionError where none runs on this folder, AdtEngineError for what it refuses."""
    return operation.from_json(ask_by_name(folder, operation.name, given))


def ask_by_name(folder: Path, name: str, given: Mapping[str, object]) -> Any:
    """Ask the running engine for the operation of a name, and return the JSON of its answer; errors as of `ask`."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as line:
        try:
            line.connect(str(folder / SOCKET_NAME))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise ConnectionError(f"no engine runs on {folder}") from error
        except OSError as error:
            raise AdtEngineError(
                f"{folder / SOCKET_NAME} cannot be used ({error.strerror}): run this as the engine's user, or name "
                "another --data"
            ) from error
        line.sendall(json_line({"do": name, "with": dict(given)}))
        received = b"".join(_received(line))
    if not received:
        raise AdtEngineError(f"the engine ended before it answered; `adt-engine audit list` tells of {name}")
    answer = orjson.loads(received)
    if "error" in answer:
        raise (UsageError if answer.get("exit") == 2 else AdtEngineError)(answer["error"])
    return answer["done"]


def _received(line: socket.socket) -> Iterator[bytes]:
    while data := line.recv(65_536):
        yield data


def json_line(value: object) -> bytes:
    """Return a request or an answer as it goes over the socket."""
    return orjson.dumps(value, default=str) + b"\n"
