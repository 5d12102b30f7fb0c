"""`adt-engine status` and `top`: what is wrong and how messages flow, as the first page says it."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from engine.ops.operations.channels import ChannelView, ListChannels
from engine.ops.operations.destinations import DestinationView
from engine.ops.operations.messages import ShowThroughput
from engine.ops.operations.status import Health, Incident, ShowStatus, Stage, Status
from engine.ops.terminal.command import ask_if_running
from engine.ops.views.counts import Throughput
from engine.ops.views.incident import Severity, destination_words
from engine.ops.views.wording import moment_of, span
from engine.terminal.options import DATA, AsJson, Data
from engine.terminal.table import NEGATIVE, POSITIVE, cell, output, print_json, table, utc

EVERY_SECONDS: Final = 2.0
WARNING: Final = "yellow"
# As plugins of monitoring systems end: well, somebody should look, critical, unknown.
EXITS: Final[Mapping[Severity | None, int]] = {
    None: 0,
    Severity.CAN_WAIT: 0,
    Severity.TO_DECIDE: 1,
    Severity.URGENT: 2,
}
NO_ENGINE: Final = 3
STYLES: Final = {Severity.URGENT: NEGATIVE, Severity.TO_DECIDE: WARNING, Severity.CAN_WAIT: "bold"}
MARKS: Final = {Health.GOOD: POSITIVE, Health.WARN: WARNING, Health.BAD: NEGATIVE, Health.OFF: "dim"}

Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again every 2 seconds, until Ctrl-C.")]
Once = Annotated[bool, typer.Option("--once", help="Show it once, and end.")]


def status(data: Data = DATA, watch: Watch = False, as_json: AsJson = False) -> None:
    """Say what is wrong now, the gravest first, and how each stage that messages pass does.

    Exit code: 0 all is well or can wait until morning, 1 a person has to decide, 2 urgent, 3 no engine runs there.

    Example: adt-engine status --data /var/lib/adt-engine
    """
    if watch and not as_json:
        _repeated(lambda: _status(data))
        return
    found = ask_if_running(data, ShowStatus())
    if as_json:
        print_json({"sentence": _nobody(data), "severity": Severity.URGENT} if found is None else found)
    else:
        _print(_shown(found, data))
    raise typer.Exit(NO_ENGINE if found is None else EXITS[found.severity])


def top(data: Data = DATA, once: Once = False) -> None:
    """Show what is wrong, each channel and each destination, with rates of the last minute; again every 2 seconds.

    Example: adt-engine top --data /var/lib/adt-engine
    """
    if once or not output().is_terminal:
        _print(_top(data))
        return
    _repeated(lambda: _top(data))


Parts = Sequence[RenderableType]


def _print(parts: Parts) -> None:
    console = output()
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text))


def _repeated(draw: Callable[[], Parts]) -> None:
    """Draw on the whole screen again and again, until Ctrl-C; where nobody watches, once."""
    console = output()
    if not console.is_terminal:
        _print(draw())
        return
    with suppress(KeyboardInterrupt), Live(Group(*draw()), console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(EVERY_SECONDS)
            live.update(Group(*draw()), refresh=True)


def _status(data: Path) -> Parts:
    return _shown(ask_if_running(data, ShowStatus()), data)


def _nobody(data: Path) -> str:
    return f"No engine runs on {data}: messages are not accepted there."


def _shown(found: Status | None, data: Path) -> Parts:
    if found is None:
        next_step = f"Next: adt-engine run --data {data}, and see its log for why it ended."
        return cell(_nobody(data), NEGATIVE), cell(next_step, "dim")
    lines = [part for incident in found.incidents for part in _incident(incident)]
    if not lines:
        lines = [cell(found.sentence, POSITIVE)]
    if found.acknowledged:
        lines.append(cell(f"{found.acknowledged} acknowledged: adt-engine alerts list", "dim"))
    stages = table(("Stage", "State", "Also"), map(_stage, found.stages))
    since = f"adt-engine {found.version}, running for {_age(found.started_at)}"
    return *lines, cell(""), stages, cell(""), cell(since, "dim")


def _incident(incident: Incident) -> Iterator[RenderableType]:
    since = f" Since {utc(incident.since)[5:16]} UTC ({_age(incident.since)})." if incident.since else ""
    yield cell(f"{incident.severity.upper()}: {incident.sentence}{since}", STYLES[incident.severity])
    if incident.detail and incident.detail not in incident.sentence:
        yield cell(f"    {incident.detail}")
    if incident.next_step:
        number = f" (alert {incident.alert})" if incident.alert else ""
        yield cell(f"    Next: {incident.next_step}{number}", "dim")


def _stage(stage: Stage) -> Sequence[object]:
    also = [*stage.lines, *(f"{alert.kind} since {utc(alert.opened_at)[11:16]} UTC" for alert in stage.alerts)]
    if stage.destination is not None and stage.destination.next_try_at:
        also.append(next_try(stage.destination))
    return stage.name, cell(stage.state, MARKS[stage.health]), ", ".join(also)


def _top(data: Path) -> Parts:
    found = ask_if_running(data, ShowStatus())
    if found is None:
        return _shown(None, data)
    channels = ask_if_running(data, ListChannels()) or []
    destinations = (stage.destination for stage in found.stages if stage.destination is not None)
    passed = ask_if_running(data, ShowThroughput.parse({"since": "5m"}))
    head = cell(found.sentence, STYLES[found.severity] if found.severity else POSITIVE)
    if passed is None:
        return (head,)
    return (
        cell(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC, adt-engine {found.version}", "dim"),
        head,
        cell(""),
        table(
            ("Channel", "State", "Senders #", "A minute #", "Refused #", "ACK p50 ms", "ACK p99 ms", "Last message"),
            (_channel(channel, passed) for channel in channels),
        ),
        cell(""),
        table(
            ("Destination", "State", "Delivered a minute #", "Waiting #", "Oldest", "Held #"),
            (_destination(destination, passed) for destination in destinations),
        ),
    )


def _channel(channel: ChannelView, passed: Throughput) -> Sequence[object]:
    name = channel.channel
    p50, p99 = (_last(passed.ack_ms.get(name, {}).get(quantile, ())) for quantile in ("p50", "p99"))
    last = moment_of(channel.last_received_at)
    return (
        name,
        cell(channel.state, POSITIVE if channel.state == "listening" else NEGATIVE),
        channel.connections,
        _last(passed.received.get(name, ())) or "0",
        _last(passed.refused.get(name, ())) or "0",
        p50,
        p99,
        f"{_age(channel.last_received_at)} ago" if last else "none since the start",
    )


def _destination(destination: DestinationView, passed: Throughput) -> Sequence[object]:
    return (
        destination.destination,
        state_of(destination),
        _last(passed.settled.get(destination.destination, {}).get("delivered", ())) or "0",
        destination.waiting,
        _age(destination.oldest_received_at) if destination.oldest_received_at else "",
        destination.held,
    )


def state_of(destination: DestinationView) -> RenderableType:
    """Return a destination's state in words: `does not answer: connection refused, next try in 8 s`."""
    if destination.state == "ready":
        return cell("ready", POSITIVE)
    words = destination_words(destination.state, destination.reason, destination.detail)
    return cell(", ".join(filter(None, (words, next_try(destination)))), NEGATIVE)


def next_try(destination: DestinationView) -> str:
    """Return when a destination is tried again: `next try in 8 s`; '' where nothing is tried."""
    at = moment_of(destination.next_try_at)
    left = (at - datetime.now(UTC)).total_seconds() if at else 0.0
    return "" if at is None else f"next try in {span(left)}" if left >= 1 else "being tried now"


def _last(series: Sequence[float | None]) -> str:
    """Return the value of the last minute that is over, '' where nothing was measured."""
    value = series[-2] if len(series) > 1 else None
    return "" if value is None else f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _age(value: str | None) -> str:
    found = moment_of(value)
    return span((datetime.now(UTC) - found).total_seconds()) if found else ""
