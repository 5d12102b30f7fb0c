"""What a feed's messages are, as rows: for JSON, for the terminal, and for a page that is sent on."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engine.mapping.authoring.coverage import Coverage
from engine.mapping.authoring.draft_mapping import Code
from engine.mapping.authoring.feed import FeedSurvey, code_shown, named_times, ranked
from engine.mapping.authoring.local_codes import MissingCode
from engine.mapping.authoring.senders import ProposedChannel, SenderFindings
from engine.mapping.files.overlay import FIELD
from engine.ops.cli.mapping.page import ReportSection
from engine.ops.views.answer import AnyJson

COUNT: Final = {"count": "Messages"}
SECTIONS: Final = (
    ReportSection("unreadable", "Cannot be read", {"reason": "Reason", **COUNT}),
    ReportSection(
        "senders", "Who sends", {"application": "Application (MSH-3)", "facility": "Facility (MSH-4)", **COUNT}
    ),
    ReportSection(
        "by_sender",
        "Each sender",
        {
            "sender": "Sender",
            "mapping": "Mapping",
            "events": "Events",
            "authorities": "Authorities",
            "character_set": "Character set",
            "offsets": "Zones of times",
            "z_segments": "Z segments",
            "codes": "Codes that no table has",
            **COUNT,
        },
    ),
    ReportSection(
        "channels",
        "Channels that are proposed",
        {"channel": "Channel", "senders": "Senders", "mapping": "Mapping", "reason": "Why", **COUNT},
        "Senders share a channel where authorities, character set, zone and mapping go together.",
    ),
    ReportSection(
        "receivers", "To whom", {"application": "Application (MSH-5)", "facility": "Facility (MSH-6)", **COUNT}
    ),
    ReportSection("versions", "HL7 versions", {"version": "Version (MSH-12)", **COUNT}),
    ReportSection("processing_ids", "Processing IDs", {"id": "ID (MSH-11)", **COUNT}),
    ReportSection(
        "character_sets",
        "Character sets",
        {"declared": "Declared (MSH-18)", "really": "What the bytes are", "fault": "Fault", **COUNT},
    ),
    ReportSection(
        "events",
        "Events",
        {"event": "Event", "does": "What the mapping does", "rule": "Rule", "action": "Outcome", **COUNT},
    ),
    ReportSection("refusals", "Why messages would be refused", {"event": "Event", "reason": "Reason", **COUNT}),
    ReportSection(
        "authorities",
        "Assigning authorities",
        {
            "namespace": "Authority",
            "universal_id": "Universal ID",
            "universal_id_type": "Its type",
            "field": "Field",
            "type": "Identifier type",
            **COUNT,
        },
    ),
    ReportSection("identifier_types", "Identifier types", {"type": "Type", "fields": "Fields", **COUNT}),
    ReportSection("segments", "Segments", {"segment": "Segment", **COUNT}),
    ReportSection(
        "z_segments",
        "Fields of Z segments",
        {"path": "Field", "kinds": "What they hold", "repeated": "Several in", **COUNT},
    ),
    ReportSection(
        "z_parts",
        "Components of Z fields",
        {"path": "Component", "kind": "Kind", "kinds": "What they hold", "distinct": "Distinct", "times": "Times"},
    ),
    ReportSection(
        "timestamps",
        "Times of day",
        {"path": "Field", "name": "Name", "without_zone": "Without a zone", "with_zone": "With a zone"},
        "A time without a zone is read in the zone of the channel.",
    ),
    ReportSection("offsets", "Zones of times", {"offset": "Offset", **COUNT}),
    ReportSection("tables", "Code tables used", {"table": "Table", "fields": "Fields", "count": "Look-ups"}),
    ReportSection(
        "unmapped", "Codes that no table has", {"table": "Table", "code": "Code", "field": "Field", "times": "Times"}
    ),
    ReportSection("unread", "Read by no rule", {"path": "Field", "name": "Name", **COUNT}),
)
# The name of a file may be somebody's: it is shown where the file is, and not on a page that is sent on.
FIRSTS: Final = SECTIONS[0]._replace(columns={**SECTIONS[0].columns, "first": "First of them"})


@dataclass(slots=True)
class EventOutcomes:
    """The outcomes of events: rule and outcome of each, and the reasons of refusals."""

    outcomes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, event: str, made: dict[str, Any]) -> None:
        """Count the outcome of a message."""
        self.outcomes[event, made["rule"], "not mapped" if "error" in made else made["action"]] += 1
        reasons = made["findings"] or ([made["error"]] if "error" in made else [])
        self.refusals.update({(event, str(reason).strip()) for reason in reasons})


def report(
    feed: FeedSurvey, covered: Coverage, outcomes: EventOutcomes, channels: Sequence[ProposedChannel] = ()
) -> dict[str, AnyJson]:
    """Return all that was found; its keys are those of the sections, and `messages` and `mapping`."""
    return {
        "messages": feed.messages,
        "mapping": covered.source.name,
        "unreadable": [
            {"reason": reason, "count": count, "first": feed.firsts[reason]}
            for reason, count in feed.unreadable.most_common()
        ],
        "senders": [{"application": one[0], "facility": one[1], "count": n} for one, n in feed.senders.most_common()],
        "by_sender": [_of_sender(one, feed.personal) for channel in channels for one in channel.senders],
        "channels": [_of_channel(number, one) for number, one in enumerate(channels, 1)],
        "receivers": [
            {"application": one[0], "facility": one[1], "count": n} for one, n in feed.receivers.most_common()
        ],
        "versions": [{"version": one, "count": count} for one, count in feed.versions.most_common()],
        "processing_ids": [{"id": one, "count": count} for one, count in feed.processing.most_common()],
        "character_sets": [{**one._asdict(), "count": count} for one, count in feed.charsets.most_common()],
        "events": _outcomes(covered, outcomes),
        "refusals": [
            {"event": one[0], "reason": one[1], "count": count} for one, count in outcomes.refusals.most_common()
        ],
        "authorities": [
            {
                "namespace": one.namespace,
                "universal_id": one.universal,
                "universal_id_type": one.kind,
                "field": one.field,
                "type": one.type_,
                "count": count,
            }
            for one, count in sorted(feed.authorities.items(), key=lambda item: (item[0].field, -item[1], item[0]))
        ],
        "identifier_types": _types(feed),
        "segments": [{"segment": one, "count": count} for one, count in feed.segments.most_common()],
        "z_segments": [
            {"path": path, "kinds": ranked(feed.kinds[path]), "repeated": feed.repeated[path], "count": count}
            for path, count in sorted(feed.own.items())
        ],
        "z_parts": [
            {"path": path, "kind": one.kind, "kinds": ranked(one.kinds), "distinct": one.distinct, "times": one.times}
            for path, one in sorted(feed.parts.items())
        ],
        "timestamps": [
            {"path": path, "name": title, "without_zone": without, "with_zone": zoned}
            for path, title, without, zoned in named_times(feed)
        ],
        "offsets": [{"offset": one, "count": count} for one, count in feed.offsets.most_common()],
        "tables": _tables(covered),
        "unmapped": [code._asdict() for code in codes_of(feed, covered)],
        "unread": [
            {"path": path, "name": title, "count": count}
            for path, title, count in covered.unread_named()
            if FIELD.fullmatch(path)
        ],
    }


def _outcomes(covered: Coverage, outcomes: EventOutcomes) -> list[dict[str, AnyJson]]:
    known = covered.source.documents.events.value.get("events") or {}
    return [
        {"event": event, "does": _does(known.get(event)), "rule": rule, "action": action, "count": count}
        for (event, rule, action), count in sorted(outcomes.outcomes.items())
    ]


def _does(row: Any) -> str:
    if not isinstance(row, dict):
        return "no rule of its own"
    done = row.get("do")
    if done is None:
        return "filtered"
    return ", ".join(map(str, done)) if isinstance(done, list) else str(done)


def _types(feed: FeedSurvey) -> list[dict[str, AnyJson]]:
    fields, counts = _gathered((one.type_, one.field, count) for one, count in feed.authorities.items())
    return [{"type": one, "fields": sorted(fields[one]), "count": count} for one, count in counts.most_common()]


def _tables(covered: Coverage) -> list[dict[str, AnyJson]]:
    fields, counts = _gathered((name, path, count) for (name, path), count in covered.tables.items())
    return [{"table": one, "fields": sorted(fields[one] - {""}), "count": counts[one]} for one in sorted(counts)]


def _gathered(found: Iterable[tuple[str, str, int]]) -> tuple[dict[str, set[str]], Counter[str]]:
    """Return the fields of each name, and how often, of (name, field, count)."""
    fields: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for name, path, count in found:
        fields.setdefault(name, set()).add(path)
        counts[name] += count
    return fields, counts


def codes_of(feed: FeedSurvey, covered: Coverage) -> list[Code]:
    """Return the codes that no table has, those of a table together; of what could be a patient's only the length."""
    return shown_codes(covered.missing(), feed.personal)


def shown_codes(codes: Counter[MissingCode], personal: Collection[str]) -> list[Code]:
    """Return codes, those of a table together; of what could be a patient's only the length."""
    found: Counter[tuple[str, str, str]] = Counter()
    for one, count in codes.items():
        found[one.table, code_shown(one.code, personal), one.field] += count
    ranked = sorted(found.items(), key=lambda item: (item[0][0], -item[1], item[0]))
    return [Code(*key, count) for key, count in ranked]


def _of_sender(one: SenderFindings, personal: Collection[str]) -> dict[str, AnyJson]:
    authorities = {name for found in one.feed.authorities if (name := found.namespace or found.universal)}
    return {
        "sender": one.name,
        "mapping": one.mapping,
        "events": sorted(one.feed.events),
        "authorities": sorted(authorities),
        "character_set": sorted({str(found.declared or found.really) for found in one.feed.charsets}),
        "offsets": sorted(one.feed.offsets),
        "z_segments": sorted({path.partition("-")[0] for path in one.feed.own}),
        "codes": [f"{code.field} {code.code}" for code in shown_codes(one.codes, personal)],
        "count": one.feed.messages,
    }


def _of_channel(number: int, one: ProposedChannel) -> dict[str, AnyJson]:
    return {
        "channel": one.name or str(number),
        "senders": [sender.name for sender in one.senders],
        "mapping": one.mapping,
        "reason": one.reason,
        "count": sum(sender.feed.messages for sender in one.senders),
    }
