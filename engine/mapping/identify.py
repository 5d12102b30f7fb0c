"""From a message to its subject: rule, identities, findings. The hot path of intake."""

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from engine.fhir.plan import Identity
from engine.hl7.finding import ErrorCode, Finding
from engine.hl7.message import Message, Segment
from engine.mapping.events import Doing, EventTable, Rule
from engine.mapping.group import MergeGroup, merge_groups
from engine.mapping.identifier import MERGED, Found, Identifiers
from engine.mapping.kept import Kept
from engine.mapping.merge import Pair, judge, pair
from engine.mapping.moment import Moment, moment_of
from engine.mapping.reading import Splitter
from engine.mapping.setting import Setting
from engine.mapping.stamp import Stamps
from engine.mapping.subject import Action, Subject

MAX_KEPT: Final = 4096
UNKNOWN_AUTHORITY: Final = "unknown-authority"


class Identities(NamedTuple):
    """The identities of one side, the preferred first; how many numbers were placeholders, and findings."""

    found: tuple[Found, ...]
    placeholders: int
    findings: tuple[Finding, ...]


NOBODY: Final = Identities((), 0, ())


class SubjectReader:
    """Reads subjects as one mapping on one channel understands them."""

    def __init__(self, table: EventTable, identifiers: Identifiers, setting: Setting, stamps: Stamps) -> None:
        self._stamps = stamps
        self._sides: Kept[Hashable, Identities] = Kept(MAX_KEPT)
        self._table = table
        self._identifiers = identifiers
        self._setting = setting
        self._fields = tuple((name[:3], int(name[4:]), name) for name in table.identity.fields)
        merged = [MERGED[name] for name in table.identity.fields if name in MERGED]
        self._merged = tuple((name[:3], int(name[4:]), name) for name in merged)

    def rule(self, message: Message) -> Rule:
        """Return the rule of the message's event."""
        return self._table.rules.get(message.trigger, self._table.others)

    def subject(self, message: Message) -> Subject:
        """Return the subject of a message."""
        if message.message_type not in {"ADT", ""}:
            text = "the message type is not supported"
            finding = Finding(ErrorCode.UNSUPPORTED_MESSAGE, "unsupported-message", ("MSH-9.1",), text)
            return Subject("unsupported-message", Action.REFUSE, findings=(finding,))
        rule = self.rule(message)
        if rule.doing is Doing.SKIP or rule.doing is Doing.UNHANDLED:
            return self._filtered(rule, message)
        if rule.doing is Doing.MERGE:
            return self._merge(rule, message)
        return self._patient(rule, message)

    def _filtered(self, rule: Rule, message: Message) -> Subject:
        moment = self.moment(message)
        if rule.doing is Doing.UNHANDLED and self._setting.refuse_unhandled:
            finding = Finding(ErrorCode.UNSUPPORTED_EVENT, rule.name, ("MSH-9.2",), "the event is not supported here")
            return Subject(rule.name, Action.REFUSE, findings=(finding,), event_at=moment.at)
        pids = message.named("PID")
        groups = tuple(_keys(self.side(pid, message, moment).found) for pid in pids)
        visit = _visit(message)
        return Subject(
            rule.name, Action.FILTER, tuple(group for group in groups if group), visit=visit, event_at=moment.at
        )

    def _patient(self, rule: Rule, message: Message) -> Subject:
        moment = self.moment(message)
        side = self.side(message.first("PID"), message, moment)
        findings = side.findings or _unidentified(side)
        flags = (*moment.flags, *_unknown(side.found))
        action = Action.REFUSE if findings else Action.DELIVER
        groups = (_keys(side.found),) if side.found else ()
        return Subject(
            rule.name,
            action,
            groups,
            merge=False,
            visit=_visit(message),
            findings=findings,
            flags=flags,
            event_at=moment.at,
        )

    def _merge(self, rule: Rule, message: Message) -> Subject:
        moment = self.moment(message)
        if not self._setting.allow_merge:
            text = "merges are not allowed on this channel"
            refused = Finding(ErrorCode.UNSUPPORTED_EVENT, "merge-not-allowed", ("MSH-9.2",), text)
            return Subject(rule.name, Action.REFUSE, merge=True, findings=(refused,), event_at=moment.at)
        findings: list[Finding] = []
        groups: list[tuple[Identity, ...]] = []
        flags = list(moment.flags)
        for group in merge_groups(message) or (MergeGroup(None, None),):
            found, faults = self.pair(group, message, moment)
            findings += faults
            if found is not None:
                groups.append(_keys((*found.targets, *found.sources)))
                flags += _unknown((*found.targets, *found.sources))
        action = Action.REFUSE if findings else Action.DELIVER
        return Subject(
            rule.name,
            action,
            tuple(groups),
            merge=True,
            visit=_visit(message),
            findings=tuple(findings),
            flags=tuple(flags),
            event_at=moment.at,
        )

    def pair(self, group: MergeGroup, message: Message, moment: Moment) -> tuple[Pair | None, tuple[Finding, ...]]:
        """Return the pair of one PID/MRG group, and the findings that forbid it."""
        target, source = self.side(group.pid, message, moment), self.merged_side(group.mrg, message, moment)
        found = pair(source.found, target.found)
        faults = [*target.findings, *source.findings]
        if not target.found:
            faults += _unidentified(target)
        if not source.found:
            faults += _unidentified(source, "MRG-1")
        fault = judge(found) if found else None
        return found, (*faults, fault) if fault else tuple(faults)

    def side(self, pid: Segment | None, message: Message, moment: Moment) -> Identities:
        """Return the identities of a PID."""
        return self._side(pid, self._fields, message, moment.day)

    def merged_side(self, mrg: Segment | None, message: Message, moment: Moment) -> Identities:
        """Return the identities of an MRG."""
        return self._side(mrg, self._merged, message, moment.day)

    def _side(
        self, segment: Segment | None, fields: Sequence[tuple[str, int, str]], message: Message, today: str
    ) -> Identities:
        if segment is None:
            return NOBODY
        texts = tuple([segment.field(number) for _, number, _ in fields])
        key = (texts, today, segment.name, message.delimiters, message.charset)
        side = self._sides.get(key)
        return self._sides.keep_if_again(key, self._read(segment, fields, message, today)) if side is None else side

    def _read(
        self, segment: Segment, fields: Sequence[tuple[str, int, str]], message: Message, today: str
    ) -> Identities:
        found: list[Found] = []
        placeholders = 0
        identifiers, every = self._identifiers, Splitter(message).every
        for _, number, place in fields:
            for index, cells in enumerate(every(segment, number), 1):
                one = identifiers.identity(cells, place, today, index)
                if one is None:
                    continue
                if identifiers.placeholder(one.identity.value):
                    placeholders += 1
                elif all(one.identity != other.identity for other in found):
                    found.append(one)
        found.sort(key=_rank)
        return Identities(tuple(found), placeholders, self._refusals(found))

    def _refusals(self, found: Sequence[Found]) -> tuple[Finding, ...]:
        if not self._setting.refuse_unknown_authority:
            return ()
        places = tuple(f"{one.location}.4" for one in found if not one.system.known)
        if not places:
            return ()
        text = "the assigning authority is not known here"
        return (Finding(ErrorCode.UNKNOWN_KEY, UNKNOWN_AUTHORITY, places, text),)

    def moment(self, message: Message) -> Moment:
        """Return when the event took place."""
        return moment_of(message, self._stamps)


def _rank(found: Found) -> int:
    return found.rank


def _visit(message: Message) -> str:
    visit = message.leaf("PV1", 19)
    return visit if isinstance(visit, str) else ""


def _keys(found: Sequence[Found]) -> tuple[Identity, ...]:
    return tuple(dict.fromkeys(one.identity for one in found))


def _unknown(found: Sequence[Found]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{UNKNOWN_AUTHORITY} {one.location}.4" for one in found if not one.system.known))


def _unidentified(side: Identities, place: str = "PID-3") -> tuple[Finding, ...]:
    if side.found:
        return ()
    if side.placeholders:
        text = "the only identifiers are placeholders"
        return (Finding(ErrorCode.UNKNOWN_KEY, "placeholder-identity", (place,), text),)
    return (Finding(ErrorCode.REQUIRED_MISSING, "no-identity", (place,), "no identifier of the patient"),)
