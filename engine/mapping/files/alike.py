"""Parts of a resource file that are like another part: `OBX under OBR` has only its differences from `OBX`."""

from dataclasses import replace
from typing import Any, Final

from engine.mapping.files.document import Document, Documents, Problems
from engine.mapping.files.overlay import Key
from engine.mapping.files.reference import nearest

LIKE: Final = "like"
SEGMENTS: Final = "segments"
ELEMENTS: Final = "elements"

Moved = dict[tuple[Key, ...], tuple[Key, ...]]


def alike(documents: Documents, problems: Problems) -> Documents:
    """Return the files of a mapping with each `like` part completed."""
    return replace(documents, resources={name: _whole(one, problems) for name, one in documents.resources.items()})


def _whole(document: Document, problems: Problems) -> Document:
    """Return a resource file in which each `like` segment has its model's lines in addition to its own."""
    parts = document.value.get(SEGMENTS)
    if not isinstance(parts, dict) or not any(isinstance(one, dict) and LIKE in one for one in parts.values()):
        return document
    completed, moved = dict(parts), dict(document.moved)
    for name, value in parts.items():
        if not isinstance(value, dict) or LIKE not in value:
            continue
        other = str(value[LIKE])
        model = parts.get(other)
        if not isinstance(model, dict) or LIKE in model:
            whole = {one for one, part in parts.items() if isinstance(part, dict) and LIKE not in part}
            problems.add(document, (SEGMENTS, name, LIKE), f"found {other!r}", nearest(other, whole, SEGMENTS))
            model = {}
        completed[name] = _joined(name, other, model, value, moved)
    return replace(document, value={**document.value, SEGMENTS: completed}, moved=moved)


def _joined(name: str, other: str, model: dict[str, Any], value: dict[str, Any], moved: Moved) -> dict[str, Any]:
    """Return a part with the lines of its model, and note the places of these."""
    own = {key: part for key, part in value.items() if key != LIKE}
    elements, authored = model.get(ELEMENTS), own.get(ELEMENTS) or {}
    for key in model.keys() - own.keys():
        moved[SEGMENTS, name, key] = (SEGMENTS, other, key)
    if not isinstance(elements, dict) or not isinstance(authored, dict):
        return {**model, **own}
    for element in elements.keys() - authored.keys():
        moved[SEGMENTS, name, ELEMENTS, element] = (SEGMENTS, other, ELEMENTS, element)
    return {**model, **own, ELEMENTS: {**elements, **authored}}
