"""Which record was merged into which, found by the record that is gone."""

from typing import Final

# Only what was merged away, so that nothing else costs an insert; with the survivor, or the primary key is preferred.
STATEMENTS: Final = (
    "CREATE INDEX known_gone ON known (destination, logical_id, survivor) WHERE status = 'merged-away'",
)
