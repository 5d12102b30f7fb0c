"""Alerts: what somebody has to hear of, what to do, and who has taken care of it."""

from typing import Final

from starlette.responses import Response

from engine.ops.access.actor import Permission
from engine.ops.operations.alerts import AcknowledgeAlert, ListAlerts
from engine.ops.web.call import WebCall, go, numbered
from engine.ops.web.route import Route

MOST: Final = 200


async def _list(call: WebCall) -> Response:
    alerts = await call.perform(ListAlerts, all=True, limit=MOST)
    opened = [alert for alert in alerts if not alert.cleared_at]
    return await call.page("alerts.html", opened=opened, cleared=[alert for alert in alerts if alert.cleared_at])


async def _acknowledge(call: WebCall) -> Response:
    await call.perform(AcknowledgeAlert, alert=numbered("alert", call.form.get("alert"), 400))
    return go("/alerts", "cleared")


ROUTES: Final = (
    Route("GET", "/alerts", Permission.METADATA, _list, label="Alerts"),
    Route("POST", "/alerts/acknowledge", Permission.OPERATE, _acknowledge),
)
