"""The text of drafts: YAML with the evidence and the open decisions in comments."""

import re
from collections import Counter
from typing import Any, Final

from engine.hl7.events import ADT
from engine.mapping.compile import MappingSource

RESULTS: Final = "ORU"
# The shipped mappings, by type of message.
MAPPINGS: Final = {ADT: "adt", RESULTS: "oru"}
# The most lines of a kind: a longer list of authorities or senders is for a person to write.
MOST: Final = 200
IDENTITY: Final = "PID-3"
# Fields whose numbers may be added to those that identify a patient.
ALSO: Final = ("PID-2", "PID-4")
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ABSENT: Final = frozenset({"null"})


def quoted(text: str) -> str:
    """Return a text as YAML that is read as that text."""
    if _PLAIN.fullmatch(text) and text.lower() not in _ABSENT:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def events_of(source: MappingSource) -> dict[str, Any]:
    """Return the rows of a mapping's event table."""
    return dict(source.documents.events.value.get("events") or {})


def counted(counts: Counter[str], messages: int) -> str:
    """Return the most frequent counted texts, in a line."""
    return (
        ", ".join(f"{one or 'empty'} in {count}" for one, count in counts.most_common(5)) + f" of {messages} messages"
    )


def in_of(count: int, messages: int) -> str:
    """Return a count of all messages, in words."""
    return f"in {count} of {messages} messages"
