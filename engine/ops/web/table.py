"""All routes in one table: pages, API, health and messages over HTTP."""

from typing import Final

from engine.ops.operations.table import ALL
from engine.ops.web.api import machine
from engine.ops.web.api.routes import api_routes
from engine.ops.web.pages import (
    account,
    alerts,
    assets,
    audit,
    channels,
    codes,
    duplicates,
    lanes,
    login,
    menu,
    message,
    messages,
    overview,
    patient,
    playground,
    repair,
    runs,
    users,
)
from engine.ops.web.pages import help as help_pages

ROUTES: Final = (
    *overview.ROUTES,
    *menu.ROUTES,
    *alerts.ROUTES,
    *messages.ROUTES,
    *lanes.ROUTES,
    *message.ROUTES,
    *patient.ROUTES,
    *repair.ROUTES,
    *runs.ROUTES,
    *channels.ROUTES,
    *codes.ROUTES,
    *duplicates.ROUTES,
    *playground.ROUTES,
    *help_pages.ROUTES,
    *audit.ROUTES,
    *users.ROUTES,
    *account.ROUTES,
    *login.ROUTES,
    *assets.ROUTES,
    *machine.ROUTES,
    *api_routes(ALL),
)
