"""Checksums of the rows that the engine acts on, kept in each row (`crc`): what a disk changes is found by them.

Each is over the key and the columns that are acted on, as they are stored, so that a sealed journal needs no key and a
checksum reveals nothing that the row does not hold. Texts count in PostgreSQL's form: a copy keeps its checksums.
"""

from zlib import crc32

from engine.database.dialect import without_nul

# Of `attempt`: id, seq, destination, number, method, url, query, headers, body, at.
AttemptRow = tuple[int, int, str, int, str, str, bytes, str, bytes, int]


def of_attempt(row: AttemptRow) -> int:
    """Return the checksum of a row of `attempt`."""
    number, seq, destination, place, method, url, query, headers, body, at = row
    head = _joined(f"{number}", f"{seq}", destination, f"{place}", method, url, headers, f"{at}", f"{len(query)}", "")
    return _signed(crc32(body, crc32(query, crc32(head))))


def of_delivery(row: tuple[int, str, str]) -> int:
    """Return the checksum of a row of `delivery`: seq, destination, mapping.

    Its state, lanes and times go by the rules among the tables.
    """
    seq, destination, mapping = row
    return _signed(crc32(_joined(f"{seq}", destination, mapping)))


def of_known(row: tuple[str, str, str, str, str]) -> int:
    """Return the checksum of a row of `known`: destination, system, value, logical_id, survivor.

    Its status is decided by the database, and is one of few words.
    """
    destination, system, value, logical_id, survivor = row
    return _signed(crc32(_joined(destination, system, value, logical_id, survivor)))


def of_owned(row: tuple[str, str, str, str]) -> int:
    """Return the checksum of a row of `owned`: destination, resource, source, slices."""
    return _signed(crc32(_joined(*row)))


def _signed(crc: int) -> int:
    """Return a checksum as SQLite keeps it in four bytes."""
    return crc - (1 << 32) if crc >> 31 else crc


def _joined(*texts: str) -> bytes:
    """Return texts with a NUL between them, which none of them holds in PostgreSQL's form.

    What is no UTF-8, as only a disk writes it, counts by its bytes.
    """
    joined = "\0".join(texts)
    if joined.count("\0") >= len(texts) or "\\u0000" in joined:
        joined = "\0".join([without_nul(text) for text in texts])
    return joined.encode("utf-8", "surrogateescape")
