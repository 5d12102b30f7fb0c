"""The element of a resource for a place in a mapping file."""

from typing import Final

from engine.mapping.files.document import Document
from engine.mapping.language.scope import Scope
from engine.mapping.resource.referred import ALSO, FROM, NUMBER

# Steps of a path in a file that are not elements.
WORDS: Final = frozenset({"each", "as", "first", "needs", "default", "fill", "also", "when", "unless"})
# Sections of files whose lines are elements of the resource.
ELEMENTS: Final = frozenset({"", "elements", "also", "value"})
# Sections of several parts with elements of their own; and the section of the identity.
PARTS: Final = frozenset({"levels", "segments", "kinds"})
IDENTITIES: Final = frozenset({"identity", "key"})


def element_of(scope: Scope) -> str:
    """Return the element of a resource that a place in a resource file is for; empty in any other file."""
    resource = scope.document.value.get("resource")
    return ".".join((str(resource), *element_names(scope.document, scope.path))) if resource else ""


def element_names(document: Document, path: tuple[str | int, ...]) -> tuple[str, ...]:
    """Return the elements on a path in a file; `period.end` is two of them.

    Places in other sections than those of elements keep the section's name: `merged.identifier`, `new.class`.
    """
    section, rest = (str(path[0]), path[1:]) if path else ("", ())
    if section in PARTS:
        section, rest = (str(path[2]), path[3:]) if len(path) > 2 else ("", ())
    if section == "status":
        return (str((document.value.get("status") or {}).get("element") or section),)
    if section in IDENTITIES and rest[:1] == (NUMBER,):
        section, rest = "identifier", rest[1:]
    elif section in IDENTITIES:
        return (section,)
    elif section == ALSO and FROM in document.value:
        section = "identifier"
    names = [] if section in ELEMENTS else [section]
    for step, below in zip(rest, (*rest[1:], ""), strict=False):
        if isinstance(step, str) and step not in WORDS and not step.endswith("[x]"):
            name, _, part = step.partition(".")
            names += [name] if below == part else step.split(".")
    return tuple(names)
