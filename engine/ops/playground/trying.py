"""What a mapping makes of one message: segments, plan, and of each element the rule and the field behind it."""

import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from engine.errors import ConfigurationError, MessageError, UsageError
from engine.fhir.json import JsonObject
from engine.hl7.edit import written
from engine.hl7.leaf import NULL
from engine.hl7.message import Message
from engine.mapping.authoring.evidence import Evidence
from engine.mapping.authoring.explain import explained_by
from engine.mapping.authoring.survey import Survey
from engine.ops.playground.bench import CHANNEL_FILE, Bench, BenchRequest, problems_of
from engine.ops.playground.site import MappingSite
from engine.ops.views.explaining import explained, plain
from engine.ops.views.plans import words_of
from engine.ops.views.segments import segments_of
from engine.pipeline.inbound.judgement import read_message

MOST_ELEMENTS: Final = 2_000
# Elements of the evidence by which something is found: what numbers of the plan come from.
IDENTITIES: Final = frozenset({"identity", "key"})
BODIES: Final = ("patient", "resource", "retired")
_NUMBERED: Final = re.compile(r"\A([A-Za-z]+)(?:\((\d+)\))?")


class ResourceLeaf(NamedTuple):
    """A value of a resource and its path, `name[0].family`."""

    path: str
    value: Any


def tried(bench: Bench, question: BenchRequest, text: str) -> JsonObject:
    """Return what becomes of a message; problems of the files in place of a plan where there are some."""
    message: Message | None = None
    made: JsonObject = {}
    try:
        message = read_message(written(text, question.channel.charset), question.channel)
        made["segments"] = [segment.model_dump() for segment in segments_of(message, question.channel.version)]
    except MessageError as error:
        made["error"] = str(error)
    try:
        watched = bench.watched(question)
    except ConfigurationError as error:
        return {**made, "problems": problems_of(question.site, error.problems)}
    if message is None:
        return made
    return made | _explained(question.site, watched, message)


def explained_entry(bench: Bench, question: BenchRequest, asked: JsonObject) -> JsonObject:
    """Return why a journaled message would come out as it does under the mapping files of now.

    UsageError where these have problems.
    """
    try:
        return explained(
            lambda: bench.watched(question),
            question.channel,
            b64decode(asked["message"]),
            asked["element"],
            asked["field"],
            charset=question.channel.charset,
            event=asked["event"],
        )
    except ConfigurationError as error:
        raise UsageError(str(error)) from error


def _explained(site: MappingSite, watched: Any, message: Message) -> JsonObject:
    found = explained_by(watched, message)
    outcome = found.outcome
    held: JsonObject = outcome.get("filter") or {}
    by_channel = held.get("file") == CHANNEL_FILE.file
    ended = by_channel and not held["send_to"]
    evidence = [one for one in found.evidence if one.made is not None]
    shown = evidence[:MOST_ELEMENTS]
    bodies = [(words_of(interaction), _body(interaction)) for interaction in outcome.get("interactions", ())]
    seen: dict[str, int] = {}
    return {
        "event": message.trigger,
        "action": outcome["action"],
        "rule": outcome["rule"],
        "file": "" if ended else site.name(found.file),
        "line": 0 if ended else found.line,
        "filter": _filter(held, watched.mapping.identify(message).of_identity) if by_channel else None,
        "error": outcome.get("error", ""),
        **{name: list(outcome.get(name, ())) for name in ("findings", "flags", "warnings")},
        "plan": [
            {"interaction": words, "resource": body, "origins": _origins(body, shown, seen)} for words, body in bodies
        ],
        "elements": [_element(site, one) for one in shown],
        "more": len(evidence) - len(shown),
        "unread": [one._asdict() for one in Survey(found.trace, watched.source.documents).unread(message)],
    }


def _filter(held: JsonObject, of_identity: bool) -> JsonObject:
    return {name: held[name] for name in ("rule", "does", "send_to")} | {"where_known": of_identity}


def _element(site: MappingSite, one: Evidence) -> JsonObject:
    rows = [
        f"{row.table}, {row.code}: " + (f"{site.name(row.file)}:{row.line}" if row.line else "no such row")
        for row in one.rows
    ]
    return {
        "element": one.element,
        "file": site.name(one.file),
        "line": one.line,
        "rule": one.rule,
        "source": one.source,
        "functions": [applied.function for applied in one.functions],
        "segment": one.segment or 1,
        "raw": _plain(one.raw),
        "rows": rows,
        "made": _plain(one.made),
    }


def _body(one: JsonObject) -> JsonObject:
    return next((one[name] for name in BODIES if isinstance(one.get(name), dict)), {})


def _origins(body: JsonObject, evidence: Sequence[Evidence], seen: dict[str, int]) -> dict[str, int]:
    """Return for each value of a resource the place of what made it: of that path, or of one above, with that value."""
    kind = str(body.get("resourceType", ""))
    seen[kind] = number = seen.get(kind, 0) + 1
    identity: list[int] = []
    by_path: dict[str, list[tuple[int, int, Evidence]]] = {}
    for place, one in enumerate(evidence):
        name, own, path = _apart(one.element)
        if name == kind and path:
            by_path.setdefault(path, []).append((place, own, one))
            identity += [place] if own == number and path in IDENTITIES else []
    found: dict[str, int] = {}
    for leaf in _leaves(body, ""):
        fitting = [
            (own == number, len(path), place)
            for path in _above(leaf.path)
            for place, own, one in by_path.get(path, ())
            if _part(one.made, leaf.path[len(path) :]) == leaf.value
        ]
        if fitting:
            found[leaf.path] = max(fitting)[2]
        elif leaf.path.startswith("identifier[") and identity:
            found[leaf.path] = identity[0]
    return found


def _apart(element: str) -> tuple[str, int, str]:
    """Return type, number and path of an element: `Patient(2).name[0]` is (Patient, 2, name[0])."""
    match = _NUMBERED.match(element)
    if match is None:
        return "", 1, ""
    return match[1], int(match[2] or 1), element[match.end() :].lstrip(".")


def _above(path: str) -> Iterator[str]:
    """Yield a path and those above it: `name[0].family`, `name[0]`, `name`."""
    yield path
    for place in range(len(path) - 1, 0, -1):
        if path[place] in ".[":
            yield path[:place]


def _leaves(value: Any, path: str) -> Iterator[ResourceLeaf]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{number}]")
    elif path != "resourceType":
        yield ResourceLeaf(path, value)


_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def _part(value: Any, path: str) -> Any:
    """Return what is at a path within a value; None for nothing."""
    for match in _STEP.finditer(path):
        if match[1] is not None:
            value = value.get(match[1]) if isinstance(value, dict) else None
        else:
            number = int(match[2])
            value = value[number] if isinstance(value, list | tuple) and number < len(value) else None
    return value


def _plain(value: Any) -> Any:
    if value is NULL:
        return plain(value)
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
