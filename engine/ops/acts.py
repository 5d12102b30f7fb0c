"""What the running engine does for commands that come over the admin socket."""

import asyncio
from collections.abc import Mapping
from typing import Any

from engine import telemetry
from engine.errors import ConfigurationError, UsageError
from engine.ops.admin import Act
from engine.ops.view import counted, listed, shown
from engine.pipeline.engine import Engine


def acts_of(engine: Engine) -> Mapping[str, Act]:
    """Return the acts of one engine by name."""

    async def replay(given: Mapping[str, Any]) -> Any:
        count = await engine.journal.replay(_seq(given), force=bool(given.get("force")), by=_by(given))
        engine.wake(tuple(engine.dispatches))
        return {"destinations": count}

    async def release(given: Mapping[str, Any]) -> Any:
        count = await engine.journal.release(_seq(given), force=bool(given.get("force")), by=_by(given))
        engine.wake(tuple(engine.dispatches))
        return {"destinations": count}

    async def discard(given: Mapping[str, Any]) -> Any:
        reason = given.get("reason")
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError("say why the entry is discarded: --reason TEXT")
        count = await engine.journal.discard(_seq(given), reason, _by(given))
        engine.wake(tuple(engine.dispatches))
        return {"runnable": count}

    async def reload(_given: Mapping[str, Any]) -> Any:
        try:
            return {"changed": await engine.reload()}
        except ConfigurationError as error:
            raise UsageError(f"nothing was changed:\n{error}") from error

    async def alive(_given: Mapping[str, Any]) -> Any:
        return {
            "channels": {
                name: {"address": door.host, "port": door.port, "connections": door.connections}
                for name, door in engine.doors.items()
            },
            "destinations": {name: str(dispatch.pace.breaker.gate) for name, dispatch in engine.dispatches.items()},
        }

    async def list_(given: Mapping[str, Any]) -> Any:
        return await asyncio.to_thread(listed, engine.files.data, given)

    async def show(given: Mapping[str, Any]) -> Any:
        _seq(given)
        return await asyncio.to_thread(shown, engine.files.data, given)

    async def stats(_given: Mapping[str, Any]) -> Any:
        return await asyncio.to_thread(counted, engine.files.data)

    async def metrics(_given: Mapping[str, Any]) -> Any:
        return telemetry.metrics_text()

    return {
        "messages.list": list_,
        "messages.show": show,
        "stats": stats,
        "messages.replay": replay,
        "messages.release": release,
        "messages.discard": discard,
        "metrics": metrics,
        "reload": reload,
        "alive": alive,
    }


def _seq(given: Mapping[str, Any]) -> int:
    seq = given.get("entry")
    if not isinstance(seq, int) or seq < 1:
        raise UsageError("name an entry by its number, as `messages list` shows it")
    return seq


def _by(given: Mapping[str, Any]) -> str:
    return str(given.get("by", ""))
