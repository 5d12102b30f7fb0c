"""`adt-engine send`: the MLLP client, with a table of what was answered."""

import asyncio
import ssl
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Final

import typer

from engine.errors import UsageError
from engine.http.tls import client_context
from engine.ops.sender.feed import read_placed
from engine.ops.sender.line import BlockAnswer, send_messages
from engine.terminal.options import AsJson
from engine.terminal.table import NEGATIVE, POSITIVE, cell, output, print_json, print_line, progress, table

COLUMNS: Final = ("#", "Control ID", "Event", "ACK", "Error", "Text", "Time ms")
_ROWS_SHOWN: Final = 60

Connections = Annotated[int, typer.Option(min=1, max=1024, help="Connections; each patient stays on one.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")]
Authority = Annotated[Path | None, typer.Option(help="PEM file of the certificate authority to trust; enables TLS.")]
Certificate = Annotated[Path | None, typer.Option(help="PEM file of our certificate and key, for mTLS.")]


def send(
    files: Annotated[list[Path], typer.Argument(help="Files, batch files, or folders of *.hl7 files.")],
    to: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the engine listens.")] = "127.0.0.1:2575",
    rate: Annotated[float, typer.Option(min=0, help="Messages per second in total; 0 for no limit.")] = 0,
    connections: Connections = 1,
    timeout: Timeout = 30,
    tls_ca: Authority = None,
    tls_certificate: Certificate = None,
    as_json: AsJson = False,
) -> None:
    """Send HL7 messages over MLLP and show their acknowledgements.

    With one connection the whole order is kept; with several, each patient's messages stay on one of them, in order.
    Exit 0 if all were answered positively, 1 if some were not, 2 on wrong use.

    Example: adt-engine send samples --to 127.0.0.1:2575
    """
    host, port = far_end(to)
    placed = read_placed(files)
    context = trusted(tls_ca, tls_certificate)
    started = time.perf_counter()
    with progress(shown=not as_json) as bar:
        task = bar.add_task("sending", total=len(placed))
        answers = asyncio.run(
            send_messages(
                host,
                port,
                [message for _, message in placed],
                connections=connections,
                rate=rate,
                timeout_seconds=timeout,
                tls=context,
                on_answer=lambda _: bar.advance(task),
            )
        )
    seconds = time.perf_counter() - started
    if as_json:
        print_json(_report(answers, [file for file, _ in placed], seconds))
    else:
        _show(answers, seconds)
    if not all(answer.positive for answer in answers):
        raise typer.Exit(1)


def far_end(text: str) -> tuple[str, int]:
    """Read HOST:PORT; UsageError for anything else."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"--to {text} is not HOST:PORT; write one such as 127.0.0.1:2575")
    return host.strip("[]"), int(port)


def trusted(authority: Path | None, certificate: Path | None) -> ssl.SSLContext | None:
    """Return what TLS trusts and shows, None where neither file is named; UsageError for a file that cannot be used."""
    if authority is None and certificate is None:
        return None
    try:
        return client_context(authority, certificate=certificate)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{authority or certificate} is not a usable PEM file ({error.strerror})") from error


def _totals(answers: list[BlockAnswer]) -> dict[str, int]:
    codes = Counter(ack.code for answer in answers for ack in answer.acks)
    missing = sum(bool(answer.failure) for answer in answers)
    return dict(sorted(codes.items())) | ({"no answer": missing} if missing else {})


def _report(answers: list[BlockAnswer], files: list[Path], seconds: float) -> dict[str, object]:
    return {
        "messages": [
            {
                "file": str(files[answer.position]),
                "control_id": answer.control_id,
                "event": answer.event,
                "positive": answer.positive,
                "acks": [
                    {"code": ack.code, "control_id": ack.control_id, "errors": [list(error) for error in ack.errors]}
                    for ack in answer.acks
                ],
                "failure": answer.failure,
                "milliseconds": round(answer.milliseconds, 3),
            }
            for answer in answers
        ],
        "totals": _totals(answers),
        "seconds": round(seconds, 3),
    }


def _show(answers: list[BlockAnswer], seconds: float) -> None:
    listed = answers if len(answers) <= _ROWS_SHOWN else [answer for answer in answers if not answer.positive]
    if listed:
        output().print(table(COLUMNS, (row_of(answer) for answer in listed[:_ROWS_SHOWN])))
    if len(listed) > _ROWS_SHOWN:
        print_line(f"… and {len(listed) - _ROWS_SHOWN} more that were not accepted")
    totals = ", ".join(f"{count} {code}" for code, count in _totals(answers).items()) or "no answers asked for"
    print_line(f"{len(answers)} sent in {seconds:.1f} s ({len(answers) / max(seconds, 1e-9):.0f}/s): {totals}")


def row_of(answer: BlockAnswer) -> tuple[object, ...]:
    """Return an answer as a row of the table."""
    codes = " ".join(ack.code for ack in answer.acks) or "–"
    return (
        answer.position + 1,
        answer.control_id,
        answer.event,
        cell(codes, POSITIVE if answer.positive else NEGATIVE),
        " ".join(code for code, _ in answer.errors),
        answer.failure or "; ".join(text for _, text in answer.errors),
        f"{answer.milliseconds:.1f}",
    )
