"""The schemas for editors: made of the engine's own tables, shipped as they are made, held by every file."""

from pathlib import Path

import jsonschema_rs
import pytest

from engine.config.schema import schema_text
from engine.config.settings import shipped
from engine.config.source import parse, read
from engine.mapping.authoring.schema import FOLDERS, editor_line, kind_of_file, schemas
from engine.mapping.files.document import KINDS, OUT, OUT_DATATYPES, OUT_SEGMENTS
from engine.mapping.language.functions import FUNCTIONS
from tests.config.metaschema import faults, unreadable

ROOT = shipped("mappings")
FILES = sorted(file.relative_to(ROOT) for file in ROOT.glob("**/*.yaml"))
SCHEMAS = schemas()
VALIDATORS = {kind: jsonschema_rs.Draft7Validator(schema) for kind, schema in SCHEMAS.items()}
PATIENT = "resource: Patient\nextends: shipped/patient\nelements:\n"


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_the_shipped_schemas_are_the_ones_of_the_engine(kind: str) -> None:
    """A key, function or element that is new is in the file: `adt-engine mappings schema --out mappings/schema`."""
    assert (ROOT / "schema" / f"{kind}.json").read_text("utf-8") == schema_text(SCHEMAS[kind])


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_no_editor_shows_a_pattern(kind: str) -> None:
    """Who writes what does not match reads what was expected, with an example, and no regular expression."""
    assert unreadable(SCHEMAS[kind]) == []


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_every_schema_is_one_by_the_metaschema(kind: str) -> None:
    """An editor refuses a schema that is none, and completes nothing: an enum names each value once."""
    assert faults(SCHEMAS[kind]) == []


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_shipped_file_holds_to_its_schema(file: Path) -> None:
    """What ships is valid by the schema that its first line names for editors."""
    first = (ROOT / file).read_text("utf-8").splitlines()[0]
    assert first == editor_line(file), "the first line names the schema for editors"
    assert (ROOT / file).parent.joinpath(first.partition("$schema=")[2]).resolve().is_file()
    errors = [
        f"{error.instance_path}: {error.message}" for error in VALIDATORS[kind_of_file(file)].iter_errors(_value(file))
    ]
    assert errors == []


def _value(file: Path) -> object:
    return read(ROOT / file).value


def test_every_folder_of_files_has_a_schema() -> None:
    """A kind of file that is read has a schema, and none is left over."""
    assert {*FOLDERS} == {*KINDS, "tests", OUT, OUT_SEGMENTS, OUT_DATATYPES, f"{OUT}/tests"}
    assert {*FOLDERS.values(), "mapping"} == {*SCHEMAS}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param("mapping", "mapping: adt\nevent: {}\n", id="key"),
        pytest.param("mapping", "mapping: adt\nevents: {A01: {do: upsrt patient}}\n", id="do"),
        pytest.param("mapping", "mapping: adt\nevents: {A1: {do: upsert patient}}\n", id="event"),
        pytest.param("mapping", "events: {}\n", id="no name"),
        pytest.param("resource", "resource: Pateint\n", id="resource"),
        pytest.param("resource", PATIENT + "  birthdate: PID-7\n", id="element"),
        pytest.param("resource", PATIENT + "  birthDate: PID7 | date\n", id="path"),
        pytest.param("resource", PATIENT + "  birthDate: PID-7 | dat\n", id="function"),
        pytest.param("resource", PATIENT + "  gender: PID-8 | code\n", id="argument"),
        pytest.param("resource", PATIENT + "  birthDate: [PID-7]\n", id="list"),
        pytest.param("resource", PATIENT + "  name: {each: PID-5, az: XPN}\n", id="word"),
        pytest.param("datatype", "datatype: XPM\nto: HumanName\n", id="data type"),
        pytest.param("datatype", "datatype: XPN\nto: HumanNam\n", id="type"),
        pytest.param("datatype", "datatype: XPN\nto: HumanName\nelements: {famly: XPN.1}\n", id="part"),
        pytest.param("table", "table: t\nunmapped: keep\n", id="policy"),
        pytest.param("table", "table: t\ncodes: {A: {cod: b}}\n", id="row"),
        pytest.param("table", "table: t\nback: [a]\n", id="back"),
        pytest.param("out-mapping", "mapping: adt\nevents: {patient-create: {event: A28}}\n", id="change"),
        pytest.param("out-mapping", "mapping: adt\nevents: {patient-created: {event: A99}}\n", id="event of a change"),
        pytest.param("out-segment", "segment: PIX\nof: patient\n", id="segment"),
        pytest.param("out-segment", "segment: PID\nof: pateint\n", id="of"),
        pytest.param("out-segment", "segment: PID\nfields: {PID7: birthDate}\n", id="field"),
        pytest.param("out-segment", "segment: PID\nfields: {PID-5: {eech: name}}\n", id="entry"),
        pytest.param("out-datatype", "datatype: CX\nof: Identifer\n", id="FHIR type"),
        pytest.param("out-datatype", "datatype: CX\ncomponents: {CX: value}\n", id="component"),
        pytest.param("out-tests", "tests: [{change: patient-created, expect: {}}]\n", id="no patient"),
        pytest.param("tests", "tests: [{case: a}]\n", id="no message"),
        pytest.param("tests", "tests: [{message: PID, expect: {acton: x}}]\n", id="expectation"),
    ],
)
def test_what_is_wrong_is_underlined(kind: str, text: str) -> None:
    """An editor sees most of what `mappings check` tells."""
    assert not VALIDATORS[kind].is_valid(parse(text, "x").value)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_are_explained_where_they_are_typed(name: str) -> None:
    """Each function stands with its meaning in the description that editors show."""
    told = SCHEMAS["resource"]["definitions"]["expression"]["description"]
    assert f"{name}: {FUNCTIONS[name].text}" in told
