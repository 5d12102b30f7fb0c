"""Checks that the Patient's file writes an identity as it is searched: with the message's number, unchanged.

A patient is searched by the numbers of `identity.from` as sent. No search finds a number that is written in another
form (`CX.1 | strip-start(0)`): the next message is held, or creates a second chart.
"""

from collections.abc import Mapping
from typing import Any, Final

from engine.mapping.files.document import Document, Problems
from engine.mapping.files.overlay import Key
from engine.mapping.language.expression import Alternative, Constant, FunctionCall, RepetitionPath
from engine.mapping.language.identifier import MERGED, IdentityRules
from engine.mapping.subject.identity_entries import VALUE, alternatives, identity_entries

# Functions that leave a number unchanged, or make nothing of it.
UNCHANGED: Final = "identifier-value"


def check_identity_values(
    patient: Document, datatypes: Mapping[str, Document], rules: IdentityRules, problems: Problems
) -> None:
    """Note each line that writes another value of an identity than the searched one."""
    fields = {*rules.fields, *rules.named, *(MERGED[one] for one in rules.fields if one in MERGED)}
    reported: set[tuple[str, tuple[Key, ...]]] = set()
    for document, path, source, parts, _ in identity_entries(patient, datatypes, fields):
        wrong, at = _changed(parts.get(VALUE)), (*path, VALUE)
        if wrong and (document.name, at) not in reported:
            reported.add((document.name, at))
            found = f"{wrong!r} as the value of {source}, by which patients are searched as it came"
            expected = f"write CX.1 | {UNCHANGED}; of {source} no other function can be used here"
            problems.add(document, at, found, expected)


def _changed(value: Any) -> str:
    """Return the alternative that does not write the number itself; empty if all do."""
    return next((str(one) for one in alternatives(value) if not _is_as_it_came(one)), "")


def _is_as_it_came(one: Alternative) -> bool:
    head = one.head
    if isinstance(head, Constant) or head.component > 1 or head.subcomponent > 1:
        return False
    if isinstance(head, RepetitionPath) and head.type_ != "CX" and head.component == 0:
        return False
    return all(stage.name == UNCHANGED for stage in one.stages if isinstance(stage, FunctionCall))
