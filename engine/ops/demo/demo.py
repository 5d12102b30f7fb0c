"""`adt-engine demo`: the service, the engine, the samples and some hospital days, end to end, shown and compared."""

import asyncio
import secrets
import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import orjson
import typer

from engine.config.settings import child_environment, shipped
from engine.errors import AdtEngineError, UsageError
from engine.ops.demo.chart import DemoCharts
from engine.ops.demo.demo_days import FEED, Days, go_on, live, stream
from engine.ops.demo.demo_feed import FeedResult, feed
from engine.ops.demo.processes import Child, start
from engine.ops.demo.receivers import RADIOLOGY, REGISTRATION, DemoReceiver
from engine.ops.demo.way_back import WayBack, begin, change
from engine.ops.demo.webhook import CERTIFICATE, DemoWebhook, subscription
from engine.ops.operations.access import AddUser
from engine.ops.terminal.command import ask
from engine.ops.views.phrases import phrase
from engine.security.passwords import SHORTEST
from engine.terminal.options import AsJson
from engine.terminal.table import NEGATIVE, POSITIVE, cell, errors, output, table

SECRET_VARIABLE = "ENGINE_SECRET"  # noqa: S105 - the name of a variable, no secret
CLIENT = "engine"
CLINICIAN = "clinician"
# The header of a program that changes charts, for who wants to change one.
HEADER = "clinician.txt"
OPERATOR = "operator"
# The demo's own feed comes from the same address as what somebody sends meanwhile, perhaps in two terminals.
CONNECTIONS = 64

# Merged in the samples: its chart has a history.
SHOWN_NUMBER = "100021"
SHOWN_SYSTEM = "https://mrn.riverbend.example"

_SERVICE = f"""\
environment: sandbox
base_url: http://127.0.0.1:0
service_identifier_system: https://cdis.example
webhooks: {{ca_bundle: {CERTIFICATE}}}
tenants:
  riverbend: {{webhook_allow: [127.0.0.1]}}
clients:
  engine:
    tenant: riverbend
    secret: {{env: {SECRET_VARIABLE}}}
    name: adt-engine
    grants: [client_credentials]
    scopes: ["system/*.*"]
    role: system-integration
  clinician:
    tenant: riverbend
    secret: {{env: {SECRET_VARIABLE}}}
    name: A clinician's program
    grants: [client_credentials]
    scopes: ["system/Patient.*"]
    role: system-integration
  chart:
    tenant: riverbend
    name: The demo's charts
    grants: [authorization_code]
    redirect_uris: ["http://127.0.0.1:0/chart/signed-in"]
    scopes: ["user/*.read"]
users:
  nurse: {{tenant: riverbend, role: nurse, name: A nurse of the demo}}
auth: {{auto_login_user: nurse}}
"""


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="Stop after the samples; exit 0 if all ended as expected.")
    ] = False,
    data: Annotated[Path | None, typer.Option("--data", help="Keep the demo's files in this new folder.")] = None,
    events: Annotated[int, typer.Option(min=0, max=100_000, help="Simulated messages after the samples.")] = 500,
    rate: Annotated[float, typer.Option(min=0, help="Simulated messages a second while it stays up; 0: none.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Show the whole thing: the FHIR service, the engine, the sample messages and some simulated hospital days.

    Prints for each sample its acknowledgement, the FHIR calls it led to and the patient that resulted, compared with
    what samples/expected.yaml says; then how the simulated messages ended, and the message by which an old system
    learns what a clinician changed. Both processes stay up until Ctrl-C, and the days go on, unless --once is given.

    Example: adt-engine demo --once
    """
    if data is not None and data.exists() and any(data.iterdir()):
        raise UsageError(f"{data} is not empty: name a new folder, the demo starts from nothing")
    folder = data or Path(tempfile.mkdtemp(prefix="adt-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        good = asyncio.run(_demonstrate(folder, events, None if once else rate, as_json=as_json))
    finally:
        if data is None:
            shutil.rmtree(folder, ignore_errors=True)
    if once and not good:
        raise typer.Exit(1)


async def _demonstrate(folder: Path, events: int, rate: float | None, *, as_json: bool) -> bool:
    """Run the demo; say whether all came out as expected. `rate` None: stop after the last message."""
    secret = secrets.token_urlsafe(24)
    environment = child_environment(**{SECRET_VARIABLE: secret})
    async with AsyncExitStack() as ends:
        webhook = DemoWebhook(folder)
        endpoint = await webhook.start()
        ends.push_async_callback(webhook.stop)
        service = await _start_service(folder, environment)
        ends.push_async_callback(service.stop)
        radiology = DemoReceiver(folder, RADIOLOGY)
        registration = DemoReceiver(folder, REGISTRATION, whole=True)
        await ends.enter_async_context(radiology.receiver)
        await ends.enter_async_context(registration.receiver)
        engine = await _start_engine(folder, environment, service, radiology)
        ends.push_async_callback(engine.stop)
        address = f"http://127.0.0.1:{service.port}"
        charts, clinician = DemoCharts(address, CLIENT, secret), DemoCharts(address, CLINICIAN, secret)
        ends.push_async_callback(charts.close)
        ends.push_async_callback(clinician.close)
        await charts.subscribe(subscription(endpoint))
        results = await feed(folder / "engine", engine.port, charts, watch=None if as_json else _progress)
        await begin(folder, engine, registration)
        messages = stream()
        days = await live(folder / "engine", engine.port, messages, events)
        told = await change(folder / "engine", clinician, SHOWN_SYSTEM, SHOWN_NUMBER, registration)
        _report(results, days, told, (webhook, radiology), as_json=as_json)
        if rate is not None:
            going = asyncio.ensure_future(go_on(engine.port, messages, rate)) if rate else None
            places = _places(folder, service, engine, await _way_in(folder, engine))
            places += await _way_to_change(folder, address, clinician)
            await _stay(places, (service, engine), going)
    return days.good and told.good and all(result.as_expected for result in results)


async def _start_service(folder: Path, environment: dict[str, str]) -> Child:
    configuration = folder / "interchange.yaml"
    configuration.write_text(_SERVICE)
    database = f"sqlite:///{folder / 'interchange.db'}"
    arguments = ["interchange", "--config", str(configuration), "--port", "0", "--database", database]
    return await start("the interchange service", arguments, environment, folder / "interchange.log")


async def _start_engine(folder: Path, environment: dict[str, str], service: Child, radiology: DemoReceiver) -> Child:
    channels = folder / "channels"
    channels.mkdir()
    text = (shipped("channels") / f"{FEED}.yaml").read_text()
    text = text.replace("127.0.0.1:8080", f"127.0.0.1:{service.port}").replace("port: 2575", "port: 0")
    relay = orjson.dumps(radiology.destination).decode()
    text += f"  - {relay}\nlimits: {{connections_per_address: {CONNECTIONS}}}\n"
    (channels / f"{FEED}.yaml").write_text(text)
    arguments = ["run", "--channels", str(channels), "--data", str(folder / "engine"), "--admin", "127.0.0.1:0"]
    return await start("the engine", arguments, environment, folder / "engine.log", ready="started")


def _progress(result: FeedResult) -> None:
    console = output()
    mark = cell("ok  ", POSITIVE) if result.as_expected else cell("NOT ", NEGATIVE)
    line = f"{result.file:<38} {result.ack:<6} {result.outcome:<10} {result.calls}"
    console.print(mark, cell(line), sep="", soft_wrap=True)
    if result.patient:
        console.print(cell(f"      {result.patient}", "dim"), soft_wrap=True)
    for difference in result.differences:
        console.print(cell(f"      {difference}", NEGATIVE), soft_wrap=True)


def _report(
    results: list[FeedResult], days: Days, told: WayBack, others: tuple[DemoWebhook, DemoReceiver], *, as_json: bool
) -> None:
    webhook, radiology = others
    good = sum(result.as_expected for result in results)
    if as_json:
        rows = [result.as_row() for result in results]
        whole = {"messages": rows, "as_expected": good, "of": len(results), "days": days.as_row()}
        whole |= {"webhook": {"received": webhook.received}, "radiology": {"received": radiology.received}}
        whole |= {"registration": told.as_row()}
        typer.echo(orjson.dumps(whole, option=orjson.OPT_INDENT_2))
        return
    console = output()
    counts: dict[tuple[str, str], int] = {}
    for result in results:
        counts[result.ack, result.outcome] = counts.get((result.ack, result.outcome), 0) + 1
    console.print()
    console.print(table(("ACK", "Ended", "Messages #"), ((*key, count) for key, count in sorted(counts.items()))))
    console.print(cell(f"{good} of {len(results)} as expected", POSITIVE if good == len(results) else NEGATIVE))
    if days.sent:
        _report_days(days)
    console.print(cell(f"{webhook.received} changes of charts sent to a subscriber's webhook"), soft_wrap=True)
    console.print(cell(f"{radiology.received} messages passed on to radiology, as they came in"), soft_wrap=True)
    _report_way_back(told)


def _report_days(days: Days) -> None:
    console = output()
    console.print()
    rows = ((phrase(state), reason, count) for (state, reason), count in sorted(days.ends.items()))
    console.print(table(("Ended", "Reason", "Messages #"), rows))
    answers = ", ".join(f"{count} {code}" for code, count in sorted(days.answers.items()))
    resent = days.sent - sum(days.ends.values()) - days.missing
    text = f"{days.sent} simulated messages answered {answers}; {resent} of them sent twice, {days.missing} missing"
    console.print(cell(text, POSITIVE if days.good else NEGATIVE), soft_wrap=True)


def _report_way_back(told: WayBack) -> None:
    console = output()
    console.print()
    what = f"registration is told by {told.event}" if told.message else "registration is told nothing"
    text = f"A clinician changed the telephone of {SHOWN_NUMBER}: {what}"
    text += f"; of {told.own} changes that the feed itself made {told.echoes} came back"
    console.print(cell(text, POSITIVE if told.good else NEGATIVE), soft_wrap=True)
    for segment in told.message.splitlines():
        console.print(cell(f"      {segment}", "dim"), soft_wrap=True)


async def _way_in(folder: Path, engine: Child) -> str:
    """Make an operator's account and return the link with which its password is chosen."""
    port = engine.logged("pages listening")["port"]
    invited = await asyncio.to_thread(ask, folder / "engine", AddUser(name=OPERATOR, role=OPERATOR))
    return f"http://127.0.0.1:{port}/set-up?{urlencode({'name': invited.name, 'token': invited.token})}"


def _places(folder: Path, service: Child, engine: Child, link: str) -> str:
    """Return where to look, and what to type in a second terminal."""
    address = f"http://127.0.0.1:{service.port}"
    return (
        f"\nStill running until Ctrl-C:\n"
        f"  pages    {link}\n"
        f"           as {OPERATOR}; the link works once: choose a password of {SHORTEST} characters or more\n"
        f"  charts   {address}/chart\n"
        f"           signed in as a nurse; search a record number such as {SHOWN_NUMBER}\n"
        f"  webhook  tail -f {folder / 'webhook.txt'}\n"
        f"           a line for each change of a chart, as a subscriber receives it\n"
        f"  relay    tail -f {folder / 'radiology.txt'}\n"
        f"           a line for each message that is passed on to another system\n"
        f"  back     tail -f {folder / 'registration.txt'}\n"
        f"           each message that tells registration of a change in a chart; nothing that the feed itself said\n"
        f"  FHIR     {address}/fhir/R4/metadata\n"
        f"  MLLP     adt-engine send FILE --to 127.0.0.1:{engine.port}\n"
        f"           adt-engine simulate --events 500 --to 127.0.0.1:{engine.port}\n"
        f"  entries  adt-engine messages list --data {folder / 'engine'}"
    )


async def _way_to_change(folder: Path, address: str, clinician: DemoCharts) -> str:
    """Return a command that changes a chart; the token that it needs is in a file that nobody else may read."""
    patient = await clinician.by_identifier(SHOWN_SYSTEM, SHOWN_NUMBER)
    if patient is None:
        raise AdtEngineError(f"the service finds no one patient under {SHOWN_NUMBER}")
    header = folder / HEADER
    header.touch(mode=0o600)
    header.write_text(": ".join(await clinician.authorization()) + "\n")
    return (
        f"\n  change   curl -X PATCH {address}/fhir/R4/Patient/{patient['id']} -H @{header} \\\n"
        f"             -H 'Content-Type: application/json-patch+json' \\\n"
        f'             -d \'[{{"op": "replace", "path": "/telecom/0/value", "value": "(555)555-0177"}}]\'\n'
        f"           changes a chart as a clinician's program does, within the hour: registration is told"
    )


async def _stay(places: str, processes: Sequence[Child], going: "asyncio.Future[None] | None") -> None:
    errors().print(places, soft_wrap=True)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    ends = [
        asyncio.ensure_future(stop.wait()),
        *(asyncio.ensure_future(child.process.wait()) for child in processes),
    ]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
    if going is not None:
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
