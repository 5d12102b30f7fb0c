"""Fidelity: which of the fields that the incoming mapping reads come back equal from v2 to FHIR to v2, and why not.

A message is mapped to FHIR, as a server without anything of it would hold it, and the outgoing mapping makes a message
of that again. Fields are compared part by part: those that made an element. Equal are also timestamps of one moment,
and two codes that a table has for one FHIR code, if the first has no meaning of its own there; and what comes back in
the field, or the component, that HL7 has put in the place of a withdrawn one. Repetitions may come in another order.
Messages of several patients are left out.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, NamedTuple

from engine.config.channel import Channel
from engine.errors import MappingError, TimestampError
from engine.fhir.json import JsonObject
from engine.hl7.conformance.check import VARIES
from engine.hl7.conformance.standard import WITHDRAWN, standard
from engine.hl7.events import VERSIONS
from engine.hl7.message import Message, parse
from engine.hl7.segment import Repetition, Segment
from engine.hl7.timestamp import offset_of_message, parse_timestamp
from engine.mapping.authoring.evidence import Evidence
from engine.mapping.authoring.explain import explained_by, watch
from engine.mapping.compile import MappingSource
from engine.mapping.files.document import Document
from engine.mapping.files.overlay import FIELD
from engine.mapping.files.reference import listed, segments
from engine.mapping.files.table import make_table
from engine.mapping.language.function_context import Takes
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.language.string_functions import MIDNIGHT
from engine.mapping.outgoing.change import DEFAULT_VERSION, ChangeKind, FhirChange, NothingToSend, OutgoingSetting
from engine.mapping.outgoing.compile import OutgoingMapping, OutgoingSource, compile_outgoing
from engine.mapping.subject.subject import Disposition

NO_RULE: Final = "no rule"
ENCOUNTER: Final = "Encounter"
# What an event says of the record that it made; all others are updates.
KINDS: Final = {
    "A01": ChangeKind.VISIT_STARTED, "A04": ChangeKind.VISIT_STARTED, "A05": ChangeKind.VISIT_PLANNED,
    "A14": ChangeKind.VISIT_PLANNED, "A02": ChangeKind.VISIT_MOVED, "A03": ChangeKind.VISIT_ENDED,
    "A11": ChangeKind.VISIT_CANCELLED, "A27": ChangeKind.VISIT_CANCELLED, "A38": ChangeKind.VISIT_CANCELLED,
    "A23": ChangeKind.VISIT_DELETED, "A28": ChangeKind.PATIENT_CREATED, "A29": ChangeKind.PATIENT_DELETED,
}  # fmt: skip
# Interactions that no change of a FHIR server tells: links of records, and numbers that change their patient.
NO_CHANGE: Final = frozenset({"link", "unlink", "move"})
FUNCTION: Final = re.compile(r"[a-z][a-z0-9-]*")
STAMP: Final = re.compile(r"\d{8,14}(\.\d+)?([+-]\d{4})?")
# Components that a number of a visit, and one of a person, is known by.
NUMBER: Final = (1, 4)
DAY: Final = len("YYYYMMDD")
VALUE: Final = 1
VERSION_FROM: Final = VERSIONS.index("2.3")


# The field to which HL7 has moved the content of another, which is kept for older systems only.
SUCCESSORS: Final = {
    ("PID", 2): (("PID", 3),),
    ("PID", 4): (("PID", 3),),
    ("PID", 9): (("PID", 5),),
    ("PID", 40): (("PID", 13), ("PID", 14)),
    ("MRG", 4): (("MRG", 1),),
    ("MRG", 2): (("MRG", 1),),
}


# The types of withdrawn fields, which the reference has no more.
WITHDRAWN_TYPES: Final = {"PD1-4": "XCN", "PID-9": "XPN", "PID-2": "CX", "PID-4": "CX"}
# The same as SUCCESSORS of components.
LATER: Final = {
    ("XTN", 1): (12, 1), ("XPN", 6): (14, 1), ("XCN", 7): (21, 1), ("XPN", 10): (12, 1), ("XAD", 12): (13, 1),
}  # fmt: skip


class LostValue(NamedTuple):
    """A part of a field that does not come back: the rule that read it, the rule that would write it, or `no rule`."""

    path: str
    incoming: str
    outgoing: str


class _Leaf(NamedTuple):
    component: int
    subcomponent: int
    incoming: str = ""
    tables: tuple[str, ...] = ()


@dataclass(slots=True)
class FidelityReport:
    """The findings over all messages so far.

    `foreign` counts values that the version of their message does not have, which no message of it can say;
    `skipped` messages that make nothing, by reason.
    """

    messages: int = 0
    fields: int = 0
    fields_equal: int = 0
    values: int = 0
    foreign: int = 0
    values_equal: int = 0
    lost: Counter[LostValue] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        """The share of fields that come back equal; 1 if there are none."""
        return self.fields_equal / self.fields if self.fields else 1.0


class Fidelity:
    """The round trip of messages through an incoming and an outgoing mapping on a channel; `now` is MSH-7."""

    def __init__(self, source: MappingSource, channel: Channel, outgoing: OutgoingSource, now: datetime) -> None:
        self.report = FidelityReport()
        self._watched = watch(source, channel)
        self._channel = channel
        self._now = now
        self._documents = outgoing.documents
        self._outgoing = outgoing
        self._compiled: dict[OutgoingSettingKey, OutgoingMapping] = {}
        # That of the message at hand, for its timestamps without one.
        self._offset: tzinfo | None = None
        self._visits = _visit_fields(source.documents.resources.get(ENCOUNTER))

    def add(self, message: Message) -> None:
        """Send one message there and back, and note what of it comes back."""
        report = self.report
        explanation = explained_by(self._watched, message)
        made = explanation.outcome
        if made["action"] != Disposition.DELIVER.value or "error" in made:
            report.skipped[str(made.get("error") or made["action"]).split()[0]] += 1
            return
        changes = list(changes_of(message, made["interactions"]))
        if len(changes) != 1 or len(message.named("PID")) > 1:
            report.skipped["several-patients" if changes else "no-change"] += 1
            return
        mapping = self._mapping(message)
        back: dict[str, list[Segment]] = {}
        for change in changes:
            try:
                sent = mapping.message(change, message.control_id or "1", self._now)
            except MappingError as error:
                report.skipped[error.reason] += 1
                return
            if isinstance(sent, NothingToSend):
                report.skipped[sent.reason] += 1
                return
            for segment in parse(sent.raw).segments:
                back.setdefault(segment.name, []).append(segment)
        report.messages += 1
        self._offset = offset_of_message(str(message.leaf("MSH", 7) or ""), self._channel.zone)
        self._compare(message, explanation.evidence, made["interactions"], back, mapping.setting.version)

    def _mapping(self, message: Message) -> OutgoingMapping:
        version = message.version if message.version in VERSIONS[VERSION_FROM:] else DEFAULT_VERSION
        names = tuple(str(message.leaf("MSH", number) or "") for number in (3, 4, 5, 6))
        key = (version, names)
        if key not in self._compiled:
            channel, (application, facility, receiver, receiving) = self._channel, names
            setting = OutgoingSetting(
                version=version,
                sending_application=application,
                sending_facility=facility,
                receiving_application=receiver,
                receiving_facility=receiving,
                zone=channel.zone,
                authorities=dict(channel.authorities),
                base_uri=channel.base_uri,
            )
            self._compiled[key] = compile_outgoing(self._outgoing, setting)
        return self._compiled[key]

    def _compare(
        self,
        message: Message,
        evidence: Iterable[Evidence],
        interactions: Iterable[JsonObject],
        back: Mapping[str, list[Segment]],
        version: str,
    ) -> None:
        read = self._read(message, evidence, interactions)
        by_segment: dict[tuple[str, int], dict[int, dict[int, set[_Leaf]]]] = {}
        for (name, ordinal, number, repetition), all_leaves in read.items():
            leaves = {leaf for leaf in all_leaves if _has(version, name, number, leaf)}
            self.report.foreign += len(all_leaves) - len(leaves)
            if leaves:
                by_segment.setdefault((name, ordinal), {}).setdefault(number, {})[repetition] = leaves
        left = {name: list(segments) for name, segments in back.items()}
        for (name, ordinal), fields in by_segment.items():
            segment = message.named(name)[ordinal - 1]
            scored = [(self._score(segment, fields, one), -at, one) for at, one in enumerate(left.get(name, ()))]
            nearest = max(scored, default=None, key=lambda one: one[:2])
            if nearest is not None and len(message.named(name)) > 1:
                left[name].remove(nearest[2])
            for number, repetitions in fields.items():
                self._count(segment, number, repetitions, nearest[2] if nearest else None)

    def _score(self, segment: Segment, fields: Mapping[int, Mapping[int, set[_Leaf]]], other: Segment) -> int:
        name = segment.name
        return sum(
            len(leaves)
            - len(
                self._lost(
                    segment.repetitions(number)[at - 1], leaves, _candidates(other, name, number), _type(name, number)
                )
            )
            for number, repetitions in fields.items()
            for at, leaves in repetitions.items()
        )

    def _count(
        self, segment: Segment, number: int, repetitions: Mapping[int, set[_Leaf]], other: Segment | None
    ) -> None:
        report, lost = self.report, 0
        for at, leaves in repetitions.items():
            found = _candidates(other, segment.name, number) if other is not None else ()
            missing = self._lost(segment.repetitions(number)[at - 1], leaves, found, _type(segment.name, number))
            report.values += len(leaves)
            report.values_equal += len(leaves) - len(missing)
            lost += len(missing)
            for leaf in missing:
                report.lost[self._loss(segment.name, number, leaf)] += 1
        report.fields += 1
        report.fields_equal += not lost

    def _lost(
        self, repetition: Repetition, leaves: set[_Leaf], others: Iterable[Repetition], type_: str
    ) -> list[_Leaf]:
        """Return the parts that the most similar of other repetitions does not have."""
        missing = [
            [leaf for leaf in leaves if not self._comes_back(repetition, leaf, other, type_)] for other in others
        ]
        return min(missing, key=len, default=list(leaves))

    def _comes_back(self, repetition: Repetition, leaf: _Leaf, other: Repetition, type_: str) -> bool:
        text = _text(repetition, leaf)
        if self._equal(text, _text(other, leaf)):
            return True
        later = LATER.get((type_, leaf.component))
        if later is not None:
            return self._equal(text, _text(other, _Leaf(later[0] + leaf.subcomponent - 1, later[1])))
        return any(self._spelt_otherwise(name, text, _text(other, leaf)) for name in leaf.tables)

    def _spelt_otherwise(self, name: str, code: str, other: str) -> bool:
        """True if a table has two codes for one FHIR code, and no meaning of its own for the first."""
        document = self._documents.tables.get(name)
        table = make_table(name, document.value, document.rows) if document is not None else None
        keys = [table.key(one) for one in (code, other)] if table is not None else []
        if document is None or table is None or None in keys:
            return False
        rows = [(document.value.get("codes") or {}).get(key) for key in keys]
        own, written = (row.get("original") if isinstance(row, dict) else None for row in rows)
        targets = [table.codes[str(key)] for key in keys]
        return targets[0] is not None and targets[0] == targets[1] and own in (None, written)

    def _equal(self, text: str, other: str) -> bool:
        if text == other:
            return True
        if not (STAMP.fullmatch(text) and STAMP.fullmatch(other)):
            return False
        zone = self._channel.zone
        try:
            one, two = parse_timestamp(text, zone, self._offset), parse_timestamp(other, zone)
        except TimestampError:
            return False
        midnight = MIDNIGHT.fullmatch(text[8:]) is not None and len(other) == DAY
        return one.at == two.at or (midnight and one.day == two.day)

    def _read(
        self, message: Message, evidence: Iterable[Evidence], interactions: Iterable[JsonObject]
    ) -> dict[tuple[str, int, int, int], set[_Leaf]]:
        """Return the parts that made something, by segment, its number, field and repetition."""
        found: dict[tuple[str, int, int, int], set[_Leaf]] = {}
        for one in evidence:
            match = FIELD.fullmatch(one.source)
            if one.made is None or match is None or match[1] not in message.firsts:
                continue
            segment = message.named(match[1])[max(one.segment, 1) - 1]
            place = f"{one.file}:{one.line}"
            for at, repetition in enumerate(segment.repetitions(int(match[2])), 1):
                if at not in _repetitions_read(one, match):
                    continue
                for component, part in _parts_read(one, match, repetition):
                    leaf = repetition.leaf(component, part)
                    if isinstance(leaf, str) and leaf.strip():
                        key = (match[1], max(one.segment, 1), int(match[2]), at)
                        known = found.setdefault(key, set())
                        if not any(other[:2] == (component, part) for other in known):
                            known.add(_Leaf(component, part, place, tuple({row.table for row in one.rows})))
        self._add_visits(message, interactions, found)
        return found

    def _add_visits(
        self,
        message: Message,
        interactions: Iterable[JsonObject],
        found: dict[tuple[str, int, int, int], set[_Leaf]],
    ) -> None:
        """Add the numbers of visits, which are read by name and not by a rule."""
        numbers = {
            one.get("value")
            for interaction in interactions
            if (body := interaction.get("resource") or {}).get("resourceType") == ENCOUNTER
            for one in body.get("identifier") or ()
        }
        for (name, number), place in self._visits.items():
            for segment in message.named(name)[:1]:
                for at, repetition in enumerate(segment.repetitions(number)[:1], 1):
                    if repetition.leaf() in numbers:
                        leaves = {_Leaf(component, 1, place) for component in NUMBER if repetition.leaf(component)}
                        found.setdefault((name, 1, number, at), set()).update(leaves)

    def _loss(self, name: str, number: int, leaf: _Leaf) -> LostValue:
        below = f".{leaf.component}" if leaf.component > 1 or leaf.subcomponent > 1 else ""
        below += f".{leaf.subcomponent}" if leaf.subcomponent > 1 else ""
        return LostValue(f"{name}-{number}{below}", leaf.incoming, self._writer(name, number, leaf))

    def _writer(self, name: str, number: int, leaf: _Leaf) -> str:
        """Return file and line of the outgoing rule of a part, or that there is none."""
        document = self._documents.segments.get(name)
        key = f"{name}-{number}"
        template = (document.value.get("fields") or {}).get(key) if document is not None else None
        if document is None or template is None:
            return NO_RULE
        entries = template if isinstance(template, list) else [template]
        types = [str(one["as"]) for one in entries if isinstance(one, dict) and "as" in one]
        for type_ in types:
            own = self._documents.datatypes.get(type_)
            components = own.value.get("components") or {} if own is not None else {}
            for part in (f"{type_}.{leaf.component}.{leaf.subcomponent}", f"{type_}.{leaf.component}"):
                if own is not None and part in components:
                    return ":".join(map(str, own.place(("components", part))))
        if types:
            return NO_RULE
        return ":".join(map(str, document.place(("fields", key))))


OutgoingSettingKey = tuple[str, tuple[str, ...]]


def changes_of(message: Message, interactions: Iterable[JsonObject]) -> Iterator[FhirChange]:
    """Yield the changes that a message's plan would be on a server without anything of it."""
    interactions = list(interactions)
    resources: dict[str, JsonObject] = {f"#{one['keep']}": one["resource"] for one in interactions if "keep" in one}
    visits = [one for one in resources.values() if one.get("resourceType") == ENCOUNTER]
    patients = [one for one in interactions if "patient" in one and not one.keys() & NO_CHANGE]
    for number, one in enumerate(patients):
        if "merge" in one:
            merged = {"resourceType": "Patient", "identifier": one["source_identifiers"]}
            yield FhirChange(ChangeKind.PATIENT_MERGED, one["patient"], None, merged, resources, _event_at(message))
            continue
        visit = visits[number] if number < len(visits) else None
        kind = KINDS.get(message.trigger, ChangeKind.VISIT_UPDATED if visit else ChangeKind.PATIENT_UPDATED)
        if visit is None and kind.of_visit:
            kind = ChangeKind.PATIENT_UPDATED
        yield FhirChange(kind, one["patient"], visit, None, resources, _event_at(message))


def _has(version: str, name: str, number: int, leaf: _Leaf) -> bool:
    """True if a version has a part of a field, or HL7 has moved its content elsewhere."""
    if name[0] == "Z" or (name, number) in SUCCESSORS:
        return True
    known = standard(version)
    rule = known.segment(name) if known is not None else None
    field_ = rule.fields[number] if rule is not None and number < len(rule.fields) else None
    if field_ is None or field_.most == 0:
        return False
    if (field_.type, leaf.component) in LATER or field_.type == VARIES:
        return True
    part = field_
    for at in (leaf.component, leaf.subcomponent):
        if at > max(len(part.parts), 1):
            return False
        part = part.parts[at - 1] if part.parts else part
        if part.type == WITHDRAWN:
            return False
    return True


def _candidates(segment: Segment, name: str, number: int) -> list[Repetition]:
    """Return the repetitions of a field, and of the one that HL7 has in its place."""
    fields = ((name, number), *SUCCESSORS.get((name, number), ()))
    return [repetition for _, each in fields for repetition in segment.repetitions(each)]


def _event_at(message: Message) -> datetime | None:
    text = message.leaf("EVN", 2) or message.leaf("MSH", 7)
    try:
        return parse_timestamp(text, UTC).at if isinstance(text, str) else None
    except TimestampError:
        return None


def _visit_fields(encounter: Document | None) -> dict[tuple[str, int], str]:
    """Return the fields of a visit's numbers, with the place of each in its file."""
    identity = encounter.value.get("identity") if encounter is not None else None
    found: dict[tuple[str, int], str] = {}
    for key in ("keys", "else", "also"):
        for text in listed(identity.get(key)) if isinstance(identity, dict) else ():
            if encounter is not None and (match := FIELD.fullmatch(text)):
                found[match[1], int(match[2])] = ":".join(map(str, encounter.place(("identity", key))))
    return found


def _repetitions_read(one: Evidence, match: re.Match[str]) -> Iterable[int]:
    if match[3]:
        return (int(match[3]),)
    function = _first_function(one)
    return range(1, 1000) if function is not None and FUNCTIONS[function].takes is Takes.ALL else (1,)


def _parts_read(one: Evidence, match: re.Match[str], repetition: Repetition) -> Iterator[tuple[int, int]]:
    """Yield the parts of a repetition that a rule read, as far as they made its value."""
    if match[7]:
        yield int(match[7]), int(match[8] or 1)
        return
    function = _first_function(one)
    if one.functions and function is None:
        return  # a data type or a resource: each of its rules is noted by itself
    if function is None or FUNCTIONS[function].takes is Takes.TEXT:
        yield VALUE, 1
    elif function in ONE_OF:
        yield from ((component, 1) for component in ONE_OF[function](repetition))
    else:
        reads = FUNCTIONS[function].reads or range(1, repetition.components() + 1)
        yield from ((component, 1) for component in reads)


def _first_function(one: Evidence) -> str | None:
    """Return the first function of a rule; None without one, and for a data type or a resource."""
    match = FUNCTION.match(one.functions[0].function) if one.functions else None
    return match[0] if match is not None and match[0] in FUNCTIONS else None


def _number_of_phone(repetition: Repetition) -> tuple[int, ...]:
    """Return the components that make a phone number: only those that are used, of several ways to write it."""
    return (12,) if repetition.leaf(12) else (5, 6, 7, 8) if repetition.leaf(7) else (1,)


ONE_OF: Final = {"phone-number": _number_of_phone}


def _type(name: str, number: int) -> str:
    """Return the data type of a field; that of a person for what is withdrawn."""
    known = segments().get(name, {}).get(number)
    return WITHDRAWN_TYPES.get(f"{name}-{number}", known.type_ if known is not None else "")


def _text(repetition: Repetition, leaf: _Leaf) -> str:
    value: Any = repetition.leaf(leaf.component, leaf.subcomponent)
    return value.strip() if isinstance(value, str) else ""
