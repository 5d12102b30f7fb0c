"""The records of a category: newest first, one page at a time."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from engine.interchange.rest.everything.chart import chart_condition
from engine.interchange.rest.everything.parameters import ChartPart
from engine.interchange.rest.resource.definition import CARE
from engine.interchange.store.transaction import Transaction

# By clinical date, undated records last; records of one date by the time of writing, latest first.
ALL: Final = (
    "SELECT key FROM reference_index WHERE {chart}"
    " ORDER BY (SELECT max(d.high) FROM date_index AS d WHERE d.key = reference_index.key AND d.parameter = ?)"
    " DESC NULLS LAST, key DESC"
)
SOME: Final = f"{ALL} LIMIT ? OFFSET ?"
COUNT: Final = "SELECT count(*) FROM reference_index WHERE {chart}"
WHOLE: Final = ChartPart()


class RowRange(NamedTuple):
    """The requested range of a list."""

    limit: int
    offset: int


def keys_of(transaction: Transaction, patient_id: str, types: Iterable[str], part: RowRange) -> tuple[int, list[int]]:
    """Return the number of records of some types in a chart, and the keys of one range of them, newest first.

    They are the rows that $everything reads.
    """
    chart, arguments = chart_condition(transaction.tenant, patient_id, WHOLE, types)
    execute = transaction.connection.execute
    total = int(execute(COUNT.format(chart=chart), arguments).fetchone()[0])
    rows = execute(SOME.format(chart=chart), (*arguments, CARE, part.limit, part.offset)).fetchall()
    return total, [row[0] for row in rows]


def all_keys(transaction: Transaction, patient_id: str, types: Iterable[str]) -> list[int]:
    """Return the keys of all records of some types in a chart, newest first."""
    chart, arguments = chart_condition(transaction.tenant, patient_id, WHOLE, types)
    return [row[0] for row in transaction.connection.execute(ALL.format(chart=chart), (*arguments, CARE)).fetchall()]
