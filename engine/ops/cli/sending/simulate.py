"""`adt-engine simulate`: a believable, seeded ADT stream, to files or over MLLP."""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Annotated, Final

import typer

from engine.errors import UsageError
from engine.ops.cli.sending.send import COLUMNS, Authority, Certificate, Connections, Timeout, far_end, row_of, trusted
from engine.ops.sender.line import BlockAnswer, send_stream
from engine.simulation.world import PATIENTS, START, SimulatedMessage
from engine.simulation.world import simulate as stream
from engine.terminal.options import AsJson
from engine.terminal.table import note, output, print_json, print_line, progress, table

_EVENTS: Final = 1000
_REFUSED_KEPT: Final = 60
# A seed that is drawn has six digits: none is one of the small ones that people choose.
_DRAWN_SEEDS: Final = range(100_000, 1_000_000)


@dataclass(slots=True)
class _Counters:
    """What was made and, where it was sent, what was answered."""

    seed: int
    events: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    refused: list[BlockAnswer] = field(default_factory=list)
    written_bytes: int = 0

    def count(self, message: SimulatedMessage) -> SimulatedMessage:
        """Count one message and hand it on."""
        self.events[message.trigger] += 1
        self.written_bytes += len(message.raw)
        if message.note:
            self.notes[message.note] += 1
        return message

    def count_answer(self, answer: BlockAnswer) -> None:
        """Count what was answered; of the refusals the first are kept."""
        self.answers.update([ack.code for ack in answer.acks] or ["no answer"])
        if not answer.positive and len(self.refused) < _REFUSED_KEPT:
            self.refused.append(answer)


def simulate(
    patients: Annotated[int, typer.Option(min=1, max=1_000_000, help="People in care at any time.")] = PATIENTS,
    events: Annotated[
        int, typer.Option(min=0, help="Stop after this many messages; 0: 1000, or as many as --days makes.")
    ] = 0,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=999_999_999,
            help="The same seed produces the same bytes; without it a new one is drawn and named.",
        ),
    ] = None,
    to: Annotated[str, typer.Option(metavar="HOST:PORT", help="Send them there over MLLP.")] = "",
    out: Annotated[
        Path | None, typer.Option(help="Write one file per message into this folder, or all into one FILE.hl7.")
    ] = None,
    from_: Annotated[str, typer.Option("--from", metavar="DATE", help="The first day.")] = f"{START:%Y-%m-%d}",
    days: Annotated[float, typer.Option(min=0, help="Stop after this many simulated days; 0 for no limit.")] = 0,
    rate: Annotated[float, typer.Option(min=0, help="With --to: messages per second in total; 0 for no limit.")] = 0,
    connections: Connections = 1,
    timeout: Timeout = 30,
    tls_ca: Authority = None,
    tls_certificate: Certificate = None,
    as_json: AsJson = False,
) -> None:
    """Simulate hospital days: admissions, transfers, discharges, cancels, corrections, merges, births, resends.

    Four invented systems speak, in HL7 2.3 to 2.8 and two character sets, for the authorities RVB and LKS. Every name
    and number is made up, and each seed has numbers of its own, so that several can go to one engine. Exit 0 if all was
    written, or answered positively; 1 if something was refused.

    Example: adt-engine simulate --patients 20 --events 500 --seed 7 --out days
    """
    if bool(to) == (out is not None):
        raise UsageError("say where the messages go: --to HOST:PORT, or --out DIR")
    chosen = secrets.choice(_DRAWN_SEEDS) if seed is None else seed
    if seed is None:
        note(f"seed {chosen} (--seed {chosen} makes the same messages again)")
    counters = _Counters(chosen)
    count = events or (0 if days else _EVENTS)
    messages = map(counters.count, _bounded(stream(chosen, patients, _start(from_)), _start(from_), count, days))
    started = time.perf_counter()
    with progress(shown=not as_json) as bar:
        task = bar.add_task("simulating", total=count or None)
        advance = partial(bar.advance, task)
        if out is not None:
            _write(messages, out, advance)
        else:
            far, context = far_end(to), trusted(tls_ca, tls_certificate)

            def on_answer(answer: BlockAnswer) -> None:
                counters.count_answer(answer)
                advance()

            feed = ((message.family, message.raw) for message in messages)
            sending = send_stream(
                *far, feed, on_answer, connections=connections, rate=rate, timeout_seconds=timeout, tls=context
            )
            asyncio.run(sending)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(_report(counters, seconds))
    else:
        _show(counters, seconds, to or str(out))
    if counters.refused:
        raise typer.Exit(1)


def _start(text: str) -> datetime:
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError as error:
        raise UsageError(f"--from {text} is not a date; write one such as {START:%Y-%m-%d}") from error
    return day + timedelta(hours=START.hour)


def _bounded(
    messages: Iterator[SimulatedMessage], start: datetime, count: int, days: float
) -> Iterator[SimulatedMessage]:
    if days:
        end = start + timedelta(days=days)
        messages = takewhile(lambda message: message.event_at < end, messages)
    return islice(messages, count) if count else messages


def _write(messages: Iterator[SimulatedMessage], out: Path, advance: Callable[[], None]) -> None:
    """Write a file for each message, its name in order, or all of them into one file; nothing is written over."""
    single = out.suffix == ".hl7"
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise UsageError(f"{out} is not empty: name a new {'file' if out.is_file() else 'folder'}")
    try:
        if single:
            with out.open("xb") as file:
                for message in messages:
                    file.write(message.raw)
                    advance()
            return
        out.mkdir(parents=True, exist_ok=True)
        for number, message in enumerate(messages, 1):
            (out / f"{number:06d}-{message.trigger.lower()}.hl7").write_bytes(message.raw)
            advance()
    except OSError as error:
        raise UsageError(f"{out} cannot be written ({error.strerror})") from error


def _report(counters: _Counters, seconds: float) -> dict[str, object]:
    return {
        "seed": counters.seed,
        "messages": counters.events.total(),
        "bytes": counters.written_bytes,
        "events": dict(sorted(counters.events.items())),
        "notes": dict(sorted(counters.notes.items())),
        "totals": dict(sorted(counters.answers.items())),
        "refused": [
            {"control_id": one.control_id, "event": one.event, "code": one.code, "errors": list(map(list, one.errors))}
            for one in counters.refused
        ],
        "seconds": round(seconds, 3),
    }


def _show(counters: _Counters, seconds: float, where: str) -> None:
    if counters.refused:
        output().print(table(COLUMNS, map(row_of, counters.refused)))
    output().print(table(("Event", "Messages #"), sorted(counters.events.items())))
    total = counters.events.total()
    notes = "".join(f", {count} {note}" for note, count in sorted(counters.notes.items()))
    pace = f"{seconds:.1f} s ({total / max(seconds, 1e-9):.0f}/s)"
    print_line(f"seed {counters.seed}: {total} messages to {where} in {pace}{notes}")
    if counters.answers:
        print_line(", ".join(f"{count} {code}" for code, count in sorted(counters.answers.items())))
