"""`adt-engine interchange webhooks`: events on their way to subscribers, whether the service runs or not."""

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from engine.clock import now
from engine.errors import UsageError
from engine.interchange.events.webhooks.overview import EventOverview, list_events, retry_events, show_event
from engine.interchange.store.place import place_of
from engine.terminal.options import DATABASE, AsJson, Database
from engine.terminal.table import output, print_json, print_line, table, utc

app = typer.Typer(help="List and show events for subscribers, and send them again.", no_args_is_help=True)


class EventState(StrEnum):
    """States of an event in the list."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DROPPED = "dropped"
    OFF = "off"
    DELETED = "deleted"
    GONE = "gone"


Tenant = Annotated[str, typer.Option("--tenant", help="Only events of this tenant.")]
Subscription = Annotated[str, typer.Option("--subscription", help="Only events of this Subscription (its id).")]


@app.command(name="list")
def list_(
    tenant: Tenant = "",
    subscription: Subscription = "",
    state: Annotated[EventState | None, typer.Option(help="Only events in this state.")] = None,
    database: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """List events, the last thousand: those that wait, and those that were dropped after six attempts.

    Example: adt-engine interchange webhooks list --state dropped --database sqlite:///adt-data/interchange.db
    """
    events = list_events(place_of(database), tenant, subscription, state or "")
    if as_json:
        print_json([asdict(event) for event in events])
        return
    headings = ("#", "Tenant", "Subscription", "Event", "State", "Made (UTC)", "Due or ended (UTC)", "Tries #")
    rows = (
        (
            str(event.number),
            event.tenant,
            event.subscription,
            event.event,
            event.state,
            utc(event.made_at),
            utc(event.due_at or event.ended_at),
            event.tries,
        )
        for event in events
    )
    output().print(table(headings, rows))


@app.command()
def show(
    number: Annotated[int, typer.Argument(metavar="EVENT", help="The number that `list` shows.")],
    database: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """Show an event: whose it is, where it goes, and each time that it was sent with what came of it; not its body.

    Example: adt-engine interchange webhooks show 17
    """
    _print((show_event(place_of(database), number),), as_json=as_json)


@app.command()
def retry(
    number: Annotated[int, typer.Argument(metavar="[EVENT]", help="The number that `list` shows.")] = 0,
    subscription: Annotated[
        str, typer.Option("--subscription", help="All events of this Subscription that were given up.")
    ] = "",
    database: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """Send an event again that was given up, with six attempts; one that waits is sent at once.

    Its subscription must be active. The access log has a row of it.

    Example: adt-engine interchange webhooks retry --subscription 5f0e7a2b9c1d4c6d8e0f1a2b
    """
    if bool(number) == bool(subscription):
        raise UsageError("name either an event (its number) or a --subscription")
    _print(retry_events(place_of(database), now, number, subscription), as_json=as_json)


def _print(found: tuple[EventOverview, ...], *, as_json: bool) -> None:
    if as_json:
        print_json([asdict(one) for one in found] if len(found) != 1 else asdict(found[0]))
        return
    for seen in found:
        for name, value in asdict(seen).items():
            if value and not isinstance(value, tuple):
                print_line(f"{name.replace('_', ' ')}: {value}")
        for attempt in seen.attempts:
            result = ", ".join(filter(None, (str(attempt.status or "no answer"), attempt.reason)))
            print_line(f"sent {attempt.attempt}: {utc(attempt.began_at)}, {result}")
