"""`adt-engine journal copy`: a journal moves from its folder to PostgreSQL, or back."""

import signal
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import UsageError
from engine.journal.copying.copying import Copied, JournalLocation, copy_journal
from engine.journal.file.database import FILE
from engine.ops.access.keys import FILE as ACCESS_KEY
from engine.ops.terminal.address import database_address
from engine.ops.terminal.steps import end, steps
from engine.terminal.options import AsJson
from engine.terminal.table import NEGATIVE, POSITIVE, note, print_json, print_line


def copy(
    from_: Annotated[str, typer.Option("--from", metavar="DIR|URL", help="The journal to copy; no engine runs on it.")],
    to: Annotated[str, typer.Option("--to", metavar="URL|DIR", help="An empty database, or a new data folder.")],
    as_json: AsJson = False,
) -> None:
    """Copy a journal from a data folder to PostgreSQL, or back, and verify the copy against it.

    Everything keeps its number, and the source stays as it is. Cut off at any moment, the same command goes on where it
    stopped; until it has ended no engine starts on the copy. The password of the database comes from PGPASSWORD,
    PGPASSFILE or ~/.pgpass.

    Example: adt-engine journal copy --from /var/lib/adt-engine --to postgresql://engine@db/adt
    """
    source, target = _place("--from", from_), _place("--to", to)
    if isinstance(source, Path) and isinstance(target, Path):
        raise UsageError("one of --from and --to is a database; for a copy of a folder use `journal backup`")
    signal.signal(signal.SIGTERM, end)
    try:
        with steps(shown=not as_json) as watch:
            copied = copy_journal(source, target, watch)
    except KeyboardInterrupt:
        note("The copy was cut off: repeat the command, which goes on where it stopped.")
        raise typer.Exit(128 + signal.SIGINT) from None
    if as_json:
        print_json({"from": from_, "to": to, **asdict(copied)})
    else:
        _tell(copied, source, target)


def _place(option: str, given: str) -> JournalLocation:
    return database_address(option, given) if "://" in given else Path(given)


def _tell(copied: Copied, source: JournalLocation, target: JournalLocation) -> None:
    rows = sum(copied.rows.values())
    counts = f"{copied.entries} entries, {copied.unfinished} unfinished, {rows} rows"
    print_line(f"{target}: copied and verified; {counts}, the same on both sides", POSITIVE)
    if copied.bodies is None:
        note("The messages are sealed and no key is given: they are the same, but not held against their digests.")
    if copied.audit_faults:
        note(f"The audit trail was broken at {copied.audit_faults} places before: see `audit verify`.", NEGATIVE)
    note(_next(source, target))


def _next(source: JournalLocation, target: JournalLocation) -> str:
    """Return what to do once the copy is there."""
    if isinstance(target, Path):
        start = f"Start the engine with --data {target} and without --journal."
    elif isinstance(source, Path):
        start = (
            f"Start the engine with --journal {target} and another --data, to which {ACCESS_KEY} of {source} is moved, "
            f"or take {FILE} out of {source}."
        )
    else:
        start = f"Start the engines with --journal {target} and new --data folders, to which {ACCESS_KEY} is moved."
    return f"{start} Start none on {source} any more: it stays as it is, and knows nothing of what comes from now on."
