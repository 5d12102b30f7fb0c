"""What an entry lacks for a new record, taken from a later message of its lane: an unknown patient gets a name."""

import contextlib
from collections.abc import Iterable
from typing import Final

from engine.errors import MappingError, MessageError
from engine.fhir.changes import DEFAULT
from engine.fhir.patient import person_of
from engine.fhir.plan import PatientRecord, Plan, Upsert
from engine.journal.entry import Claimed
from engine.pipeline.feed import Feeds
from engine.pipeline.inbound.judgement import read_message
from engine.pipeline.outbound.memory import DestinationMemory

LACKING: Final = "missing-required"
NOTE: Final = "completed-by-later"
MOST_LATER: Final = 20
_DEMOGRAPHICS: Final = ("name", "gender", "birthDate")


async def later(claimed: Claimed, memory: DestinationMemory, feeds: Feeds) -> list[Plan]:
    """Return the plans of what waits behind an entry, at most MOST_LATER, as far as they can be made."""
    plans = []
    for channel, raw, event in await memory.behind(claimed.lanes, claimed.seq, MOST_LATER):
        feed = feeds.get(channel)
        if feed is None:
            continue
        with contextlib.suppress(MappingError, MessageError):
            plans.append(feed.mapping_at(claimed.destination).plan(read_message(raw, feed.channel, event)))
    return plans


def completed(plan: Plan, later: Iterable[Plan]) -> Plan | None:
    """Return a plan with the demographics that its patient lacks, from the first later plan that has them; else None.

    What the message says itself stays: of the later one only elements are taken on which it says nothing.
    """
    records = [one.patient for each in later for one in each.interactions if isinstance(one, Upsert)]
    for index, one in enumerate(plan.interactions):
        if isinstance(one, Upsert) and _lacks(one.patient):
            whole = next(filter(None, (_with(one.patient, record) for record in records)), None)
            if whole is None:
                return None
            before, after = plan.interactions[:index], plan.interactions[index + 1 :]
            return plan._replace(interactions=(*before, one._replace(patient=whole), *after))
    return None


def _with(record: PatientRecord, later: PatientRecord) -> PatientRecord | None:
    """Return a record with what a later one adds, None where that is somebody else's or not enough."""
    if not set(record.identities) & set(later.identities):
        return None
    present = {change.element for change in record.changes if change.items and not change.slice.endswith(DEFAULT)}
    added = [one for one in later.changes if one.element in _DEMOGRAPHICS and one.items and one.element not in present]
    filled = {one.element for one in added}
    kept = [one for one in record.changes if one.element not in filled]
    whole = record._replace(changes=(*kept, *added), placeholder=record.placeholder or later.placeholder)
    return None if _lacks(whole) else whole


def _lacks(record: PatientRecord) -> bool:
    who = person_of(record)
    return not (who.family and who.given and who.birth_date)
