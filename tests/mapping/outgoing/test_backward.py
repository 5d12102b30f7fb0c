"""Tables and authorities read backwards: one code for each, or a problem with its place."""

import pytest

from engine.config.source import scan_text
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.files.document import Document, Problems
from engine.mapping.files.setting import setting_of
from engine.mapping.files.table import make_table
from engine.mapping.language.identifier import Identifiers, IdentityRules
from engine.mapping.language.reading import Cells
from engine.mapping.outgoing.backward import (
    BackwardAuthorities,
    BackwardTable,
    NumberAuthority,
    SystemName,
    check_backward,
)
from engine.mapping.outgoing.change import OutgoingSetting

BASE = "urn:adt-engine:authority:"
SETTING = OutgoingSetting(
    authorities={"RVB": "https://mrn.example", "1.2.3": "https://mrn.example", "RVB^AN": "https://an.example"},
)
AUTHORITIES = BackwardAuthorities(SETTING, {"SS": "http://hl7.org/fhir/sid/us-ssn"})


def _read(text: str) -> tuple[BackwardTable, list[str]]:
    source = scan_text(text, "t.yaml")
    problems = Problems()
    document = Document(source, source.value)
    table = check_backward(make_table("t", source.value), document, problems)
    return table, [str(one) for one in problems.found]


def test_a_table_that_is_not_unique_is_a_problem() -> None:
    """The second of the codes is the place, and the hint is the line to add."""
    _table, problems = _read("table: t\ncodes:\n  F: female\n  W: female\n  M: male\n")
    (problem,) = problems
    assert problem.startswith(
        "t.yaml:4:3: codes.W: F and W are all 'female', so that the table cannot be read backwards;"
    )
    assert problem.endswith("say which is written: back: {female: F}")


def test_the_file_says_which_code_is_written() -> None:
    """One of them, none, or that of a system among several."""
    table, problems = _read(
        "table: t\nback: {female: W, other: , 'urn:b|x': Y}\n"
        "codes: {F: female, W: female, A: other, B: other, X: {code: x, system: 'urn:a'}, "
        "Y: {code: x, system: 'urn:b'}, Z: {code: x, system: 'urn:b'}}\n"
    )
    assert problems == []
    assert (table.of_code("female"), table.of_code("other"), table.of_code("nothing")) == ("W", None, None)
    assert table.of_coding({"system": "urn:b", "code": "x"}) == "Y"
    assert table.of_coding({"system": "urn:a", "code": "x"}) == "X"


def test_a_code_that_is_the_fhir_code_is_written() -> None:
    """`es` of es, spa and Spanish needs no line."""
    table, problems = _read("table: t\ncodes: {spa: es, es: es, Spanish: es}\n")
    assert problems == []
    assert table.of_code("es") == "es"


@pytest.mark.parametrize("line", ["female: X", "femal: F"])
def test_what_back_names_is_in_the_table(line: str) -> None:
    """A code that does not exist is a mistake."""
    _table, problems = _read(f"table: t\nback: {{{line}}}\ncodes: {{F: female, W: female}}\n")
    assert any(f"found {line}" in one for one in problems)


@pytest.mark.parametrize(
    ("system", "found"),
    [
        ("https://mrn.example", NumberAuthority("RVB", "1.2.3", "ISO", configured=True)),
        ("https://an.example", NumberAuthority("RVB", type_="AN", configured=True)),
        ("https://mrn.example#VN", NumberAuthority("RVB", "1.2.3", "ISO", "VN", configured=True)),
        ("http://hl7.org/fhir/sid/us-ssn", NumberAuthority(type_="SS", configured=True)),
        (f"{BASE}ENT%201", NumberAuthority("ENT 1")),
        (f"{BASE}default", NumberAuthority()),
        (f"{BASE}ENT#PRN", NumberAuthority("ENT", type_="PRN")),
        (f"{BASE}PID-2", NumberAuthority(place="PID-2")),
        (f"{BASE}DL:NY", NumberAuthority(place="DL")),
        ("urn:oid:2.16.840", NumberAuthority("", "2.16.840", "ISO")),
        ("urn:uuid:6f1c", NumberAuthority("", "6f1c", "UUID")),
        ("https://other.example/x", NumberAuthority("", "https://other.example/x", "URI")),
        ("", NumberAuthority()),
    ],
)
def test_systems(system: str, found: NumberAuthority) -> None:
    """A configured system first, then what the engine makes of a name, then universal ids."""
    assert AUTHORITIES.of(system) == found


@pytest.mark.parametrize("cx", ["1^^^RVB", "1^^^ENT&1.2.3.4&ISO", "1^^^NEW YORK", "1", "1^^^&1.2.9&ISO"])
def test_the_incoming_system_leads_back_to_its_authority(cx: str) -> None:
    """What `identifier-system` makes of CX.4 is read as that authority again."""
    channel = channel_of({"authorities": {"RVB": "https://mrn.example"}})
    parts = cx.split("^")
    namespace, *universal = (parts[3] if len(parts) > 3 else "").split("&")
    message = parse(f"MSH|^~\\&|A|B|||1||ADT^A01|1|P|2.5.1\rPID|1||{cx}".encode())
    (cells,) = message.named("PID")[0].cells(3)
    assert isinstance(cells, Cells)
    system = Identifiers(IdentityRules(), setting_of(channel)).system(cells, "PID-3").uri
    back = BackwardAuthorities(OutgoingSetting(authorities=channel.authorities), {}).of(system)
    assert (back.namespace == namespace) or (universal and back.universal == universal[0])


def test_names_of_coding_systems() -> None:
    """Tables of HL7, local names, OIDs, and what has no name."""
    names = SystemName(_read("table: t\ncodes: {SCT: 'http://snomed.info/sct'}\n")[0])
    assert names.of("http://terminology.hl7.org/CodeSystem/v2-0001") == "HL70001"
    assert names.of("urn:adt-engine:code-system:99X%20Y") == "99X Y"
    assert names.of("http://snomed.info/sct") == "SCT"
    assert names.of("urn:oid:1.2.3") == "1.2.3"
    assert names.of("https://x.example") == "https://x.example"
