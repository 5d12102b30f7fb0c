"""Acts on alerts.

    alerts.list         METADATA  {"all": false, "limit": 100} -> [ALERT]: what is open, oldest first; with `all` the
                                  newest first, cleared ones among them
    alerts.acknowledge  OPERATE   {"alert": ID} -> ALERT    somebody has taken care; some kinds are cleared by that

ALERT: {"id", "kind", "subject", "detail", "opened_at", "cleared_at", "acknowledged_at", "acknowledged_by", "contact",
"meaning", "can_wait", "next_step"}. `subject` is a channel, a destination, or `engine`; `contact` whom to call about
the channel. Nothing of it is of a patient.
"""

from typing import Any, Final

from engine.errors import UsageError
from engine.journal.state.alerting import Alert
from engine.ops.access.role import Permission
from engine.ops.operations.act import Act, Actor, Given
from engine.ops.operations.channels import time_of
from engine.ops.request import alert_in, number_in
from engine.ops.views.reasons import reason_of
from engine.pipeline.engine import Engine

MOST: Final = 1_000


async def _list(engine: Engine, _actor: Actor, given: Given) -> Any:
    limit = number_in(given, "limit", 100, 1, MOST)
    found = await engine.alerts.latest(limit) if given.get("all") else engine.alerts.open()[:limit]
    return [shown(engine, one) for one in found]


async def _acknowledge(engine: Engine, actor: Actor, given: Given) -> Any:
    number = alert_in(given)
    found = await engine.alerts.acknowledge(number, engine.now(), actor.name)
    if found is None:
        raise UsageError(f"no alert {number} is open: see `alerts list`")
    return shown(engine, found)


def shown(engine: Engine, alert: Alert) -> dict[str, Any]:
    """Return an alert as plain values, with its line of the table of reasons."""
    line, feed = reason_of(alert.kind), engine.feeds.get(alert.subject.partition(" ")[0])
    return {
        "id": alert.id,
        "kind": str(alert.kind),
        "subject": alert.subject,
        "detail": alert.detail,
        "opened_at": time_of(alert.opened_at),
        "cleared_at": time_of(alert.cleared_at),
        "acknowledged_at": time_of(alert.acknowledged_at),
        "acknowledged_by": alert.acknowledged_by,
        "contact": feed.channel.contact if feed else "",
        "meaning": line.meaning,
        "can_wait": line.can_wait,
        "next_step": line.next_step,
    }


ALERTS: Final = (
    Act("alerts.list", Permission.METADATA, _list),
    Act("alerts.acknowledge", Permission.OPERATE, _acknowledge),
)
