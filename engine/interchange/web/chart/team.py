"""The members of a patient's care team: general practitioners and participants of visits, latest first.

The service does not store CareTeam.
"""

from hashlib import sha256
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.store.references import local_target
from engine.interchange.web.chart.chart_reader import ChartReader
from engine.interchange.web.chart.coded import CONCEPT, provider
from engine.interchange.web.chart.field import ChartField, ObjectShape, Resource, listed, many, moment, text
from engine.interchange.web.chart.items import CHANNEL, Items
from engine.interchange.web.chart.origin import RecordOrigin, channel_of, joined
from engine.interchange.web.chart.rows import RowRange, all_keys

GENERAL: Final = {"text": "General practitioner"}
# One participation; `seen` is the start of the visit.
MEMBER: Final = ObjectShape(
    "CareTeamMember",
    (
        text("name"),
        text("npi"),
        ChartField("roles", many(CONCEPT.link), lambda member, _: member.get("roles")),
        moment("lastSeen", "seen"),
    ),
)


def members(reader: ChartReader, part: RowRange) -> Items:
    """Return one range of the members, each once with all roles, and their number."""
    members_by_key: dict[str, JsonObject] = {}
    channels: dict[str, list[RecordOrigin]] = {}

    def add(reference: JsonObject, within: Resource, roles: list[JsonObject], seen: str, channel: RecordOrigin) -> None:
        who = provider(reference, reader, within)
        if not who.get("name"):
            return
        key = _key(reference, who["name"])
        member = members_by_key.setdefault(key, {**who, "roles": [], "seen": seen})
        member["roles"] += [role for role in roles if role and role not in member["roles"]]
        member["seen"] = member["seen"] or seen
        channels.setdefault(key, []).append(channel)

    transaction = reader.transaction
    patient = transaction.get("Patient", reader.patient)
    if patient is not None and not patient.deleted:
        own = patient.resource()
        for reference in listed(own.get("generalPractitioner")):
            add(reference, own, [CONCEPT.of(GENERAL, reader)], "", channel_of(reader, patient, own))
    for key in all_keys(transaction, reader.patient, ("Encounter",)):
        stored = transaction.by_key(key)
        visit = stored.resource()
        taking_part = [one for one in listed(visit.get("participant")) if "individual" in one]
        channel = channel_of(reader, stored, visit) if taking_part else RecordOrigin.INTERNAL
        for one in taking_part:
            roles = [CONCEPT.of(role, reader) for role in listed(one.get("type"))]
            add(one["individual"], visit, roles, visit.get("period", {}).get("start", ""), channel)
    shown = list(members_by_key.items())[part.offset : part.offset + part.limit]
    return len(members_by_key), [
        {"id": key, **MEMBER.of(one, reader), CHANNEL: joined(channels[key])} for key, one in shown
    ]


def _key(reference: JsonObject, name: str) -> str:
    """Return the id of a member: that of the referenced resource, else one derived from the name."""
    target = local_target(reference.get("reference", ""))
    return target.partition("/")[2] or sha256(name.encode()).hexdigest()[:24]
