"""`adt-engine receive`: a simulated receiver of MLLP, to try a sender without the other system at hand."""

import asyncio
import re
import signal
import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer

from engine.acknowledge.code import AckCode
from engine.config.channel import AcknowledgementMode
from engine.errors import StartError, UsageError
from engine.http.tls import KeyPair, server_context
from engine.mllp.acknowledgement import printable
from engine.ops.receiver.receiver import (
    BLOCK_BYTES,
    MllpReceiver,
    ReceivedMessage,
    ReceiverBehaviour,
    ReceiverEvent,
    ReceiverFault,
    Repeat,
)
from engine.receive.block import enclose
from engine.terminal.table import cell, note

NONE: Final = "none"
ANSWERS: Final = (*AckCode, NONE)
LOOPBACK: Final = ("127.", "::1", "localhost")
_LINE: Final = re.compile(rb"[\r\n]+")


def _every(text: str) -> Any:
    return typer.Option(min=0, metavar="N", help=f"Each Nth message {text}; 0: none.", rich_help_panel="Faults")


def receive(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one; the first line names it.")] = 2600,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    answer: Annotated[
        str, typer.Option(metavar="CODE", help="AA, AE or AR; CA, CE or CR (nothing after it); or none.")
    ] = "AA",
    mode: Annotated[
        AcknowledgementMode,
        typer.Option(help="enhanced: CA at once, then the answer; auto: as MSH-15 and MSH-16 ask."),
    ] = AcknowledgementMode.AUTO,
    delay: Annotated[
        float, typer.Option(min=0, help="Seconds before each answer; in enhanced mode after CA, which goes at once.")
    ] = 0,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Keep the exact bytes in the order received: a file each in this new folder, or all in one FILE.hl7, "
            "each as an MLLP block."
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Print whole messages. Without it nothing of a patient is printed.")
    ] = False,
    limit: Annotated[int, typer.Option(min=64, help="Most bytes of a message; one that has more is reported.")] = (
        BLOCK_BYTES
    ),
    tls_certificate: Annotated[
        Path | None, typer.Option(help="PEM file of the receiver's certificate chain; enables TLS.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file of its private key.")] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="PEM file of the authority that senders' certificates must be of (mTLS).")
    ] = None,
    fail: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N=CODE",
            help="Each Nth message is answered with CODE instead; several times: the first that fits.",
            rich_help_panel="Faults",
        ),
    ] = None,
    drop_answers: Annotated[int, _every("is taken, and the connection is closed before its answer")] = 0,
    silent: Annotated[int, _every("is taken and never answered; the connection stays open")] = 0,
    garbage: Annotated[int, _every("is answered by a block that is no acknowledgement")] = 0,
    wrong_id: Annotated[int, _every("is answered with another control id in MSA-2")] = 0,
    refuse_after: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Close the port after N connections: later ones are refused, open ones go on; 0: never.",
            rich_help_panel="Faults",
        ),
    ] = 0,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="A chance of one in N for each message instead of each Nth; a seed draws the same ones again.",
            rich_help_panel="Faults",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Write a line of JSON for each message and event, and the summary as the last."),
    ] = False,
) -> None:
    """Receive HL7 messages over MLLP as another system would: print a line for each, answer, fail on request.

    A line has the time, connection, MSH-9, MSH-10, bytes, whether it is new or a repeat (the same MSH-3, MSH-4 and
    MSH-10, with the same bytes or with others), and what is answered; nothing else of the message, unless --full.
    What was sent and never came cannot be known here: compare the summary with what the sender counts. Ctrl-C or
    SIGTERM ends it with that summary and exit 0.

    Example: adt-engine receive --port 2600 --fail 10=AE
    """
    behaviour = ReceiverBehaviour(
        answer=_answer(answer),
        mode=mode,
        delay_seconds=delay,
        fail=tuple(_failure(one) for one in fail or ()),
        every={
            ReceiverFault.DROPPED: drop_answers,
            ReceiverFault.SILENT: silent,
            ReceiverFault.GARBAGE: garbage,
            ReceiverFault.WRONG_ID: wrong_id,
        },
        seed=seed,
        connections=refuse_after,
        block_bytes=limit,
    )
    tls = _context(tls_certificate, tls_key, tls_client_ca)
    keep = None if save is None else _keeping(save)
    if tls is None and not host.startswith(LOOPBACK):
        note(f"what comes to {host} can be read on the way: --tls-certificate and --tls-key encrypt it")
    told = partial(_observe, keep=keep, full=full, as_json=as_json)
    asyncio.run(_receive(MllpReceiver(behaviour, host=host, port=port, tls=tls, observe=told), host, as_json=as_json))


async def _receive(receiver: MllpReceiver, host: str, *, as_json: bool) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    try:
        await receiver.__aenter__()
    except OSError as error:
        where = f"{host}:{receiver.port}"
        raise StartError(f"cannot listen at {where} ({error.strerror}); name another --port or --host") from error
    try:
        _write(
            {"listening": {"host": host, "port": receiver.port}} if as_json else f"listening at {host}:{receiver.port}"
        )
        stopped = loop.create_task(stop.wait())
        await asyncio.wait((stopped, receiver.failed), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
    finally:
        await receiver.__aexit__()
    if receiver.failed.done():
        receiver.failed.result()
    _write({"summary": _totals(receiver)} if as_json else _summary(receiver))


def _answer(text: str) -> AckCode | None:
    if text not in ANSWERS:
        raise UsageError(f"--answer {text} is no answer; write one of {', '.join(ANSWERS)}")
    return None if text == NONE else AckCode(text)


def _failure(text: str) -> tuple[int, AckCode]:
    every, _, code = text.partition("=")
    if not (every.isascii() and every.isdigit() and int(every) and code in set(AckCode)):
        raise UsageError(f"--fail {text} is not N=CODE; write one such as 10=AE")
    return int(every), AckCode(code)


def _context(certificate: Path | None, key: Path | None, client_ca: Path | None) -> ssl.SSLContext | None:
    """Return the context of TLS, None where no file is named; UsageError for half of it, StartError for bad files."""
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        raise UsageError("TLS needs --tls-certificate and --tls-key: name both")
    context = server_context(KeyPair(certificate, key, ("--tls-certificate", "--tls-key")))
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise StartError(f"--tls-client-ca: {client_ca} is not a usable PEM file ({error.strerror})") from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _keeping(place: Path) -> Callable[[ReceivedMessage], None]:
    """Return what writes a message to its place before it is answered; UsageError where something is there already."""
    single = place.suffix == ".hl7"
    if place.is_file() or (place.is_dir() and any(place.iterdir())):
        raise UsageError(f"{place} is not empty: name a new {'file' if place.is_file() else 'folder'}")

    def keep(message: ReceivedMessage) -> None:
        try:
            if single:
                with place.open("ab") as file:
                    file.write(enclose(message.raw))
            else:
                (place / f"{message.number:06d}.hl7").write_bytes(message.raw)
        except OSError as error:
            raise UsageError(f"{place} cannot be written ({error.strerror})") from error

    try:
        if single:
            place.touch(mode=0o600)
        else:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{place} cannot be written ({error.strerror})") from error
    return keep


def _observe(
    one: ReceivedMessage | ReceiverEvent, *, keep: Callable[[ReceivedMessage], None] | None, full: bool, as_json: bool
) -> None:
    if isinstance(one, ReceiverEvent):
        _write(_event_fields(one) if as_json else _event_line(one))
        return
    if keep:
        keep(one)
    segments = [printable(line) for line in _LINE.split(one.raw) if line] if full else []
    if as_json:
        _write({"message": _fields(one) | ({"segments": segments} if full else {})})
        return
    _write("  ".join(map(str, _columns(one))))
    for segment in segments:
        _write(f"    {segment}")


def _fields(message: ReceivedMessage) -> dict[str, object]:
    header = message.header
    return {
        "number": message.number,
        "at": message.at.isoformat(),
        "connection": message.connection,
        "type": printable(header.field(9)) if header else None,
        "control_id": printable(header.control_id) if header else None,
        "bytes": len(message.raw),
        "repeat": message.repeat,
        "answers": message.codes,
        "fault": message.fault,
    }


def _columns(message: ReceivedMessage) -> Iterable[object]:
    header = message.header
    yield f"{message.at.astimezone():%H:%M:%S.%f}"[:-3]
    yield f"#{message.connection}"
    yield printable(header.field(9)) or "–" if header else "no HL7"
    yield printable(header.control_id) or "–" if header else "–"
    yield f"{len(message.raw)} bytes"
    yield message.repeat
    yield message.fault or " ".join(message.codes) or "no answer"


def _event_fields(event: ReceiverEvent) -> dict[str, object]:
    named = {"kind": event.kind, "at": event.at.isoformat(), "connection": event.connection, "bytes": event.size_bytes}
    return {"event": named}


def _event_line(event: ReceiverEvent) -> str:
    size = f"  {event.size_bytes} bytes" if event.size_bytes else ""
    return f"{event.at.astimezone():%H:%M:%S.%f}"[:-3] + f"  #{event.connection}  {event.kind}{size}"


def _totals(receiver: MllpReceiver) -> dict[str, object]:
    return {
        "messages": receiver.messages.total(),
        "new": receiver.messages[Repeat.NEW],
        "repeats": receiver.messages[Repeat.SAME],
        "repeats_with_other_bytes": receiver.messages[Repeat.OTHER],
        "connections": receiver.connections,
        "answers": _sorted(receiver.answers),
        "faults": _sorted(receiver.faults),
        "events": _sorted(receiver.events),
    }


def _sorted(counts: Mapping[Any, int]) -> dict[str, int]:
    return {str(name): count for name, count in sorted(counts.items())}


def _summary(receiver: MllpReceiver) -> str:
    counted = receiver.messages
    came = (
        f"{counted.total()} messages: {counted[Repeat.NEW]} new, {counted[Repeat.SAME]} repeats, "
        f"{counted[Repeat.OTHER]} repeats with other bytes; {receiver.connections} connections"
    )
    rest = (("answers", receiver.answers), ("faults", receiver.faults), ("events", receiver.events))
    lines = (
        f"{name}: " + ", ".join(f"{count} {kind}" for kind, count in _sorted(counts).items())
        for name, counts in rest
        if counts
    )
    return "\n".join((came, *lines))


def _write(said: str | dict[str, object]) -> None:
    """Write a line at once, also into a pipe; what came from outside holds no control characters."""
    lines = said.split("\n") if isinstance(said, str) else ()
    typer.echo("\n".join(cell(line).plain for line in lines) if lines else orjson.dumps(said))
