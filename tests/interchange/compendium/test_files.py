"""Laboratories' files checked: every problem at once, each with file, line and column, and what would do."""

import json
import shutil
import time
from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.interchange.kernel.check_digit import is_loinc, is_npi, to_npi
from engine.interchange.orders.compendium.files.read import ReadFile, read_file
from tests.interchange.nursery import ran

SAMPLE = shipped("samples") / "compendium/cedar-valley.yaml"
LABORATORY = "laboratory: {id: lab-1, name: River Lab}\n"


def read(folder: Path, text: str, table: str | bytes | None = None) -> ReadFile:
    """Read a file of this text, beside a table."""
    if table is not None:
        (folder / "lab.csv").write_bytes(table if isinstance(table, bytes) else table.encode())
    (folder / "lab.yaml").write_text(text)
    return read_file(folder / "lab.yaml")


def told(folder: Path, found: ReadFile) -> list[str]:
    """Return the problems of a file as they are told, without its folder."""
    return [str(problem).replace(f"{folder}/", "") for problem in found.problems]


def mistakes(name: str) -> list[tuple[str, list[str]]]:
    """Return the texts of a file of mistakes, each with what is told of it."""
    found = []
    for block in (Path(__file__).parent / name).read_text().split("----\n")[1:]:
        lines = block.splitlines()
        text = "".join(f"{line}\n" for line in lines if not line.startswith("> "))
        found.append((text, [line.removeprefix("> ") for line in lines if line.startswith("> ")]))
    return found


@pytest.mark.parametrize(("text", "expected"), mistakes("mistakes.txt"))
def test_each_mistake_is_told_with_its_place(tmp_path: Path, text: str, expected: list[str]) -> None:
    """A mistake is told once, where it stands, with what would do."""
    assert told(tmp_path, read(tmp_path, text)) == [f"lab.yaml:{one}" for one in expected]


@pytest.mark.parametrize(("table", "expected"), mistakes("mistakes_of_tables.txt"))
def test_each_mistake_of_a_table_is_told_with_its_place(tmp_path: Path, table: str, expected: list[str]) -> None:
    """Lines and columns of a table are those of its cells, also behind quotes and breaks within them."""
    sets = "question_sets: {fasting: [{id: f, text: F, type: boolean}]}\ntable: lab.csv\n"
    found = told(tmp_path, read(tmp_path, LABORATORY + sets, table))
    assert [one for one in found if "no test" not in one] == [f"lab.csv:{one}" for one in expected]


def test_a_table_says_what_tests_say(tmp_path: Path) -> None:
    """Blanks around cells, quotes, a byte order mark and lines of Windows are no part of what a table says."""
    table = (
        '\ufeffcode, title ,synonyms,ask,specimen,specimen_code\r\nA ,"Say ""A""" , x ; y z,q,Blood, 12\r\n\r\nB,T\r\n'
    )
    text = "question_sets: {q: [{id: f, text: F, type: boolean}]}\ndefaults: {specimen: Serum}\ntable: lab.csv\n"
    found = read(tmp_path, LABORATORY + text, table)
    assert found.problems == ()
    assert found.compendium is not None
    first, second = (test.test for test in found.compendium.tests)
    assert (first.code, first.title, first.synonyms, first.ask) == ("A", 'Say "A"', ("x", "y z"), ("q",))
    assert first.specimen is not None
    assert (first.specimen.text, first.specimen.code) == ("Blood", "12")
    assert second.specimen is not None
    assert second.specimen.text == "Serum"
    assert [len(test.questions) for test in found.compendium.tests] == [1, 0]


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A file or a table that is not there, no YAML, or not UTF-8."""
    assert "cannot be read" in str(read_file(tmp_path / "none.yaml").problems[0])
    assert told(tmp_path, read(tmp_path, "tests:\n\t- x")) == [
        "lab.yaml:2:1: a tab, which cannot start anything; write valid YAML (indent with spaces)"
    ]
    missing = told(tmp_path, read(tmp_path, LABORATORY + "table: gone.csv\n"))
    latin = "code,title\nA,Münster\n".encode("latin-1")
    assert told(tmp_path, read(tmp_path, LABORATORY + "table: lab.csv\n", latin)) == [
        "lab.csv:2:4: bytes that are not UTF-8; UTF-8: save the table as CSV UTF-8"
    ]
    assert missing == ["gone.csv:1:1: cannot be read (No such file or directory); give a readable file"]


def test_thousands_of_mistakes_are_told_in_seconds(tmp_path: Path) -> None:
    """The time goes with the number of mistakes: 3,000 misspelt keys are not looked up in one another."""
    tests = "".join(f"- {{code: A{n}, titlee: T}}\n" for n in range(3000))
    began = time.process_time()
    assert len(read(tmp_path, f"{LABORATORY}tests:\n{tests}").problems) == 3000
    assert time.process_time() - began < 6


def test_check_digits() -> None:
    """The last digit of a LOINC code and of an NPI is that of Luhn's rule; an NPI's counts its issuer."""
    assert all(map(is_loinc, ("24331-1", "5671-3", "4548-4", "57021-8")))
    assert not any(map(is_loinc, ("24331-2", "5671", "4548-", "²-2", "5617-3")))
    assert is_npi("1234567893")
    assert to_npi("123456789") == "1234567893"
    assert not any(map(is_npi, ("1234567890", "3234567893", "123456789", "1243567893")))


def test_the_command_tells_all_files_at_once(tmp_path: Path) -> None:
    """Exit 0 without a problem, 1 with any; as JSON each problem is a value."""
    done = ran("interchange", "compendium", "check", str(SAMPLE))
    assert (done.returncode, done.stdout) == (0, f"{SAMPLE}: 29 tests, no problems\n")
    for name in ("cedar-valley.yaml", "cedar-valley.csv"):
        shutil.copy(SAMPLE.with_name(name), tmp_path)
    wrong = tmp_path / "cedar-valley.yaml"
    wrong.write_text(
        wrong.read_text().replace("required: yes", "required: yess", 1).replace("  last-dose:", "  lastdose:")
    )
    done = ran("interchange", "compendium", "check", str(wrong), str(SAMPLE))
    assert done.returncode == 1
    unused = "no test asks it: name it at ask, or remove it"
    near = "one of 'no', 'yes' or 'when-collected'; did you mean yes?"
    assert done.stderr.splitlines() == [
        f"warning: {wrong}:55:3: question_sets.lastdose: the set lastdose; {unused}",
        f"{tmp_path}/cedar-valley.csv:26:23: tests.24.ask.0: no set of questions last-dose; did you mean lastdose?",
        f"{tmp_path}/cedar-valley.csv:27:38: tests.25.ask.0: no set of questions last-dose; did you mean lastdose?",
        f"{wrong}:20:7: question_sets.fasting.0.required: found 'yess'; {near}",
    ]
    assert done.stdout == f"{SAMPLE}: 29 tests, no problems\n"
    told = json.loads(ran("interchange", "compendium", "check", "--json", str(wrong)).stdout)
    assert (len(told["problems"]), len(told["warnings"])) == (3, 1)
    assert told["problems"][2] == {
        "file": str(wrong),
        "line": 20,
        "column": 7,
        "path": "question_sets.fasting.0.required",
        "found": "found 'yess'",
        "expected": "one of 'no', 'yes' or 'when-collected'; did you mean yes?",
    }
