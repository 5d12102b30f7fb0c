"""Checks mapping files and compiles them, for a channel, to a mapping from messages to subjects and plans."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.config.channel import Channel
from engine.config.relay import EDITED, Relay
from engine.config.source import AuthoredFile
from engine.errors import MappingError, Problem
from engine.fhir.plan import Plan
from engine.hl7.events import types_of
from engine.hl7.message import Message
from engine.mapping.files.alike import alike
from engine.mapping.files.document import NONE, Document, Documents, Edited, Problems, read_documents
from engine.mapping.files.overlay import FIELD
from engine.mapping.files.reference import listed
from engine.mapping.files.setting import Setting, setting_of
from engine.mapping.language.check_table import checked_table
from engine.mapping.language.expression import SegmentPath, parse_path
from engine.mapping.language.function_context import FunctionContext
from engine.mapping.language.identifier import Identifiers
from engine.mapping.language.moment import Stamps
from engine.mapping.language.number_form import NumberForm
from engine.mapping.language.reading import MessageReading, unmapped_in
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler
from engine.mapping.plan import IdentityPlanner, PatientPlanner, PlannedMessage, Planner
from engine.mapping.relay.compile_edit import compile_steps
from engine.mapping.relay.message_edit import MessageEdit
from engine.mapping.resource.listing import Listing
from engine.mapping.resource.lists import Lists, compile_lists
from engine.mapping.resource.patient import PatientMapping
from engine.mapping.resource.provenance import Attestation, compile_attestations
from engine.mapping.resource.resource_file import Resource
from engine.mapping.resource.resource_planner import ResourcePlanner
from engine.mapping.resource.resources import check_acts, compile_resources, new_writer
from engine.mapping.resource.slices import Slices
from engine.mapping.subject.events import SENT, EventAction, EventTable, assumed, make_event_table
from engine.mapping.subject.filters import CompiledFilter, compile_channel_filters, compile_filters
from engine.mapping.subject.identify import ENCOUNTER, SubjectReader
from engine.mapping.subject.identity_checks import SECTIONS, check_identity_values
from engine.mapping.subject.subject import MessageSubject, flagged
from engine.mapping.subject.unread import unread

PATIENT = "Patient"
NO_FILE = AuthoredFile("", {}, {})
MakeCompiler = Callable[[FunctionContext, dict[str, Document], Problems], Compiler]


@dataclass(frozen=True, slots=True)
class MappingSource:
    """The files of a mapping; `hash` is of all their content, `problems` those found by reading."""

    name: str
    documents: Documents
    hash: str
    problems: tuple[Problem, ...] = ()

    @property
    def accepted(self) -> frozenset[str]:
        """The types of messages that its events are for, such as ADT."""
        return types_of(self.documents.events.value.get("events") or ())


@dataclass(frozen=True, slots=True)
class CompiledFiles:
    """The compiled files of a mapping on a channel, for any types of resources that its event table sends."""

    compiler: Compiler
    identifiers: Identifiers
    stamps: Stamps
    patient: PatientMapping | None
    resources: dict[str, Resource]
    listings: dict[str, tuple[Listing, ...]]
    attestations: dict[str, Attestation]
    filters: tuple[CompiledFilter, ...]
    at_door: tuple[CompiledFilter, ...]


# By the channel's file, and the content of the channel and the event table without these types.
Compiled = dict[str, CompiledFiles]


def load(folders: Sequence[Path], name: str, edited: Edited = NONE) -> MappingSource:
    """Read and check a mapping; each file comes from the first folder that has it, the last folder is the shipped one.

    `edited`: texts in place of files, as for `read`. ConfigurationError holds every problem of every file.
    """
    source = read(folders, name, edited)
    _checked(source, Setting())
    return source


def read(folders: Sequence[Path], name: str, edited: Edited = NONE) -> MappingSource:
    """Read a mapping without checks, which compiling makes; the folders are as for `load`.

    `edited`: texts in place of existing or new files of these folders. ConfigurationError if there is nothing to
    compile.
    """
    problems = Problems()
    documents = alike(read_documents(folders, name, problems, edited), problems)
    return MappingSource(name, documents, documents.digest, tuple(problems.found))


def compile_mapping(
    source: MappingSource,
    channel: Channel,
    compiler: MakeCompiler = Compiler,
    file: AuthoredFile | None = None,
    kept: Compiled | None = None,
) -> "Mapping":
    """Compile a mapping for a channel; by another compiler to watch its steps.

    `file`: the channel's, with its filters. `kept`: a cache of this mapping's compiled files, for event tables that
    send other types of resources. ConfigurationError holds every problem of every file: except those of its filters,
    they do not depend on the channel.
    """
    setting = setting_of(channel)
    compiled = _checked(source, setting, compiler, file or AuthoredFile(f"channel {channel.channel}", {}, {}), kept)
    if compiled is None:
        raise MappingError("no-patient-mapping")
    mark = hashlib.sha256(f"{source.hash} {setting.text}".encode()).hexdigest()
    return Mapping(mark, compiled)


def compile_edits(source: MappingSource, channel: Channel, file: AuthoredFile | None = None) -> dict[str, MessageEdit]:
    """Compile the edit of each relay of a channel that has one, by the relay's name; for each channel anew.

    `file` is as for `compile_mapping`. Values and conditions use the functions and tables of the mapping.
    ConfigurationError holds every problem, those of the mapping's files included.
    """
    problems, setting, documents = Problems(), setting_of(channel), source.documents
    document = Document(file or AuthoredFile(f"channel {channel.channel}", {}, {}), {})
    context = _context(documents, make_event_table(documents.events, problems), setting, problems)
    edits: dict[str, MessageEdit] = {}
    for number, relay in enumerate(channel.destinations):
        if isinstance(relay, Relay) and relay.send == EDITED:
            compiler = Compiler(context, documents.datatypes, problems)
            steps = compile_steps(compiler, relay.edit, Scope(document, ("destinations", number, "edit")))
            text = f"{source.hash} {setting.text} {relay.edit!r}"
            edits[relay.name] = MessageEdit(hashlib.sha256(text.encode()).hexdigest(), steps)
    problems.refuse()
    return edits


@dataclass(frozen=True, slots=True)
class MappingParts:
    """The compiled parts of a mapping on a channel."""

    patient: PatientMapping
    resources: ResourcePlanner
    reader: SubjectReader
    sends: frozenset[str]


def _checked(
    source: MappingSource,
    setting: Setting,
    make_compiler: MakeCompiler = Compiler,
    file: AuthoredFile = NO_FILE,
    kept: Compiled | None = None,
) -> MappingParts | None:
    problems = Problems()
    problems.found.extend(source.problems)
    compiled = _compile(source.documents, setting, problems, make_compiler, file, {} if kept is None else kept)
    problems.refuse()
    return compiled


def _compile(
    documents: Documents,
    setting: Setting,
    problems: Problems,
    make_compiler: MakeCompiler,
    file: AuthoredFile,
    kept: Compiled,
) -> MappingParts | None:
    problems.of(documents.everything())
    table = make_event_table(documents.events, problems)
    settings = {key: value for key, value in documents.events.value.items() if key != SENT}
    key = f"{file.file} {setting.text} {settings!r}"
    files = kept.get(key) or _compile_files(documents, table, setting, problems, make_compiler, file)
    if not problems.found:
        kept[key] = files
    lists = Lists(files.listings, table.sent)
    along = files.attestations.keys()
    check_acts(table, files.resources, lists.types, along, documents.events, documents.resources, problems)
    if files.patient is None:
        return None
    planner = ResourcePlanner(files.resources, lists, files.attestations, table.sent)
    named = {act.type_ for rule in table.rules.values() for act in rule.acts}
    known = documents.resources
    sent = {name: known[name].value for name in known.keys() & {PATIENT, *named, *planner.brought}}
    visits = _visit_fields(documents.resources.get(ENCOUNTER))
    reader = SubjectReader(table, files.identifiers, setting, files.stamps, files.filters, files.at_door, visits)
    return MappingParts(files.patient, planner, reader, files.compiler.referred(sent))


def _visit_fields(encounter: Document | None) -> tuple[tuple[str, int], ...]:
    """Return the identity fields of a visit, in the order of its file, without numbers of several fields."""
    identity = encounter.value.get("identity") if encounter is not None else None
    if not isinstance(identity, dict):
        return ()
    texts = [one for key in ("keys", "else") for one in listed(identity.get(key)) if FIELD.fullmatch(one)]
    heads = [parse_path(text) for text in texts]
    return tuple([(head.segment, head.field) for head in heads if isinstance(head, SegmentPath)])


def _context(documents: Documents, table: EventTable, setting: Setting, problems: Problems) -> FunctionContext:
    tables = {name: checked_table(name, document, problems) for name, document in documents.tables.items()}
    tables = assumed(tables, table, documents.events, problems)
    identifiers = Identifiers(table.identity, setting)
    return FunctionContext(setting, tables, identifiers, Stamps(setting.zone), documents.tables)


def _compile_files(
    documents: Documents,
    table: EventTable,
    setting: Setting,
    problems: Problems,
    make_compiler: MakeCompiler,
    file: AuthoredFile,
) -> CompiledFiles:
    context = _context(documents, table, setting, problems)
    tables, identifiers, stamps = context.tables, context.identifiers, context.stamps
    compiler = make_compiler(context, documents.datatypes, problems)
    for name, document in documents.datatypes.items():
        compiler.datatype(name, Scope(document))
    resource = documents.resources.get(PATIENT)
    if resource is None and not problems.found:
        expected = "map the Patient, or extend the shipped mapping"
        problems.add(documents.events, (), "no resources/patient.yaml", expected)
    patient = None
    if resource is not None:
        check_identity_values(resource, documents.datatypes, table.identity, problems)
        slices = Slices(compiler, resource, PATIENT)
        writers, own, merged = slices.writers(), *(slices.identifiers(one, identifiers.written) for one in SECTIONS)
        new = new_writer(compiler, Scope(resource), PATIENT) if resource.value.get("new") else None
        patient = PatientMapping(writers, own, merged, table.people, table.identity.named.keys(), new)
    return CompiledFiles(
        compiler,
        identifiers,
        stamps,
        patient,
        compile_resources(compiler, documents.resources, identifiers, tables),
        compile_lists(compiler, documents.resources, setting.base_uri),
        compile_attestations(compiler, documents.resources, setting.base_uri),
        compile_filters(compiler, documents.events),
        compile_channel_filters(compiler, setting.filters, file),
    )


class Mapping:
    """One mapping on one channel; pure: the same message gives the same subject and the same plan.

    `hash` names the files and the channel's settings (zone, authorities, policies). `taken`: the accepted messages.
    `sends`: the resource types that its events may send or look for.
    `filters`: those of the channel and of the event file, in the order in which they hold.
    """

    def __init__(self, mark: str, parts: MappingParts) -> None:
        self.hash = mark
        self._resources = parts.resources
        self._reader = parts.reader
        self.taken, self.filters = parts.reader.taken, parts.reader.filters
        self.sends = parts.sends
        patients = PatientPlanner(parts.reader, parts.patient, parts.resources)
        self._planners: dict[EventAction, Planner] = {
            **IdentityPlanner(parts.reader, parts.patient).planners,
            **dict.fromkeys(
                (EventAction.UPSERT, EventAction.UPDATE, EventAction.IDENTIFY, EventAction.DELETE), patients.plan
            ),
        }

    def identify(self, message: Message) -> MessageSubject:
        """Return the subject of a message: its patients, its disposition and its findings."""
        readable = message.legible()
        subject = self._reader.subject(readable)
        if cut := unread(readable):
            subject = subject._replace(flags=(*subject.flags, *cut))
        return subject if readable is message else flagged(subject, message.illegible)

    def plan(self, message: Message) -> Plan:
        """Return the plan of a message; no interactions for a filtered one.

        Its values are shared between plans and must not be changed in place. Raises MappingError if the message
        cannot be mapped: no identity, a self-merge, a code that a table refuses.
        """
        message = message.legible()
        rule = self._reader.rule(message)
        moment = self._reader.moment(message)
        planner = self._planners.get(rule.action)
        interactions, warnings = planner(rule, message, moment) if planner else PlannedMessage()
        if self._resources.attestations and interactions:
            reading = MessageReading(message, message.groups, moment.offset, moment.day)
            interactions += self._resources.attested(reading)
            warnings += tuple(reading.warnings)
        unmapped = unmapped_in(warnings) if warnings else ()
        warnings = tuple(dict.fromkeys((*moment.flags, *warnings)))
        originals = self._reader.identities.originals(message, moment) if interactions else ()
        return Plan(
            message.trigger, message.source, moment.at, moment.precision, interactions, warnings, unmapped, originals
        )

    @property
    def number_forms(self) -> dict[str, NumberForm]:
        """The form of the numbers of each FHIR system that has one (`normalise`)."""
        return self._reader.identities.forms
