"""From a line of a site's file to the shipped rule that it replaces, to a table, a data type or a resource file."""

from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.mapping.editor.definition import FileLine, definition
from tests.mapping.editor.site import PATIENT, TEXT, marked, project

SHIPPED_PATIENT = shipped("mappings") / PATIENT


def line_of(text: str) -> int:
    """Return the first line of the shipped Patient that begins with a text."""
    lines = SHIPPED_PATIENT.read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(text))


def led(folder: Path, text: str) -> FileLine | None:
    """Return where the mark of a text leads."""
    plain, position = marked(text)
    return definition(plain, position, folder / PATIENT, project(folder, {str(PATIENT): plain}))


@pytest.mark.parametrize(
    ("before", "after", "file", "line"),
    [
        ("birthDate:", "birth¦Date:", "resources/patient.yaml", "  birthDate:"),
        ("PID-8", "PI¦D-8", "resources/patient.yaml", "  gender:"),
        ("shipped/patient", "shipped/¦patient", "resources/patient.yaml", "#"),
        ("administrative-sex", "administ¦rative-sex", "tables/administrative-sex.yaml", ""),
        ("PID-7 | date", "PID-7 | XP¦N", "datatypes/xpn.yaml", ""),
        ("PID-7 | date", "PID-7 | Practi¦tioner", "resources/practitioner.yaml", ""),
    ],
)
def test_a_line_leads_to_what_it_replaces_or_names(
    tmp_path: Path, before: str, after: str, file: str, line: str
) -> None:
    """The shipped rule of the element, the shipped file, or the file of a name."""
    assert before in TEXT
    found = led(tmp_path, TEXT.replace(before, after))
    assert found == FileLine(str(shipped("mappings") / file), line_of(line) if line else 1)


def test_an_added_entry_leads_to_the_element_that_it_is_added_to(tmp_path: Path) -> None:
    """`add` names elements as the shipped file has them."""
    found = led(tmp_path, "resource: Patient\nextends: shipped/patient\nadd:\n  iden¦tifier: {each: PID-19, as: CX}\n")
    assert found == FileLine(str(SHIPPED_PATIENT), line_of("  identifier:"))


@pytest.mark.parametrize("line", ["  photo: P¦ID-7 | date\n", "  photo: [¦\n", "¦# nothing\n"])
def test_what_replaces_nothing_leads_nowhere(tmp_path: Path, line: str) -> None:
    """A new element, a text that is no YAML, a comment: there is no guess."""
    found = led(tmp_path, TEXT + line)
    assert found is None or "photo" in line
    if found is not None:
        assert found.file == str(SHIPPED_PATIENT)
