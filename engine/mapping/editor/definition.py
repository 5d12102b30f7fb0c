"""Where a line of a mapping file leads: to the shipped rule that it replaces, to a table, a data type or a resource."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from engine.config.source import scan_text
from engine.errors import ConfigurationError
from engine.mapping.editor.cursor import EditorPosition, cursor_at
from engine.mapping.editor.project import MappingProject
from engine.mapping.files.document import Document
from engine.mapping.files.overlay import ADD, EXTENDS, REPLACES, Key

TABLE_NAMES: Final = re.compile(r"\([^()]*$")


class FileLine(NamedTuple):
    """A line of a file, from 1."""

    file: str
    line: int


def definition(text: str, position: EditorPosition, file: Path, project: MappingProject) -> FileLine | None:
    """Return where the word at a position is defined, or else the shipped rule that its line replaces; None for none.

    `text` is the file's as it is being typed.
    """
    cursor, documents = cursor_at(text, position), project.documents
    if documents is None:
        return None
    lead, word = cursor.value or "", cursor.whole_word
    if TABLE_NAMES.search(lead) and word in documents.tables:
        return _first_line(documents.tables[word])
    if (lead.rstrip().endswith("|") or cursor.keys[-1:] == ("as",)) and word in documents.datatypes:
        return _first_line(documents.datatypes[word])
    if lead.rstrip().endswith("|") and word in documents.resources:
        return _first_line(documents.resources[word])
    document = project.document(file)
    return _replaced(document, text, position) if document else None


def _first_line(document: Document) -> FileLine:
    return FileLine(document.source.file, 1)


def _replaced(document: Document, text: str, position: EditorPosition) -> FileLine | None:
    """Return the rule of the shipped file that a line replaces, or the file itself for the line that names it."""
    below = document.below
    path = path_at(text, position.line)
    if below is None or not path:
        return None
    if path[0] in {EXTENDS, REPLACES}:
        return _first_line(below)
    if path[0] == ADD:
        path = ("elements", *path[1:2])
    source, path = below.origin(path)
    while len(path) > 1 and path not in source.places:
        path = path[:-1]
    return FileLine(source.file, source.places[path][0]) if path in source.places else None


def path_at(text: str, line: int) -> tuple[Key, ...]:
    """Return the outermost path that begins in a line of YAML; empty where none does, or the text is no YAML."""
    try:
        places = scan_text(text, "").places
    except ConfigurationError:
        return ()
    begun = [path for path, place in places.items() if place[0] == line and path]
    return min(begun, key=len, default=())
