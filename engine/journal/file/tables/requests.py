"""Where a request went: what a URL asks by (a search names patients) stands beside it, and goes with the bodies."""

from typing import Final

_QUERY: Final = "ALTER TABLE attempt ADD COLUMN query BLOB NOT NULL DEFAULT x''"

# Older requests have it in their URL: taken away from a sealed journal, and where the body is gone already.
_CUT: Final = """
UPDATE attempt SET url = substr(url, 1, instr(url, '?') - 1) WHERE instr(url, '?') > 0
AND (EXISTS (SELECT 1 FROM seal_key WHERE day = -1)
  OR NOT EXISTS (SELECT 1 FROM payload AS p WHERE p.seq = attempt.seq))
"""

STATEMENTS: Final = (_QUERY, _CUT)
