"""The origin of a record: INTERNAL, EXTERNAL, or BOTH (`resourceChannelType`).

INTERNAL is what a client of the tenant wrote here. EXTERNAL is what an import brought (Patient360 tags it, and keeps a
Provenance of each document that states it), and the results of an order that was sent to a laboratory. BOTH is what
was written here and is stated by an imported document too, or was imported and changed here since.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.network.patient360.chart_index import changed_here
from engine.interchange.network.patient360.record import read_record
from engine.interchange.orders.belonging import order_id_of
from engine.interchange.store.transaction import StoredVersion
from engine.interchange.store.transmission import find_sent
from engine.interchange.web.chart.field import ChartReader

STATED: Final = "Provenance.target"


class RecordOrigin(StrEnum):
    """Origin of a record (`resourceChannelType`)."""

    INTERNAL = "INTERNAL"
    EXTERNAL = "EXTERNAL"
    BOTH = "BOTH"


def channel_of(reader: ChartReader, stored: StoredVersion, resource: JsonObject) -> RecordOrigin:
    """Return the origin of a live resource."""
    written = _written_by_imports(reader, stored)
    tagged = reader.words.external in resource.get("meta", {}).get("tag", ())
    if tagged and written:
        return RecordOrigin.BOTH if changed_here(reader.transaction, stored, max(written)) else RecordOrigin.EXTERNAL
    if tagged:
        return RecordOrigin.EXTERNAL
    if written:
        return RecordOrigin.BOTH
    return RecordOrigin.EXTERNAL if _of_a_laboratory(reader, resource) else RecordOrigin.INTERNAL


def joined(channels: Iterable[RecordOrigin]) -> RecordOrigin:
    """Return the combined origin of several records."""
    origins = set(channels)
    return origins.pop() if len(origins) == 1 else RecordOrigin.BOTH


def _written_by_imports(reader: ChartReader, stored: StoredVersion) -> list[int]:
    """Return the versions that imported documents wrote of a resource; 0 for a document that only confirms it."""
    reference = f"{stored.type}/{stored.id}"
    referrers = reader.transaction.referrers(reference, STATED)
    records = (read_record(reader.words, referrer.resource(), referrer.updated_ms) for referrer in referrers)
    targets = (target for record in records if record is not None for target in record.targets)
    return [target.version for target in targets if target.reference == reference]


def _of_a_laboratory(reader: ChartReader, resource: JsonObject) -> bool:
    for reference in resource.get("basedOn", ()):
        test = reader.find(reference, resource) or {}
        order_id = order_id_of(test, reader.words.system)
        sent = find_sent(reader.transaction, order_id) if order_id else None
        if sent is not None and sent.sent_ms is not None:
            return True
    return False
