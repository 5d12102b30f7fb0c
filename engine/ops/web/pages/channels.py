"""Channels and destinations: state and counters; start, stop, drain, reload; pause and resume."""

import asyncio
from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from engine.errors import UsageError
from engine.ops.access.actor import Permission
from engine.ops.operations.channels import (
    AllowMerge,
    DrainChannel,
    DrainedChannel,
    ListChannels,
    Reload,
    StartChannel,
    StopChannel,
)
from engine.ops.operations.destinations import ListDestinations, ListSettings, PauseDestination, ResumeDestination
from engine.ops.operations.kept import DeliverKept, PlanKept
from engine.ops.web.call import WebCall, form, go
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Route
from engine.ops.web.stream import streamed

KEPT: Final = ("channel", "since", "until", "event", "reason")


async def _list(call: WebCall) -> Response:
    return await _show(call)


async def _show(
    call: WebCall,
    status: int = 200,
    *,
    drained: DrainedChannel | None = None,
    given: Mapping[str, str] | None = None,
    alarm: str = "",
) -> Response:
    channels, destinations = await asyncio.gather(call.perform(ListChannels), call.perform(ListDestinations))
    keys = await asyncio.gather(*(call.perform(ListSettings, destination=one.destination) for one in destinations))
    settings = list(zip(destinations, keys, strict=True))
    return await call.page(
        "channels.html", status, channels=channels, destinations=destinations, settings=settings, drained=drained,
        given=given or {}, alarm=alarm,
    )  # fmt: skip


async def _live(call: WebCall) -> Response:
    async def now() -> str:
        channels, destinations = await asyncio.gather(call.perform(ListChannels), call.perform(ListDestinations))
        return await call.part("parts/channels.html", channels=channels, destinations=destinations)

    return streamed(call, now)


async def _drain(call: WebCall) -> Response:
    """Stop a channel and say what of it is still on its way; pressed again, it says that anew."""
    drained = await call.perform(DrainChannel, channel=call.form.get("channel", ""))
    return await _show(call, drained=drained)


async def _plan(call: WebCall) -> Response:
    """Show what a channel kept since a time, and what of it would not be delivered; nothing is begun before."""
    given = {name: call.form[name].strip() for name in KEPT if call.form.get(name, "").strip()}
    try:
        plan = await call.perform(PlanKept, **given)
    except UsageError as error:
        return await _show(call, 422, given=given, alarm=str(error).removeprefix("--"))
    kept = call.context.searches.keep(call.owner, {"kept": given | {"since": plan.since}})
    return await call.page("kept_plan.html", plan=plan, given=given, kept=kept)


async def _deliver(call: WebCall) -> Response:
    """Begin what was planned, as it was kept: the form carries its id alone."""
    found = call.context.searches.find(call.owner, call.form.get("plan", ""))
    if found is None or "kept" not in found:
        raise RefusedRequestError(404, "this plan has expired: make it again")
    run = await call.perform(DeliverKept, **found["kept"])
    return go(f"/runs/{run.run}", "run")


_DONE: Final = {"to": "/channels", "notice": "channel"}
ROUTES: Final = (
    Route("GET", "/channels", Permission.METADATA, _list, label="Channels"),
    Route("GET", "/live/channels", Permission.METADATA, _live),
    form("/channels/start", StartChannel, "channel", **_DONE),
    form("/channels/stop", StopChannel, "channel", **_DONE),
    Route("POST", "/channels/drain", Permission.CHANNELS, _drain),
    form("/channels/allow-merge", AllowMerge, "channel", **_DONE),
    form("/channels/reload", Reload, to="/channels", notice="reloaded"),
    Route("POST", "/channels/kept", Permission.OPERATE, _plan),
    Route("POST", "/channels/deliver", Permission.OPERATE, _deliver),
    form("/destinations/pause", PauseDestination, "destination", "reason", **_DONE),
    form("/destinations/resume", ResumeDestination, "destination", **_DONE),
)
