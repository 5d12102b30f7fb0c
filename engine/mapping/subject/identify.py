"""From a message to its subject: rule, identities, findings. The hot path of intake."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple

from engine.fhir.plan import Identity
from engine.hl7.finding import ErrorCode, Finding
from engine.hl7.message import Message, Segment
from engine.mapping.files.group import NO_GROUP, MergeGroup, merge_groups
from engine.mapping.files.setting import Setting
from engine.mapping.language.bounded_cache import BoundedCache
from engine.mapping.language.identifier import MERGED, Found, Identifiers, same_person
from engine.mapping.language.moment import Moment, Stamps, moment_of
from engine.mapping.subject.events import Doing, EventTable, Rule
from engine.mapping.subject.merge import Pair, judge, pair
from engine.mapping.subject.move import Sides
from engine.mapping.subject.move import judge as judge_move
from engine.mapping.subject.move import sides as move_sides
from engine.mapping.subject.subject import Action, Subject

MAX_KEPT: Final = 4096
UNKNOWN_AUTHORITY: Final = "unknown-authority"
SEVERAL_PATIENTS: Final = "several-patients"
PATIENT_REPEATED: Final = "patient-repeated"
# The fields of MRG whose numbers a change of identifier may take out of use.
RENAMED: Final = (1, 2, 4)


class Identities(NamedTuple):
    """The identities of one side, the preferred first; how many numbers were placeholders, findings and flags."""

    found: tuple[Found, ...]
    placeholders: int
    findings: tuple[Finding, ...]
    flags: tuple[str, ...] = ()


# What a mark of the past changes: an event about who somebody is speaks of no movement.
MOVEMENTS: Final = frozenset({Doing.UPSERT, Doing.UPDATE, Doing.IDENTIFY})
NOBODY: Final = Identities((), 0, ())


class SubjectReader:
    """Reads subjects as one mapping on one channel understands them."""

    def __init__(self, table: EventTable, identifiers: Identifiers, setting: Setting, stamps: Stamps) -> None:
        self._stamps = stamps
        self._sides: BoundedCache[Hashable, Identities] = BoundedCache(MAX_KEPT)
        self._table, self.events = table, frozenset(table.rules)
        self._identifiers = identifiers
        self._setting = setting
        self._fields = tuple((name[:3], int(name[4:]), name) for name in table.identity.fields)
        merged = [MERGED[name] for name in table.identity.fields if name in MERGED]
        self._merged = tuple((name[:3], int(name[4:]), name) for name in merged)
        self._read_as: dict[Doing, Callable[[Rule, Message], Subject]] = {
            Doing.SKIP: self._filtered,
            Doing.UNHANDLED: self._filtered,
            Doing.MERGE: self._merge,
            Doing.RENAME: self._rename,
            Doing.LINK: self._link,
            Doing.UNLINK: self._link,
            Doing.MOVE: self._move,
        }

    def rule(self, message: Message) -> Rule:
        """Return the rule of the message's event."""
        rule = self._table.rules.get(message.trigger, self._table.others)
        historic = self._table.historic
        if historic is None or message.first(historic.segment) is None or rule.doing not in MOVEMENTS:
            return rule
        return historic.rule if message.leaf(historic.segment, historic.number) == historic.value else rule

    def is_historic(self, rule: Rule) -> bool:
        """Say whether a rule is that for movements of the past."""
        return self._table.historic is not None and rule.name == self._table.historic.rule.name

    def subject(self, message: Message) -> Subject:
        """Return the subject of a message."""
        if message.message_type not in {"ADT", ""}:
            text = "the message type is not supported"
            finding = Finding(ErrorCode.UNSUPPORTED_MESSAGE, "unsupported-message", ("MSH-9.1",), text)
            return Subject("unsupported-message", Action.REFUSE, findings=(finding,))
        rule = self.rule(message)
        return self._read_as.get(rule.doing, self._patient)(rule, message)

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
        sides = self.sides(rule, message, moment)
        groups = [side.found for side in sides]
        if rule.thin and not rule.moves:
            groups += self._also_named(message, moment, groups)
        flags = tuple([flag for side in sides for flag in side.flags])
        return _subject(rule, message, moment, groups, _faults(sides), flags)

    def _also_named(
        self, message: Message, moment: Moment, groups: Sequence[Sequence[Found]]
    ) -> list[tuple[Found, ...]]:
        """Return whom MRG names otherwise than the PIDs do: their lanes are waited for, too."""
        known = {one.identity for group in groups for one in group}
        sides = [self.merged_side(mrg, message, moment).found for mrg in message.named("MRG")]
        return [side for side in sides if any(one.identity not in known for one in side)]

    def sides(self, rule: Rule, message: Message, moment: Moment) -> tuple[Identities, ...]:
        """Return the identities of each patient whom an event speaks of, with the findings that forbid to map it.

        One, or that of each PID, or (moves) for each MRG that of its PID and of whom something is moved from.
        """
        if rule.merges:
            found = [self.side(group.pid, message, moment) for group in merge_groups(message) or NO_GROUP]
            return tuple(side._replace(findings=side.findings or _unidentified(side)) for side in found)
        if rule.moves:
            groups = merge_groups(message) or NO_GROUP
            sides: list[tuple[Identities, str]] = []
            for pid, mrg in groups:
                sides.append((self.side(pid, message, moment), "PID-3"))
                sides.append((self.merged_side(mrg, message, moment), "MRG-1"))
        elif rule.each:
            sides = [(self.side(pid, message, moment), "PID-3") for pid in message.named("PID") or (None,)]
        else:
            return (self._alone(message, moment),)
        return tuple(side._replace(findings=side.findings or _unidentified(side, place)) for side, place in sides)

    def _alone(self, message: Message, moment: Moment) -> Identities:
        """Return the identities of the one patient of an event; a PID of somebody else forbids to map it."""
        pids = message.named("PID")
        if len(pids) < 2:
            side = self.side(pids[0] if pids else None, message, moment)
            return side if side.findings or side.found else side._replace(findings=_unidentified(side))
        side, *others = [self.side(pid, message, moment) for pid in pids]
        strangers = tuple(
            f"PID({number})" for number, one in enumerate(others, 2) if not same_person(side.found, one.found)
        )
        text = "the event speaks of one patient, and a further PID does not name the same"
        several = (Finding(ErrorCode.SEGMENT_SEQUENCE, SEVERAL_PATIENTS, strangers, text),) if strangers else ()
        flags = tuple(f"{PATIENT_REPEATED} PID({number})" for number in range(2, len(pids) + 1))
        return side._replace(findings=(*side.findings, *_unidentified(side), *several), flags=flags)

    def _merge(self, rule: Rule, message: Message) -> Subject:
        moment = self.moment(message)
        if not self._setting.allow_merge:
            text = "merges are not allowed on this channel"
            refused = Finding(ErrorCode.UNSUPPORTED_EVENT, "merge-not-allowed", ("MSH-9.2",), text)
            return Subject(rule.name, Action.REFUSE, merge=True, findings=(refused,), event_at=moment.at)
        findings: list[Finding] = []
        groups: list[tuple[Identity, ...]] = []
        flags = list(moment.flags)
        for group in merge_groups(message) or NO_GROUP:
            found, faults = self.pair(group, message, moment)
            findings += faults
            if found is not None:
                groups.append(_keys((*found.targets, *found.sources)))
                flags += _unknown([found.targets, found.sources])
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

    def _rename(self, rule: Rule, message: Message) -> Subject:
        moment = self.moment(message)
        sides = [self.renamed(group, message, moment) for group in merge_groups(message) or NO_GROUP]
        faults = _faults([side for both in sides for side in both])
        return _subject(rule, message, moment, [(*new.found, *old.found) for new, old in sides], faults)

    def renamed(self, group: MergeGroup, message: Message, moment: Moment) -> tuple[Identities, Identities]:
        """Return the identities of a PID and of its MRG, with the findings that forbid a change from these to those.

        Numbers that stand for nobody may change, too: an MRG without identities will do if it lists any number.
        """
        new, old = self.side(group.pid, message, moment), self.merged_side(group.mrg, message, moment)
        numbers = group.mrg is not None and any(_lists(group.mrg, number) for number in RENAMED)
        lacking = () if numbers and not old.placeholders else _unidentified(old, "MRG-1")
        return new._replace(findings=(*new.findings, *_unidentified(new))), old._replace(
            findings=(*old.findings, *lacking)
        )

    def _link(self, rule: Rule, message: Message) -> Subject:
        moment = self.moment(message)
        sides = self.linked(message, moment)
        return _subject(rule, message, moment, [side.found for side in sides], _faults(sides))

    def linked(self, message: Message, moment: Moment) -> tuple[Identities, ...]:
        """Return the identities of each PID, with the findings that forbid to link them.

        A number that several of them list tells them not apart and is left out.
        """
        sides = [self.side(pid, message, moment) for pid in message.named("PID")]
        if len(sides) < 2:
            return tuple(side._replace(findings=(*side.findings, *_unidentified(NOBODY))) for side in (*sides, NOBODY))
        counted = Counter(one.identity for side in sides for one in side.found)
        apart = [tuple(one for one in side.found if counted[one.identity] == 1) for side in sides]
        return tuple(
            side._replace(
                found=found or side.found, findings=(*side.findings, *_unidentified(side), *_self(side, found))
            )
            for side, found in zip(sides, apart, strict=True)
        )

    def _move(self, rule: Rule, message: Message) -> Subject:
        moment = self.moment(message)
        moved = [self.moved(group, message, moment) for group in merge_groups(message) or NO_GROUP]
        findings = tuple(dict.fromkeys(finding for _, faults in moved for finding in faults))
        return _subject(rule, message, moment, [side for found, _ in moved for side in found], findings)

    def moved(self, group: MergeGroup, message: Message, moment: Moment) -> tuple[Sides, tuple[Finding, ...]]:
        """Return the sides of one PID/MRG group whose numbers move, and the findings that forbid it."""
        pid, mrg = self.side(group.pid, message, moment), self.merged_side(group.mrg, message, moment)
        found = move_sides(pid.found, mrg.found)
        lacking = (*_unidentified(pid), *_unidentified(mrg._replace(found=found.moving), "MRG-1"))
        return found, (*pid.findings, *mrg.findings, *lacking, *judge_move(found, pid.found))

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
        key = (texts, today, segment.name, message.dialect)
        side = self._sides.get(key)
        return self._sides.keep_if_again(key, self._read(segment, fields, today)) if side is None else side

    def _read(self, segment: Segment, fields: Sequence[tuple[str, int, str]], today: str) -> Identities:
        known: dict[Identity, Found] = {}
        placeholders = 0
        identifiers = self._identifiers
        for _, number, place in fields:
            for index, cells in enumerate(segment.cells(number), 1):
                one = identifiers.identity(cells, place, today, index)
                if one is None:
                    continue
                if identifiers.placeholder(one.identity.value):
                    placeholders += 1
                elif one.identity not in known or _rank(one) < _rank(known[one.identity]):
                    known[one.identity] = one
        found = sorted(known.values(), key=_rank)
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
    return tuple(dict.fromkeys([one.identity for one in found]))


def _subject(
    rule: Rule,
    message: Message,
    moment: Moment,
    groups: Sequence[Sequence[Found]],
    findings: tuple[Finding, ...],
    flags: tuple[str, ...] = (),
) -> Subject:
    return Subject(
        rule.name,
        Action.REFUSE if findings else Action.DELIVER,
        tuple(dict.fromkeys([_keys(group) for group in groups if group])),
        visit=_visit(message),
        findings=findings,
        flags=(*moment.flags, *flags, *_unknown(groups)),
        event_at=moment.at,
    )


def _faults(sides: Sequence[Identities]) -> tuple[Finding, ...]:
    return tuple(dict.fromkeys([finding for side in sides for finding in side.findings]))


def _self(side: Identities, apart: tuple[Found, ...]) -> tuple[Finding, ...]:
    if apart or not side.found:
        return ()
    places = (f"{side.found[0].location}.1",)
    return (Finding(ErrorCode.DUPLICATE_KEY, "self-link", places, "both sides are the same patient"),)


def _lists(mrg: Segment, number: int) -> bool:
    return mrg.field(number) not in {"", '""'}


def _unknown(groups: Sequence[Sequence[Found]]) -> list[str]:
    places = [one.location for group in groups for one in group if not one.system.known]
    return [f"{UNKNOWN_AUTHORITY} {place}.4" for place in dict.fromkeys(places)]


def _unidentified(side: Identities, place: str = "PID-3") -> tuple[Finding, ...]:
    if side.found:
        return ()
    if side.placeholders:
        text = "the only identifiers are placeholders"
        return (Finding(ErrorCode.UNKNOWN_KEY, "placeholder-identity", (place,), text),)
    return (Finding(ErrorCode.REQUIRED_MISSING, "no-identity", (place,), "no identifier of the patient"),)
