"""Trigger events and message structures of ADT, by HL7 version, and which messages a feed may send."""

import csv
import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

ADT: Final = "ADT"


def types_of(events: Iterable[str]) -> frozenset[str]:
    """Return the types of messages of events as they are named: `A01` of ADT, `ORU^R01` of ORU; without any ADT."""
    return frozenset(event.partition("^")[0] if "^" in event else ADT for event in events) or frozenset({ADT})


class AcceptedMessages(NamedTuple):
    """What a channel's mapping is for: types of messages, and the trigger events of ADT that its table names.

    Of other types there is no table of events: what becomes of one that the mapping does not name, its `others` says.
    """

    types: frozenset[str] = frozenset({ADT})
    events: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The types, as people read them."""
        return " and ".join(sorted(self.types))


ADT_ALONE: Final = AcceptedMessages()


VERSIONS: Final = (
    *("2.1", "2.2", "2.3", "2.3.1", "2.4", "2.5", "2.5.1", "2.6"),
    *("2.7", "2.7.1", "2.8", "2.8.1", "2.8.2", "2.9", "2.9.1"),
)
"""The versions of HL7 that are accepted, oldest first."""

_OWN_STRUCTURE: Final = VERSIONS[: VERSIONS.index("2.4")]
_TOKEN: Final = re.compile(r"\[\{|\}\]|[\[\]{}()]|[A-Z][A-Z0-9_]+")
_OPENING: Final = {"[": (False, False), "{": (True, True), "[{": (False, True)}


class StructurePart(NamedTuple):
    """A segment of a structure, or a group with its own `parts`."""

    name: str
    required: bool
    repeating: bool
    parts: tuple["StructurePart", ...] = ()


def _rows(name: str) -> list[dict[str, str]]:
    text = (resources.files("engine.hl7") / "tables" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


_TRIGGERS: Final = {row["trigger"]: row for row in _rows("adt_trigger_structure.csv")}
_GRAMMARS: Final = {(row["version"], row["structure"]): row["segments"] for row in _rows("adt_structure_grammar.csv")}
SEGMENTS: Final = frozenset(one for text in _GRAMMARS.values() for one in re.findall(r"\b[A-Z][A-Z0-9]{2}\b", text))
"""All segments of all structures of ADT, in any version."""
TRIGGERS: Final = frozenset(_TRIGGERS)
"""All trigger events of ADT in any version, and Z99 of IHE PAM."""


def known_trigger(trigger: str) -> bool:
    """Tell whether any version of HL7 (or IHE PAM, for Z99) knows a trigger event of ADT."""
    return trigger in _TRIGGERS


@cache
def structure(version: str, trigger: str) -> str:
    """Return the message structure of a trigger event in a version, '' for an unknown version or trigger.

    Up to 2.3.1 each has its own. A trigger that a version has withdrawn keeps the structure of the last version that
    knew it, as it is sent all the same; one that the version does not know yet has that of the first that does.
    """
    if trigger not in _TRIGGERS or version not in VERSIONS:
        return ""
    at = VERSIONS.index(version)
    named = (_named(each, trigger) for each in (*reversed(VERSIONS[: at + 1]), *VERSIONS[at:]))
    return next(filter(None, named), "")


def _named(version: str, trigger: str) -> str:
    """Return the structure that one version's table names for a trigger, '' for none."""
    if version in _OWN_STRUCTURE:
        own = f"ADT_{trigger}"
        return own if (version, own) in _GRAMMARS else ""
    return _TRIGGERS[trigger].get(version, "")


@cache
def grammar(version: str, name: str) -> tuple[StructurePart, ...]:
    """Return the parts of a structure in a version, () for an unknown one.

    A version without a table of its own, or whose table lacks the structure, has that of the nearest older version
    with it, else of the nearest newer one.
    """
    if version not in VERSIONS:
        return ()
    at = VERSIONS.index(version)
    for each in (*reversed(VERSIONS[: at + 1]), *VERSIONS[at:]):
        text = _GRAMMARS.get((each, name))
        if text:
            return _parsed(text)
    return ()


def _parsed(text: str) -> tuple[StructurePart, ...]:
    tokens = _TOKEN.findall(text)
    tokens.reverse()
    return _parts(tokens, "")


def _parts(tokens: list[str], closing: str) -> tuple[StructurePart, ...]:
    """Read parts off the end of the reversed tokens up to a closing bracket."""
    parts: list[StructurePart] = []
    while tokens and tokens[-1] != closing:
        token = tokens.pop()
        required, repeating = _OPENING.get(token, (True, False))
        if token in _OPENING:
            parts.append(_part(tokens, required=required, repeating=repeating))
            tokens.pop()
        else:
            tokens.append(token)
            parts.append(_part(tokens, required=True, repeating=False))
    return tuple(parts)


def _part(tokens: list[str], *, required: bool, repeating: bool) -> StructurePart:
    name = tokens.pop()
    if not tokens or tokens[-1] != "(":
        return StructurePart(name, required, repeating)
    tokens.pop()
    parts = _parts(tokens, ")")
    tokens.pop()
    return StructurePart(name, required, repeating, parts)
