"""The audit trail for people: rows as JSON, as lines of a file, and what its proof found."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from engine.errors import UsageError
from engine.journal.access.audited import AuditFault, AuditFilter, AuditReader, AuditRow
from engine.ops.access.keys import FILE, Keys
from engine.ops.audit.anchors import Anchors, checked, read_anchors
from engine.ops.request import moment_in, number_in, text_in
from engine.ops.web.table_file import plain

MOST_ROWS: Final = 1000
COLUMNS: Final = (
    "row", "at", "actor", "role", "via", "address", "act", "entry", "outcome", "reason", "detail", "patients",
    "follows", "hash",
)  # fmt: skip


def wanted(given: Mapping[str, Any], folder: Path) -> AuditFilter:
    """Return the filter that a request names; UsageError for what is no time or number.

    `patient` is found by its marks, for which the folder's key is needed.
    """
    words = {name: text_in(given, name).strip() for name in ("actor", "act", "outcome", "patient")}
    patient = words.pop("patient")
    marks = _marks(folder, patient) if patient else ()
    return AuditFilter(
        **words,
        entry=number_in(given, "entry") or None,
        marks=marks,
        since=moment_in(given, "since"),
        until=moment_in(given, "until"),
    )


def listed(folder: Path, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return rows, newest first: `limit` of them (50), with numbers below `before`."""
    limit = min(max(number_in(given, "limit") or 50, 1), MOST_ROWS)
    chosen = wanted(given, folder)
    with AuditReader(folder) as reader:
        return [row_of(row) for row in reader.rows(chosen, limit, number_in(given, "before") or None)]


def row_of(row: AuditRow) -> dict[str, Any]:
    """Return a row as JSON."""
    told = {"row": row.seq, **asdict(row)}
    told.pop("seq")
    return told | {
        "at": row.at.isoformat(timespec="milliseconds"),
        "detail": orjson.loads(row.detail),
        "patients": orjson.loads(row.patients),
    }


def exported(folder: Path, given: Mapping[str, Any], form: str, upto: int | None = None) -> Iterator[bytes]:
    """Yield an export in pieces, oldest row first: `ndjson`, or `csv` in which no cell is taken for a formula.

    Each piece is read at once, on a connection of its own: whoever takes the next one may be another thread.
    UsageError at once for another form, or filters that cannot be meant.
    """
    if form not in {"ndjson", "csv"}:
        raise UsageError(f"--format {form} is neither ndjson nor csv")
    return _pieces(folder, wanted(given, folder), form, upto)


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


def _line(told: Mapping[str, Any], form: str) -> bytes:
    if form == "ndjson":
        return orjson.dumps(told) + b"\n"
    cells = (told[name] for name in COLUMNS)
    return _csv([orjson.dumps(cell).decode() if isinstance(cell, dict | list) else cell for cell in cells])


def verified(folder: Path, anchors: Path | None = None, key: Ed25519PublicKey | None = None) -> dict[str, Any]:
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
    return {
        "rows": proof.rows,
        "last": proof.last,
        "hash": proof.hash,
        "anchors": len(found),
        "agreed": proof.agreed,
        "anchored_to": max((one.seq for one in witnesses), default=0),
        "faults": [asdict(fault) for fault in (*proof.faults, *faults)],
    }


def _marks(folder: Path, patient: str) -> tuple[str, ...]:
    """Return the marks that find a patient: as it was asked for, and as entries name it."""
    if not (folder / FILE).exists():
        raise UsageError(f"{folder / FILE} is missing: without that key the audit trail cannot be searched by patient")
    with AuditReader(folder) as reader:
        stored = reader.stored(patient)
    keys = Keys.of(folder)
    return tuple({keys.marks(said)[0]: None for said in (patient, stored)})


def _csv(cells: Any) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerow([plain(cell) for cell in cells])
    return written.getvalue().encode()
