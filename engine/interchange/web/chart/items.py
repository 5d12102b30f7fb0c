"""The items of a list: each with its id and its channel of origin."""

from collections.abc import Callable, Sequence
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.store.transaction import StoredVersion
from engine.interchange.web.chart.chart_reader import ChartReader
from engine.interchange.web.chart.field import ObjectShape
from engine.interchange.web.chart.origin import channel_of
from engine.interchange.web.chart.rows import RowRange, keys_of

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
