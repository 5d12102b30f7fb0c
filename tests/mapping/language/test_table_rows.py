"""Tables with rows in a CSV file, and with several keys: what is looked up, what is refused, and where it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.errors import ConfigurationError, MappingError
from engine.fhir.plan import Upsert
from engine.hl7.message import Message
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.cost import Costs
from engine.mapping.authoring.explain import explain
from engine.mapping.authoring.outcome import patient
from engine.mapping.compile import compile_mapping, load, read
from engine.mapping.files import table_rows
from engine.mapping.files.table_rows import read_rows
from tests.tiers import trials

Author = Callable[..., Path]
Make = Callable[..., Message]
TABLE = "table: ward\nsource: s\nlicence: none\nsystem: urn:w\nrows: ward.csv\n"
RULE = 'resource: Patient\nextends: shipped/patient\nadd:\n  extension:\n    - {{url: "urn:x", valueCoding: "{}"}}\n'
HEAD = TABLE.replace("rows: ward.csv\n", "")
SIMPLE = "PV1-3.1 | coding(ward)"
TWO = "PV1-3.1 | coding(ward PV1-3.4)"


def site(author: Author, rows: str, table: str = TABLE, rule: str = SIMPLE) -> list[Path]:
    """Return the folders of a site with a table, its rows and a rule."""
    folder = author(tables__ward=table, resources__patient=RULE.format(rule))
    (folder / "tables" / "ward.csv").write_bytes(rows.encode())
    return [folder, shipped("mappings")]


def coding(folders: list[Path], message: Make, place: str) -> tuple[Any, tuple[str, ...]]:
    """Return what a place is coded as, and the warnings."""
    plan = compile_mapping(read(folders, "adt"), channel_of({})).plan(
        message("A08", "PID|1||7^^^RVB^MR", f"PV1|1|I|{place}")
    )
    assert isinstance(plan.interactions[0], Upsert)
    made = patient(plan.interactions[0].patient).get("extension") or [{}]
    return made[-1].get("valueCoding"), plan.warnings


def problems(folders: list[Path]) -> list[str]:
    """Return the problems of a site, each with the name of its file and its line."""
    with pytest.raises(ConfigurationError) as caught:
        load(folders, "adt")
    return [f"{Path(one.file).name}:{one.line} {one.found}" for one in caught.value.problems]


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("3W", {"system": "urn:w", "code": "MED", "display": "Medicine, all"}),
        ("3w", {"system": "urn:w", "code": "MED", "display": "Medicine, all"}),
        ("4E", {"system": "urn:other", "code": "SUR"}),
        ("5N", None),
        ("6S", {"system": "urn:w", "code": "SIX"}),
        ("9X", {"code": "9X"}),
    ],
)
def test_a_row_is_looked_up(author: Author, message: Make, place: str, found: Any) -> None:
    """By its key in any case; a line of YAML replaces a row; a row without a code makes nothing."""
    rows = '\ufeffsystem,key,display,code\r\n,3W,"Medicine, all",MED\r\nurn:other,4E,,SUR\r\n\r\n'
    rows += ",5N,Five,\r\n,6S,x,OLD\r\n"
    folders = site(author, rows, TABLE + "codes: {6S: SIX}\n")
    made, warnings = coding(folders, message, place)
    assert made == found
    assert ("unmapped-code PV1-3" in warnings) == (place == "9X")


@pytest.mark.parametrize(
    ("place", "found"),
    [("3W^^^NORTH", "MED"), ("3W^^^SOUTH", "SUR"), ("3W", "ANY"), ("3w^^^north", "MED"), ("4E^^^NORTH", "4E|NORTH")],
)
@pytest.mark.parametrize("form", ["csv", "yaml"])
def test_two_keys(author: Author, message: Make, form: str, place: str, found: str) -> None:
    """The value and the further paths are the key, in a file as in YAML; an empty field is an empty key."""
    table = (
        HEAD
        + "keys: [ward, site]\n"
        + {"csv": "rows: ward.csv\n", "yaml": "codes: {3W|NORTH: MED, 3W|SOUTH: SUR, 3W|: ANY}\n"}[form]
    )
    folders = site(author, "site,ward,code\nNORTH,3W,MED\nSOUTH,3W,SUR\n,3W,ANY\n", table, TWO)
    assert coding(folders, message, place)[0]["code"] == found


def test_an_unknown_code_is_refused_where_the_table_says_so(author: Author, message: Make) -> None:
    """As of a table in YAML."""
    folders = site(author, "key,code\n3W,MED\n", TABLE + "unmapped: refuse\n")
    with pytest.raises(MappingError, match="unmapped-code"):
        coding(folders, message, "9X")


def test_a_shipped_table_gets_rows(author: Author, message: Make) -> None:
    """A site's rows lie over the codes of the shipped table."""
    folder = author(tables__administrative_sex="", resources__patient="resource: Patient\nextends: shipped/patient\n")
    (folder / "tables/administrative_sex.yaml").unlink()
    text = "table: administrative-sex\nextends: shipped/administrative-sex\nrows: sex.csv\n"
    (folder / "tables/administrative-sex.yaml").write_text(text)
    (folder / "tables/sex.csv").write_text("key,code,display\nF,other,Other\nW,female,Female\n")
    mapping = compile_mapping(read([folder, shipped("mappings")], "adt"), channel_of({}))
    found = []
    for sex in "FWM":
        planned = mapping.plan(message("A08", f"PID|1||7^^^RVB^MR|||||{sex}")).interactions[0]
        assert isinstance(planned, Upsert)
        found.append(patient(planned.patient).get("gender"))
    assert found == ["other", "female", "male"]


def test_a_code_that_the_element_does_not_have(author: Author) -> None:
    """The row of the CSV file is named."""
    text = "table: administrative-sex\nextends: shipped/administrative-sex\nrows: sex.csv\n"
    folder = author(**{"tables__administrative-sex": text})
    (folder / "tables/sex.csv").write_text("key,code\nW,female\nNO,mael\n")
    assert problems([folder, shipped("mappings")]) == ["sex.csv:3 the code 'mael'"]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("key,cod\n3W,MED\n", ["ward.csv:1 unknown column 'cod'", "ward.csv:1 no column 'code'"]),
        ("key,code,code\n3W,MED,x\n", ["ward.csv:1 the column 'code' twice"] * 2),
        ("key,code\n", ["ward.csv:1 a header without rows"]),
        ("", ["ward.csv:1 no column 'code'", "ward.csv:1 no column 'key'"]),
        ("key,code\n3W,MED\n3W,SUR\n", ["ward.csv:3 '3W' again"]),
        ("key,code\n3W\n,MED\n", ["ward.csv:2 1 cells", "ward.csv:3 a row without a key"]),
        ("key,code\n3W,...\n", ["ward.csv:2 the placeholder '...'"]),
        ("key,code,system\n3W,MED,here\n", ["ward.csv:2 the system 'here'"]),
        (f"key,code\n3W,{'x' * 1001}\n", ["ward.csv:2 a cell of 1001 characters"]),
        ('key,code\n3W,"MED\n', ["ward.csv:2 no CSV: unexpected end of data"]),
        ("key,code\n3W,M\0D\n", ["ward.csv:2 a NUL character"]),
        ("key,code\n" + "3W\n" * 50, [f"ward.csv:{line} 1 cells" for line in range(2, 22)]),
    ],
)
def test_what_is_wrong_with_a_file(author: Author, rows: str, found: list[str]) -> None:
    """Each fault has the line of the CSV file; of many the first twenty are named."""
    assert problems(site(author, rows)) == found


def test_a_file_that_cannot_be_read(author: Author, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is missing, too large, has too many rows, is not UTF-8, or is elsewhere."""
    folders = site(author, "key,code\n1,A\n2,B\n3,C\n")
    file = folders[0] / "tables" / "ward.csv"
    monkeypatch.setattr(table_rows, "MOST_ROWS", 2)
    assert problems(folders) == ["ward.csv:4 more than 2 rows"]
    monkeypatch.setattr(table_rows, "MOST_BYTES", 10)
    assert problems(folders) == ["ward.csv:1 21 bytes"]
    file.write_bytes(b"key,code\n\xff")
    assert problems(folders) == ["ward.csv:2 bytes that are not UTF-8"]
    file.unlink()
    assert problems(folders) == ["ward.csv:1 cannot be read (No such file or directory)"]
    assert problems(site(author, "", TABLE.replace("ward.csv", "../ward.csv"))) == ["ward.yaml:5 found '../ward.csv'"]


@pytest.mark.parametrize(
    ("table", "rule", "found"),
    [
        ("keys: [ward, site]\ncodes: {3W: MED}\n", TWO, "ward.yaml:6 found '3W'"),
        ("keys: [ward]\ncodes: {3W: MED}\n", SIMPLE, "ward.yaml:5 found ward"),
        ("keys: [ward, code]\ncodes: {3W|A: MED}\n", TWO, "ward.yaml:5 found 'code'"),
        ("keys: [ward, site]\ncodes: {3W|A: MED}\n", SIMPLE, "patient.yaml:5 1 of 2 keys (ward, site)"),
        (
            "keys: [ward, site]\ncodes: {3W|A: MED}\n",
            "PV1-3 | first-coding(ward PV1-3.4)",
            "patient.yaml:5 the table 'ward', whose keys are ward, site",
        ),
        ("codes: {3W: MED}\n", TWO, "patient.yaml:5 coding with 2 argument(s)"),
        (
            "keys: [ward, site]\ncodes: {3W|A: MED}\n",
            "PV1-3.1 | coding(ward PV1-99)",
            "patient.yaml:5 unknown field PV1-99",
        ),
        ("keys: [ward, site]\ncodes: {3W|A: MED}\n", "PV1-3.1 | coding(ward north)", "patient.yaml:5 found 'north'"),
    ],
)
def test_what_is_wrong_with_keys(author: Author, table: str, rule: str, found: str) -> None:
    """At the table, or at the line that uses it."""
    assert problems(site(author, "", HEAD + table, rule)) == [found]


def test_the_mapping_is_another_one_with_other_rows(author: Author) -> None:
    """Its hash, which is recorded with what it made, is of the CSV file, too; and an unsaved file is read."""
    folders = site(author, "key,code\n3W,MED\n")
    file = folders[0] / "tables" / "ward.csv"
    first = read(folders, "adt").hash
    assert read(folders, "adt").hash == first
    assert read(folders, "adt", {file: "key,code\n3W,SUR\n"}).hash != first
    file.write_text("key,code\n3W,SUR\n")
    assert read(folders, "adt").hash != first


def test_explain_names_the_row(author: Author, message: Make) -> None:
    """File and line of the CSV row, or of the YAML line in its place."""
    source = load(site(author, "key,code\n3W,MED\n4E,SUR\n", TABLE + "codes: {4E: X}\n"), "adt")
    found = []
    for place in ("3W", "4E"):
        explained = explain(source, channel_of({}), message("A08", "PID|1||7^^^RVB^MR", f"PV1|1|I|{place}"))
        rows = [row for one in explained.evidence for row in one.rows if row.table == "ward"]
        found += [(Path(row.file).name, row.line) for row in rows]
    assert found == [("ward.csv", 2), ("ward.yaml", 6)]


def test_further_keys_have_a_cost(author: Author) -> None:
    """A look-up and a step for each path."""
    one = Costs(load(site(author, "", HEAD + "codes: {3W: MED}\n"), "adt")).files["Patient"].most
    two = Costs(load(site(author, "", HEAD + "keys: [a, b]\ncodes: {3W|A: MED}\n", TWO), "adt")).files["Patient"].most
    assert (two.lookups, two.steps) == (one.lookups, one.steps + 1)


@given(text=st.text(st.sampled_from('key,code"\n\r\0;| Aé…\ufeff'), max_size=60))
@settings(max_examples=trials(300), derandomize=True, deadline=None)
def test_any_file_is_read_or_refused_with_a_line(text: str) -> None:
    """Whatever is in it."""
    found: list[Any] = []
    rows = read_rows(Path("x.csv"), ("key",), text, found)
    assert (rows is None) == bool(found)
    assert all(1 <= one.line <= text.count("\n") + text.count("\r") + 1 for one in found)
    assert rows is None or all(rows[key].line > 1 for key in rows)
