"""Acts on channels and destinations: what runs, its counters, reload."""

from typing import Any, Final

from engine import telemetry
from engine.errors import ConfigurationError, UsageError
from engine.ops.acts.act import Act, Actor, Given
from engine.ops.acts.role import Permission
from engine.pipeline.engine import Engine


async def _alive(engine: Engine, _actor: Actor, _given: Given) -> Any:
    return {
        "channels": {
            name: {"address": door.host, "port": door.port, "connections": door.connections}
            for name, door in engine.doors.items()
        },
        "destinations": {name: str(dispatch.pace.breaker.gate) for name, dispatch in engine.dispatches.items()},
    }


async def _reload(engine: Engine, _actor: Actor, _given: Given) -> Any:
    try:
        return {"changed": await engine.reload()}
    except ConfigurationError as error:
        raise UsageError(f"nothing was changed:\n{error}") from error


async def _metrics(_engine: Engine, _actor: Actor, _given: Given) -> Any:
    return telemetry.metrics_text()


CHANNELS: Final = (
    Act("alive", Permission.METADATA, _alive),
    Act("reload", Permission.CHANNELS, _reload),
    Act("metrics", Permission.METADATA, _metrics),
)
