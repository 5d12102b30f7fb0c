"""What remains of bodies that retention took away, and the wrapped keys of a sealed journal."""

from typing import Final

# The acknowledgement stays, as a sender may ask for it again; it holds nothing of a patient.
_WORN: Final = "CREATE TABLE worn (seq INTEGER PRIMARY KEY, acknowledgement BLOB NOT NULL, at BIGINT NOT NULL)"

# A journal is sealed where there is a row of day -1. `last_seq`: the newest entry when the next key began.
_SEAL_KEY: Final = """
CREATE TABLE seal_key (
  id INTEGER PRIMARY KEY AUTOINCREMENT, day BIGINT NOT NULL, wrapped BLOB NOT NULL, last_seq BIGINT)
"""

STATEMENTS: Final = (_WORN, _SEAL_KEY)
