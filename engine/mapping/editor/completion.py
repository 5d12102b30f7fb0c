"""Completion in mapping files: keys and words of the schemas, functions, conditions, fields by their names, tables."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.mapping.authoring.schema import kind_of_file, schemas
from engine.mapping.editor.cursor import EditorPosition, TextCursor, cursor_at
from engine.mapping.editor.hl7_names import components_of, fields_of, type_of_field
from engine.mapping.editor.project import MappingProject
from engine.mapping.files.reference import data_types, segments
from engine.mapping.language.function_context import Function, Takes
from engine.mapping.language.functions import FUNCTIONS

SHAPES: Final = {Takes.TEXT: "PATH", Takes.CELLS: "FIELD", Takes.ALL: "EVERY FIELD"}
# Words between the terms of a condition, and those that compare what is before them.
CONDITION_WORDS: Final[Mapping[str, str]] = {
    "exists": "PATH exists: it has a value",
    "=": "PATH = value",
    "!=": "PATH != value: it has a value, and another one",
    "in": "PATH in (a, b)",
    "not in": "PATH not in (a, b): it has a value, and none of these",
    "<": "PATH < 2008-01-01",
    "<=": "PATH <= 2008-01-01",
    ">": "PATH > 2008-01-01",
    ">=": "PATH >= 2008-01-01",
    "starts-with": "PATH starts-with text",
    "ends-with": "PATH ends-with text",
    "matches": "PATH matches 'pattern'",
    "and": "TERM and TERM: both hold",
    "or": "TERM or TERM: one of them holds",
}
TERM_WORDS: Final[Mapping[str, str]] = {
    "not": "not PATH = value: also where the field is empty",
    "event": "event in (A01, A04): the trigger event",
}
STAGE_WORDS: Final[Mapping[str, str]] = {
    "else": "the next alternative, where this one has no value",
    "when": "when CONDITION: a value only where it holds",
    "unless": "unless CONDITION: no value where it holds",
}
CONDITION_KEYS: Final = frozenset({"when", "unless", "arrives", "leaves"})
# The last stage of an expression, with the function whose parenthesis is open.
OPEN_CALL: Final = re.compile(r"\s*([a-z][a-z0-9-]*)\([^()]*$")
GUARD: Final = re.compile(r"\s*(?:when|unless)\s+(.*)$")
BETWEEN_TERMS: Final = re.compile(r"(?:^|\s)(?:and|or|not)\s+$|^\s*$")
# A value is being typed: after `=`, inside of `in (...)`.
COMPARED: Final = re.compile(r"(?:[=<>]|(?:starts-with|ends-with|matches))\s*$|\([^()]*$")
FIELD_WORD: Final = re.compile(r"([A-Z][A-Z0-9]{2})-(\d*)")
PART_WORD: Final = re.compile(r"((?:([A-Z][A-Z0-9]{2})-(\d{1,3})(?:\[[^\]]*\])?)|([A-Z]{2,3}))\.\d*(?:\.\d*)?")


# The kinds of completions, in the order in which they are listed.
KINDS: Final = ("key", "value", "function", "word", "table", "type", "field")


class CompletionItem(NamedTuple):
    """One completion: its label, the text that replaces the word, its kind, a line about it, and its whole text."""

    label: str
    insert: str
    kind: str
    detail: str = ""
    text: str = ""


class Completions(NamedTuple):
    """The completions at a position; `start` and `end` are the columns of the word that they replace."""

    start: int
    end: int
    items: tuple[CompletionItem, ...]


def complete(text: str, position: EditorPosition, path: Path, project: MappingProject) -> Completions:
    """Return what may be written at a position of a file; `path` is the file's below its mapping folder."""
    cursor = cursor_at(text, position)
    schema = schemas_by_kind()[kind_of_file(path)]
    places = tuple(places_at(schema, cursor.keys, text))
    found = _keys(places) if cursor.value is None else _values(cursor, places, project)
    named = {item.label: item for item in reversed(tuple(found))}
    items = sorted(named.values(), key=_order)
    return Completions(cursor.start, cursor.start + len(cursor.whole_word), tuple(items))


@cache
def schemas_by_kind() -> dict[str, dict[str, Any]]:
    """Return the schemas of all kinds of files, made once."""
    return schemas()


def signature_of(name: str, function: Function) -> str:
    """Return how a function is written: `code(TABLE)`, `minutes-after(FIELD)`."""
    least, most = function.tables
    words = ["TABLE"] * least + ["[TABLE]"] * (most - least)
    words += ["FIELD" if function.field else "WORD"] * function.words + ["[WORD]"] * function.more
    return f"{name}({' '.join(words)})" if words else name


def function_text(name: str, function: Function) -> str:
    """Return a function's signature, what it takes and gives, and its text."""
    return f"{SHAPES[function.takes]} | {signature_of(name, function)} -> {function.gives}\n\n{function.text}"


def _order(item: CompletionItem) -> tuple[object, ...]:
    """Return where an item is among others: functions and words first, `_gender` last, PID-2 before PID-10."""
    label = item.label
    numbers = [int(number) for number in re.findall(r"\d+", label)] if FIELD_WORD.match(label) else []
    return KINDS.index(item.kind), label.startswith("_"), numbers, label


# Keys and values of the schemas


def _keys(places: Iterable[Mapping[str, Any]]) -> Iterator[CompletionItem]:
    for place in places:
        for key, part in place.get("properties", {}).items():
            about = str(part.get("description", "")) if isinstance(part, dict) else ""
            yield CompletionItem(key, f"{key}: ", "key", about.partition("\n")[0], about)


def _values(
    cursor: TextCursor, places: Iterable[Mapping[str, Any]], project: MappingProject
) -> Iterator[CompletionItem]:
    lead = cursor.value or ""
    if cursor.keys and cursor.keys[-1] in CONDITION_KEYS:
        yield from _in_condition(lead, cursor.word)
    elif cursor.keys and cursor.keys[-1] == "as":
        yield from _data_types(project)
    elif "|" in _unquoted(lead):
        yield from _in_stage(lead.rpartition("|")[2], cursor.word, project)
    elif not lead.strip():
        closed = [place for place in places if "enum" in place]
        for place in closed:
            yield from (CompletionItem(str(value), str(value), "value") for value in place["enum"])
        if not closed:
            yield from _paths(cursor.word)


def _unquoted(text: str) -> str:
    return re.sub(r"'[^']*'", "", text)


def _in_stage(stage: str, word: str, project: MappingProject) -> Iterator[CompletionItem]:
    if guard := GUARD.match(stage):
        yield from _in_condition(guard[1], word)
    elif call := OPEN_CALL.match(stage):
        function = FUNCTIONS.get(call[1])
        if function and function.tables[1]:
            yield from (CompletionItem(name, name, "table", title) for name, title in project.tables())
        elif function and (function.field or function.pieces):
            yield from _paths(word)
    elif stage.strip() == "else":
        yield from _paths(word)
    elif not stage.strip():
        for name, function in FUNCTIONS.items():
            insert = f"{name}(" if function.tables[0] or function.words else name
            yield CompletionItem(name, insert, "function", signature_of(name, function), function_text(name, function))
        yield from (CompletionItem(name, f"{name} ", "word", text, text) for name, text in STAGE_WORDS.items())
        yield from _data_types(project)
        yield from (CompletionItem(name, name, "type", "a resource by its file") for name in project.resources())


def _in_condition(lead: str, word: str) -> Iterator[CompletionItem]:
    if COMPARED.search(_unquoted(lead)):
        return
    if BETWEEN_TERMS.search(lead):
        yield from (CompletionItem(name, f"{name} ", "word", text, text) for name, text in TERM_WORDS.items())
        yield from _paths(word)
    else:
        yield from (CompletionItem(name, f"{name} ", "word", text, text) for name, text in CONDITION_WORDS.items())


def _data_types(project: MappingProject) -> Iterator[CompletionItem]:
    yield from (CompletionItem(name, name, "type", f"{name} to {to}") for name, to in project.datatypes())


def _paths(word: str) -> Iterator[CompletionItem]:
    """Yield the paths that a word may become: segments, then their fields, then the components of a field."""
    field, part = FIELD_WORD.match(word), PART_WORD.fullmatch(word)
    if part:
        type_ = part[4] or type_of_field(part[2], int(part[3]))
        for one in components_of(type_, part[1]):
            yield CompletionItem(one.path, one.path, "field", " ".join(filter(None, (one.name, one.type_))))
    elif field:
        for one in fields_of(field[1]):
            yield CompletionItem(one.path, one.path, "field", f"{one.name} {one.type_}")
    else:
        yield from (CompletionItem(name, f"{name}-", "field", "a segment") for name in segments())
        yield from (CompletionItem(name, name, "field", "the repetition at hand") for name in data_types())


# The places of a schema


def places_at(schema: Mapping[str, Any], keys: Iterable[str], text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of a schema that hold at a path of keys; items of lists count as their list."""
    here = list(_spread(schema, schema, text))
    for key in keys:
        here = [
            part
            for place in here
            for one in (place, *_items(place, schema, text))
            for below in _children(one, key)
            for part in _spread(below, schema, text)
        ]
    for place in here:
        yield place
        yield from _items(place, schema, text)


def _items(place: Mapping[str, Any], root: Mapping[str, Any], text: str) -> Iterator[Mapping[str, Any]]:
    if isinstance(place.get("items"), dict):
        yield from _spread(place["items"], root, text)


def _spread(part: Mapping[str, Any], root: Mapping[str, Any], text: str) -> Iterator[Mapping[str, Any]]:
    """Yield a part and those that hold with it, references followed; each once."""
    waiting, seen = [part], set()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        if "$ref" in one:
            waiting.append(root["definitions"][str(one["$ref"]).removeprefix("#/definitions/")])
        elif "if" in one:
            fixed = one["if"].get("properties", {}).items()
            if all(value.get("const") == _said(key, text) for key, value in fixed):
                waiting.append(one["then"])
        else:
            yield one
        waiting += [*one.get("anyOf", ()), *one.get("allOf", ())]


def _said(key: str, text: str) -> str:
    """Return the value of a key at the margin of a file; empty for none."""
    found = re.search(rf"^{key}:\s*([A-Za-z0-9]+)", text, re.MULTILINE)
    return found[1] if found else ""


def _children(place: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    own = place.get("properties", {}).get(key)
    if own is not None:
        yield own
        return
    named = [one for pattern, one in place.get("patternProperties", {}).items() if re.search(pattern, key)]
    yield from named
    other = place.get("additionalProperties")
    if not named and isinstance(other, dict):
        yield other
