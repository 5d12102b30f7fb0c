"""Bulk runs: which entries, what it would be, then its progress; stop and resume."""

from typing import Final

from starlette.responses import Response

from engine.errors import UsageError
from engine.ops.access.actor import Permission
from engine.ops.operations.fields import STATES, digits_of
from engine.ops.operations.replays import (
    ListReplays,
    PauseReplay,
    PlanReplay,
    ReplayRun,
    ResumeReplay,
    ShowReplay,
    StartReplay,
    StopReplay,
)
from engine.ops.web.call import WebCall, form, go
from engine.ops.web.refusal import RefusedRequestError
from engine.ops.web.route import Route
from engine.ops.web.stream import streamed

FILTERS: Final = ("state", "channel", "event", "patient", "reason", "since", "until", "destination")
RATE: Final = 200


async def _list(call: WebCall) -> Response:
    return await _form(call, {})


async def _plan(call: WebCall) -> Response:
    """Show what a run would take up; nothing is begun before that was seen."""
    given = _given(call)
    try:
        plan = await call.perform(PlanReplay, **given, dry_run=True)
    except UsageError as error:
        return await _form(call, given, 422, str(error).removeprefix("--"))
    kept = call.context.searches.keep(call.owner, given)
    return call.page(
        "run_plan.html", plan=plan, kept=kept, filters={k: v for k, v in given.items() if k in FILTERS}, given=given
    )


async def _start(call: WebCall) -> Response:
    """Begin what was planned, as it was kept: the form carries its id alone."""
    given = call.context.searches.find(call.owner, call.form.get("plan", ""))
    if given is None:
        raise RefusedRequestError(404, "this plan has expired: make it again")
    run = await call.perform(StartReplay, **given)
    return go(f"/runs/{run.run}", "run")


async def _show(call: WebCall) -> Response:
    return call.page("run.html", run=await _run(call))


async def _live(call: WebCall) -> Response:
    number = call.run()
    await call.perform(ShowReplay, run=number)

    async def progress() -> str:
        return call.part("parts/run.html", run=await call.perform(ShowReplay, run=number))

    return streamed(call, progress)


async def _form(call: WebCall, given: dict[str, object], status: int = 200, alarm: str = "") -> Response:
    runs = await call.perform(ListReplays, limit=50)
    channels, destinations = sorted(call.context.engine.feeds), sorted(call.context.engine.dispatches)
    return call.page(
        "runs.html", status, runs=runs, given=given, alarm=alarm, channels=channels, destinations=destinations,
        rate=RATE, states=STATES,
    )  # fmt: skip


async def _run(call: WebCall) -> ReplayRun:
    return await call.perform(ShowReplay, run=call.run())


def _given(call: WebCall) -> dict[str, object]:
    given: dict[str, object] = {name: call.form[name].strip() for name in FILTERS if call.form.get(name, "").strip()}
    rate = call.form.get("rate", "").strip()
    if rate:
        given["rate"] = digits_of(rate)
        if given["rate"] is None:
            raise RefusedRequestError(422, "the rate is a number of entries a second")
    return given


ROUTES: Final = (
    Route("GET", "/runs", Permission.METADATA, _list, label="Bulk runs"),
    Route("POST", "/runs/plan", Permission.OPERATE, _plan),
    Route("POST", "/runs/start", Permission.OPERATE, _start),
    Route("GET", "/runs/{run}", Permission.METADATA, _show),
    Route("GET", "/live/run", Permission.METADATA, _live),
    form("/runs/{run}/pause", PauseReplay, to="/runs/{run}", notice="paused"),
    form("/runs/{run}/stop", StopReplay, to="/runs/{run}", notice="stopped"),
    form("/runs/{run}/resume", ResumeReplay, to="/runs/{run}", notice="run"),
)
