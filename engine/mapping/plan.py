"""Plans a message: the interactions for its patients, by the rule of its event."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from engine.errors import MappingError
from engine.fhir.plan import Identity, Interaction, Keep, Link, Merge, Move, PatientRecord, Rename, Upsert
from engine.hl7.finding import Finding
from engine.hl7.message import Message
from engine.mapping.files.group import NO_GROUP, MergeGroup, further, merge_groups, patient_segments, visit_segments
from engine.mapping.language.identifier import MessageIdentifier
from engine.mapping.language.moment import Moment
from engine.mapping.language.reading import MessageReading, by_name
from engine.mapping.resource.patient import PatientMapping
from engine.mapping.resource.resource_file import SOURCE
from engine.mapping.resource.resource_planner import ResourcePlanner
from engine.mapping.subject.events import EventAction, EventRule
from engine.mapping.subject.identify import SubjectReader
from engine.mapping.subject.identities import Identities
from engine.mapping.subject.move import identities
from engine.mapping.subject.rename import change, ended, key_of

NOT_SENT = "not-sent"


class PlannedMessage(NamedTuple):
    """Interactions, and their warnings."""

    interactions: tuple[Interaction, ...] = ()
    warnings: tuple[str, ...] = ()


Planner = Callable[[EventRule, Message, Moment], PlannedMessage]
PlanGroup = Callable[[MergeGroup, Message, Moment], tuple[Interaction, list[str]]]


class IdentityPlanner:
    """Plans events of identity: merges, changes of number, moves and links."""

    def __init__(self, reader: SubjectReader, patient: PatientMapping) -> None:
        self._identities = reader.identities
        self._patient = patient
        self.planners: dict[EventAction, Planner] = {
            EventAction.MERGE: partial(self._in_groups, self._merge),
            EventAction.RENAME: partial(self._in_groups, self._rename),
            EventAction.MOVE: partial(self._in_groups, self._move),
            EventAction.LINK: self._links,
            EventAction.UNLINK: self._links,
        }

    def _in_groups(self, plan: PlanGroup, _: EventRule, message: Message, moment: Moment) -> PlannedMessage:
        """Return the interactions for each PID and its MRG."""
        planned = [plan(group, message, moment) for group in merge_groups(message) or NO_GROUP]
        return PlannedMessage(
            tuple([one for one, _ in planned]), tuple([text for _, warnings in planned for text in warnings])
        )

    def _merge(self, group: MergeGroup, message: Message, moment: Moment) -> tuple[Merge, list[str]]:
        pair, faults = self._identities.pair(group, message, moment)
        _refuse_faults(faults)
        if pair is None:
            raise MappingError("no-identity", "MRG-1")
        reading = reading_of(group, message, moment)
        sources = tuple(source.identity for source in pair.sources)
        targets = tuple(target.identity for target in pair.targets)
        gone = self._patient.merged_identifiers(reading)
        survivor = self._patient.record(pair.targets, reading)
        merge = Merge(
            pair.source.identity,
            pair.target.identity,
            sources,
            tuple(item for item in gone if key_of(item) not in targets),
            _without(survivor, {key_of(item) for item in gone} - set(targets)),
        )
        return merge, reading.warnings

    def _rename(self, group: MergeGroup, message: Message, moment: Moment) -> tuple[Rename, list[str]]:
        new, old = self._identities.renamed(group, message, moment)
        _refuse_faults((*new.findings, *old.findings))
        reading = reading_of(group, message, moment)
        record = self._patient.record(new.found, reading)
        respelt = {one.identity for one in old.found if one.identity not in {other.identity for other in new.found}}
        changed = change(self._patient.merged_identifiers(reading, respelt), record.identifiers)
        until = moment.stamp.fhir_datetime() if moment.stamp is not None else ""
        gone, come = {key_of(item) for item in changed.retired}, {key_of(item) for item in changed.issued}
        rename = Rename(
            tuple(one.identity for one in old.found if one.identity in gone),
            tuple(one.identity for one in new.found if one.identity in come),
            tuple(ended(item, until) for item in changed.retired),
            changed.issued,
            _without(record, gone),
        )
        return rename, reading.warnings

    def _move(self, group: MergeGroup, message: Message, moment: Moment) -> tuple[Move, list[str]]:
        sides, faults = self._identities.moved(group, message, moment)
        _refuse_faults(faults)
        reading = reading_of(group, message, moment)
        record = self._patient.record(sides.target, reading)
        moving, source = identities(sides.moving), identities(sides.source)
        listed = {cells.first[0] for cells in group.mrg.cells(1)} if group.mrg else set()
        gone = [one for one in self._patient.merged_identifiers(reading) if key_of(one) not in source]
        numbers = tuple(one for one in gone if one["value"] in listed)
        kept = _without(record, {key_of(item) for item in numbers} | set(moving))
        return Move(moving, numbers, source, kept), reading.warnings

    def _links(self, rule: EventRule, message: Message, moment: Moment) -> PlannedMessage:
        sides = self._identities.linked(message, moment)
        _refuse_faults(tuple(finding for side in sides for finding in side.findings))
        pids = message.named("PID")
        listed = Counter(one.identity for pid in pids for one in self._identities.side(pid, message, moment).found)
        shared = {identity for identity, count in listed.items() if count > 1}
        records: list[PatientRecord] = []
        warnings: list[str] = []
        for pid, side in zip(pids, sides, strict=True):
            reading = reading_of(MergeGroup(pid, None), message, moment)
            records.append(_without(self._patient.record(side.found, reading), shared))
            warnings += reading.warnings
        undo = rule.action is EventAction.UNLINK
        return PlannedMessage(tuple([Link(records[0], other, undo) for other in records[1:]]), tuple(warnings))


class PatientPlanner:
    """Plans events of patients, of their visits and their other resources."""

    def __init__(self, reader: SubjectReader, patient: PatientMapping, resources: ResourcePlanner) -> None:
        self._reader = reader
        self._patient = patient
        self._resources = resources

    def plan(self, rule: EventRule, message: Message, moment: Moment) -> PlannedMessage:
        """Return the interactions for the patient and its resources, or with `each` for every patient."""
        sides = self._reader.identities.sides(rule, message, moment)
        _refuse_faults(tuple(finding for side in sides for finding in side.findings))
        plan = self._moves if rule.moves else self._merges if rule.merges else self._upserts
        planned = plan(rule, sides, message, moment)
        before = [f"{NOT_SENT} {name}" for name in rule.unsent] + [flag for side in sides for flag in side.flags]
        return PlannedMessage(_once(planned.interactions), (*before, *planned.warnings))

    def _upserts(
        self, rule: EventRule, sides: Sequence[Identities], message: Message, moment: Moment
    ) -> PlannedMessage:
        interactions: list[Interaction] = []
        warnings: list[str] = []
        historic = self._reader.is_historic(rule)
        for number, (pid, side) in enumerate(zip(message.named("PID"), sides, strict=False)):
            if rule.each:
                reading = reading_of(MergeGroup(pid, None), message, moment)
            else:
                reading = MessageReading(message, message.groups, moment.offset, moment.day)
            suffix = _suffix(number)
            record = self._patient.record(side.found, reading, suffix)
            delete = rule.action is EventAction.DELETE
            if rule.finds:
                record = record._replace(identifiers=())
            own: list[Interaction] = [Upsert(record, rule.create, rule.reactivate, delete, rule.ignore, rule.thin)]
            own += self._resources.interactions(rule, record, own, reading, suffix, historic=historic)
            interactions += own
            warnings += (*reading.warnings, *further(reading.all))
        if historic:
            warnings.append(rule.name)
        return PlannedMessage(tuple(interactions), tuple(warnings))

    def _moves(self, rule: EventRule, sides: Sequence[Identities], message: Message, moment: Moment) -> PlannedMessage:
        """Return the interactions that move resources from the patients of the MRG segments to those of their PIDs."""
        interactions: list[Interaction] = []
        warnings: list[str] = []
        targets: dict[tuple[MessageIdentifier, ...], PatientRecord] = {}
        groups = merge_groups(message) or NO_GROUP
        for number, (group, to, of) in enumerate(zip(groups, sides[::2], sides[1::2], strict=True)):
            suffix = _suffix(number)
            target = targets.get(to.found)
            if target is None:
                reading = reading_of(MergeGroup(group.pid, None), message, moment)
                target = targets[to.found] = self._patient.record(to.found, reading, suffix)
                warnings += reading.warnings
                interactions.append(Upsert(target, rule.create, thin=True))
            reading = MessageReading(message, by_name(visit_segments(message, group)), moment.offset, moment.day)
            interactions += self._from(of, rule, target, reading, suffix)
            warnings += reading.warnings
        return PlannedMessage(tuple(interactions), tuple(warnings))

    def _merges(self, rule: EventRule, sides: Sequence[Identities], message: Message, moment: Moment) -> PlannedMessage:
        """Return the interactions that merge resources of a patient, once for each pair of PID and MRG."""
        interactions: list[Interaction] = []
        warnings: list[str] = []
        for number, (group, side) in enumerate(zip(merge_groups(message) or NO_GROUP, sides, strict=True)):
            suffix = _suffix(number)
            reading = reading_of(group, message, moment)
            record = self._patient.record(side.found, reading, suffix)
            source = self._reader.identities.merged_side(group.mrg, message, moment)
            interactions.append(Upsert(record, rule.create, thin=True))
            interactions += self._from(source, rule, record, reading, suffix)
            warnings += reading.warnings
        return PlannedMessage(tuple(interactions), tuple(warnings))

    def _from(
        self, side: Identities, rule: EventRule, target: PatientRecord, reading: MessageReading, suffix: str
    ) -> list[Interaction]:
        """Return the interactions of a rule's acts, after the look-up of MRG's patient if that is another one."""
        interactions: list[Interaction] = []
        identities = tuple(one.identity for one in side.found)
        if identities and not set(identities) & set(target.identities):
            source = PatientRecord(identities, (), (), placeholder=True, local=f"{SOURCE}{suffix[1:]}")
            interactions.append(Upsert(source, create=False, ignore=True, thin=True))
        for act in rule.acts:
            interactions += self._resources.resources[act.type_].keeps(act, rule.clears, reading, suffix, target.local)
        return interactions


def reading_of(group: MergeGroup, message: Message, moment: Moment) -> MessageReading:
    """Return the reading of one group's patient."""
    segments = patient_segments(message, group.pid)
    reading = MessageReading(message, by_name(segments), moment.offset, moment.day)
    if group.pid is not None:
        reading.first["PID"] = group.pid
    if group.mrg is not None:
        reading.first["MRG"] = group.mrg
    return reading


def _suffix(number: int) -> str:
    """Return the suffix of a patient's local names in a plan: `-2` for the second patient."""
    return f"-{number + 1}" if number else ""


def _once(interactions: Sequence[Interaction]) -> tuple[Interaction, ...]:
    """Return interactions without repetitions: two patients may have one ward."""
    known: set[str] = set()
    kept: list[Interaction] = []
    for interaction in interactions:
        if isinstance(interaction, Keep):
            if interaction.record.local in known:
                continue
            known.add(interaction.record.local)
        kept.append(interaction)
    return tuple(kept)


def _without(record: PatientRecord, gone: set[Identity]) -> PatientRecord:
    """Return a record without numbers: MRG's must not become current again, and shared ones identify neither side."""
    identities = tuple(identity for identity in record.identities if identity not in gone)
    kept = tuple(item for item in record.identifiers if key_of(item) not in gone)
    return record._replace(identities=identities, identifiers=kept)


def _refuse_faults(faults: Sequence[Finding]) -> None:
    if faults:
        raise MappingError(faults[0].reason, *faults[0].locations[:1])
