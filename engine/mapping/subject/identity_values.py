"""Whether the Patient's file writes an identity as it is searched: under the number that the message gives, unchanged.

A patient is looked for by the numbers of `identity.from` as they came. A number that is written otherwise
(`CX.1 | strip-start(0)`) is found by no search: the next message is held, or makes a second chart.
"""

from collections.abc import Mapping
from typing import Any, Final

from engine.mapping.files.document import Document, Problems
from engine.mapping.files.overlay import Key
from engine.mapping.language.expression import Alternative, Constant, FunctionCall, RepetitionPath
from engine.mapping.language.identifier import MERGED, IdentityRules
from engine.mapping.subject.identity_entries import VALUE, alternatives, identity_entries

# What leaves a number as it is, or makes nothing of it.
UNCHANGED: Final = "identifier-value"


def check_identity_values(
    patient: Document, datatypes: Mapping[str, Document], rules: IdentityRules, problems: Problems
) -> None:
    """Note each line that writes another value of an identity than the one that is searched."""
    fields = {*rules.fields, *rules.named, *(MERGED[one] for one in rules.fields if one in MERGED)}
    told: set[tuple[str, tuple[Key, ...]]] = set()
    for document, path, source, parts, _ in identity_entries(patient, datatypes, fields):
        wrong, at = _changed(parts.get(VALUE)), (*path, VALUE)
        if wrong and (document.name, at) not in told:
            told.add((document.name, at))
            found = f"{wrong!r} as the value of {source}, by which patients are searched as it came"
            expected = f"write CX.1 | {UNCHANGED}; of {source} no other function can be used here"
            problems.add(document, at, found, expected)


def _changed(value: Any) -> str:
    """Return the alternative that writes something else than the number itself; empty where none does."""
    return next((str(one) for one in alternatives(value) if not _is_as_it_came(one)), "")


def _is_as_it_came(one: Alternative) -> bool:
    head = one.head
    if isinstance(head, Constant) or head.component > 1 or head.subcomponent > 1:
        return False
    if isinstance(head, RepetitionPath) and head.type_ != "CX" and head.component == 0:
        return False
    return all(stage.name == UNCHANGED for stage in one.stages if isinstance(stage, FunctionCall))
