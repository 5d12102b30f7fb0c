"""Mappings: files checked and, for a channel, compiled to a subject and a plan for each message."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.config.channel import Channel
from engine.errors import MappingError
from engine.fhir.plan import Identity, Interaction, Keep, Link, Merge, Move, PatientRecord, Plan, Rename, Upsert
from engine.hl7.finding import Finding
from engine.hl7.message import Message
from engine.mapping.files.document import Document, Documents, Problems, read_documents
from engine.mapping.files.group import NO_GROUP, MergeGroup, further, merge_groups, patient_segments, visit_segments
from engine.mapping.files.setting import Setting, setting_of
from engine.mapping.files.table import make_table
from engine.mapping.language.check_table import check_table
from engine.mapping.language.identifier import Found, Identifiers
from engine.mapping.language.kit import Kit
from engine.mapping.language.moment import Moment, Stamps
from engine.mapping.language.reading import Reading, by_name, unmapped_in
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler
from engine.mapping.resource.asking import SOURCE
from engine.mapping.resource.attest import compile_attestations
from engine.mapping.resource.beside import Beside
from engine.mapping.resource.lists import Lists, compile_lists
from engine.mapping.resource.patient import PatientMapping
from engine.mapping.resource.resources import check_acts, compile_resources
from engine.mapping.resource.slices import Slices
from engine.mapping.subject.events import Doing, People, Rule, assumed, make_event_table
from engine.mapping.subject.identify import Identities, SubjectReader
from engine.mapping.subject.move import identities
from engine.mapping.subject.rename import change, ended, key_of
from engine.mapping.subject.subject import Subject, flagged

PATIENT = "Patient"
NOT_SENT = "not-sent"
Planner = Callable[[Rule, Message, Moment, list[str]], tuple[Interaction, ...]]
PlanGroup = Callable[[MergeGroup, Message, Moment, list[str]], Interaction]
MakeCompiler = Callable[[Kit, dict[str, Document], Problems], Compiler]


@dataclass(frozen=True, slots=True)
class MappingSource:
    """A mapping whose files were read and checked; `hash` is of everything that was authored."""

    name: str
    documents: Documents
    hash: str


def load(folders: Sequence[Path], name: str) -> MappingSource:
    """Read and check a mapping; each file comes from the first folder that has it, the last folder is the shipped one.

    ConfigurationError holds every problem of every file.
    """
    problems = Problems()
    documents = read_documents(folders, name, problems)
    _compile(documents, Setting(), problems)
    problems.refuse()
    return MappingSource(name, documents, documents.digest)


def compile_mapping(source: MappingSource, channel: Channel, compiler: MakeCompiler = Compiler) -> "Mapping":
    """Compile a checked mapping for a channel; by another compiler where its steps are to be watched."""
    setting = setting_of(channel)
    problems = Problems()
    compiled = _compile(source.documents, setting, problems, compiler)
    problems.refuse()
    if compiled is None:
        raise MappingError("no-patient-mapping")
    mark = hashlib.sha256(f"{source.hash} {setting!r}".encode()).hexdigest()
    return Mapping(mark, compiled)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the files of a mapping become on a channel."""

    patient: PatientMapping
    beside: Beside
    reader: SubjectReader


def _compile(
    documents: Documents, setting: Setting, problems: Problems, make_compiler: MakeCompiler = Compiler
) -> Compiled | None:
    table = make_event_table(documents.events, problems)
    tables = {
        name: make_table(name, document.value if check_table(document, problems) else {})
        for name, document in documents.tables.items()
    }
    tables = assumed(tables, table, documents.events, problems)
    identifiers = Identifiers(table.identity, setting)
    stamps = Stamps(setting.zone)
    compiler = make_compiler(Kit(setting, tables, identifiers, stamps, documents.tables), documents.datatypes, problems)
    for name, document in documents.datatypes.items():
        compiler.datatype(name, Scope(document))
    resource = documents.resources.get(PATIENT)
    if resource is None and not problems.found:
        expected = "map the Patient, or extend the shipped mapping"
        problems.add(documents.events, (), "no resources/patient.yaml", expected)
    patient = _patient(compiler, resource, table.people) if resource is not None else None
    resources = compile_resources(compiler, documents.resources, identifiers, tables)
    lists = Lists(compile_lists(compiler, documents.resources, setting.base_uri), table.sent)
    attestations = compile_attestations(compiler, documents.resources, setting.base_uri)
    check_acts(table, resources, lists.types, attestations.keys(), documents.events, problems)
    if patient is None:
        return None
    beside = Beside(resources, lists, attestations, table.sent)
    return Compiled(patient, beside, SubjectReader(table, identifiers, setting, stamps))


def _patient(compiler: Compiler, resource: Document, people: People) -> PatientMapping:
    slices = Slices(compiler, resource, PATIENT)
    writers, own, merged = slices.writers(), slices.identifiers(), slices.identifiers("merged")
    return PatientMapping(writers, own, merged, people)


class Mapping:
    """One mapping on one channel; pure: the same message gives the same subject and the same plan.

    `hash` names the files and the channel's part in them (zone, authorities, policies).
    """

    def __init__(self, mark: str, compiled: Compiled) -> None:
        self.hash = mark
        self._patient = compiled.patient
        self._beside = compiled.beside
        self._reader = compiled.reader
        self._planners: dict[Doing, Planner] = {
            Doing.MERGE: partial(self._in_groups, self._merge),
            Doing.RENAME: partial(self._in_groups, self._rename),
            Doing.MOVE: partial(self._in_groups, self._move),
            Doing.LINK: self._links,
            Doing.UNLINK: self._links,
            **dict.fromkeys((Doing.UPSERT, Doing.UPDATE, Doing.IDENTIFY, Doing.DELETE), self._patients),
        }

    def identify(self, message: Message) -> Subject:
        """Return whom the message speaks of, what is to be done with it, and what forbids that."""
        told = message.legible()
        subject = self._reader.subject(told)
        return subject if told is message else flagged(subject, message.illegible)

    def names(self, trigger: str) -> bool:
        """Say whether the event table has a row for a trigger event, whatever the standard knows of it."""
        return trigger in self._reader.events

    def plan(self, message: Message) -> Plan:
        """Return what the message asks of a FHIR server; no interactions for a filtered one.

        The values in it are shared between plans: nobody changes them in place. Raises MappingError for what cannot
        be mapped: no identity, a self-merge, a code that a table refuses.
        """
        message = message.legible()
        rule = self._reader.rule(message)
        moment = self._reader.moment(message)
        warnings: list[str] = [f"{flag}" for flag in moment.flags]
        planner = self._planners.get(rule.doing)
        interactions = planner(rule, message, moment, warnings) if planner else ()
        if self._beside.attestations and interactions:
            reading = Reading(message, message.groups, moment.offset, moment.day)
            interactions += self._beside.attested(reading)
            warnings += reading.warnings
        told, unmapped = tuple(dict.fromkeys(warnings)), unmapped_in(warnings) if warnings else ()
        return Plan(message.trigger, message.source, moment.at, moment.precision, interactions, told, unmapped)

    def _in_groups(
        self, plan: PlanGroup, _: Rule, message: Message, moment: Moment, warnings: list[str]
    ) -> tuple[Interaction, ...]:
        """Return what is asked for each PID and its MRG."""
        return tuple([plan(group, message, moment, warnings) for group in merge_groups(message) or NO_GROUP])

    def _patients(self, rule: Rule, message: Message, moment: Moment, warnings: list[str]) -> tuple[Interaction, ...]:
        """Return what is asked for the patient and what belongs to it, or for each where the rule says so."""
        sides = self._reader.sides(rule, message, moment)
        _refuse_faults(tuple(finding for side in sides for finding in side.findings))
        warnings += [f"{NOT_SENT} {name}" for name in rule.unsent]
        warnings += [flag for side in sides for flag in side.flags]
        if rule.moves:
            return self._moves(rule, sides, message, moment, warnings)
        if rule.merges:
            return self._merges(rule, sides, message, moment, warnings)
        interactions: list[Interaction] = []
        for number, (pid, side) in enumerate(zip(message.named("PID"), sides, strict=False)):
            if rule.each:
                reading = self._reading(MergeGroup(pid, None), message, moment)
            else:
                reading = Reading(message, message.groups, moment.offset, moment.day)
            suffix = f"-{number + 1}" if number else ""
            record = self._patient.record(side.found, reading)
            if suffix:
                record = record._replace(local=record.local + suffix)
            delete = rule.doing is Doing.DELETE
            interactions.append(Upsert(record, rule.create, rule.reactivate, delete, rule.ignore, rule.thin))
            historic = self._reader.is_historic(rule)
            interactions += self._beside.interactions(rule, record, interactions, reading, suffix, historic=historic)
            warnings += (*reading.warnings, *further(reading.all))
        if self._reader.is_historic(rule):
            warnings.append(rule.name)
        return _once(interactions)

    def _moves(
        self, rule: Rule, sides: Sequence[Identities], message: Message, moment: Moment, warnings: list[str]
    ) -> tuple[Interaction, ...]:
        """Return what is asked where resources go from the patients of the MRG segments to those of their PIDs."""
        interactions: list[Interaction] = []
        targets: dict[tuple[Found, ...], PatientRecord] = {}
        groups = merge_groups(message) or NO_GROUP
        for number, (group, to, of) in enumerate(zip(groups, sides[::2], sides[1::2], strict=True)):
            suffix = f"-{number + 1}" if number else ""
            target = targets.get(to.found)
            if target is None:
                reading = self._reading(MergeGroup(group.pid, None), message, moment)
                target = self._patient.record(to.found, reading)
                target = targets[to.found] = target._replace(local=target.local + suffix)
                warnings += reading.warnings
                interactions.append(Upsert(target, rule.create, thin=True))
            interactions += self._source(of, target, suffix)
            reading = Reading(message, by_name(visit_segments(message, group)), moment.offset, moment.day)
            for act in rule.acts:
                interactions += self._beside.resources[act.type_].keeps(act, rule.clears, reading, suffix, target.local)
            warnings += reading.warnings
        return _once(interactions)

    def _merges(
        self, rule: Rule, sides: Sequence[Identities], message: Message, moment: Moment, warnings: list[str]
    ) -> tuple[Interaction, ...]:
        """Return what is asked where resources of a patient are merged, once for each pair of PID and MRG."""
        interactions: list[Interaction] = []
        for number, (group, side) in enumerate(zip(merge_groups(message) or NO_GROUP, sides, strict=True)):
            suffix = f"-{number + 1}" if number else ""
            reading = self._reading(group, message, moment)
            record = self._patient.record(side.found, reading)
            record = record._replace(local=record.local + suffix)
            interactions.append(Upsert(record, rule.create, thin=True))
            interactions += self._source(self._reader.merged_side(group.mrg, message, moment), record, suffix)
            for act in rule.acts:
                interactions += self._beside.resources[act.type_].keeps(act, rule.clears, reading, suffix, record.local)
            warnings += reading.warnings
        return _once(interactions)

    def _source(self, side: Identities, target: PatientRecord, suffix: str) -> tuple[Upsert, ...]:
        """Return the look-up of the patient whom MRG names, where the PID does not name the same."""
        identities = tuple(one.identity for one in side.found)
        if not identities or set(identities) & set(target.identities):
            return ()
        source = PatientRecord(identities, (), (), placeholder=True, local=f"{SOURCE}{suffix[1:]}")
        return (Upsert(source, create=False, ignore=True, thin=True),)

    def _rename(self, group: MergeGroup, message: Message, moment: Moment, warnings: list[str]) -> Rename:
        new, old = self._reader.renamed(group, message, moment)
        _refuse_faults((*new.findings, *old.findings))
        reading = self._reading(group, message, moment)
        record = self._patient.record(new.found, reading)
        changed = change(self._patient.merged_identifiers(reading), record.identifiers)
        warnings += reading.warnings
        until = moment.stamp.fhir_datetime() if moment.stamp is not None else ""
        gone, come = {key_of(item) for item in changed.retired}, {key_of(item) for item in changed.issued}
        return Rename(
            tuple(one.identity for one in old.found if one.identity in gone),
            tuple(one.identity for one in new.found if one.identity in come),
            tuple(ended(item, until) for item in changed.retired),
            changed.issued,
            _without(record, gone),
        )

    def _move(self, group: MergeGroup, message: Message, moment: Moment, warnings: list[str]) -> Move:
        found, faults = self._reader.moved(group, message, moment)
        _refuse_faults(faults)
        reading = self._reading(group, message, moment)
        record = self._patient.record(found.target, reading)
        warnings += reading.warnings
        moving, source = identities(found.moving), identities(found.source)
        listed = {cells.first[0] for cells in group.mrg.cells(1)} if group.mrg else set()
        gone = [one for one in self._patient.merged_identifiers(reading) if key_of(one) not in source]
        numbers = tuple(one for one in gone if one["value"] in listed)
        return Move(moving, numbers, source, _without(record, {key_of(item) for item in numbers} | set(moving)))

    def _links(self, rule: Rule, message: Message, moment: Moment, warnings: list[str]) -> tuple[Link, ...]:
        sides = self._reader.linked(message, moment)
        _refuse_faults(tuple(finding for side in sides for finding in side.findings))
        pids = message.named("PID")
        listed = Counter(one.identity for pid in pids for one in self._reader.side(pid, message, moment).found)
        shared = {identity for identity, count in listed.items() if count > 1}
        records = []
        for pid, side in zip(pids, sides, strict=True):
            reading = self._reading(MergeGroup(pid, None), message, moment)
            records.append(_without(self._patient.record(side.found, reading), shared))
            warnings += reading.warnings
        return tuple(Link(records[0], other, undo=rule.doing is Doing.UNLINK) for other in records[1:])

    def _reading(self, group: MergeGroup, message: Message, moment: Moment) -> Reading:
        """Return what speaks of the patient of one group."""
        segments = patient_segments(message, group.pid)
        reading = Reading(message, by_name(segments), moment.offset, moment.day)
        if group.pid is not None:
            reading.first["PID"] = group.pid
        if group.mrg is not None:
            reading.first["MRG"] = group.mrg
        return reading

    def _merge(self, group: MergeGroup, message: Message, moment: Moment, warnings: list[str]) -> Merge:
        found, faults = self._reader.pair(group, message, moment)
        _refuse_faults(faults)
        if found is None:
            raise MappingError("no-identity", "MRG-1")
        reading = self._reading(group, message, moment)
        sources = tuple(one.identity for one in found.sources)
        targets = tuple(one.identity for one in found.targets)
        gone = self._patient.merged_identifiers(reading)
        survivor = self._patient.record(found.targets, reading)
        warnings += reading.warnings
        return Merge(
            found.source.identity,
            found.target.identity,
            sources,
            tuple(item for item in gone if key_of(item) not in targets),
            _without(survivor, {key_of(item) for item in gone} - set(targets)),
        )


def _once(interactions: list[Interaction]) -> tuple[Interaction, ...]:
    """Leave out what an earlier interaction has seen to: two patients of one ward."""
    known: set[str] = set()
    kept: list[Interaction] = []
    for one in interactions:
        if isinstance(one, Keep):
            if one.record.local in known:
                continue
            known.add(one.record.local)
        kept.append(one)
    return tuple(kept)


def _without(record: PatientRecord, gone: set[Identity]) -> PatientRecord:
    """Leave numbers out of a record: what MRG lists must not come back as current, nor tells what both sides list."""
    identities = tuple(identity for identity in record.identities if identity not in gone)
    kept = tuple(item for item in record.identifiers if key_of(item) not in gone)
    return record._replace(identities=identities, identifiers=kept)


def _refuse_faults(faults: Sequence[Finding]) -> None:
    if faults:
        raise MappingError(faults[0].reason, *faults[0].locations[:1])
