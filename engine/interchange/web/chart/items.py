"""The items of a list: the records of a page, newest first, each with its id and its channel of origin."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from engine.fhir.json import JsonObject
from engine.interchange.rest.everything import ChartPart, chart_condition
from engine.interchange.rest.resource.definition import CARE
from engine.interchange.store.transaction import StoredVersion, Transaction
from engine.interchange.web.chart.field import ChartReader, ObjectShape
from engine.interchange.web.chart.origin import channel_of

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


# The total, and the items of the requested page.
Items = tuple[int, list[JsonObject]]
Listing = Callable[[ChartReader, RowRange], Items]

CHANNEL: Final = "resourceChannelType"


def item(shape: ObjectShape, reader: ChartReader, stored: StoredVersion) -> JsonObject:
    """Return a stored resource as an item."""
    resource = stored.resource()
    return {"id": stored.id, **shape.of(resource, reader), CHANNEL: channel_of(reader, stored, resource)}


def records(types: Sequence[str], shape: ObjectShape) -> Listing:
    """Return the listing of the records of some types, newest first."""

    def listing(reader: ChartReader, part: RowRange) -> Items:
        total, keys = keys_of(reader.transaction, reader.patient, types, part)

        return total, [item(shape, reader, reader.transaction.by_key(key)) for key in keys]

    return listing
