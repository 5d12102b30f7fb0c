"""The index of whom messages are about: the trigrams of names and numbers, in the file of the words.

A row for each name, numbers and visit that messages say together, with the newest message that says so: a patient of a
thousand messages has few rows.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from engine.database.connection import json_list
from engine.database.sqlite import SqliteConnection

TABLES: Final = (
    """
CREATE VIRTUAL TABLE IF NOT EXISTS names
USING fts5(body, content='', contentless_delete=1, detail=none, tokenize='trigram')
""",
    "CREATE TABLE IF NOT EXISTS person (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, seq INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS person_of ON person (seq)",
)
# A message says what an older one said.
AGAIN: Final = "UPDATE person SET seq = ? WHERE digest = ?"
# Who a message is about.
KEEP: Final = "INSERT INTO person (digest, seq) VALUES (?, ?) RETURNING id"
# Its trigrams.
ADD: Final = "INSERT INTO names (rowid, body) VALUES (?, ?)"
# Take out the trigrams of messages (a JSON list).
FORGET_NAMES: Final = """
DELETE FROM names WHERE rowid IN (SELECT id FROM person WHERE seq IN (SELECT value FROM json_each(?)))
"""
# Take out who they are about.
FORGET: Final = "DELETE FROM person WHERE seq IN (SELECT value FROM json_each(?))"
DIGEST_BYTES: Final = 16


def add(index: SqliteConnection, said: Sequence[tuple[int, str]]) -> None:
    """Index who messages are about, in the order of their numbers."""
    newest = {person: seq for seq, person in said if person}
    for person, seq in newest.items():
        digest = hashlib.blake2b(person.encode(), digest_size=DIGEST_BYTES).digest()
        if index.execute(AGAIN, (seq, digest)).rowcount == 0:
            (row,) = index.execute(KEEP, (digest, seq)).fetchone()
            index.execute(ADD, (row, person))


def forget(index: SqliteConnection, gone: Sequence[int]) -> None:
    """Take out whose newest message has left the journal."""
    listed = json_list(gone)
    index.execute(FORGET_NAMES, (listed,))
    index.execute(FORGET, (listed,))
