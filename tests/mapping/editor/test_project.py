"""A folder as its editor has it: open texts in place of files, problems as the check reports them."""

from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.mapping.compile import load
from engine.mapping.editor.hl7_names import components_of, name_of
from engine.mapping.editor.project import MappingProject, diagnostics, root_of
from engine.mapping.language.expression import SegmentPath
from tests.mapping.editor.site import PATIENT, TEXT, project

WRONG = TEXT + "  name: PID-5 | dat\n"


def test_an_open_file_is_checked_as_it_is_typed(tmp_path: Path) -> None:
    """What is typed counts, and what is on the disk does not; both ways."""
    assert diagnostics(project(tmp_path)) == ()
    (found,) = diagnostics(project(tmp_path, {str(PATIENT): WRONG}))
    problem = found.problem
    assert (problem.file, problem.line, problem.column) == (str(tmp_path / PATIENT), 6, 3)
    assert (problem.found, problem.expected) == ("unknown function 'dat'", "did you mean 'date'?")
    (tmp_path / PATIENT).write_text(WRONG, "utf-8")
    assert len(diagnostics(project(tmp_path))) == 1
    assert diagnostics(project(tmp_path, {str(PATIENT): TEXT})) == ()


def test_the_problems_are_those_of_the_check(tmp_path: Path) -> None:
    """Problem by problem what `mappings check` raises."""
    text = "resource: Patient\nextends: shipped/patient\nelements:\n  birthdate: PID-7 | date\n  gender: PID8\n"
    project(tmp_path)
    (tmp_path / PATIENT).write_text(text, "utf-8")
    with pytest.raises(ConfigurationError) as refused:
        load((tmp_path, shipped("mappings")), "adt")
    assert [one.problem for one in diagnostics(project(tmp_path))] == list(refused.value.problems)


def test_cases_and_the_way_back_are_checked_too(tmp_path: Path) -> None:
    """A case without a message, and a segment file of the outgoing mapping that extends nothing."""
    edited = {
        "tests/own.yaml": "tests: [{case: a}]\n",
        "out/adt.yaml": "mapping: adt\nextends: shipped/out/adt\nevent: {}\n",
    }
    found = [one.problem for one in diagnostics(project(tmp_path, edited))]
    assert [(Path(one.file).name, one.found) for one in found] == [
        ("adt.yaml", "unknown key 'event'"),
        ("own.yaml", "no message"),
    ]


def test_a_line_that_costs_too_much_is_a_warning(tmp_path: Path) -> None:
    """What `mappings check` warns of is no error here either."""
    text = "resource: Patient\nextends: shipped/patient\nelements:\n  birthDate: PID-7 | date | when PV1-2 != I\n"
    found = diagnostics(project(tmp_path, {str(PATIENT): text}))
    assert found
    assert all(one.is_warning for one in found)


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("adt.yaml", ""),
        ("resources/patient.yaml", ""),
        ("tests/x.yaml", ""),
        ("out/adt.yaml", ""),
        ("out/segments/pid.yaml", ""),
        ("out/datatypes/cx.yaml", ""),
        ("out/tests/a.yaml", ""),
        ("ours/resources/patient.yaml", ""),
        ("other/resources/patient.yaml", "other"),
    ],
)
def test_a_file_says_by_its_place_which_folder_it_is_of(tmp_path: Path, file: str, folder: str) -> None:
    """Files of one mapping alone are below its name, where that has an event table."""
    (tmp_path / "ours.yaml").touch()
    assert root_of(tmp_path / file) == tmp_path / folder


def test_a_file_is_looked_at_in_its_mapping(tmp_path: Path) -> None:
    """By its name or its folder; else in `adt`, else in the first of the site."""
    for name in ("ours", "zeta"):
        (tmp_path / f"{name}.yaml").write_text(f"mapping: {name}\nextends: shipped/adt\n", "utf-8")
    whole = MappingProject((tmp_path, shipped("mappings")))
    assert whole.names == ("ours", "zeta")
    assert whole.looking_at(Path("zeta/resources/patient.yaml")).name == "zeta"
    assert whole.looking_at(Path("zeta.yaml")).name == "zeta"
    assert whole.looking_at(PATIENT).name == "ours"
    assert MappingProject((shipped("mappings"), shipped("mappings"))).looking_at(PATIENT).name == "adt"


def test_names_are_those_of_the_standard() -> None:
    """Also of what the newest version has no more."""
    assert (
        name_of(SegmentPath("PID", 5, component=1, subcomponent=2)) == "Patient name, Family name, Own surname prefix"
    )
    assert name_of(SegmentPath("PID", 19)) != ""
    assert name_of(SegmentPath("ZPI", 1)) == ""
    assert [one.path for one in components_of("CX", "PID-3")][:2] == ["PID-3.1", "PID-3.2"]
    assert list(components_of("ST", "PID-7")) == []
