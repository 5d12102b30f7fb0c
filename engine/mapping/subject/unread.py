"""Unread text after an unescaped subcomponent separator (`Foo & Bar` as a city).

A component of a primitive type has no subcomponents in any version: its value ends at the separator. The entry has a
flag for each path that is cut; the sender has to write `\\T\\`.
"""

from functools import lru_cache
from typing import Final

from engine.hl7.message import Message
from engine.mapping.files.reference import data_types, parts, segments

UNREAD: Final = "subcomponent-unread"
# The most flags of one message.
MOST: Final = 5


def unread(message: Message) -> tuple[str, ...]:
    """Return a flag for each of the first paths whose value continues after a separator, each once."""
    repetition, component, mark, _ = message.dialect.cuts
    # The first one is in MSH-2: most messages have no other.
    if not mark or message.text.find(mark, message.text.find(mark) + 1) < 0:
        return ()
    found: dict[str, None] = {}
    for segment in message.segments[1:]:
        if mark not in segment.text:
            continue
        for number, field in enumerate(segment.text.split(message.delimiters.field)):
            for one in field.split(repetition) if mark in field else ():
                for at, text in enumerate(one.split(component), 1) if mark in one else ():
                    if mark in text and (path := _path(segment.name, number, at)) and _goes_on(text, mark):
                        found[path] = None
    return tuple(f"{UNREAD} {path}" for path in list(found)[:MOST])


def _goes_on(text: str, mark: str) -> bool:
    return bool(text.partition(mark)[2].strip(f" {mark}"))


@lru_cache(maxsize=4096)
def _path(segment: str, number: int, component: int) -> str:
    """Return the path of a component whose type never had subcomponents; '' for others, and if unknown."""
    field = segments().get(segment, {}).get(number)
    known = data_types().get(field.type_) if field else None
    if field is None or known is None or component > max(known, 1) or parts(field.type_, component):
        return ""
    return f"{segment}-{number}.{component}" if field.most else f"{segment}-{number}"
