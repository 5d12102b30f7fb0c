"""Channels and destinations: state and counters; start, stop, drain, reload; pause and resume."""

import asyncio
from typing import Any, Final

from starlette.responses import Response

from engine.ops.access.role import Permission
from engine.ops.operations.channels import AllowMerge, DrainChannel, ListChannels, Reload, StartChannel, StopChannel
from engine.ops.operations.destinations import ListDestinations, PauseDestination, ResumeDestination
from engine.ops.web.call import Call, go
from engine.ops.web.route import Route
from engine.ops.web.stream import streamed


async def _show(call: Call, drained: Any = None) -> Response:
    channels, destinations = await asyncio.gather(call.perform(ListChannels), call.perform(ListDestinations))
    return call.page("channels.html", channels=channels, destinations=destinations, drained=drained)


async def _live(call: Call) -> Response:
    async def now() -> str:
        channels, destinations = await asyncio.gather(call.perform(ListChannels), call.perform(ListDestinations))
        return call.part("parts/channels.html", channels=channels, destinations=destinations)

    return streamed(call, now)


async def _start(call: Call) -> Response:
    await call.perform(StartChannel, channel=call.form.get("channel", ""))
    return go("/channels", "channel")


async def _stop(call: Call) -> Response:
    await call.perform(StopChannel, channel=call.form.get("channel", ""))
    return go("/channels", "channel")


async def _drain(call: Call) -> Response:
    """Stop a channel and say what of it is still on its way; pressed again, it says that anew."""
    return await _show(call, await call.perform(DrainChannel, channel=call.form.get("channel", "")))


async def _allow_merge(call: Call) -> Response:
    await call.perform(AllowMerge, channel=call.form.get("channel", ""))
    return go("/channels", "channel")


async def _reload(call: Call) -> Response:
    await call.perform(Reload)
    return go("/channels", "reloaded")


async def _pause(call: Call) -> Response:
    given = {"destination": call.form.get("destination", ""), "reason": call.form.get("reason", "")}
    await call.perform(PauseDestination, **given)
    return go("/channels", "channel")


async def _resume(call: Call) -> Response:
    await call.perform(ResumeDestination, destination=call.form.get("destination", ""))
    return go("/channels", "channel")


ROUTES: Final = (
    Route("GET", "/channels", Permission.METADATA, _show, label="Channels"),
    Route("GET", "/live/channels", Permission.METADATA, _live),
    Route("POST", "/channels/start", Permission.CHANNELS, _start),
    Route("POST", "/channels/stop", Permission.CHANNELS, _stop),
    Route("POST", "/channels/drain", Permission.CHANNELS, _drain),
    Route("POST", "/channels/allow-merge", Permission.CHANNELS, _allow_merge),
    Route("POST", "/channels/reload", Permission.CHANNELS, _reload),
    Route("POST", "/destinations/pause", Permission.CHANNELS, _pause),
    Route("POST", "/destinations/resume", Permission.CHANNELS, _resume),
)
