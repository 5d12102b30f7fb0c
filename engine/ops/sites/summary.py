"""Sites as they are shown, on the page and in the terminal: the strip and the alerts of each, the gravest first."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from engine import __version__
from engine.ops.operations.alerts import AlertView
from engine.ops.operations.status import Health, Stage, status_of
from engine.ops.sites.asking import SiteAnswer, SiteFault
from engine.ops.sites.monitor import SiteStatus
from engine.ops.views.counts import Counts
from engine.ops.views.incident import GRAVITY, Severity

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
    stages: tuple[Stage, ...]
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
    stages = () if status.answer is None or answer.fault is not None else _stages(answer)
    alerts = sorted(
        answer.alerts or (), key=lambda one: (bool(one.acknowledged_at), GRAVITY[one.severity], one.opened_at)
    )
    return SiteView(
        name=site.name,
        url=site.url,
        kind=_kind(status, stages, alerts),
        fault=answer.fault,
        since=status.since,
        answered_at=status.answered_at,
        version=answer.version,
        stages=stages,
        alerts=tuple(alerts[:MOST_SHOWN]),
        more=len(alerts[MOST_SHOWN:]),
        missing=answer.missing,
    )


def _stages(answer: SiteAnswer) -> tuple[Stage, ...]:
    """Return the stages without the senders; of what was not said there is one that says so."""
    found = status_of(answer.channels or (), answer.counts or NOTHING, answer.destinations or (), answer.alerts or ())
    _, channels, waiting, *destinations = found.stages
    if answer.counts is None:
        waiting = _not_known("waiting", "Waiting")
        channels = channels.model_copy(update={"lines": channels.lines[1:]})
    if answer.channels is None:
        channels = _not_known("channels", "Channels")
    if answer.destinations is None:
        destinations = [_not_known("destination", "Destinations")]
    return channels, waiting, *destinations


def _not_known(place: str, name: str) -> Stage:
    return Stage(place=place, name=name, health=Health.OFF, state=NOT_KNOWN, lines=())


def page_of(url: str, stage: Stage) -> str:
    """Return the page of an engine at an address on which more is said of a stage."""
    return url + ("/lanes" if stage.place == "waiting" else "/channels")


def _kind(status: SiteStatus, stages: Iterable[Stage], alerts: Iterable[AlertView]) -> str:
    answer = status.answer
    if answer is None:
        return "off"
    fresh = {one.severity for one in alerts if not one.acknowledged_at}
    kinds = {stage.health for stage in stages}
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
        "strip": [_stage_json(view.url, stage) for stage in view.stages],
        "alerts": [one.model_dump(mode="json") for one in view.alerts],
        "more_alerts": view.more,
        "missing": list(view.missing),
    }


def _stage_json(url: str, stage: Stage) -> dict[str, object]:
    one = stage.destination
    return {
        "name": stage.name,
        "url": page_of(url, stage),
        "kind": stage.health,
        "state": stage.state,
        "since": one.since if one is not None and one.state != "ready" else None,
        "next_try_at": one.next_try_at if one is not None else None,
        "lines": list(stage.lines),
    }
