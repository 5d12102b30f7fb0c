"""The language is closed: each function, condition and key is documented, in the schema for editors, and in a case."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from engine.config.schema import schema_text
from engine.config.settings import shipped
from engine.hl7.message import parse
from engine.mapping.authoring import case, schema
from engine.mapping.authoring.case import cases_for, cases_of, channel_of, run_cases, sending
from engine.mapping.authoring.coverage import Coverage
from engine.mapping.compile import load
from engine.mapping.files import alike
from engine.mapping.files.document import PATIENT_KEYS
from engine.mapping.files.overlay import ADD
from engine.mapping.language import check_table, template
from engine.mapping.language.comparison import COMPARE
from engine.mapping.language.expression import TERM, FunctionCall, parse_condition
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.resource import lists, provenance, referred, resources, status
from engine.mapping.subject import events, filters

ROOT = shipped("mappings")
SHOWN = Path(__file__).parents[1] / "shown"
REFERENCE = (ROOT / "reference.md").read_text("utf-8")
SCHEMAS = "\n".join(schema_text(one) for one in schema.schemas().values())
ROOMS = (check_table, template, lists, provenance, referred, resources, status, events, filters)


def _sets(*rooms: ModuleType) -> list[frozenset[str]]:
    """Return the sets of keys that modules take."""
    return [getattr(room, name) for room in rooms for name in dir(room) if name.endswith("KEYS") or name == "RESERVED"]


# By which messages are mapped, without those of the cases that hold them.
MAPPING_SETS = _sets(*ROOMS)
SETS = [*MAPPING_SETS, *_sets(case)]
KEYS = sorted({str(key) for keys in SETS for key in keys} | PATIENT_KEYS | {ADD, alike.LIKE})
CONDITIONS = [
    "exists", "=", "!=", "in", "not in", *COMPARE, "starts-with", "ends-with", "not starts-with", "matches", "event",
    "and", "or", "not",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_every_key_is_documented_and_in_the_schema(key: str) -> None:
    """The reference has a row of it, and an editor completes it."""
    assert f"| `{key}` |" in REFERENCE, f"{key} is not in mappings/reference.md"
    assert f'"{key}":' in SCHEMAS, f"{key} is in no JSON Schema"


def _rules() -> str:
    return (SHOWN / "resources/patient.yaml").read_text("utf-8")


@pytest.mark.parametrize("word", CONDITIONS)
def test_every_condition_is_documented_and_in_a_case(word: str) -> None:
    """The reference shows it, and a rule of the cases below has it."""
    assert re.search(rf"`[^`]*{re.escape(word)}[^`]*`", REFERENCE.partition("## Conditions")[2]), word
    conditions = re.findall(r'when: "([^"]*)"', _rules())
    assert all(parse_condition(condition) for condition in conditions)
    assert any(re.search(rf"(?<![\w<>!]){re.escape(word)}(?![\w=])", condition) for condition in conditions), word


def test_no_condition_is_forgotten() -> None:
    """The grammar has no word of a test that does not stand here."""
    tests = re.findall(r"\(\?P<op>([^)]*)\)|\(\?P<word>([^)]*)\)", TERM.pattern)
    words = {word for pair in tests for part in pair for word in part.split("|") if word}
    assert words <= set(CONDITIONS)


def test_the_cases_of_functions_and_conditions() -> None:
    """What a site's rules with them make is what its cases say."""
    source = load([SHOWN, ROOT], "adt")
    results = run_cases(cases_for(cases_of(SHOWN), source), source)
    assert len(results) == 2
    assert [result.differences for result in results] == [(), ()]


def test_every_function_makes_something_in_a_case() -> None:
    """Over all cases, those that ship and those beside this test, each function of the registry is used by a rule."""
    used: set[str] = set()
    for name in ("adt", "oru"):
        source = load([SHOWN, ROOT], name)
        types = [type_ for type_, one in source.documents.resources.items() if referred.FROM not in one.value]
        found = Coverage(sending(source, types) if name == "adt" else source, channel_of({}))
        for one in cases_for((*cases_of(ROOT), *cases_of(SHOWN)), source):
            found.add(parse(one.raw))
        rules = [one for _, one in found._trace.rules if id(one) in found.used]
        used |= {stage.name for rule in rules for stage in rule.stages if isinstance(stage, FunctionCall)}
    assert FUNCTIONS.keys() - used == {"left-out"}  # which makes nothing, but a warning
    assert any("value-left-out" in repr(one.expect) for one in cases_of(ROOT))
