"""Checks of authored code tables."""

from typing import Any, Final

from engine.mapping.files.document import Document, Problems
from engine.mapping.files.reference import kind_of
from engine.mapping.files.table import UnmappedPolicy
from engine.mapping.language.identifier import URI

# Which HL7 code is written for a FHIR code that several have.
BACK: Final = "back"
KEYS: Final = frozenset({"table", "extends", "source", "licence", "hl7", "system", "unmapped", "codes", BACK})
ROW_KEYS: Final = frozenset({"code", "display", "system", "original"})

# The placeholder of a draft for a value that a person must supply.
PLACEHOLDER: Final = "..."


def check_table(document: Document, problems: Problems) -> bool:
    """True if a document is a valid table; faults go to `problems`."""
    before = len(problems.found)
    value = document.value
    problems.keys(document, (), KEYS, value)
    for key in ("source", "licence"):
        if not isinstance(value.get(key), str):
            problems.add(document, (key,), f"no {key}", f"name the {key} of the codes")
    _check_policy(value.get("unmapped"), document, problems)
    _check_system(value, ("system",), document, problems)
    back = value.get(BACK) or {}
    if not isinstance(back, dict) or not all(one is None or isinstance(one, str) for one in back.values()):
        problems.add(document, (BACK,), f"found {kind_of(back)}", "expected lines such as female: F")
        return False
    codes = value.get("codes")
    if not isinstance(codes, dict) or not codes:
        problems.add(document, ("codes",), "no codes", "write them as 'CODE: {code: ..., display: ...}'")
        return False
    for code, row in codes.items():
        _check_row(row, ("codes", code), document, problems)
    return len(problems.found) == before


def _check_policy(policy: Any, document: Document, problems: Problems) -> None:
    words = {word.value for word in UnmappedPolicy if word is not UnmappedPolicy.DEFAULT}
    if policy is None or (isinstance(policy, str) and policy in words):
        return
    if isinstance(policy, dict) and list(policy) == ["default"] and policy["default"]:
        return
    problems.add(
        document, ("unmapped",), f"found {kind_of(policy)}", f"expected {', '.join(sorted(words))} or {{default: CODE}}"
    )


def _check_row(row: Any, path: tuple[str, ...], document: Document, problems: Problems) -> None:
    if row is None or isinstance(row, str):
        return
    if not isinstance(row, dict):
        problems.add(document, path, f"found {kind_of(row)}", "expected a code, or {code: ..., display: ...}")
        return
    problems.keys(document, path, ROW_KEYS, row)
    for key in sorted(row):
        if str(row[key]).strip() == PLACEHOLDER:
            problems.add(document, (*path, key), f"the placeholder {PLACEHOLDER!r}", "write what the code stands for")
    _check_system(row, (*path, "system"), document, problems)


def _check_system(value: dict[str, Any], path: tuple[str, ...], document: Document, problems: Problems) -> None:
    system = value.get("system")
    if system and not URI.fullmatch(str(system)):
        problems.add(document, path, f"found {system!r}", "expected the code system's URI, such as urn:x")
