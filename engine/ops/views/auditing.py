"""The audit trail for people: rows, as lines of a file, and what its proof found."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import BeforeValidator

from engine.errors import UsageError
from engine.journal.access.audited import AuditFault, AuditFilter, AuditReader
from engine.ops.access.keys import FILE, Keys
from engine.ops.audit.anchors import Anchors, checked, read_anchors
from engine.ops.views.answer import Answer, AnyJson, Count, Time, known_as
from engine.terminal.table_file import csv_record

MOST_ROWS: Final = 1000
USUAL_ROWS: Final = 50
FORMS: Final = ("ndjson", "csv")


# The journal has it as JSON.
PARSED: Final = BeforeValidator(lambda value: orjson.loads(value) if isinstance(value, str) else value)


class AuditRow(Answer):
    """A row of the trail; a patient is shown as a mark."""

    row: Annotated[Count, known_as("row", "seq")]
    at: Time
    actor: str
    role: str
    via: str
    address: str
    act: str
    entry: Count | None
    outcome: str
    reason: str
    detail: Annotated[dict[str, AnyJson], PARSED]
    patients: Annotated[tuple[str, ...], PARSED]
    follows: Count | None
    hash: str


class Fault(Answer):
    """A place where the trail was changed."""

    seq: Count
    kind: str
    text: str


class Proof(Answer):
    """What verifying the chain found, and how many anchors agree with it."""

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
        return [AuditRow.of(row) for row in reader.rows(chosen, min(limit or USUAL_ROWS, MOST_ROWS), before or None)]


def check_form(form: str) -> None:
    """UsageError for a form in which rows are not exported."""
    if form not in FORMS:
        raise UsageError(f"--format {form} is neither ndjson nor csv")


def exported(folder: Path, chosen: AuditFilter, form: str, upto: int | None = None) -> Iterator[bytes]:
    """Yield an export in pieces, oldest row first: `ndjson`, or `csv` in which no cell is taken for a formula.

    Each piece is read at once, on a connection of its own: the next one may be read by another thread.
    UsageError at once for another form.
    """
    check_form(form)
    return _pieces(folder, chosen, form, upto)


def _pieces(folder: Path, chosen: AuditFilter, form: str, upto: int | None) -> Iterator[bytes]:
    if form == "csv":
        yield csv_record(COLUMNS)
    after = 0
    while True:
        with AuditReader(folder) as reader:
            upto = reader.last() if upto is None else upto
            rows = reader.oldest_first(chosen, after, upto, MOST_ROWS)
        if not rows:
            return
        yield b"".join(_line(AuditRow.of(row), form) for row in rows)
        after = rows[-1].seq


def _line(row: AuditRow, form: str) -> bytes:
    if form == "ndjson":
        return row.model_dump_json().encode() + b"\n"
    cells = (getattr(row, name) for name in COLUMNS)
    return csv_record(orjson.dumps(cell).decode() if isinstance(cell, dict | tuple) else cell for cell in cells)


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
    anchored_to = max((witness.seq for witness in witnesses), default=0)
    return Proof.of(proof, anchors=len(found), anchored_to=anchored_to, faults=(*proof.faults, *faults))
