"""The audit trail for people: rows, as lines of a file, and what its proof found."""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from engine.errors import UsageError
from engine.journal.access.audited import AuditFault, AuditFilter, AuditReader
from engine.journal.access.audited import AuditRow as JournalRow
from engine.ops.access.keys import FILE, Keys
from engine.ops.audit.anchors import Anchors, checked, read_anchors
from engine.ops.views.answer import Answer, Count, Json, Time, moment_text
from engine.ops.views.table_file import plain

MOST_ROWS: Final = 1000
USUAL_ROWS: Final = 50
FORMS: Final = ("ndjson", "csv")


class AuditRow(Answer):
    """A row of the trail; a patient is shown as a mark."""

    row: Count
    at: Time
    actor: str
    role: str
    via: str
    address: str
    act: str
    entry: Count | None
    outcome: str
    reason: str
    detail: dict[str, Json]
    patients: tuple[str, ...]
    follows: Count | None
    hash: str


class Fault(Answer):
    """A place where the trail is not as it was written."""

    seq: Count
    kind: str
    text: str


class Proof(Answer):
    """What following the chain found, and how many anchors agree with it."""

    rows: Count
    last: Count
    hash: str
    anchors: Count
    agreed: Count
    anchored_to: Count
    faults: tuple[Fault, ...]


COLUMNS: Final = tuple(AuditRow.model_fields)


def marks_of(folder: Path, patient: str) -> tuple[str, ...]:
    """Return the marks that find a patient: as it was asked for, and as entries name it; none for nobody.

    UsageError where the folder's key is missing.
    """
    if not patient:
        return ()
    if not (folder / FILE).exists():
        raise UsageError(f"{folder / FILE} is missing: without that key the audit trail cannot be searched by patient")
    with AuditReader(folder) as reader:
        stored = reader.stored(patient)
    keys = Keys.of(folder)
    return tuple({keys.marks(one)[0]: None for one in (patient, stored)})


def listed(folder: Path, chosen: AuditFilter, limit: int = 0, before: int = 0) -> list[AuditRow]:
    """Return at most 1,000 rows (50 for a limit of 0), newest first, with numbers below `before` where it is named."""
    with AuditReader(folder) as reader:
        return [row_of(row) for row in reader.rows(chosen, min(limit or USUAL_ROWS, MOST_ROWS), before or None)]


def row_of(row: JournalRow) -> AuditRow:
    """Return a row as it is shown."""
    told = {
        **asdict(row), "row": row.seq, "at": moment_text(row.at), "detail": orjson.loads(row.detail),
        "patients": orjson.loads(row.patients),
    }  # fmt: skip
    return AuditRow.model_validate(told)


def check_form(form: str) -> None:
    """UsageError for a form in which rows are not exported."""
    if form not in FORMS:
        raise UsageError(f"--format {form} is neither ndjson nor csv")


def exported(folder: Path, chosen: AuditFilter, form: str, upto: int | None = None) -> Iterator[bytes]:
    """Yield an export in pieces, oldest row first: `ndjson`, or `csv` in which no cell is taken for a formula.

    Each piece is read at once, on a connection of its own: whoever takes the next one may be another thread.
    UsageError at once for another form.
    """
    check_form(form)
    return _pieces(folder, chosen, form, upto)


def _pieces(folder: Path, chosen: AuditFilter, form: str, upto: int | None) -> Iterator[bytes]:
    if form == "csv":
        yield _csv(COLUMNS)
    after = 0
    while True:
        with AuditReader(folder) as reader:
            upto = reader.last() if upto is None else upto
            rows = reader.oldest_first(chosen, after, upto, MOST_ROWS)
        if not rows:
            return
        yield b"".join(_line(row_of(row), form) for row in rows)
        after = rows[-1].seq


def _line(row: AuditRow, form: str) -> bytes:
    if form == "ndjson":
        return row.model_dump_json().encode() + b"\n"
    cells = (getattr(row, name) for name in COLUMNS)
    return _csv(orjson.dumps(cell).decode() if isinstance(cell, dict | tuple) else cell for cell in cells)


def verified(folder: Path, anchors: Path | None = None, key: Ed25519PublicKey | None = None) -> Proof:
    """Follow the chain, and hold it against the anchors of a file; without one named, against the folder's own.

    UsageError: a file was named that is not there or holds no anchors, or anchors for which there is no key.
    """
    own = Anchors.of(folder)
    if anchors is not None and not anchors.exists():
        raise UsageError(f"there are no anchors in {anchors}")
    found = read_anchors(anchors or own.file)
    key = key or own.public_key()
    if found and key is None:
        raise UsageError("there are anchors, but no key to check them with: name its public half with --key")
    witnesses, faults = checked(found, key) if key is not None else ([], list[AuditFault]())
    with AuditReader(folder) as reader:
        proof = reader.verify(witnesses)
    return Proof(
        rows=proof.rows,
        last=proof.last,
        hash=proof.hash,
        anchors=len(found),
        agreed=proof.agreed,
        anchored_to=max((one.seq for one in witnesses), default=0),
        faults=tuple(Fault(seq=one.seq, kind=one.kind, text=one.text) for one in (*proof.faults, *faults)),
    )


def _csv(cells: Iterable[object]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerow([plain(cell) for cell in cells])
    return written.getvalue().encode()
