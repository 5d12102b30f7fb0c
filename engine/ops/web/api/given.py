"""What each act returns, as JSON Schema; a test holds the answers of a running engine against it.

Fields may be added to an answer, none is taken away: programs leave alone what they do not know.
"""

from collections.abc import Mapping
from typing import Final

from engine.journal.entry import State
from engine.ops.web.api.shape import (
    ANY,
    COUNT,
    NUMBER,
    TEXT,
    TIME,
    TRUTH,
    Schema,
    named,
    one_of,
    or_null,
    ref,
    rows,
    thing,
)

_TEXTS: Final = rows(TEXT)
_TIMES: Final = named(rows(or_null(NUMBER)))
_STATE: Final = one_of(*State)
_DESTINATIONS: Final = thing(destinations=COUNT)
_LINEAGE: Final = thing(
    parent=or_null(COUNT),
    children=rows(COUNT),
    replays=rows(
        thing(
            destination=TEXT, act=TEXT, by=TEXT, at=TIME, run=or_null(COUNT), forced=TRUTH,
            before=thing(state=TEXT, reason=TEXT, mapping=TEXT),
        )
    ),
)  # fmt: skip
_TIMING: Final = thing(
    received_at=TIME, settled_at=or_null(TIME), seconds=or_null(NUMBER),
    steps=rows(thing(at=TIME, what=TEXT, destination=TEXT, milliseconds=or_null(NUMBER))),
)  # fmt: skip
_ROW_FACTS: Final = thing(
    entry=COUNT, received_at=TIME, channel=TEXT, source=TEXT, control_id=TEXT, event=TEXT, state=_STATE, reason=TEXT,
    ack=or_null(TEXT), ack_outcome=TEXT, flags=_TEXTS, receipts=COUNT,
)  # fmt: skip
_ROW: Final = thing(_ROW_FACTS, visit=TEXT)
_OF_ENTRY: Final = thing(
    peer=TEXT, version=TEXT, event_at=or_null(TIME), sound=TRUTH, body_removed_at=or_null(TIME), mapping=TEXT,
    batch=or_null(ANY), parent=or_null(COUNT), timing=_TIMING,
)  # fmt: skip
_ATTEMPT: Final = thing(
    number=COUNT, method=TEXT, at=TIME, status=or_null(COUNT), codes=_TEXTS, failure=TEXT, milliseconds=NUMBER
)
_DELIVERY: Final = thing(
    destination=TEXT, state=_STATE, reason=TEXT, notes=_TEXTS, waits_for=or_null(COUNT), tries=COUNT,
    due_at=or_null(TIME), settled_at=or_null(TIME), mapping=TEXT, replay=ANY, by=TEXT,
)  # fmt: skip
_DIFFERENCE: Final = thing(path=TEXT, before=or_null(TEXT), after=or_null(TEXT))
_PART: Final = thing(path=TEXT, name=TEXT, value=TEXT)
_WAITS: Final = thing(entry=COUNT, event=TEXT, control_id=TEXT, channel=TEXT, received_at=TIME, state=TEXT)
_STOOD: Final = thing(
    entries=COUNT, last=COUNT, at_door=named(COUNT), deliveries=named(named(COUNT)),
    oldest_unfinished_at=or_null(TIME),
)  # fmt: skip
_EXPLAINED: Final = thing(
    entry=COUNT, event=TEXT, control_id=TEXT, action=TEXT, rule=thing(name=TEXT, file=TEXT, line=COUNT), mapping=TEXT,
    elements=rows(
        thing(
            element=TEXT, file=TEXT, line=COUNT, rule=TEXT, source=TEXT, segment=COUNT, raw=ANY,
            functions=rows(named(ANY)), rows=rows(named(ANY)), made=ANY, asked=TRUTH, record=COUNT,
        )
    ),
    error=TEXT, rules=rows(thing(file=TEXT, line=COUNT, reads=TEXT)), unread=rows(thing(path=TEXT, name=TEXT)),
)  # fmt: skip


def _page(of: Schema) -> Schema:
    return thing(entries=rows(of), before=or_null(COUNT), searched_back_to=or_null(TIME))


SCHEMAS: Final[Mapping[str, Schema]] = {
    "Row": _ROW,
    "RowFacts": _ROW_FACTS,
    "Entry": thing(
        {"properties": {**_ROW["properties"], **_OF_ENTRY["properties"]}},
        sha256=TEXT,
        message=TEXT,
        acknowledgement=TEXT,
        segments=rows(thing(name=TEXT, number=COUNT, fields=rows(thing(_PART, parts=rows(_PART))))),
        lineage=thing(_LINEAGE, edit=or_null(thing(by=TEXT, at=TIME, differences=rows(_DIFFERENCE)))),
        lane=thing(before=rows(ref("Row")), after=rows(ref("Row"))),
        deliveries=rows(
            thing(
                _DELIVERY, plan=ANY, attempts=rows(thing(_ATTEMPT, url=TEXT, headers=named(TEXT), body=ANY, answer=ANY))
            )
        ),
    ),
    "EntryFacts": thing(
        {"properties": {**_ROW_FACTS["properties"], **_OF_ENTRY["properties"]}},
        lineage=_LINEAGE,
        deliveries=rows(thing(_DELIVERY, attempts=rows(_ATTEMPT))),
    ),
    "Rehearsal": thing(
        entry=COUNT,
        differences=rows(_DIFFERENCE),
        refused=or_null(thing(reason=TEXT, findings=_TEXTS)),
        destinations=rows(
            thing(
                destination=TEXT,
                overtaken=TRUTH,
                verdict=TEXT,
                reason=TEXT,
                notes=_TEXTS,
                calls=rows(thing(method=TEXT, path=TEXT, headers=named(TEXT), body=ANY, changes=TRUTH)),
                differences=rows(thing(resource=TEXT, path=TEXT, before=ANY, after=ANY)),
            )
        ),
    ),
    "Held": thing(
        entry=COUNT, destination=TEXT, lanes=rows(COUNT), channel=TEXT, contact=TEXT, event=TEXT, control_id=TEXT,
        received_at=TIME, reason=TEXT, held_since=or_null(TIME), age_seconds=or_null(COUNT),
        waiting=thing(entries=COUNT, patients=COUNT), more=TRUTH,
    ),
    "Run": thing(
        run=COUNT, kind=one_of("replay", "release"), state=TEXT, by=TEXT, filter=named(ANY), force=TRUTH,
        destination=TEXT, rate=NUMBER, started_at=TIME, ended_at=or_null(TIME), total=COUNT, position=COUNT,
        counts=named(COUNT), refusals=rows(thing(entry=COUNT, why=TEXT)),
    ),
    "Channel": thing(
        channel=TEXT, state=one_of("listening", "stopped", "closed"), since=or_null(TIME), by=TEXT, mode=TEXT,
        address=TEXT, port=COUNT, http=TEXT, connections=COUNT, messages=COUNT, refused=COUNT, duplicates=COUNT,
        last_received_at=or_null(TIME), merges_held=or_null(thing(source=TEXT, since=TIME)), mapping=TEXT,
        contact=TEXT, destinations=_TEXTS,
    ),
    "Destination": thing(
        destination=TEXT, state=TEXT, reason=TEXT, detail=TEXT, since=or_null(TIME), by=TEXT, under_way=COUNT,
        waiting=COUNT, oldest_received_at=or_null(TIME), held=COUNT, held_since=or_null(TIME), fhir=TEXT,
        concurrency=COUNT, channels=_TEXTS, lacks=_TEXTS,
    ),
    "Alert": thing(
        id=COUNT, kind=TEXT, subject=TEXT, detail=TEXT, opened_at=TIME, cleared_at=or_null(TIME),
        acknowledged_at=or_null(TIME), acknowledged_by=TEXT, contact=TEXT, meaning=TEXT, can_wait=TRUTH, next_step=TEXT,
    ),
    "AuditRow": thing(
        row=COUNT, at=TIME, actor=TEXT, role=TEXT, via=TEXT, address=TEXT, act=TEXT, entry=or_null(COUNT),
        outcome=TEXT, reason=TEXT, detail=named(ANY), patients=_TEXTS, follows=or_null(COUNT), hash=TEXT,
    ),
    "Reason": thing(code=TEXT, kinds=_TEXTS, can_wait=TRUTH, meaning=TEXT, next_step=TEXT),
}  # fmt: skip

GIVEN: Final[Mapping[str, Schema]] = {
    "messages.list": _page(ref("RowFacts")),
    "messages.search": _page(ref("Row")),
    "messages.show": ref("Entry"),
    "messages.raw": thing(entry=COUNT, base64=TEXT),
    "messages.facts": ref("EntryFacts"),
    # What could not be mapped has `error`, and what could not be read nothing else; `rules` where a field was named.
    "messages.explain": {**_EXPLAINED, "required": ["entry"]},
    "messages.export": _page(thing(_ROW, message=TEXT, base64=or_null(TEXT))),
    "messages.counts": thing(
        _STOOD, since=TIME, until=TIME, received=named(named(COUNT)), settled=named(named(COUNT)),
        queues=named(
            thing(unfinished=COUNT, held=COUNT, oldest_at=or_null(TIME), age_seconds=or_null({"type": "integer"}))
        ),
    ),
    "messages.throughput": thing(
        since=TIME, until=TIME, seconds=COUNT, at=rows(TIME), received=named(rows(COUNT)), refused=named(rows(COUNT)),
        settled=named(named(rows(COUNT))), ack_ms=named(_TIMES),
    ),
    "messages.replay": _DESTINATIONS,
    "messages.release": _DESTINATIONS,
    "messages.retry": _DESTINATIONS,
    "messages.discard": thing(runnable=COUNT),
    "messages.rehearse": ref("Rehearsal"),
    "messages.edit": thing(
        entry=COUNT, parent=COUNT, state=TEXT, differences=rows(_DIFFERENCE), original=TEXT, next_step=TEXT
    ),
    "messages.matches": thing(
        entry=COUNT, destination=TEXT, reason=TEXT, identities=_TEXTS,
        matches=rows(
            thing(
                patient=TEXT, active=TRUTH, merged=TRUTH, name=TEXT, birthDate=or_null(TEXT), gender=or_null(TEXT),
                identifiers=_TEXTS, carries=_TEXTS,
            )
        ),
        next_step=TEXT,
    ),
    "messages.resolve": _DESTINATIONS,
    "stats": _STOOD,
    "codes.unmapped": thing(
        since=TIME, until=TIME,
        codes=rows(thing(note=TEXT, place=TEXT, channel=TEXT, entries=COUNT, last=COUNT, back_to=or_null(TIME))),
    ),
    "codes.values": thing(values=rows(thing(value=TEXT, entries=COUNT, last=COUNT)), looked_at=COUNT),
    "lanes.list": rows(ref("Held")),
    "lanes.show": thing(SCHEMAS["Held"], waits=rows(_WAITS)),
    "lanes.release": ref("Run"),
    "replays.plan": thing(
        count=COUNT, first=or_null(COUNT), last=or_null(COUNT), events=named(COUNT), states=named(COUNT),
        overtaken=COUNT, entries=rows(COUNT),
    ),
    "replays.start": ref("Run"),
    "replays.progress": ref("Run"),
    "replays.list": rows(ref("Run")),
    "replays.stop": ref("Run"),
    "replays.resume": ref("Run"),
    "alive": thing(
        channels=named(thing(address=TEXT, port=COUNT, connections=COUNT)), destinations=named(TEXT)
    ),
    "channels.list": rows(ref("Channel")),
    "channels.start": ref("Channel"),
    "channels.stop": ref("Channel"),
    "channels.drain": thing(SCHEMAS["Channel"], unfinished=COUNT),
    "channels.allow-merge": ref("Channel"),
    "reload": thing(changed=_TEXTS),
    "metrics": TEXT,
    "destinations.list": rows(ref("Destination")),
    "destinations.pause": ref("Destination"),
    "destinations.resume": ref("Destination"),
    "alerts.list": rows(ref("Alert")),
    "alerts.acknowledge": ref("Alert"),
    "reasons": rows(ref("Reason")),
    "audit.list": rows(ref("AuditRow")),
    "audit.verify": thing(
        rows=COUNT, last=COUNT, hash=TEXT, anchors=COUNT, agreed=COUNT, anchored_to=COUNT,
        faults=rows(thing(seq=COUNT, kind=TEXT, text=TEXT)),
    ),
    "audit.anchor": thing(seq=COUNT, at=TIME, hash=TEXT, key=TEXT, signature=TEXT),
    "audit.export": thing(upto=COUNT),
}  # fmt: skip
