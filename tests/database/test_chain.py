"""The chain of the audit trail and of the access log: one hash, one proof."""

from hashlib import sha256

import pytest

from engine.database.chain import FIRST, START, Break, ChainLink, break_between, chained
from engine.interchange.store.access import AccessRow, hashed
from engine.journal.access.audit import digest


def test_the_hashes_of_existing_files() -> None:
    """What was hashed of a row of either log when its files were written is hashed today."""
    row = (1, 2, "ann", "admin", "web", "::1", "users.add", None, "asked", "", "{}", "[]", None)
    text = (
        b'{"act":"users.add","actor":"ann","address":"::1","at":2,"detail":"{}","entry":null,"follows":null,'
        b'"outcome":"asked","patients":"[]","reason":"","role":"admin","seq":1,"via":"web"}'
    )
    assert digest(FIRST, row) == sha256(bytes(32) + text).digest()
    access = AccessRow(5, "t", "c", "l", "r", "a", "q", "R4", "read", "Patient", "1", "1", "done", 200)
    text = b'[1,5,"t","c","l","r","a","q","R4","read","Patient","1","1","done",200]'
    assert chained(FIRST, hashed(1, access)) == sha256(bytes(32) + text).digest()


@pytest.mark.parametrize(
    ("seq", "text", "found"),
    [(1, b"one", None), (1, b"two", Break.CHANGED), (2, b"one", Break.MISSING), (0, b"one", Break.MISSING)],
)
def test_a_row_continues_the_one_before(seq: int, text: bytes, found: Break | None) -> None:
    """Its number is the next one, and its hash follows from the one before; a second form of it will do."""
    row = ChainLink(seq, chained(FIRST, text))
    assert break_between(START, row, (b"another", b"one")) is found
