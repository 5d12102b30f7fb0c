"""All routes in one table: pages, API, health and messages over HTTP."""

from typing import Final

from engine.ops.operations.table import ALL
from engine.ops.web.api import machine
from engine.ops.web.api.routes import api_routes
from engine.ops.web.pages import (
    alerts,
    assets,
    audit,
    channels,
    duplicates,
    lanes,
    login,
    message,
    messages,
    overview,
    patient,
    playground,
    runs,
    sites,
    users,
)
from engine.ops.web.pages import help as help_pages

ROUTES: Final = (
    *overview.ROUTES,
    *alerts.ROUTES,
    *messages.ROUTES,
    *lanes.ROUTES,
    *message.ROUTES,
    *patient.ROUTES,
    *duplicates.ROUTES,
    *runs.ROUTES,
    *channels.ROUTES,
    *sites.ROUTES,
    *playground.ROUTES,
    *help_pages.ROUTES,
    *audit.ROUTES,
    *users.ROUTES,
    *login.ROUTES,
    *assets.ROUTES,
    *machine.ROUTES,
    *api_routes(ALL),
)
