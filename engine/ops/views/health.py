"""Health: whether the process lives, whether it can take messages, and its metrics; nothing of a patient in any."""

import asyncio
import os
from typing import Final

from engine import telemetry
from engine.journal.file.reserve import free_bytes_kept
from engine.pipeline.engine import Engine

OK: Final = 200
UNAVAILABLE: Final = 503
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Health = tuple[int, dict[str, object]]


def livez(engine: Engine) -> Health:
    """Return 200 while the process does its work; 503 once the journal has stopped it: start it again."""
    alive = not (engine.journal.failed or engine.failed.is_set())
    return (OK if alive else UNAVAILABLE), {"alive": alive}


async def readyz(engine: Engine) -> Health:
    """Return 200 while messages can be taken: journal writable, disk above its reserve, listeners open, not stopping.

    A destination that is down does not make the engine unready: messages are accepted and wait for it.
    """
    journal = await _journal(engine)
    channels = {name: _listener(engine, name) for name in sorted(engine.feeds)}
    ready = journal == "ok" and not engine.stopping and "closed" not in channels.values()
    body = {
        "ready": ready,
        "stopping": engine.stopping,
        "journal": journal,
        "channels": channels,
        "destinations": {name: str(one.condition) for name, one in sorted(engine.dispatches.items())},
        "alerts": len(engine.alerts.open()),
    }
    return (OK if ready else UNAVAILABLE), body


def metrics() -> tuple[int, str]:
    """Return the metrics in the text format of Prometheus, to be sent as `METRICS_TYPE`."""
    return OK, telemetry.metrics_text()


def _listener(engine: Engine, name: str) -> str:
    if name in engine.listeners.stopped:
        return "stopped"
    return "listening" if name in engine.listeners.intakes else "closed"


async def _journal(engine: Engine) -> str:
    if engine.journal.failed:
        return "failed"
    disk = await asyncio.to_thread(os.statvfs, engine.files.data)
    return "no-room" if disk.f_bavail * disk.f_frsize < free_bytes_kept(engine.files.data) else "ok"
