"""`adt-engine sites`: the state of several engines, each asked by its HTTP API."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from engine.config.sites import FILE, Sites, look_at_sites
from engine.errors import ConfigurationError, UsageError
from engine.ops.sites.monitor import SiteMonitor
from engine.ops.sites.summary import SiteView, site_json, site_views, worst_of
from engine.terminal.options import CHANNELS, AsJson, Channels
from engine.terminal.table import NEGATIVE, POSITIVE, cell, output, print_json, remark, table, utc

app = typer.Typer(help="Show the state of several engines.", no_args_is_help=True)

COLUMNS: Final = ("Site", "State", "Version", "Channels", "Waiting", "Destinations", "Alerts #", "Cause")
STYLES: Final = {"bad": NEGATIVE, "warn": "yellow", "good": POSITIVE, "off": "dim"}
FAILS: Final = {False: ("bad",), True: ("bad", "warn")}


@app.callback()
def _group() -> None:
    pass


@app.command(name="list")
def list_(
    channels: Channels = CHANNELS,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 also where a person has to decide.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask every engine of sites.yaml now: state, version, what waits, open alerts; exit 1 if one needs somebody.

    All are asked at the same time, each within `timeout_seconds`. Exit 1 where an engine cannot be asked or messages do
    not flow, with --strict also where a person has to decide or something is not known. Run it as the user who may read
    the tokens. Since when an engine does not answer is on the page Sites, which goes on asking.

    Example: adt-engine sites list --channels channels
    """
    looked = look_at_sites(channels)
    if looked.problems or looked.value is None:
        raise ConfigurationError(looked.problems)
    sites = looked.value
    if not sites.sites:
        raise UsageError(f"{channels} has no {FILE} with sites: see `adt-engine help sites`")
    views = asyncio.run(_asked(sites))
    worst = worst_of(views)
    if as_json:
        print_json({"worst": worst, "sites": [site_json(view) for view in views]})
    else:
        _print(views)
    if worst in FAILS[strict]:
        raise typer.Exit(1)


async def _asked(sites: Sites) -> list[SiteView]:
    """Ask every site once, all at the same time."""
    monitor = SiteMonitor(lambda: sites)
    await asyncio.gather(*monitor.begin())
    return site_views(monitor.statuses())


def _print(views: Sequence[SiteView]) -> None:
    output().print(table(COLUMNS, map(_row, views)))
    for view in views:
        for alert in view.alerts:
            by = f", {alert.acknowledged_by} has it" if alert.acknowledged_at else ""
            remark(f"{view.name}: {alert.severity}: {alert.sentence} Since {utc(alert.opened_at)} UTC{by}")
        for line in view.missing:
            remark(f"{view.name}: not known: {line}")
        if view.fault is not None:
            remark(f"{view.name}: next: {view.fault.remedy}")


def _row(view: SiteView) -> tuple[object, ...]:
    channels, waiting = (stage.state for stage in view.stages[:2]) if view.stages else ("", "")
    destinations = (f"{stage.name} {stage.state}" if stage.destination else stage.state for stage in view.stages[2:])
    version = f"{view.version} (other)" if view.differs else view.version
    state = cell(view.state, STYLES[view.kind])
    count = len(view.alerts) + view.more
    cause = view.fault.cause if view.fault is not None else ""
    return view.name, state, version, channels, waiting, "; ".join(destinations), count, cause
