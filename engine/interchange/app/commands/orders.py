"""`adt-engine interchange orders`: orders on their way to laboratories, whether the service runs or not."""

from dataclasses import asdict
from typing import Annotated, Final

import typer

from engine.clock import now
from engine.interchange.orders.laboratory.overview import (
    OrderOverview,
    OrderQuery,
    cancel_order,
    list_orders,
    retry_order,
    show_order,
)
from engine.interchange.store.place import place_of
from engine.interchange.store.transmission import TransmissionStatus
from engine.terminal.options import DATABASE, AsJson, Database, Yes, agreed
from engine.terminal.table import output, print_json, print_line, table, utc

TWICE: Final = "The laboratory may get the order twice: ask there first whether it has it. Send it again?"
HAS_IT: Final = "The laboratory may have the order and gets no message: inform it yourself. Cancel the order?"

Tenant = Annotated[str, typer.Option("--tenant", help="Only orders of this tenant.")]
OrderId = Annotated[str, typer.Argument(metavar="ORDER", help="The id of the RequestGroup.")]

app = typer.Typer(help="List, show, send again and take back orders to laboratories.", no_args_is_help=True)


@app.command(name="list")
def list_(
    tenant: Tenant = "",
    state: Annotated[TransmissionStatus | None, typer.Option(help="Only orders in this state.")] = None,
    laboratory: Annotated[str, typer.Option(help="Only orders to this laboratory (id of its Organization).")] = "",
    database: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """List orders in the order of placing: those that wait, are being sent or are held, and those that were refused.

    Example: adt-engine interchange orders list --state held --database sqlite:///adt-data/interchange.db
    """
    orders = list_orders(place_of(database), tenant, state or "", laboratory)
    if as_json:
        print_json([asdict(order) for order in orders])
        return
    headings = ("Order", "Tenant", "Laboratory", "State", "Since (UTC)", "Tries #", "Reason")
    rows = (
        (one.order, one.tenant, one.laboratory, one.standing, utc(one.since), one.tries, one.reason) for one in orders
    )
    output().print(table(headings, rows))


@app.command()
def show(order: OrderId, tenant: Tenant = "", database: Database = DATABASE, as_json: AsJson = False) -> None:
    """Show an order: where it is, each time that it was sent with what was answered, and its versions; no more of it.

    Example: adt-engine interchange orders show 9c1d5f0e7a2b4c6d8e0f1a2b
    """
    _print(show_order(OrderQuery(place_of(database), order, tenant)), as_json=as_json)


@app.command()
def retry(
    order: OrderId, tenant: Tenant = "", database: Database = DATABASE, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Let an order be sent again that is held. It bears the same control id; the access log has a row of it.

    Example: adt-engine interchange orders retry 9c1d5f0e7a2b4c6d8e0f1a2b --yes
    """
    _confirm(TWICE, yes=yes, as_json=as_json)
    _print(retry_order(OrderQuery(place_of(database), order, tenant), now), as_json=as_json)


@app.command()
def cancel(
    order: OrderId, tenant: Tenant = "", database: Database = DATABASE, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Take an order back that waits or is held, and cancel it. The access log has a row of it.

    Example: adt-engine interchange orders cancel 9c1d5f0e7a2b4c6d8e0f1a2b --yes
    """
    _confirm(HAS_IT, yes=yes, as_json=as_json)
    _print(cancel_order(OrderQuery(place_of(database), order, tenant), now), as_json=as_json)


def _confirm(question: str, *, yes: bool, as_json: bool) -> None:
    if not agreed(question, yes=yes, as_json=as_json):
        raise typer.Abort


def _print(seen: OrderOverview, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(seen))
        return
    for name, value in asdict(seen).items():
        if value and not isinstance(value, tuple):
            print_line(f"{name.replace('_', ' ')}: {value}")
    for transmission in seen.transmissions:
        result = ", ".join(filter(None, (transmission.outcome or "no end", transmission.reason)))
        print_line(f"sent {transmission.number}: {utc(transmission.began_at)}, {transmission.control_id}, {result}")
    for version in seen.history:
        print_line(f"version {version.number}: {utc(version.at)}, {version.status}")
