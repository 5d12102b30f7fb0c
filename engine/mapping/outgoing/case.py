"""Test cases of outgoing mappings: a change and its resources in, a message out, and the differences in words."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from engine.config.source import AuthoredFile
from engine.errors import MappingError, PathError, Problem
from engine.fhir.json import JsonObject
from engine.hl7.events import VERSIONS
from engine.hl7.message import Message
from engine.hl7.message import parse as parse_message
from engine.hl7.path import parse_path
from engine.mapping.files.document import NONE, OUT, Edited, read_cases_by, yaml_in
from engine.mapping.files.reference import elements, kind_of, listed, nearest
from engine.mapping.outgoing.change import ChangeKind, FhirChange, NothingToSend, OutgoingSetting, TracedField
from engine.mapping.outgoing.compile import OutgoingMapping, OutgoingSource, compile_outgoing
from engine.mapping.outgoing.write import usable_character_set

CASE_KEYS: Final = frozenset({
    "case", "destination", "change", "at", "patient", "encounter", "merged", "resources", "expect",
})  # fmt: skip
EXPECT_KEYS: Final = frozenset({"event", "nothing", "error", "notes", "segments", "absent"})
DESTINATION_KEYS: Final = frozenset({*(one.name for one in fields(OutgoingSetting)), "timezone"}) - {"zone"}
# A field, or a part of one, of a message: `NK1(2)-5.1`.
PLACE: Final = re.compile(r"([A-Z][A-Z0-9]{2})(?:\((\d{1,3})\))?-(.+)")
SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
# Where all kinds of changes are listed.
KINDS_PAGE: Final = "mappings/out.md"
# What a case's message says of itself.
NOW: Final = datetime(2026, 3, 2, 8, 3, tzinfo=UTC)
CONTROL_ID: Final = "1"
OLDEST: Final = VERSIONS.index("2.3")


@dataclass(frozen=True, slots=True)
class OutgoingCase:
    """One case: its place in its file, the change, the destination's setting, and its expectation."""

    source: AuthoredFile
    number: int
    name: str
    change: FhirChange
    setting: OutgoingSetting
    expect: Mapping[str, Any]

    @property
    def line(self) -> int:
        """The line where the case begins."""
        return self.source.place(("tests", self.number))[0]


class OutgoingCaseResult(NamedTuple):
    """The result of a case: in words its differences from the expectation, and what each rule made."""

    case: OutgoingCase
    differences: tuple[str, ...]
    trace: tuple[TracedField, ...]


def outgoing_cases(folder: Path, edited: Edited = NONE) -> tuple[OutgoingCase, ...]:
    """Read the cases in `out/tests` of a mapping folder; ConfigurationError holds every problem."""
    return read_outgoing_cases(yaml_in(folder / OUT / "tests", edited), edited)


def read_outgoing_cases(files: Iterable[Path], edited: Edited = NONE) -> tuple[OutgoingCase, ...]:
    """Read the cases of files; ConfigurationError holds every problem."""
    return read_cases_by(_cases, files, edited)


def run_outgoing_cases(cases: Sequence[OutgoingCase], source: OutgoingSource) -> tuple[OutgoingCaseResult, ...]:
    """Run cases in order; those of one setting share one compiled mapping."""
    compiled: dict[str, OutgoingMapping] = {}
    results = []
    for case in cases:
        key = repr(case.setting)
        if key not in compiled:
            compiled[key] = compile_outgoing(source, case.setting)
        results.append(_result(case, compiled[key]))
    return tuple(results)


def typed(value: Any, type_: str) -> Any:
    """Return an authored value with booleans and numbers where FHIR has them; YAML's scalars are all texts here."""
    if isinstance(value, list):
        return [typed(one, type_) for one in value]
    if isinstance(value, dict):
        known = elements().get(str(value.get("resourceType") or type_), {})
        return {name: typed(part, known[name].type_ if name in known else "") for name, part in value.items()}
    if type_ == "boolean" and value in ("true", "false"):
        return value == "true"
    if type_ in {"integer", "positiveInt", "unsignedInt"} and re.fullmatch(r"-?\d{1,9}", str(value)):
        return int(value)
    if type_ == "decimal" and re.fullmatch(r"-?\d{1,15}", str(value)):
        return int(value)
    return float(value) if type_ == "decimal" and re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", str(value)) else value


def change_of(
    kind: ChangeKind, resources: Mapping[str, JsonObject], subject: JsonObject, at: datetime | None
) -> FhirChange:
    """Return the change of a resource (Patient or Encounter) among others, by the references between them.

    UsageError is not raised: a visit without its patient has an empty one. Of a merge the subject is the survivor or
    the one merged away: which of the two says `link`.
    """
    if subject.get("resourceType") == "Encounter":
        patient = resources.get(str((subject.get("subject") or {}).get("reference")), {"resourceType": "Patient"})
        return FhirChange(kind, patient, subject, None, resources, at)
    if kind is not ChangeKind.PATIENT_MERGED:
        return FhirChange(kind, subject, None, None, resources, at)
    others = [one for one in resources.values() if one.get("resourceType") == "Patient" and one is not subject]
    other = next(iter(others), None)
    gone, kept = (subject, other) if _is_replaced(subject) else (other, subject)
    return FhirChange(kind, kept or {"resourceType": "Patient"}, None, gone, resources, at)


def _is_replaced(patient: JsonObject) -> bool:
    return any(one.get("type") == "replaced-by" for one in patient.get("link") or () if isinstance(one, dict))


def _result(case: OutgoingCase, mapping: OutgoingMapping) -> OutgoingCaseResult:
    try:
        made, trace, _ = mapping.explained(case.change, CONTROL_ID, NOW)
    except MappingError as error:
        found = f"{error.reason} {error.location}".strip()
        return OutgoingCaseResult(case, tuple(_unlike(case.expect, {"error": found})), ())
    if isinstance(made, NothingToSend):
        return OutgoingCaseResult(case, tuple(_unlike(case.expect, {"nothing": made.reason})), trace)
    message = parse_message(made.raw)
    segments = list(dict.fromkeys(segment.name for segment in message.segments[1:]))
    found_of = {"event": made.event, "notes": list(made.notes), "segments": segments}
    return OutgoingCaseResult(case, tuple(_unlike(case.expect, found_of, message)), trace)


def _unlike(expect: Mapping[str, Any], found: Mapping[str, Any], message: Message | None = None) -> Iterator[str]:
    """Yield the differences from an expectation; what it does not name may be anything."""
    for key in ("error", "nothing"):
        if key in found and key not in expect:
            yield f"{key}: expected a message, found {found[key]!r}"
    for key, wanted in expect.items():
        if key == "absent":
            gone = [one for one in listed(wanted) if message is not None and _text_at(message, one)]
            yield from (f"{one}: expected nothing, found something" for one in gone)
            continue
        text = _text_at(message, key) if key not in EXPECT_KEYS and message is not None else found.get(key, "")
        if (wanted or "") != (text or "") and [wanted] != text:
            yield f"{key}: expected {wanted!r}, found {text!r}"


def _text_at(message: Message, place: str) -> str:
    """Return the text of a segment, a field or a part of one; empty if it is not there."""
    match = PLACE.fullmatch(place)
    if match is None:
        segments = message.named(place)
        return segments[0].text if segments else ""
    segments = message.named(match[1])
    number = int(match[2] or 1)
    if number > len(segments):
        return ""
    path = parse_path(f"{match[1]}-{match[3]}")
    if path.component is None and path.repetition is None:
        return segments[number - 1].field(path.field)
    repetitions = path.repetitions(segments[number - 1])
    if not repetitions:
        return ""
    if path.component is None:
        return repetitions[0].text
    value = repetitions[0].leaf(path.component, path.subcomponent or 1)
    return value if isinstance(value, str) else ""


def _cases(source: AuthoredFile, problems: list[Problem]) -> Iterator[OutgoingCase]:
    tests = source.value.get("tests") if isinstance(source.value, dict) else None
    if not isinstance(tests, list):
        problems.append(source.problem((), "no list 'tests'", "write 'tests:' and a list of cases"))
        return
    for number, value in enumerate(tests):
        faults = list(_faults(source, value, ("tests", number)))
        problems += faults
        if not faults:
            yield _case(source, value, number)


def _case(source: AuthoredFile, value: Mapping[str, Any], number: int) -> OutgoingCase:
    resources = {name: typed(one, "") for name, one in (value.get("resources") or {}).items()}
    at = datetime.fromisoformat(str(value["at"])) if value.get("at") else None
    visit, merged = (typed(value[key], "") if value.get(key) else None for key in ("encounter", "merged"))
    change = FhirChange(ChangeKind(value["change"]), typed(value["patient"], ""), visit, merged, resources, at)
    destination = dict(value.get("destination") or {})
    zone = ZoneInfo(destination.pop("timezone", "UTC"))
    setting = OutgoingSetting(**destination, zone=zone)
    return OutgoingCase(source, number, str(value.get("case") or number), change, setting, value["expect"])


def _faults(source: AuthoredFile, value: Any, path: tuple[str | int, ...]) -> Iterator[Problem]:
    if not isinstance(value, dict) or not isinstance(value.get("patient"), dict):
        yield source.problem(path, "no patient", "give case, change, patient and expect")
        return
    yield from _unknown(source, value, path, CASE_KEYS)
    kinds = {kind.value for kind in ChangeKind}
    if value.get("change") not in kinds:
        yield source.problem(
            (*path, "change"),
            f"found {kind_of(value.get('change'))}",
            nearest(str(value.get("change")), kinds, KINDS_PAGE),
        )
    for key in ("encounter", "merged", "resources", "destination"):
        if key in value and not isinstance(value[key], dict):
            yield source.problem((*path, key), f"found {kind_of(value[key])}", "give a map")
    try:
        datetime.fromisoformat(str(value.get("at") or NOW.isoformat()))
    except ValueError:
        yield source.problem((*path, "at"), f"found {value['at']!r}", "expected a time such as 2026-03-02T08:03:00Z")
    yield from setting_faults(source, value.get("destination"), (*path, "destination"))
    expect = value.get("expect")
    if not isinstance(expect, dict) or not expect:
        yield source.problem(path, "no expect", "say what comes out, such as expect: {event: A28}")
        return
    for key in expect:
        if key not in EXPECT_KEYS and not _is_place(key):
            hint = nearest(key, EXPECT_KEYS, "and any field, as PID-5.1")
            yield source.problem((*path, "expect", key), f"unknown key {key!r}", hint)


def setting_faults(source: AuthoredFile, value: Any, path: tuple[str | int, ...]) -> Iterator[Problem]:
    """Yield the problems of an authored setting of a destination."""
    if not isinstance(value, dict):
        return
    yield from _unknown(source, value, path, DESTINATION_KEYS)
    if (version := value.get("version")) is not None and version not in VERSIONS[OLDEST:]:
        yield source.problem((*path, "version"), f"found {version!r}", nearest(str(version), set(VERSIONS[OLDEST:])))
    if (name := value.get("character_set")) is not None and not usable_character_set(str(name)):
        expected = "a name of HL7 table 0211 without switches, such as UNICODE UTF-8 or 8859/1"
        yield source.problem((*path, "character_set"), f"found {name!r}", expected)
    try:
        ZoneInfo(str(value.get("timezone") or "UTC"))
    except (ZoneInfoNotFoundError, ValueError):
        yield source.problem((*path, "timezone"), f"found {value['timezone']!r}", "give a zone such as Europe/Berlin")


def _is_place(key: str) -> bool:
    match = PLACE.fullmatch(key)
    if match is None:
        return SEGMENT.fullmatch(key) is not None
    try:
        parse_path(f"{match[1]}-{match[3]}")
    except PathError:
        return False
    return True


def _unknown(
    source: AuthoredFile, given: Mapping[str, Any], path: tuple[str | int, ...], keys: frozenset[str]
) -> Iterator[Problem]:
    for key in given:
        if key not in keys:
            yield source.problem((*path, key), f"unknown key {key!r}", nearest(key, keys))
