"""What mapping files leave open: the placeholders and marks of drafts."""

from collections.abc import Iterator
from typing import Any

from engine.config.channel import UNDECIDED
from engine.config.source import AuthoredFile
from engine.errors import Problem
from engine.mapping.files.document import Documents
from engine.mapping.files.overlay import Key


def undecided_in(documents: Documents) -> Iterator[Problem]:
    """Yield a problem for each placeholder `urn:decide:...` and each mark `# decide:` of the site's own files."""
    for document in documents.everything():
        if not document.ships:
            found = list(_placeholders(document.source, document.source.value, ()))
            yield from found
            yield from document.source.undecided({one.line for one in found})


def _placeholders(source: AuthoredFile, value: Any, path: tuple[Key, ...]) -> Iterator[Problem]:
    if isinstance(value, str) and value.startswith(UNDECIDED):
        yield source.problem(path, f"the placeholder {value}", "write the URL or URI that it is to be")
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _placeholders(source, part, (*path, key))
