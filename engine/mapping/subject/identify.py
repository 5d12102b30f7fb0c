"""From a message to its subject: rule, identities, findings. The hot path of intake."""

from collections.abc import Callable, Sequence
from typing import Final

from engine.fhir.plan import Identity
from engine.hl7.events import ADT
from engine.hl7.finding import ErrorCode, Finding
from engine.hl7.message import Message
from engine.mapping.files.group import NO_GROUP, merge_groups
from engine.mapping.files.setting import Setting
from engine.mapping.language.identifier import Identifiers, MessageIdentifier
from engine.mapping.language.moment import Moment, Stamps, moment_of
from engine.mapping.subject.events import EventAction, EventRule, EventTable
from engine.mapping.subject.filters import CompiledFilter, first_of
from engine.mapping.subject.identities import UNKNOWN_AUTHORITY, Identities, IdentityReader
from engine.mapping.subject.subject import Disposition, MessageSubject

# The actions that a mark of the past changes: an event about identity is not a movement.
MOVEMENTS: Final = frozenset({EventAction.UPSERT, EventAction.UPDATE, EventAction.IDENTIFY})

# The resource type of a visit.
ENCOUNTER: Final = "Encounter"


class SubjectReader:
    """Reads subjects by the rules of one mapping on one channel; `identities` reads their identities.

    `filters` are those of the event file; `at_door` those of the channel, which apply when a message comes in, and not
    to one that was taken in already.
    """

    def __init__(
        self,
        table: EventTable,
        identifiers: Identifiers,
        setting: Setting,
        stamps: Stamps,
        filters: Sequence[CompiledFilter] = (),
        at_door: Sequence[CompiledFilter] = (),
        visits: tuple[tuple[str, int], ...] = (),
    ) -> None:
        self._visits = visits
        self._filters = filters
        self._at_door = at_door
        self.filters = tuple(one.applied for one in (*at_door, *filters))
        self._stamps = stamps
        self._table, self.taken = table, table.taken
        self._beside_adt = table.taken.types - {ADT}
        self.identities = IdentityReader(identifiers, setting)
        self._setting = setting
        self._read_as: dict[EventAction, Callable[[EventRule, Message, Moment], MessageSubject]] = {
            EventAction.SKIP: self._filtered,
            EventAction.UNHANDLED: self._filtered,
            EventAction.REFUSE: self._refused,
            EventAction.MERGE: self._merge,
            EventAction.RENAME: self._rename,
            EventAction.LINK: self._link,
            EventAction.UNLINK: self._link,
            EventAction.MOVE: self._move,
        }

    def rule(self, message: Message) -> EventRule:
        """Return the rule of the first filter that holds, or else of the message's event."""
        first = first_of(self._filters, message)
        return self._of_event(message) if first is None or first.rule is None else first.rule

    def _of_event(self, message: Message) -> EventRule:
        event = message.trigger
        if self._beside_adt and (type_ := message.message_type) in self._beside_adt:
            event = f"{type_}^{event}"
        rule = self._table.rules.get(event, self._table.others)
        historic = self._table.historic
        if historic is None or message.first(historic.segment) is None or rule.action not in MOVEMENTS:
            return rule
        return historic.rule if message.leaf(historic.segment, historic.number) == historic.value else rule

    def is_historic(self, rule: EventRule) -> bool:
        """True if a rule is the one for past movements."""
        return self._table.historic is not None and rule.name == self._table.historic.rule.name

    def subject(self, message: Message) -> MessageSubject:
        """Return the subject of a message."""
        if (type_ := message.message_type) and type_ not in self.taken.types:
            if self._setting.filter_messages:
                return MessageSubject("unhandled-message", Disposition.FILTER)
            text = "the message type is not supported"
            finding = Finding(ErrorCode.UNSUPPORTED_MESSAGE, "unsupported-message", ("MSH-9.1",), text)
            return MessageSubject("unsupported-message", Disposition.REFUSE, findings=(finding,))
        at_door = first_of(self._at_door, message)
        ends = at_door if at_door is not None and at_door.rule else first_of(self._filters, message)
        rule = ends.rule if ends is not None and ends.rule else self._of_event(message)
        subject = self._read_as.get(rule.action, self._patient)(rule, message, self.moment(message))
        if not subject.visit and self._visits and any(act.type_ == ENCOUNTER for act in rule.acts):
            subject = subject._replace(visit=self._visit_of(message))
        if (first := ends or at_door) is None:
            return subject
        return subject._replace(filter=first.applied, of_identity=rule.of_identity)

    def _visit_of(self, message: Message) -> str:
        """Return the number by which the mapping knows a visit without PV1-19; empty if it has none."""
        for segment, number in self._visits:
            visit = message.leaf(segment, number)
            if isinstance(visit, str):
                return visit
        return ""

    def _filtered(self, rule: EventRule, message: Message, moment: Moment) -> MessageSubject:
        if rule.action is EventAction.UNHANDLED and self._setting.refuse_unhandled:
            finding = Finding(ErrorCode.UNSUPPORTED_EVENT, rule.name, ("MSH-9.2",), "the event is not supported here")
            return MessageSubject(rule.name, Disposition.REFUSE, findings=(finding,), event_at=moment.at)
        pids = message.named("PID")
        groups = tuple(_keys(self.identities.side(pid, message, moment).found) for pid in pids)
        visit = _visit(message)
        return MessageSubject(
            rule.name, Disposition.FILTER, tuple(group for group in groups if group), visit=visit, event_at=moment.at
        )

    def _refused(self, rule: EventRule, _: Message, moment: Moment) -> MessageSubject:
        finding = Finding(ErrorCode.APPLICATION, rule.name, (), "a rule of this site refuses such messages")
        return MessageSubject(rule.name, Disposition.REFUSE, findings=(finding,), event_at=moment.at)

    def _patient(self, rule: EventRule, message: Message, moment: Moment) -> MessageSubject:
        sides = self.identities.sides(rule, message, moment)
        groups = [side.found for side in sides]
        if not rule.moves:
            groups += self._also_named(message, moment, groups)
        flags = tuple([flag for side in sides for flag in side.flags])
        return _subject(rule, message, moment, groups, _faults(sides), flags)

    def _also_named(
        self, message: Message, moment: Moment, groups: Sequence[Sequence[MessageIdentifier]]
    ) -> list[tuple[MessageIdentifier, ...]]:
        """Return the patients in MRG that the PIDs do not name: the message waits for their lanes, too."""
        merged = message.named("MRG")
        if not merged:
            return []
        known = {one.identity for group in groups for one in group}
        sides = [self.identities.merged_side(mrg, message, moment).found for mrg in merged]
        return [side for side in sides if any(one.identity not in known for one in side)]

    def _merge(self, rule: EventRule, message: Message, moment: Moment) -> MessageSubject:
        if not self._setting.allow_merge:
            text = "merges are not allowed on this channel"
            refused = Finding(ErrorCode.UNSUPPORTED_EVENT, "merge-not-allowed", ("MSH-9.2",), text)
            return MessageSubject(rule.name, Disposition.REFUSE, merge=True, findings=(refused,), event_at=moment.at)
        findings: list[Finding] = []
        groups: list[tuple[Identity, ...]] = []
        flags = list(moment.flags)
        for group in merge_groups(message) or NO_GROUP:
            pair, faults = self.identities.pair(group, message, moment)
            findings += faults
            if pair is not None:
                groups.append(_keys((*pair.targets, *pair.sources)))
                flags += _unknown([pair.targets, pair.sources])
        action = Disposition.REFUSE if findings else Disposition.DELIVER
        return MessageSubject(
            rule.name,
            action,
            tuple(groups),
            merge=True,
            visit=_visit(message),
            findings=tuple(findings),
            flags=tuple(flags),
            event_at=moment.at,
        )

    def _rename(self, rule: EventRule, message: Message, moment: Moment) -> MessageSubject:
        sides = [self.identities.renamed(group, message, moment) for group in merge_groups(message) or NO_GROUP]
        faults = _faults([side for both in sides for side in both])
        return _subject(rule, message, moment, [(*new.found, *old.found) for new, old in sides], faults)

    def _link(self, rule: EventRule, message: Message, moment: Moment) -> MessageSubject:
        sides = self.identities.linked(message, moment)
        return _subject(rule, message, moment, [side.found for side in sides], _faults(sides))

    def _move(self, rule: EventRule, message: Message, moment: Moment) -> MessageSubject:
        moved = [self.identities.moved(group, message, moment) for group in merge_groups(message) or NO_GROUP]
        findings = tuple(dict.fromkeys(finding for _, faults in moved for finding in faults))
        return _subject(rule, message, moment, [side for found, _ in moved for side in found], findings)

    def moment(self, message: Message) -> Moment:
        """Return when the event took place."""
        return moment_of(message, self._stamps)


def _visit(message: Message) -> str:
    visit = message.leaf("PV1", 19)
    return visit if isinstance(visit, str) else ""


def _keys(found: Sequence[MessageIdentifier]) -> tuple[Identity, ...]:
    """Return the identities of one patient, then those as sent: what waits from before `normalise` goes first."""
    originals = [original for one in found if (original := one.original)]
    return tuple(dict.fromkeys([*[one.identity for one in found], *originals]))


def _subject(
    rule: EventRule,
    message: Message,
    moment: Moment,
    groups: Sequence[Sequence[MessageIdentifier]],
    findings: tuple[Finding, ...],
    flags: tuple[str, ...] = (),
) -> MessageSubject:
    return MessageSubject(
        rule.name,
        Disposition.REFUSE if findings else Disposition.DELIVER,
        tuple(dict.fromkeys([_keys(group) for group in groups if group])),
        visit=_visit(message),
        findings=findings,
        flags=(*moment.flags, *flags, *_unknown(groups)),
        event_at=moment.at,
    )


def _faults(sides: Sequence[Identities]) -> tuple[Finding, ...]:
    return tuple(dict.fromkeys([finding for side in sides for finding in side.findings]))


def _unknown(groups: Sequence[Sequence[MessageIdentifier]]) -> list[str]:
    places = [one.location for group in groups for one in group if not one.system.known]
    return [f"{UNKNOWN_AUTHORITY} {place}.4" for place in dict.fromkeys(places)]
