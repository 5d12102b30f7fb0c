"""`adt-engine journal`: size and counts, verification, backup, restore, and what retention deletes."""

import os
import shutil
import signal
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from engine.config.channels import load_channels
from engine.database.sqlite import SqliteError
from engine.errors import UsageError
from engine.journal.file.database import FILE, open_writer
from engine.journal.file.lock import FolderLock
from engine.journal.file.reserve import free_bytes_kept
from engine.journal.file.sealing import KEY_FILE_VARIABLE, configured, new_key, opened, read_key, rewrap
from engine.journal.maintenance.backup import Proven, back_up, prove, restore
from engine.journal.maintenance.retention import due
from engine.journal.maintenance.verify import CHECKED, faults
from engine.journal.opening import address_of, open_reader
from engine.journal.read.reading import Reader
from engine.ops.cli.operating.copying import copy
from engine.ops.operations.care import AnnounceBackup, PruneJournal
from engine.ops.terminal.command import ask, ask_if_running
from engine.ops.terminal.steps import end, steps
from engine.ops.views.counts import by_rule
from engine.ops.views.phrases import phrase
from engine.pipeline.maintenance.journal import rules_of
from engine.terminal.options import CHANNELS, DATA, AsJson, Channels, Data, Yes, agreed
from engine.terminal.table import POSITIVE, note, output, print_json, print_line, progress, table

app = typer.Typer(help="Maintain the journal: stats, verify, backup, restore, copy, prune.", no_args_is_help=True)
# The sizes of the file that are shown.
TITLES: Final = {
    "journal_bytes": "journal",
    "log_bytes": "write-ahead log",
    "free_bytes": "free on the disk",
    "reserve_bytes": "kept free for outcomes",
}


@app.command()
def stats(data: Data = DATA, as_json: AsJson = False) -> None:
    """Show how many messages the journal holds, their states, its size and the free disk space; filters by rule.

    Example: adt-engine journal stats --data /var/lib/adt-engine
    """
    with Reader(data) as reader:
        found, rules = reader.stats(), by_rule(reader, None, None)
    sizes, oldest = _sizes(data), found.oldest_unfinished_at
    since = oldest.isoformat(timespec="seconds") if oldest else None
    if as_json:
        counts = {"entries": found.entries, "last": found.last_seq, "at_door": found.at_door}
        print_json({**counts, "rules": rules, "deliveries": found.deliveries, "oldest_unfinished_at": since, **sizes})
        return
    rows: list[tuple[str, object]] = [("entries", found.entries), ("newest entry", found.last_seq)]
    rows += [(f"{phrase(state)} on arrival", count) for state, count in sorted(found.at_door.items())]
    for channel, held in sorted(rules.items()):
        rows += [(f"{channel}: by the filter {rule}", count) for rule, count in sorted(held.items())]
    for destination, states in sorted(found.deliveries.items()):
        rows += [(f"{destination}: {phrase(state)}", count) for state, count in sorted(states.items())]
    rows.append(("oldest unfinished", since or "–"))
    rows += [(TITLES[name], _mib(size)) for name, size in sizes.items()]
    output().print(table(("What", "#"), rows))


@app.command()
def verify(
    data: Data = DATA,
    backup: Annotated[Path | None, typer.Option(help="Verify this backup instead.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the whole journal: file, messages by digest, rows by checksum, and that nothing is stuck.

    Works while an engine runs, and does not disturb it. Exit 0 if it is sound, 1 with a line for each fault. Rows
    that an older version wrote, or whose body retention took, have no checksum: they are counted, and are no fault.

    Example: adt-engine journal verify --data /var/lib/adt-engine
    """
    if backup is not None:
        with steps(shown=not as_json) as watch:
            proven = prove(backup, watch)
        _print_proven(proven, "sound", as_json=as_json)
        return
    total = _total(data)
    with progress(shown=not as_json) as bar, closing(open_reader(data)) as connection:
        task = bar.add_task("messages", total=total)
        sealing = opened(connection, configured())
        unchecked = Counter({checked.name: 0 for checked in CHECKED})
        found = list(faults(connection, lambda count: bar.advance(task, count), sealing, unchecked))
    if as_json:
        rows = [{"rule": one.rule, "entry": one.entry, "meaning": one.meaning} for one in found]
        print_json({"sound": not found, "entries": total, "faults": rows, "unchecked": unchecked})
    elif found:
        places = ((one.entry or "–", one.rule, one.meaning) for one in found)
        output().print(table(("Entry #", "Rule", "What is wrong"), places))
        note("Not sound: keep a copy of the folder as it is, restore the last good backup next to it, compare.", "red")
    else:
        print_line(f"sound: {total} entries, every digest as it was", POSITIVE)
    if not as_json and (counts := ", ".join(f"{name} {count}" for name, count in unchecked.items() if count)):
        note(f"Rows without a checksum, which cannot be checked: {counts} (older versions, retention).")
    if found:
        raise typer.Exit(1)


@app.command()
def backup(
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="A new file, on another disk.")],
    data: Data = DATA,
    as_json: AsJson = False,
) -> None:
    """Back up the journal into one file while the engine runs, and verify the copy before it gets its name.

    The file holds patients' data: keep it on an encrypted disk; it is readable by its owner only. Channel and mapping
    files and secrets are not in it.

    Example: adt-engine journal backup --to /backup/adt-2026-07-01.db --data /var/lib/adt-engine
    """
    _refuse_shared(data, "back it up there")
    ask_if_running(data, AnnounceBackup())
    signal.signal(signal.SIGTERM, end)
    with steps(shown=not as_json) as watch:
        proven = back_up(data, to, watch)
    _print_proven(proven, "saved and verified", as_json=as_json)


@app.command(name="restore")
def restore_(
    file: Annotated[Path, typer.Argument(help="A backup made by `journal backup`.")],
    data: Data = DATA,
    replace: Annotated[bool, typer.Option("--replace", help="Move an existing journal aside; it is kept.")] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a backup and restore it as the journal of a folder on which no engine runs.

    When the engine starts on it, it listens, but every destination is paused: what the backup calls unfinished may
    have been delivered, and overtaken, since. `destinations resume` lets one go on.

    Example: adt-engine journal restore /backup/adt-2026-07-01.db --data /var/lib/adt-engine --replace
    """
    _refuse_shared(data, "restore it there, or name another --data")
    with steps(shown=not as_json) as watch:
        proven = restore(file, data, now=datetime.now(UTC), replace=replace, watch=watch)
    _print_proven(proven, f"restored into {data}", as_json=as_json)
    if not as_json:
        note(
            f"Every destination is paused. Start the engine, look at the {proven.unfinished} unfinished entries "
            "(`messages list --state received`), then `adt-engine destinations resume NAME`."
        )


app.command()(copy)


@app.command()
def prune(
    data: Data = DATA,
    channels: Channels = CHANNELS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be deleted.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete now what is older than the channels' `retention`; the running engine does so every hour.

    Unfinished entries are never deleted. Needs the running engine, unless --dry-run.

    Example: adt-engine journal prune --dry-run --data /var/lib/adt-engine
    """
    rules = rules_of({channel.channel: channel for channel in load_channels(channels)})
    with closing(open_reader(data)) as connection:
        bodies, entries = due(connection, rules, datetime.now(UTC))
    if not dry_run:
        if not agreed(f"Delete {bodies} bodies and {entries} whole entries for good?", yes=yes, as_json=as_json):
            raise typer.Abort
        done = ask(data, PruneJournal())
        bodies, entries = done.bodies, done.entries
    if as_json:
        print_json({"bodies": bodies, "entries": entries, "dry_run": dry_run})
    else:
        print_line(f"{bodies} bodies and {entries} whole entries {'would be' if dry_run else 'were'} deleted")


@app.command()
def key(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A new file for the key.")], as_json: AsJson = False
) -> None:
    """Create a key file that encrypts the message bodies of a new journal.

    Name it in ADT_ENGINE_JOURNAL_KEY_FILE for the engine and for every command that reads the journal. Without it
    nobody reads the messages any more: keep a copy of it apart from the backups.

    Example: adt-engine journal key --out /etc/adt-engine/journal.key
    """
    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{out} cannot be created ({error.strerror}): name a new file") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{new_key()}\n")
    if as_json:
        print_json({"file": str(out), "variable": KEY_FILE_VARIABLE})
        return
    print_line(f"{out}: name it in {KEY_FILE_VARIABLE}; keep a copy apart from the backups")


@app.command()
def reseal(
    new: Annotated[Path, typer.Option("--new-key", metavar="FILE", help="The key file to use from now on.")],
    data: Data = DATA,
    as_json: AsJson = False,
) -> None:
    """Change the key file of a sealed journal on which no engine runs; messages stay as they are.

    The old file is the one that ADT_ENGINE_JOURNAL_KEY_FILE names; afterwards name the new one there. Backups made
    before still need the old one.

    Example: adt-engine journal reseal --new-key /etc/adt-engine/journal-2027.key --data /var/lib/adt-engine
    """
    _refuse_shared(data, "copy it to a folder (`journal copy`), change the key there, and copy it back")
    old, fresh = configured(), read_key(new)
    if old is None:
        raise UsageError(f"{KEY_FILE_VARIABLE} names no key file: set it to the one the journal was sealed with")
    lock = FolderLock(data)
    try:
        with closing(open_writer(data)) as connection:
            if opened(connection, old) is None:
                raise UsageError(f"the journal in {data} is not sealed")
            connection.execute("BEGIN IMMEDIATE")
            count = rewrap(connection, old, fresh)
            connection.execute("COMMIT")
    finally:
        lock.release()
    if as_json:
        print_json({"keys": count, "file": str(new), "variable": KEY_FILE_VARIABLE})
        return
    print_line(f"{count} keys are wrapped by {new} now: name it in {KEY_FILE_VARIABLE}")


def _total(data: Path) -> int | None:
    """Return how many entries there are; None where the file is too damaged to say."""
    try:
        with Reader(data) as reader:
            return reader.stats().entries
    except SqliteError:
        return None


def _refuse_shared(data: Path, instead: str) -> None:
    """Raise UsageError where the journal of a folder is in a database that nodes share."""
    if address := address_of(data):
        raise UsageError(f"the journal of {data} is in {address}: {instead} (`adt-engine help postgresql`)")


def _sizes(data: Path) -> dict[str, int]:
    """Return the sizes of a journal in a file; of one in a database nothing, as its server has them."""
    if address_of(data):
        return {}
    log = data / f"{FILE}-wal"
    return {
        "journal_bytes": (data / FILE).stat().st_size,
        "log_bytes": log.stat().st_size if log.exists() else 0,
        "free_bytes": shutil.disk_usage(data).free,
        "reserve_bytes": free_bytes_kept(data),
    }


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _print_proven(proven: Proven, done: str, *, as_json: bool) -> None:
    if as_json:
        row = {
            "file": str(proven.path),
            "entries": proven.entries,
            "last": proven.last,
            "unfinished": proven.unfinished,
            "bytes": proven.size_bytes,
            "sha256": proven.sha256,
        }
        print_json(row)
        return
    counts = f"{proven.entries} entries, {proven.unfinished} unfinished, {_mib(proven.size_bytes)}"
    print_line(f"{proven.path}: {done}; {counts}", POSITIVE)
    print_line(f"SHA-256 {proven.sha256}")
