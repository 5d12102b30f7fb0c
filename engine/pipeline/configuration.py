"""Everything authored, read and compiled at once: channels with their mappings."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.config.alerting import Alerting, look_at_alerting, unknown_channels
from engine.config.channel import AnyDestination, Channel, Mode
from engine.config.channels import channel_files, read_channels
from engine.config.destination import Destination
from engine.config.fhir_events import Outgoing
from engine.config.model import Placed, Step, folded, nearest
from engine.config.relay import Relay
from engine.config.settings import shipped
from engine.config.sign_in import ALGORITHMS, Auth
from engine.config.sites import Sites, look_at_sites
from engine.config.source import Looked
from engine.deliver.interactions import LEFT_OUT
from engine.deliver.wire.oauth import auth_certificate, auth_key, service_account
from engine.errors import ConfigurationError, DestinationError, Problem
from engine.fhir.versions.names import in_stu3
from engine.mapping.authoring.case import cases_for, cases_of, run_cases
from engine.mapping.authoring.negation import Negations
from engine.mapping.compile import Mapping as CompiledMapping
from engine.mapping.compile import MappingSource, compile_edits, compile_mapping
from engine.mapping.compile import read as read_mapping
from engine.mapping.files.document import mapping_names
from engine.mapping.files.setting import setting_of
from engine.mapping.files.undecided import undecided_in
from engine.mapping.language.number_form import AS_IT_CAME, NumberForm
from engine.mapping.outgoing.change import OutgoingSetting
from engine.mapping.outgoing.compile import OutgoingMapping, compile_outgoing, read_outgoing
from engine.mapping.relay.message_edit import MessageEdit
from engine.mapping.subject.identity_checks import changed_systems, conflicting_forms, other_identity

STU3: Final = "STU3"
OwnMappings = dict[tuple[str, str], CompiledMapping]


@dataclass(frozen=True, slots=True)
class Files:
    """Where the authored files and the data stand; `mappings` None: the shipped ones alone.

    `journal`: the address of a database that nodes share, empty for a journal in the data folder, or what the folder
    says. `node`: what this one is called there. `publish`: whether mapping files may be written from the pages.
    """

    channels: Path
    mappings: Path | None
    data: Path
    journal: str = ""
    node: str = ""
    publish: bool = False


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is in force: channels and their compiled mappings by name, destinations by name.

    `own_mappings`: of destinations that have another mapping than their channel, by channel and destination. `marks`:
    one of each mapping together with its cases. `edits`: of relays that send the messages edited, by channel and
    destination; `outgoing`: the mappings of relays that get the events of a FHIR server.
    """

    channels: dict[str, Channel]
    mappings: dict[str, CompiledMapping]
    own_mappings: dict[tuple[str, str], CompiledMapping]
    destinations: dict[str, AnyDestination]
    alerting: Alerting
    sites: Sites
    marks: frozenset[str]
    edits: dict[tuple[str, str], MessageEdit] = field(default_factory=dict)
    outgoing: dict[tuple[str, str], OutgoingMapping] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExaminedConfiguration:
    """Everything authored, with every problem and every warning of all files; `configuration` None: it cannot be used.

    `destinations`: those that the channel files name; None where one of them does not tell.
    """

    configuration: Configuration | None
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    destinations: frozenset[str] | None

    def usable(self) -> Configuration:
        """Return the configuration; ConfigurationError holds every problem."""
        if self.configuration is None:
            raise ConfigurationError(self.problems)
        return self.configuration


def configure(files: Files, *, in_force: frozenset[str] | None = None, machine: bool = True) -> Configuration:
    """Read and compile everything; ConfigurationError holds every problem of every file. Arguments as of `examine`."""
    return examine(files, in_force=in_force, machine=machine).usable()


def examine(files: Files, *, in_force: frozenset[str] | None = None, machine: bool = True) -> ExaminedConfiguration:
    """Read, check and compile everything: what `channels check`, a start and a reload say of the files is this.

    `in_force`: the marks of what this would replace; the cases of mappings with other marks are run as well, and one
    that differs is a problem. None: no case is run. `machine`: also look whether this machine has what the files name:
    secrets, certificates, variables of the environment.
    """
    read, found = read_channels(files.channels)
    alerting, sites = look_at_alerting(files.channels), look_at_sites(files.channels)
    problems = [*found, *alerting.problems, *sites.problems]
    channels = [one.value for one in read if one.value is not None]
    problems += unknown_channels(alerting, frozenset(channel.channel for channel in channels))
    sources = _sources(files, read, problems)
    mappings, own = _compiled(read, sources, problems)
    edits = _edits(read, sources, problems)
    outgoing = _outgoing(files, read, problems)
    problems += [problem for one in read for problem in _not_in_stu3(one, mappings, own)]
    problems += [problem for one in read for problem in _other_identity(one, sources)]
    problems += [problem for one in read for problem in _not_as_searched(one, sources)]
    problems += _other_forms(read, mappings)
    by_name = {channel.channel: channel for channel in channels}
    problems += [problem for one in read for problem in _unknown_feeds(one, by_name)]
    marks = _marks(files, sources, by_name)
    if in_force is not None:
        new = {name: one for name, one in sources.items() if marks.get(name) not in in_force}
        problems += _failures(files, new, by_name)
    looked: tuple[Looked[Any], ...] = (*read, alerting, sites)
    problems += [problem for one in (alerting, sites) for problem in one.ask("undecided")]
    unsettled = _undecided(read, sources)
    problems += unsettled.live
    if machine:
        problems += [problem for one in looked for problem in lacking(one)]
    warnings = tuple(warning for one in looked for warning in one.ask("warnings"))
    warnings += _negations(read, sources) + unsettled.shadow
    destinations = {one.name: one.server for channel in channels for one in channel.destinations}
    whole = None
    if not problems and alerting.value is not None and sites.value is not None:
        marked = frozenset(marks.values())
        whole = Configuration(
            by_name, mappings, own, destinations, alerting.value, sites.value, marked, edits, outgoing
        )
    sure = len(channels) == len(channel_files(files.channels)) and not any(map(_names_guessed, read))
    named = frozenset(destinations) if sure else None
    return ExaminedConfiguration(whole, tuple(sorted(set(problems))), warnings, named)


def _names_guessed(read: Looked[Channel]) -> bool:
    """Say whether a file's destinations are not known by name."""
    return any(path[:1] == ("destinations",) and path[2:] in {(), ("name",)} for path in read.guessed)


def _compiled(
    read: Sequence[Looked[Channel]], sources: dict[str, MappingSource], problems: list[Problem]
) -> tuple[dict[str, CompiledMapping], OwnMappings]:
    """Return the mapping of each channel, and those of destinations that have another, by channel and destination.

    One with mistakes goes out of `sources`, and they to `problems`. A mapping is compiled once for all channels with
    the same settings and for all destinations of these.
    """
    mappings: dict[str, CompiledMapping] = {}
    own: OwnMappings = {}
    made: dict[str, CompiledMapping] = {}

    def compiled(channel: Channel, looked: Looked[Channel]) -> CompiledMapping | None:
        name = channel.mapping
        if name not in sources:
            return None
        # A problem of a filter is one of the channel's file, so that mappings with filters are compiled for each.
        key = f"{name} {looked.source.file if channel.filters else ''} {setting_of(channel).text}"
        try:
            if key not in made:
                made[key] = compile_mapping(sources[name], channel, file=looked.source)
            return made[key]
        except ConfigurationError as error:
            of_channel = [problem for problem in error.problems if problem.file == looked.source.file]
            problems.extend(problem for problem in of_channel if not _is_guess(problem, looked))
            others = [problem for problem in error.problems if problem.file != looked.source.file]
            problems.extend(others)
            if others:
                del sources[name]
            return None

    for looked in read:
        channel = looked.value
        if channel is None:
            continue
        if mapping := compiled(channel, looked):
            mappings[channel.channel] = mapping
        for destination in channel.own_mappings:
            if mapping := compiled(channel.at(destination), looked):
                own[channel.channel, destination] = mapping
    return mappings, own


def _edits(
    read: Sequence[Looked[Channel]], sources: Mapping[str, MappingSource], problems: list[Problem]
) -> dict[tuple[str, str], MessageEdit]:
    """Return the edit of each relay that has one, by channel and destination; mistakes go to `problems`."""
    edits: dict[tuple[str, str], MessageEdit] = {}
    for looked in read:
        channel = looked.value
        # The mistakes of a mapping are noted with it.
        if channel is None or channel.mapping not in sources or not any(one.edit for one in channel.relays):
            continue
        try:
            found = compile_edits(sources[channel.mapping], channel, looked.source)
        except ConfigurationError as error:
            problems += [problem for problem in error.problems if not _is_guess(problem, looked)]
            continue
        edits |= {(channel.channel, name): edit for name, edit in found.items()}
    return edits


def _outgoing(
    files: Files, read: Sequence[Looked[Channel]], problems: list[Problem]
) -> dict[tuple[str, str], OutgoingMapping]:
    """Return the mapping of each relay that gets the events of a FHIR server; mistakes go to `problems`."""
    found: dict[tuple[str, str], OutgoingMapping] = {}
    folders = [folder for folder in (files.mappings, shipped("mappings")) if folder is not None]
    for looked in read:
        channel = looked.value
        if channel is None or channel.listen.fhir is None:
            continue
        for number, relay in enumerate(channel.destinations):
            if not isinstance(relay, Relay):
                continue
            setting = outgoing_setting(channel, relay)
            try:
                source = read_outgoing(folders, (relay.outgoing or Outgoing()).mapping)
                found[channel.channel, relay.name] = compile_outgoing(source, setting)
            except ConfigurationError as error:
                absent = [one for one in error.problems if one.path == "" and "not found in" in one.found]
                place = ("destinations", number, "outgoing", "mapping")
                problems += [each for one in absent for each in looked.located([(place, one.found, one.expected)])]
                problems += [one for one in error.problems if one not in absent]
    return found


def outgoing_setting(channel: Channel, relay: Relay) -> OutgoingSetting:
    """Return how a relay of a channel wants the messages of a FHIR server's events."""
    wanted = relay.outgoing or Outgoing()
    return OutgoingSetting(
        version=wanted.version,
        character_set=wanted.charset,
        sending_application=wanted.sending_application,
        sending_facility=wanted.sending_facility,
        receiving_application=wanted.receiving_application,
        receiving_facility=wanted.receiving_facility,
        processing_id=wanted.processing_id,
        zone=wanted.zone(channel.zone),
        authorities=channel.authorities,
        base_uri=channel.base_uri,
    )


def _unknown_feeds(looked: Looked[Channel], names: Mapping[str, Channel]) -> Iterator[Problem]:
    """Yield the channels of `except_from` that no file describes."""
    for number, relay in enumerate(looked.value.destinations if looked.value is not None else ()):
        feeds = relay.outgoing.except_from if isinstance(relay, Relay) and relay.outgoing is not None else None
        for at, name in enumerate(feeds or ()):
            if name not in names:
                place = ("destinations", number, "outgoing", "except_from", at)
                yield from looked.located(
                    [(place, f"no channel {name!r}", nearest(name, names, "the files of channels"))]
                )


def _not_in_stu3(
    looked: Looked[Channel], mappings: Mapping[str, CompiledMapping], own: OwnMappings
) -> Iterator[Problem]:
    """Yield a problem for each destination whose FHIR version lacks a type that is sent to it."""
    channel = looked.value
    for number, destination in enumerate(channel.destinations if channel is not None else ()):
        if channel is None or not isinstance(destination, Destination) or destination.fhir != STU3:
            continue
        name = channel.mapping_at(destination.name)
        mapping = own.get((channel.channel, destination.name)) or mappings.get(channel.channel)
        lacking = sorted(one for one in mapping.sends - LEFT_OUT if not in_stu3(one)) if mapping is not None else []
        if lacking:
            absent = folded(lacking, where="resources of the event file")
            expected = f"send it to R4, or take it out of the mapping {name!r}"
            yield from looked.located([(("destinations", number, "fhir"), f"STU3 has no {absent}", expected)])


def _other_identity(looked: Looked[Channel], sources: Mapping[str, MappingSource]) -> Iterator[Problem]:
    """Yield a problem for each line by which a destination's mapping identifies patients otherwise than the channel's.

    The problem is at that line; in the channel's file where the line is a shipped one, or where nothing is written.
    """
    channel = looked.value
    if channel is None or channel.mapping not in sources:
        return
    judging = sources[channel.mapping]
    for number, destination in enumerate(channel.destinations):
        name = channel.own_mappings.get(destination.name, "")
        if name not in sources:
            continue
        events, at = sources[name].documents.events, ("destinations", number, "mapping")
        if judging.accepted.isdisjoint(sources[name].accepted):
            found = f"the mapping {name!r}, which is for none of the messages of {channel.mapping!r}"
            expected = f"name one for {', '.join(sorted(judging.accepted))}, or leave it out"
            yield from looked.located([(at, found, expected)])
            continue
        for path, found, expected in other_identity(judging.documents.events, events, channel.channel):
            if events.is_shipped(path):
                yield from looked.located([(at, f"{name!r}, with {found} ({events.shown(path)})", expected)])
            else:
                yield events.problem(path, found, expected)


def _not_as_searched(looked: Looked[Channel], sources: Mapping[str, MappingSource]) -> Iterator[Problem]:
    """Yield a problem for each line that writes a patient's number under another system than the channel's."""
    channel = looked.value
    if channel is None:
        return
    for name in dict.fromkeys((channel.mapping, *channel.own_mappings.values())):
        if name in sources:
            yield from changed_systems(sources[name].documents, setting_of(channel), channel.channel)
            yield from conflicting_forms(sources[name].documents, setting_of(channel), channel.channel)


def _other_forms(read: Sequence[Looked[Channel]], mappings: Mapping[str, CompiledMapping]) -> Iterator[Problem]:
    """Yield a problem for each channel that searches numbers in another form than an earlier one at the same server.

    One of them would make a second chart of a patient that the other knows.
    """
    first: dict[tuple[str, str], tuple[str, NumberForm]] = {}
    for looked in read:
        channel = looked.value
        if channel is None or channel.channel not in mappings:
            continue
        forms = mappings[channel.channel].number_forms
        for system in dict.fromkeys((*forms, *channel.authorities.values())):
            form = forms.get(system, AS_IT_CAME)
            for number, server in enumerate(channel.destinations):
                if not isinstance(server, Destination):
                    continue
                other, theirs = first.setdefault((server.base_url, system), (channel.channel, form))
                if not form.same_as(theirs):
                    found = (
                        f"numbers of {system} are searched {form.text() or 'as sent'} by mapping {channel.mapping}, "
                        f"and {theirs.text() or 'as sent'} by channel {other}"
                    )
                    expected = "give both mappings the same identity.normalise: else one makes second charts"
                    yield from looked.located([(("destinations", number), found, expected)])


def _negations(read: Sequence[Looked[Channel]], sources: Mapping[str, MappingSource]) -> tuple[Problem, ...]:
    """Return the negative comparisons of what a message need not have, of mappings and of channels with filters."""
    known = {name: Negations(one.documents) for name, one in sources.items()}
    found = [warning for one in known.values() for warning in one.warnings()]
    for looked in read:
        channel = looked.value
        if channel is not None and channel.mapping in known:
            found += looked.located(known[channel.mapping].of_channel(channel))
    return tuple(sorted(set(found)))


class UndecidedPlaces(NamedTuple):
    """What files leave open: of channels that write, and of those in shadow mode alone."""

    live: tuple[Problem, ...]
    shadow: tuple[Problem, ...]


def _undecided(read: Sequence[Looked[Channel]], sources: Mapping[str, MappingSource]) -> UndecidedPlaces:
    """Return the placeholders and marks of channel files, and of the mappings that they name."""
    live: set[Problem] = set()
    shadow: set[Problem] = set()
    for looked in read:
        found = list(looked.ask("undecided"))
        found += looked.source.undecided({one.line for one in found})
        for name in {name for _, name in _named(looked.value)} & sources.keys():
            found += undecided_in(sources[name].documents)
        is_shadow = looked.value is not None and looked.value.mode is Mode.SHADOW
        (shadow if is_shadow else live).update(found)
    return UndecidedPlaces(tuple(sorted(live)), tuple(sorted(shadow - live)))


def _is_guess(problem: Problem, looked: Looked[Channel]) -> bool:
    """True if a problem concerns a guessed value of a channel file, which was reported already."""
    guessed = [".".join(map(str, path)) for path in looked.guessed]
    return any(problem.path == path or problem.path.startswith(f"{path}.") for path in guessed)


def _sources(files: Files, read: Sequence[Looked[Channel]], problems: list[Problem]) -> dict[str, MappingSource]:
    """Return every mapping that a channel or its destination names, read once; compiling checks it."""
    folders = [folder for folder in (files.mappings, shipped("mappings")) if folder is not None]
    sources: dict[str, MappingSource] = {}
    seen: set[str] = set()
    names = mapping_names(folders)
    for looked in read:
        for place, name in _named(looked.value):
            if name not in names:
                expected = nearest(name, names, "the mapping folders")
                problems += looked.located([(place, f"no mapping {name!r}", expected)])
            elif name not in seen:
                seen.add(name)
                try:
                    sources[name] = read_mapping(folders, name)
                except ConfigurationError as error:
                    problems += error.problems
    return sources


def _named(channel: Channel | None) -> Iterator[tuple[tuple[Step, ...], str]]:
    """Yield the mappings that a channel names, with their places in its file."""
    if channel is None:
        return
    yield ("mapping",), channel.mapping
    for number, destination in enumerate(channel.destinations):
        if destination.mapping:
            yield ("destinations", number, "mapping"), destination.mapping


def _marks(files: Files, sources: Mapping[str, MappingSource], channels: Mapping[str, Channel]) -> dict[str, str]:
    """Return a mark of each mapping with its cases and the filters of channels; none without the cases."""
    tests = (files.mappings or shipped("mappings")) / "tests"
    try:
        cases = [hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(tests.glob("*.yaml"))]
    except OSError:
        return {}
    filters = [(name, one.filters) for name, one in channels.items() if one.filters]
    return {
        name: hashlib.sha256(repr((name, one.hash, cases, *filters)).encode()).hexdigest()
        for name, one in sources.items()
    }


def _failures(files: Files, sources: Mapping[str, MappingSource], channels: Mapping[str, Channel]) -> Iterator[Problem]:
    """Yield the site's cases that differ, or the shipped ones where there is no site; places, never values."""
    try:
        cases = cases_of(files.mappings or shipped("mappings"))
        for source in sources.values():
            for case, _, differences in run_cases(cases_for(cases, source, channels), source, channels):
                if differences:
                    where = ", ".join(dict.fromkeys(difference.split(":")[0] for difference in differences))
                    found = f"the case differs in {where}"
                    expected = "see `adt-engine mappings test`"
                    yield Problem(case.source.file, case.line, 1, f"tests.{case.number}", found, expected)
    except ConfigurationError as error:
        yield from error.problems


def lacking(looked: Looked[Any]) -> Iterator[Problem]:
    """Yield what this machine does not have, or has and cannot use, of what a file names."""
    yield from looked.ask("unavailable")
    if isinstance(looked.value, Channel):
        yield from looked.located(_unusable_keys(looked.value))


def _unusable_keys(channel: Channel) -> Iterator[Placed]:
    """Yield the private keys that sign nothing, and the certificates of others.

    Of a secret or file that cannot be read its own problem tells.
    """
    for number, destination in enumerate(channel.destinations):
        for key, found, expected in _unusable(destination.auth) if isinstance(destination, Destination) else ():
            yield ("destinations", number, "auth", key), found, expected


def _unusable(auth: Auth) -> Iterator[tuple[str, str, str]]:
    if auth.type in ALGORITHMS and auth.private_key is not None and not any(auth.private_key.unavailable()):
        try:
            key, _ = auth_key(auth)
        except DestinationError:
            yield "private_key", "no private key that can be read", _key_that_signs(auth)
            return
        try:
            if not any(auth.unavailable()):
                auth_certificate(auth, key)
        except DestinationError:
            yield "certificate", f"{auth.certificate} is not of the private key", "name the certificate of that key"
    if auth.key_file is not None and not any(auth.key_file.unavailable()):
        try:
            service_account(auth.key_file.read())
        except DestinationError:
            expected = "name the JSON file that Google makes of a key, with client_email, private_key and token_uri"
            yield "key_file", "no key of a service account", expected


def _key_that_signs(auth: Auth) -> str:
    """Return what a private key has to be."""
    if auth.algorithm or auth.type != "private_key_jwt":
        return f"give one as PEM or JWK that signs by {auth.algorithm or ALGORITHMS[auth.type][0]}"
    return "give one as PEM or JWK: RSA, or EC on P-256, P-384 or P-521"
