"""A site's mapping folder for the tests of editors, and a text with the cursor in it."""

from pathlib import Path

from engine.config.settings import shipped
from engine.mapping.editor.cursor import EditorPosition
from engine.mapping.editor.project import MappingProject

PATIENT = Path("resources/patient.yaml")
TEXT = """resource: Patient
extends: shipped/patient
elements:
  birthDate: PID-7 | date
  gender: PID-8 | code(administrative-sex)
"""
CURSOR = "¦"


def project(folder: Path, edited: dict[str, str] | None = None) -> MappingProject:
    """Return the project of a folder with a Patient of its own."""
    file = folder / PATIENT
    if not file.exists():
        file.parent.mkdir(parents=True)
        file.write_text(TEXT, "utf-8")
    texts = {folder / path: text for path, text in (edited or {}).items()}
    return MappingProject((folder, shipped("mappings")), texts)


def marked(text: str) -> tuple[str, EditorPosition]:
    """Return a text without its cursor mark, and where that was."""
    before, _, after = text.partition(CURSOR)
    return before + after, EditorPosition(before.count("\n") + 1, len(before) - before.rfind("\n"))
