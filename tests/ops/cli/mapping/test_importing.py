"""`mappings import`: the files that it writes, which pass the checks, and what it refuses with its line."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from engine.config.settings import shipped
from engine.errors import UsageError
from engine.mapping.authoring import imported_table
from engine.mapping.authoring.imported_table import ImportOptions, imported, table_files
from engine.mapping.files.document import Problems, read_document
from engine.mapping.files.table_rows import CsvRow
from engine.mapping.language.check_table import check_table, checked_table
from tests.ops.command import group
from tests.tiers import trials

app = group("mappings")
RUNNER = CliRunner()
CONCEPT_MAP: dict[str, Any] = {
    "resourceType": "ConceptMap",
    "id": "WardMap",
    "url": "urn:cm",
    "version": "2",
    "date": "2026-02-03T10:00:00Z",
    "copyright": "CC0-1.0",
    "group": [
        {
            "source": "urn:a",
            "target": "urn:t",
            "element": [
                {
                    "code": "A",
                    "display": "Aa",
                    "target": [
                        {"code": "far", "equivalence": "wider"},
                        {"code": "near", "display": "Near", "equivalence": "equal"},
                        {"code": "no", "equivalence": "unmatched"},
                    ],
                },
                {"code": "B", "display": "Bb", "target": [{"code": "no", "equivalence": "disjoint"}]},
            ],
            "unmapped": {"mode": "fixed", "code": "other"},
        },
        {"source": "urn:b", "target": "urn:u", "element": [{"code": "C", "target": [{"code": "c"}]}]},
    ],
}
VALUE_SET: dict[str, Any] = {
    "resourceType": "ValueSet",
    "name": "Bed Status",
    "url": "urn:vs",
    "copyright": "CC0",
    "expansion": {
        "contains": [
            {"system": "urn:s", "code": "O", "display": "Occupied", "contains": [{"system": "urn:s", "code": "O1"}]},
            {"system": "urn:s", "abstract": True, "code": "X", "contains": [{"system": "urn:s", "code": "F"}]},
        ]
    },
}


def _ran(folder: Path, name: str, content: str | dict[str, Any], *words: str) -> tuple[Any, Path]:
    """Return the result of an import of a file, and the folder that it wrote into."""
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return RUNNER.invoke(app, ["import", str(file), "--out", str(folder / "site"), *words]), folder / "site"


def _rows(site: Path, name: str) -> dict[str, CsvRow]:
    """Return the rows of a checked table."""
    problems = Problems()
    document = read_document([site], Path("tables", f"{name}.yaml"), "table", problems, {})
    assert document is not None
    assert check_table(document, problems), problems.found
    assert document.rows is not None
    return {key: document.rows[key] for key in document.rows}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('\ufeffCost centre;Department;Name\n4100;cardiology;"Heart; all"\n4200;surgery;\n', ()),
        ("note\tkey\tcode\tdisplay\nx\t4100\tcardiology\tHeart; all\ny\t4200\tsurgery\t\n", ()),
        ("a,b,c,d\n1,Heart; all,cardiology,4100\n2,,surgery,4200\n", ("--key", "d", "--code", "c", "--display", "b")),
        ("k~code~display\n4100~cardiology~Heart; all\n4200~surgery~\n", ("--delimiter", "~")),
    ],
)
def test_a_csv_file(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    """By its header, its order or the options; whatever separates its cells."""
    result, site = _ran(tmp_path, "Cost Centres.csv", text, "--licence", "internal", "--system", "urn:d", *words)
    assert result.exit_code == 0, result.output
    assert "cost-centres: 2 rows" in result.stdout
    rows = _rows(site, "cost-centres")
    assert {key: row[1:3] for key, row in rows.items()} == {
        "4100": ("cardiology", "Heart; all"),
        "4200": ("surgery", ""),
    }
    head = (site / "tables/cost-centres.yaml").read_text()
    assert 'source: "Cost Centres.csv"\nlicence: "internal"\ndate: "20' in head
    assert 'system: "urn:d"' in head


def test_a_csv_file_with_two_keys(tmp_path: Path) -> None:
    """Each `--key` is a column, and a key of the table."""
    text = "Ward,Site,Department\n3W,NORTH,med\n3W,,any\n"
    words = ("--licence", "x", "--key", "Ward", "--key", "Site", "--code", "Department")
    result, site = _ran(tmp_path, "wards.csv", text, *words)
    assert "concept(wards PATH)" in result.stdout
    assert [*_rows(site, "wards")] == ["3W|NORTH", "3W|"]


def test_a_concept_map(tmp_path: Path) -> None:
    """All groups, each with its system; the closest target; what the resource says of itself."""
    result, site = _ran(tmp_path, "map.json", CONCEPT_MAP)
    assert result.exit_code == 0, result.output
    rows = _rows(site, "ward-map")
    assert {key: row[1:] for key, row in rows.items()} == {
        "A": ("near", "Near", "urn:t", "Aa"),
        "B": ("", "", "", "Bb"),
        "C": ("c", "", "urn:u", ""),
    }
    head = (site / "tables/ward-map.yaml").read_text()
    assert 'source: "urn:cm 2"\nlicence: "CC0-1.0"\ndate: "2026-02-03"\n' in head
    result, site = _ran(tmp_path, "map.json", CONCEPT_MAP, "--group", "urn:a", "--name", "one")
    document = read_document([site], Path("tables/one.yaml"), "table", Problems(), {})
    assert document is not None
    table = checked_table("one", document, Problems())
    assert (table.default and table.default.code, [*table.codes]) == ("other", ["A", "B"])


def test_a_value_set(tmp_path: Path) -> None:
    """An expansion, or the concepts that it lists; not what is abstract."""
    result, site = _ran(tmp_path, "set.json", VALUE_SET)
    assert result.exit_code == 0, result.output
    assert {key: row[1:3] for key, row in _rows(site, "bed-status").items()} == {
        "O": ("O", "Occupied"),
        "O1": ("O1", ""),
        "F": ("F", ""),
    }
    listed = VALUE_SET | {"compose": {"include": [{"system": "urn:s", "concept": [{"code": "Q"}]}]}}
    del listed["expansion"]
    _, site = _ran(tmp_path, "set.json", listed, "--name", "listed")
    assert [*_rows(site, "listed")] == ["Q"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """Unless it is asked for."""
    assert _ran(tmp_path, "a.csv", "key,code\n1,A\n", "--licence", "x")[0].exit_code == 0
    result, site = _ran(tmp_path, "a.csv", "key,code\n1,B\n", "--licence", "x")
    assert isinstance(result.exception, UsageError)
    assert "is there already" in str(result.exception)
    assert _rows(site, "a")["1"].code == "A"
    assert _ran(tmp_path, "a.csv", "key,code\n1,B\n", "--licence", "x", "--force")[0].exit_code == 0
    assert _rows(site, "a")["1"].code == "B"


def _group(**changes: Any) -> dict[str, Any]:
    return CONCEPT_MAP | {"group": [CONCEPT_MAP["group"][0] | changes]}


@pytest.mark.parametrize(
    ("name", "content", "words", "found"),
    [
        ("a.csv", "key,code\n1,A\n1,B\n", (), "a.csv:3: '1' again, as in 2; keep one of them"),
        ("a.csv", "key,code\n1,A,B\n,C\n", (), "a.csv:2: 3 cells; the header has 2"),
        ("a.csv", "key,code\n,C\n", (), "a.csv:2: a row without a key"),
        ("a.csv", "key,code\n1,...\n", (), "a.csv:2: found '...'"),
        ("a.csv", f"key,code\n1,{'x' * 1001}\n", (), "a.csv:2: a cell of 1001 characters"),
        ("a.csv", 'key,code\n1,"A\n', (), "a.csv:2: no CSV"),
        ("a.csv", "key,code\n", (), "a.csv:1: no rows"),
        ("a.csv", "", (), "a.csv:1: no column ''; the header has nothing"),
        ("a.csv", "key,code,key\n1,A,B\n", (), "a.csv:1: the column 'key' twice"),
        ("a.csv", "k,c\n1,A\n", ("--key", "x"), "a.csv:1: no column 'x'; the header has k, c"),
        ("a.csv", "key,code\n1,A\n", ("--name", "No Name"), "'No Name' is no name of a table"),
        ("a.csv", "key,code\n1,A\n", ("--delimiter", "ab"), "--delimiter ab is not one character"),
        ("a.csv", "key,code\n1,A\n", ("--system", "here"), "a.yaml:5:1: system: found 'here'"),
        ("a.json", "{\n x", (), "a.json:2: no JSON"),
        ("a.json", {"resourceType": "Patient"}, (), "a.json:1: found 'Patient'"),
        ("a.json", CONCEPT_MAP, ("--group", "urn:x"), "group: no group of urn:x; there are urn:a, urn:b"),
        ("a.json", _group(element=[{"code": "A"}, {"code": "A"}]), (), "group[0].element[1]: 'A' again"),
        ("a.json", _group(element=["A"]), (), "group[0].element[0]: no object"),
        (
            "a.json",
            {"resourceType": "ValueSet", "copyright": "x", "compose": {"include": [{"system": "urn:s"}]}},
            (),
            "compose.include[0]: codes that are not listed; expand the ValueSet",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, content: Any, words: tuple[str, ...], found: str) -> None:
    """With file and line, or the path in the resource; nothing is written."""
    result, site = _ran(tmp_path, name, content, "--licence", "x", *words)
    assert isinstance(result.exception, UsageError)
    assert found in str(result.exception)
    assert not site.exists()


def test_a_licence_is_needed(tmp_path: Path) -> None:
    """Of the file or of the option."""
    result, _ = _ran(tmp_path, "a.csv", "key,code\n1,A\n")
    assert "give --licence" in str(result.exception)


def test_bytes_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not UTF-8, or too many."""
    with pytest.raises(UsageError, match=r"a.csv:2: bytes that are not UTF-8"):
        imported(b"key,code\n\xff", "a.csv", ImportOptions())
    monkeypatch.setattr(imported_table, "MOST_BYTES", 3)
    with pytest.raises(UsageError, match="at most 3 bytes"):
        imported(b"key,code\n1,A\n", "a.csv", ImportOptions())


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8).map(str.strip)


@given(rows=st.dictionaries(CELL.filter(bool), CELL, min_size=1, max_size=5))
@settings(max_examples=trials(100), derandomize=True, deadline=None)
def test_what_is_written_is_read_back(rows: dict[str, str]) -> None:
    """Codes of any characters."""
    concepts = [{"code": code, "display": display} for code, display in rows.items()]
    resource = {"resourceType": "ValueSet", "compose": {"include": [{"system": "urn:s", "concept": concepts}]}}
    made = imported(json.dumps(resource).encode(), "a.json", ImportOptions())
    folder, problems = shipped("mappings") / "no-such-site", Problems()
    edited = {folder / path: text for path, text in table_files(made, "a").items()}
    document = read_document([folder], Path("tables/a.yaml"), "table", problems, edited)
    assert problems.found == []
    assert document is not None
    assert document.rows is not None
    assert [*document.rows] == [row.keys[0] for row in made.rows]


@given(
    raw=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)),
    name=st.sampled_from(["a.csv", "a.json"]),
)
@settings(max_examples=trials(300), derandomize=True, deadline=None)
def test_any_file_is_imported_or_refused(raw: bytes, name: str) -> None:
    """Whatever is in it."""
    try:
        imported(raw, name, ImportOptions())
    except UsageError as error:
        assert str(error).startswith(name)  # noqa: PT017 - what is refused says where
