"""The admin socket: where the running engine answers commands, a Unix socket that only its owner can open.

One request a connection, one JSON line: `{"do": NAME, "with": {...}}`. The answer is one JSON line: `{"done": ...}` or
`{"error": TEXT, "exit": CODE}`.
"""

import asyncio
import contextlib
import pwd
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from engine import telemetry
from engine.errors import AdtEngineError, StartError, UsageError, place_of
from engine.ops.access.actor import Actor, Role
from engine.ops.operations.operation import KeyTwiceError, read_strictly
from engine.ops.operations.runner import Operations
from engine.ops.socket.client import SOCKET_NAME, json_line

LINE_BYTES: Final = 1_048_576
_UNIX_PATH_BYTES: Final = 107

_log = telemetry.logger()


@contextlib.asynccontextmanager
async def serving(folder: Path, uid: int, operations: Operations) -> AsyncIterator[None]:
    """Serve operations on the folder's socket until closed; peers other than that user and root are turned away.

    StartError: the folder's path is too long for a socket.
    """
    path = folder / SOCKET_NAME
    if len(bytes(path)) > _UNIX_PATH_BYTES:
        raise StartError(f"{path} is too long for a Unix socket: choose a data folder with a shorter path")
    path.unlink(missing_ok=True)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            peer = _peer_uid(writer)
            if peer in {0, uid}:
                actor = Actor(_user(peer), Role.OWNER, "socket")
                writer.write(await _reply(operations, actor, await reader.readline()))
            else:
                writer.write(json_line({"error": "this socket belongs to another user", "exit": 1}))
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, path=str(path), limit=LINE_BYTES)
    path.chmod(0o600)
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


def _peer_uid(writer: asyncio.StreamWriter) -> int:
    peer = writer.get_extra_info("socket")
    _pid, uid, _gid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


async def _reply(operations: Operations, actor: Actor, line: bytes) -> bytes:
    """Answer one request; what goes wrong on our side says so and is logged by its place."""
    try:
        name, given = _asked(line)
        return json_line({"done": await operations.answer(name, actor, given)})
    except AdtEngineError as error:
        return json_line({"error": str(error), "exit": 2 if isinstance(error, UsageError) else 1})
    except Exception as error:  # noqa: BLE001 - the last resort: the client gets an answer, and the engine goes on
        _log.error("operation failed", error=type(error).__name__, point=place_of(error))
        return json_line({"error": "the engine could not do that; its log says where it failed", "exit": 1})


def _asked(line: bytes) -> tuple[str, Mapping[str, object]]:
    try:
        request = read_strictly(line.rstrip(b"\n"))
    except KeyTwiceError:
        raise UsageError("a key appears twice in an object of the request: give it once") from None
    except ValueError:
        request = None
    if not isinstance(request, dict) or not isinstance(request.get("do"), str):
        raise UsageError("the request is not of the form {do, with}")
    given = request.get("with") or {}
    if not isinstance(given, dict):
        raise UsageError("the request is not of the form {do, with}")
    return request["do"], given
