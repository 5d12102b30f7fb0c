"""What was tried of each destination's server, once per version of it."""

from typing import Final

_PROOF: Final = """
CREATE TABLE proof (
  destination TEXT NOT NULL, server TEXT NOT NULL, if_match BIGINT NOT NULL, at BIGINT NOT NULL,
  PRIMARY KEY (destination, server)) WITHOUT ROWID
"""

STATEMENTS: Final = (_PROOF,)
