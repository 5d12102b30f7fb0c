"""The identities of PID and MRG: for each side of an event, with the findings that refuse it."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from engine.fhir.plan import Identity
from engine.hl7.finding import ErrorCode, Finding
from engine.hl7.message import Message, Segment
from engine.mapping.files.group import NO_GROUP, MergeGroup, merge_groups, number_of, patient_segments
from engine.mapping.files.setting import Setting
from engine.mapping.language.bounded_cache import BoundedCache
from engine.mapping.language.identifier import MERGED, Identifiers, MessageIdentifier, same_person
from engine.mapping.language.moment import Moment
from engine.mapping.subject.events import EventRule
from engine.mapping.subject.merge import IdentityPair, judge, pair
from engine.mapping.subject.move import MoveSides
from engine.mapping.subject.move import judge as judge_move
from engine.mapping.subject.move import sides as move_sides

MAX_KEPT: Final = 4096
UNKNOWN_AUTHORITY: Final = "unknown-authority"
SEVERAL_PATIENTS: Final = "several-patients"
PATIENT_REPEATED: Final = "patient-repeated"
# The fields of MRG whose numbers a change of identifier may retire.
RENAMED: Final = (1, 2, 4)


class Identities(NamedTuple):
    """The identities of one side, the preferred first; the number of placeholders, findings and flags."""

    found: tuple[MessageIdentifier, ...]
    placeholders: int
    findings: tuple[Finding, ...]
    flags: tuple[str, ...] = ()


NOBODY: Final = Identities((), 0, ())


class IdentityReader:
    """Reads identities by the rules of one mapping on one channel; each side is cached by its text."""

    def __init__(self, identifiers: Identifiers, setting: Setting) -> None:
        self._identifiers = identifiers
        self._setting = setting
        self.forms = identifiers.forms
        self._read_before: BoundedCache[Hashable, Identities] = BoundedCache(MAX_KEPT)
        names = identifiers.rules.fields
        merged = [MERGED[name] for name in names if name in MERGED]
        self._fields, self._merged, self._named = (
            tuple((name[:3], int(name[4:]), name) for name in side) for side in (names, merged, identifiers.rules.named)
        )

    def side(self, pid: Segment | None, message: Message, moment: Moment) -> Identities:
        """Return the identities of a PID, and of the other identity fields in the segments of its patient."""
        found = self.paired_side(pid, message, moment)
        if not self._named or pid is None:
            return found
        own, alone = patient_segments(message, pid), len(message.named("PID")) == 1
        first = {one.name: one for one in reversed(own) if alone or one.position >= pid.position}
        further = [
            self._side(first[field[0]], (field,), message, moment.day) for field in self._named if field[0] in first
        ]
        known: dict[Identity, MessageIdentifier] = {}
        for one in sorted((one for side in (found, *further) for one in side.found), key=_rank):
            known.setdefault(one.identity, one)
        placeholders = sum(side.placeholders for side in (found, *further))
        return found._replace(found=tuple(known.values()), placeholders=placeholders)

    def paired_side(self, pid: Segment | None, message: Message, moment: Moment) -> Identities:
        """Return the identities of a PID that may have counterparts in an MRG."""
        return self._side(pid, self._fields, message, moment.day)

    def merged_side(self, mrg: Segment | None, message: Message, moment: Moment) -> Identities:
        """Return the identities of an MRG."""
        return self._side(mrg, self._merged, message, moment.day)

    def pair(
        self, group: MergeGroup, message: Message, moment: Moment
    ) -> tuple[IdentityPair | None, tuple[Finding, ...]]:
        """Return the pair of one PID/MRG group, and the findings that forbid it."""
        target, source = self.paired_side(group.pid, message, moment), self.merged_side(group.mrg, message, moment)
        found = pair(source.found, target.found)
        faults = [*target.findings, *source.findings]
        if not target.found:
            faults += _unidentified(target)
        if not source.found:
            faults += _unidentified(source, "MRG-1")
        fault = judge(found) if found else None
        faults += (fault,) if fault else ()
        return found, tuple(_in_its_group(one, group, message) for one in faults)

    def renamed(self, group: MergeGroup, message: Message, moment: Moment) -> tuple[Identities, Identities]:
        """Return the identities of a PID and of its MRG, with the findings that forbid the change of number.

        Numbers without an identity may change, too: an MRG without identities is valid if it lists any number.
        """
        new, old = self.paired_side(group.pid, message, moment), self.merged_side(group.mrg, message, moment)
        old = old._replace(found=_respelt(old.found, new.found))
        numbers = group.mrg is not None and any(_lists(group.mrg, number) for number in RENAMED)
        lacking = () if numbers and not old.placeholders else _unidentified(old, "MRG-1")
        return new._replace(findings=(*new.findings, *_unidentified(new))), old._replace(
            findings=(*old.findings, *lacking)
        )

    def linked(self, message: Message, moment: Moment) -> tuple[Identities, ...]:
        """Return the identities of each PID, with the findings that forbid to link them.

        A number that several of them list does not distinguish them and is left out.
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

    def moved(self, group: MergeGroup, message: Message, moment: Moment) -> tuple[MoveSides, tuple[Finding, ...]]:
        """Return the sides of one PID/MRG group whose numbers move, and the findings that forbid it."""
        pid, mrg = self.paired_side(group.pid, message, moment), self.merged_side(group.mrg, message, moment)
        found = move_sides(pid.found, mrg.found)
        lacking = (*_unidentified(pid), *_unidentified(mrg._replace(found=found.moving), "MRG-1"))
        return found, (*pid.findings, *mrg.findings, *lacking, *judge_move(found, pid.found))

    def originals(self, message: Message, moment: Moment) -> tuple[tuple[Identity, Identity], ...]:
        """Return each identity of a system whose numbers have a form (`normalise`), with its spelling here."""
        if not self.forms:
            return ()
        sides = [self.side(pid, message, moment) for pid in message.named("PID")]
        sides += [self.merged_side(mrg, message, moment) for mrg in message.named("MRG")]
        found = [one for side in sides for one in side.found if one.identity.system in self.forms]
        return tuple(dict.fromkeys((one.identity, one.original or one.identity) for one in found))

    def sides(self, rule: EventRule, message: Message, moment: Moment) -> tuple[Identities, ...]:
        """Return the identities of each patient of an event, with the findings that forbid to map it.

        One, or one for each PID, or (moves) for each MRG those of its PID and of the patient moved from.
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
        """Return the identities of the one patient of an event; a PID of another patient is a finding."""
        pids = message.named("PID")
        if len(pids) < 2:
            side = self.side(pids[0] if pids else None, message, moment)
            return side if side.findings or side.found else side._replace(findings=_unidentified(side))
        side, *others = [self.side(pid, message, moment) for pid in pids]
        strangers = tuple(
            f"PID({number})" for number, one in enumerate(others, 2) if not same_person(side.found, one.found)
        )
        text = "the event is about one patient, but another PID identifies someone else"
        several = (Finding(ErrorCode.SEGMENT_SEQUENCE, SEVERAL_PATIENTS, strangers, text),) if strangers else ()
        flags = tuple(f"{PATIENT_REPEATED} PID({number})" for number in range(2, len(pids) + 1))
        return side._replace(findings=(*side.findings, *_unidentified(side), *several), flags=flags)

    def _side(
        self, segment: Segment | None, fields: Sequence[tuple[str, int, str]], message: Message, today: str
    ) -> Identities:
        if segment is None:
            return NOBODY
        texts = tuple([segment.field(number) for _, number, _ in fields])
        key = (texts, today, segment.name, fields[0][2] if fields else "", message.dialect)
        side = self._read_before.get(key)
        return self._read_before.keep_if_again(key, self._read(segment, fields, today)) if side is None else side

    def _read(self, segment: Segment, fields: Sequence[tuple[str, int, str]], today: str) -> Identities:
        known: dict[Identity, MessageIdentifier] = {}
        placeholders = 0
        identifiers = self._identifiers
        for _, number, place in fields:
            for index, cells in enumerate(segment.cells(number), 1):
                one = identifiers.identity(cells, place, today, index)
                if one is None:
                    continue
                if identifiers.is_nobody(one):
                    placeholders += 1
                elif one.identity not in known or _rank(one) < _rank(known[one.identity]):
                    known[one.identity] = one
        found = sorted(known.values(), key=_rank)
        return Identities(tuple(found), placeholders, self._refusals(found))

    def _refusals(self, found: Sequence[MessageIdentifier]) -> tuple[Finding, ...]:
        if not self._setting.refuse_unknown_authority:
            return ()
        places = tuple(f"{one.location}.4" for one in found if not one.system.known)
        if not places:
            return ()
        text = "the channel does not know the assigning authority"
        return (Finding(ErrorCode.UNKNOWN_KEY, UNKNOWN_AUTHORITY, places, text),)


def _respelt(old: Sequence[MessageIdentifier], new: Sequence[MessageIdentifier]) -> tuple[MessageIdentifier, ...]:
    """Return the old numbers of a change, those as sent whose other spelling is the new number.

    A record of a time before `normalise` has its number as it was sent then; the change brings it into its form.
    """
    spelt: dict[Identity, set[str]] = {}
    for one in new:
        spelt.setdefault(one.identity, set()).add(one.as_sent or one.identity.value)
    return tuple(
        one.unformed() if one.as_sent and one.as_sent not in spelt.get(one.identity, {one.as_sent}) else one
        for one in old
    )


def _rank(found: MessageIdentifier) -> int:
    return found.rank


def _self(side: Identities, apart: tuple[MessageIdentifier, ...]) -> tuple[Finding, ...]:
    if apart or not side.found:
        return ()
    places = (f"{side.found[0].location}.1",)
    return (Finding(ErrorCode.DUPLICATE_KEY, "self-link", places, "both sides are the same patient"),)


def _lists(mrg: Segment, number: int) -> bool:
    return mrg.field(number) not in {"", '""'}


def _unidentified(side: Identities, place: str = "PID-3") -> tuple[Finding, ...]:
    if side.found:
        return ()
    if side.placeholders:
        text = "the only identifiers are placeholders"
        return (Finding(ErrorCode.UNKNOWN_KEY, "placeholder-identity", (place,), text),)
    return (Finding(ErrorCode.REQUIRED_MISSING, "no-identity", (place,), "no patient identifier"),)


def _in_its_group(finding: Finding, group: MergeGroup, message: Message) -> Finding:
    """Return a finding with the number of its PID or MRG: `PID(2)-3(1).1`."""
    counted = {one.name: number_of(one, message) for one in (group.pid, group.mrg) if one is not None}
    if all(number == 1 for number in counted.values()):
        return finding
    places = [(place[:3], place[3:]) for place in finding.locations]
    named = (f"{name}({counted[name]}){rest}" if name in counted else f"{name}{rest}" for name, rest in places)
    return finding._replace(locations=tuple(named))
