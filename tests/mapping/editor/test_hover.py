"""What is said of a word of a mapping file, and the value that its line makes of a message."""

from pathlib import Path

import pytest

from engine.mapping.editor.hover import ExampleMessage, ExampleValues, hover
from engine.mapping.language.functions import FUNCTIONS
from tests.mapping.editor.site import PATIENT, TEXT, marked, project

MESSAGE = b"MSH|^~\\&|A|RVB|||20250701||ADT^A28^ADT_A05|1|P|2.5.1\rPID|1||1^^^RVB^MR||Q^M||19840229|F\r"
CASES = "tests:\n  - {case: mine, event: A28, message: 'PID|1||1^^^RVB||A^B||19991231', expect: {action: deliver}}\n"


def said(folder: Path, text: str, **edited: str) -> str:
    """Return what is said at the mark of a text, without values."""
    plain, position = marked(text)
    found = hover(plain, position, folder / PATIENT, project(folder, edited))
    return found.text if found else ""


def test_a_function_is_explained_by_the_registry(tmp_path: Path) -> None:
    """Signature and text are those of the registry."""
    found = said(tmp_path, TEXT.replace("| date", "| da¦te"))
    assert found == f"`PATH | date -> date`\n\n{FUNCTIONS['date'].text}"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("  x: PID-5¦", "`PID-5` Patient name (XPN)"),
        ("  x: PI¦D-5.2 | upper", "`PID-5.2` Patient name, Given name (XPN)"),
        ("  x: XPN.¦1", "Family name"),
        ("  x: PID-5 | unl¦ess PID-7", "unless CONDITION"),
        ("  x: PID-5 | when PID-8 starts-¦with a", "starts-with"),
        ("  birthDa¦te: PID-7", "PATH | function"),
    ],
)
def test_words_are_explained(tmp_path: Path, line: str, words: str) -> None:
    """Paths by their names in HL7, words of conditions by their form, keys by the schema."""
    assert words in said(tmp_path, TEXT + line)


@pytest.mark.parametrize("line", ["  x: ZPI-3¦", "  x: 'wor¦d'", "# comme¦nt", "¦"])
def test_nothing_is_said_of_what_nothing_is_known_of(tmp_path: Path, line: str) -> None:
    """A Z field, a constant, a comment."""
    assert said(tmp_path, TEXT + line) == ""


def test_the_value_of_a_line_is_that_of_the_message_given(tmp_path: Path) -> None:
    """The message that the author works on is asked first."""
    text, position = marked(TEXT.replace("| date", "| da¦te"))
    site = project(tmp_path)
    found = hover(text, position, tmp_path / PATIENT, site, ExampleValues(site, (ExampleMessage(MESSAGE, "mine.hl7"),)))
    assert found is not None
    assert "Of mine.hl7:\n\n- PID-7 `19840229` → Patient.birthDate `1984-02-29`" in found.text


def test_without_a_message_the_cases_of_the_site_give_values(tmp_path: Path) -> None:
    """An open file of cases counts as typed; the shipped cases come after it."""
    text, position = marked(TEXT.replace("| date", "| da¦te"))
    site = project(tmp_path, {"tests/own.yaml": CASES})
    values = ExampleValues(site)
    found = hover(text, position, tmp_path / PATIENT, site, values)
    assert found is not None
    assert "Of case “mine”:\n\n- PID-7 `19991231` → Patient.birthDate `1999-12-31`" in found.text
    gender, place = marked(TEXT.replace("PID-8", "PID-¦8"))
    again = hover(gender, place, tmp_path / PATIENT, site, values)
    assert again is not None
    assert "→ Patient.gender `" in again.text
    assert "mine" not in again.text


def test_a_mapping_with_mistakes_has_no_values(tmp_path: Path) -> None:
    """The word is explained all the same."""
    text, position = marked(TEXT.replace("| date", "| da¦te") + "  name: PID-5 | dat\n")
    site = project(tmp_path, {str(PATIENT): text})
    found = hover(text, position, tmp_path / PATIENT, site, ExampleValues(site, (ExampleMessage(MESSAGE, "mine.hl7"),)))
    assert found is not None
    assert "Of " not in found.text
