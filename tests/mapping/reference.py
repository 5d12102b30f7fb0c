"""`mappings/reference.md`: every function, condition and key, from the engine's own tables, each with an example.

Written by `python -m tests.mapping.reference`. The result of an example is what the engine makes of it. Meanings of
keys, and the examples of functions and conditions, are in `reference.yaml`; an example of a key is the shortest one of
the shipped files, the cookbook and the tutorial, all of which the tests run.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from engine.config.settings import shipped
from engine.config.source import parse
from engine.hl7.message import parse as parse_message
from engine.mapping.authoring import case
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import Mapping as CompiledMapping
from engine.mapping.compile import compile_mapping, read
from engine.mapping.files import alike
from engine.mapping.files.document import PATIENT_KEYS
from engine.mapping.files.overlay import ADD, EXTENDS, REPLACES
from engine.mapping.language import check_table, number_form, template
from engine.mapping.language.function_context import Function, Takes
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.resource import lists, provenance, referred, resources, status
from engine.mapping.subject import events, filters, identity_fields
from tests.guides import BLOCK

FOLDER: Final = shipped("mappings")
PAGE: Final = FOLDER / "reference.md"
EXAMPLES: Final = Path(__file__).with_name("reference.yaml")
DATA: Final[dict[str, Any]] = parse(EXAMPLES.read_text("utf-8"), EXAMPLES.name).value
CHANNEL: Final = {"authorities": {"RVB": "https://mrn.riverbend.example"}, "timezone": "America/New_York"}
PATIENT: Final = {"PID-1": "1", "PID-3": "100003^^^RVB^MR"}
HEADER: Final = "MSH|^~\\&|REG|RVB|||20260302080000||ADT^{0}|M1|P|2.5.1\rEVN|{0}|20260302080000\r"
SITE: Final = "urn:example:{}"
MOST: Final = 100
TAKES: Final = {Takes.TEXT: "text", Takes.CELLS: "repetition", Takes.ALL: "field"}
INTRODUCTION: Final = """\
# Mapping reference

Every function, condition and key of a mapping, each with an example that the tests run. This page is generated from the
engine's own tables by `python -m tests.mapping.reference`. How a line is read: [language](language.md). Complete
answers to requests: [cookbook](cookbook.md).
"""
HOW_FUNCTIONS: Final = """\
## Functions

A function follows a path, after `|`. Capitals are replaced by a table, a field or a word. A function takes a text, one
repetition of a field, or the whole field.
"""
HOW_CONDITIONS: Final = """\
## Conditions

After `when` and `unless`, and in filters. What holds for an empty field: [conditions](language.md#conditions).
"""
HOW_KEYS: Final = """\
## Keys

By the place where they are written. Each example is a line of the file that is named; `...` where it is longer.
"""


class Place:
    """Where keys are written: a heading, the keys that the engine takes there, and the paths of their maps."""

    def __init__(self, title: str, path: str, *keys: frozenset[str] | set[str]) -> None:
        self.title, self.path, self.keys = title, re.compile(path), sorted(set().union(*keys))


OF_RESOURCE: Final = "resource:(levels/\\d+/|kinds/\\w+/)?"
PLACES: Final = (
    Place("Any file of your own", "\\w+:", {EXTENDS, REPLACES}),
    Place("The event table", "mapping:", events.TOP_KEYS),
    Place("A rule of an event", "mapping:events/[^/]+", events.RULE_KEYS),
    Place("`identity` of the event table", "mapping:identity", events.IDENTITY_KEYS),
    Place("A form of `identity.normalise`", "mapping:identity/normalise/[^/]*", number_form.FORM_KEYS),
    Place("A field of `identity.from`", "mapping:identity/from/\\d+", identity_fields.FIELD_KEYS),
    Place("`historic`", "mapping:historic", events.HISTORIC_KEYS),
    Place("`placeholder_people`", "mapping:placeholder_people", events.PEOPLE_KEYS),
    Place("`filters`", "mapping:filters/\\d+", filters.FILTER_KEYS),
    Place(
        "A resource file",
        "resource:",
        PATIENT_KEYS | resources.FILE_KEYS | referred.FILE_KEYS | lists.FILE_KEYS | provenance.FILE_KEYS,
        {ADD},
    ),
    Place(
        "`identity` of a resource file",
        f"{OF_RESOURCE}identity",
        resources.IDENTITY_KEYS | referred.IDENTITY_KEYS,
    ),
    Place("A number of several fields", f"{OF_RESOURCE}identity/\\w+/\\d+", resources.JOIN_KEYS),
    Place("`missing`", "resource:missing", resources.MISSING_KEYS),
    Place("`merge`", "resource:merge", resources.MERGE_KEYS),
    Place("`status`", "resource:status", status.STATUS_KEYS),
    Place("A line of `moves`", "resource:status/moves/\\d+", status.MOVE_KEYS),
    Place("`trail`", "resource:status/trail", status.TRAIL_KEYS),
    Place("A segment of `segments`", "resource:segments/[^/]+", lists.SEGMENT_KEYS | {alike.LIKE}),
    Place("A kind of `kinds`", "resource:kinds/\\w+", referred.KIND_KEYS),
    Place("An entry of an element", "(resource|datatype):.*(elements|also|add)/.+", template.RESERVED | {"first"}),
    Place("A data type file", "datatype:", template.TYPE_KEYS),
    Place("A table", "table:", check_table.KEYS),
    Place("A row of a table", "table:codes/.+", check_table.ROW_KEYS),
    Place("A case", "tests:tests/\\d+", case.CASE_KEYS),
    Place("`channel` of a case", "tests:tests/\\d+/channel", case.CHANNEL_KEYS),
    Place("`expect` of a case", "tests:tests/\\d+/expect", case.EXPECT_KEYS),
)


def page() -> str:
    """Return the page as it is to be committed."""
    return "\n".join(
        (INTRODUCTION, HOW_FUNCTIONS, *functions(), "", HOW_CONDITIONS, *conditions(), "", HOW_KEYS, *keys())
    )


def functions() -> Iterator[str]:
    """Yield the table of functions."""
    examples: dict[str, dict[str, str]] = DATA["functions"]
    elements = {name: one.get("element", f"value{_capital(FUNCTIONS[name].gives)}") for name, one in examples.items()}
    entries = {name: (elements[name], one["line"]) for name, one in examples.items()}
    mapping = site(entries)
    yield "| Function | Takes | Gives | What | Example | Of | Is |"
    yield "|---|---|---|---|---|---|---|"
    for name, function in sorted(FUNCTIONS.items()):
        fields = {key: text for key, text in examples[name].items() if key not in {"line", "element", "words"}}
        yield _row(
            _written_call(name, function, examples[name].get("words", "").split()),
            TAKES[function.takes],
            function.gives,
            function.text,
            _code(examples[name]["line"]),
            "<br>".join(_code(f"{key} = {text}") for key, text in fields.items()),
            # By itself where nothing comes out: the warnings are then its own.
            _code(made(mapping, name, fields) or made(site({name: entries[name]}), name, fields, warnings=True)),
        )


def conditions() -> Iterator[str]:
    """Yield the table of conditions."""
    examples: dict[str, dict[str, Any]] = DATA["conditions"]
    mapping = site({f"when-{number}": ("valueString", "yes", when) for number, when in enumerate(examples)})
    yield "| Condition | Holds where | Holds | Does not |"
    yield "|---|---|---|---|"
    for number, (when, one) in enumerate(examples.items()):
        found = [made(mapping, f"when-{number}", one[side]) for side in ("holds", "else")]
        assert found == ["yes", ""], when
        yield _row(_code(when), one["what"], *(_fields(one[side]) for side in ("holds", "else")))


def keys() -> Iterator[str]:
    """Yield a table of keys for each place."""
    found = list(maps())
    for place in PLACES:
        meanings = DATA["keys"][place.title]
        yield f"### {place.title}\n"
        yield "| Key | What | Example | From |"
        yield "|---|---|---|---|"
        for key in place.keys:
            text, file = example(place, key, found)
            yield _row(_code(key), meanings[key], _code(text), file)
        yield ""


def example(place: Place, key: str, found: list[tuple[str, str, dict[str, Any]]]) -> tuple[str, str]:
    """Return the shortest use of a key in a place, and the file that has it; AssertionError where there is none."""
    uses = [
        (shown({key: one[key]})[1:-1], file) for file, path, one in found if key in one and place.path.fullmatch(path)
    ]
    assert uses, f"{place.title}: {key} is used by no shipped file and no answer of the cookbook"
    text, file = min(
        uses, key=lambda use: ("/packs/" in use[1], use[0].endswith((": []", ': ""', ":")), len(use[0]), use[1])
    )
    return (text if len(text) <= MOST else f"{text[:MOST].rstrip()} ..."), file


def maps() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield every map of the files and pages that the tests run: file, its kind with the path in it, and the map."""
    for file in sorted(FOLDER.rglob("*.yaml")):
        yield from _maps_of(file.relative_to(FOLDER).as_posix(), file.read_text("utf-8"))
    for name in ("cookbook", "tutorial"):
        for block in BLOCK.finditer((FOLDER / f"{name}.md").read_text("utf-8")):
            if block["kind"] == "yaml":
                yield from _maps_of(f"[{name}]({name}.md)", block["text"])


def _maps_of(file: str, text: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    value = parse(text, file).value
    kind = next((kind for kind in ("resource", "datatype", "table", "tests", "mapping") if kind in value), "other")
    yield from (
        (file if "[" in file else f"`mappings/{file}`", f"{kind}:{path}", one) for path, one in _within("", value)
    )


def _within(path: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield path, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _within(f"{path}/{key}" if path else str(key), part)


def site(entries: Mapping[str, tuple[str, ...]]) -> CompiledMapping:
    """Return a mapping whose Patient has an extension for each entry: element, line, and a condition if it has one."""
    added = [
        {"url": SITE.format(name), **dict(zip((entry[0], "when"), entry[1:], strict=False))}
        for name, entry in entries.items()
    ]
    text = yaml.safe_dump({"resource": "Patient", "extends": "shipped/patient", ADD: {"extension": added}})
    folder = Path("example")
    edited = {folder / "resources/patient.yaml": text}
    return compile_mapping(read([folder, FOLDER], "adt", edited), channel_of(CHANNEL))


def made(mapping: CompiledMapping, name: str, fields: Mapping[str, str], *, warnings: bool = False) -> str:
    """Return what the entry of a name becomes in a message with these fields; the warnings, if asked, where nothing."""
    plan = outcome(mapping, parse_message(raw(fields)))
    found = {extension["url"]: extension for extension in plan["interactions"][0]["patient"].get("extension", ())}
    if SITE.format(name) not in found:
        return ", ".join(("nothing", *plan["warnings"])) if warnings else ""
    (value,) = (part for key, part in found[SITE.format(name)].items() if key != "url")
    return value if isinstance(value, str) and "\n" not in value else orjson.dumps(value).decode()


def raw(fields: Mapping[str, str]) -> bytes:
    """Return a message with these fields: `{PID-7: 19630930, event: A08}`."""
    lines: dict[str, dict[int, str]] = {}
    for key, text in {**PATIENT, **fields}.items():
        segment, _, number = key.partition("-")
        if number:
            lines.setdefault(segment, {})[int(number)] = text
    rows = ("|".join((name, *(one.get(at, "") for at in range(1, max(one) + 1)))) for name, one in lines.items())
    return (HEADER.format(fields.get("event", "A01")) + "\r".join(rows) + "\r").encode()


def shown(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(part)}".rstrip() for key, part in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    text = "" if value is None else str(value)
    plain = text and re.fullmatch(r"[\w(][^,{}\[\]#\"\n]*", text) and ": " not in text
    return text if plain or value is None else orjson.dumps(text).decode()


def _written_call(name: str, function: Function, words: list[str]) -> str:
    """Return the forms of a call, the shorter one first; the registry counts the words, and the example names them."""
    least, most = function.tables
    assert len(words) == (1 if function.pieces else function.words + function.more), f"{name}: name its words"
    given = [*(["TABLE" if most == 1 else "TABLE ..."] if most else []), *words]
    needed = [] if not least and most else given[: len(given) - (0 if function.pieces else function.more)]
    forms = (f"{name}({' '.join(one)})" if one else name for one in (needed, given))
    return ", ".join(_code(one) for one in dict.fromkeys(forms))


def _fields(fields: Mapping[str, str]) -> str:
    return ", ".join(_code(f"{key} = {text}") for key, text in fields.items()) or "all fields empty"


def _capital(type_: str) -> str:
    return type_[0].upper() + type_[1:]


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
