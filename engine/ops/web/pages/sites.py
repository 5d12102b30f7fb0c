"""Other engines, live: what each says of itself, the gravest first, with links to their own pages."""

from collections import defaultdict
from typing import Final

from starlette.responses import Response

from engine import __version__
from engine.ops.access.actor import Permission
from engine.ops.sites.summary import SiteView, site_views
from engine.ops.web.call import SITES, WebCall
from engine.ops.web.route import Route
from engine.ops.web.stream import streamed


def _views(call: WebCall) -> list[SiteView]:
    return site_views(call.context.sites.statuses())


async def _show(call: WebCall) -> Response:
    return await call.page("sites.html", **_values(call))


async def _live(call: WebCall) -> Response:
    """Send what comes first apart from the list, which stays as it is while an alert in it is open."""

    async def now() -> str:
        return await call.part("parts/sites_first.html", **_values(call))

    async def sites() -> str:
        return await call.part("parts/sites.html", **_values(call))

    return streamed(call, now, sites=sites)


def _values(call: WebCall) -> dict[str, object]:
    views = _views(call)
    return {
        "silent": [view for view in views if view.fault is not None],
        "sites": [view for view in views if view.fault is None],
        "versions": _versions(views),
        "count": len(views),
    }


def _versions(views: list[SiteView]) -> dict[str, list[str]]:
    """Return the sites by their version, where not all run that of this engine."""
    found: defaultdict[str, list[str]] = defaultdict(list, {__version__: ["this engine"]})
    for view in views:
        if view.version:
            found[view.version].append(view.name)
    return dict(sorted(found.items())) if len(found) > 1 else {}


ROUTES: Final = (
    Route("GET", SITES, Permission.METADATA, _show, label="Sites"),
    Route("GET", "/live/sites", Permission.METADATA, _live),
)
