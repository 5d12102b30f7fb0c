"""Watching: the alerts of a running engine, and their way to the webhook, for as long as it runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from engine.journal.state.alerting import Alert
from engine.ops.access.access import Access
from engine.ops.audit.anchoring import Anchoring
from engine.ops.background.webhook import Hook
from engine.ops.operations.alerts import alert_view
from engine.pipeline.alerts.kind import AlertKind
from engine.pipeline.engine import Engine
from engine.pipeline.maintenance.watch import Watch


def turned_away(access: Access) -> dict[AlertKind, int]:
    """Return how many were refused at the entrance since the start, by the alert that many of them open."""
    attempts = access.attempts
    return {AlertKind.LOG_IN_FAILURES: attempts.refused_log_ins, AlertKind.TOKEN_FAILURES: attempts.refused_tokens}


@contextlib.asynccontextmanager
async def watching(
    engine: Engine, access: Access, anchoring: Anchoring, certificate: Path | None = None
) -> AsyncIterator[Watch]:
    """Check an engine at intervals until closed; alerts go to the log, the page and the webhook.

    `certificate`: the file of the operators' pages' own.
    """
    hook = Hook(lambda: engine.alerting.webhook)
    watch = Watch(engine, lambda: hook.failing, lambda: turned_away(access), lambda: anchoring.failing, certificate)

    def announce(alert: Alert) -> None:
        event = {"event": "cleared" if alert.cleared_at else "opened"}
        hook.put(event | alert_view(engine, alert).model_dump(mode="json"))

    engine.alerts.listeners.append(announce)
    tasks = [asyncio.create_task(watch.run()), asyncio.create_task(hook.run())]
    try:
        yield watch
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        engine.alerts.listeners.remove(announce)
