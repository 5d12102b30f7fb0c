"""What authors can say beyond what the shipped files use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.config.settings import shipped
from engine.errors import ConfigurationError, MappingError
from engine.fhir.plan import Upsert
from engine.hl7.message import Message
from engine.mapping.authoring.case import channel_of, read_cases
from engine.mapping.authoring.outcome import patient
from engine.mapping.compile import compile_mapping, load, read

Author = Callable[..., Path]
Make = Callable[..., Message]
HEAD = "resource: Patient\nextends: shipped/patient\nelements:\n"


def _patient(folder: Path, message: Message) -> Any:
    mapping = compile_mapping(read([folder, shipped("mappings")], "adt"), channel_of({}))
    interaction = mapping.plan(message).interactions[0]
    assert isinstance(interaction, Upsert)
    return patient(interaction.patient)


@pytest.mark.parametrize(
    ("line", "segments", "element", "value"),
    [
        pytest.param("language: PID-15(2).1", ("PID|1||1" + "|" * 12 + "en~es",), "language", "es", id="repetition"),
        pytest.param("language: PID-3[CX.5=XX].1", ("PID|1||1^^^A~7^^^A^XX",), "language", "7", id="predicate"),
        pytest.param("language: PID-3[CX.5=YY].1", ("PID|1||1^^^A~7^^^A^XX",), "language", None, id="predicate unmet"),
        pytest.param("language: PID-3[CX.5=XX].4", ("PID|1||1^^^A~7^^^B^XX",), "language", "B", id="another component"),
        pytest.param("language: PID-3[CX.5=XX].4.2", ("PID|1||7^^^B&C^XX",), "language", "C", id="another part"),
        pytest.param("language: ZPI-3.2", ("PID|1||1", "ZPI|1|2|a^b"), "language", "b", id="Z segment"),
        pytest.param("language: en | when event in (A01)", ("PID|1||1",), "language", None, id="constant and event"),
        pytest.param("language: ZPI-1 | when event = A08", ("PID|1||1", "ZPI|de"), "language", "de", id="event"),
        pytest.param("language: ZPI-1 | unless ZPI-2 valued", ("PID|1||1",), "language", None, id="bad condition"),
        pytest.param(
            "name: {each: ZPI, when: ZPI-1 = Y, family: ZPI-2}",
            ("PID|1||1", "ZPI|Y|A", "ZPI|N|B", "ZPI|Y|C"),
            "name",
            [{"family": "A"}, {"family": "C"}],
            id="each Z segment with a condition",
        ),
        pytest.param(
            "maritalStatus: {coding: [{code: PID-16.1, system: PID-16.3 | coding-system}], text: PID-16.2}",
            ("PID|1||1" + "|" * 13 + "M^Married^99X",),
            "maritalStatus",
            {"coding": [{"code": "M", "system": "urn:adt-engine:code-system:99X"}], "text": "Married"},
            id="template of an object",
        ),
    ],
)
def test_lines(
    author: Author, message: Make, line: str, segments: tuple[str, ...], element: str, value: object
) -> None:
    """Each line makes its element, or none, or is refused when it is read."""
    folder = author(resources__patient=f"{HEAD}  {line}\n")
    if "valued" in line:
        with pytest.raises(ConfigurationError):
            load([folder, shipped("mappings")], "adt")
        return
    assert _patient(folder, message("A08", *segments)).get(element) == value


def test_nested_data_types(author: Author, message: Make) -> None:
    """A component may be read as a data type of its own: its subcomponents are the cells."""
    folder = author(
        datatypes__dln="datatype: DLN\nextends: shipped/dln\nelements:\n  type: DLN.2 | CWE\n",
    )
    made = _patient(folder, message("A08", "PID|1||1" + "|" * 17 + "D1^OR&Oregon&99ST"))
    licence = next(item for item in made["identifier"] if item["value"] == "D1")
    assert licence["type"]["text"] == "Oregon"
    assert licence["type"]["coding"][0]["code"] == "OR"


def test_a_table_may_refuse(author: Author, message: Make) -> None:
    """A code that such a table lacks makes the message one that cannot be mapped, by place."""
    folder = author(
        tables__religion="table: religion\nextends: shipped/religion\nunmapped: refuse\n",
    )
    with pytest.raises(MappingError, match="unmapped-code at PID-17"):
        _patient(folder, message("A08", "PID|1||1" + "|" * 14 + "ZZZ"))


def test_a_default_concept_stands_for_what_a_table_lacks(author: Author, message: Make) -> None:
    """With a default the table's own code comes out, with a warning."""
    folder = author(
        tables__marital="table: marital-status\nreplaces: shipped/marital-status\nsource: x\nlicence: x\n"
        "system: urn:m\nunmapped: {default: U}\ncodes: {M: M}\n"
    )
    (folder / "tables/marital.yaml").rename(folder / "tables/marital-status.yaml")
    made = _patient(folder, message("A08", "PID|1||1" + "|" * 13 + "Q"))
    assert made["maritalStatus"]["coding"] == [{"system": "urn:m", "code": "U"}]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("test: []", "no list 'tests'", id="no list"),
        pytest.param("tests: [{case: a}]", "no message", id="no message"),
        pytest.param("tests: [{message: PID, expect: {patien: {}}}]", "did you mean 'patient'?", id="key"),
        pytest.param("tests: [{message: PID, channel: {listen: {}}}]", "unknown key 'listen'", id="channel"),
        pytest.param("tests: [{message: PID|1}]", "no expect; say what comes out", id="no expect"),
        pytest.param("tests: [{message: a.hl7}]", "no segments; expected segments, one a line; or file", id="text"),
        pytest.param("tests: [{file: a.hl7}]", "found 'a.hl7'; expected a file", id="no file"),
        pytest.param("tests: [{event: a01, message: PID|1}]", "unknown event 'a01'; did you mean 'A01'?", id="event"),
        pytest.param("tests: [{message: PID|1, channel: {timezone: X/Y}}]", "'X/Y' is no time zone", id="zone"),
        pytest.param("tests: [{message: PID, expect: x}]", "expected a map", id="no map"),
        pytest.param("tests: [{message: PID|1, expect: {relays: x}}]", "{radiology: {PID-5: X^Y}}", id="no relay"),
        pytest.param("tests: [{message: PID|1, expect: {relays: {r: {pid: x}}}}]", "such as PID-5.1", id="no part"),
        pytest.param("tests: [", "valid YAML", id="no YAML"),
    ],
)
def test_case_files_are_checked_too(author: Author, text: str, told: str) -> None:
    """A wrong case file names its problem and place."""
    folder = author(own=text)
    with pytest.raises(ConfigurationError, match=r"own\.yaml:[12]:") as caught:
        read_cases([folder / "own.yaml"])
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        pytest.param("tables__own", "table: own\ncodes: {A: b}\n", "no source", id="source"),
        pytest.param("tables__own", "table: own\nsource: x\nlicence: x\n", "no codes", id="codes"),
        pytest.param(
            "tables__own",
            "table: own\nsource: x\nlicence: x\nunmapped: drop\ncodes: {A: b}\n",
            "found 'drop'",
            id="policy",
        ),
        pytest.param(
            "tables__own",
            "table: own\nsource: x\nlicence: x\ncode: {}\ncodes: {A: [b]}\n",
            "unknown key 'code'",
            id="key",
        ),
        pytest.param("datatypes__own", "datatype: OWN\nelements: {}\n", "no 'to'", id="to"),
        pytest.param(
            "datatypes__own", "datatype: OWN\nto: Nothing\nelements: {}\n", "unknown FHIR type 'Nothing'", id="type"
        ),
        pytest.param(
            "datatypes__own",
            "datatype: CWE\nto: CodeableConcept\nvalue: CWE | CWE\n",
            "CWE refers to itself",
            id="circle",
        ),
        pytest.param(
            "datatypes__xad",
            "datatype: XAD\nfoo: 1\nto: Address\nelements: {city: XAD.3}\n",
            "unknown key 'foo'",
            id="datatype key",
        ),
        pytest.param("tables__own", "codes: {A: b}\n", "no line 'table: NAME'", id="no name"),
        pytest.param(
            "tables__own",
            "table: religion\nextends: shipped/own\nsource: x\nlicence: x\ncodes: {A: b}\n",
            "a file that ships",
            id="extends",
        ),
        pytest.param(
            "tables__own",
            "table: religion\nsource: x\nlicence: x\ncodes: {A: b}\n",
            "'religion' is what religion.yaml is about",
            id="twice",
        ),
        pytest.param(
            "resources__patient",
            HEAD + "  contact: {each: NK1, name: NK1-2 | XPN, telecom: {each: NK1-5, as: XTN, when: NK1-7}}\n",
            "from within one of its repetitions",
            id="beyond the repetition",
        ),
    ],
)
def test_other_files_are_checked_too(author: Author, name: str, text: str, told: str) -> None:
    """Tables and data types are held to their form."""
    with pytest.raises(ConfigurationError) as caught:
        load([author(**{name: text}), shipped("mappings")], "adt")
    assert told in str(caught.value)
