"""Sites as they are shown, on the page and in the terminal: the strip and the alerts of each, the gravest first."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Final

from engine import __version__
from engine.ops.operations.alerts import AlertView, Severity
from engine.ops.sites.asking import SiteAnswer, SiteFault
from engine.ops.sites.monitor import SiteStatus
from engine.ops.views.counts import Counts
from engine.ops.web.strip import Box, severity, strip

GRAVITY: Final = {"bad": 0, "warn": 1, "info": 2}
# The gravest first; `off` is a site that was not asked yet.
KINDS: Final = ("bad", "warn", "off", "good")
MOST_SHOWN: Final = 20
NOTHING: Final = Counts(
    entries=0, last=0, at_door={}, deliveries={}, oldest_unfinished_at=None, since="", until="", received={},
    settled={}, rules={}, queues={},
)  # fmt: skip
NOT_KNOWN: Final = "not known"


@dataclass(frozen=True, slots=True)
class SiteView:
    """One site as it is shown: `kind` is how it is drawn, `alerts` are open ones, `more` how many are not shown.

    `since` and `answered_at` are of a site that could not be asked; `differs`: it runs another version than this one.
    """

    name: str
    url: str
    kind: str
    fault: SiteFault | None
    since: datetime | None
    answered_at: datetime | None
    version: str
    boxes: tuple[Box, ...]
    alerts: tuple[AlertView, ...]
    more: int
    missing: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether the site runs another version than this process."""
        return self.version not in {"", __version__}

    @property
    def state(self) -> str:
        """The site's state in a few words."""
        if self.fault is not None:
            return self.fault.does
        return {"bad": "messages do not flow", "warn": "to decide", "off": "not asked yet", "good": "well"}[self.kind]


def site_views(statuses: Iterable[SiteStatus]) -> list[SiteView]:
    """Return sites, those that cannot be asked first, then the gravest, then in the order of the file."""
    views = [site_view(status) for status in statuses]
    return sorted(views, key=lambda view: (view.fault is None, KINDS.index(view.kind)))


def worst_of(views: Sequence[SiteView]) -> str:
    """Return the gravest kind of sites; good where there are none."""
    return min((view.kind for view in views), key=KINDS.index, default="good")


def site_view(status: SiteStatus) -> SiteView:
    """Return one site as it is shown."""
    site, answer = status.settings, status.answer or SiteAnswer()
    boxes = () if status.answer is None or answer.fault is not None else _boxes(site.url, answer)
    alerts = sorted(
        answer.alerts or (), key=lambda one: (bool(one.acknowledged_at), GRAVITY[severity(one)], one.opened_at)
    )
    return SiteView(
        name=site.name,
        url=site.url,
        kind=_kind(status, boxes, alerts),
        fault=answer.fault,
        since=status.since,
        answered_at=status.answered_at,
        version=answer.version,
        boxes=boxes,
        alerts=tuple(alerts[:MOST_SHOWN]),
        more=len(alerts[MOST_SHOWN:]),
        missing=answer.missing,
    )


def _boxes(url: str, answer: SiteAnswer) -> tuple[Box, ...]:
    """Return the strip without the senders; what was not said is a box that says so. Links lead to that engine."""
    found = strip(answer.channels or (), answer.counts or NOTHING, answer.destinations or (), answer.alerts or ())
    _, channels, waiting, *destinations = found
    if answer.channels is None:
        channels = Box("Channels", channels.href, "off", NOT_KNOWN, ())
    if answer.counts is None:
        waiting = Box("Waiting", waiting.href, "off", NOT_KNOWN, ())
        channels = replace(channels, lines=channels.lines[1:])
    if answer.destinations is None:
        destinations = [Box("Destinations", "/channels", "off", NOT_KNOWN, ())]
    return tuple(replace(box, href=url + box.href) for box in (channels, waiting, *destinations))


def _kind(status: SiteStatus, boxes: Iterable[Box], alerts: Iterable[AlertView]) -> str:
    answer = status.answer
    if answer is None:
        return "off"
    fresh = {one.severity for one in alerts if not one.acknowledged_at}
    kinds = {box.kind for box in boxes}
    if answer.fault is not None or "bad" in kinds or Severity.URGENT in fresh:
        return "bad"
    return "warn" if "warn" in kinds or Severity.TO_DECIDE in fresh or answer.missing else "good"


def site_json(view: SiteView) -> dict[str, object]:
    """Return a site as JSON-able values."""
    return {
        "name": view.name,
        "url": view.url,
        "kind": view.kind,
        "state": view.state,
        "fault": None if view.fault is None else asdict(view.fault),
        "version": view.version,
        "version_differs": view.differs,
        "strip": [_box_json(box) for box in view.boxes],
        "alerts": [one.model_dump(mode="json") for one in view.alerts],
        "more_alerts": view.more,
        "missing": list(view.missing),
    }


def _box_json(box: Box) -> dict[str, object]:
    one = box.destination
    return {
        "name": box.name,
        "url": box.href,
        "kind": box.kind,
        "state": box.state,
        "cause": box.cause,
        "since": one.since if one is not None and box.does else None,
        "next_try_at": one.next_try_at if one is not None and box.does else None,
        "lines": list(box.lines),
    }
