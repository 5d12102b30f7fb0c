"""Test cases of mappings: a message in, what is expected out, the differences in words, and expectations rewritten.

Scalars of YAML stay as written, so that expected and found values are compared by their text (`true`, `2`). An
expected map is a fragment: what it does not name may be anything. A list must match item by item.
"""

import json
import re
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MapOf
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from engine.config.channel import Channel
from engine.config.destination import Destination
from engine.config.listener_settings import Listen, Mllp
from engine.config.model import words
from engine.config.source import AuthoredFile
from engine.errors import ConfigurationError, MappingError, MessageError, PathError, Problem
from engine.hl7.events import ADT
from engine.hl7.header import read_header
from engine.hl7.leaf import NULL, NULL_TEXT
from engine.hl7.message import Message
from engine.hl7.message import parse as parse_message
from engine.hl7.path import parse_path
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import Compiled, Mapping, MappingSource, compile_edits, compile_mapping
from engine.mapping.files.document import NONE, Edited, read_cases_by, yaml_in
from engine.mapping.files.reference import GUIDE, kind_of, nearest, type_names
from engine.mapping.files.setting import TEST_KEYS
from engine.mapping.language.check import event_hint
from engine.mapping.language.expression import SEGMENT
from engine.mapping.subject.events import SENT

CASE_KEYS: Final = frozenset({
    "case", "channel", "event", "assume", "resources", "message", "file", "expect",
})  # fmt: skip
CHANNEL_KEYS: Final = frozenset({
    "timezone", "authorities", "unknown_authority", "base_uri", "allow_merge", "unhandled_events",
    "unhandled_messages", "placeholder_identifiers", "event_from_evn",
})  # fmt: skip
EXPECT_KEYS: Final = frozenset({
    "rule", "action", "filter", "patients", "findings", "flags", "visit", "event_at", "error", "warnings",
    "interactions", "absent", "upsert", "reactivate", "identities", "stand_in", "slices", "deletes",
    "patient", "merge", "into", "sources", "source_identifiers", "rename", "to", "retired", "link", "unlink",
    "and", "move", "from", "numbers", "refers", "retire", "find", "relays",
})  # fmt: skip
# Listed resources (`Coverage.IN1-1`, `Observation.OBX-1.OBR-2`) and referred ones (`Organization SYSTEM|VALUE`).
LISTED: Final = re.compile(
    r"(?:[A-Za-z]+\.[A-Z][A-Z0-9]{2}(-\d+){0,2}(\.[A-Z][A-Z0-9]{2}-\d+)?|[A-Z][A-Za-z]+ \S+\|.+)"
)
# Resources of acts: `encounter`, `encounter-2` of the second patient, `source-account` in a merge.
KEPT: Final = re.compile(r"(?:source-)?([a-z]+)(?:-\d+)?(?:\.[A-Z][A-Za-z]+)?")

RELAYS: Final = "relays"
ERROR: Final = "error"
TRIGGER: Final = re.compile(r"[A-Z]\d\d|[A-Z][A-Z0-9]{2}\^[A-Z][A-Z0-9]\d")


@dataclass(frozen=True, slots=True)
class Case:
    """One case: its place in its file, its message as bytes, its channel's settings, and its expectation.

    `mapping`: the mapping that its file is for; empty for any. `on`: the channel that it names, with filters; empty if
    the case has the channel's settings itself.
    """

    source: AuthoredFile
    number: int
    name: str
    raw: bytes
    channel: dict[str, Any]
    expect: dict[str, Any]
    mapping: str = ""
    resources: tuple[str, ...] = ()
    assume: dict[str, Any] = field(default_factory=dict)
    on: str = ""

    @property
    def message_type(self) -> str:
        """MSH-9.1 of the message; ADT if it cannot be read."""
        header = read_header(self.raw)
        return header.message_type if header else ADT

    @property
    def line(self) -> int:
        """The line where the case begins."""
        return self.source.place(("tests", self.number))[0]


Channels = MapOf[str, Channel]
NO_CHANNELS: Final[Channels] = {}


class CaseResult(NamedTuple):
    """The result of a case: the mapping's outcome, and in words its differences from the expectation."""

    case: Case
    found: dict[str, Any]
    differences: tuple[str, ...]


def read_cases(files: Sequence[Path], edited: Edited = NONE) -> tuple[Case, ...]:
    """Read the cases of files, or of texts in their place; ConfigurationError holds every problem."""
    return read_cases_by(_cases, files, edited)


def cases_of(folder: Path, edited: Edited = NONE) -> tuple[Case, ...]:
    """Read the cases in the `tests` of a mapping folder."""
    return read_cases(yaml_in(folder / "tests", edited), edited)


def cases_for(cases: Sequence[Case], mapping: MappingSource, channels: Channels = NO_CHANNELS) -> list[Case]:
    """Return a mapping's cases: those on a channel with it, those that name it, and those with a type it accepts.

    A case on a channel is one of the channel's mapping, or of a destination's that its file names.
    """
    types = mapping.accepted

    def is_of(one: Case) -> bool:
        if one.on in channels:
            channel = channels[one.on]
            named = one.mapping if one.mapping in channel.own_mappings.values() else channel.mapping
            return named == mapping.name
        return one.mapping == mapping.name or (not one.mapping and one.message_type in types)

    return [case for case in cases if is_of(case)]


def unreplaced(own: Sequence[Case], shipped: Sequence[Case]) -> list[Case]:
    """Return the shipped cases that no case of the site with the same file and name replaces."""
    names = {(Path(case.source.file).name, case.name) for case in own}
    return [case for case in shipped if (Path(case.source.file).name, case.name) not in names]


def run_cases(
    cases: Sequence[Case], mapping: MappingSource, channels: Channels = NO_CHANNELS
) -> tuple[CaseResult, ...]:
    """Run cases in order; cases of one channel share one compiled mapping. `channels`: those that cases may name.

    ConfigurationError if a case names an unknown channel or type of resource.
    """
    compiled: dict[str, tuple[Mapping, Channel]] = {}
    kept: Compiled = {}
    results = []
    for case in cases:
        key = repr((case.on, sorted(case.channel.items()), case.resources, sorted(case.assume.items())))
        if key not in compiled:
            compiled[key] = _compiled(case, mapping, channels, kept)
        found = _outcome_of(case, *compiled[key])
        if RELAYS in case.expect:
            found[RELAYS] = _relayed(case, mapping, compiled[key][1])
        results.append(CaseResult(case, found, differences(case, found)))
    return tuple(results)


def _compiled(case: Case, mapping: MappingSource, channels: Channels, kept: Compiled) -> tuple[Mapping, Channel]:
    known = {"Patient", *mapping.documents.resources}
    for type_ in case.resources:
        if type_ not in known:
            path = ("tests", case.number, "resources")
            raise ConfigurationError(
                (case.source.problem(path, f"found {type_!r}", nearest(type_, known, "the files in resources/")),)
            )
    if case.on and case.on not in channels:
        path = ("tests", case.number, "channel")
        hint = (
            nearest(case.on, dict(channels), "the files of channels")
            if channels
            else "name the folder of channel files with --channels"
        )
        raise ConfigurationError((case.source.problem(path, f"no channel {case.on!r}", hint),))
    sent = sending(mapping, case.resources) if case.resources else mapping
    sent = _saying(sent, "assume", case.assume) if case.assume else sent
    channel = channels[case.on] if case.on else channel_of(case.channel)
    own = (name for name, named in channel.own_mappings.items() if named == mapping.name)
    # Cases need no secrets, and make the same wherever they run.
    channel = channel.at(next(own, "")).model_copy(update={"keys": TEST_KEYS})
    return compile_mapping(sent, channel, kept=kept), channel


def _outcome_of(case: Case, mapping: Mapping, channel: Channel) -> dict[str, Any]:
    try:
        message = parse_message(case.raw, event_from_evn=channel.event_from_evn)
    except MessageError as error:
        return {"error": type(error).__name__}
    made = outcome(mapping, message)
    interactions = made.get("interactions") or []
    kept = {interaction["keep"]: interaction for interaction in interactions if "keep" in interaction}
    kept |= {interaction["attest"]: interaction for interaction in interactions if "attest" in interaction}
    names = [name for name in kept if " " in name]
    listed = {key: [interaction for interaction in interactions if key in interaction] for key in ("retire", "find")}
    return {**made, **kept, "refers": names, **listed, **(interactions or [{}])[0]}


def _relayed(case: Case, mapping: MappingSource, channel: Channel) -> dict[str, Any]:
    """Return what leaves for each relay that a case expects something of: the parts by their paths, or the error."""
    edits = compile_edits(mapping, channel)
    found: dict[str, Any] = {}
    for name, wanted in case.expect[RELAYS].items():
        try:
            left = edits[name].edited(parse_message(case.raw)) if name in edits else None
        except (MappingError, MessageError) as error:
            found[name] = {ERROR: getattr(error, "reason", type(error).__name__)}
            continue
        found[name] = {path: _part(left, path) for path in wanted if path != ERROR} if left is not None else None
    return found


def _part(message: Message, text: str) -> str:
    """Return a part of a message: a segment or a field as sent, or a component; empty if there is none."""
    segment = message.first(text[:3])
    if segment is None or SEGMENT.fullmatch(text):
        return segment.text if segment is not None else ""
    path = parse_path(text)
    if path.component is None and path.repetition is None and path.predicate is None:
        return segment.field(path.field)
    leaves = path.leaves(message)
    return NULL_TEXT if leaves and leaves[0] is NULL else str((leaves and leaves[0]) or "")


def sending(mapping: MappingSource, types: Sequence[str]) -> MappingSource:
    """Return a mapping that sends resources of these types, like a site's own `resources`."""
    return _saying(mapping, SENT, list(types))


def _saying(mapping: MappingSource, key: str, value: Any) -> MappingSource:
    """Return a mapping with another value for a key of its event table."""
    events = mapping.documents.events
    changed = replace(events, value={**events.value, key: value})
    documents = replace(mapping.documents, events=changed)
    return MappingSource(mapping.name, documents, documents.digest)


def differences(case: Case, found: dict[str, Any]) -> tuple[str, ...]:
    """Return the differences between the outcome and the expectation, in words."""
    unlike: list[str] = []
    for key, wanted in case.expect.items():
        if key == "absent":
            given = {*found.get("patient", {}), *(delete.split()[0] for delete in found.get("deletes", ()))}
            unlike += [f"patient.{name}: expected nothing, found something" for name in _list(wanted) if name in given]
        else:
            unlike += _compare(plain(wanted), plain(found.get(key)), key)
    return tuple(unlike)


def channel_of(authored: dict[str, Any]) -> Channel:
    """Return a channel for offline use: the authored keys, merges allowed, test keys, everything else by default."""
    channel = Channel(
        channel="offline",
        listen=Listen(mllp=Mllp(port=0)),
        destinations=(Destination(name="nowhere", base_url="http://127.0.0.1:1"),),
        **{"allow_merge": True, **authored},
    )
    return channel.model_copy(update={"keys": TEST_KEYS})


def plain(value: Any) -> Any:
    """Return a value with every scalar as the text that YAML would hold."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _compare(wanted: Any, found: Any, path: str) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, part in wanted.items():
            yield from _compare(part, found.get(key), f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, (part, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _compare(part, other, f"{path}[{number}]")
    elif wanted != found and not (wanted in ("", []) and found in ("", [], None)):
        yield f"{path}: expected {_shown(wanted)}, found {_shown(found)}"


def _cases(source: AuthoredFile, problems: list[Problem]) -> Iterator[Case]:
    tests = source.value.get("tests") if isinstance(source.value, dict) else None
    if not isinstance(tests, list):
        problems.append(source.problem((), "no list 'tests'", "write 'tests:' and a list of cases"))
        return
    for number, value in enumerate(tests):
        path = ("tests", number)
        if not isinstance(value, dict) or not isinstance(value.get("message") or value.get("file"), str):
            problems.append(source.problem(path, "no message", "give case, message (or file) and expect"))
            continue
        expect, channel, assume = (value.get(key) or {} for key in ("expect", "channel", "assume"))
        on, channel = (channel, {}) if isinstance(channel, str) else ("", channel)
        faults = [
            *_unknown(source, value, path, CASE_KEYS),
            *_unknown(source, expect, (*path, "expect"), EXPECT_KEYS),
            *_unknown(source, channel, (*path, "channel"), CHANNEL_KEYS),
            *_unknown(source, assume, (*path, "assume"), frozenset(assume)),
            *_unusable(source, value, path),
        ]
        problems += faults
        if not faults:
            sent = tuple(str(one) for one in _list(value.get("resources") or []))
            name, mapping = str(value.get("case") or number), str(source.value.get("mapping") or "")
            yield Case(source, number, name, _raw(source, value), channel, expect, mapping, sent, assume, on)


def _unknown(source: AuthoredFile, given: Any, path: tuple[str | int, ...], keys: frozenset[str]) -> list[Problem]:
    if not isinstance(given, dict):
        return [source.problem(path, f"found {kind_of(given)}", "expected a map")]
    return [
        source.problem((*path, key), f"unknown key {key!r}", nearest(key, keys, GUIDE))
        for key in given
        if key not in keys and not LISTED.fullmatch(key) and not _is_kept(key)
    ]


def _is_kept(key: str) -> bool:
    """True if a key of an expectation names a resource in the plan."""
    match = KEPT.fullmatch(key)
    return match is not None and match[1] in type_names()


def _unusable(source: AuthoredFile, value: dict[str, Any], path: tuple[str | int, ...]) -> Iterator[Problem]:
    """Yield the problems of a case that cannot run or prove anything: its message, event, channel, expectation."""
    text, event, channel = value.get("message"), value.get("event"), value.get("channel")
    if not value.get("expect"):
        yield source.problem(path, "no expect", "say what comes out, such as expect: {rule: admit}")
    if text is not None and "|" not in text:
        yield source.problem((*path, "message"), "no segments", "expected segments, one a line; or file: NAME")
    if text is None and not _message_file(source, value).is_file():
        yield source.problem((*path, "file"), f"found {value['file']!r}", "expected a file, relative to this one")
    yield from _unusable_relays(source, value.get("expect"), (*path, "expect", RELAYS))
    if event and not TRIGGER.fullmatch(str(event)):
        yield source.problem((*path, "event"), f"unknown event {event!r}", event_hint(str(event)[-3:].upper()))
    try:
        if isinstance(channel, dict) and channel.keys() <= CHANNEL_KEYS:
            channel_of(channel)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            yield source.problem((*path, "channel", *fault["loc"]), *words(fault, Channel))


def _unusable_relays(source: AuthoredFile, expect: Any, path: tuple[str | int, ...]) -> Iterator[Problem]:
    """Yield what is no relay with its parts, in the expectation of a case."""
    relays = expect.get(RELAYS) if isinstance(expect, dict) else None
    for name, parts in relays.items() if isinstance(relays, dict) else [("", relays)] if relays is not None else ():
        if not isinstance(parts, dict):
            yield source.problem(path, f"found {kind_of(parts)}", "expected such as {radiology: {PID-5: X^Y}}")
            continue
        for text in parts:
            try:
                if text != ERROR and not SEGMENT.fullmatch(text):
                    parse_path(text)
            except PathError:
                expected = "expected a path such as PID-5.1, or a segment such as NK1"
                yield source.problem((*path, name, text), f"found {text!r}", expected)


def _message_file(source: AuthoredFile, value: dict[str, Any]) -> Path:
    return Path(source.file).parent / str(value["file"])


def _raw(source: AuthoredFile, value: dict[str, Any]) -> bytes:
    if "message" not in value:
        return _message_file(source, value).read_bytes()
    lines = [line.strip() for line in value["message"].splitlines() if line.strip()]
    if not lines or not lines[0].startswith("MSH"):
        event = value.get("event") or "A01"
        kind = event if "^" in event else f"{ADT}^{event}"
        header = f"MSH|^~\\&|TEST|RVB|||20250701093000||{kind}|1|P|2.5.1"
        lines = [header, *(["EVN||20250701093000"] if event != kind else []), *lines]
    return "\r".join(lines).encode() + b"\r"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _shown(value: Any) -> str:
    return "nothing" if value in ("", None) else repr(value)


INDENT: Final = "  "
FRAGMENT: Final = "patient"


def rewrite(found: Sequence[tuple[Case, dict[str, Any]]]) -> None:
    """Write the outcomes into the files of cases, for the keys that each case expects."""
    by_file: dict[str, list[tuple[Case, dict[str, Any]]]] = {}
    for case, result in found:
        by_file.setdefault(case.source.file, []).append((case, result))
    for file, cases in by_file.items():
        lines = Path(file).read_text("utf-8").splitlines()
        for case, result in sorted(cases, key=lambda one: -one[0].number):
            _replace(lines, case, result)
        Path(file).write_text("\n".join(lines) + "\n", "utf-8")


def _replace(lines: list[str], case: Case, outcome: dict[str, Any]) -> None:
    line, column = case.source.place(("tests", case.number, "expect"))
    start, margin = line - 1, column - 1
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or _margin(lines[end]) > margin):
        end += 1
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    block = [" " * margin + "expect:"]
    for key, wanted in case.expect.items():
        value = _chosen(key, wanted, outcome)
        block += _written(key, plain(value), " " * margin + INDENT)
    lines[start:end] = block


def _chosen(key: str, wanted: Any, outcome: dict[str, Any]) -> Any:
    if key == "absent":
        given = {*outcome.get(FRAGMENT, {}), *(delete.split()[0] for delete in outcome.get("deletes", ()))}
        return [name for name in (wanted if isinstance(wanted, list) else [wanted]) if name not in given]
    if key == FRAGMENT and isinstance(wanted, dict):
        found = outcome.get(FRAGMENT, {})
        return {name: found[name] for name in wanted if name in found}
    return _fragment(wanted, outcome.get(key))


def _fragment(wanted: Any, found: Any) -> Any:
    """Return the expected keys of a map, at any depth; anything else whole."""
    if not isinstance(wanted, dict) or not isinstance(found, dict):
        return found
    return {name: _fragment(part, found[name]) for name, part in wanted.items() if name in found}


def _written(key: str, value: Any, margin: str) -> list[str]:
    if isinstance(value, dict) and value:
        parts = (_written(name, part, margin + INDENT) for name, part in value.items())
        return [f"{margin}{key}:", *(line for lines in parts for line in lines)]
    if isinstance(value, list) and value:
        return [f"{margin}{key}:", *(f"{margin}{INDENT}- {_flow(part)}" for part in value)]
    return [f"{margin}{key}: {_flow(value)}"]


def _flow(value: Any) -> str:
    """Return a value on one line; JSON is YAML."""
    return json.dumps(value, ensure_ascii=False)


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
