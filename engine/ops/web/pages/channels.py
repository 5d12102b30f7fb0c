"""Channels and destinations: state and counters; start, stop, drain, reload; pause and resume."""

import asyncio
from typing import Final

from starlette.responses import Response

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
from engine.ops.operations.destinations import ListDestinations, PauseDestination, ResumeDestination
from engine.ops.web.call import Call, form
from engine.ops.web.route import Route
from engine.ops.web.stream import streamed


async def _show(call: Call, drained: DrainedChannel | None = None) -> Response:
    channels, destinations = await asyncio.gather(call.perform(ListChannels), call.perform(ListDestinations))
    return call.page("channels.html", channels=channels, destinations=destinations, drained=drained)


async def _live(call: Call) -> Response:
    async def now() -> str:
        channels, destinations = await asyncio.gather(call.perform(ListChannels), call.perform(ListDestinations))
        return call.part("parts/channels.html", channels=channels, destinations=destinations)

    return streamed(call, now)


async def _drain(call: Call) -> Response:
    """Stop a channel and say what of it is still on its way; pressed again, it says that anew."""
    drained = await call.perform(DrainChannel, channel=call.form.get("channel", ""))
    return await _show(call, drained)


_DONE: Final = {"to": "/channels", "notice": "channel"}
ROUTES: Final = (
    Route("GET", "/channels", Permission.METADATA, _show, label="Channels"),
    Route("GET", "/live/channels", Permission.METADATA, _live),
    form("/channels/start", StartChannel, "channel", **_DONE),
    form("/channels/stop", StopChannel, "channel", **_DONE),
    Route("POST", "/channels/drain", Permission.CHANNELS, _drain),
    form("/channels/allow-merge", AllowMerge, "channel", **_DONE),
    form("/channels/reload", Reload, to="/channels", notice="reloaded"),
    form("/destinations/pause", PauseDestination, "destination", "reason", **_DONE),
    form("/destinations/resume", ResumeDestination, "destination", **_DONE),
)
